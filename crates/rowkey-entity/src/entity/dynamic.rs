//! An entity with arbitrary properties.

use std::ops::{Deref, DerefMut};

use rowkey_wire::edm::Value;
use rowkey_wire::edm::size::{of_keys, of_property};

use super::properties::Properties;
use super::row::{DecodeError, RowReader, RowWriter, VERSION};
use super::traits::{Entity, Projection, Rows};
use crate::EncodeError;
use crate::entity::failed::FailedRow;
use crate::key::{Key, KeyWriter};
use crate::row::Row;

/// An entity whose properties are known only at run time.
///
/// Every property keeps its type and position, so an entity that is read, changed and written back
/// loses nothing.
///
/// ```
/// use rowkey::DynamicEntity;
///
/// let mut entity = DynamicEntity::new("sales", "id_000007");
/// entity.set("Age", 36_i32);
/// entity.set("Email", "ada@contoso.com");
/// assert_eq!(entity.get("Age"), Some(&36_i32.into()));
/// assert_eq!(entity.get_as::<i32>("Age")?, 36);
/// assert_eq!(entity.get_as::<Option<bool>>("Active")?, None);
/// # Ok::<(), rowkey::DecodeError>(())
/// ```
///
/// Two entities are equal if they have the same keys and properties, in any order.
///
/// # JSON
///
/// With serde it is an object with its keys and its properties, each with its type; the values have
/// the form of [`Value`]. [`to_odata_json`](Self::to_odata_json) writes the
/// service's own JSON.
///
/// ```
/// # use rowkey::DynamicEntity;
/// let json = r#"{"PartitionKey":"sales","RowKey":"id_000007","Age":36,"Pay":{"Edm.Int64":"5"}}"#;
/// let entity: DynamicEntity = serde_json::from_str(json)?;
/// assert_eq!(entity.get_as::<u8>("Age")?, 36);
/// assert_eq!(entity.get("Pay"), Some(&5_i64.into()));
/// assert_eq!(serde_json::to_string(&entity)?, json);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicEntity {
    /// The PartitionKey as it is stored.
    pub partition_key: String,
    /// The RowKey as it is stored.
    pub row_key: String,
    /// The properties without the keys. Their methods are also available on the entity itself.
    pub properties: Properties,
}

impl DynamicEntity {
    /// Creates an entity without properties.
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Self {
        Self {
            partition_key: partition_key.into(),
            row_key: row_key.into(),
            properties: Properties::new(),
        }
    }

    /// Sets a property and returns its previous value: [`Properties::set`], which may also be given a key of
    /// the entity.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        self.properties.set(name, value)
    }

    /// Whether a table that stores the one stores the other: the same keys and properties, type for type. NaN is the same as NaN, whose
    /// bits the service does not store, and 0.0 differs from -0.0, whose sign it does.
    #[doc(hidden)]
    pub fn is_same(&self, other: &Self) -> bool {
        let is_same = |one: &Value, other: &Value| match (one, other) {
            (Value::Double(one), Value::Double(other)) => {
                one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
            }
            _ => one == other,
        };
        self.partition_key == other.partition_key
            && self.row_key == other.row_key
            && self.len() == other.len()
            && self
                .iter()
                .all(|(name, value)| other.get(name).is_some_and(|other| is_same(value, other)))
    }

    /// Converts an entity of any type to the properties that would be stored, to change them before
    /// they are written.
    ///
    /// ```
    /// use rowkey::{DynamicEntity, Entity};
    ///
    /// #[derive(Debug, PartialEq, Entity)]
    /// #[entity(partition = "{department}", row = "id_{id:6}")]
    /// struct Employee {
    ///     department: String,
    ///     id: u32,
    ///     email: Option<String>,
    /// }
    ///
    /// let ada = Employee { department: "sales".into(), id: 7, email: Some("ADA@x.org".into()) };
    /// let mut entity = DynamicEntity::of(&ada)?;
    /// assert_eq!(entity.row_key, "id_000007");
    /// entity.set("email", "ada@x.org");
    /// assert_eq!(entity.read_as::<Employee>()?.email.as_deref(), Some("ada@x.org"));
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    ///
    /// Fails as writing the entity would: if a key or a value is not valid for the service.
    pub fn of<E: Entity>(entity: &E) -> Result<Self, EncodeError> {
        Row::plain(entity)?;
        Self::of_any_size(entity)
    }

    /// Like [`of`](Self::of), but accepts properties of any size and name: for layers that store a
    /// part of them elsewhere, as `rowkey::store::Store` does.
    ///
    /// Fails for a key that is not valid for the service. Properties to be encrypted are included
    /// in plaintext.
    pub fn of_any_size<E: Entity>(entity: &E) -> Result<Self, EncodeError> {
        let (partition_key, row_key) = Key::of(entity).into_parts()?;
        let mut out = RowWriter::in_memory().encrypting(E::DECLARED.encrypted);
        entity.encode(&mut out);
        Ok(Self { partition_key, row_key, properties: Properties::of(out.into_values()?) })
    }

    /// Reads the entity as another type, as if it had come from the table.
    pub fn read_as<P: Projection>(&self) -> Result<P, FailedRow> {
        self.read_beside_sealed(&[])
    }

    /// Reads the entity as another type, like [`read_as`](Self::read_as). It had these properties, which
    /// another version of the program encrypted: reading one of them is an error that names it.
    #[doc(hidden)]
    pub fn read_beside_sealed<P: Projection>(&self, sealed: &[String]) -> Result<P, FailedRow> {
        let row = RowReader::in_memory(self);
        P::decode(&row.beside_sealed(sealed)).map_err(|error| FailedRow::of(&row, &error))
    }

    /// The key of the entity.
    pub fn key(&self) -> Key<Self> {
        Key::new(&*self.partition_key, &*self.row_key)
    }

    /// The size of the entity in bytes as the service counts it, for the limit of 1 MiB and for the bill of storage.
    ///
    /// ```
    /// use rowkey::DynamicEntity;
    ///
    /// let mut note = DynamicEntity::new("sales", "1");
    /// assert_eq!(note.size(), 4 + 2 * 6);
    /// note.set("City", "K\u{f6}ln");
    /// assert_eq!(note.size(), 4 + 2 * 6 + 8 + 2 * 4 + 2 * 4 + 4);
    /// ```
    pub fn size(&self) -> usize {
        let properties = self.iter().map(|(name, value)| of_property(name, &value.as_ref()));
        of_keys(&self.partition_key, &self.row_key) + properties.sum::<usize>()
    }

    /// Sets the properties that identify the type, the discriminator and `EntityVersion`, to those
    /// of `E`, so that the row is read as an `E`. For rows that are written property by property. A
    /// type without a `kind` and a `version` has neither.
    pub fn mark_as<E: Entity>(&mut self) {
        if let Some(kind) = E::KIND {
            self.set(E::DISCRIMINATOR, kind);
        }
        if E::VERSION > 1 {
            self.set(VERSION, E::VERSION);
        }
    }
}

