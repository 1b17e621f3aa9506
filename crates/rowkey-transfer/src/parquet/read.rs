//! Reads row groups, a few rows at a time.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::{ByteArray, DataType};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use ::parquet::file::reader::ChunkReader;
use rowkey_entity::edm::{DateTime, Guid, Value};

use super::pages::Pages;
use super::schema::{Target, UNIX_EPOCH};
use super::source::{Decode, Source, sources};
use super::thrift;
use crate::error::{Error, ErrorKind, MAX_ENTITY, Result, TOO_LONG};
use crate::row::{Parts, Row};

/// How many rows are decoded at once. Their texts and bytes stay in the pages until a row is asked for.
const BATCH: usize = 64;

/// A value of a batch.
enum Cell {
    Value(Value),
    Text(ByteArray),
    Bytes(ByteArray),
}

/// Reads rows from Parquet, of this library or of another program.
///
/// An error names the row and the column; after it the iterator ends. The [module](super) describes what is read.
pub struct Decoder {
    metadata: ParquetMetaData,
    open: Open,
    sources: Vec<Source>,
    /// The next row group.
    group: usize,
    columns: Vec<ColumnReader>,
    /// The rows of the current group that are not read yet.
    left: usize,
    /// The next rows, a list for each column.
    batch: Vec<std::vec::IntoIter<Option<Cell>>>,
    rows: u64,
    is_done: bool,
}

/// Opens a column of a row group, with the number of rows there.
type Open = Box<dyn Fn(&ColumnChunkMetaData, usize) -> ParquetResult<ColumnReader> + Send + Sync>;

