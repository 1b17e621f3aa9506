//! The stored properties that a type does not know, which an update keeps.
//!
//! A property is known if the type that wrote the entity writes it: the type itself, or the older
//! version whose row was converted. The stored properties are compared with those that this type
//! would write for the entity as it was read. So a type needs no list of its columns, and a type
//! whose `decode` reads only a part loses nothing.

use std::collections::HashSet;

use super::properties::Properties;
use super::row::{DecodeError, RowReader, RowWriter};
use super::traits::{Entity, Projection, Rows};
use crate::key::KeyWriter;

/// The names of the properties that an entity writes.
pub(crate) fn names<E: Entity>(entity: &E) -> HashSet<String> {
    let mut out = RowWriter::names();
    entity.encode(&mut out);
    out.into_names()
}

impl RowReader<'_> {
    /// The stored properties that the type of the row does not write: those unknown to `entity`,
    /// which was read from the row.
    #[doc(hidden)]
    pub fn unknown<E: Entity>(&self, entity: &E) -> Result<Properties, DecodeError> {
        Ok(self.split(entity)?.0)
    }

    /// The properties that `entity` does not know, and the names of those that it does.
    fn split<E: Entity>(&self, entity: &E) -> Result<(Properties, Vec<String>), DecodeError> {
        let mut out = RowWriter::names();
        entity.encode_stored(self, &mut out)?;
        let written = out.into_names();
        let (known, unknown): (Vec<_>, Vec<_>) =
            self.values()?.into_iter().partition(|(name, _)| written.contains(name));
        let known = known.into_iter().map(|(name, _)| name).collect();
        Ok((Properties::of(unknown), known))
    }
}

impl Properties {
    /// Keeps the properties that `entity` does not write.
    #[doc(hidden)]
    #[must_use]
    pub fn beside<E: Entity>(mut self, entity: &E) -> Self {
        if !self.is_empty() {
            let written = names(entity);
            self.retain(|name, _| !written.contains(name));
        }
        self
    }
}

/// An entity that is read for an update.
pub(crate) struct Known<E> {
    pub(crate) entity: E,
    /// The properties that `E` does not know.
    pub(crate) unknown: Properties,
    /// The names of the stored properties that `E` knows.
    pub(crate) stored: Vec<String>,
}

impl<E: Entity> Projection for Known<E> {
    const COLUMNS: Option<&'static [&'static str]> = None;
    const BLOBS: &'static [(&'static str, &'static str)] = E::BLOBS;
    const IS_OPENED: bool = E::IS_OPENED;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let entity = E::decode(row)?;
        let (unknown, stored) = row.split(&entity)?;
        Ok(Self { entity, unknown, stored })
    }
}

/// An entity with properties that its type does not know.
pub(crate) struct Carrying<'e, E> {
    pub(crate) entity: &'e E,
    /// The unknown properties; the entity itself writes none of them.
    pub(crate) carried: &'e Properties,
}

impl<E: Entity> Projection for Carrying<'_, E> {
    const COLUMNS: Option<&'static [&'static str]> = None;

    fn decode(_: &RowReader<'_>) -> Result<Self, DecodeError> {
        Err(DecodeError::row_key("a row in the making is not read".to_owned()))
    }
}

impl<E: Entity> Entity for Carrying<'_, E> {
    const ROWS: Rows = E::ROWS;
    const STORE: bool = E::STORE;

    fn partition_key(&self, out: &mut KeyWriter) {
        self.entity.partition_key(out);
    }

    fn row_key(&self, out: &mut KeyWriter) {
        self.entity.row_key(out);
    }

    fn encode(&self, out: &mut RowWriter) {
        self.entity.encode(out);
        for (name, value) in self.carried.iter() {
            out.property(name, value);
        }
    }
}
