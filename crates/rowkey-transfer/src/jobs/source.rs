//! What a table is filled from: a backup, a backup of AzCopy, or one file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use futures_util::{Stream, StreamExt as _, stream};
use rowkey_entity::DynamicEntity;
use sha2::{Digest as _, Sha256};

use super::decode::{Failure, chunks_of, interleaved};
use super::export::MANIFEST;
use super::location::{Location, blocking};
use crate::azcopy;
use crate::backup::{BackupFile, FileDecoder, Manifest};
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Format, Rows, ended};
use crate::json_lines::Encoder;
use crate::row::Row;

/// The end of the names of AzCopy's manifests.
const AZCOPY: &str = ".manifest";
/// Files that are read at once: more than a job has in work, because several may be of one partition.
const AT_ONCE: usize = 16;
/// Files that are opened, or downloaded, at once.
const OPENED_AHEAD: usize = 4;
/// Bytes of a fingerprint.
const FINGERPRINT: usize = 16;

/// The rows of a backup, of a backup of AzCopy, or of one file. The [module](super) has an example.
#[derive(Debug)]
pub struct Source {
    location: Location,
    files: Vec<Part>,
    table: Option<String>,
    at_once: usize,
}

/// A file of a source.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    format: Format,
    compression: Compression,
    /// What the manifest of a backup says of it.
    listed: Option<BackupFile>,
    /// A checksum of the rows, of a file that no manifest lists and that was read to its end.
    content: OnceLock<[u8; 32]>,
}

impl Source {
    /// Reads the manifest in a location: `manifest.json` of a [backup](crate::backup), or one that AzCopy wrote, whose name
    /// ends with `.manifest`.
    ///
    /// Fails if there is none or more than one, and if files that an AzCopy manifest counts are missing. Blobs: costs two
    /// requests, or three for AzCopy's.
    pub async fn open(location: &Location) -> Result<Self> {
        if let Some(json) = location.read(MANIFEST).await? {
            let manifest =
                Manifest::from_json(&json).map_err(|error| location.about(MANIFEST, error))?;
            let files = manifest.files.into_iter().map(|listed| Part {
                name: listed.name.clone(),
                format: Format::JsonLines,
                compression: listed.compression,
                listed: Some(listed),
                content: OnceLock::new(),
            });
            let (files, table) = (files.collect(), Some(manifest.table));
            return Ok(Self { location: location.clone(), files, table, at_once: AT_ONCE });
        }
        let names = location.names().await?;
        let mut manifests = names.iter().filter(|name| name.ends_with(AZCOPY));
        let what = match (manifests.next(), manifests.next()) {
            (Some(name), None) => {
                let json = location.read(name).await?.unwrap_or_default();
                return Self::azcopy(location, name, &json, &names)
                    .map_err(|error| location.about(name, error));
            }
            (None, _) => {
                "there is no manifest, neither manifest.json nor one of AzCopy; name a file, or the folder of a whole backup"
            }
            (Some(_), Some(_)) => {
                "there are several manifests of AzCopy; put each with its files into a folder of its own"
            }
        };
        Err(Error::new(ErrorKind::Mismatch, what).in_file(location.to_string()))
    }

    fn azcopy(location: &Location, name: &str, json: &[u8], names: &[String]) -> Result<Self> {
        let manifest = azcopy::Manifest::from_json(json)?;
        let files = manifest.data_files(name, names)?.into_iter().map(|file| Part {
            name: file.name,
            format: Format::AzCopy,
            compression: Compression::None,
            listed: None,
            content: OnceLock::new(),
        });
        let table = Some(manifest.table_name).filter(|name| !name.is_empty());
        let (location, files) = (location.clone(), files.collect());
        Ok(Self { location, files, table, at_once: AT_ONCE })
    }

    /// The rows of one file.
    pub fn file(path: &Path, format: Format, compression: Compression) -> Self {
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let part = Part { name, format, compression, listed: None, content: OnceLock::new() };
        let location = Location::folder(folder);
        Self { location, files: vec![part], table: None, at_once: AT_ONCE }
    }