impl Decoder {
    /// Reads the footer of a file.
    ///
    /// Fails for a file that is not Parquet, that has no columns PartitionKey and RowKey of text, or that has a column
    /// that no property can hold.
    ///
    /// ```no_run
    /// use rowkey_transfer::parquet::Decoder;
    ///
    /// for row in Decoder::open(std::fs::File::open("orders.parquet")?)? {
    ///     println!("{} properties", row?.entity.len());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(file: File) -> Result<Self> {
        Self::new(file)
    }

    /// Reads the footer of a file in memory. [`Encoder`](super::Encoder) has an example.
    pub fn from_bytes(file: impl Into<bytes::Bytes>) -> Result<Self> {
        Self::new(file.into())
    }

    fn new<R: ChunkReader + 'static>(file: R) -> Result<Self> {
        check_nesting(&file)?;
        let metadata = guarded(|| ParquetMetaDataReader::new().parse_and_finish(&file))?;
        check(&metadata, file.len())?;
        let sources = sources(&metadata)?;
        let file = Arc::new(file);
        let open = move |column: &ColumnChunkMetaData, rows: usize| {
            let pages = Box::new(Pages::new(&file, column, rows)?);
            Ok(get_column_reader(column.column_descr_ptr(), pages))
        };
        Ok(Self {
            metadata,
            open: Box::new(open),
            sources,
            group: 0,
            columns: Vec::new(),
            left: 0,
            batch: Vec::new(),
            rows: 0,
            is_done: false,
        })
    }

    fn read(&mut self) -> Result<Option<Row>> {
        while self.batch.first().is_none_or(|cells| cells.len() == 0) {
            if self.left > 0 {
                self.read_batch()?;
            } else if !self.next_group()? {
                return Ok(None);
            }
        }
        let mut cells = Vec::with_capacity(self.sources.len());
        for cells_of in &mut self.batch {
            cells.push(cells_of.next().flatten());
        }
        self.rows += 1;
        self.row(cells).map(Some)
    }

    /// Opens the columns of the next row group; false after the last one.
    fn next_group(&mut self) -> Result<bool> {
        let Some(group) = self.metadata.row_groups().get(self.group) else { return Ok(false) };
        let (open, rows) = (&self.open, usize::try_from(group.num_rows()).map_err(|_| damaged())?);
        if group.num_columns() != self.sources.len() {
            return Err(damaged());
        }
        self.columns =
            guarded(|| group.columns().iter().map(|column| open(column, rows)).collect())?;
        self.left = rows;
        self.group += 1;
        Ok(true)
    }

    fn read_batch(&mut self) -> Result<()> {
        let count = self.left.min(BATCH);
        self.batch.clear();
        for (source, column) in self.sources.iter().zip(&mut self.columns) {
            let cells = source.cells(column, count, self.rows)?;
            self.batch.push(cells.into_iter());
        }
        self.left -= count;
        Ok(())
    }

    /// Makes a row of the cells of all columns.
    fn row(&self, cells: Vec<Option<Cell>>) -> Result<Row> {
        // A dictionary may have one long value, which takes no memory until it is copied into each of many columns.
        let size = cells.iter().flatten().map(Cell::size).fold(0, usize::saturating_add);
        if size > MAX_ENTITY {
            return Err(Error::new(ErrorKind::TooLong, TOO_LONG));
        }
        let mut values = Vec::with_capacity(cells.len());
        for (source, cell) in self.sources.iter().zip(cells) {
            let value = cell.map(|cell| cell.into_value().ok_or_else(|| source.invalid()));
            values.push(value.transpose()?);
        }
        let mut cells = values;
        for (at, source) in self.sources.iter().enumerate() {
            let Some(base) = source.ticks_of else { continue };
            if let (Some(Value::DateTime(instant)), Some(Value::Int32(ticks))) =
                (&cells[base], &cells[at])
            {
                let is_tick = (0..10).contains(ticks);
                let ticks = instant.ticks().checked_add(i64::from(*ticks)).filter(|_| is_tick);
                let instant = ticks.and_then(|ticks| DateTime::from_ticks(ticks).ok());
                cells[base] = Some(Value::DateTime(instant.ok_or_else(|| source.invalid())?));
            }
            cells[at] = None;
        }
        let mut parts = Parts::default();
        for (source, cell) in self.sources.iter().zip(cells) {
            match (&source.target, cell) {
                (_, None) => {}
                (Target::PartitionKey, Some(Value::String(text))) => {
                    parts.partition_key = Some(text);
                }
                (Target::RowKey, Some(Value::String(text))) => parts.row_key = Some(text),
                (Target::Timestamp, Some(Value::DateTime(at))) => parts.timestamp = Some(at),
                (Target::Property(name), Some(value)) => {
                    if parts.properties.iter().any(|(known, _)| known == name) {
                        let what = format!(
                            "property `{name}`: two columns have a value; remove one of the values"
                        );
                        return Err(Error::new(ErrorKind::Duplicate, what));
                    }
                    parts.properties.push((name.clone(), value));
                }
                // The types of these columns were checked.
                _ => return Err(source.invalid()),
            }
        }
        parts.into_row()
    }
}

impl Iterator for Decoder {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if self.is_done {
            return None;
        }
        let row = self.read().transpose();
        self.is_done = !matches!(row, Some(Ok(_)));
        row.map(|row| row.map_err(|error| error.at_row(self.rows.max(1))))
    }
}

