//! The rows of the indexes that an entity declares: copies of it under other keys.
//!
//! What keeps an index in step writes [`IndexRow`]s, what reads or verifies one reads them. Where
//! the entity of a row is, [`primary_key`] tells of any row, and [`Pointer`] and [`Seen`] of one of which
//! only a part is read.
//!
//! A copy is a public contract: it has the keys that [`Entity::index_key`] makes, the property
//! `PrimaryRowKey` (and `PrimaryPartitionKey`, if the partition is another), the `EntityType` of a
//! type that has a kind, and the properties of the entity, or those that the index declares. The
//! fields in the keys of the entity are not repeated: they are read from the keys of the entity,
//! which every copy has.

use rowkey::edm::Value;
use rowkey::entity::{DecodeError, RowReader, RowWriter};
use rowkey::index::{Copied, Index, PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY, Scope};
use rowkey::key::{KeyError, KeyWriter};
use rowkey::{DynamicEntity, Entity, Error, Key, Projection, Result, Rows};

/// The copy of an entity in one of its indexes, to be written or as it was read.
///
/// ```
/// use rowkey::{DynamicEntity, Entity};
/// use rowkey_patterns::index_row::IndexRow;
///
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// #[entity(index(name = by_email, row = "email_{email:lower}"))]
/// struct Employee {
///     department: String,
///     id: u32,
///     email: String,
/// }
///
/// let ada = Employee { department: "sales".into(), id: 7, email: "Ada@contoso.com".into() };
/// let row = IndexRow::of(&ada, 0)?.ok_or("not in the index")?;
/// let stored = DynamicEntity::of(&row)?;
/// assert_eq!(stored.row_key, "email_ada@contoso.com");
/// assert_eq!(stored.get("PrimaryRowKey"), Some(&"id_000007".into()));
/// assert_eq!(stored.get("email"), Some(&"Ada@contoso.com".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct IndexRow<'e, E> {
    position: usize,
    keys: Keys,
    primary: Keys,
    entity: Held<'e, E>,
}

/// The property that tells the type where the rows do not.
const KIND: &str = "EntityType";

/// A PartitionKey and a RowKey.
pub(crate) type Keys = (String, String);

#[derive(Clone, Debug)]
enum Held<'e, E> {
    Borrowed(&'e E),
    Owned(E),
}

impl<'e, E: Entity> IndexRow<'e, E> {
    /// The copy of `entity` in the index at this place of [`Entity::INDEXES`]; `None` if the entity
    /// is not in that index.
    pub fn of(entity: &'e E, position: usize) -> Result<Option<Self>> {
        Self::at(entity, position, &primary_keys(entity)?)
    }

    /// The same, of an entity whose own keys are known.
    pub(crate) fn at(entity: &'e E, position: usize, primary: &Keys) -> Result<Option<Self>> {
        let (mut partition, mut row) = (KeyWriter::new(), KeyWriter::new());
        if !entity.index_key(position, &mut partition, &mut row) {
            return Ok(None);
        }
        let keys = keys(partition, row).map_err(|error| {
            let index = E::INDEXES.get(position).map_or("", |index| index.name);
            error.advise(format!("it is the key of its row in the index `{index}`"))
        })?;
        let primary = primary.clone();
        Ok(Some(Self { position, keys, primary, entity: Held::Borrowed(entity) }))
    }
}

