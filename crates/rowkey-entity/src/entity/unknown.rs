//! The stored properties that a type does not know, which an update keeps.
//!
//! A property is known if the type that wrote the entity writes it: the type itself, or the older
//! version whose row was converted. The stored properties are compared with those that this type
//! would write for the entity as it was read. So a type needs no list of its columns, and a type
//! whose `decode` reads only a part loses nothing.

use std::collections::HashSet;

use super::properties::Properties;
use super::row::{DecodeError, RowReader, RowWriter};
use super::traits::Entity;

/// The names of the properties that an entity writes.
pub fn names<E: Entity>(entity: &E) -> HashSet<String> {
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
    #[doc(hidden)]
    pub fn split<E: Entity>(&self, entity: &E) -> Result<(Properties, Vec<String>), DecodeError> {
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
    #[must_use]
    #[doc(hidden)]
    pub fn beside<E: Entity>(mut self, entity: &E) -> Self {
        if !self.is_empty() {
            let written = names(entity);
            self.retain(|name, _| !written.contains(name));
        }
        self
    }
}
