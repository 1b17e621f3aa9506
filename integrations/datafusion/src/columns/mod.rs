//! The columns of a table: their types, and the Arrow schema.
//!
//! - `cells`: from the entities of a page to a record batch · `infer`: from a sample of rows · `declared`: from a type
//! - `values`: from a record batch to entities, for writes · `conversions`: those that a write must not make

mod cells;
mod conversions;
mod declared;
mod infer;
mod values;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use rowkey::edm::Type;

pub(crate) use cells::{Batch, from_unix_ticks};
pub(crate) use conversions::unchanged;
pub(crate) use declared::Rows;
pub use declared::{Declared, of};
pub(crate) use infer::Found;
pub use infer::Inferred;
pub(crate) use values::Writer;

pub(crate) const PARTITION_KEY: &str = "PartitionKey";
pub(crate) const ROW_KEY: &str = "RowKey";
pub(crate) const TIMESTAMP: &str = "Timestamp";

/// The key of a field's metadata that says which EDM type a column of text has.
const EDM_TYPE: &str = "rowkey:type";
/// All times of the service are in UTC.
const UTC: &str = "+00:00";

/// What a scan does with a value that the type of its column cannot represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mismatch {
    /// The query fails, with an error that names the column and both types.
    #[default]
    Fail,
    /// The value is NULL.
    Null,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Binary,
    Boolean,
    /// In nanoseconds, for 1677 to 2262.
    Nanoseconds,
    /// In microseconds: the tenths of them are lost.
    Microseconds,
    Double,
    Guid,
    Int32,
    Int64,
    Text,
}

impl Kind {
    pub(crate) const fn of(edm: Type) -> Self {
        match edm {
            Type::Binary => Self::Binary,
            Type::Boolean => Self::Boolean,
            Type::DateTime => Self::Nanoseconds,
            Type::Double => Self::Double,
            Type::Guid => Self::Guid,
            Type::Int32 => Self::Int32,
            Type::Int64 => Self::Int64,
            Type::String => Self::Text,
        }
    }

    /// The type in messages.
    pub(crate) const fn edm(self) -> Type {
        match self {
            Self::Binary => Type::Binary,
            Self::Boolean => Type::Boolean,
            Self::Nanoseconds | Self::Microseconds => Type::DateTime,
            Self::Double => Type::Double,
            Self::Guid => Type::Guid,
            Self::Int32 => Type::Int32,
            Self::Int64 => Type::Int64,
            Self::Text => Type::String,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Binary => DataType::Binary,
            Self::Boolean => DataType::Boolean,
            Self::Nanoseconds => DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into())),
            Self::Microseconds => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
            Self::Double => DataType::Float64,
            Self::Guid | Self::Text => DataType::Utf8,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
        }
    }

    /// The column of a property.
    pub(crate) fn field(self, name: &str) -> Field {
        let field = Field::new(name, self.data_type(), true);
        if self != Self::Guid {
            return field;
        }
        field.with_metadata(HashMap::from([(EDM_TYPE.to_owned(), Type::Guid.name().to_owned())]))
    }

    /// The kind of a column that [`field`](Self::field) made; `None` for another one.
    pub(crate) fn of_field(field: &Field) -> Option<Self> {
        Some(match field.data_type() {
            DataType::Binary => Self::Binary,
            DataType::Boolean => Self::Boolean,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Self::Nanoseconds,
            DataType::Timestamp(TimeUnit::Microsecond, _) => Self::Microseconds,
            DataType::Float64 => Self::Double,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::Utf8 if field.metadata().contains_key(EDM_TYPE) => Self::Guid,
            DataType::Utf8 => Self::Text,
            _ => return None,
        })
    }
}

/// The schema of a table with these properties.
pub(crate) fn schema<'a>(properties: impl IntoIterator<Item = (&'a str, Kind)>) -> SchemaRef {
    let key = |name| Field::new(name, DataType::Utf8, false);
    // The service sets it, so a row that is written has none.
    let timestamp = Kind::Nanoseconds.field(TIMESTAMP);
    let keys = [key(PARTITION_KEY), key(ROW_KEY), timestamp];
    let properties = properties.into_iter().map(|(name, kind)| kind.field(name));
    Arc::new(Schema::new(keys.into_iter().chain(properties).collect::<Vec<_>>()))
}
