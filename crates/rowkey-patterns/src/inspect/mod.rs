//! Reports the contents of a table that another program fills, and checks whether a type fits its rows.
//!
//! [`inspect`] samples a table and reports the property types of each column, how often it is absent, the
//! sizes, and the formats of the keys. [`Inspection::declaration`] prints the struct that reads them.
//! [`check`](fn@check) reads every row as a type and reports the rows that it would write back changed. [`stats()`] and [`Tally`] count
//! rows, bytes, partitions and types, in a sample or in all rows, and [`sample`](fn@sample) returns the rows of a sample. All only read.
//!
//! ```
//! use rowkey::patterns::inspect::{check, inspect};
//! use rowkey::{DynamicEntity, Entity, StorageAccount};
//!
//! #[derive(Entity)]
//! #[entity(partition = "{partition}", row = "{row}")]
//! struct Job {
//!     partition: String,
//!     row: String,
//!     attempts: i32,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_emulator::Server::start().await?;
//! # let jobs = StorageAccount::from_connection_string(server.connection_string())?.table("jobs");
//! # jobs.create().await?;
//! # let mut row = DynamicEntity::new("mail", "1");
//! # row.set("attempts", 1_i32);
//! # jobs.insert(&row).await?;
//! let sample = inspect(&jobs, 10_000).await?;
//! println!("{sample}{}", sample.declaration("Job"));
//! assert_eq!(sample.columns["attempts"].present, 1);
//!
//! let report = check::<Job>(&jobs).await?;
//! assert!(report.is_exact(), "{report}");
//! # Ok(())
//! # }
//! ```

mod check;
mod declare;
mod gap;
mod keys;
mod sample;
mod stats;

use std::collections::BTreeMap;
use std::fmt;

use rowkey_client::edm::{DateTime, Guid, Type, Value};
use rowkey_client::{DynamicEntity, Property, Result, Table};

pub use check::{Check, Difference, Fault, RowFault, check};
pub use sample::{Sample, sample};
pub use stats::{PartitionStats, PropertyStats, Stats, Tally, stats};

/// The result of sampling a table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// The rows that were read.
    pub rows: u64,
    /// Whether these are all rows of the table.
    pub complete: bool,
    /// The number of PartitionKeys in each format, such as `text`, `number:10` or `guid-guid`.
    pub partition_keys: BTreeMap<String, u64>,
    /// The number of RowKeys in each format.
    pub row_keys: BTreeMap<String, u64>,
    /// The properties by name.
    pub columns: BTreeMap<String, Column>,
    /// The common format of all PartitionKeys, and of all RowKeys.
    shapes: [keys::ShapeBuilder; 2],
}

/// A property in the rows of a sample.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Column {
    /// The number of rows that have it.
    pub present: u64,
    /// The number of rows for each stored type, by the type's name (`Edm.Int32`).
    pub types: BTreeMap<&'static str, u64>,
    /// The size of the largest value in bytes; a character of text takes two.
    pub max_bytes: usize,
    /// Whether a Double value has a fraction, or is beyond the integers that an `i64` and a Double both hold
    /// exactly.
    pub fractions: bool,
    /// The number of texts that are dates in the format of `#[entity(as = "String")]` on a `DateTime`.
    pub dates: u64,
    /// The number of texts that are GUIDs in the format of `#[entity(as = "String")]` on a `Guid`.
    pub guids: u64,
    /// Whether a Double value has a fraction.
    has_parts: bool,
}

impl Column {
    fn add(&mut self, value: &Value) {
        self.present += 1;
        *self.types.entry(value.as_ref().edm_type().name()).or_default() += 1;
        self.max_bytes = self.max_bytes.max(size(value));
        match value {
            Value::Double(double) => {
                // The fraction of an infinity or NaN is not zero either.
                self.fractions |= double.fract() != 0.0 || double.abs() > 9_007_199_254_740_992.0;
                self.has_parts |= double.is_finite() && double.fract() != 0.0;
            }
            Value::String(_) => {
                self.dates += u64::from(is_spelled_as::<DateTime>(value));
                self.guids += u64::from(is_spelled_as::<Guid>(value));
            }
            _ => {}
        }
    }

