//! The formats by name, for programs that read and write files of any of them.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::{fmt, io};

use crate::compression::{Compression, Compressor, Decompressor};
use crate::error::Result;
use crate::row::Row;
use crate::spool::Spool;
use crate::storage_explorer::{CsvDecoder, CsvEncoder, CsvOptions, JsonDecoder, JsonEncoder};
use crate::{azcopy, json_lines};

/// The format of a file of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// [JSON lines](crate::json_lines).
    JsonLines,
    /// The CSV of Azure [Storage Explorer](crate::storage_explorer).
    Csv,
    /// The JSON of Azure [Storage Explorer](crate::storage_explorer).
    Json,
    /// A data file of [AzCopy](crate::azcopy) 7.3.
    AzCopy,
    /// [Parquet](crate::parquet).
    #[cfg(feature = "parquet")]
    Parquet,
}

/// The rows of a file. The first error is the last item.
pub type Rows = Box<dyn Iterator<Item = Result<Row>> + Send>;

impl Format {
    /// The format that the end of a name says, before that of its compression: `.jsonl` or `.ndjson`, `.csv`, `.json` (of
    /// Storage Explorer) or `.parquet`.
    ///
    /// ```
    /// use rowkey_transfer::Format;
    ///
    /// assert_eq!(Format::of_name("orders.jsonl.gz"), Some(Format::JsonLines));
    /// assert_eq!(Format::of_name("orders.json"), Some(Format::Json));
    /// assert_eq!(Format::of_name("orders"), None);
    /// ```
    pub fn of_name(name: &str) -> Option<Self> {
        let compression = Compression::of_name(name);
        let name = name.strip_suffix(compression.extension()).unwrap_or(name);
        Some(match name.rsplit_once('.')?.1 {
            "jsonl" | "ndjson" => Self::JsonLines,
            "csv" => Self::Csv,
            "json" => Self::Json,
            #[cfg(feature = "parquet")]
            "parquet" => Self::Parquet,
            _ => return None,
        })
    }

    /// Reads the rows of a file, from its beginning. Parquet has a compression of its own, and ignores `compression`.
    ///
    /// ```
    /// use std::io::{Seek, Write};
    /// use rowkey_transfer::{Compression, Format};
    ///
    /// let mut file = tempfile::tempfile()?;
    /// file.write_all(b"{\"PartitionKey\":\"sales\",\"RowKey\":\"7\"}\n")?;
    /// file.rewind()?;
    /// let rows = Format::JsonLines.read(file, Compression::None)?;
    /// assert_eq!(rows.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(self, file: File, compression: Compression) -> Result<Rows> {
        #[cfg(feature = "parquet")]
        if self == Self::Parquet {
            return Ok(ended(crate::parquet::Decoder::open(file)?));
        }
        self.read_text(file, compression)
    }

    /// Reads rows from a stream, such as stdin.
    ///
    /// Fails for Parquet, which has to be read from a file, because its index is at the end.
    pub fn read_text(
        self,
        input: impl Read + Send + 'static,
        compression: Compression,
    ) -> Result<Rows> {
        let input = Decompressor::new(BufReader::new(input), compression)?;
        Ok(match self {
            Self::JsonLines => ended(json_lines::Decoder::new(input)),
            Self::Csv => ended(CsvDecoder::new(input, CsvOptions::default())?),
            Self::Json => ended(JsonDecoder::new(input)),
            Self::AzCopy => ended(azcopy::Decoder::new(input)),
            #[cfg(feature = "parquet")]
            Self::Parquet => {
                let what = "Parquet cannot be read from a stream; write it to a file first";
                return Err(crate::error::Error::new(crate::error::ErrorKind::Unsupported, what));
            }
        })
    }
}

impl fmt::Display for Format {
    /// The name: `json-lines`, `csv`, `json`, `azcopy` or `parquet`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JsonLines => "json-lines",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::AzCopy => "azcopy",
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
        })
    }
}

/// Ends behind the first error, so that a row behind damage is not taken for what follows the one before.
pub(crate) fn ended(rows: impl Iterator<Item = Result<Row>> + Send + 'static) -> Rows {
    let mut is_ended = false;
    Box::new(rows.map_while(move |row| {
        let is_first = !std::mem::replace(&mut is_ended, row.is_err());
        is_first.then_some(row)
    }))
}

/// Writes rows in any [`Format`].
///
/// ```
/// use rowkey::DynamicEntity;
/// use rowkey_transfer::{Compression, Format, FormatEncoder, Row};
///
/// let row = Row::new(DynamicEntity::new("sales", "7"));
/// let mut out = FormatEncoder::new(Format::Csv, Vec::new(), Compression::None, tempfile::tempfile)?;
/// out.write(&row)?;
/// assert_eq!(out.finish()?, b"PartitionKey,RowKey\r\nsales,7\r\n");
/// # Ok::<(), rowkey_transfer::Error>(())
/// ```
#[derive(Debug)]
pub struct FormatEncoder<W: Write + Send>(Encoder<W>);

