//! Exports: a table as a backup.

use std::collections::HashSet;
use std::fmt;

use futures_util::TryFutureExt as _;
use rowkey_client::{Clock as _, DynamicEntity, Page, Stored};
use rowkey_entity::edm::DateTime;
use rowkey_patterns::job::{Job, PageStep, Report, Verdict, Walk, Walking};
use serde::{Deserialize, Serialize};

use super::location::{Location, blocking};
use crate::backup::{BackupFile, FileEncoder, Manifest};
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::row::Row;

/// The name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";
/// The most entities of a file. Files of large entities have fewer.
const ENTITIES: usize = 8_000;
/// How many characters of the checksum are in the name of a file.
const DIGITS: usize = 16;

/// Exports a table to a [`Location`] as a [backup](crate::backup).
///
/// The [job](Self::job) writes files of 8,000 entities or 4 MiB before compression, or up to a page more, each before its
/// checkpoint passes the entities. A file is named after its content, so that what is written again after a resume is the same file or another
/// one, never a mixture. [`finish`](Self::finish) then lists the files that the report has, removes others that an interrupted run
/// left, and writes the manifest. A backup without a manifest is not whole.
#[derive(Clone, Debug)]
pub struct Export {
    location: Location,
    table: String,
    compression: Compression,
}

/// The page step of an [`Export`].
pub struct Exporting(Export);

/// What a file says of itself in the report.
#[derive(Serialize, Deserialize)]
struct Output {
    file: BackupFile,
    /// When its first page was there.
    written: DateTime,
}

impl Export {
    /// Exports to `location`. The manifest has the name of the table.
    pub fn new(location: &Location, table: impl Into<String>) -> Self {
        let (location, table) = (location.clone(), table.into());
        Self { location, table, compression: Compression::Gzip }
    }

    /// Compresses the files. Default: [`Compression::Gzip`].
    #[must_use = "this returns the changed export"]
    pub fn compression(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    /// Fails if the location has a manifest already. Call it before a job that resumes no other.
    ///
    /// Blobs: costs one request.
    pub async fn check_free(&self) -> Result<()> {
        if self.location.read(MANIFEST).await?.is_none() {
            return Ok(());
        }
        Err(self.is_taken())
    }

    fn is_taken(&self) -> Error {
        let what = "there is a backup already; export to another place, or remove that one";
        Error::new(ErrorKind::Duplicate, what).in_file(self.location.to_string())
    }

    /// The job that writes the files of what a walk finds.
    ///
    /// A checkpoint is tied to the table and its account, and to the location. Costs one request for each page of up to 1,000
    /// entities, and one for each file if they are blobs.
    pub fn job(
        &self,
        walk: Walk<DynamicEntity>,
    ) -> Job<'static, Walking<DynamicEntity, Exporting>> {
        let from = walk.table().place();
        let job = Job::stepping("export", walk.gather(ENTITIES), Exporting(self.clone()));
        job.parameter("from", from).parameter("to", self.location.to_string())
    }

    /// Writes the manifest of a job that is done, by its report.
    ///
    /// Fails, and changes nothing, if a file is no longer there or another export has written its manifest meanwhile.
    ///
    /// Blobs: costs three requests, and one for each file that is removed.
    pub async fn finish(&self, report: &Report) -> Result<Manifest> {
        let mut outputs = Vec::new();
        for output in report.outputs() {
            let output: Output = serde_json::from_str(output).map_err(|_| {
                let what = "the report is not that of an export; run the export again";
                Error::new(ErrorKind::Malformed, what)
            })?;
            outputs.push(output);
        }
        let times = || outputs.iter().map(|output| output.written);
        let (started, ended) = (times().min(), times().max());
        let (started, ended) = (started.unwrap_or_else(now), ended.unwrap_or_else(now));
        let mut files: Vec<_> = outputs.into_iter().map(|output| output.file).collect();
        files.sort_by(|one, other| one.name.cmp(&other.name));
        let manifest = Manifest::new(&*self.table, started, ended, files)?;
        let names = self.location.names().await?;
        let mut listed: HashSet<_> = manifest.files.iter().map(|file| &*file.name).collect();
        let is_other = |name: &&String| !listed.remove(&***name) && self.is_file(name);
        let others: Vec<_> = names.iter().filter(is_other).collect();
        if let Some(json) = self.location.read(MANIFEST).await? {
            let found =
                Manifest::from_json(&json).map_err(|error| self.location.about(MANIFEST, error))?;
            if (&found.table, &found.files) != (&manifest.table, &manifest.files) {
                return Err(self.is_taken());
            }
        }
        if let Some(name) = listed.into_iter().min() {
            let what = "the file was removed since the export wrote it; run the export again without its checkpoint";
            return Err(self.location.about(name, Error::new(ErrorKind::Mismatch, what)));
        }
        self.location.write(MANIFEST, manifest.to_json()).await?;
        for name in others {
            self.location.remove(name).await?;
        }
        Ok(manifest)
    }

