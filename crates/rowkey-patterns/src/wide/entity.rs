//! The properties of a wide entity, and which row each is in.

use std::collections::HashMap;
use std::fmt;

use rowkey::edm::{Value, size};
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, Key, Projection, Result, Stored};

use super::rows::{Head, MAX_ROWS, Names, ROWS, VERSION};

/// Properties a row may have.
const MAX_PROPERTIES: usize = 252;
/// Those of the first row that are not the entity's.
const HEAD_PROPERTIES: usize = 2;
/// Bytes a row may have, as the service counts them: 1 MiB.
const MAX_BYTES: usize = 1024 * 1024;
/// What the two properties of the first row take, about.
const HEAD_BYTES: usize = 64;

/// An entity of any number of properties: as a [`DynamicEntity`], and wider.
///
/// Several types of up to 252 fields, with the same templates of keys, make one wide entity:
/// [`add`](Self::add) takes the properties of each, [`read_as`](Self::read_as) gives each back.
///
/// ```
/// use rowkey::Entity;
/// use rowkey_patterns::wide::WideEntity;
///
/// #[derive(Debug, PartialEq, Entity)]
/// #[entity(partition = "{clinic}", row = "patient_{id:6}")]
/// struct Person { clinic: String, id: u32, name: String }
///
/// #[derive(Debug, PartialEq, Entity)]
/// #[entity(partition = "{clinic}", row = "patient_{id:6}")]
/// struct Blood { clinic: String, id: u32, haemoglobin: f64, platelets: i32 }
///
/// let person = Person { clinic: "leeds".into(), id: 7, name: "Ada".into() };
/// let blood = Blood { clinic: "leeds".into(), id: 7, haemoglobin: 14.1, platelets: 250 };
/// let mut patient = WideEntity::new("leeds", "patient_000007");
/// patient.add(&person)?;
/// patient.add(&blood)?;
/// assert_eq!(patient.len(), 3);
/// assert_eq!(patient.read_as::<Blood>()?, blood);
/// # Ok::<(), rowkey::Error>(())
/// ```
#[derive(Clone)]
pub struct WideEntity {
    partition_key: String,
    row_key: String,
    properties: Vec<Property>,
    /// Where a property is in `properties`.
    places: HashMap<String, usize>,
    /// How many rows are stored; 0 if it was not read.
    pub(super) rows: usize,
    /// How often it was written; 0 if it was not read.
    pub(super) version: i64,
}

#[derive(Clone)]
struct Property {
    name: String,
    value: Value,
    /// The row that it is stored in, if it is.
    row: Option<usize>,
}

impl WideEntity {
    /// An entity without properties. Its rows have this RowKey and a number of two digits behind it.
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Self {
        Self {
            partition_key: partition_key.into(),
            row_key: row_key.into(),
            properties: Vec::new(),
            places: HashMap::new(),
            rows: 0,
            version: 0,
        }
    }

    /// The key of the entity.
    pub fn key(&self) -> Key<Self> {
        Key::new(&*self.partition_key, &*self.row_key)
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.places.get(name).map(|&at| &self.properties[at].value)
    }