/// Provides the methods of [`Properties`]: `entity.get("Age")`, `entity.set("Age", 36)`.
impl Deref for DynamicEntity {
    type Target = Properties;

    fn deref(&self) -> &Properties {
        &self.properties
    }
}

impl DerefMut for DynamicEntity {
    fn deref_mut(&mut self) -> &mut Properties {
        &mut self.properties
    }
}

impl Projection for DynamicEntity {
    const COLUMNS: Option<&'static [&'static str]> = None;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        // The keys are present unless a `select` left them out.
        Ok(Self {
            partition_key: row.partition_key().unwrap_or_default().to_owned(),
            row_key: row.row_key().unwrap_or_default().to_owned(),
            properties: Properties::of(row.values()?),
        })
    }
}

impl Entity for DynamicEntity {
    const ROWS: Rows = Rows::All;

    fn partition_key(&self, out: &mut KeyWriter) {
        out.literal(&self.partition_key);
    }

    fn row_key(&self, out: &mut KeyWriter) {
        out.literal(&self.row_key);
    }

    fn encode(&self, out: &mut RowWriter) {
        for (name, value) in self.properties.iter() {
            out.property(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use rowkey_wire::edm::DateTime;

    use super::*;

    #[test]
    fn properties_have_no_order() {
        let of = |names: [&str; 2]| {
            let mut entity = DynamicEntity::new("p", "r");
            for name in names {
                entity.set(name, name);
            }
            entity
        };
        assert_eq!(of(["A", "B"]), of(["B", "A"]));
        assert_ne!(of(["A", "B"]), of(["A", "C"]));
        let mut more = of(["A", "B"]);
        more.set("C", 1);
        assert_ne!(of(["A", "B"]), more);
        assert_ne!(more, of(["A", "B"]));
    }

    #[test]
    fn a_property_is_set_to_a_key_of_the_entity() {
        let mut entity = DynamicEntity::new("p", "r");
        assert_eq!(entity.set("Primary", entity.row_key.clone()), None);
        assert_eq!(entity.set("Primary", 1), Some("r".into()));
    }

    fn everything() -> DynamicEntity {
        let mut entity = DynamicEntity::new("p'1", "r \"2\"");
        entity.set("Binary", vec![0_u8, 255]);
        entity.set("Boolean", true);
        entity.set("DateTime", "2026-11-20T12:34:56.7654321Z".parse::<DateTime>().unwrap());
        entity.set("Double", 8_589_934_592.0);
        entity.set("Infinite", f64::INFINITY);
        entity.set("Int32", -1);
        entity.set("Int64", i64::MIN);
        entity.set("Whole", 1.0);
        entity.set("String", "é\n\u{1F600}");
        entity
    }

    #[test]
    fn every_type_of_property_survives() {
        assert_eq!(DynamicEntity::of(&everything()).unwrap(), everything());
        assert_eq!(everything().read_as::<DynamicEntity>().unwrap(), everything());
        assert_eq!(DynamicEntity::of_any_size(&everything()).unwrap(), everything());
    }

    #[test]
    fn in_memory_a_property_may_be_larger_than_the_service_takes() {
        let mut entity = DynamicEntity::new("p", "r");
        entity.set("Photo", vec![7; 2 << 20]);
        assert!(DynamicEntity::of(&entity).unwrap_err().is_too_large());
        let kept = DynamicEntity::of_any_size(&entity).unwrap();
        assert_eq!(kept.read_as::<DynamicEntity>().unwrap(), entity);
        let entity = DynamicEntity::new("p/q", "r");
        let error = DynamicEntity::of_any_size(&entity).unwrap_err();
        assert!(matches!(error, EncodeError::Key(_)));
    }

    #[test]
    fn what_cannot_be_stored_is_refused_as_writing_it_is() {
        let mut entity = DynamicEntity::new("p", "r");
        entity.set("not a name", 1);
        let error = DynamicEntity::of(&entity).unwrap_err();
        assert_eq!(error, EncodeError::InvalidName { name: "not a name".into() });
        let entity = DynamicEntity::new("p/q", "r");
        assert!(matches!(DynamicEntity::of(&entity), Err(EncodeError::Key(_))));
    }
}
