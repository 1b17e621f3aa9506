//! The two traits that the derives implement.

use rowkey_wire::edm::{DateTime, Type};

use super::blob_ref::BlobRef;
use super::row::{DecodeError, RowReader, RowWriter};
use crate::declaration::Declarations;
use crate::declaration::older::Older;
use crate::index::{Index, Scope};
use crate::key::stretch::RowKeys;
use crate::key::{KeyWriter, Piece};

/// A type that can be read from an entity: all of it, or some of its properties.
///
/// `#[derive(Projection)]` implements it for a struct of properties, to read a few columns of large
/// entities (see `Query::project` of the client); `#[derive(Entity)]` implements it as
/// well.
///
/// By hand, it reads what no derive describes:
///
/// ```
/// use rowkey::entity::RowReader;
/// use rowkey::{DecodeError, DynamicEntity, Projection};
///
/// /// The name of a person, which older programs stored in two properties.
/// #[derive(Debug, PartialEq)]
/// struct Name(String);
///
/// impl Projection for Name {
///     const COLUMNS: Option<&'static [&'static str]> = Some(&["Name", "FirstName", "LastName"]);
///
///     fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
///         let read = |name| row.property::<Option<String>>(name);
///         match (read("Name")?, read("FirstName")?, read("LastName")?) {
///             (Some(name), None, None) => Ok(Self(name)),
///             (None, Some(first), Some(last)) => Ok(Self(format!("{first} {last}"))),
///             (None, ..) => Err(DecodeError::missing("Name")),
///             (Some(_), ..) => Err(DecodeError::property("Name", "the row has two names")),
///         }
///     }
/// }
///
/// let mut row = DynamicEntity::new("sales", "id_000007");
/// row.set("FirstName", "Ada");
/// assert!(row.read_as::<Name>().unwrap_err().to_string().contains("`Name`"));
/// row.set("LastName", "Lovelace");
/// assert_eq!(row.read_as::<Name>()?, Name("Ada Lovelace".into()));
/// # Ok::<(), rowkey::FailedRow>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from an entity",
    note = "derive `Entity` for a type that is stored, or `Projection` for one that is only read"
)]
pub trait Projection: Sized {
    /// The properties to request from the service, or `None` for all of them.
    const COLUMNS: Option<&'static [&'static str]>;

    /// The properties of the type in field order, each with the EDM type that it is stored as; `None` if that varies
    /// from value to value.
    ///
    /// For tools that need a schema without rows, such as SQL over tables. The derives of `Entity` and `Projection`
    /// fill it; it is empty for an `EntitySet`, for a `DynamicEntity`, and for types that implement the trait by hand
    /// without it. It costs no request.
    ///
    /// | field | entry |
    /// |---|---|
    /// | a property | its stored name, and [`Property::TYPE`](crate::Property::TYPE) of its type; an `Option<T>` has that of the `T` |
    /// | with `as` or `compat` | the type that these choose |
    /// | with `json` | String |
    /// | with `with` | `None`: what its functions write is not known |
    /// | with `encrypt` | Binary, which the service stores |
    /// | with `blob` | the String that names the blob, `Invoice_Blob`; before it the property itself, if the row can have it, by `threshold` or `encrypt` |
    /// | a [`BlobRef`] | its four properties |
    /// | with `flatten` | the properties of the struct, with the prefix; none if its type depends on a type parameter |
    /// | with `rest` or `skip`, in a key template, or a key or the Timestamp in a projection | none |
    ///
    /// Neither `EntityType` and `EntityVersion` of a type with a `kind` or a `version` nor what a store adds to
    /// its rows is among them. Rows of other programs and of older versions may have other types.
    ///
    /// ```
    /// use rowkey::edm::Type;
    /// use rowkey::{Entity, Projection};
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{tenant}", row = "order_{id:6}", rename_all = "PascalCase")]
    /// struct Order {
    ///     tenant: String,
    ///     id: u32,
    ///     quantity: i32,
    ///     #[entity(as = "Double")]
    ///     cents: Option<i64>,
    ///     #[entity(json)]
    ///     tags: Vec<String>,
    /// }
    ///
    /// let types = [
    ///     ("Quantity", Some(Type::Int32)),
    ///     ("Cents", Some(Type::Double)),
    ///     ("Tags", Some(Type::String)),
    /// ];
    /// assert_eq!(Order::TYPES, types);
    /// ```
    const TYPES: &'static [(&'static str, Option<Type>)] = &[];

    /// What the type declares besides its keys and properties: its indexes, its encrypted fields and so on. A type
    /// that reads or writes another type passes it on.
    const DECLARED: Declarations = Declarations::NONE;

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
    /// The rows of a partition that may hold this type.
    const ROWS: Rows;

    /// The partitions that may hold this type, derived from its partition template: a
    /// scan requests only those.
    const PARTITIONS: Rows = Rows::All;

    /// The row template, from which [ranges](crate::Partition::range) derive the values in a
    /// RowKey. Without one, a range compares RowKeys as they are stored.
    const ROW_TEMPLATE: &'static [Piece] = &[];

    /// The indexes whose copies may be among the entities, so that queries of the type skip them:
    /// all indexes of the type if one of them keeps copies in other partitions.
    #[doc(hidden)]
    const COPIES: &'static [&'static [Index]] = if Self::DECLARED.has_index(Scope::OtherPartition) {
        &[Self::DECLARED.indexes]
    } else {
        &[]
    };

    /// The value of the [`DISCRIMINATOR`](Self::DISCRIMINATOR), if the keys do not identify the
    /// type.
    const KIND: Option<&'static str> = None;

    /// The property that holds the [`KIND`](Self::KIND): `EntityType`, or the one that
    /// `#[entity(discriminator = "..")]` names.
    const DISCRIMINATOR: &'static str = "EntityType";

    /// The properties that this version of the type encrypts: those that it declares, or those of an older
    /// version.
    #[doc(hidden)]
    fn encrypted(version: i32) -> &'static [&'static str] {
        let _ = version;
        Self::DECLARED.encrypted
    }

    /// Whether the type belongs to a store (`#[entity(store)]`): a `Table` of the client can read
    /// it, but refuses at compile time to write or delete it.
    const STORE: bool = false;

    /// The time from which on the entity is expired: a store reads it as if it did not exist. `None` if it never
    /// expires.
    fn expires_at(&self) -> Option<DateTime> {
        None
    }

    /// The value of the `EntityVersion` property, from 2 on; entities without it have version 1.
    const VERSION: i32 = 1;

    /// The rows that an older version of the type left beside this entity; `None` if the row has
    /// this version.
    fn older(row: &RowReader<'_>) -> Result<Option<Older>, DecodeError> {
        let _ = row;
        Ok(None)
    }

    /// Writes the PartitionKey.
    fn partition_key(&self, out: &mut KeyWriter);

    /// Writes the RowKey.
    fn row_key(&self, out: &mut KeyWriter);

    /// Writes the properties, without those that are in the keys.
    fn encode(&self, out: &mut RowWriter);

    /// Writes the properties as they are in `row`, from which the entity was read: those of the
    /// version of the type that wrote the row. An update keeps properties that are not among them.
    #[doc(hidden)]
    fn encode_stored(&self, row: &RowReader<'_>, out: &mut RowWriter) -> Result<(), DecodeError> {
        let _ = row;
        self.encode(out);
        Ok(())
    }

    /// Calls `each` with the references to blobs that the entity has, and the properties with their addresses.
    #[doc(hidden)]
    fn references<'e>(&'e self, each: &mut dyn FnMut(&'static str, &'e BlobRef)) {
        let _ = each;
    }

    /// Writes the keys of the entity's row in the index at this position of
    /// [`Declarations::indexes`].
    /// Returns whether the entity is in that index.
    fn index_key(&self, position: usize, partition: &mut KeyWriter, row: &mut KeyWriter) -> bool {
        let _ = (position, partition, row);
        false
    }

    /// Writes the PartitionKey and the RowKey of each of the entity's rows in the list at this
    /// position of [`Declarations::lists`]. An entity that has a value twice yields the keys twice.
    fn list_keys(&self, position: usize, add: &mut dyn FnMut(KeyWriter, KeyWriter)) {
        let _ = (position, add);
    }
}

/// The keys that may hold entities of a type, derived from a template: the rows of a partition, or
/// the partitions of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Any key: the template begins with a part.
    All,
    /// Keys that begin with this text, the literal head of the template.
    Head(&'static str),
    /// Only this key: the template has no parts.
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

    #[doc(hidden)]
    pub fn keys(self) -> RowKeys {
        match self {
            Self::All => RowKeys::beginning_with(""),
            Self::Head(head) => RowKeys::beginning_with(head),
            Self::One(key) => RowKeys::one(key),
        }
    }
}