    /// The name of the table, if a manifest says it.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// How many rows there are, if a manifest says it.
    pub fn rows(&self) -> Option<u64> {
        self.files.iter().map(|file| file.listed.as_ref().map(|listed| listed.rows)).sum()
    }

    /// How many files there are, without manifests.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Reads this many files at once, at least 1. Default: 16, so that entities of several partitions are on their way at once: a file
    /// of a backup has those of few partitions, and a partition takes 2,000 a second. With 1, entities of a file come after those of
    /// the file before it.
    ///
    /// The order of the entities depends on it, and on the files, alone. Each file that is open is decoded by a thread, up to 256 KiB
    /// ahead.
    ///
    /// ```
    /// use rowkey_transfer::backup::Manifest;
    /// use rowkey_transfer::jobs::{Location, Source};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (folder, now) = (Location::folder(folder.path()), "2026-11-20T12:34:56Z".parse()?);
    /// # folder.write("manifest.json", Manifest::new("orders", now, now, Vec::new())?.to_json()).await?;
    /// let backup = Source::open(&folder).await?;
    /// let in_order = Source::open(&folder).await?.files_at_once(1);
    /// assert_ne!(backup.fingerprint(), in_order.fingerprint());
    /// # Ok(()) }
    /// ```
    #[must_use = "this returns the changed source"]
    pub fn files_at_once(self, files: usize) -> Self {
        Self { at_once: files.max(1), ..self }
    }

    /// What tells this source from others: a checksum of the names of the files, of what a manifest lists of them or
    /// [`verify`](Self::verify) has read, and of [how they are read](Self::files_at_once). A checkpoint of a job that stores the entities belongs to one source: tie it, as
    /// [`Job::parameter`](rowkey_patterns::job::Job::parameter) does.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.at_once.to_le_bytes());
        for file in &self.files {
            let listed = file.listed.as_ref().map_or("", |listed| &listed.sha256);
            let content = file.content.get().map_or(&[][..], |content| content);
            for part in [file.name.as_bytes(), listed.as_bytes(), content] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        let mut text = String::with_capacity(2 * FINGERPRINT);
        for byte in hash.finalize().iter().take(FINGERPRINT) {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Reads all files to their ends, and returns how many rows they have.
    ///
    /// Fails for the first file that is missing or damaged or, in a backup, differs from its entry in the manifest. Call it before
    /// an import, which would notice the damage only after rows before it are written.
    pub async fn verify(&self) -> Result<u64> {
        let mut all = 0;
        for part in &self.files {
            let (rows, content) = part.count(&self.location).await?;
            all += rows;
            if let Some(content) = content {
                part.content.get_or_init(|| content);
            }
        }
        Ok(all)
    }

    /// Reads all files to their ends as [`verify`](Self::verify) does, and returns how many rows those have that are whole, and an
    /// error for each other file.
    ///
    /// Fails if the service refuses a request.
    ///
    /// ```
    /// use rowkey_transfer::backup::Manifest;
    /// use rowkey_transfer::jobs::{Location, Source};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (folder, now) = (Location::folder(folder.path()), "2026-11-20T12:34:56Z".parse()?);
    /// # folder.write("manifest.json", Manifest::new("orders", now, now, Vec::new())?.to_json()).await?;
    /// let backup = Source::open(&folder).await?;
    /// let (rows, damaged) = backup.check().await?;
    /// assert_eq!((rows, damaged.len(), backup.files()), (0, 0, 0));
    /// # Ok(()) }
    /// ```
    pub async fn check(&self) -> Result<(u64, Vec<Error>)> {
        let (mut all, mut damaged) = (0, Vec::new());
        for part in &self.files {
            match part.count(&self.location).await {
                Ok((rows, _)) => all += rows,
                Err(error) if error.kind() == ErrorKind::Service => return Err(error),
                Err(error) => damaged.push(error),
            }
        }
        Ok((all, damaged))
    }

    /// The rows of all files, of [several at once](Self::files_at_once). The first error is the last item.
    pub fn stream(self) -> impl Stream<Item = Result<Row>> + Send + 'static {
        let Self { location, files, at_once, .. } = self;
        let at_once = at_once.min(files.len()).max(1);
        let opened = stream::iter(spread(files, at_once)).map(move |part| {
            let location = location.clone();
            async move { Ok(chunks_of(part.rows(&location).await?, at_once)) }
        });
        interleaved(opened.buffered(OPENED_AHEAD.min(at_once)), at_once)
    }

    /// The entities of all files, for a job that stores them, and what tells whether reading them failed: pass the job to
    /// [`Failure::or`].
    pub fn entities(self) -> (impl Stream<Item = DynamicEntity> + Send + 'static, Failure) {
        Failure::of_stream(self.stream())
    }
}

/// The files in the order in which they are opened: those that are read at once are from places far apart, because files of one
/// partition may follow each other.
fn spread(files: Vec<Part>, at_once: usize) -> Vec<Part> {
    let step = files.len().div_ceil(at_once).max(1);
    let mut places: Vec<_> = files.into_iter().enumerate().collect();
    places.sort_by_key(|(at, _)| (at % step, *at));
    places.into_iter().map(|(_, part)| part).collect()
}

impl Part {
    /// Reads the file to its end, and returns how many rows it has, and a checksum of them if no manifest has one.
    async fn count(&self, location: &Location) -> Result<(u64, Option<[u8; 32]>)> {
        let rows = self.rows(location).await?;
        let is_listed = self.listed.is_some();
        blocking(move || Ok(counted(rows, is_listed))).await?
    }

