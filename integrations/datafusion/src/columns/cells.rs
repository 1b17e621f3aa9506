//! From the entities of a page to a record batch.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Float64Builder, Int32Builder, Int64Builder,
    RecordBatch, RecordBatchOptions, StringBuilder, TimestampMicrosecondBuilder,
    TimestampNanosecondBuilder,
};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use rowkey::edm::{DateTime, Value};
use rowkey::{DynamicEntity, Property as _, Stored};

use super::{Kind, Mismatch, PARTITION_KEY, ROW_KEY, TIMESTAMP, UTC};
use crate::error;

/// Ticks of 100 ns from 0001-01-01 to 1970-01-01.
const UNIX_EPOCH: i64 = 621_355_968_000_000_000;

/// A record batch that is being filled.
pub(crate) struct Batch<'a> {
    table: &'a str,
    schema: &'a SchemaRef,
    mismatch: Mismatch,
    /// Whether a value that would be rounded does not fit.
    is_exact: bool,
    columns: Vec<(&'a Field, Column)>,
    rows: usize,
}

enum Column {
    PartitionKey(StringBuilder),
    RowKey(StringBuilder),
    Timestamp(TimestampNanosecondBuilder),
    Property(Cells),
}

enum Cells {
    Binary(BinaryBuilder),
    Boolean(BooleanBuilder),
    Nanoseconds(TimestampNanosecondBuilder),
    Microseconds(TimestampMicrosecondBuilder),
    Double(Float64Builder),
    Guid(StringBuilder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Text(StringBuilder),
}

impl<'a> Batch<'a> {
    /// A batch with these columns, and room for rows.
    pub(crate) fn new(
        table: &'a str,
        schema: &'a SchemaRef,
        mismatch: Mismatch,
        is_exact: bool,
        rows: usize,
    ) -> Result<Self> {
        let text = || StringBuilder::with_capacity(rows, rows * 16);
        let columns = schema.fields().iter().map(|field| {
            let column = match field.name().as_str() {
                PARTITION_KEY => Column::PartitionKey(text()),
                ROW_KEY => Column::RowKey(text()),
                TIMESTAMP => Column::Timestamp(
                    TimestampNanosecondBuilder::with_capacity(rows).with_timezone(UTC),
                ),
                _ => Column::Property(Cells::new(error::kind(table, field)?, rows)),
            };
            Ok((&**field, column))
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { table, schema, mismatch, is_exact, columns, rows: 0 })
    }

    /// Adds an entity.
    pub(crate) fn push(&mut self, row: &Stored<DynamicEntity>) -> Result<()> {
        self.rows += 1;
        for (field, column) in &mut self.columns {
            match column {
                Column::PartitionKey(keys) => keys.append_value(&row.entity.partition_key),
                Column::RowKey(keys) => keys.append_value(&row.entity.row_key),
                Column::Timestamp(times) => {
                    let nanoseconds = nanoseconds(row.timestamp);
                    times.append_value(nanoseconds.unwrap_or(i64::MAX));
                }
                Column::Property(cells) => {
                    let value = row.entity.get(field.name());
                    if cells.push(value, self.is_exact).is_err() {
                        if self.mismatch == Mismatch::Fail {
                            let found = value.map(Value::edm_type);
                            return Err(error::misfit(self.table, field, found));
                        }
                        let null = cells.push(None, self.is_exact);
                        null.map_err(|()| error::misfit(self.table, field, None))?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let columns = self.columns.into_iter().map(|(_, column)| match column {
            Column::PartitionKey(mut keys) | Column::RowKey(mut keys) => {
                Arc::new(keys.finish()) as ArrayRef
            }
            Column::Timestamp(mut times) => Arc::new(times.finish()),
            Column::Property(cells) => cells.finish(),
        });
        RecordBatch::try_new_with_options(Arc::clone(self.schema), columns.collect(), &options)
            .map_err(DataFusionError::from)
    }
}

impl Cells {
    fn new(kind: Kind, rows: usize) -> Self {
        let text = || StringBuilder::with_capacity(rows, rows * 16);
        match kind {
            Kind::Binary => Self::Binary(BinaryBuilder::with_capacity(rows, rows * 16)),
            Kind::Boolean => Self::Boolean(BooleanBuilder::with_capacity(rows)),
            Kind::Nanoseconds => Self::Nanoseconds(
                TimestampNanosecondBuilder::with_capacity(rows).with_timezone(UTC),
            ),
            Kind::Microseconds => Self::Microseconds(
                TimestampMicrosecondBuilder::with_capacity(rows).with_timezone(UTC),
            ),
            Kind::Double => Self::Double(Float64Builder::with_capacity(rows)),
            Kind::Guid => Self::Guid(text()),
            Kind::Int32 => Self::Int32(Int32Builder::with_capacity(rows)),
            Kind::Int64 => Self::Int64(Int64Builder::with_capacity(rows)),
            Kind::Text => Self::Text(text()),
        }
    }

    /// Adds a value; `Err` if the column cannot represent it, or only rounded although it must be exact. Numbers are converted as fields of the client convert them.
    fn push(&mut self, value: Option<&Value>, is_exact: bool) -> Result<(), ()> {
        match self {
            Self::Binary(cells) => match value {
                Some(Value::Binary(bytes)) => cells.append_value(bytes),
                None => cells.append_null(),
                Some(_) => return Err(()),
            },
            Self::Boolean(cells) => match value {
                Some(Value::Boolean(value)) => cells.append_value(*value),
                None => cells.append_null(),
                Some(_) => return Err(()),
            },
            Self::Nanoseconds(cells) => match value {
                Some(Value::DateTime(instant)) => {
                    cells.append_value(nanoseconds(*instant).ok_or(())?);
                }
                None => cells.append_null(),
                Some(_) => return Err(()),
            },
            Self::Microseconds(cells) => match value {
                // A copy must keep what there is.
                Some(Value::DateTime(instant)) if is_exact && instant.ticks() % 10 != 0 => {
                    return Err(());
                }
                Some(Value::DateTime(instant)) => cells.append_value(microseconds(*instant)),
                None => cells.append_null(),
                Some(_) => return Err(()),
            },
            Self::Double(cells) => match value {
                Some(Value::Double(value)) => cells.append_value(*value),
                Some(value) => {
                    cells.append_value(f64::from_value(value.as_ref()).map_err(|_| ())?);
                }
                None => cells.append_null(),
            },
            Self::Guid(cells) => match value {
                Some(Value::Guid(guid)) => cells.append_value(guid.to_string()),
                None => cells.append_null(),
                Some(_) => return Err(()),
            },
            Self::Int32(cells) => match value {
                Some(Value::Int32(value)) => cells.append_value(*value),
                Some(value) => {
                    cells.append_value(i32::from_value(value.as_ref()).map_err(|_| ())?);
                }
                None => cells.append_null(),
            },
            Self::Int64(cells) => match value {
                Some(Value::Int64(value)) => cells.append_value(*value),
                Some(value) => {
                    cells.append_value(i64::from_value(value.as_ref()).map_err(|_| ())?);
                }
                None => cells.append_null(),
            },
            Self::Text(cells) => match value {
                Some(Value::String(text)) => cells.append_value(text),
                None => cells.append_null(),
                Some(_) => return Err(()),
            },
        }
        Ok(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Binary(mut cells) => Arc::new(cells.finish()) as ArrayRef,
            Self::Boolean(mut cells) => Arc::new(cells.finish()),
            Self::Nanoseconds(mut cells) => Arc::new(cells.finish()),
            Self::Microseconds(mut cells) => Arc::new(cells.finish()),
            Self::Double(mut cells) => Arc::new(cells.finish()),
            Self::Guid(mut cells) | Self::Text(mut cells) => Arc::new(cells.finish()),
            Self::Int32(mut cells) => Arc::new(cells.finish()),
            Self::Int64(mut cells) => Arc::new(cells.finish()),
        }
    }
}

/// Nanoseconds since 1970; `None` before 1677 and after 2262.
pub(crate) fn nanoseconds(instant: DateTime) -> Option<i64> {
    (instant.ticks() - UNIX_EPOCH).checked_mul(100)
}

/// Microseconds since 1970, rounded down.
const fn microseconds(instant: DateTime) -> i64 {
    (instant.ticks() - UNIX_EPOCH).div_euclid(10)
}

/// The instant of a number of ticks since 1970; `None` if the service cannot store it.
pub(crate) fn from_unix_ticks(ticks: i128) -> Option<DateTime> {
    let ticks = i64::try_from(ticks + i128::from(UNIX_EPOCH)).ok()?;
    DateTime::from_ticks(ticks).ok()
}