impl<E: Entity> IndexRow<'_, E> {
    /// The index.
    pub fn index(&self) -> &'static Index {
        &E::INDEXES[self.position]
    }

    /// The place of the index in [`Entity::INDEXES`].
    pub fn position(&self) -> usize {
        self.position
    }

    /// The keys of the copy itself.
    pub fn keys(&self) -> (&str, &str) {
        (&self.keys.0, &self.keys.1)
    }

    /// The address of the copy, read or written as a `C`.
    pub fn key<C>(&self) -> Key<C> {
        Key::new(&*self.keys.0, &*self.keys.1)
    }

    /// The address of the entity.
    pub fn primary_key(&self) -> Key<E> {
        Key::new(&*self.primary.0, &*self.primary.1)
    }

    /// The entity.
    pub fn entity(&self) -> &E {
        match &self.entity {
            Held::Borrowed(entity) => entity,
            Held::Owned(entity) => entity,
        }
    }

    /// Whether `stored`, the whole row that was read at this address, is this copy: it says the same
    /// and nothing else.
    pub fn is(&self, stored: &DynamicEntity) -> Result<bool> {
        let expected = DynamicEntity::of(self)?;
        Ok(expected.iter().len() == stored.iter().len()
            && expected
                .iter()
                .all(|(name, value)| stored.get(name).is_some_and(|other| is_same(value, other))))
    }
}

/// The address of the entity that a row is a copy of, or `None` if the row is no copy.
pub fn primary_key<E>(row: &DynamicEntity) -> Option<Key<E>> {
    let text = |name| match row.get(name) {
        Some(Value::String(text)) => Some(&**text),
        _ => None,
    };
    let partition = text(PRIMARY_PARTITION_KEY).unwrap_or(&row.partition_key);
    Some(Key::new(partition, text(PRIMARY_ROW_KEY)?))
}

/// Whether a row is an entity of this type, and no copy of one.
pub fn is_entity<E: Entity>(row: &DynamicEntity) -> bool {
    let in_rows = match E::ROWS {
        Rows::All => true,
        Rows::Head(head) => row.row_key.starts_with(head),
        Rows::One(row_key) => row.row_key == row_key,
    };
    in_rows
        && row.get(PRIMARY_ROW_KEY).is_none()
        && E::KIND.is_none_or(|kind| row.get(KIND) == Some(&kind.into()))
}

/// Reads a copy of all properties. One of some is not a whole entity: read it as a
/// [`DynamicEntity`], or as a projection of what it has.
impl<E: Entity> Projection for IndexRow<'_, E> {
    const COLUMNS: Option<&'static [&'static str]> = None;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let keys = (row.partition_key()?.to_owned(), row.row_key()?.to_owned());
        let primary = read_primary(row)?.ok_or_else(|| DecodeError::missing(PRIMARY_ROW_KEY))?;
        let position = position_of::<E>(&keys.0, &keys.1)
            .ok_or_else(|| DecodeError::property("RowKey", "it is of no index of the type"))?;
        let entity = E::decode(&row.with_keys(&primary.0, &primary.1))?;
        Ok(Self { position, keys, primary, entity: Held::Owned(entity) })
    }
}

impl<E: Entity> Entity for IndexRow<'_, E> {
    const ROWS: Rows = Rows::All;
    const KIND: Option<&'static str> = E::KIND;
    const ENCRYPTED: &'static [&'static str] = E::ENCRYPTED;

    fn partition_key(&self, out: &mut KeyWriter) {
        out.literal(&self.keys.0);
    }

    fn row_key(&self, out: &mut KeyWriter) {
        out.literal(&self.keys.1);
    }

    fn encode(&self, out: &mut RowWriter) {
        if self.index().scope == Scope::OtherPartition {
            out.property(PRIMARY_PARTITION_KEY, &self.primary.0);
        }
        out.property(PRIMARY_ROW_KEY, &self.primary.1);
        match self.index().copy {
            Copied::All => self.entity().encode(out),
            Copied::Only(names) => out.only(names, |out| self.entity().encode(out)),
        }
    }
}

/// What a copy says of where its entity is: all that is read of it before the entity is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer<E> {
    /// The address of the entity.
    pub primary: Key<E>,
    /// The PartitionKey of the copy.
    pub partition_key: String,
    /// The RowKey of the copy.
    pub row_key: String,
}

