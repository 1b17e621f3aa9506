//! The manifest of a backup.

use std::collections::HashSet;

use rowkey_entity::edm::DateTime;
use serde::{Deserialize, Serialize};

use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};

const FORMAT: &str = "rowkey-backup";
/// The name of the manifest.
const FILE: &str = "manifest.json";
const ENCODING: &str = "json-lines";
/// The newest version, and the only one.
const VERSION: u32 = 1;
const NOTE: &str = "The entities were read page after page, and other programs may have written in between: the backup is no \
                    snapshot of the table at one time.";

/// What a backup of one table holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    format: String,
    version: u32,
    /// That a backup is no snapshot, for those who read the manifest.
    #[serde(default)]
    pub note: String,
    /// The name of the table.
    pub table: String,
    encoding: String,
    /// When the first entity was asked for.
    pub started: DateTime,
    /// When the last entity had been written.
    pub ended: DateTime,
    /// How many entities all files have.
    pub rows: u64,
    /// How many bytes all files have, as they are stored.
    pub bytes: u64,
    /// The files.
    pub files: Vec<BackupFile>,
}

/// What one file of a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackupFile {
    /// The name of the file beside the manifest.
    pub name: String,
    /// How many entities it has.
    pub rows: u64,
    /// How many bytes it has as it is stored.
    pub bytes: u64,
    /// The SHA-256 of these bytes, 64 digits in lower case.
    pub sha256: String,
    /// How it is compressed.
    pub compression: Compression,
}

impl Manifest {
    /// Lists the files of a backup that is complete.
    ///
    /// Fails for a name that is there twice, where upper and lower case are the same, for one that is no name of a file
    /// beside `manifest.json` on every operating system, and for a backup that ended before it started.
    pub fn new(
        table: impl Into<String>,
        started: DateTime,
        ended: DateTime,
        files: Vec<BackupFile>,
    ) -> Result<Self> {
        let manifest = Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            note: NOTE.to_owned(),
            table: table.into(),
            encoding: ENCODING.to_owned(),
            started,
            ended,
            rows: sum(files.iter().map(|file| file.rows))?,
            bytes: sum(files.iter().map(|file| file.bytes))?,
            files,
        };
        manifest.check()?;
        Ok(manifest)
    }

    /// Writes the manifest as JSON, with line breaks.
    pub fn to_json(&self) -> String {
        // All members are text and numbers.
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default();
        json.push('\n');
        json
    }

    /// Reads a manifest.
    ///
    /// Fails for another format, a newer version, counts that do not add up, and names of files that are there twice or
    /// lead out of the folder of the manifest.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let version: Version = serde_json::from_slice(json).map_err(|error| refuse(&error))?;
        if version.format != FORMAT {
            let what =
                "it is not the manifest of a rowkey backup; check whether it is the right file";
            return Err(Error::new(ErrorKind::Malformed, what));
        }
        if version.version != u64::from(VERSION) {
            let what = format!(
                "the backup has version {}, and this program reads version {VERSION}; use the program that wrote it or \
                 a newer one",
                version.version
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let manifest: Self = serde_json::from_slice(json).map_err(|error| refuse(&error))?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<()> {
        if self.encoding != ENCODING {
            let what = "the files of the backup have an encoding that this program does not read; use the program that \
                        wrote it";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let mut names = HashSet::new();
        for file in &self.files {
            if !is_name(&file.name) {
                let what = "the name of a file is that of the manifest, leads out of the folder of the backup, or is no name on \
                            every operating system; correct the manifest";
                return Err(Error::new(ErrorKind::Malformed, what));
            }
            if !names.insert(file.name.to_lowercase()) {
                let what = format!("{} is listed twice; correct the manifest", file.name);
                return Err(Error::new(ErrorKind::Duplicate, what));
            }
            let is_hash = file.sha256.len() == 64
                && file.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if !is_hash {
                let what = format!("{}: sha256 is not 64 hexadecimal digits", file.name);
                return Err(Error::new(ErrorKind::Malformed, what));
            }
        }
        let counted = [
            ("rows", self.rows, sum(self.files.iter().map(|file| file.rows))?),
            ("bytes", self.bytes, sum(self.files.iter().map(|file| file.bytes))?),
        ];
        for (name, listed, found) in counted {
            if listed != found {
                let what = format!(
                    "the manifest lists {listed} {name}, and its files {found}; a file is missing in it"
                );
                return Err(Error::new(ErrorKind::Mismatch, what));
            }
        }
        if self.ended < self.started {
            let what = "the backup ended before it started; correct the times";
            return Err(Error::new(ErrorKind::Malformed, what));
        }
        Ok(())
    }
}

/// What all versions have.
#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u64,
}

/// Whether a name is that of a file in the folder itself beside the manifest, on every operating system.
fn is_name(name: &str) -> bool {
    let is_special = |c: char| c.is_control() || "/\\:*?\"<>|".contains(c);
    // Windows removes these ends, so that `.. ` would be the folder above.
    let has_end = !name.is_empty() && !name.ends_with(['.', ' ']);
    has_end && !name.contains(is_special) && !is_device(name) && !name.eq_ignore_ascii_case(FILE)
}

/// Whether Windows has a device of this name, with any extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_port = stem
        .strip_prefix("com")
        .or_else(|| stem.strip_prefix("lpt"))
        .is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']));
    is_port || matches!(&*stem, "con" | "prn" | "aux" | "nul")
}

