//! The two traits that the derives implement.

use super::older::{Older, OlderRows};
use super::row::{DecodeError, RowReader, RowWriter};
use crate::index::{Index, List, Scope};
use crate::key::stretch::RowKeys;
use crate::key::{KeyWriter, Piece};

/// A type that is read from entities: the whole of one, or some of its properties.
///
/// `#[derive(Projection)]` implements it for a struct of properties, to read a few columns of
/// large entities (see [`Query::project`](crate::Query::project)); `#[derive(Entity)]` implements
/// it as well.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from an entity",
    note = "derive `Entity` for a type that is stored, or `Projection` for one that is only read"
)]
pub trait Projection: Sized {
    /// The properties to ask the service for, or `None` for all of them.
    const COLUMNS: Option<&'static [&'static str]>;
    /// The properties whose values are in blobs, each with the property that says where: a
    /// [`Table`](crate::Table) refuses at compile time to read the type, `rowkey_store::Store` reads it.
    const BLOBS: &'static [(&'static str, &'static str)] = &[];

    /// Whether what is stored has to be opened before it is read, as encrypted fields and wide entities have
    /// to be: then a
    /// [`Table`](crate::Table) refuses at compile time to read it.
    const IS_OPENED: bool = false;

    /// Reads the value.
    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError>;
}

/// A type that is stored as an entity.
///
/// Use `#[derive(Entity)]`: it takes the templates of both keys and implements the rest.
///
/// ```
/// use rowkey::Entity;
///
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     salary: f64,
/// }
///
/// let key = Employee::key("sales", 223);
/// assert_eq!(key.parts(), Ok(("sales", "id_000223")));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored as an entity",
    note = "derive `Entity` and name the templates of its keys: #[entity(partition = \"..\", row = \"..\")]"
)]
pub trait Entity: Projection {
    /// Which rows of a partition hold this type.
    const ROWS: Rows;

    /// Which partitions hold this type, as its partition template tells: a
    /// [scan](crate::Table::scan) asks for those alone.
    const PARTITIONS: Rows = Rows::All;

    /// The row template, by which [ranges](crate::Partition::range) know the values in a RowKey. Without
    /// one a range goes by RowKeys as they are stored.
    const ROW_TEMPLATE: &'static [Piece] = &[];

    /// The indexes whose copies may lie among the entities, so that queries of the type pass over them: all
    /// of the type if one of them keeps copies in other partitions.
    #[doc(hidden)]
    const COPIES: &'static [&'static [Index]] = {
        let (mut at, mut found) = (0, false);
        while at < Self::INDEXES.len() {
            found |= matches!(Self::INDEXES[at].scope, Scope::OtherPartition);
            at += 1;
        }
        if found { &[Self::INDEXES] } else { &[] }
    };

    /// What the [`DISCRIMINATOR`](Self::DISCRIMINATOR) says when the rows do not tell the type.
    const KIND: Option<&'static str> = None;

    /// The property that says the [`KIND`](Self::KIND): `EntityType`, or the one that
    /// `#[entity(discriminator = "..")]` names.
    const DISCRIMINATOR: &'static str = "EntityType";

    /// The properties that must not be stored as they are; [`encode`](Self::encode) calls
    /// [`must_encrypt`](RowWriter::must_encrypt) for each. Such a type belongs to a store, which seals
    /// them first.
    const ENCRYPTED: &'static [&'static str] = &[];
    /// Whether the type belongs to a store (`#[entity(store)]`): a [`Table`](crate::Table) reads it, and
    /// refuses at compile time to write or delete it.
    const STORE: bool = false;
    /// The most rows that an entity has (`#[entity(wide = 40)]`): a store keeps what does not fit into one row in
    /// further rows of the partition.
    const MAX_ROWS: usize = 1;
    /// The secondary indexes of the type.
    const INDEXES: &'static [Index] = &[];
    /// The name of each index, unique value and list, and what its declaration says: its templates with
    /// the fields that they name. `rowkey_store` compares it with what other programs declare.
    const DECLARATIONS: &'static [(&'static str, &'static str)] = &[];
    /// The lists of the type: for each value the RowKeys of the entities that have it.
    const LISTS: &'static [List] = &[];

    /// What the `EntityVersion` property says, from 2 on; entities without it are of version 1.
    const VERSION: i32 = 1;

    /// What older versions of the type may have left beside an entity.
    const OLDER: OlderRows = OlderRows::NONE;

    /// What an older version of the type left beside this entity; `None` if the row is of this version.
    fn older(row: &RowReader<'_>) -> Result<Option<Older>, DecodeError> {
        let _ = row;
        Ok(None)
    }

    /// Writes the PartitionKey.
    fn partition_key(&self, out: &mut KeyWriter);

    /// Writes the RowKey.
    fn row_key(&self, out: &mut KeyWriter);

    /// Writes the properties; those that make up the keys are not among them.
    fn encode(&self, out: &mut RowWriter);

    /// Writes the properties of the entity as `row`, which it was read from, has them: those of the
    /// version of the type that wrote the row. Properties that are not among them are kept by an update.
    #[doc(hidden)]
    fn encode_stored(&self, row: &RowReader<'_>, out: &mut RowWriter) -> Result<(), DecodeError> {
        let _ = row;
        self.encode(out);
        Ok(())
    }

    /// Writes the keys of the entity's row in the index at this place of [`Entity::INDEXES`]; says
    /// whether the entity is in that index.
    fn index_key(&self, position: usize, partition: &mut KeyWriter, row: &mut KeyWriter) -> bool {
        let _ = (position, partition, row);
        false
    }

    /// Writes the PartitionKey and the RowKey of each row that the entity is in of the list at this
    /// place of [`Entity::LISTS`]. An entity that has a value twice gives the keys twice.
    fn list_keys(&self, position: usize, add: &mut dyn FnMut(KeyWriter, KeyWriter)) {
        let _ = (position, add);
    }
}

/// Which keys hold entities of a type, as a template tells: the rows of a partition, or the partitions
/// of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Any: the template begins with a part.
    All,
    /// Those that begin with this text, the literal head of the template.
    Head(&'static str),
    /// The one with this key: the template has no parts.
    One(&'static str),
}

impl Rows {
    /// Whether `key` may be one of them.
    pub(crate) fn may_hold(self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Head(head) => key.starts_with(head),
            Self::One(one) => key == one,
        }
    }

    pub(crate) fn keys(self) -> RowKeys {
        match self {
            Self::All => RowKeys::beginning_with(""),
            Self::Head(head) => RowKeys::beginning_with(head),
            Self::One(key) => RowKeys::one(key),
        }
    }
}
