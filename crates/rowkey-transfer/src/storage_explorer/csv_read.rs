//! Reads CSV with or without type columns.

use std::collections::HashMap;
use std::fmt;
use std::io::Read;

use csv::{ByteRecord, Reader, ReaderBuilder};
use rowkey_entity::edm::Type;

use super::input::Input;
use super::types::{SUFFIX, Untyped, named};
use crate::error::{Error, ErrorKind, Result};
use crate::row::{PARTITION_KEY, Parts, ROW_KEY, Row, TIMESTAMP, check_name, parse};

/// How CSV is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    delimiter: u8,
    untyped: Untyped,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: b',', untyped: Untyped::default() }
    }
}

impl CsvOptions {
    /// Sets the byte between two cells. The default is a comma.
    ///
    /// ```
    /// use rowkey_transfer::storage_explorer::{CsvDecoder, CsvOptions, Untyped};
    ///
    /// let file = "PartitionKey;RowKey;Age\nsales;7;36\n";
    /// let options = CsvOptions::default().delimiter(b';').untyped(Untyped::Infer);
    /// let mut rows = CsvDecoder::new(file.as_bytes(), options)?;
    /// assert_eq!(rows.next().ok_or("no row")??.entity.get_as::<i32>("Age")?, 36);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// Sets what values without a type are read as. The default is an error.
    #[must_use]
    pub const fn untyped(mut self, untyped: Untyped) -> Self {
        self.untyped = untyped;
        self
    }
}

/// Reads CSV as Storage Explorer writes it. The [module](super) describes the form.
///
/// An error names the line in which the record begins, and the property. The iterator goes on with the next record, and
/// ends after an [`ErrorKind::Io`], for a record of more than 16 MiB, and for a quote that is lost or added, because where
/// the next record begins is then not known.
///
/// ```
/// use rowkey::edm::Value;
/// use rowkey_transfer::storage_explorer::{CsvDecoder, CsvOptions};
///
/// let file = "PartitionKey,RowKey,Age,Age@type\nsales,7,36,Int32\nsales,8,36,Edm.String\nsales,9,,\n";
/// let mut ages = Vec::new();
/// for row in CsvDecoder::new(file.as_bytes(), CsvOptions::default())? {
///     ages.push(row?.entity.get("Age").cloned());
/// }
/// assert_eq!(ages, [Some(Value::Int32(36)), Some("36".into()), None]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CsvDecoder<R> {
    records: Reader<Input<R>>,
    columns: Vec<Column>,
    untyped: Untyped,
    record: ByteRecord,
    is_done: bool,
}

/// What a column holds.
#[derive(Debug)]
enum Column {
    PartitionKey,
    RowKey,
    Timestamp,
    /// A type, or what has no meaning.
    Ignored,
    Property(Property),
}

#[derive(Debug)]
struct Property {
    name: String,
    /// The position of its type.
    type_at: Option<usize>,
    /// The type in the last row that has one.
    last: Option<Type>,
}

impl<R: Read> CsvDecoder<R> {
    /// Reads the header.
    ///
    /// Fails without the columns PartitionKey and RowKey, for a name that is there twice, for a column without a name, and
    /// for a quote or a line break as the delimiter.
    pub fn new(input: R, options: CsvOptions) -> Result<Self> {
        check_delimiter(options.delimiter)?;
        let mut records = ReaderBuilder::new()
            .delimiter(options.delimiter)
            .from_reader(Input::new(input, options.delimiter));
        let header = records.byte_headers().map_err(|error| refuse(error).at_line(1, 0))?;
        let names: Vec<String> = header
            .iter()
            .map(|name| String::from_utf8(name.to_vec()))
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| not_utf8("the header").at_line(1, 0))?;
        let columns = columns(&names).map_err(|error| error.at_line(1, 0))?;
        let record = ByteRecord::new();
        Ok(Self { records, columns, untyped: options.untyped, record, is_done: false })
    }

    /// Converts the current record.
    fn row(&mut self) -> Result<Row> {
        let mut parts = Parts::default();
        for (at, column) in self.columns.iter_mut().enumerate() {
            let name = match column {
                Column::Ignored => continue,
                Column::PartitionKey => PARTITION_KEY,
                Column::RowKey => ROW_KEY,
                Column::Timestamp => TIMESTAMP,
                Column::Property(property) => &property.name,
            };
            let text = text(&self.record, at, name)?;
            match column {
                Column::PartitionKey => parts.partition_key = Some(text.to_owned()),
                Column::RowKey => parts.row_key = Some(text.to_owned()),
                Column::Timestamp if text.is_empty() => {}
                Column::Timestamp => parts.set_timestamp(text)?,
                Column::Ignored => {}
                Column::Property(property) => {
                    let found = match property.type_at {
                        Some(type_at) => self::text(&self.record, type_at, &property.name)?,
                        None => "",
                    };
                    let value = match found {
                        "" if text.is_empty() => continue,
                        "" => self.untyped.read(&property.name, property.last, text)?,
                        found => {
                            let edm_type = named(&property.name, found)?;
                            property.last = Some(edm_type);
                            parse(&property.name, edm_type, text)?
                        }
                    };
                    parts.properties.push((property.name.clone(), value));
                }
            }
        }
        parts.into_row()
    }
}