impl<E> Projection for Pointer<E> {
    const COLUMNS: Option<&'static [&'static str]> =
        Some(&["PartitionKey", "RowKey", "Timestamp", PRIMARY_ROW_KEY, PRIMARY_PARTITION_KEY]);

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let (partition, primary) =
            read_primary(row)?.ok_or_else(|| DecodeError::missing(PRIMARY_ROW_KEY))?;
        let (partition_key, row_key) = (row.partition_key()?.to_owned(), row.row_key()?.to_owned());
        Ok(Self { primary: Key::new(partition, primary), partition_key, row_key })
    }
}

/// A copy read as a `P`, which sees the keys of the entity: the service is asked for the properties of
/// `P` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen<P> {
    /// What was read.
    pub value: P,
    /// The address of the entity.
    pub primary: Key<DynamicEntity>,
}

/// The most names that the service takes in `$select`.
const MAX_SELECT: usize = 252;

impl<P: Projection> Seen<P> {
    /// The properties of `P`, and what follows them: where the entity is.
    const NAMES: &'static [&'static str; MAX_SELECT] = &{
        let mut names = [PRIMARY_PARTITION_KEY; MAX_SELECT];
        if let Some(own) = P::COLUMNS {
            let mut at = 0;
            while at < own.len() && at + 1 < MAX_SELECT {
                names[at] = own[at];
                at += 1;
            }
            names[at] = PRIMARY_ROW_KEY;
        }
        names
    };
}

impl<P: Projection> Projection for Seen<P> {
    const COLUMNS: Option<&'static [&'static str]> = match P::COLUMNS {
        Some(own) if own.len() + 1 < MAX_SELECT => Some(Self::NAMES.split_at(own.len() + 2).0),
        _ => None,
    };

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let keys = read_primary(row)?.ok_or_else(|| DecodeError::missing(PRIMARY_ROW_KEY))?;
        let value = P::decode(&row.with_keys(&keys.0, &keys.1))?;
        Ok(Self { value, primary: Key::new(keys.0, keys.1) })
    }
}

/// The place in [`Entity::INDEXES`] of the index that a row with these keys is in.
pub fn position_of<E: Entity>(partition_key: &str, row_key: &str) -> Option<usize> {
    E::INDEXES.iter().position(|index| {
        partition_key.starts_with(index.partition_head) && row_key.starts_with(index.row_head)
    })
}

/// The keys of the entity that a row is a copy of, or `None` if the row is no copy.
pub(crate) fn read_primary(row: &RowReader<'_>) -> Result<Option<Keys>, DecodeError> {
    let Some(row_key) = row.property(PRIMARY_ROW_KEY)? else { return Ok(None) };
    let partition_key: Option<String> = row.property(PRIMARY_PARTITION_KEY)?;
    let partition_key = match partition_key {
        Some(partition_key) => partition_key,
        None => row.partition_key()?.to_owned(),
    };
    Ok(Some((partition_key, row_key)))
}

/// The keys of an entity itself.
pub(crate) fn primary_keys<E: Entity>(entity: &E) -> Result<Keys> {
    let (mut partition, mut row) = (KeyWriter::new(), KeyWriter::new());
    entity.partition_key(&mut partition);
    entity.row_key(&mut row);
    keys(partition, row)
}

fn keys(partition: KeyWriter, row: KeyWriter) -> Result<Keys> {
    let read = || Ok::<_, KeyError>((partition.finish()?, row.finish()?));
    read().map_err(|error| Error::no_such_key(&error))
}

