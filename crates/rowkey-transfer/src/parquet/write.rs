//! Writes row groups.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::{ByteArray, FixedLenByteArray};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use rowkey_entity::edm::Value;

use super::schema::{self, Form, Leaf, Target};
use crate::columns::Columns;
use crate::error::{Error, ErrorKind, Result};
use crate::row::{Row, TIMESTAMP};

/// The most rows of a row group.
const MAX_ROWS: usize = 65_536;
/// The bytes in memory after which a row group ends.
const MAX_BYTES: usize = 16 << 20;
/// About the bytes of a cell in memory beside its text.
const OVERHEAD: usize = 34;

/// How the pages of a Parquet file are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// Not at all.
    Uncompressed,
    /// Snappy, which all programs read.
    #[default]
    Snappy,
    /// Zstandard at its lowest level.
    #[cfg(feature = "zstd")]
    Zstd,
}

/// Writes rows as Parquet.
///
/// All columns are known before the first row: [`Spool`](crate::Spool) collects them. A row group has up to 65,536 rows
/// and about 16 MiB, which are in memory until it ends. The [module](super) describes the columns.
///
/// ```
/// use std::io::Cursor;
///
/// use rowkey::DynamicEntity;
/// use rowkey_transfer::parquet::{Codec, Decoder, Encoder};
/// use rowkey_transfer::{Row, Spool};
///
/// let mut ada = DynamicEntity::new("sales", "7");
/// ada.set("Age", 36);
/// let mut spool = Spool::new(Cursor::new(Vec::new()));
/// spool.write(&Row::new(ada.clone()))?;
/// let (columns, rows) = spool.finish()?;
/// let mut encoder = Encoder::new(Vec::new(), &columns, Codec::Snappy)?;
/// for row in rows {
///     encoder.write(&row?)?;
/// }
/// let file = encoder.finish()?;
/// let rows: Vec<Row> = Decoder::from_bytes(file)?.collect::<Result<_, _>>()?;
/// assert_eq!(rows[0].entity, ada);
/// # Ok::<(), rowkey_transfer::Error>(())
/// ```
pub struct Encoder<W: Write + Send> {
    out: SerializedFileWriter<W>,
    leaves: Vec<Leaf>,
    /// The positions of the columns of each property, and of the Timestamp.
    by_name: HashMap<String, Vec<usize>>,
    cells: Vec<Cells>,
    /// The rows of the current group, and about how many bytes they have.
    buffered: usize,
    bytes: usize,
    rows: u64,
}

/// The values of one column of the current group, without nulls, and which rows have one.
struct Cells {
    values: Values,
    levels: Vec<i16>,
}

enum Values {
    Booleans(Vec<bool>),
    Bytes(Vec<ByteArray>),
    Doubles(Vec<f64>),
    Fixed(Vec<FixedLenByteArray>),
    Int32s(Vec<i32>),
    Int64s(Vec<i64>),
}