    fn has(&self, edm: Type) -> bool {
        self.types.contains_key(edm.name())
    }
}

/// Returns whether a field of this type, stored as text, writes back exactly this text.
fn is_spelled_as<P: Property>(text: &Value) -> bool {
    let column = rowkey_client::Column::<P>::named("").stored_as(Some(Type::String));
    let read = column.from_value(text.as_ref());
    read.and_then(|value| column.to_value(&value)).is_ok_and(|again| again.as_ref() == Some(text))
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.encode_utf16().count() * 2,
        Value::Binary(bytes) => bytes.len(),
        Value::Guid(_) => 16,
        Value::Boolean(_) => 1,
        Value::Int32(_) => 4,
        _ => 8,
    }
}

/// Reads a [`sample`](fn@sample) of up to `rows` rows, spread over the keys of a table, and reports their keys and properties.
///
/// Costs what [`sample`](fn@sample) costs: one request for a small table. Keeps no values, only formats, types and sizes.
/// [`Inspection::add`] reports on rows from elsewhere.
pub async fn inspect(table: &Table, rows: u64) -> Result<Inspection> {
    let mut found = Inspection::default();
    let mut sample = sample(table, rows);
    while let Some(row) = sample.next().await? {
        found.add(&row.entity);
    }
    found.complete = sample.is_complete();
    Ok(found)
}

impl Inspection {
    /// Adds a row to the report, which begins with [`Inspection::default`].
    ///
    /// ```
    /// use rowkey::DynamicEntity;
    /// use rowkey::patterns::inspect::Inspection;
    ///
    /// let mut found = Inspection::default();
    /// for id in ["0007", "0042"] {
    ///     found.add(&DynamicEntity::new("contoso", id));
    /// }
    /// assert_eq!((found.rows, found.row_keys["number:4"]), (2, 2));
    /// assert!(found.declaration("Row").contains("row = \"{row:4}\""));
    /// ```
    pub fn add(&mut self, row: &DynamicEntity) {
        self.rows += 1;
        self.shapes[0].add(&row.partition_key);
        self.shapes[1].add(&row.row_key);
        *self.partition_keys.entry(keys::format(&row.partition_key)).or_default() += 1;
        *self.row_keys.entry(keys::format(&row.row_key)).or_default() += 1;
        for (name, value) in row.iter() {
            if let Some(column) = self.columns.get_mut(name) {
                column.add(value);
            } else {
                self.columns.entry(name.to_owned()).or_default().add(value);
            }
        }
    }

    /// Generates the struct that reads these rows, as Rust source that compiles.
    ///
    /// If all keys that were read agree on a format, the templates have its parts with their types; otherwise
    /// the key is one text field, and comments name the formats. A column that some rows lack is an `Option`.
    /// If rows differ in type, the field has the type that reads all of them, and `as` names the stored type.
    /// Rows whose types show that `azure_data_tables` 0.21 or JavaScript wrote them produce a type with that
    /// `compat`.
    pub fn declaration(&self, name: &str) -> String {
        declare::declaration(self, name)
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.complete { "all" } else { "a sample of" };
        writeln!(f, "{of} {} rows", self.rows)?;
        for (key, formats) in [("PartitionKey", &self.partition_keys), ("RowKey", &self.row_keys)] {
            writeln!(f, "{key}: {}", counts(formats))?;
        }
        for (name, column) in &self.columns {
            let absent = self.rows - column.present;
            let types = counts(&column.types);
            writeln!(f, "{name}: {types}, absent {absent}, up to {} bytes", column.max_bytes)?;
        }
        Ok(())
    }
}

/// `text 3, number 2`
fn counts<T: AsRef<str>>(formats: &BTreeMap<T, u64>) -> String {
    let each = formats.iter().map(|(format, count)| format!("{} {count}", format.as_ref()));
    each.collect::<Vec<_>>().join(", ")
}