impl<R: Read> Iterator for CsvDecoder<R> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if self.is_done {
            return None;
        }
        self.records.get_mut().begin_record();
        let line = self.records.position().line();
        match self.records.read_byte_record(&mut self.record) {
            Ok(true) => {
                let line = self.record.position().map_or(line, csv::Position::line);
                Some(self.row().map_err(|error| error.at_line(line, 0)))
            }
            Ok(false) => {
                self.is_done = true;
                None
            }
            Err(error) => {
                let line = error.position().map_or(line, csv::Position::line);
                self.is_done = error.is_io_error();
                Some(Err(refuse(error).at_line(line, 0)))
            }
        }
    }
}

impl<R> fmt::Debug for CsvDecoder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvDecoder").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// What the columns with these names hold.
fn columns(names: &[String]) -> Result<Vec<Column>> {
    // Before any other check: a first line without these names has values, which no message shows.
    for key in [PARTITION_KEY, ROW_KEY] {
        if !names.iter().any(|name| name == key) {
            let what = format!(
                "the header has no column {key}; check the delimiter, or export the keys, too"
            );
            return Err(Error::new(ErrorKind::MissingKey, what));
        }
    }
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (at, name) in names.iter().enumerate() {
        if positions.insert(name, at).is_some() {
            let what = format!("column `{name}` is there twice; remove or rename one");
            return Err(Error::new(ErrorKind::Duplicate, what));
        }
    }
    let column = |name: &String| {
        Ok(match name.as_str() {
            PARTITION_KEY => Column::PartitionKey,
            ROW_KEY => Column::RowKey,
            TIMESTAMP => Column::Timestamp,
            name if name.ends_with(SUFFIX) => Column::Ignored,
            name => {
                check_name(name)?;
                let type_at = positions.get(&*format!("{name}{SUFFIX}")).copied();
                Column::Property(Property { name: name.to_owned(), type_at, last: None })
            }
        })
    };
    names.iter().map(column).collect()
}

/// Refuses a delimiter that no reader could tell from what else CSV uses the byte for.
pub(super) fn check_delimiter(delimiter: u8) -> Result<()> {
    if matches!(delimiter, b'"' | b'\r' | b'\n') {
        let what = "a quote or a line break cannot be the delimiter; choose another byte";
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(())
}

/// The text of a cell.
fn text<'r>(record: &'r ByteRecord, at: usize, name: &str) -> Result<&'r str> {
    // All records have as many cells as the header.
    let cell = record.get(at).unwrap_or_default();
    std::str::from_utf8(cell).map_err(|_| not_utf8(&format!("column `{name}`")))
}

fn not_utf8(what: &str) -> Error {
    let what = format!("{what} is not UTF-8; save the file in UTF-8");
    Error::new(ErrorKind::Malformed, what)
}