impl<W: Write + Send> Encoder<W> {
    /// Begins a file.
    pub fn new(out: W, columns: &Columns, codec: Codec) -> Result<Self> {
        let leaves = schema::leaves(columns);
        let compression = match codec {
            Codec::Uncompressed => Compression::UNCOMPRESSED,
            Codec::Snappy => Compression::SNAPPY,
            #[cfg(feature = "zstd")]
            Codec::Zstd => Compression::ZSTD(::parquet::basic::ZstdLevel::default()),
        };
        let metadata = KeyValue::new(schema::KEY.to_owned(), schema::metadata(&leaves));
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_created_by(concat!("rowkey-transfer ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![metadata]))
            .build();
        let schema = schema::schema(&leaves).map_err(failed)?;
        let out = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(failed)?;
        let cells = leaves.iter().map(|leaf| Cells::of(leaf.form)).collect();
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, leaf) in leaves.iter().enumerate() {
            let name = match &leaf.target {
                Target::Property(name) => name,
                Target::Timestamp => TIMESTAMP,
                Target::PartitionKey | Target::RowKey => continue,
            };
            by_name.entry(name.to_owned()).or_default().push(at);
        }
        Ok(Self { out, leaves, by_name, cells, buffered: 0, bytes: 0, rows: 0 })
    }

    /// Adds a row.
    ///
    /// Fails for a property, a type of one, or a Timestamp without a [column](ErrorKind::UnknownColumn), and then has
    /// added nothing.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        let at_row = self.rows + 1;
        let timestamp = row.timestamp.map(Value::DateTime);
        let mut slots: Vec<Option<&Value>> = vec![None; self.leaves.len()];
        let named = row.entity.iter().chain(timestamp.as_ref().map(|value| (TIMESTAMP, value)));
        for (name, value) in named {
            let leaves = self.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
            let mut is_held = false;
            for at in leaves {
                if self.leaves[*at].form.holds(value) {
                    slots[*at] = Some(value);
                    is_held = true;
                }
            }
            if !is_held {
                return Err(unknown(name).at_row(at_row));
            }
        }
        for ((leaf, cells), value) in self.leaves.iter().zip(&mut self.cells).zip(slots) {
            self.bytes += match &leaf.target {
                Target::PartitionKey => cells.push_key(&row.entity.partition_key),
                Target::RowKey => cells.push_key(&row.entity.row_key),
                _ => cells.push(leaf.form, value),
            };
        }
        self.buffered += 1;
        self.rows += 1;
        if self.buffered >= MAX_ROWS || self.bytes >= MAX_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// How many rows were added.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the last row group and the footer, flushes, and returns what was written to.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        let mut out = self.out.into_inner().map_err(failed)?;
        out.flush()?;
        Ok(out)
    }

    /// Writes a row group.
    fn flush(&mut self) -> Result<()> {
        if self.buffered == 0 {
            return Ok(());
        }
        write(&mut self.out, &self.leaves, &mut self.cells).map_err(failed)?;
        (self.buffered, self.bytes) = (0, 0);
        Ok(())
    }
}

fn write<W: Write + Send>(
    out: &mut SerializedFileWriter<W>,
    leaves: &[Leaf],
    cells: &mut [Cells],
) -> ParquetResult<()> {
    let mut group = out.next_row_group()?;
    for (leaf, cells) in leaves.iter().zip(cells) {
        let Some(mut column) = group.next_column()? else { break };
        let levels = (!leaf.is_key()).then_some(&*cells.levels);
        match (column.untyped(), &cells.values) {
            (ColumnWriter::BoolColumnWriter(out), Values::Booleans(values)) => {
                out.write_batch(values, levels, None)?;
            }
            (ColumnWriter::ByteArrayColumnWriter(out), Values::Bytes(values)) => {
                out.write_batch(values, levels, None)?;
            }
            (ColumnWriter::DoubleColumnWriter(out), Values::Doubles(values)) => {
                out.write_batch(values, levels, None)?;
            }
            (ColumnWriter::FixedLenByteArrayColumnWriter(out), Values::Fixed(values)) => {
                out.write_batch(values, levels, None)?;
            }
            (ColumnWriter::Int32ColumnWriter(out), Values::Int32s(values)) => {
                out.write_batch(values, levels, None)?;
            }
            (ColumnWriter::Int64ColumnWriter(out), Values::Int64s(values)) => {
                out.write_batch(values, levels, None)?;
            }
            _ => return Err(ParquetError::General("a column has another type".to_owned())),
        }
        column.close()?;
        cells.clear();
    }
    group.close().map(|_| ())
}

impl Form {
    /// Whether a column holds a value, or a part of it.
    fn holds(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Nanos, Value::DateTime(instant)) => schema::nanos(*instant).is_some(),
            (Self::Micros | Self::Ticks, Value::DateTime(_)) => true,
            (Self::Plain(edm_type), value) => edm_type == value.edm_type(),
            _ => false,
        }
    }
}

impl Cells {
    fn of(form: Form) -> Self {
        use rowkey_entity::edm::Type;

        let values = match form {
            Form::Ticks | Form::Plain(Type::Int32) => Values::Int32s(Vec::new()),
            Form::Nanos | Form::Micros | Form::Plain(Type::DateTime | Type::Int64) => {
                Values::Int64s(Vec::new())
            }
            Form::Plain(Type::Binary | Type::String) => Values::Bytes(Vec::new()),
            Form::Plain(Type::Boolean) => Values::Booleans(Vec::new()),
            Form::Plain(Type::Double) => Values::Doubles(Vec::new()),
            Form::Plain(Type::Guid) => Values::Fixed(Vec::new()),
        };
        Self { values, levels: Vec::new() }
    }

