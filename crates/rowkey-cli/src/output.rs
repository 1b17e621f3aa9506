//! Output in three forms: tables for reading, JSON lines and CSV for programs.
//!
//! [`records`] writes what is not an entity, such as the names of tables. [`Entities`] writes entities in the formats of
//! `rowkey-transfer`, exact for all types.

use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, Stdout, Write as _};
use std::iter;

use chrono::{DateTime, SecondsFormat, Utc};
use comfy_table::{Table, presets};
use rowkey::DynamicEntity;
use rowkey_transfer::{Columns, Compression, Format, FormatEncoder, Row};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::Form;
use crate::error::{Error, Result};

/// Longer texts are cut in tables; the other forms have them whole.
const MAX_CELL: usize = 60;
/// The most entities in one table. Further ones get another table, so that memory does not grow.
const MAX_ROWS: usize = 1_000;

/// Writes rows that have these columns.
pub(crate) fn records(form: Form, columns: &[&str], rows: &[Vec<Value>]) -> Result<()> {
    let mut out = io::stdout().lock();
    match form {
        Form::Table => print(columns, rows.iter().map(|row| row.iter().map(cell).collect()))?,
        Form::JsonLines => {
            for row in rows {
                serde_json::to_writer(&mut out, &Record(columns, row)).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
        Form::Csv => {
            let mut csv = csv::Writer::from_writer(out);
            let failed = |error: csv::Error| Error::from(io::Error::from(error));
            csv.write_record(columns).map_err(failed)?;
            for row in rows {
                csv.write_record(row.iter().map(plain)).map_err(failed)?;
            }
            csv.flush()?;
        }
    }
    Ok(())
}

/// Writes one object, whose fields are columns. As a table, each field that has a value has a line, which is not cut, and
/// each item of the `lists` has one.
pub(crate) fn record(form: Form, object: &impl Serialize, lists: &[&str]) -> Result<()> {
    let json = serde_json::to_string(object).map_err(io::Error::from)?;
    if form == Form::JsonLines {
        return text(format!("{json}\n").as_bytes());
    }
    // In their order, and numbers as they are written.
    let Fields(fields) = serde_json::from_str(&json).map_err(io::Error::from)?;
    if form == Form::Csv {
        let names: Vec<_> = fields.iter().map(|(name, _)| &**name).collect();
        let values = fields.iter().map(|(_, value)| field(value).into());
        return records(form, &names, &[values.collect()]);
    }
    let mut lines = Vec::new();
    for (name, value) in &fields {
        let items: Vec<Box<RawValue>> = match serde_json::from_str(value.get()) {
            Ok(items) if lists.contains(&&**name) => items,
            _ => vec![value.clone()],
        };
        let texts = items.iter().map(|item| field(item)).filter(|text| !text.is_empty());
        // The name stands before the first one.
        let names = iter::once(&**name).chain(iter::repeat(""));
        lines.extend(names.zip(texts));
    }
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut shown = String::new();
    for (name, value) in lines {
        let _ = write!(shown, "{name:width$}  ");
        value.chars().for_each(|c| push(&mut shown, c));
        shown.push('\n');
    }
    text(shown.as_bytes())
}

/// The text of a value: without quotes, and null as the empty text.
fn field(value: &RawValue) -> String {
    match serde_json::from_str(value.get()) {
        Ok(Value::Null) => String::new(),
        Ok(Value::String(text)) => text,
        _ => value.get().to_owned(),
    }
}

/// The fields of an object in their order.
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        from.deserialize_map(Object)
    }
}

/// A time in UTC, with as many digits as it has.
pub(crate) fn time(time: DateTime<Utc>) -> Value {
    time.to_rfc3339_opts(SecondsFormat::AutoSi, true).into()
}

/// Writes a text as it is, such as a script of completions.
pub(crate) fn text(text: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    Ok(out.flush()?)
}

/// A row as a JSON object, in the order of its columns.
struct Record<'a>(&'a [&'a str], &'a [Value]);

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        for (name, value) in self.0.iter().zip(self.1) {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

/// A value without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn cell(value: &Value) -> String {
    shortened(&plain(value))
}

/// Writes entities one at a time.
pub(crate) enum Entities {
    /// Waits for the rows of a table.
    Table(Vec<Row>),
    /// Rows of CSV wait in a file without a name, because the header names all columns.
    File(Box<FormatEncoder<BufWriter<Stdout>>>),
}