    /// Removes what the job wrote, and the folder if nothing else is in it: for an export that is not finished, for example because
    /// its table was dropped. Without it a folder remains that is no backup. A backup that is whole stays.
    ///
    /// Blobs: costs two requests, and one for each file.
    ///
    /// ```
    /// use rowkey::patterns::job::Walk;
    /// use rowkey::{DynamicEntity, StorageAccount};
    /// use rowkey_transfer::jobs::{Export, Location};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("orders");
    /// let export = Export::new(&Location::folder(&path), "orders");
    /// let orders = account.table("orders");
    /// let all = Walk::new(&orders, |orders| orders.scan::<DynamicEntity>());
    /// assert!(export.job(all).run().await.is_err(), "there is no such table");
    /// export.discard().await?;
    /// assert!(!path.exists());
    /// # Ok(()) }
    /// ```
    pub async fn discard(&self) -> Result<()> {
        self.location.settle().await;
        if self.location.read(MANIFEST).await?.is_some() {
            return Ok(());
        }
        for name in self.location.names().await? {
            if self.is_file(&name) {
                self.location.remove(&name).await?;
            }
        }
        self.location.remove_if_empty().await
    }

    /// The name of a file with this checksum.
    fn name(&self, sha256: &str) -> String {
        let digits = sha256.get(..DIGITS).unwrap_or(sha256);
        format!("{}-{digits}.jsonl{}", self.table, self.compression.extension())
    }

    /// Whether an export of this table may have written a file, or begun to.
    fn is_file(&self, name: &str) -> bool {
        let begun = name.strip_prefix('.');
        if begun.is_some_and(|name| name.starts_with(MANIFEST)) {
            return true;
        }
        let name = begun.unwrap_or(name);
        let rest = name.strip_prefix(&*self.table).and_then(|rest| rest.strip_prefix('-'));
        rest.and_then(|rest| rest.split_once(".jsonl")).is_some_and(|(digits, _)| {
            digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }

    async fn write(
        &self,
        entities: Vec<Stored<DynamicEntity>>,
        written: DateTime,
    ) -> Result<Output> {
        let compression = self.compression;
        let encode = move || -> std::io::Result<Result<_>> { Ok(encode(entities, compression)) };
        let (mut file, content) = blocking(encode).await??;
        file.name = self.name(&file.sha256);
        self.location.write(&file.name, content).await?;
        Ok(Output { file, written })
    }
}

fn now() -> DateTime {
    // No clock of a machine is behind the year 9999.
    DateTime::try_from(rowkey_client::SystemClock.now()).unwrap_or(DateTime::MAX)
}

fn encode(
    entities: Vec<Stored<DynamicEntity>>,
    compression: Compression,
) -> Result<(BackupFile, Vec<u8>)> {
    let mut out = FileEncoder::new(Vec::new(), "", compression)?;
    for stored in entities {
        out.write(&Row::from(stored))?;
    }
    out.finish()
}

impl PageStep<DynamicEntity> for Exporting {
    async fn step(&self, page: Page<DynamicEntity>) -> rowkey_client::Result<Report> {
        let rows = page.entities.len() as u64;
        let mut report = Report::of(Verdict::Right, rows);
        if rows > 0 {
            let output = self.0.write(page.entities, now()).map_err(rowkey_client::Error::from);
            let output = serde_json::to_string(&output.await?).map_err(std::io::Error::from);
            report.add_output(output.map_err(Error::from)?);
        }
        Ok(report)
    }
}

impl fmt::Debug for Exporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
