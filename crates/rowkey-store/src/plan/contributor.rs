//! What contributes to a plan: the one trait of the kit.

use futures_util::future::BoxFuture;
use rowkey::entity::Older;
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, Key, Properties, Result, table::EncodedRow};

use super::op::{Op, Target};
use super::{Edit, Plan, Source, Write};
use crate::execute::settle::{Settled, Settling};
use crate::job::Verdict;
use crate::layer::{Layers, old_keys};
use crate::row::{Closed, Content, Keys, index_keys, not_of_a_store};

/// A change of one entity: what it was and what it is to be.
///
/// An insert has no `before`, a deletion has no `after`.
pub struct Change<'a, E> {
    /// The entity as it was read on the primary.
    pub before: Option<&'a E>,
    /// The entity as it is to be written.
    pub after: Option<&'a E>,
    pub(crate) keys: &'a Keys,
    pub(crate) op: &'a Op,
    pub(crate) rewrites: bool,
    /// Whether nothing says that the rows at the keys of the entity's copies are its own.
    pub(crate) reads_copies: bool,
    /// The properties that the type does not know, which are written with `after`.
    pub(crate) unknown: &'a Properties,
    /// What layers made of `after`.
    pub(crate) closed: Option<&'a Closed>,
    /// What the version of the type that wrote `before` left, if that is an older one.
    pub(crate) older: Option<&'a Older>,
}

impl<E> std::fmt::Debug for Change<'_, E> {
    /// Shows neither keys nor entities.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change")
            .field("has_before", &self.before.is_some())
            .field("has_after", &self.after.is_some())
            .field("op", self.op)
            .finish_non_exhaustive()
    }
}

impl<E> Clone for Change<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Change<'_, E> {}

impl<'a, E: Entity> Change<'a, E> {
    /// What is written of `after`.
    pub(crate) fn content(&self, after: &'a E) -> Content<'a, E> {
        Content::of(after, self.unknown, self.closed)
    }

    /// The keys of the row that the entity has now in the index at `position`. What cannot be in the
    /// index never was.
    pub(crate) fn old_keys(&self, position: usize) -> Option<Keys> {
        match self.older {
            Some(older) => old_keys::<E>(older, position),
            None => self.before.and_then(|entity| index_keys(entity, position).ok().flatten()),
        }
    }
}

impl<'a, E> Change<'a, E> {
    /// The PartitionKey of the entity.
    pub fn partition_key(&self) -> &'a str {
        &self.keys.0
    }

    /// The RowKey of the entity.
    pub fn row_key(&self) -> &'a str {
        &self.keys.1
    }

    /// Whether all that belongs to the entity is to be written again, also what the change does not alter:
    /// [`Store::rewrite`](crate::Store::rewrite), and what a repair does.
    pub fn is_rewrite(&self) -> bool {
        self.rewrites
    }

    /// The operation: its mark and its time, the same each time the plan is made again.
    pub fn op(&self) -> &'a Op {
        self.op
    }
}

/// Something that each write of an `E` brings with it: rows beside the entity, or changes elsewhere.
///
/// A contributor is pure but for [`settle`](Self::settle): it is called again whenever the plan is made
/// again, because a row that it read has changed. What it writes goes into the transaction of the
/// entity; what it names as a target is settled after the commit, by the same call, by a worker, or by
/// both.
///
/// Limits: [`operations`](Self::operations) of all contributors, and those of the entity itself, are at
/// most 100 with the op row.
pub trait Contributor<E>: Send + Sync {
    /// Its name. It is stored with targets, so it must not change while some are left.
    fn name(&self) -> &str;

    /// How many operations it adds to the transaction of one entity at most.
    fn operations(&self) -> usize;

    /// The RowKeys of the rows in the entity's partition that it edits. They are read on the primary
    /// before [`contribute`](Self::contribute) is called, all at a time.
    fn reads(&self, change: Change<'_, E>) -> Result<Vec<String>> {
        let _ = change;
        Ok(Vec::new())
    }

    /// Adds what the change brings with it. An error refuses the write; nothing was sent.
    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()>;

    /// Refuses a target that a transaction names ([`Transaction::target`](crate::Transaction::target))
    /// and that never could be settled. Nothing was sent.
    fn check(&self, address: &str) -> Result<()> {
        let _ = address;
        Ok(())
    }

    /// Whether a target that is settled is never settled again: `false` unless overridden.
    ///
    /// Targets are settled once more when no request of the write can land any more, if one was not
    /// answered. That is right for rows, which a late request may have changed, and sends a message
    /// twice.
    fn settles_once(&self) -> bool {
        false
    }

