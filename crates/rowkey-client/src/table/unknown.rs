//! The rows of an update: what is read, with the properties that the type does not know, and what
//! is written, with those beside the changed entity.

use rowkey_entity::entity::{Declarations, RowReader, RowWriter};
use rowkey_entity::key::KeyWriter;
use rowkey_entity::{DecodeError, Entity, Projection, Properties, Rows};

/// An entity that is read for an update.
pub(super) struct Known<E> {
    /// The entity.
    pub(super) entity: E,
    /// The properties that `E` does not know.
    pub(super) unknown: Properties,
    /// The names of the stored properties that `E` knows.
    pub(super) stored: Vec<String>,
}

impl<E: Entity> Projection for Known<E> {
    const COLUMNS: Option<&'static [&'static str]> = None;
    const DECLARED: Declarations = E::DECLARED;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let entity = E::decode(row)?;
        let (unknown, stored) = row.split(&entity)?;
        Ok(Self { entity, unknown, stored })
    }
}

/// An entity with properties that its type does not know.
pub(super) struct Carrying<'e, E> {
    /// The entity.
    pub(super) entity: &'e E,
    /// The unknown properties; the entity itself writes none of them.
    pub(super) carried: &'e Properties,
}

impl<E: Entity> Projection for Carrying<'_, E> {
    const COLUMNS: Option<&'static [&'static str]> = None;
    const DECLARED: Declarations = E::DECLARED;

    fn decode(_: &RowReader<'_>) -> Result<Self, DecodeError> {
        Err(DecodeError::missing("RowKey"))
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