    /// The rows, whose errors name the file.
    async fn rows(&self, location: &Location) -> Result<Rows> {
        let file = location.open(&self.name).await?;
        let part = self.clone();
        // Some formats have a head that is read here.
        let rows = blocking(move || Ok(part.decode(file))).await?;
        let (name, location) = (self.name.clone(), location.clone());
        let named = move |error: Error| location.about(&name, error);
        let rows = rows.map_err(&named)?;
        Ok(Box::new(rows.map(move |row| row.map_err(&named))))
    }

    fn decode(&self, file: File) -> Result<Rows> {
        match &self.listed {
            Some(listed) => Ok(ended(FileDecoder::new(file, listed)?)),
            None => self.format.read(file, self.compression),
        }
    }
}

fn counted(rows: Rows, is_listed: bool) -> Result<(u64, Option<[u8; 32]>)> {
    let (mut count, mut hash) = (0, Sha256::new());
    // As the default format has them: exact, in any format of the file.
    let mut encoder = Encoder::new(Hashed(&mut hash));
    for row in rows {
        let row = row?;
        count += 1;
        if !is_listed {
            encoder.write(&row)?;
        }
    }
    drop(encoder);
    Ok((count, (!is_listed).then(|| hash.finalize().into())))
}

/// Hashes what is written.
struct Hashed<'a>(&'a mut Sha256);

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(count: usize) -> Vec<Part> {
        let part = |number: usize| Part {
            name: format!("{number}"),
            format: Format::JsonLines,
            compression: Compression::None,
            listed: None,
            content: OnceLock::new(),
        };
        (0..count).map(part).collect()
    }

    #[test]
    fn files_that_are_read_at_once_are_far_apart() {
        let order = |count, at_once| {
            let names = spread(parts(count), at_once).into_iter().map(|part| part.name);
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(order(8, 4), "0 2 4 6 1 3 5 7");
        assert_eq!(order(7, 3), "0 3 6 1 4 2 5");
        assert_eq!(order(5, 1), "0 1 2 3 4");
        assert_eq!(order(3, 16), "0 1 2");
        assert_eq!(order(0, 16), "");
    }

    #[test]
    fn a_fingerprint_is_that_of_the_files_and_of_their_order() {
        let of = |count, at_once| {
            let (location, table) = (Location::folder("."), None);
            let source = Source { location, files: parts(count), table, at_once: AT_ONCE };
            source.files_at_once(at_once).fingerprint()
        };
        assert_eq!(of(3, 4), of(3, 4));
        assert!(of(3, 4) != of(3, 5) && of(3, 4) != of(4, 4) && of(3, 4).len() == 2 * FINGERPRINT);
    }
}
