//! One file of a backup: JSON lines, compressed, counted and hashed.

use std::io::{self, BufReader, BufWriter, Read, Write};

use super::manifest::BackupFile;
use super::measure::Measured;
use crate::compression::{Compression, Compressor, Decompressor};
use crate::error::{Error, ErrorKind, Result};
use crate::json_lines;
use crate::row::Row;

/// Writes a file of a backup, and measures it for the manifest.
#[derive(Debug)]
pub struct FileEncoder<W: Write> {
    rows: json_lines::Encoder<Compressor<Measured<BufWriter<W>>>>,
    name: String,
    compression: Compression,
}

impl<W: Write> FileEncoder<W> {
    /// Begins a file with the name that the manifest gets.
    ///
    /// Fails for [`Compression::Zstd`] without the feature `zstd`.
    pub fn new(out: W, name: impl Into<String>, compression: Compression) -> Result<Self> {
        let out = Compressor::new(Measured::new(BufWriter::new(out)), compression)?;
        Ok(Self { rows: json_lines::Encoder::new(out), name: name.into(), compression })
    }

    /// Writes a row, as [`json_lines::Encoder::write`] does.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        self.rows.write(row)
    }

    /// How many rows were written.
    pub const fn rows(&self) -> u64 {
        self.rows.rows()
    }

    /// Ends the file. Returns its entry for the manifest, and what was written to.
    pub fn finish(self) -> Result<(BackupFile, W)> {
        let rows = self.rows.rows();
        let out = self.rows.finish()?.finish()?;
        let (bytes, sha256) = out.measure();
        let out = out.into_inner().into_inner().map_err(io::IntoInnerError::into_error)?;
        let file =
            BackupFile { name: self.name, rows, bytes, sha256, compression: self.compression };
        Ok((file, out))
    }
}

/// Reads the rows of a file of a backup, and compares it with its entry in the manifest.
///
/// Each row is passed on when it is read. If the file has another count, length or checksum than the manifest says, the
/// last item is an [`ErrorKind::Mismatch`]. Errors name the file.
#[derive(Debug)]
pub struct FileDecoder<R: Read> {
    rows: json_lines::Decoder<Decompressor<BufReader<Measured<R>>>>,
    listed: BackupFile,
    found: u64,
    is_done: bool,
}

impl<R: Read> FileDecoder<R> {
    /// Reads `input` as the file that the manifest lists.
    ///
    /// Fails for [`Compression::Zstd`] without the feature `zstd`.
    pub fn new(input: R, listed: &BackupFile) -> Result<Self> {
        let input = BufReader::new(Measured::new(input));
        let rows = Decompressor::new(input, listed.compression)
            .map_err(|error| error.in_file(&*listed.name))?;
        let rows = json_lines::Decoder::new(rows);
        Ok(Self { rows, listed: listed.clone(), found: 0, is_done: false })
    }

    /// Compares the whole file with the manifest.
    fn compare(&mut self) -> Result<()> {
        let input = self.rows.get_mut().get_mut();
        // What is behind the compressed data counts, too.
        io::copy(input, &mut io::sink())?;
        let (bytes, sha256) = input.get_ref().measure();
        let what = if self.found != self.listed.rows {
            format!("it has {} rows, and the manifest lists {}", self.found, self.listed.rows)
        } else if bytes != self.listed.bytes {
            format!("it has {bytes} bytes, and the manifest lists {}", self.listed.bytes)
        } else if sha256 != self.listed.sha256 {
            "its SHA-256 differs from that in the manifest".to_owned()
        } else {
            return Ok(());
        };
        let what = what + "; fetch it again, or use another backup";
        Err(Error::new(ErrorKind::Mismatch, what))
    }
}

impl<R: Read> Iterator for FileDecoder<R> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if self.is_done {
            return None;
        }
        let row = if let Some(row) = self.rows.next() {
            self.found += 1;
            Some(row)
        } else {
            self.is_done = true;
            self.compare().err().map(Err)
        };
        row.map(|row| row.map_err(|error| error.in_file(&*self.listed.name)))
    }
}

#[cfg(test)]
mod tests {
    use rowkey_entity::DynamicEntity;

    use super::*;

    fn rows() -> Vec<Row> {
        let row = |number: i32| {
            let mut entity = DynamicEntity::new("p", format!("{number:04}"));
            entity.set("Number", number);
            Row::new(entity)
        };
        (0..500).map(row).collect()
    }

    fn encode(compression: Compression) -> (BackupFile, Vec<u8>) {
        let mut file = FileEncoder::new(Vec::new(), "a.jsonl", compression).unwrap();
        for row in &rows() {
            file.write(row).unwrap();
        }
        file.finish().unwrap()
    }

    #[test]
    fn a_whole_file_is_read_without_an_error() {
        for compression in [Compression::None, Compression::Gzip] {
            let (listed, bytes) = encode(compression);
            assert_eq!((listed.rows, listed.bytes), (500, bytes.len() as u64));
            let read = FileDecoder::new(&bytes[..], &listed).unwrap();
            assert_eq!(read.map(Result::unwrap).collect::<Vec<_>>(), rows());
        }
    }

    #[test]
    fn every_truncation_and_every_changed_byte_is_an_error() {
        for compression in [Compression::None, Compression::Gzip] {
            let (listed, bytes) = encode(compression);
            let check = |bytes: &[u8], what: &str| {
                let mut read = FileDecoder::new(bytes, &listed).unwrap();
                let error = read.find_map(Result::err).unwrap_or_else(|| panic!("{what}"));
                assert_eq!(error.file(), Some("a.jsonl"));
            };
            for length in (0..bytes.len()).step_by(37) {
                check(&bytes[..length], "a truncation");
            }
            for at in (0..bytes.len()).step_by(53) {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1;
                check(&bytes, "a changed byte");
            }
            check(&[&bytes[..], b"\n"].concat(), "a byte more");
            // A file that was cut at a line feed is noticed by its count.
            let listed = BackupFile { rows: 501, ..listed.clone() };
            let mut read = FileDecoder::new(&bytes[..], &listed).unwrap();
            let error = read.find_map(Result::err).unwrap();
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            let text = "a.jsonl: it has 500 rows, and the manifest lists 501";
            assert!(error.to_string().starts_with(text), "{error}");
        }
    }
}
