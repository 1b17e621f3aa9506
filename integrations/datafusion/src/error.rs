//! Errors: what failed, in which table and column, and what to do.

use arrow::datatypes::Field;
use datafusion::common::DataFusionError;
use rowkey::edm::Type;

use crate::columns::Kind;

/// An error of the service or the client.
pub(crate) fn of_service(error: rowkey::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error of the service or the client in an error of the engine, if it is one.
///
/// Its [kind](rowkey::Error::kind) says whether a table is missing, a credential was rejected, or the service is busy.
pub fn service_error(error: &DataFusionError) -> Option<&rowkey::Error> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<rowkey::Error>() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

/// The kind of a column, or the error of a column that no property can have.
pub(crate) fn kind(table: &str, field: &Field) -> Result<Kind, DataFusionError> {
    Kind::of_field(field).ok_or_else(|| {
        plan(format!(
            "the column {} of the table {table} has the type {}, which no property has; use Binary, Boolean, Float64, Int32, \
             Int64, Utf8 or Timestamp",
            field.name(),
            field.data_type()
        ))
    })
}

/// The error of a value that the type of its column cannot represent.
pub(crate) fn misfit(table: &str, field: &Field, found: Option<Type>) -> DataFusionError {
    let column = Kind::of_field(field).map_or("another type", |kind| kind.edm().name());
    let found = found.map_or("no value", Type::name);
    DataFusionError::Execution(format!(
        "the column {} of the table {table} is {column}, and an entity has a value of the type {found} that does not fit; read such values as \
         NULL (`Mismatch::Null`, or the flag --mismatch null), or give the column a type that fits (`Open::column`)",
        field.name()
    ))
}

/// The error of a copy of an entity with a property that the sample did not show.
pub(crate) fn unseen(table: &str, property: &str, found: Type) -> DataFusionError {
    let column = match found {
        Type::Binary => "BYTEA",
        Type::Boolean => "BOOLEAN",
        Type::DateTime => "TIMESTAMP",
        Type::Double => "DOUBLE",
        Type::Int32 => "INT",
        Type::Int64 => "BIGINT",
        Type::Guid | Type::String => "TEXT",
    };
    DataFusionError::Execution(format!(
        "an entity of the table {table} has the property {property} ({}), which is no column because the sample of rows did not show it, so the copy would \
         be without it; name it: CREATE TABLE IF NOT EXISTS {table} (PartitionKey TEXT, RowKey TEXT, {property} {column}), in a program \
         `Open::column`; or leave it out: `Mismatch::Null`, the flag --mismatch null",
        found.name()
    ))
}

/// An error that is found when rows have been read or written already.
pub(crate) fn execution(text: impl Into<String>) -> DataFusionError {
    DataFusionError::Execution(text.into())
}

pub(crate) fn plan(text: impl Into<String>) -> DataFusionError {
    DataFusionError::Plan(text.into())
}
