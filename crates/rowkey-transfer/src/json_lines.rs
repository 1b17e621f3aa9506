//! JSON lines: one entity a line, typed. The default format.
//!
//! Each line is one JSON object in UTF-8, and ends with a line feed:
//!
//! ```json
//! {"PartitionKey":"sales","RowKey":"7","Timestamp":"2026-11-20T12:34:56.7654321Z","Age":36,"Pay":{"Edm.Int64":"90000"}}
//! ```
//!
//! | member | form |
//! |---|---|
//! | `PartitionKey`, `RowKey` | text; required, and may be empty |
//! | `Timestamp` | text: RFC 3339 in UTC, with up to seven digits of fraction. Absent if it is not known |
//! | a String, a Boolean, an Int32 | text, `true` or `false`, a number without a point |
//! | every other property | an object with one member: the name of the type, and the value's text in OData, `{"Edm.Double":"0.5"}` |
//!
//! The texts: Binary in base64, DateTime as the Timestamp, Double as the shortest decimal that reads back as the same
//! number, with a point or an exponent, or `NaN`, `Infinity`, `-Infinity`; -0.0 keeps its sign. Guid has 36 characters in
//! lower case, Int64 is decimal. So every value that the service stores comes back exactly. A NaN has no bits but those
//! of the service's NaN.
//!
//! A property that the entity does not have has no member; `null` is read as an absent property. No two members of a line
//! have one name. The order of the members is kept.
//!
//! A line has no header and no version: they are in the [manifest](crate::backup::Manifest). So files can be cut and
//! joined at line feeds. Readers skip a byte order mark and empty lines, and accept `\r\n`.

use std::io::{BufRead, Write};

use rowkey_entity::DynamicEntity;
use rowkey_entity::edm::Value;
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::error::{Error, ErrorKind, MAX_ENTITY, Result, TOO_LONG};
use crate::row::{Row, TIMESTAMP, check_name, encode, serialize_head};

/// Writes rows as JSON lines.
///
/// ```
/// use rowkey::DynamicEntity;
/// use rowkey_transfer::{Row, json_lines::Encoder};
///
/// let mut ada = DynamicEntity::new("sales", "7");
/// ada.set("Age", 36);
/// ada.set("Pay", 90_000_i64);
/// let mut encoder = Encoder::new(Vec::new());
/// encoder.write(&Row::new(ada))?;
/// let line = r#"{"PartitionKey":"sales","RowKey":"7","Age":36,"Pay":{"Edm.Int64":"90000"}}"#;
/// assert_eq!(encoder.finish()?, format!("{line}\n").as_bytes());
/// # Ok::<(), rowkey_transfer::Error>(())
/// ```
#[derive(Debug)]
pub struct Encoder<W> {
    out: W,
    line: Vec<u8>,
    rows: u64,
}

impl<W: Write> Encoder<W> {
    /// An encoder that writes each row to `out` at once: wrap a file in a `BufWriter`.
    pub const fn new(out: W) -> Self {
        Self { out, line: Vec::new(), rows: 0 }
    }

    /// Writes a row.
    ///
    /// Fails for a property with a [reserved name](ErrorKind::ReservedName) and for a row of more than 16 MiB, which no
    /// reader accepts, and then has written nothing.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        encode(row, self.rows + 1, &mut self.line, |line| {
            // Writing to memory does not fail, and all names are text.
            Ok(serde_json::to_writer(line, &Line(row)).map_err(std::io::Error::from)?)
        })?;
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        self.rows += 1;
        Ok(())
    }

    /// How many rows were written.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Flushes, and returns what was written to.
    pub fn finish(mut self) -> Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A row as the object of a line.
struct Line<'a>(&'a Row);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        serialize_head(&mut object, self.0)?;
        for (name, value) in self.0.entity.iter() {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

/// Reads rows from JSON lines.
///
/// An error names the line. The iterator goes on with the next line, so that a program can count lines that cannot
/// be read, and ends after an [`ErrorKind::Io`] or [`ErrorKind::TooLong`]. A line of more than 16 MiB is an error: no
/// entity is that large.
///
/// A file that was cut at a line feed cannot be told from a whole one; [`backup`](crate::backup) has counts and
/// checksums.
///
/// ```
/// use rowkey_transfer::{ErrorKind, json_lines::Decoder};
///
/// let file = concat!(
///     r#"{"PartitionKey":"sales","RowKey":"7","Age":36}"#,
///     "\n",
///     r#"{"PartitionKey":"sales","RowKey":"8","Age":{"Edm.Int64":"x"}}"#,
///     "\n",
/// );
/// let mut rows = Decoder::new(file.as_bytes());
/// assert_eq!(rows.next().ok_or("no row")??.entity.get_as::<i32>("Age")?, 36);
/// let error = rows.next().and_then(Result::err).ok_or("no error")?;
/// assert_eq!(error.kind(), ErrorKind::InvalidValue);
/// assert!(error.to_string().starts_with("line 2"), "{error}");
/// assert!(rows.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder<R> {
    input: R,
    buffer: Vec<u8>,
    line: u64,
    is_done: bool,
}