    /// Sets a property; returns the value it had. A new one is added at the end.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (name, value) = (name.into(), value.into());
        if let Some(&at) = self.places.get(&name) {
            return Some(std::mem::replace(&mut self.properties[at].value, value));
        }
        self.places.insert(name.clone(), self.properties.len());
        self.properties.push(Property { name, value, row: None });
        None
    }

    /// Removes a property; returns the value it had.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.places.remove(name)?;
        let removed = self.properties.remove(at);
        for place in self.places.values_mut().filter(|place| **place > at) {
            *place -= 1;
        }
        Some(removed.value)
    }

    /// The properties in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.properties.iter().map(|property| (&*property.name, &property.value))
    }

    /// How many properties there are.
    pub fn len(&self) -> usize {
        self.properties.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// Sets all properties that `part` has; those that it has as `None` are left as they are.
    ///
    /// Fails if the keys of `part` are others than those of this entity.
    pub fn add<E: Entity>(&mut self, part: &E) -> Result<()> {
        let part = DynamicEntity::of(part)?;
        if (&part.partition_key, &part.row_key) != (&self.partition_key, &self.row_key) {
            let what = "the part has other keys than the wide entity";
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        for (name, value) in part.iter() {
            self.set(name, value.clone());
        }
        Ok(())
    }

    /// Reads the properties that `P` asks for as a `P`.
    pub fn read_as<P: Projection>(&self) -> Result<P> {
        let mut part = DynamicEntity::new(&*self.partition_key, &*self.row_key);
        match P::COLUMNS {
            Some(names) => {
                for name in names {
                    if let Some(value) = self.get(name) {
                        part.set(*name, value.clone());
                    }
                }
            }
            None => {
                for (name, value) in self.iter() {
                    part.set(name, value.clone());
                }
            }
        }
        part.read_as()
    }

    /// The rows, filled one after the other. Refuses more than one transaction takes.
    pub(super) fn pack(&self, version: i64) -> Result<Vec<DynamicEntity>> {
        let names = Names::of(&self.key())?;
        let mut rows = vec![names.entity(0)];
        Head { version, rows: 1 }.write(&mut rows[0]);
        let (mut properties, mut bytes) = (HEAD_PROPERTIES, HEAD_BYTES + self.key_bytes());
        for property in &self.properties {
            if property.name == VERSION || property.name == ROWS {
                let what = format!("`{VERSION}` and `{ROWS}` are properties of the first row");
                return Err(Error::refused(ErrorKind::Invalid, what));
            }
            let more = property.bytes();
            if properties == MAX_PROPERTIES || bytes + more > MAX_BYTES {
                rows.push(names.entity(rows.len()));
                (properties, bytes) = (0, self.key_bytes());
            }
            (properties, bytes) = (properties + 1, bytes + more);
            if let Some(row) = rows.last_mut() {
                row.set(&*property.name, property.value.clone());
            }
        }
        if rows.len() > MAX_ROWS {
            let bytes: usize = self.properties.iter().map(Property::bytes).sum();
            let what = format!(
                "the entity has {} properties of {bytes} bytes in all, which is {} rows; one \
                 transaction writes {MAX_ROWS}",
                self.len(),
                rows.len()
            );
            return Err(Error::refused(ErrorKind::TooLarge, what));
        }
        let count = rows.len();
        Head { version, rows: count }.write(&mut rows[0]);
        Ok(rows)
    }

    /// Notes that it is stored in these rows, which it was packed into.
    pub(super) fn settle(&mut self, version: i64, rows: &[DynamicEntity]) {
        (self.version, self.rows) = (version, rows.len());
        for (number, row) in rows.iter().enumerate() {
            for (name, _) in row.iter() {
                if let Some(&at) = self.places.get(name) {
                    self.properties[at].row = Some(number);
                }
            }
        }
    }

    /// Sets a property and says which row it belongs to: the one it is in, or the last if that has
    /// room, or another one.
    pub(super) fn place(&mut self, name: &str, value: Value) -> usize {
        self.set(name, value);
        let at = self.places[name];
        let last = self.rows.saturating_sub(1);
        let row = self.properties[at].row.unwrap_or_else(|| {
            let (properties, bytes) = self.taken(last);
            let has_room =
                properties < MAX_PROPERTIES && bytes + self.properties[at].bytes() <= MAX_BYTES;
            if has_room { last } else { last + 1 }
        });
        self.rows = self.rows.max(row + 1);
        self.properties[at].row = Some(row);
        row
    }

    /// Whether every row can be stored as it is. Names and single values are the table's to check.
    pub(super) fn is_within_limits(&self) -> bool {
        let reserved = self.places.contains_key(VERSION) || self.places.contains_key(ROWS);
        !reserved
            && self.rows <= MAX_ROWS
            && (0..self.rows).all(|row| self.taken(row).1 <= MAX_BYTES)
    }

    /// The properties and bytes that a stored row has.
    fn taken(&self, row: usize) -> (usize, usize) {
        let of_row = self.properties.iter().filter(|property| property.row == Some(row));
        let head = if row == 0 { (HEAD_PROPERTIES, HEAD_BYTES) } else { (0, 0) };
        of_row.fold((head.0, head.1 + self.key_bytes()), |(properties, bytes), property| {
            (properties + 1, bytes + property.bytes())
        })
    }

    /// An entity from its rows, which are in order.
    pub(super) fn join(names: &Names, rows: &[Stored<DynamicEntity>]) -> Result<Stored<Self>> {
        let damaged = |what: String| Error::refused(ErrorKind::Decode, what);
        let first = rows.first().filter(|first| first.entity.row_key == names.row(0));
        let first = first.ok_or_else(|| damaged("the first row is not there".to_owned()))?;
        let (etag, timestamp) = (first.etag.clone(), first.timestamp);
        let head: Head = first.entity.read_as()?;
        if rows.len() != head.rows {
            let what = format!("the entity has {} rows, and {} are there", head.rows, rows.len());
            return Err(damaged(what));
        }
        let mut entity = Self::new(&*names.partition_key, names.row_key());
        (entity.rows, entity.version) = (head.rows, head.version);
        for (number, row) in rows.iter().enumerate() {
            for (name, value) in row.entity.iter() {
                if number == 0 && (name == VERSION || name == ROWS) {
                    continue;
                }
                entity.set(name, value.clone());
                let at = entity.places[name];
                entity.properties[at].row = Some(number);
            }
        }
        Ok(Stored { entity, etag, timestamp })
    }

    fn key_bytes(&self) -> usize {
        // The number that each row has behind the RowKey is three units.
        size::of_keys(&self.partition_key, &self.row_key) + 6
    }
}

impl Property {
    fn bytes(&self) -> usize {
        size::of_property(&self.name, &self.value.as_ref())
    }
}

/// Equal keys and properties, in whatever order and rows.
impl PartialEq for WideEntity {
    fn eq(&self, other: &Self) -> bool {
        (&self.partition_key, &self.row_key) == (&other.partition_key, &other.row_key)
            && self.len() == other.len()
            && self.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

impl fmt::Debug for WideEntity {
    /// Shows how much it is, and neither keys nor values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WideEntity")
            .field("properties", &self.len())
            .field("rows", &self.rows)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
