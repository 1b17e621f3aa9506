//! An entity as it was read through one of its rows, and what a change of it has to know.

use std::fmt;
use std::ops::Deref;

use rowkey::edm::DateTime;
use rowkey::entity::{DecodeError, RowReader};
use rowkey::{DynamicEntity, ETag, Entity, Key, Match, Projection, Result, Stored};

use super::change::local_positions;
use crate::index_row::{IndexRow, Keys, position_of, primary_keys, read_primary};

/// An entity that was read, by its own key or through an index, with what a change of it needs.
///
/// It is read as the entity it holds. Change it with [`map`](Self::map) and give it back to
/// [`LocalIndex::replace`](super::LocalIndex::replace), which succeeds only if nobody else wrote in
/// between.
#[derive(Clone)]
pub struct Indexed<E> {
    pub(super) entity: E,
    pub(super) read: AsRead,
    /// What was read, once it is changed.
    before: Option<DynamicEntity>,
    timestamp: DateTime,
}

/// Which rows there were, and the condition that they are still the same.
#[derive(Clone, Debug)]
pub(super) struct AsRead {
    /// The keys of the entity.
    pub(super) keys: Keys,
    /// The RowKey of its copy in each index of the partition, if it had one.
    pub(super) copies: Vec<Option<String>>,
    /// The index whose copy was read instead of the entity. Every change writes all whole copies
    /// anew, so the ETag of each is as good a condition as that of the entity.
    pub(super) through: Option<usize>,
    pub(super) etag: ETag,
}

impl<E> Indexed<E> {
    /// The ETag of the row that was read: the entity's, or that of its copy.
    pub fn etag(&self) -> &ETag {
        &self.read.etag
    }

    /// When the service wrote the row that was read.
    pub fn timestamp(&self) -> DateTime {
        self.timestamp
    }

    /// The address of the entity itself.
    pub fn key(&self) -> Key<E> {
        Key::new(&*self.read.keys.0, &*self.read.keys.1)
    }

    /// The entity alone.
    pub fn into_entity(self) -> E {
        self.entity
    }

    /// Whether its copy in an index had this RowKey.
    pub(super) fn has_copy(&self, position: usize, row_key: &str) -> bool {
        self.read.copies[position].as_deref() == Some(row_key)
    }
}

impl<E: Entity> Indexed<E> {
    /// Changes the entity, and keeps what was read.
    #[must_use = "the changed entity is not written until it is given to `replace`"]
    pub fn map(mut self, change: impl FnOnce(&mut E)) -> Self {
        if self.before.is_none() {
            self.before = DynamicEntity::of(&self.entity).ok();
        }
        change(&mut self.entity);
        self
    }

    /// The entity as it was read.
    pub(super) fn before(&self) -> Result<E> {
        match &self.before {
            Some(before) => before.read_as(),
            None => DynamicEntity::of(&self.entity)?.read_as(),
        }
    }

    pub(super) fn new(stored: Stored<Found<E>>) -> Self {
        let Stored { entity: Found { entity, keys, through }, etag, timestamp } = stored;
        let mut copies = copies(&entity, &keys);
        let through = through.map(|(position, row_key)| {
            copies[position] = Some(row_key);
            position
        });
        let read = AsRead { keys, copies, through, etag };
        Self { entity, read, before: None, timestamp }
    }

    /// The same after it was written.
    pub(super) fn written(self, etag: ETag) -> Result<Self> {
        let keys = primary_keys(&self.entity)?;
        let copies = copies(&self.entity, &keys);
        let timestamp = etag.timestamp().unwrap_or(self.timestamp);
        let read = AsRead { keys, copies, through: None, etag };
        Ok(Self { entity: self.entity, read, before: None, timestamp })
    }
}

impl AsRead {
    /// The condition on the entity itself, and whether it is what holds other writers off.
    pub(super) fn of_entity(&self) -> (Match, bool) {
        self.condition(self.through.is_none())
    }

    /// The same of its copy in an index.
    pub(super) fn of_copy(&self, position: usize) -> (Match, bool) {
        self.condition(self.through == Some(position))
    }

    fn condition(&self, guarded: bool) -> (Match, bool) {
        (if guarded { Match::ETag(self.etag.clone()) } else { Match::Any }, guarded)
    }
}

/// The RowKey of each copy of an entity. One that cannot be a key was never written.
fn copies<E: Entity>(entity: &E, keys: &Keys) -> Vec<Option<String>> {
    let mut copies = vec![None; E::INDEXES.len()];
    for position in local_positions::<E>() {
        let row = IndexRow::at(entity, position, keys).ok().flatten();
        copies[position] = row.map(|row| row.keys().1.to_owned());
    }
    copies
}

/// An entity from its own row, or from a whole copy.
pub(super) struct Found<E> {
    entity: E,
    keys: Keys,
    /// The index and the RowKey of the copy.
    through: Option<(usize, String)>,
}

impl<E: Entity> Projection for Found<E> {
    const COLUMNS: Option<&'static [&'static str]> = None;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let (partition_key, row_key) = (row.partition_key()?, row.row_key()?);
        let Some(keys) = read_primary(row)? else {
            let keys = (partition_key.to_owned(), row_key.to_owned());
            return Ok(Self { entity: E::decode(row)?, keys, through: None });
        };
        let position = position_of::<E>(partition_key, row_key)
            .ok_or_else(|| DecodeError::property("RowKey", "it is of no index of the type"))?;
        let entity = E::decode(&row.with_keys(&keys.0, &keys.1))?;
        Ok(Self { entity, keys, through: Some((position, row_key.to_owned())) })
    }
}

impl<E> Deref for Indexed<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.entity
    }
}

impl<E: fmt::Debug> fmt::Debug for Indexed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexed")
            .field("entity", &self.entity)
            .field("etag", &self.read.etag)
            .field("timestamp", &self.timestamp)
            .finish_non_exhaustive()
    }
}