impl<R: BufRead> Decoder<R> {
    /// A decoder of the rows from here to the end of `input`.
    pub const fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), line: 0, is_done: false }
    }

    /// What is read from.
    pub(crate) const fn get_mut(&mut self) -> &mut R {
        &mut self.input
    }

    /// Reads a line into the buffer, without its line feed; false at the end.
    fn read_line(&mut self) -> Result<bool> {
        self.buffer.clear();
        let mut is_begun = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            if chunk.is_empty() {
                return Ok(is_begun);
            }
            is_begun = true;
            let end = memchr::memchr(b'\n', chunk);
            let text = &chunk[..end.unwrap_or(chunk.len())];
            if self.buffer.len() + text.len() > MAX_ENTITY {
                return Err(Error::new(ErrorKind::TooLong, TOO_LONG));
            }
            self.buffer.extend_from_slice(text);
            let used = text.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Reads the next line that is not empty.
    fn read_row(&mut self) -> Option<Result<Row>> {
        while !self.is_done {
            self.line += 1;
            match self.read_line() {
                Ok(is_there) => self.is_done = !is_there,
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
            let mut text = &self.buffer[..];
            if self.line == 1 {
                text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
            }
            if !text.trim_ascii().is_empty() {
                return Some(parse(text));
            }
        }
        None
    }
}

impl<R: BufRead> Iterator for Decoder<R> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        let row = self.read_row()?;
        Some(row.map_err(|error| error.at_line(self.line, 0)))
    }
}

/// Reads the object of one line.
fn parse(line: &[u8]) -> Result<Row> {
    let mut entity: DynamicEntity = serde_json::from_slice(line).map_err(|error| refuse(&error))?;
    // The name is reserved, so it is no property.
    let timestamp = match entity.remove(TIMESTAMP) {
        None => None,
        Some(Value::String(text)) => text.parse().map(Some).map_err(|_| no_instant())?,
        Some(_) => return Err(no_instant()),
    };
    for (name, _) in entity.iter() {
        check_name(name)?;
    }
    Ok(Row { entity, timestamp })
}

fn no_instant() -> Error {
    let what = "Timestamp: the value is not the text of an instant; correct or remove it";
    Error::new(ErrorKind::InvalidValue, what)
}