/// Whether two values are the same to a reader: an emulator that is widely used writes whole doubles
/// as integers, and what is not a number is not equal to itself.
fn is_same(expected: &Value, stored: &Value) -> bool {
    match (expected, stored) {
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits() || expected == stored,
        (Value::Double(_), Value::Int32(b)) => *expected == Value::Double(f64::from(*b)),
        _ => expected == stored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(partition = "{region}", row = "city_{name}", kind = "city")]
    #[entity(
        index(name = by_code, row = "code_{code:lower}"),
        index(name = by_size, row = "size_{people:desc,9}", many, copy(people)),
        index(name = by_state, partition = "state_{state}", row = "{name}", many)
    )]
    struct City {
        region: String,
        name: String,
        code: Option<String>,
        people: u32,
        state: String,
        degrees: f64,
    }

    fn leeds() -> City {
        City {
            region: "north".into(),
            name: "Leeds".into(),
            code: Some("LBA".into()),
            people: 800_000,
            state: "UK".into(),
            degrees: 53.0,
        }
    }

    fn stored(position: usize) -> DynamicEntity {
        DynamicEntity::of(&IndexRow::of(&leeds(), position).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn a_copy_says_what_it_is_of_and_what_the_index_declares() {
        let names = |position| {
            let row = stored(position);
            let names: Vec<_> = row.iter().map(|(name, _)| name.to_owned()).collect();
            (row.partition_key, row.row_key, names.join(" "))
        };
        let expected = |pk: &str, rk: &str, names: &str| (pk.into(), rk.into(), names.into());
        let all = "PrimaryRowKey EntityType code people state degrees";
        assert_eq!(names(0), expected("north", "code_lba", all));
        let some = "PrimaryRowKey EntityType people";
        assert_eq!(names(1), expected("north", "size_999199999_city_Leeds", some));
        let (key, all) = ("Leeds_north_city_Leeds", format!("PrimaryPartitionKey {all}"));
        assert_eq!(names(2), expected("state_UK", key, &all));
        for position in 0..3 {
            assert_eq!(primary_key(&stored(position)), Some(Key::of(&leeds())));
        }
        assert_eq!(primary_key::<City>(&DynamicEntity::of(&leeds()).unwrap()), None);
    }

    #[test]
    fn a_whole_copy_is_read_as_the_entity_and_the_index_it_is_in() {
        for position in [0, 2] {
            let read: IndexRow<'_, City> = stored(position).read_as().unwrap();
            assert_eq!((read.entity(), read.position()), (&leeds(), position));
            assert_eq!(read.primary_key(), Key::of(&leeds()));
        }
        assert!(stored(1).read_as::<IndexRow<'_, City>>().is_err(), "a part of an entity");
        let itself = DynamicEntity::of(&leeds()).unwrap();
        assert!(itself.read_as::<IndexRow<'_, City>>().is_err(), "no copy");
    }

    #[test]
    fn a_row_is_the_copy_if_it_says_the_same_and_nothing_else() {
        let leeds = leeds();
        let copy = IndexRow::of(&leeds, 0).unwrap().unwrap();
        let is = |change: fn(&mut DynamicEntity)| {
            let mut row = stored(0);
            change(&mut row);
            copy.is(&row).unwrap()
        };
        assert!(is(|_| ()));
        assert!(is(|row| drop(row.set("degrees", 53))), "as an emulator stores 53.0");
        assert!(!is(|row| drop(row.set("degrees", 54))));
        assert!(!is(|row| drop(row.set("more", 1))));
        assert!(!is(|row| drop(row.remove("code"))));
        assert!(!is(|row| drop(row.set("PrimaryRowKey", "city_York"))));
    }

    #[test]
    fn what_is_not_a_number_is_the_same_as_itself() {
        let nowhere = City { degrees: f64::NAN, code: None, ..leeds() };
        let copy = IndexRow::of(&nowhere, 1).unwrap().unwrap();
        assert!(copy.is(&DynamicEntity::of(&copy).unwrap()).unwrap());
        let copy = IndexRow::of(&nowhere, 2).unwrap().unwrap();
        assert!(copy.is(&DynamicEntity::of(&copy).unwrap()).unwrap());
        assert!(IndexRow::of(&nowhere, 0).unwrap().is_none(), "it has no code");
    }
}