/// The error of the CSV reader, without what it quotes.
fn refuse(error: csv::Error) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let what = format!(
                "the record has {len} cells, and the header {expected_len}; which of them are missing is not known, so export \
                 the table again"
            );
            Error::new(ErrorKind::Malformed, what)
        }
        _ => Error::new(
            ErrorKind::Malformed,
            "it is not CSV; check whether the file has this format",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{MAX_ENTITY, Position};

    fn read(file: &str, options: CsvOptions) -> Vec<Result<Row>> {
        CsvDecoder::new(file.as_bytes(), options).unwrap().collect()
    }

    #[test]
    fn a_header_without_keys_or_with_a_name_twice_is_refused() {
        for (file, kind) in [
            ("", ErrorKind::MissingKey),
            ("PartitionKey;RowKey\np;r\n", ErrorKind::MissingKey),
            ("PartitionKey,Age\np,1\n", ErrorKind::MissingKey),
            ("PartitionKey,RowKey,A,A\np,r,1,2\n", ErrorKind::Duplicate),
            ("PartitionKey,RowKey,\np,r,1\n", ErrorKind::ReservedName),
            ("PartitionKey,RowKey,A@x\np,r,1\n", ErrorKind::ReservedName),
        ] {
            let error = CsvDecoder::new(file.as_bytes(), CsvOptions::default()).unwrap_err();
            assert_eq!((error.kind(), error.position()), (kind, Some(Position::Line(1, 0))));
        }
    }

    #[test]
    fn a_record_that_is_no_entity_is_an_error_and_the_next_one_is_read() {
        for (record, kind, text) in [
            ("p,r,x,secret", ErrorKind::InvalidValue, "line 2: property `A`: its type"),
            (
                "p,r,secret,Int32",
                ErrorKind::InvalidValue,
                "`A`: the value is not a valid Edm.Int32",
            ),
            ("p,r,,Int32", ErrorKind::InvalidValue, "not a valid Edm.Int32"),
            ("p,r,1e400,Double", ErrorKind::InvalidValue, "not a valid Edm.Double"),
            ("p,r,secret,", ErrorKind::Untyped, "`A`: the value has no type"),
            ("p,r,secret", ErrorKind::Malformed, "the record has 3 cells, and the header 4"),
            ("p,r,1,Int32,secret", ErrorKind::Malformed, "the record has 5 cells"),
        ] {
            let file = format!("PartitionKey,RowKey,A,A@type\n{record}\np,r,1,Int32\n");
            let rows = read(&file, CsvOptions::default());
            let error = rows[0].as_ref().unwrap_err();
            assert_eq!((error.kind(), error.position()), (kind, Some(Position::Line(2, 0))));
            assert!(error.to_string().contains(text), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
            assert_eq!(rows.len(), 2);
            assert!(rows[1].is_ok());
        }
        let rows = CsvDecoder::new(&b"PartitionKey,RowKey\n\xFF,r\n"[..], CsvOptions::default());
        let error = rows.unwrap().next().unwrap().unwrap_err();
        assert!(error.to_string().contains("column `PartitionKey` is not UTF-8"), "{error}");
    }

    #[test]
    fn a_quote_without_an_end_does_not_fill_the_memory() {
        let file = b"PartitionKey,RowKey\np,\"".chain(std::io::repeat(b'a'));
        let mut rows = CsvDecoder::new(file, CsvOptions::default()).unwrap();
        assert_eq!(rows.next().unwrap().unwrap_err().kind(), ErrorKind::TooLong);
        assert!(rows.next().is_none());
        let header = std::io::repeat(b'a');
        let error = CsvDecoder::new(header, CsvOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLong);
    }

    #[test]
    fn a_file_without_a_header_shows_no_values() {
        for file in ["secret,secret,36\n", "secret,7,\"36\"\n", "secret@type,7\n"] {
            let error = CsvDecoder::new(file.as_bytes(), CsvOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::MissingKey);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_quote_that_is_lost_or_added_is_an_error() {
        let options = CsvOptions::default().untyped(Untyped::AsString);
        for (records, good, kind) in [
            ("p,1,\"a", 0, ErrorKind::Truncated),
            ("p,1,a\np,2,\"a\np,3,a\n", 1, ErrorKind::Truncated),
            ("p,1,a\np,2,\"a\"\"", 1, ErrorKind::Truncated),
            ("p,1,a\np,2,\"a\"b\"\np,3,a\n", 1, ErrorKind::Malformed),
            ("p,1,a\np,2,\"a\" \np,3,a\n", 1, ErrorKind::Malformed),
        ] {
            let rows = read(&format!("PartitionKey,RowKey,A\n{records}"), options);
            let errors: Vec<_> = rows.iter().filter_map(|row| row.as_ref().err()).collect();
            assert_eq!((rows.len(), errors.len()), (good + 1, 1), "{records}");
            assert_eq!(errors[0].kind(), kind, "{records}");
        }
        // Quotes inside of cells without quotes are text, for other programs that write so.
        for (records, expected) in [
            ("p,1,5\" x\n", "5\" x"),
            ("p,1,\"a\"", "a"),
            ("p,1,\"\"\"\"\r\n", "\""),
            ("p,1,\"a\r\n,\"\"b\"\r\n", "a\r\n,\"b"),
        ] {
            let header = "\u{feff}\"PartitionKey\",\"RowKey\",\"A\"\r\n";
            let rows = read(&format!("{header}{records}"), options);
            assert_eq!(rows.len(), 1, "{records}");
            let row = rows[0].as_ref().unwrap();
            assert_eq!(row.entity.get("A"), Some(&expected.into()), "{records}");
        }
    }

    #[test]
    fn a_delimiter_that_csv_uses_for_something_else_is_refused() {
        for delimiter in *b"\"\r\n" {
            let options = CsvOptions::default().delimiter(delimiter);
            let error = CsvDecoder::new(&b"PartitionKey,RowKey\n"[..], options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let columns = crate::columns::Columns::default();
            let encoder = crate::storage_explorer::CsvEncoder::with_delimiter(
                Vec::new(),
                &columns,
                delimiter,
            );
            assert_eq!(encoder.unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }

    #[test]
    fn many_records_are_longer_than_one_may_be() {
        let record = format!("p,r,{},String\n", "x".repeat(60_000));
        let file = "PartitionKey,RowKey,A,A@type\n".to_owned() + &record.repeat(400);
        assert!(file.len() > MAX_ENTITY);
        assert_eq!(read(&file, CsvOptions::default()).into_iter().flatten().count(), 400);
    }
}