    /// Makes one target agree with what the entity is now. Only called for targets that
    /// [`contribute`](Self::contribute) named.
    ///
    /// It may be called late, twice, and at the same time as another call. Read the target first, then
    /// the entity by [`Settling::entity`], then write the target on condition that it is as it was read:
    /// in this order a late call meets a changed target, and its write is refused.
    fn settle<'a>(
        &'a self,
        settling: &'a Settling<E>,
        address: &'a str,
    ) -> BoxFuture<'a, Result<Settled>> {
        let _ = (settling, address);
        let what = format!("`{}` has a target and does not settle any", self.name());
        Box::pin(async { Err(Error::refused(ErrorKind::Unexpected, what)) })
    }

    /// Says whether one target is as the entity demands it, without writing anything: for
    /// [`Store::verify`](crate::Store::verify) and [`Store::repair`](crate::Store::repair), which settles
    /// what is not right. Without it each target counts as right.
    ///
    /// Rows that the contributor edits need no method: they are stale if a rewrite of the entity as it is
    /// would change them.
    fn verify<'a>(
        &'a self,
        settling: &'a Settling<E>,
        address: &'a str,
    ) -> BoxFuture<'a, Result<Verdict>> {
        let _ = (settling, address);
        Box::pin(async { Ok(Verdict::Right) })
    }

    /// The entity for which a row is kept elsewhere, and the target that the row is of; `None` for all rows
    /// that are not of this contributor. A row is orphaned if its entity does not name the target.
    fn target_of(&self, row: &DynamicEntity) -> Option<(Key<E>, String)> {
        let _ = row;
        None
    }
}

/// What a contributor adds to a plan.
pub struct Contribution<'p> {
    pub(crate) plan: &'p mut Plan,
    pub(crate) contributor: &'p str,
    /// The type of the entity, by the text that its RowKeys begin with.
    pub(crate) of: &'static str,
    pub(crate) row_key: &'p str,
    pub(crate) layers: &'p Layers,
}

impl Contribution<'_> {
    /// Adds a new row in the entity's partition. If there is a row with its keys, the write fails with
    /// [`ErrorKind::AlreadyExists`].
    pub fn insert<R: Entity>(&mut self, row: &R) -> Result<()> {
        const { not_of_a_store::<R>() };
        let row = EncodedRow::of(row)?;
        let (partition_key, row_key) = row.keys();
        if partition_key != self.plan.partition_key {
            let what = format!("`{}` adds a row in another partition", self.contributor);
            return Err(Error::refused(ErrorKind::Invalid, what)
                .advise("name it as a target, and write it when that is settled"));
        }
        let row_key = row_key.to_owned();
        self.plan.push(Edit { row_key, write: Write::Insert(row), source: Source::Note })
    }

    /// Edits a row that [`Contributor::reads`] named. `None` before the edit means that there is none,
    /// `None` after it deletes it. Edits of one row follow each other and are written once, on condition
    /// that the row is as it was read.
    pub fn edit(
        &mut self,
        row_key: &str,
        edit: impl FnOnce(&mut Option<DynamicEntity>) -> Result<()>,
    ) -> Result<()> {
        let Some(row) = self.plan.rows.get_mut(row_key) else {
            let what = format!("`{}` edits a row that it did not ask for", self.contributor);
            return Err(Error::refused(ErrorKind::Unexpected, what)
                .advise("name the row in `Contributor::reads`"));
        };
        edit(&mut row.after)?;
        let has_its_keys = row.after.as_ref().is_none_or(|row| {
            row.row_key == row_key && row.partition_key == self.plan.partition_key
        });
        if !has_its_keys {
            let what = format!("`{}` gives a row that it edits other keys", self.contributor);
            return Err(Error::refused(ErrorKind::Unexpected, what)
                .advise("keep the keys of the row that `Contributor::reads` named"));
        }
        Ok(())
    }

    /// Names something elsewhere that has to agree with the entity after the commit. Targets are settled
    /// in the order in which they are named; one that is named twice is settled once.
    pub fn target(&mut self, address: impl Into<String>) {
        let target = Target {
            row_key: self.row_key.to_owned(),
            of: self.of.to_owned(),
            contributor: self.contributor.to_owned(),
            address: address.into(),
        };
        self.plan.target(target);
    }
}

impl std::fmt::Debug for Contribution<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contribution")
            .field("contributor", &self.contributor)
            .finish_non_exhaustive()
    }
}