fn sum(counts: impl Iterator<Item = u64>) -> Result<u64> {
    let what = "the counts of the files are too large to add up; correct the manifest";
    let added = |sum: u64, count: u64| sum.checked_add(count);
    counts.into_iter().try_fold(0, added).ok_or_else(|| Error::new(ErrorKind::Malformed, what))
}

/// The error for what is no manifest, without what serde quotes.
fn refuse(error: &serde_json::Error) -> Error {
    let (line, column) = (error.line() as u64, error.column() as u64);
    let (kind, what) = if error.is_eof() {
        (ErrorKind::Truncated, "the manifest ends too early; fetch or write it again")
    } else if error.is_syntax() {
        (ErrorKind::Malformed, "the manifest is not JSON; check whether it is the right file")
    } else {
        (ErrorKind::Malformed, "a member of the manifest is missing or has the wrong type")
    };
    Error::new(kind, what).at_line(line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, rows: u64) -> BackupFile {
        BackupFile {
            name: name.to_owned(),
            rows,
            bytes: 10 * rows,
            sha256: "0123456789abcdef".repeat(4),
            compression: Compression::Gzip,
        }
    }

    fn times() -> [DateTime; 2] {
        ["2026-11-20T12:34:56.7654321Z", "2026-11-20T12:35:07Z"].map(|text| text.parse().unwrap())
    }

    fn manifest() -> Manifest {
        let [started, ended] = times();
        let files = vec![file("a.jsonl.gz", 3), file("b.jsonl.gz", 4)];
        Manifest::new("orders", started, ended, files).unwrap()
    }

    #[test]
    fn manifests_of_this_version_stay_readable() {
        let json = r#"{"format":"rowkey-backup","version":1,"note":"","table":"orders","encoding":"json-lines",
            "started":"2026-11-20T12:34:56.7654321Z","ended":"2026-11-20T12:35:07Z","rows":7,"bytes":70,"later":[1],
            "files":[
            {"name":"a.jsonl.gz","rows":3,"bytes":30,"sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","compression":"gzip"},
            {"name":"b.jsonl.gz","rows":4,"bytes":40,"sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","compression":"gzip"}]}"#;
        let read = Manifest::from_json(json.as_bytes()).unwrap();
        assert_eq!(Manifest { note: NOTE.to_owned(), ..read }, manifest());
    }

    #[test]
    fn a_manifest_comes_back_and_says_that_it_is_no_snapshot() {
        let json = manifest().to_json();
        assert!(json.contains("no snapshot"), "{json}");
        assert_eq!(Manifest::from_json(json.as_bytes()).unwrap(), manifest());
        let [started, ended] = times();
        assert_eq!(Manifest::new("empty", started, ended, Vec::new()).unwrap().rows, 0);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let json = manifest().to_json();
        for (from, to, kind) in [
            ("rowkey-backup", "other", ErrorKind::Malformed),
            ("\"version\": 1", "\"version\": 2", ErrorKind::Unsupported),
            ("json-lines", "parquet", ErrorKind::Unsupported),
            ("\"rows\": 7", "\"rows\": 8", ErrorKind::Mismatch),
            ("\"bytes\": 40", "\"bytes\": 41", ErrorKind::Mismatch),
            ("\"rows\": 4", "\"rows\": 18446744073709551615", ErrorKind::Malformed),
            ("b.jsonl", "a.jsonl", ErrorKind::Duplicate),
            ("b.jsonl", "../b.jsonl", ErrorKind::Malformed),
            ("b.jsonl", "C:b.jsonl", ErrorKind::Malformed),
            ("b.jsonl.gz", "manifest.json", ErrorKind::Malformed),
            ("b.jsonl.gz", "Manifest.JSON", ErrorKind::Malformed),
            ("b.jsonl.gz", "b.jsonl.", ErrorKind::Malformed),
            ("b.jsonl.gz", ".. ", ErrorKind::Malformed),
            ("b.jsonl.gz", "b\\n.jsonl", ErrorKind::Malformed),
            ("b.jsonl.gz", "b?.jsonl", ErrorKind::Malformed),
            ("b.jsonl.gz", "NUL.jsonl", ErrorKind::Malformed),
            ("b.jsonl.gz", "com1", ErrorKind::Malformed),
            ("b.jsonl.gz", "A.jsonl.gz", ErrorKind::Duplicate),
            ("\"name\": \"a.jsonl.gz\"", "\"name\": \"..\"", ErrorKind::Malformed),
            ("\"sha256\": \"0", "\"sha256\": \"G", ErrorKind::Malformed),
            ("\"gzip\"", "\"secret\"", ErrorKind::Malformed),
            ("\"orders\"", "[\"secret\"]", ErrorKind::Malformed),
            ("2026-11-20T12:35:07Z", "2026-11-20T12:34:07Z", ErrorKind::Malformed),
        ] {
            let changed = json.replacen(from, to, 1);
            assert_ne!(changed, json, "{from}");
            let error = Manifest::from_json(changed.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), kind, "{from}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        for length in 0..json.trim_end().len() {
            let error = Manifest::from_json(&json.as_bytes()[..length]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Truncated);
        }
    }
}