impl Source {
    /// Reads the next cells of a column.
    fn cells(
        &self,
        column: &mut ColumnReader,
        count: usize,
        rows: u64,
    ) -> Result<Vec<Option<Cell>>> {
        let convert = |rows_before: usize, value: Option<Cell>| {
            value.ok_or_else(|| self.invalid().at_row(rows + rows_before as u64 + 1))
        };
        macro_rules! read {
            ($reader:expr, |$v:ident| $value:expr) => {
                read!($reader, |$v| $value, Cell::Value)
            };
            ($reader:expr, |$v:ident| $value:expr, $cell:expr) => {{
                let (levels, values) = records($reader, self.max_level, count)?;
                let mut values = values.into_iter();
                let mut cells = Vec::with_capacity(count);
                for (at, is_there) in levels.into_iter().enumerate() {
                    if !is_there {
                        cells.push(None);
                        continue;
                    }
                    let $v = values.next().ok_or_else(damaged)?;
                    cells.push(Some(convert(at, $value.map($cell))?));
                }
                Ok(cells)
            }};
        }
        match (column, self.decode) {
            (ColumnReader::BoolColumnReader(column), _) => read!(column, |v| Some(v.into())),
            (ColumnReader::Int32ColumnReader(column), Decode::Days) => {
                read!(column, |v| instant(i64::from(v), 864_000_000_000))
            }
            (ColumnReader::Int32ColumnReader(column), Decode::UInt32) => {
                read!(column, |v| Some(i64::from(v.cast_unsigned()).into()))
            }
            (ColumnReader::Int32ColumnReader(column), _) => read!(column, |v| Some(v.into())),
            (ColumnReader::Int64ColumnReader(column), Decode::Millis) => {
                read!(column, |v| instant(v, 10_000))
            }
            (ColumnReader::Int64ColumnReader(column), Decode::Micros) => {
                read!(column, |v| instant(v, 10))
            }
            (ColumnReader::Int64ColumnReader(column), Decode::Nanos) => {
                read!(column, |v| instant(v.div_euclid(100), 1))
            }
            (ColumnReader::Int64ColumnReader(column), Decode::UInt64) => {
                read!(column, |v| (v >= 0).then(|| v.into()))
            }
            (ColumnReader::Int64ColumnReader(column), _) => read!(column, |v| Some(v.into())),
            (ColumnReader::Int96ColumnReader(column), _) => {
                read!(column, |v| legacy(v.data()))
            }
            (ColumnReader::FloatColumnReader(column), _) => {
                read!(column, |v| Some(f64::from(v).into()))
            }
            (ColumnReader::DoubleColumnReader(column), _) => read!(column, |v| Some(v.into())),
            (ColumnReader::ByteArrayColumnReader(column), Decode::Text) => {
                read!(column, |v| Some(v), Cell::Text)
            }
            (ColumnReader::ByteArrayColumnReader(column), _) => {
                read!(column, |v| Some(v), Cell::Bytes)
            }
            (ColumnReader::FixedLenByteArrayColumnReader(column), Decode::Guid) => {
                read!(column, |v| Guid::from_slice(v.data()).ok().map(Value::Guid))
            }
            (ColumnReader::FixedLenByteArrayColumnReader(column), _) => {
                read!(column, |v| Some((*v).clone()), Cell::Bytes)
            }
        }
    }

    fn invalid(&self) -> Error {
        let what = format!(
            "column `{}`: the value is not a valid {}; correct it",
            self.name,
            self.decode.edm_type()
        );
        Error::new(ErrorKind::InvalidValue, what)
    }
}

/// Whether each of the next rows has a value, and the values.
fn records<T: DataType>(
    column: &mut ColumnReaderImpl<T>,
    max_level: i16,
    count: usize,
) -> Result<(Vec<bool>, Vec<T::T>)> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let (rows, ..) = guarded(|| {
        let levels = (max_level > 0).then_some(&mut levels);
        column.read_records(count, levels, None, &mut values)
    })?;
    let levels = if max_level > 0 {
        levels.into_iter().map(|level| level == max_level).collect()
    } else {
        vec![true; rows]
    };
    if rows != count || levels.len() != count {
        return Err(damaged());
    }
    Ok((levels, values))
}

/// The instant this many units after 1970, each of some ticks.
fn instant(units: i64, ticks: i64) -> Option<Value> {
    let ticks = units.checked_mul(ticks)?.checked_add(UNIX_EPOCH)?;
    DateTime::from_ticks(ticks).ok().map(Value::DateTime)
}

/// An instant of 96 bits, as older programs write it: nanoseconds of a day, and the number of the day in the Julian
/// calendar.
fn legacy(words: &[u32]) -> Option<Value> {
    /// 1970-01-01.
    const EPOCH: i64 = 2_440_588;
    let [low, high, day] = words else { return None };
    let nanos = i64::try_from(u64::from(*low) | u64::from(*high) << 32).ok()?;
    let days = i64::from(*day) - EPOCH;
    instant(days.checked_mul(864_000_000_000)?.checked_add(nanos / 100)?, 1)
}

