//! One entity of a file.

use rowkey_entity::edm::{DateTime, Value, ValueRef};
use rowkey_entity::{DynamicEntity, Stored};
use serde::ser::SerializeMap;

use crate::error::{Error, ErrorKind, MAX_ENTITY, Result, TOO_LONG};

pub(crate) const PARTITION_KEY: &str = "PartitionKey";
pub(crate) const ROW_KEY: &str = "RowKey";
pub(crate) const TIMESTAMP: &str = "Timestamp";

/// An entity and, if the file has it, the time of its last write.
///
/// The ETag is not kept: in Azure Storage it is made of the Timestamp, and both are new when the entity
/// is written to another table.
///
/// Two rows are equal if their entities and Timestamps are. As for numbers, NaN is not equal to itself and -0.0 is
/// equal to 0.0; [`same_entity`](Self::same_entity) compares what is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The keys and the properties, each with its type.
    pub entity: DynamicEntity,
    /// When the service wrote the entity.
    pub timestamp: Option<DateTime>,
}

impl Row {
    /// A row without a Timestamp.
    ///
    /// ```
    /// use rowkey::DynamicEntity;
    /// use rowkey_transfer::Row;
    ///
    /// let row = Row::new(DynamicEntity::new("sales", "id_000007"));
    /// assert_eq!(row.timestamp, None);
    /// ```
    pub const fn new(entity: DynamicEntity) -> Self {
        Self { entity, timestamp: None }
    }

    /// Whether both have the same keys and the same properties in any order: what the service would
    /// return for both is the same.
    ///
    /// The Timestamps are not compared. -0.0 differs from 0.0, and NaN is equal to NaN, whose bits the
    /// service does not keep.
    ///
    /// ```
    /// use rowkey::DynamicEntity;
    /// use rowkey_transfer::Row;
    ///
    /// let of = |ratio: f64| {
    ///     let mut entity = DynamicEntity::new("sales", "id_000007");
    ///     entity.set("Ratio", ratio);
    ///     Row::new(entity)
    /// };
    /// assert!(of(f64::NAN).same_entity(&of(f64::NAN)));
    /// assert!(!of(0.0).same_entity(&of(-0.0)));
    /// ```
    pub fn same_entity(&self, other: &Self) -> bool {
        self.entity.is_same(&other.entity)
    }
}

impl From<DynamicEntity> for Row {
    fn from(entity: DynamicEntity) -> Self {
        Self::new(entity)
    }
}

/// Keeps the Timestamp and drops the ETag.
impl From<Stored<DynamicEntity>> for Row {
    fn from(stored: Stored<DynamicEntity>) -> Self {
        Self { timestamp: Some(stored.timestamp), entity: stored.entity }
    }
}

/// Refuses the name of a property that a file uses for a key, the Timestamp or an annotation. The service
/// stores no such property.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_reserved = matches!(name, PARTITION_KEY | ROW_KEY | TIMESTAMP)
        || name.contains('@')
        || name.starts_with("odata.")
        || name.is_empty();
    if is_reserved {
        let what = format!("property `{name}`: the name is reserved; rename the property");
        return Err(Error::new(ErrorKind::ReservedName, what));
    }
    Ok(())
}

/// Replaces `text` by what `write` writes for a row, the number of which is for errors.
///
/// Fails for a property with a reserved name, and for a text that no reader accepts.
pub(crate) fn encode(
    row: &Row,
    number: u64,
    text: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let encoded = || {
        for (name, _) in row.entity.iter() {
            check_name(name)?;
        }
        text.clear();
        write(text)?;
        if text.len() > MAX_ENTITY {
            return Err(Error::new(ErrorKind::TooLong, TOO_LONG));
        }
        Ok(())
    };
    let encoded: Result<()> = encoded();
    encoded.map_err(|error| error.at_row(number))
}

/// Writes the keys and the Timestamp of a row, with which each object begins.
pub(crate) fn serialize_head<M: SerializeMap>(
    object: &mut M,
    row: &Row,
) -> std::result::Result<(), M::Error> {
    object.serialize_entry(PARTITION_KEY, &row.entity.partition_key)?;
    object.serialize_entry(ROW_KEY, &row.entity.row_key)?;
    row.timestamp.iter().try_for_each(|timestamp| object.serialize_entry(TIMESTAMP, timestamp))
}

/// Reads a value of a type from its text.
pub(crate) fn parse(name: &str, edm_type: rowkey_entity::edm::Type, text: &str) -> Result<Value> {
    edm_type.parse(text).map(ValueRef::into_owned).ok_or_else(|| {
        let what = format!(
            "property `{name}`: the value is not a valid {edm_type}; correct the value or its type"
        );
        Error::new(ErrorKind::InvalidValue, what)
    })
}

/// The most properties of an entity that is read. The service stores 252; time grows with the square of their number.
const MAX_PROPERTIES: usize = 4_096;

/// An entity whose keys are set while it is read.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) partition_key: Option<String>,
    pub(crate) row_key: Option<String>,
    pub(crate) timestamp: Option<DateTime>,
    pub(crate) properties: Vec<(String, Value)>,
}

impl Parts {
    /// The row. Fails if a key is absent.
    pub(crate) fn into_row(self) -> Result<Row> {
        let key = |key: Option<String>, name: &str| {
            let what =
                || format!("{name} is absent; each entity has both keys, which may be empty");
            key.ok_or_else(|| Error::new(ErrorKind::MissingKey, what()))
        };
        if self.properties.len() > MAX_PROPERTIES {
            let what = format!(
                "it has more than {MAX_PROPERTIES} properties, and an entity of the service has at most 252; check whether the \
                 file has this format"
            );
            return Err(Error::new(ErrorKind::TooLong, what));
        }
        let mut entity = DynamicEntity::new(
            key(self.partition_key, PARTITION_KEY)?,
            key(self.row_key, ROW_KEY)?,
        );
        entity.properties.extend(self.properties);
        Ok(Row { entity, timestamp: self.timestamp })
    }

    /// Reads the Timestamp from its text.
    pub(crate) fn set_timestamp(&mut self, text: &str) -> Result<()> {
        let what = "Timestamp: the value is not a valid Edm.DateTime; correct or remove it";
        let read = text.parse().map_err(|_| Error::new(ErrorKind::InvalidValue, what))?;
        self.timestamp = Some(read);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_if_their_stored_entities_are() {
        let of = |names: &[(&str, Value)]| {
            let mut entity = DynamicEntity::new("p", "r");
            entity.properties.extend(names.iter().cloned());
            Row::new(entity)
        };
        let one = of(&[("A", 1.into()), ("B", f64::NAN.into())]);
        assert!(one.same_entity(&of(&[("B", f64::NAN.into()), ("A", 1.into())])));
        assert_ne!(one, one.clone(), "NaN is not equal to itself");
        for other in [
            of(&[("A", 1.into())]),
            of(&[("A", 1_i64.into()), ("B", f64::NAN.into())]),
            of(&[("A", 1.into()), ("C", f64::NAN.into())]),
            Row::new(DynamicEntity::new("p", "s")),
        ] {
            assert!(!one.same_entity(&other));
        }
    }

    #[test]
    fn names_of_keys_and_annotations_are_reserved() {
        for name in ["PartitionKey", "RowKey", "Timestamp", "A@type", "odata.etag", ""] {
            assert_eq!(check_name(name).unwrap_err().kind(), ErrorKind::ReservedName);
        }
        check_name("timestamp").unwrap();
    }
}