impl Entities {
    pub(crate) fn new(form: Form) -> Result<Self> {
        let format = match form {
            Form::Table => return Ok(Self::Table(Vec::new())),
            Form::JsonLines => Format::JsonLines,
            Form::Csv => Format::Csv,
        };
        let out = BufWriter::new(io::stdout());
        let file = FormatEncoder::new(format, out, Compression::None, tempfile::tempfile)?;
        Ok(Self::File(Box::new(file)))
    }

    pub(crate) fn write(&mut self, row: Row) -> Result<()> {
        match self {
            Self::Table(rows) => {
                rows.push(row);
                if rows.len() == MAX_ROWS {
                    table(rows)?;
                    rows.clear();
                }
            }
            Self::File(file) => file.write(&row)?,
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Table(rows) if rows.is_empty() => Ok(()),
            Self::Table(rows) => table(&rows),
            Self::File(file) => Ok(file.finish()?.flush()?),
        }
    }
}

/// Writes entities as a table: a row for each.
fn table(rows: &[Row]) -> Result<()> {
    let mut columns = Columns::default();
    for row in rows {
        columns.observe(row)?;
    }
    let header: Vec<_> = ["PartitionKey", "RowKey", "Timestamp"]
        .into_iter()
        .chain(columns.names())
        .map(shortened)
        .collect();
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    let cells = rows.iter().map(|Row { entity, timestamp }| {
        let timestamp = timestamp.map(|timestamp| timestamp.to_string()).unwrap_or_default();
        let keys = [shown(&entity.partition_key), shown(&entity.row_key), timestamp];
        let values = columns.names().map(|name| {
            entity.get(name).map(|value| shown(&value.as_ref().text())).unwrap_or_default()
        });
        keys.into_iter().chain(values).collect()
    });
    print(&header, cells)
}

/// Writes one entity as a table: a row for each property, with its type.
pub(crate) fn properties(entity: &DynamicEntity, etag: &str, timestamp: &str) -> Result<()> {
    let fixed = [
        ("PartitionKey", "Edm.String", shown(&entity.partition_key)),
        ("RowKey", "Edm.String", shown(&entity.row_key)),
        ("Timestamp", "Edm.DateTime", timestamp.to_owned()),
        ("ETag", "", etag.to_owned()),
    ];
    let fixed = fixed.map(|(name, kind, value)| vec![name.to_owned(), kind.to_owned(), value]);
    let properties = entity.iter().map(|(name, value)| {
        let kind = value.edm_type().name().to_owned();
        vec![shortened(name), kind, shown(&value.as_ref().text())]
    });
    print(&["property", "type", "value"], fixed.into_iter().chain(properties))
}

fn print(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Result<()> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{table}")?;
    Ok(())
}

/// The text of a cell. An empty text is `""`, and an absent property an empty cell.
fn shown(text: &str) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { shortened(text) }
}

/// A text without control characters, which could change the terminal, and of limited length.
fn shortened(text: &str) -> String {
    let mut cell = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == MAX_CELL {
            cell.push('…');
            break;
        }
        push(&mut cell, c);
    }
    cell
}

fn push(cell: &mut String, c: char) {
    if c.is_control() {
        cell.extend(c.escape_default());
    } else {
        cell.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_no_control_characters_and_a_limited_length() {
        assert_eq!(shortened("a\u{1b}[31m\n\té"), "a\\u{1b}[31m\\n\\té");
        assert_eq!(shown(""), "\"\"");
        let long = shortened(&"ü".repeat(MAX_CELL + 1));
        assert_eq!(long.chars().count(), MAX_CELL + 1);
        assert!(long.ends_with('…'));
        assert_eq!(shortened(&"ü".repeat(MAX_CELL)), "ü".repeat(MAX_CELL));
    }

    #[test]
    fn a_record_keeps_the_order_of_its_columns() {
        let row = [Value::from("x"), Value::from(1), Value::Null];
        let text = serde_json::to_string(&Record(&["z", "a", "m"], &row)).unwrap();
        assert_eq!(text, r#"{"z":"x","a":1,"m":null}"#);
        assert_eq!(row.each_ref().map(plain), ["x", "1", ""]);
    }
}
