//! Transactions whose entities are encrypted before they are sent.

use std::fmt;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use rowkey::entity::Write;
use rowkey::table::Transaction;
use rowkey::{DynamicEntity, ETag, Entity, Key, Match, Result};

use crate::AT_ONCE;
use crate::encrypted::Encrypted;

/// A transaction in the making, from [`Encrypted::transaction`].
///
/// It is a [`Transaction`] of the table, whose entities are encrypted as it is
/// [submitted](Self::submit): each under a data key of its own, up to 16 of which are wrapped at a time.
#[must_use = "a transaction does nothing until `submit`"]
pub struct EncryptedTransaction<E> {
    encrypted: Encrypted<E>,
    operations: Vec<Result<Operation<E>>>,
}

enum Operation<E> {
    Delete(Key<E>, Match),
    Write(Verb, DynamicEntity),
}

enum Verb {
    Insert,
    Merge(Match),
    Replace(Match),
    Upsert,
    UpsertMerge,
}

impl<E: Entity + Send + 'static> EncryptedTransaction<E> {
    pub(crate) fn new(encrypted: Encrypted<E>) -> Self {
        Self { encrypted, operations: Vec::new() }
    }

    /// Stores a new entity; the transaction fails if there is one with its keys.
    pub fn insert(self, entity: &E) -> Self {
        self.write(Verb::Insert, DynamicEntity::of(entity))
    }

    /// Replaces an entity under a condition, as [`Encrypted::replace`] does.
    pub fn replace<'a>(self, write: impl Into<Write<'a, E>>) -> Self
    where
        E: 'a,
    {
        let (entity, condition) = write.into().into_parts();
        self.write(Verb::Replace(condition), DynamicEntity::of(entity))
    }

    /// Merges into an entity under a condition; refused when [`Encrypted::merge`] is.
    pub fn merge<'a>(self, write: impl Into<Write<'a, E>>) -> Self
    where
        E: 'a,
    {
        let (entity, condition) = write.into().into_parts();
        let row = self.encrypted.mergeable(entity, OPERATION);
        self.write(Verb::Merge(condition), row)
    }

    /// Replaces an entity or inserts it.
    pub fn upsert(self, entity: &E) -> Self {
        self.write(Verb::Upsert, DynamicEntity::of(entity))
    }

    /// Merges into an entity or inserts it; refused when [`Encrypted::merge`] is.
    pub fn upsert_merge(self, entity: &E) -> Self {
        let row = self.encrypted.mergeable(entity, OPERATION);
        self.write(Verb::UpsertMerge, row)
    }

    /// Deletes an entity under a condition, as [`Table::delete`](rowkey::Table::delete) does.
    pub fn delete(mut self, key: Key<E>, condition: impl Into<Match>) -> Self {
        self.operations.push(Ok(Operation::Delete(key, condition.into())));
        self
    }

    /// Encrypts the entities: the transaction can then be
    /// [appended](Transaction::append) to one with entities of other types, in the same partition.
    pub async fn encrypt(self) -> Result<Transaction> {
        let Self { encrypted, operations } = self;
        let table = encrypted.table().clone();
        let encrypted = &encrypted;
        let parts = stream::iter(operations).map(|operation| async move {
            let part = encrypted.table().transaction();
            let (verb, row) = match operation {
                Ok(Operation::Write(verb, row)) => (verb, row),
                Ok(Operation::Delete(key, condition)) => return Ok(part.delete(key, condition)),
                Err(error) => return Err(error.of(OPERATION, encrypted.table().name())),
            };
            let row = encrypted.sealed(Ok(row)).await?;
            Ok(match verb {
                Verb::Insert => part.insert(&row),
                Verb::Merge(condition) => part.merge((&row, condition)),
                Verb::Replace(condition) => part.replace((&row, condition)),
                Verb::Upsert => part.upsert(&row),
                Verb::UpsertMerge => part.upsert_merge(&row),
            })
        });
        let whole = async |whole: Transaction, part| Ok(whole.append(part));
        parts.buffered(AT_ONCE).try_fold(table.transaction(), whole).await
    }

    /// Encrypts the entities and sends the transaction, as [`Transaction::submit`] does: all of it
    /// happens, or nothing.
    pub async fn submit(self) -> Result<Vec<Option<ETag>>> {
        self.encrypt().await?.submit().await
    }

    fn write(mut self, verb: Verb, row: Result<DynamicEntity>) -> Self {
        self.operations.push(row.map(|row| Operation::Write(verb, row)));
        self
    }
}

const OPERATION: &str = "EntityGroupTransaction";

impl<E> fmt::Debug for EncryptedTransaction<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedTransaction")
            .field("encrypted", &self.encrypted)
            .field("operations", &self.operations.len())
            .finish()
    }
}
