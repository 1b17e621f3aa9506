//! An entity as it was read through one of its rows, and what a change of it has to know.

use std::fmt;
use std::ops::Deref;

use rowkey::edm::DateTime;
use rowkey::entity::{DecodeError, RowReader};
use rowkey::index::{PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY};
use rowkey::{ETag, Entity, Key, Match, Projection, Result, Stored};

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

    /// Changes the entity, and keeps what was read.
    #[must_use = "the changed entity is not written until it is given to `replace`"]
    pub fn map(mut self, change: impl FnOnce(&mut E)) -> Self {
        change(&mut self.entity);
        self
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
    pub(super) fn new(stored: Stored<Found<E>>) -> Self {
        let Stored { entity: Found { entity, keys, through }, etag, timestamp } = stored;
        let mut copies = copies(&entity, &keys);
        let through = through.map(|(position, row_key)| {
            copies[position] = Some(row_key);
            position
        });
        Self { entity, read: AsRead { keys, copies, through, etag }, timestamp }
    }

    /// The same after it was written.
    pub(super) fn written(self, etag: ETag) -> Result<Self> {
        let keys = primary_keys(&self.entity)?;
        let copies = copies(&self.entity, &keys);
        let timestamp = etag.timestamp().unwrap_or(self.timestamp);
        let read = AsRead { keys, copies, through: None, etag };
        Ok(Self { entity: self.entity, read, timestamp })
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

/// Where a copy says that its entity is.
pub(super) struct Pointer<E> {
    pub(super) primary: Key<E>,
    pub(super) row_key: String,
}

impl<E> Projection for Pointer<E> {
    const COLUMNS: Option<&'static [&'static str]> =
        Some(&["PartitionKey", "RowKey", "Timestamp", PRIMARY_ROW_KEY, PRIMARY_PARTITION_KEY]);

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let (partition_key, primary) =
            read_primary(row)?.ok_or_else(|| DecodeError::missing(PRIMARY_ROW_KEY))?;
        Ok(Self { primary: Key::new(partition_key, primary), row_key: row.row_key()?.to_owned() })
    }
}

/// A projection of a copy that sees the keys of the entity.
pub(super) struct Seen<P>(P);

/// The most names that the service takes in `$select`.
const MAX_SELECT: usize = 252;

impl<P: Projection> Seen<P> {
    /// The properties of `P`, and what follows them: where the entity is.
    const NAMES: &'static [&'static str; MAX_SELECT] = &{
        let mut names = [PRIMARY_ROW_KEY; MAX_SELECT];
        if let Some(own) = P::COLUMNS {
            let mut at = 0;
            while at < own.len() && at < MAX_SELECT {
                names[at] = own[at];
                at += 1;
            }
        }
        names
    };

    pub(super) fn into_stored(seen: Stored<Self>) -> Stored<P> {
        Stored { entity: seen.entity.0, etag: seen.etag, timestamp: seen.timestamp }
    }
}

impl<P: Projection> Projection for Seen<P> {
    const COLUMNS: Option<&'static [&'static str]> = match P::COLUMNS {
        Some(own) if own.len() < MAX_SELECT => Some(Self::NAMES.split_at(own.len() + 1).0),
        _ => None,
    };

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let keys = read_primary(row)?.ok_or_else(|| DecodeError::missing(PRIMARY_ROW_KEY))?;
        P::decode(&row.with_keys(&keys.0, &keys.1)).map(Self)
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