/// The error for a line, without what serde quotes.
fn refuse(error: &serde_json::Error) -> Error {
    use serde_json::error::Category;

    let text = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&suffix).unwrap_or(&text);
    match error.classify() {
        Category::Eof => Error::new(
            ErrorKind::Truncated,
            "the line ends inside its object; fetch or write the file again",
        ),
        Category::Data if text.ends_with("it is absent") => {
            Error::new(ErrorKind::MissingKey, format!("{text}; each entity has both keys"))
        }
        Category::Data if text.ends_with("it is there twice") => {
            Error::new(ErrorKind::Duplicate, format!("{text}; remove one"))
        }
        Category::Data => {
            Error::new(ErrorKind::InvalidValue, format!("{text}; correct the value or its type"))
        }
        Category::Io | Category::Syntax => {
            Error::new(ErrorKind::Malformed, format!("it is not JSON at byte {}", error.column()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Position;

    fn read(file: &str) -> Vec<Result<Row>> {
        Decoder::new(file.as_bytes()).collect()
    }

    #[test]
    fn a_line_has_the_documented_form() {
        let mut entity = DynamicEntity::new("", "\"\n");
        entity.set("Binary", vec![0_u8, 255]);
        entity.set("Boolean", true);
        entity.set("Double", -0.0);
        entity.set("Int32", i32::MIN);
        entity.set("String", "");
        let timestamp = Some("2026-11-20T12:34:56.7654321Z".parse().unwrap());
        let mut encoder = Encoder::new(Vec::new());
        encoder.write(&Row { entity: entity.clone(), timestamp }).unwrap();
        let text = String::from_utf8(encoder.finish().unwrap()).unwrap();
        let expected =
            r#"{"PartitionKey":"","RowKey":"\"\n","Timestamp":"2026-11-20T12:34:56.7654321Z","#
                .to_owned()
                + r#""Binary":{"Edm.Binary":"AP8="},"Boolean":true,"Double":{"Edm.Double":"-0.0"},"Int32":-2147483648,"String":""}"#;
        assert_eq!(text, expected + "\n");
        let read = read(&text).remove(0).unwrap();
        assert!(read.same_entity(&Row::new(entity)));
        assert_eq!(read.timestamp, timestamp);
    }

    #[test]
    fn a_mark_empty_lines_and_a_missing_last_line_feed_are_accepted() {
        let line = r#"{"PartitionKey":"p","RowKey":"r","A":null}"#;
        let rows = read(&format!("\u{feff}{line}\r\n\n  \r\n{line}"));
        let rows: Vec<_> = rows.into_iter().map(Result::unwrap).collect();
        assert_eq!(rows, vec![Row::new(DynamicEntity::new("p", "r")); 2]);
        assert!(read("").is_empty() && read("\n").is_empty());
    }

    #[test]
    fn a_line_that_is_no_entity_is_an_error_and_the_next_one_is_read() {
        for (line, kind, text) in [
            (r#"{"PartitionKey":"p","A":1}"#, ErrorKind::MissingKey, "line 1: RowKey"),
            (r#"{"PartitionKey":1,"RowKey":"r"}"#, ErrorKind::InvalidValue, "PartitionKey"),
            (r#"{"PartitionKey":"p","RowKey":"r","A":1,"A":2}"#, ErrorKind::Duplicate, "`A`"),
            (r#"{"PartitionKey":"p","RowKey":"r","A":0.5}"#, ErrorKind::InvalidValue, "`A`"),
            (r#"{"PartitionKey":"p","RowKey":"r","A":[]}"#, ErrorKind::InvalidValue, "`A`"),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":{"Edm.Guid":"secret"}}"#,
                ErrorKind::InvalidValue,
                "`A`: expected a valid Edm.Guid",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","Timestamp":5}"#,
                ErrorKind::InvalidValue,
                "Times",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"secret"}"#,
                ErrorKind::InvalidValue,
                "Timestamp",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":{"Edm.Double":"1e400"}}"#,
                ErrorKind::InvalidValue,
                "`A`: expected a valid Edm.Double",
            ),
            (r#"{"PartitionKey":"secret","#, ErrorKind::Truncated, "ends inside"),
            ("secret", ErrorKind::Malformed, "line 1: it is not JSON at byte 1"),
            (r#"{"PartitionKey":"p","RowKey":"r"} secret"#, ErrorKind::Malformed, "byte 35"),
            ("[1]", ErrorKind::InvalidValue, "expected an object"),
            (r#"{"PartitionKey":"p","RowKey":"r","A@x":1}"#, ErrorKind::ReservedName, "`A@x`"),
            (r#"{"PartitionKey":"p","RowKey":"r","":1}"#, ErrorKind::ReservedName, "reserved"),
        ] {
            let next = r#"{"PartitionKey":"p","RowKey":"r"}"#;
            let rows = read(&format!("{line}\n{next}\n"));
            assert_eq!(rows.len(), 2, "{line}");
            let error = rows[0].as_ref().unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.position(), Some(Position::Line(1, 0)));
            assert!(error.to_string().contains(text), "{error}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
            assert!(rows[1].is_ok());
        }
    }

    #[test]
    fn a_line_longer_than_any_entity_ends_the_file() {
        let mut rows = Decoder::new(std::io::BufReader::new(std::io::Read::take(
            std::io::repeat(b' '),
            64 << 20,
        )));
        assert_eq!(rows.next().unwrap().unwrap_err().kind(), ErrorKind::TooLong);
        assert!(rows.next().is_none());
    }

    #[test]
    fn a_row_longer_than_any_line_that_is_read_is_not_written() {
        let mut row = Row::new(DynamicEntity::new("p", "r"));
        row.entity.set("A", "x".repeat(MAX_ENTITY));
        let mut encoder = Encoder::new(Vec::new());
        assert_eq!(encoder.write(&row).unwrap_err().kind(), ErrorKind::TooLong);
        assert_eq!(encoder.finish().unwrap(), b"");
    }

    #[test]
    fn a_property_with_a_reserved_name_is_not_written() {
        for name in ["RowKey", "Timestamp", "A@type", "odata.type"] {
            let mut row = Row::new(DynamicEntity::new("p", "r"));
            row.entity.properties.set(name, 1);
            let mut encoder = Encoder::new(Vec::new());
            let error = encoder.write(&row).unwrap_err();
            assert_eq!((error.kind(), encoder.rows()), (ErrorKind::ReservedName, 0));
            assert_eq!(encoder.finish().unwrap(), b"");
        }
    }
}
