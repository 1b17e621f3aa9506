//! The data files of an AzCopy backup: entities as OData JSON with minimal metadata.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{BufRead, Write};

use rowkey_entity::DynamicEntity;
use rowkey_entity::edm::DateTime;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::Objects;
use crate::row::{PARTITION_KEY, ROW_KEY, Row, TIMESTAMP, check_name, encode};

/// Reads the entities of a data file.
///
/// A value without an annotation has the type that the service infers: text is a String, a whole number an Int32, a
/// number with a point or an exponent a Double. The ETag and other metadata are ignored. An error names the line and the
/// column; after it the iterator ends, because where the next entity begins is not known.
///
/// ```
/// use rowkey_transfer::azcopy::Decoder;
///
/// let file = br#"{"value":[{"PartitionKey":"sales","RowKey":"7","Pay@odata.type":"Edm.Int64","Pay":"90000"}]}"#;
/// let rows: Vec<_> = Decoder::new(&file[..]).collect::<Result<_, _>>()?;
/// assert_eq!(rows[0].entity.get_as::<i64>("Pay")?, 90_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder<R> {
    objects: Objects<R>,
    is_done: bool,
}

impl<R: BufRead> Decoder<R> {
    /// A decoder of the entities from here to the end of `input`.
    pub const fn new(input: R) -> Self {
        Self { objects: Objects::new(input), is_done: false }
    }
}

impl<R: BufRead> Iterator for Decoder<R> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if self.is_done {
            return None;
        }
        let row = self.objects.next().map(|object| parse(object?));
        self.is_done = !matches!(row, Some(Ok(_)));
        let found = self.objects.found();
        row.map(|row| row.map_err(|error| error.at_row(found)))
    }
}

fn parse(object: &[u8]) -> Result<Row> {
    let entity = DynamicEntity::from_odata_json(object).map_err(|error| {
        let what = error.to_string();
        let kind = if what.contains("it is absent") {
            ErrorKind::MissingKey
        } else if what.contains("it is there twice") {
            ErrorKind::Duplicate
        } else if what.contains("JSON: ") {
            ErrorKind::Malformed
        } else {
            ErrorKind::InvalidValue
        };
        Error::new(kind, what + "; fetch the file again, or correct the entity")
    })?;
    for (name, _) in entity.iter() {
        check_name(name)?;
    }
    let Members { names, timestamp } = serde_json::from_slice(object).map_err(|_| {
        let what = "Timestamp: the value is not an instant; correct or remove it";
        Error::new(ErrorKind::InvalidValue, what)
    })?;
    check_annotations(&names)?;
    Ok(Row { entity, timestamp })
}