impl Cell {
    /// The bytes of a text or a Binary.
    fn size(&self) -> usize {
        match self {
            Self::Value(_) => 0,
            Self::Text(bytes) | Self::Bytes(bytes) => bytes.len(),
        }
    }

    fn into_value(self) -> Option<Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Text(bytes) => std::str::from_utf8(bytes.data()).ok().map(Value::from),
            Self::Bytes(bytes) => Some(bytes.data().into()),
        }
    }
}

/// Refuses columns that are nested so deep that the Parquet reader would overflow the stack, before it reads the footer.
fn check_nesting<R: ChunkReader>(file: &R) -> Result<()> {
    /// Deeper than any table of another program.
    const MOST: usize = 64;
    // Behind the footer are its length and a mark. What is wrong with them is an error of the reader.
    let Some(end) = file.len().checked_sub(8) else { return Ok(()) };
    let mut tail = [0; 8];
    guarded(|| Ok(file.get_read(end)?.read_exact(&mut tail)?))?;
    let [a, b, c, d, mark @ ..] = tail;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(start) = end.checked_sub(length).filter(|_| mark == *b"PAR1") else { return Ok(()) };
    let footer = guarded(|| file.get_read(start))?.take(length);
    if thrift::nesting(std::io::BufReader::new(footer), MOST)? > MOST {
        let what = "its columns are lists, maps or structures; write the file with columns of single values";
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(())
}

/// Checks what the footer says about the rest of the file, before it is used.
fn check(metadata: &ParquetMetaData, length: u64) -> Result<()> {
    let rows = metadata.row_groups().iter().map(RowGroupMetaData::num_rows);
    let sum = rows.into_iter().try_fold(0, i64::checked_add);
    if sum != Some(metadata.file_metadata().num_rows()) {
        return Err(damaged());
    }
    for group in metadata.row_groups() {
        for column in group.columns() {
            let compression = column.compression();
            let is_zstd = cfg!(feature = "zstd") && matches!(compression, Compression::ZSTD(_));
            let is_plain = matches!(compression, Compression::UNCOMPRESSED | Compression::SNAPPY);
            if !is_plain && !is_zstd {
                let what = "its compression is not built in; write the file with Snappy, or build rowkey-transfer with its \
                            feature `zstd` for Zstandard";
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let end = start.checked_add(column.compressed_size());
            let is_inside = start >= 0
                && column.data_page_offset() >= 0
                && column.compressed_size() >= 0
                && end.is_some_and(|end| end.cast_unsigned() <= length);
            // The columns of entities are not repeated: each has a value or a null in each row.
            let is_repeated = column.column_descr().max_rep_level() > 0;
            let is_whole = is_repeated || column.num_values() == group.num_rows();
            if !is_inside || !is_whole || group.num_rows() < 0 {
                return Err(damaged());
            }
        }
    }
    Ok(())
}

/// Calls the Parquet reader, which panics for some damaged files instead of returning an error.
fn guarded<T>(read: impl FnOnce() -> ParquetResult<T>) -> Result<T> {
    // What was in use when it panicked is not used again: the iterator ends after an error.
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(failed),
        Err(_) => Err(damaged()),
    }
}

/// The error of the Parquet reader, without its text, which may quote the file.
fn failed(error: ParquetError) -> Error {
    match error {
        ParquetError::EOF(_) => {
            let what = "the file ends too early; fetch or write it again";
            Error::new(ErrorKind::Truncated, what)
        }
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) => (*error).into(),
            // A page that is too large.
            Err(error) => error.downcast::<Error>().map_or_else(|_| damaged(), |error| *error),
        },
        ParquetError::NYI(_) => {
            let what = "it uses a part of Parquet that is not supported; write it with Snappy and without encryption";
            Error::new(ErrorKind::Unsupported, what)
        }
        _ => damaged(),
    }
}

fn damaged() -> Error {
    let what = "it is not Parquet, or damaged; fetch or write it again";
    Error::new(ErrorKind::Malformed, what)
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("columns", &self.sources).finish_non_exhaustive()
    }
}
