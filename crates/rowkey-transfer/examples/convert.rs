//! Converts a file of entities to another format, by the ends of the names: `.jsonl`, `.csv`, `.json` (of Storage
//! Explorer) and `.parquet`, all but the last also with `.gz`.
//!
//! ```console
//! $ cargo run -p rowkey-transfer --features parquet --example convert -- orders.csv orders.parquet
//! 3376 rows
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use rowkey_transfer::{Compression, Format, FormatEncoder};

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = names.as_slice() else { return Err("usage: convert FROM TO".into()) };
    let rows = format(from)?.read(File::open(from)?, Compression::of_name(from))?;
    // Rows of CSV and Parquet wait beside the file, where there is room for them.
    let spooled = format!("{to}.spool");
    let spool = || File::options().read(true).write(true).create_new(true).open(&spooled);
    let out = BufWriter::new(File::create(to)?);
    let mut out = FormatEncoder::new(format(to)?, out, Compression::of_name(to), spool)?;
    let mut count = 0_u64;
    for row in rows {
        out.write(&row.map_err(|error| error.in_file(from))?)?;
        count += 1;
    }
    out.finish()?.flush()?;
    if std::fs::exists(&spooled)? {
        std::fs::remove_file(spooled)?;
    }
    writeln!(std::io::stdout(), "{count} rows")?;
    Ok(())
}

/// The format that the end of a name says.
fn format(name: &str) -> Result<Format, Box<dyn Error>> {
    let unknown = || format!("{name} has no format that is known: .jsonl, .json, .csv or .parquet");
    Format::of_name(name).ok_or_else(|| unknown().into())
}
