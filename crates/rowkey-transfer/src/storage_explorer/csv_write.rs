//! Writes CSV with a type column beside each property.

use std::io::Write;

use csv::{Writer, WriterBuilder};
use rowkey_entity::edm::Value;

use super::csv_read::check_delimiter;
use super::types::{SUFFIX, short_name};
use crate::columns::Columns;
use crate::error::{Error, ErrorKind, Result};
use crate::row::{PARTITION_KEY, ROW_KEY, Row, TIMESTAMP};

/// Writes CSV as Storage Explorer reads it.
///
/// The columns come before the rows: [`Spool`](crate::Spool) collects them, and has an example. The [module](super)
/// describes the form.
pub struct CsvEncoder<W: Write> {
    out: Writer<W>,
    columns: Columns,
    rows: u64,
}

impl<W: Write> CsvEncoder<W> {
    /// Writes the header. There is a column for Timestamps if a row has one.
    pub fn new(out: W, columns: &Columns) -> Result<Self> {
        Self::with_delimiter(out, columns, b',')
    }

    /// Writes the header with another delimiter than the comma. Fails for a quote and for a line break.
    ///
    /// ```
    /// use rowkey_transfer::storage_explorer::CsvEncoder;
    /// use rowkey_transfer::Columns;
    ///
    /// let csv = CsvEncoder::with_delimiter(Vec::new(), &Columns::default(), b'\t')?;
    /// assert_eq!(csv.finish()?, b"PartitionKey\tRowKey\r\n");
    /// # Ok::<(), rowkey_transfer::Error>(())
    /// ```
    pub fn with_delimiter(out: W, columns: &Columns, delimiter: u8) -> Result<Self> {
        check_delimiter(delimiter)?;
        let mut out = WriterBuilder::new()
            .delimiter(delimiter)
            .terminator(csv::Terminator::CRLF)
            .from_writer(out);
        field(&mut out, PARTITION_KEY)?;
        field(&mut out, ROW_KEY)?;
        if columns.has_timestamps() {
            field(&mut out, TIMESTAMP)?;
        }
        for name in columns.names() {
            field(&mut out, name)?;
            field(&mut out, &format!("{name}{SUFFIX}"))?;
        }
        end(&mut out)?;
        Ok(Self { out, columns: columns.clone(), rows: 0 })
    }

    /// Writes a row.
    ///
    /// Fails for a property or a Timestamp without a [column](ErrorKind::UnknownColumn), and then has written nothing.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        let mut cells: Vec<Option<&Value>> = vec![None; self.columns.names().len()];
        for (name, value) in row.entity.iter() {
            let at = self.columns.position(name).ok_or_else(|| self.unknown(name))?;
            cells[at] = Some(value);
        }
        if row.timestamp.is_some() && !self.columns.has_timestamps() {
            return Err(self.unknown(TIMESTAMP));
        }
        field(&mut self.out, &row.entity.partition_key)?;
        field(&mut self.out, &row.entity.row_key)?;
        if self.columns.has_timestamps() {
            let text = row.timestamp.map(|timestamp| timestamp.to_string());
            field(&mut self.out, &text.unwrap_or_default())?;
        }
        for cell in cells {
            let text = cell.map(|value| value.as_ref());
            field(&mut self.out, text.as_ref().map(|value| value.text()).as_deref().unwrap_or(""))?;
            field(&mut self.out, cell.map_or("", |value| short_name(value.edm_type())))?;
        }
        end(&mut self.out)?;
        self.rows += 1;
        Ok(())
    }

    /// How many rows were written.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Flushes, and returns what was written to.
    pub fn finish(self) -> Result<W> {
        Ok(self.out.into_inner().map_err(csv::IntoInnerError::into_error)?)
    }

    fn unknown(&self, name: &str) -> Error {
        let what = format!(
            "property `{name}`: it has no column; observe all rows before the first one is written"
        );
        Error::new(ErrorKind::UnknownColumn, what).at_row(self.rows + 1)
    }
}

fn field<W: Write>(out: &mut Writer<W>, text: &str) -> Result<()> {
    out.write_field(text).map_err(failed)
}

fn end<W: Write>(out: &mut Writer<W>) -> Result<()> {
    out.write_record(None::<&[u8]>).map_err(failed)
}

/// Writing fails only if the file cannot be written.
fn failed(error: csv::Error) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        _ => Error::new(ErrorKind::Malformed, "the record cannot be written"),
    }
}

impl<W: Write> std::fmt::Debug for CsvEncoder<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvEncoder").field("rows", &self.rows).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rowkey_entity::DynamicEntity;

    use super::*;

    #[test]
    fn a_cell_has_its_type_beside_it_and_an_absent_property_has_neither() {
        let mut one = Row::new(DynamicEntity::new("p", "1"));
        one.entity.set("Text", "");
        one.entity.set("Age", 36_i64);
        one.timestamp = "2020-06-22T15:16:05.3333333Z".parse().ok();
        let mut two = Row::new(DynamicEntity::new("", "a,\"b\"\r\n"));
        two.entity.set("Age", "36");
        let mut columns = Columns::default();
        columns.observe(&one).unwrap();
        columns.observe(&two).unwrap();
        let mut csv = CsvEncoder::new(Vec::new(), &columns).unwrap();
        csv.write(&one).unwrap();
        csv.write(&two).unwrap();
        let mut three = two.clone();
        three.entity.set("Other", 1);
        let error = csv.write(&three).unwrap_err();
        assert_eq!((error.kind(), csv.rows()), (ErrorKind::UnknownColumn, 2));
        assert!(error.to_string().starts_with("row 3: property `Other`"), "{error}");
        let expected = "PartitionKey,RowKey,Timestamp,Text,Text@type,Age,Age@type\r\n\
                        p,1,2020-06-22T15:16:05.3333333Z,,String,36,Int64\r\n\
                        ,\"a,\"\"b\"\"\r\n\",,,,36,String\r\n";
        assert_eq!(String::from_utf8(csv.finish().unwrap()).unwrap(), expected);
    }

    #[test]
    fn a_timestamp_without_a_column_is_an_error() {
        let mut csv = CsvEncoder::new(Vec::new(), &Columns::default()).unwrap();
        let timestamp = "2020-06-22T15:16:05Z".parse().ok();
        let error = csv.write(&Row { timestamp, ..Row::new(DynamicEntity::new("p", "r")) });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::UnknownColumn);
    }
}
