//! An entity as it was read, with the ETag for a conditional write.

use rowkey_wire::edm::DateTime;
use rowkey_wire::etag::{ETag, Match};

use super::receipt::Receipt;

/// An entity with the ETag and the Timestamp it was read with.
///
/// Change it and write it back: `table.replace(&stored)` succeeds only if no other writer changed
/// it in between.
///
/// # JSON
///
/// With serde it is an object with the members `entity`, `etag` and `timestamp`. A client of an API
/// returns this object to change the version that it saw.
#[derive(Clone, Debug)]
pub struct Stored<E> {
    /// The entity.
    pub entity: E,
    /// The ETag of the version that was read.
    pub etag: ETag,
    /// When the service wrote that version.
    pub timestamp: DateTime,
    /// What reading it used. All entities of a page have that of the request for the page. It is neither
    /// compared nor serialized.
    pub receipt: Receipt,
}

/// Compares the entity, the ETag and the Timestamp.
impl<E: PartialEq> PartialEq for Stored<E> {
    fn eq(&self, other: &Self) -> bool {
        let Self { entity, etag, timestamp, receipt: _ } = self;
        *entity == other.entity && *etag == other.etag && *timestamp == other.timestamp
    }
}

impl<E> Stored<E> {
    /// Changes the entity and keeps the ETag it was read with.
    ///
    /// ```
    /// use rowkey::{DynamicEntity, Stored};
    ///
    /// let json = r#"{"PartitionKey":"sales","RowKey":"1","Timestamp":"2026-11-20T12:34:56Z","Age":36}"#;
    /// let read = Stored::<DynamicEntity>::from_odata_json(json)?;
    /// let changed = read.clone().map(|person| {
    ///     person.set("Age", 37);
    /// });
    /// assert_eq!(changed.entity.get_as::<i32>("Age")?, 37);
    /// assert_eq!(changed.etag, read.etag);
    /// # Ok::<(), rowkey::DecodeError>(())
    /// ```
    #[must_use = "the changed entity is not written until it is given to `replace` or `merge`"]
    pub fn map(mut self, change: impl FnOnce(&mut E)) -> Self {
        change(&mut self.entity);
        self
    }
}

impl<E> From<&Stored<E>> for Match {
    fn from(stored: &Stored<E>) -> Self {
        Self::ETag(stored.etag.clone())
    }
}

/// An entity to write and its condition: a [`Stored`] entity, under the ETag it was read with, or a
/// pair of an entity and a [`Match`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Write<'a, E> {
    /// The entity to write.
    pub entity: &'a E,
    /// The condition on the stored entity.
    pub condition: Match,
}

impl<'a, E> From<&'a Stored<E>> for Write<'a, E> {
    fn from(stored: &'a Stored<E>) -> Self {
        Self { entity: &stored.entity, condition: stored.into() }
    }
}

impl<'a, E, M: Into<Match>> From<(&'a E, M)> for Write<'a, E> {
    fn from((entity, condition): (&'a E, M)) -> Self {
        Self { entity, condition: condition.into() }
    }
}
