//! The columns of a table from the type of its entities.

use rowkey::Rows as Head;
use rowkey::edm::Type;
use rowkey::entity::{Declarations, Wide};
use rowkey::{DynamicEntity, Entity};

use crate::keys::{Interval, KeySet, Span};

/// The properties by which a store marks the rows that it keeps beside an entity.
const PRIMARY_ROW_KEY: &str = "PrimaryRowKey";
const INDEX_NAME: &str = "IndexName";
const ROW_FORMAT: &str = "RowFormat";

/// The schema of a table is that of a type: see [`of`].
#[derive(Clone, Debug)]
pub struct Declared {
    pub(crate) properties: Vec<(String, Option<Type>)>,
    pub(crate) rows: Rows,
    /// Whether a store keeps more than one row for an entity, or not in plain text.
    pub(crate) is_of_store: bool,
}

/// The schema of the entities of a type, for [`Open::schema`](crate::Open::schema).
///
/// A scan reads the rows of this type alone: those whose keys begin as its templates do, with its discriminator, and of a type with
/// `#[entity(store)]` the entities, not the copies of its indexes and other rows of the store. Encrypted fields are what the row has,
/// Binary. A field whose stored type varies has the type that a sample of rows shows.
///
/// `INSERT INTO` adds the discriminator, and fails for a key that no entity of the type can have. It is refused for a type whose entities a
/// store writes with further rows, blobs or encryption.
///
/// ```
/// use rowkey::Entity;
/// use rowkey_datafusion::of;
///
/// #[derive(Entity)]
/// #[entity(partition = "{customer}", row = "order_{number:6}")]
/// struct Order {
///     customer: String,
///     number: u32,
///     cents: i64,
/// }
///
/// let schema = of::<Order>();
/// # let _ = schema;
/// ```
pub fn of<E: Entity>() -> Declared {
    let properties = E::TYPES.iter().map(|(name, edm)| ((*name).to_owned(), *edm));
    let encrypted = |name: &str| E::DECLARED.encrypted.contains(&name);
    let properties = properties
        .map(|(name, edm)| if encrypted(&name) { (name, Some(Type::Binary)) } else { (name, edm) });
    let kind = E::KIND.map(|kind| (E::DISCRIMINATOR.to_owned(), kind.to_owned()));
    let copies = E::COPIES.iter().copied().flatten().map(|index| index.name.to_owned()).collect();
    let rows = Rows { partitions: interval(E::PARTITIONS), rows: interval(E::ROWS), kind, copies };
    let Declarations { indexes, lists, blobs, encrypted, wide, .. } = E::DECLARED;
    let is_of_store = !indexes.is_empty()
        || !lists.is_empty()
        || !blobs.is_empty()
        || !encrypted.is_empty()
        || wide != Wide::ONE;
    Declared { properties: properties.collect(), rows, is_of_store }
}

fn interval(head: Head) -> Interval {
    match head {
        Head::All => Interval::ALL,
        Head::Head(head) => Interval::prefix(head),
        Head::One(key) => Interval::one(key),
    }
}

/// Which rows of a table a scan reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) partitions: Interval,
    pub(crate) rows: Interval,
    /// A property, and the value that it must have.
    pub(crate) kind: Option<(String, String)>,
    /// The indexes whose copies may be among the rows.
    pub(crate) copies: Vec<String>,
}

impl Rows {
    pub(crate) const ALL: Self =
        Self { partitions: Interval::ALL, rows: Interval::ALL, kind: None, copies: Vec::new() };

    pub(crate) fn keys(&self) -> KeySet {
        KeySet::of_span(&Span { partition: self.partitions.clone(), row: self.rows.clone() })
    }

    /// The properties that decide, which a request must ask for.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = &str> {
        let marks = (!self.copies.is_empty()).then_some([PRIMARY_ROW_KEY, INDEX_NAME, ROW_FORMAT]);
        let kind = self.kind.iter().map(|(name, _)| name.as_str());
        marks.into_iter().flatten().chain(kind)
    }

    /// Whether a row whose keys are in the range is one of them.
    pub(crate) fn has(&self, row: &DynamicEntity) -> bool {
        let text = |name: &str| row.get_as::<String>(name).ok();
        let is_of_kind = |(name, kind): &(String, String)| text(name).as_deref() == Some(kind);
        if !self.kind.iter().all(is_of_kind) {
            return false;
        }
        let is_copy = || text(INDEX_NAME).is_some_and(|name| self.copies.contains(&name));
        let is_beside = !self.copies.is_empty()
            && row.get(PRIMARY_ROW_KEY).is_some()
            && (is_copy() || row.get(ROW_FORMAT).is_some());
        !is_beside
            && self.partitions.contains(&row.partition_key)
            && self.rows.contains(&row.row_key)
    }
}
