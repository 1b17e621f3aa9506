//! Converts a file of entities to another format, by the ends of the names: `.jsonl`, `.csv`, `.json` (of Storage
//! Explorer) and `.parquet`, the first also as `.jsonl.gz`.
//!
//! ```console
//! $ cargo run -p rowkey-transfer --features parquet --example convert -- orders.csv orders.parquet
//! 3376 rows
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, Write as _};

use rowkey_transfer::parquet::{self, Codec};
use rowkey_transfer::storage_explorer::{CsvDecoder, CsvEncoder, CsvOptions};
use rowkey_transfer::storage_explorer::{JsonDecoder, JsonEncoder};
use rowkey_transfer::{Compression, Compressor, Decompressor, Result, Row, Spool, json_lines};

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = names.as_slice() else { return Err("usage: convert FROM TO".into()) };
    let rows = read(from)?.map(|row| row.map_err(|error| error.in_file(from)));
    let count = write(to, rows)?;
    writeln!(std::io::stdout(), "{count} rows")?;
    Ok(())
}

/// The rows of a file.
fn read(name: &str) -> std::result::Result<Box<dyn Iterator<Item = Result<Row>>>, Box<dyn Error>> {
    let file = File::open(name)?;
    if name.ends_with(".parquet") {
        return Ok(Box::new(parquet::Decoder::open(file)?));
    }
    let compression = Compression::of_name(name);
    let input = Decompressor::new(BufReader::new(file), compression)?;
    Ok(match format(name)? {
        "jsonl" => Box::new(json_lines::Decoder::new(input)),
        "json" => Box::new(JsonDecoder::new(input)),
        _ => Box::new(CsvDecoder::new(input, CsvOptions::default())?),
    })
}

/// Writes rows to a file; returns how many.
fn write(
    name: &str,
    rows: impl Iterator<Item = Result<Row>>,
) -> std::result::Result<u64, Box<dyn Error>> {
    let format = format(name)?;
    let out = BufWriter::new(File::create(name)?);
    if matches!(format, "csv" | "parquet") {
        // Beside the file, where there is room for it.
        let path = format!("{name}.spool");
        let spooled = File::options().read(true).write(true).create_new(true).open(&path)?;
        let result = write_columns(format, out, spooled, rows);
        std::fs::remove_file(path)?;
        return result;
    }
    let out = Compressor::new(out, Compression::of_name(name))?;
    let mut count = 0;
    if format == "json" {
        let mut encoder = JsonEncoder::new(out);
        for row in rows {
            encoder.write(&row?)?;
            count += 1;
        }
        encoder.finish()?.finish()?;
    } else {
        let mut encoder = json_lines::Encoder::new(out);
        for row in rows {
            encoder.write(&row?)?;
            count += 1;
        }
        encoder.finish()?.finish()?;
    }
    Ok(count)
}

/// Writes a format whose columns come first.
fn write_columns(
    format: &str,
    out: BufWriter<File>,
    spooled: impl std::io::Read + std::io::Write + Seek,
    rows: impl Iterator<Item = Result<Row>>,
) -> std::result::Result<u64, Box<dyn Error>> {
    let mut spool = Spool::new(spooled);
    for row in rows {
        spool.write(&row?)?;
    }
    let (columns, rows) = spool.finish()?;
    let count = columns.rows();
    if format == "csv" {
        let mut encoder = CsvEncoder::new(out, &columns)?;
        for row in rows {
            encoder.write(&row?)?;
        }
        encoder.finish()?;
    } else {
        let mut encoder = parquet::Encoder::new(out, &columns, Codec::default())?;
        for row in rows {
            encoder.write(&row?)?;
        }
        encoder.finish()?;
    }
    Ok(count)
}

/// The end of a name that says the format.
fn format(name: &str) -> std::result::Result<&'static str, Box<dyn Error>> {
    let compressed = Compression::of_name(name).extension();
    let name = name.strip_suffix(compressed).unwrap_or(name);
    let formats = ["jsonl", "json", "csv", "parquet"];
    let known = formats.into_iter().find(|format| name.ends_with(&format!(".{format}")));
    known.ok_or_else(|| format!("{name} has no format that is known: {formats:?}").into())
}
