//! An entity of any properties.

use rowkey_wire::edm::Value;

use super::row::{DecodeError, RowReader, RowWriter};
use super::traits::{Entity, Projection, Rows};
use crate::key::{Key, KeyWriter};

/// An entity whose properties are known only at run time.
///
/// Every property is kept, with its type and in its order, so an entity that is read, changed and
/// written back loses nothing.
///
/// ```
/// use rowkey::DynamicEntity;
///
/// let mut entity = DynamicEntity::new("sales", "id_000007");
/// entity.set("Age", 36_i32);
/// entity.set("Email", "ada@contoso.com");
/// assert_eq!(entity.get("Age"), Some(&36_i32.into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicEntity {
    /// The PartitionKey, as it is stored.
    pub partition_key: String,
    /// The RowKey, as it is stored.
    pub row_key: String,
    properties: Vec<(String, Value)>,
}

impl DynamicEntity {
    /// An entity without properties.
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Self {
        Self {
            partition_key: partition_key.into(),
            row_key: row_key.into(),
            properties: Vec::new(),
        }
    }

    /// The key of the entity.
    pub fn key(&self) -> Key<Self> {
        Key::new(&*self.partition_key, &*self.row_key)
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Sets a property; returns the value it had. A new one is added at the end.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (name, value) = (name.into(), value.into());
        if let Some((_, old)) = self.properties.iter_mut().find(|(known, _)| *known == name) {
            return Some(std::mem::replace(old, value));
        }
        self.properties.push((name, value));
        None
    }

    /// Removes a property; returns the value it had.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.properties.iter().position(|(known, _)| known == name)?;
        Some(self.properties.remove(at).1)
    }

    /// The properties in their stored order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.properties.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Projection for DynamicEntity {
    const COLUMNS: Option<&'static [&'static str]> = None;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        // Keys are there unless a `select` left them out.
        let mut entity = Self::new(
            row.fields().text("PartitionKey").unwrap_or_default(),
            row.fields().text("RowKey").unwrap_or_default(),
        );
        for field in row.fields() {
            if matches!(field.name.as_ref(), "PartitionKey" | "RowKey" | "Timestamp") {
                continue;
            }
            match field.answered_value() {
                Ok(Some(value)) => {
                    entity.properties.push((field.name.to_string(), value.into_owned()));
                }
                Ok(None) => {}
                Err(error) => return Err(DecodeError::property(&field.name, error.to_string())),
            }
        }
        Ok(entity)
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
        for (name, value) in &self.properties {
            out.property(name, value);
        }
    }
}