/// Refuses types that are there twice, and those without a value: the name of one of both may be damaged.
fn check_annotations(names: &[Cow<'_, str>]) -> Result<()> {
    const SUFFIX: &str = "@odata.type";
    if !names.iter().any(|name| name.ends_with(SUFFIX)) {
        return Ok(());
    }
    let mut known = HashSet::new();
    for name in names {
        if !known.insert(&**name) && name.ends_with(SUFFIX) {
            let what = format!("property `{name}`: it is there twice; fetch the file again");
            return Err(Error::new(ErrorKind::Duplicate, what));
        }
    }
    for property in names.iter().filter_map(|name| name.strip_suffix(SUFFIX)) {
        if !known.contains(property) && !matches!(property, PARTITION_KEY | ROW_KEY | TIMESTAMP) {
            let what = format!(
                "property `{property}`: it has a type and no value; fetch the file again, or correct the entity"
            );
            return Err(Error::new(ErrorKind::Malformed, what));
        }
    }
    Ok(())
}

/// What `DynamicEntity` ignores: the names of all members, and the Timestamp.
#[derive(Default)]
struct Members<'a> {
    names: Vec<Cow<'a, str>>,
    timestamp: Option<DateTime>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Members<'de>, A::Error> {
                let mut members = Members::default();
                while let Some(Name(name)) = map.next_key()? {
                    if name == TIMESTAMP {
                        members.timestamp = map.next_value()?;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                    members.names.push(name);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A name, which is copied only if it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Writes entities in the form of a data file: a page with an entity a line.
///
/// AzCopy does not import what is written here, as the [module](super) says.
///
/// ```
/// use rowkey::DynamicEntity;
/// use rowkey_transfer::{Row, azcopy::Encoder};
///
/// let mut ada = DynamicEntity::new("sales", "7");
/// ada.set("Pay", 90_000_i64);
/// let mut encoder = Encoder::new(Vec::new());
/// encoder.write(&Row::new(ada))?;
/// let file = String::from_utf8(encoder.finish()?)?;
/// let line = r#"{"PartitionKey":"sales","RowKey":"7","Pay@odata.type":"Edm.Int64","Pay":"90000"}"#;
/// assert_eq!(file, format!("{{\"value\":[\n{line}\n]}}\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Encoder<W> {
    out: W,
    text: Vec<u8>,
    rows: u64,
}

impl<W: Write> Encoder<W> {
    /// An encoder that writes each row to `out` at once: wrap a file in a `BufWriter`.
    pub const fn new(out: W) -> Self {
        Self { out, text: Vec::new(), rows: 0 }
    }

    /// Writes a row.
    ///
    /// Fails for a property with a [reserved name](ErrorKind::ReservedName) and for a row of more than 16 MiB, which no
    /// reader accepts, and then has written nothing.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        encode(row, self.rows + 1, &mut self.text, |text| {
            let json = row.entity.to_odata_json();
            let json =
                json.map_err(|error| Error::new(ErrorKind::ReservedName, error.to_string()))?;
            text.extend_from_slice(json.as_bytes());
            if let Some(timestamp) = row.timestamp {
                text.pop();
                write!(text, ",\"Timestamp\":\"{}\"}}", timestamp.iso().as_str())?;
            }
            Ok(())
        })?;
        self.out.write_all(if self.rows == 0 { OPENING } else { b",\n" })?;
        self.out.write_all(&self.text)?;
        self.rows += 1;
        Ok(())
    }

    /// How many rows were written.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the file, flushes, and returns what was written to.
    pub fn finish(mut self) -> Result<W> {
        if self.rows == 0 {
            self.out.write_all(OPENING)?;
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

const OPENING: &[u8] = b"{\"value\":[\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{MAX_ENTITY, Position};

    /// An entity as the documentation of the service shows it with minimal metadata.
    const CUSTOMER: &str = r#"{"odata.etag":"W/\"datetime'2013-08-22T01%3A12%3A06.2608595Z'\"",
        "PartitionKey":"Customer","RowKey":"Name","Timestamp":"2013-08-22T01:12:06.2608595Z",
        "Address":"Mountain View","Age":23,"AmountDue":200.23,
        "CustomerCode@odata.type":"Edm.Guid","CustomerCode":"c9da6455-213d-42c9-9a79-3e9149a57833",
        "CustomerSince@odata.type":"Edm.DateTime","CustomerSince":"2008-07-10T00:00:00",
        "IsActive":true,"NumberOfOrders@odata.type":"Edm.Int64","NumberOfOrders":"255",
        "Photo@odata.type":"Edm.Binary","Photo":"AQID"}"#;

    fn read(file: &str) -> Vec<Result<Row>> {
        Decoder::new(file.as_bytes()).collect()
    }

    #[test]
    fn entities_of_every_form_of_file_are_read() {
        let page = format!(r#"{{"odata.metadata":"https://a/$metadata#t","value":[{CUSTOMER}]}}"#);
        for file in [page, format!("[{CUSTOMER}]"), CUSTOMER.to_owned()] {
            let rows = read(&file);
            let row = rows[0].as_ref().unwrap();
            assert_eq!(rows.len(), 1);
            let entity = &row.entity;
            assert_eq!(row.timestamp, "2013-08-22T01:12:06.2608595Z".parse().ok());
            assert_eq!((&*entity.partition_key, &*entity.row_key), ("Customer", "Name"));
            assert_eq!(entity.get("Age"), Some(&23.into()));
            assert_eq!(entity.get("AmountDue"), Some(&200.23.into()));
            assert_eq!(entity.get("NumberOfOrders"), Some(&255_i64.into()));
            assert_eq!(entity.get("Photo"), Some(&vec![1, 2, 3].into()));
            let since: DateTime = "2008-07-10T00:00:00Z".parse().unwrap();
            assert_eq!(entity.get("CustomerSince"), Some(&since.into()));
            assert_eq!(entity.len(), 8);
        }
    }

    #[test]
    fn an_error_names_the_row_or_the_place_and_ends_the_file() {
        let good = r#"{"PartitionKey":"p","RowKey":"r"}"#;
        for (bad, kind, position, text) in [
            (r#"{"PartitionKey":"p"}"#, ErrorKind::MissingKey, Position::Row(2), "RowKey"),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A@odata.type":"Edm.Int64","A":"secret"}"#,
                ErrorKind::InvalidValue,
                Position::Row(2),
                "property `A`",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":1,"A":1}"#,
                ErrorKind::Duplicate,
                Position::Row(2),
                "`A`",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"secret"}"#,
                ErrorKind::InvalidValue,
                Position::Row(2),
                "Timestamp",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A@odata.type":"Edm.Int64","B":"1"}"#,
                ErrorKind::Malformed,
                Position::Row(2),
                "`A`: it has a type and no value",
            ),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A@odata.type":"Edm.Int64","A":"1","A@odata.type":"Edm.String"}"#,
                ErrorKind::Duplicate,
                Position::Row(2),
                "`A@odata.type`",
            ),
            (r#"{"secret"}"#, ErrorKind::Malformed, Position::Row(2), "JSON"),
            ("secret", ErrorKind::Malformed, Position::Line(2, 1), "expected an entity"),
        ] {
            let rows = read(&format!("[{good},\n{bad},{good}]"));
            assert_eq!(rows.len(), 2, "{bad}");
            let error = rows[1].as_ref().unwrap_err();
            assert_eq!((error.kind(), error.position()), (kind, Some(position)), "{error}");
            assert!(error.to_string().contains(text), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_row_longer_than_any_entity_that_is_read_is_not_written() {
        let mut row = Row::new(DynamicEntity::new("p", "r"));
        row.entity.set("A", "x".repeat(MAX_ENTITY));
        let mut encoder = Encoder::new(Vec::new());
        assert_eq!(encoder.write(&row).unwrap_err().kind(), ErrorKind::TooLong);
        assert_eq!(encoder.rows(), 0);
    }

    #[test]
    fn an_empty_file_of_the_encoder_has_no_entities() {
        let file = Encoder::new(Vec::new()).finish().unwrap();
        assert!(read(std::str::from_utf8(&file).unwrap()).is_empty());
    }
}