    /// Adds a value that the column holds, or a null; returns about how many bytes it takes.
    fn push(&mut self, form: Form, value: Option<&Value>) -> usize {
        self.levels.push(i16::from(value.is_some()));
        let Some(value) = value else { return 2 };
        match (&mut self.values, value) {
            (Values::Booleans(values), Value::Boolean(value)) => values.push(*value),
            (Values::Bytes(values), Value::Binary(bytes)) => values.push(bytes.clone().into()),
            (Values::Bytes(values), Value::String(text)) => values.push(text.as_str().into()),
            (Values::Doubles(values), Value::Double(value)) => values.push(*value),
            (Values::Fixed(values), Value::Guid(guid)) => {
                values.push(ByteArray::from(guid.into_bytes().to_vec()).into());
            }
            (Values::Int32s(values), Value::Int32(value)) => values.push(*value),
            (Values::Int32s(values), Value::DateTime(instant)) => {
                values.push(schema::micros(*instant).1);
            }
            (Values::Int64s(values), Value::Int64(value)) => values.push(*value),
            (Values::Int64s(values), Value::DateTime(instant)) => values.push(match form {
                Form::Micros => schema::micros(*instant).0,
                _ => schema::nanos(*instant).unwrap_or_default(),
            }),
            // `Form::holds` was asked before.
            _ => {}
        }
        match value {
            Value::Binary(bytes) => bytes.len() + OVERHEAD,
            Value::String(text) => text.len() + OVERHEAD,
            _ => OVERHEAD,
        }
    }

    /// Adds a key.
    fn push_key(&mut self, key: &str) -> usize {
        if let Values::Bytes(values) = &mut self.values {
            values.push(key.into());
        }
        key.len() + OVERHEAD
    }

    fn clear(&mut self) {
        self.levels.clear();
        match &mut self.values {
            Values::Booleans(values) => values.clear(),
            Values::Bytes(values) => values.clear(),
            Values::Doubles(values) => values.clear(),
            Values::Fixed(values) => values.clear(),
            Values::Int32s(values) => values.clear(),
            Values::Int64s(values) => values.clear(),
        }
    }
}

fn unknown(name: &str) -> Error {
    let what = format!(
        "property `{name}`: it has no column for its type; observe all rows before the first one is written"
    );
    Error::new(ErrorKind::UnknownColumn, what)
}

/// Writing fails only if the file cannot be written.
fn failed(error: ParquetError) -> Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => (*error).into(),
            Err(_) => io::Error::other("the file cannot be written").into(),
        },
        _ => io::Error::other("the file cannot be written").into(),
    }
}

impl<W: Write + Send> fmt::Debug for Encoder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("rows", &self.rows).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rowkey_entity::DynamicEntity;
    use rowkey_entity::edm::DateTime;

    use super::*;

    #[test]
    fn what_was_not_observed_is_an_error_that_names_the_row() {
        let row = |name: &str, value: Value| {
            let mut entity = DynamicEntity::new("p", "r");
            entity.set(name, value);
            Row::new(entity)
        };
        let near = Value::DateTime("2026-11-20T12:34:56Z".parse().unwrap());
        let mut columns = Columns::default();
        columns.observe(&row("A", 1.into())).unwrap();
        columns.observe(&row("At", near)).unwrap();
        let mut encoder = Encoder::new(Vec::new(), &columns, Codec::default()).unwrap();
        encoder.write(&row("A", 2.into())).unwrap();
        let timestamp = Some(DateTime::MIN);
        for bad in [
            row("B", 1.into()),
            row("A", "1".into()),
            row("At", DateTime::MAX.into()),
            Row { timestamp, ..row("A", 1.into()) },
        ] {
            let error = encoder.write(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnknownColumn);
            assert!(error.to_string().starts_with("row 2: property"), "{error}");
        }
        assert_eq!(encoder.rows(), 1);
    }
}
