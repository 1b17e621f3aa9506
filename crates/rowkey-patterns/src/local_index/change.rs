//! What a change of entities writes: one transaction of the entities and their copies.
//!
//! The transaction is made from what was read, which is all there is to know as long as everybody
//! writes this way. Where somebody did not (or an index is being built), a row of the transaction is
//! missing, or there although it should not be. The service then names that row; it is looked at,
//! the operation is adjusted, and the whole transaction is sent again under the same conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rowkey::index::Scope;
use rowkey::{
    DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Match, Outcome, Result, Stored, Table,
    Transaction,
};

use super::alongside::Alongside;
use super::indexed::Indexed;
use crate::index_row::{IndexRow, Keys, primary_key, primary_keys};

/// How often a transaction is sent again in all, besides once for each of its rows.
const SPARE_ROUNDS: usize = 8;

/// The rows of a transaction in the making.
pub(super) struct Changes<'e, E> {
    rows: Vec<Change<'e, E>>,
    alongside: Option<Arc<Alongside<E>>>,
}

struct Change<'e, E> {
    write: Write<'e, E>,
    /// Whether its condition is the one that holds other writers off: it is never relaxed.
    guarded: bool,
}

enum Write<'e, E> {
    Insert(&'e E),
    Replace(&'e E, Match),
    Delete(Keys, Match),
    InsertCopy(IndexRow<'e, E>),
    ReplaceCopy(IndexRow<'e, E>, Match),
    UpsertCopy(IndexRow<'e, E>),
    DeleteCopy(Keys, Match),
    /// A row that [`Alongside`] adds.
    Note(DynamicEntity),
}

/// The indexes of `E` that are in its partition.
pub(super) fn local_positions<E: Entity>() -> impl Iterator<Item = usize> {
    let local = |position: &usize| E::INDEXES[*position].scope == Scope::SamePartition;
    (0..E::INDEXES.len()).filter(local)
}

impl<'e, E: Entity + Send + Sync> Changes<'e, E> {
    pub(super) fn new(alongside: Option<Arc<Alongside<E>>>) -> Self {
        Self { rows: Vec::new(), alongside }
    }

    /// Adds a new entity.
    pub(super) fn insert(&mut self, entity: &'e E) -> Result<()> {
        let keys = primary_keys(entity)?;
        self.push(Write::Insert(entity), false);
        for position in local_positions::<E>() {
            if let Some(copy) = IndexRow::at(entity, position, &keys)? {
                self.push(Write::InsertCopy(copy), false);
            }
        }
        self.note(|| Ok(None), Some(entity))
    }

    /// Adds what takes the place of an entity that was read.
    pub(super) fn replace(&mut self, entity: &'e E, indexed: &Indexed<E>) -> Result<()> {
        let read = &indexed.read;
        let keys = primary_keys(entity)?;
        if keys != read.keys {
            let what = "the change alters a part of the key, and keys cannot change";
            return Err(Error::refused(ErrorKind::Invalid, what)
                .advise("delete the entity and insert the other one, in one transaction"));
        }
        let (condition, guarded) = read.of_entity();
        self.push(Write::Replace(entity, condition), guarded);
        for position in local_positions::<E>() {
            let copy = IndexRow::at(entity, position, &keys)?;
            let (condition, guarded) = read.of_copy(position);
            match (&read.copies[position], copy) {
                (Some(old), Some(copy)) if old == copy.keys().1 => {
                    let write = if guarded {
                        Write::ReplaceCopy(copy, condition)
                    } else {
                        Write::UpsertCopy(copy)
                    };
                    self.push(write, guarded);
                }
                (old, copy) => {
                    if let Some(old) = old {
                        let keys = (keys.0.clone(), old.clone());
                        self.push(Write::DeleteCopy(keys, condition), guarded);
                    }
                    if let Some(copy) = copy {
                        self.push(Write::InsertCopy(copy), false);
                    }
                }
            }
        }
        self.note(|| indexed.before().map(Some), Some(entity))
    }

    /// Adds the deletion of an entity that was read.
    pub(super) fn delete(&mut self, indexed: &Indexed<E>) -> Result<()> {
        let read = &indexed.read;
        let (condition, guarded) = read.of_entity();
        self.push(Write::Delete(read.keys.clone(), condition), guarded);
        for (position, copy) in read.copies.iter().enumerate() {
            let Some(copy) = copy else { continue };
            let (condition, guarded) = read.of_copy(position);
            let keys = (read.keys.0.clone(), copy.clone());
            self.push(Write::DeleteCopy(keys, condition), guarded);
        }
        self.note(|| indexed.before().map(Some), None)
    }

    /// Adds the row that goes with a change, behind the rows of the entity.
    fn note(
        &mut self,
        before: impl FnOnce() -> Result<Option<E>>,
        after: Option<&E>,
    ) -> Result<()> {
        let Some(alongside) = &self.alongside else { return Ok(()) };
        if let Some(row) = (alongside.row)(before()?.as_ref(), after)? {
            self.push(Write::Note(row), false);
        }
        Ok(())
    }

    /// Makes one operation of two on the same row: a transaction touches each once. One entity gives
    /// a value up and another one takes it.
    pub(super) fn join(&mut self) {
        let mut at = 0;
        while at < self.rows.len() {
            let taken = match &self.rows[at].write {
                Write::InsertCopy(copy) => self.rows.iter().position(|other| {
                    matches!(&other.write, Write::DeleteCopy(keys, _)
                        if (&*keys.0, &*keys.1) == copy.keys())
                }),
                _ => None,
            };
            match taken {
                Some(other) => {
                    let inserted = self.rows.remove(at);
                    let deleted = &mut self.rows[if other > at { other - 1 } else { other }];
                    if let (Write::InsertCopy(copy), Write::DeleteCopy(_, condition)) =
                        (inserted.write, &deleted.write)
                    {
                        deleted.write = Write::ReplaceCopy(copy, condition.clone());
                    }
                }
                None => at += 1,
            }
        }
    }

    /// Refuses changes of two entities that meet in a row of a unique index. They would be two
    /// operations on one row, which no transaction has, and what is wrong can be told before:
    ///
    /// - both were read with the row: it is of one of them, so the other was changed since it was read;
    /// - one was read with it and keeps it, and the other is to get it: the value is taken.
    pub(super) fn reads_agree(&self) -> Result<()> {
        if self.has_an_entity_twice()? {
            // A mistake of the caller, which the transaction explains.
            return Ok(());
        }
        let mut rows = BTreeMap::new();
        for Change { write, .. } in &self.rows {
            let (row, index, was_read) = match write {
                Write::InsertCopy(copy) => (copy.keys(), Some(copy.index()), false),
                Write::ReplaceCopy(copy, _) | Write::UpsertCopy(copy) => {
                    (copy.keys(), Some(copy.index()), true)
                }
                Write::DeleteCopy(keys, _) => ((&*keys.0, &*keys.1), None, true),
                Write::Insert(_) | Write::Replace(..) | Write::Delete(..) | Write::Note(_) => {
                    continue;
                }
            };
            match rows.insert(row, was_read) {
                Some(true) if was_read => {
                    let what = "two of its entities were read with one row of an index, so one of \
                                them was changed since it was read";
                    return Err(
                        Error::refused(ErrorKind::Conflict, what).advise("read the entities again")
                    );
                }
                Some(before) if before != was_read => {
                    let what = match index {
                        Some(index) => format!("its value is taken in the index `{}`", index.name),
                        None => "its value is taken in an index".to_owned(),
                    };
                    return Err(Error::refused(ErrorKind::AlreadyExists, what));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn has_an_entity_twice(&self) -> Result<bool> {
        let mut entities = BTreeSet::new();
        for Change { write, .. } in &self.rows {
            let keys = match write {
                Write::Insert(entity) | Write::Replace(entity, _) => primary_keys(*entity)?,
                Write::Delete(keys, _) => keys.clone(),
                _ => continue,
            };
            if !entities.insert(keys) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends it. Returns the ETag of each entity, `None` for one that was deleted.
    pub(super) async fn submit(mut self, table: &Table) -> Result<Vec<Option<ETag>>> {
        let submitted = self.submit_rows(table).await;
        let may_have_happened =
            submitted.as_ref().err().is_none_or(|error| error.outcome() == Outcome::Unknown);
        if let Some(alongside) = self.alongside.filter(|_| may_have_happened) {
            let note = |change: Change<'e, E>| match change.write {
                Write::Note(row) => Some(row),
                _ => None,
            };
            let notes: Vec<_> = self.rows.into_iter().filter_map(note).collect();
            if !notes.is_empty() {
                (alongside.committed)(notes).await;
            }
        }
        submitted
    }

    async fn submit_rows(&mut self, table: &Table) -> Result<Vec<Option<ETag>>> {
        let mut rounds = self.rows.len() + SPARE_ROUNDS;
        loop {
            let transaction = self
                .rows
                .iter()
                .fold(table.transaction(), |transaction, change| change.write.add_to(transaction));
            let error = match transaction.submit().await {
                Ok(etags) => {
                    let rows = self.rows.iter().zip(etags);
                    let of_entities = rows.filter(|(change, _)| change.write.is_of_entity());
                    return Ok(of_entities.map(|(_, etag)| etag).collect());
                }
                Err(error) => error,
            };
            rounds -= 1;
            // What may have happened is for the caller to look into.
            if error.outcome() != Outcome::Rejected || rounds == 0 {
                return Err(error);
            }
            self.mend(table, error).await?;
        }
    }

    /// Adjusts the operation that failed to what is stored, or returns the error if it is one.
    async fn mend(&mut self, table: &Table, error: Error) -> Result<()> {
        let Some(at) = error.operation_index().filter(|at| *at < self.rows.len()) else {
            return Err(error);
        };
        let Change { write, guarded } = self.rows.remove(at);
        let mended = match (write, error.kind()) {
            (Write::ReplaceCopy(..) | Write::DeleteCopy(..), ErrorKind::NotFound) if guarded => {
                return Err(Error::refused(
                    ErrorKind::Conflict,
                    "it was changed since it was read",
                )
                .of("EntityGroupTransaction", table.name()));
            }
            (Write::DeleteCopy(..), ErrorKind::NotFound) => None,
            (Write::ReplaceCopy(copy, _), ErrorKind::NotFound) => Some(Write::InsertCopy(copy)),
            // What was in the way has changed: it may be something else now.
            (Write::ReplaceCopy(copy, _), ErrorKind::Conflict) if !guarded => {
                Some(Write::InsertCopy(copy))
            }
            (Write::InsertCopy(copy), ErrorKind::AlreadyExists) => {
                match in_the_way(table, &copy).await? {
                    Obstacle::None => Some(Write::InsertCopy(copy)),
                    Obstacle::Stale(etag) => Some(Write::ReplaceCopy(copy, Match::ETag(etag))),
                    Obstacle::Taken => {
                        let index = copy.index().name;
                        return Err(
                            error.advise(format!("its value is taken in the index `{index}`"))
                        );
                    }
                }
            }
            _ => return Err(error),
        };
        if let Some(write) = mended {
            self.rows.insert(at, Change { write, guarded: false });
        }
        Ok(())
    }

    fn push(&mut self, write: Write<'e, E>, guarded: bool) {
        self.rows.push(Change { write, guarded });
    }
}

impl<E: Entity> Write<'_, E> {
    fn add_to(&self, transaction: Transaction) -> Transaction {
        let key = |keys: &Keys| Key::<E>::new(&*keys.0, &*keys.1);
        match self {
            Self::Insert(entity) => transaction.insert(*entity),
            Self::Replace(entity, condition) => transaction.replace((*entity, condition.clone())),
            Self::InsertCopy(copy) => transaction.insert(copy),
            Self::ReplaceCopy(copy, condition) => transaction.replace((copy, condition.clone())),
            Self::UpsertCopy(copy) => transaction.upsert(copy),
            // Nothing else has its key. An insert would keep the client from sending the transaction
            // again of which nobody knows whether it happened.
            Self::Note(row) => transaction.upsert(row),
            Self::Delete(keys, condition) | Self::DeleteCopy(keys, condition) => {
                transaction.delete(key(keys), condition.clone())
            }
        }
    }

    fn is_of_entity(&self) -> bool {
        matches!(self, Self::Insert(_) | Self::Replace(..) | Self::Delete(..))
    }
}

/// What stands where a copy is to be inserted.
enum Obstacle {
    /// Nothing any more.
    None,
    /// A copy that no entity demands: it was left behind, and may be written over as it is.
    Stale(ETag),
    /// The copy of another entity, or a row of something else.
    Taken,
}

async fn in_the_way<E: Entity + Send + Sync>(
    table: &Table,
    copy: &IndexRow<'_, E>,
) -> Result<Obstacle> {
    let Some(Stored { entity: row, etag, .. }) = table.get::<DynamicEntity>(copy.key()).await?
    else {
        return Ok(Obstacle::None);
    };
    let Some(owner) = primary_key::<E>(&row) else { return Ok(Obstacle::Taken) };
    if owner == copy.primary_key() {
        return Ok(Obstacle::Stale(etag));
    }
    let demanded = match table.get(owner).await? {
        Some(owner) => IndexRow::of(&owner.entity, copy.position())?
            .is_some_and(|demanded| demanded.keys() == copy.keys()),
        None => false,
    };
    Ok(if demanded { Obstacle::Taken } else { Obstacle::Stale(etag) })
}
