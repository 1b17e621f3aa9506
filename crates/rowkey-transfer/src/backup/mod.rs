//! Backups: files of [JSON lines](crate::json_lines) and a manifest that says what each file holds.
//!
//! A backup of a table is a folder, or a blob container, with one manifest, `manifest.json`, and any number of files. A
//! file has a part of the rows; their order among the files means nothing. The manifest is written last, so a backup
//! without one is not whole.
//!
//! ```json
//! {
//!   "format": "rowkey-backup",
//!   "version": 1,
//!   "note": "The entities were read page after page, and other programs may have written in between: ..",
//!   "table": "orders",
//!   "encoding": "json-lines",
//!   "started": "2026-11-20T12:34:56.7654321Z",
//!   "ended": "2026-11-20T12:35:07.1Z",
//!   "rows": 3376,
//!   "bytes": 402178,
//!   "files": [
//!     {"name": "orders-00000.jsonl.gz", "rows": 3376, "bytes": 402178, "sha256": "9f86..", "compression": "gzip"}
//!   ]
//! }
//! ```
//!
//! `bytes` and `sha256`, in lower-case hexadecimal, are those of the file as it is stored, compressed. Readers ignore
//! members that they do not know, and refuse a `version` above their own.
//!
//! ```
//! use rowkey::DynamicEntity;
//! use rowkey::edm::DateTime;
//! use rowkey_transfer::backup::{FileDecoder, FileEncoder, Manifest};
//! use rowkey_transfer::{Compression, Row};
//!
//! let ada = Row::new(DynamicEntity::new("sales", "7"));
//! let mut file = FileEncoder::new(Vec::new(), "staff-00000.jsonl.gz", Compression::Gzip)?;
//! file.write(&ada)?;
//! let (listed, bytes) = file.finish()?;
//! let started: DateTime = "2026-11-20T12:34:56Z".parse()?;
//! let manifest = Manifest::new("staff", started, started, vec![listed])?.to_json();
//!
//! let manifest = Manifest::from_json(manifest.as_bytes())?;
//! assert_eq!(manifest.rows, 1);
//! for listed in &manifest.files {
//!     for row in FileDecoder::new(&bytes[..], listed)? {
//!         assert_eq!(row?, ada);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod file;
mod manifest;
mod measure;
mod verify;

pub use file::{FileDecoder, FileEncoder};
pub use manifest::{BackupFile, Manifest};