#[derive(Debug)]
enum Encoder<W: Write + Send> {
    JsonLines(json_lines::Encoder<Compressor<W>>),
    Json(JsonEncoder<Compressor<W>>),
    AzCopy(azcopy::Encoder<Compressor<W>>),
    /// Rows wait until all columns are known.
    Columns(Format, Box<Spool<File>>, W, Compression),
}

impl<W: Write + Send> FormatEncoder<W> {
    /// Begins a file. `spool` makes an empty file for the rows of a format whose columns come first.
    ///
    /// Fails for [`Compression::Zstd`] without the feature `zstd`.
    pub fn new(
        format: Format,
        out: W,
        compression: Compression,
        spool: impl FnOnce() -> io::Result<File>,
    ) -> Result<Self> {
        let compressed = |out| Compressor::new(out, compression);
        Ok(Self(match format {
            Format::JsonLines => Encoder::JsonLines(json_lines::Encoder::new(compressed(out)?)),
            Format::Json => Encoder::Json(JsonEncoder::new(compressed(out)?)),
            Format::AzCopy => Encoder::AzCopy(azcopy::Encoder::new(compressed(out)?)),
            _ => Encoder::Columns(format, Box::new(Spool::new(spool()?)), out, compression),
        }))
    }

    /// Writes a row, as the encoder of the format does.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        match &mut self.0 {
            Encoder::JsonLines(encoder) => encoder.write(row),
            Encoder::Json(encoder) => encoder.write(row),
            Encoder::AzCopy(encoder) => encoder.write(row),
            Encoder::Columns(_, spool, ..) => spool.write(row),
        }
    }

    /// Ends the file, and returns what was written to.
    pub fn finish(self) -> Result<W> {
        let (format, spool, out, compression) = match self.0 {
            Encoder::JsonLines(encoder) => return encoder.finish()?.finish(),
            Encoder::Json(encoder) => return encoder.finish()?.finish(),
            Encoder::AzCopy(encoder) => return encoder.finish()?.finish(),
            Encoder::Columns(format, spool, out, compression) => (format, spool, out, compression),
        };
        let (columns, rows) = spool.finish()?;
        #[cfg(feature = "parquet")]
        if format == Format::Parquet {
            let codec = crate::parquet::Codec::default();
            let mut encoder = crate::parquet::Encoder::new(out, &columns, codec)?;
            for row in rows {
                encoder.write(&row?)?;
            }
            return encoder.finish();
        }
        debug_assert_eq!(format, Format::Csv, "the other formats wait for no columns");
        let mut encoder = CsvEncoder::new(Compressor::new(out, compression)?, &columns)?;
        for row in rows {
            encoder.write(&row?)?;
        }
        encoder.finish()?.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom};

    use rowkey_entity::DynamicEntity;

    use super::*;

    #[test]
    fn each_format_writes_what_it_reads() {
        let formats = [
            Format::JsonLines,
            Format::Csv,
            Format::Json,
            Format::AzCopy,
            #[cfg(feature = "parquet")]
            Format::Parquet,
        ];
        let rows: Vec<_> = (0..40)
            .map(|number| {
                let mut entity = DynamicEntity::new("p", format!("{number:02}"));
                entity.set("Number", number);
                Row::new(entity)
            })
            .collect();
        for format in formats {
            for compression in [Compression::None, Compression::Gzip] {
                let file = tempfile::tempfile().unwrap();
                let mut out =
                    FormatEncoder::new(format, file, compression, tempfile::tempfile).unwrap();
                for row in &rows {
                    out.write(row).unwrap();
                }
                let mut file = out.finish().unwrap();
                file.seek(SeekFrom::Start(0)).unwrap();
                let read = format.read(file, compression).unwrap();
                assert_eq!(read.map(Result::unwrap).collect::<Vec<_>>(), rows, "{format}");
            }
        }
    }

    #[test]
    fn no_row_comes_behind_an_error() {
        let text = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\nsecret\n{\"PartitionKey\":\"p\",\"RowKey\":\"2\"}\n";
        let rows = Format::JsonLines.read_text(text.as_bytes(), Compression::None).unwrap();
        assert_eq!(rows.map(|row| row.is_ok()).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn names_say_the_format() {
        for (name, format) in [
            ("a.jsonl", Some(Format::JsonLines)),
            ("a.ndjson.zst", Some(Format::JsonLines)),
            ("a.b.csv.gz", Some(Format::Csv)),
            ("a.json", Some(Format::Json)),
            ("a.gz", None),
            ("json", None),
        ] {
            assert_eq!(Format::of_name(name), format, "{name}");
        }
    }
}
