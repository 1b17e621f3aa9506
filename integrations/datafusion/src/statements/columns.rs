//! The columns of a query as those of a table.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::Result;
use rowkey::{Filter, Operator};

use crate::columns::{Kind, PARTITION_KEY, ROW_KEY, TIMESTAMP, schema};
use crate::error;

/// The columns with which the rows of a query can be stored.
pub(super) fn of_query(table: &str, query: &Schema) -> Result<SchemaRef> {
    for key in [PARTITION_KEY, ROW_KEY] {
        let Ok(field) = query.field_with_name(key) else {
            return Err(error::plan(format!(
                "the table {table} needs the columns PartitionKey and RowKey, and {key} is not there; name a column so: \
                 SELECT .. AS {key}"
            )));
        };
        if kind(field) != Some(Kind::Text) {
            return Err(error::plan(format!(
                "the column {key} of the table {table} has the type {}, and keys are text; convert it: CAST(.. AS TEXT) AS {key}",
                field.data_type()
            )));
        }
    }
    let mut properties: Vec<(&str, Kind)> = Vec::new();
    for field in query.fields() {
        let name = field.name().as_str();
        if matches!(name, PARTITION_KEY | ROW_KEY | TIMESTAMP) {
            continue;
        }
        if properties.iter().any(|(known, _)| *known == name) {
            return Err(error::plan(format!(
                "the table {table} would have two columns {name}; name one otherwise: SELECT .. AS .."
            )));
        }
        // The names that the client refuses.
        if Filter::dynamic(name, Operator::Equal, true).to_odata().is_err() {
            return Err(error::plan(format!(
                "the column \"{name}\" of the table {table} has a name that no property can have; give it one of letters, digits and _: \
                 SELECT .. AS .."
            )));
        }
        let kind = kind(field).ok_or_else(|| {
            error::plan(format!(
                "the column {name} of the table {table} has the type {}, which no property has; convert it, for example to TEXT, DOUBLE \
                 or BIGINT: CAST(.. AS DOUBLE) AS {name}",
                field.data_type()
            ))
        })?;
        properties.push((name, kind));
    }
    Ok(schema(properties))
}

/// The type in which each value of a column can be stored as it is; `None` if there is none, or a value could lose digits.
fn kind(field: &Field) -> Option<Kind> {
    if let Some(kind) = Kind::of_field(field) {
        return Some(kind);
    }
    Some(match field.data_type() {
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => Kind::Binary,
        // A column of NULLs alone: its type is never seen.
        DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
            let text = Field::new(field.name(), DataType::Utf8, true);
            return Kind::of_field(&text.with_metadata(field.metadata().clone()));
        }
        DataType::Dictionary(_, values) => {
            return kind(&Field::new(field.name(), (**values).clone(), true));
        }
        DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 => Kind::Int32,
        // A value beyond Int64 fails.
        DataType::UInt32 | DataType::UInt64 => Kind::Int64,
        DataType::Float16 | DataType::Float32 => Kind::Double,
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _)
        | DataType::Date32
        | DataType::Date64 => Kind::Microseconds,
        _ => return None,
    })
}
