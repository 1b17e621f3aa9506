//! Rows that wait in a file until all columns are known.

use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use crate::columns::Columns;
use crate::error::Result;
use crate::json_lines;
use crate::row::Row;

/// Keeps rows in a file, such as a temporary one, and collects their columns: for CSV and Parquet, whose
/// header needs all columns of a table that can be read only once.
///
/// The rows are JSON lines. Memory grows with the number of different properties, not with the rows.
///
/// ```
/// use std::io::Cursor;
///
/// use rowkey::DynamicEntity;
/// use rowkey_transfer::storage_explorer::CsvEncoder;
/// use rowkey_transfer::{Row, Spool};
///
/// let mut spool = Spool::new(Cursor::new(Vec::new()));
/// for (key, name, value) in [("1", "Age", 36), ("2", "Floor", 3)] {
///     let mut entity = DynamicEntity::new("sales", key);
///     entity.set(name, value);
///     spool.write(&Row::new(entity))?;
/// }
/// let (columns, rows) = spool.finish()?;
/// let mut csv = CsvEncoder::new(Vec::new(), &columns)?;
/// for row in rows {
///     csv.write(&row?)?;
/// }
/// let csv = String::from_utf8(csv.finish()?)?;
/// assert_eq!(csv.lines().next(), Some("PartitionKey,RowKey,Age,Age@type,Floor,Floor@type"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Spool<F: Write> {
    rows: json_lines::Encoder<BufWriter<F>>,
    columns: Columns,
}

/// The rows of a [`Spool`], in the order in which they were written.
pub type SpooledRows<F> = json_lines::Decoder<BufReader<F>>;

impl<F: Read + Write + Seek> Spool<F> {
    /// A spool in an empty file.
    pub fn new(file: F) -> Self {
        Self { rows: json_lines::Encoder::new(BufWriter::new(file)), columns: Columns::default() }
    }

    /// Adds a row.
    ///
    /// Fails for a property with a [reserved name](crate::ErrorKind::ReservedName), and if the file cannot be written.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        self.columns.observe(row)?;
        self.rows.write(row)
    }

    /// Returns the columns of all rows, and the rows.
    pub fn finish(self) -> Result<(Columns, SpooledRows<F>)> {
        let file = self.rows.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error);
        let mut file = file?;
        file.seek(SeekFrom::Start(0))?;
        Ok((self.columns, json_lines::Decoder::new(BufReader::new(file))))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use rowkey_entity::DynamicEntity;

    use super::*;

    #[test]
    fn rows_come_back_in_order_after_their_columns() {
        let mut spool = Spool::new(Cursor::new(Vec::new()));
        let rows: Vec<Row> = (0..1_000_i32)
            .map(|number| {
                let mut entity = DynamicEntity::new("p", format!("{number:04}"));
                entity.set(format!("P{}", number % 3), number);
                Row::new(entity)
            })
            .collect();
        for row in &rows {
            spool.write(row).unwrap();
        }
        let (columns, read) = spool.finish().unwrap();
        assert_eq!(columns.names().collect::<Vec<_>>(), ["P0", "P1", "P2"]);
        assert_eq!(read.map(Result::unwrap).collect::<Vec<_>>(), rows);
    }
}
