//! From a record batch to entities, for writes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{
    DataType, Float64Type, Int32Type, Int64Type, SchemaRef, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use datafusion::common::Result;
use rowkey::edm::{Guid, Value};
use rowkey::{DynamicEntity, Table};

use super::cells::from_unix_ticks;
use super::{Kind, PARTITION_KEY, ROW_KEY, Rows, TIMESTAMP};
use crate::error;

/// Makes entities of the rows of batches with the schema of a table.
pub(crate) struct Writer {
    table: String,
    /// Which rows of the table are those of its type.
    rows: Arc<Rows>,
    partition_key: usize,
    row_key: usize,
    properties: Vec<(usize, String, Kind)>,
}

impl Writer {
    pub(crate) fn new(table: &Table, schema: &SchemaRef, rows: &Arc<Rows>) -> Result<Self> {
        let table = table.name();
        let key = |name: &str| {
            let found =
                schema.fields().find(name).filter(|(_, key)| *key.data_type() == DataType::Utf8);
            found.map(|(at, _)| at).ok_or_else(|| {
                error::plan(format!(
                    "a row of the table {table} needs a {name} of the type Utf8; add that column"
                ))
            })
        };
        let (partition_key, row_key) = (key(PARTITION_KEY)?, key(ROW_KEY)?);
        let mut properties = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            // The service sets the Timestamp.
            if !matches!(field.name().as_str(), PARTITION_KEY | ROW_KEY | TIMESTAMP) {
                properties.push((at, field.name().clone(), error::kind(table, field)?));
            }
        }
        let rows = Arc::clone(rows);
        Ok(Self { table: table.to_owned(), rows, partition_key, row_key, properties })
    }

    /// The entities of a batch. A NULL is a property that the entity does not have.
    pub(crate) fn entities(&self, batch: &RecordBatch) -> Result<Vec<DynamicEntity>> {
        let keys = |at: usize| batch.column(at).as_string::<i32>();
        let (partition_keys, row_keys) = (keys(self.partition_key), keys(self.row_key));
        let mut entities = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            if partition_keys.is_null(row) || row_keys.is_null(row) {
                return Err(error::execution(format!(
                    "a row for the table {} has a key that is NULL; each needs a PartitionKey and a RowKey",
                    self.table
                )));
            }
            let (partition_key, row_key) = (partition_keys.value(row), row_keys.value(row));
            if !self.rows.partitions.contains(partition_key) || !self.rows.rows.contains(row_key) {
                return Err(error::execution(format!(
                    "a row for the table {} has a key that no entity of the table's type has; its PartitionKey and RowKey begin as the templates of \
                     the type do",
                    self.table
                )));
            }
            let mut entity = DynamicEntity::new(partition_key, row_key);
            for (at, name, kind) in &self.properties {
                let column = batch.column(*at);
                if column.is_null(row) {
                    continue;
                }
                let value = value(*kind, column, row).ok_or_else(|| {
                    error::execution(format!(
                        "a value of the column {name} of the table {} cannot be stored as {}",
                        self.table,
                        kind.edm().name()
                    ))
                })?;
                entity.set(name.as_str(), value);
            }
            if let Some((name, kind)) = &self.rows.kind {
                entity.set(name.as_str(), kind.as_str());
            }
            entities.push(entity);
        }
        Ok(entities)
    }
}

fn value(kind: Kind, column: &ArrayRef, row: usize) -> Option<Value> {
    Some(match kind {
        Kind::Binary => Value::Binary(column.as_binary::<i32>().value(row).to_vec()),
        Kind::Boolean => Value::Boolean(column.as_boolean().value(row)),
        Kind::Nanoseconds => {
            let nanoseconds = column.as_primitive::<TimestampNanosecondType>().value(row);
            Value::DateTime(from_unix_ticks(i128::from(nanoseconds).div_euclid(100))?)
        }
        Kind::Microseconds => {
            let microseconds = column.as_primitive::<TimestampMicrosecondType>().value(row);
            Value::DateTime(from_unix_ticks(i128::from(microseconds) * 10)?)
        }
        Kind::Double => Value::Double(column.as_primitive::<Float64Type>().value(row)),
        Kind::Guid => Value::Guid(column.as_string::<i32>().value(row).parse::<Guid>().ok()?),
        Kind::Int32 => Value::Int32(column.as_primitive::<Int32Type>().value(row)),
        Kind::Int64 => Value::Int64(column.as_primitive::<Int64Type>().value(row)),
        Kind::Text => Value::String(column.as_string::<i32>().value(row).to_owned()),
    })
}
