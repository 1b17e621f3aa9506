//! `rowkey export`: writes the entities of a table to a backup, a file or stdout.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use clap::{Args, ValueEnum};
use rowkey::patterns::job::{Job, Report, Verdict, Walking};
use rowkey::{DynamicEntity, Page, StorageAccount, Table};
use rowkey_transfer::jobs::{Export as Backup, Location, Source};
use rowkey_transfer::{Compression, Format, FormatEncoder, Row};
use serde_json::Value;
use tokio::sync::oneshot;

use super::copy::exists;
use crate::args::Common;
use crate::connect;
use crate::error::{Error, Exit, Result};
use crate::jobs::{self, JobFlags, Runner};
use crate::output;
use crate::selection::Selection;

const EXAMPLES: &str = "\
Examples:
  rowkey export orders backup/orders --checkpoint orders.checkpoint
  rowkey export orders orders.csv
  rowkey export orders - | gzip > orders.jsonl.gz
  rowkey export orders backups/2026-11-27/orders --container
  rowkey export --all backup";

/// Write the entities of a table to a backup, a file or stdout.
///
/// A folder gets a backup: compressed files of JSON lines, and a manifest with counts and checksums, which is written last. An export is
/// no snapshot: entities that other programs write meanwhile may be old, new or missing.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Export {
    /// The name of the table; with --all, the folder alone.
    #[arg(value_name = "TABLE")]
    first: String,
    /// A folder; a file, by the end of its name: .jsonl, .csv, .json (Storage Explorer) or .parquet, the first three also with .gz;
    /// or `-` for stdout.
    #[arg(value_name = "DESTINATION", required_unless_present = "all")]
    second: Option<String>,
    /// Export all tables, each to a folder of its name.
    #[arg(long)]
    all: bool,
    /// DESTINATION is CONTAINER/FOLDER in the account's blobs. The container is created if it does not exist.
    #[arg(long)]
    container: bool,
    /// The format of a file or stdout. Default: by the end of the name, JSON lines for stdout.
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatFlag>,
    /// Whether files of a backup are compressed.
    #[arg(long, value_name = "COMPRESSION", default_value = "gzip")]
    compression: CompressionFlag,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    job: JobFlags,
}

/// Formats of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatFlag {
    /// Typed JSON, an entity a line.
    JsonLines,
    /// The CSV of Azure Storage Explorer.
    Csv,
    /// The JSON of Azure Storage Explorer.
    Json,
    /// OData JSON, as AzCopy 7.3 wrote it.
    #[value(name = "azcopy")]
    AzCopy,
    /// Parquet.
    Parquet,
}

impl From<FormatFlag> for Format {
    fn from(flag: FormatFlag) -> Self {
        match flag {
            FormatFlag::JsonLines => Self::JsonLines,
            FormatFlag::Csv => Self::Csv,
            FormatFlag::Json => Self::Json,
            FormatFlag::AzCopy => Self::AzCopy,
            FormatFlag::Parquet => Self::Parquet,
        }
    }
}

/// Compressions of the files of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionFlag {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
}

impl From<CompressionFlag> for Compression {
    fn from(flag: CompressionFlag) -> Self {
        match flag {
            CompressionFlag::None => Self::None,
            CompressionFlag::Gzip => Self::Gzip,
        }
    }
}

/// Where entities go to.
enum Place {
    Backup(Location),
    File(PathBuf, Format),
    Stdout(Format),
}

pub(crate) async fn run(common: &Common, args: Export) -> Result<()> {
    let destination = if args.all { Some(&args.first) } else { args.second.as_ref() };
    if destination.is_some_and(String::is_empty) {
        return Err(Error::usage("the destination has no name; `.` is this folder"));
    }
    if args.container && args.format.is_some() {
        return Err(Error::usage("--format is for a file or stdout; a container gets a backup"));
    }
    let account = connect::account(common)?;
    if args.all {
        return all(common, &args, &account).await;
    }
    let destination = args.second.as_deref().unwrap_or_default();
    let table = account.table(&args.first);
    let report = match place(&args, &account, destination)? {
        Place::Backup(location) => {
            if args.container {
                create(&account, destination).await?;
            }
            let runner = Runner::new(common, &args.job)?;
            backup(&args, runner, &table, &location).await?
        }
        Place::Stdout(format) => {
            let out = BufWriter::new(io::stdout());
            let end = |mut out: BufWriter<_>| out.flush();
            let format = (format, Compression::None);
            let report = stream(common, &args, &table, format, ("stdout", out), end).await?;
            return jobs::finish(common, &report);
        }
        Place::File(path, format) => file(common, &args, &table, format, &path).await?,
    };
    end(common, vec![(args.first.clone(), destination.to_owned(), report)])
}

/// Exports all tables, one after the other.
async fn all(common: &Common, args: &Export, account: &StorageAccount) -> Result<()> {
    let folder = &args.first;
    if args.second.is_some() || args.job.has_checkpoint() || args.format.is_some() {
        return Err(Error::usage(
            "export --all takes one folder, and neither --checkpoint nor --format; tables that are in the folder already are kept, \
             so the same command goes on",
        ));
    }
    if args.container {
        create(account, folder).await?;
    }
    let (mut done, mut dropped) = (Vec::new(), Vec::new());
    for name in connect::tables(account).await? {
        let path = format!("{}/{name}", folder.trim_end_matches('/'));
        let location = location(args, account, &path)?;
        // A backup that is whole is that of an earlier run of this command.
        if let Err(error) = Backup::new(&location, &*name).check_free().await {
            if error.kind() == rowkey_transfer::ErrorKind::Duplicate {
                let rows = Source::open(&location).await?.rows().unwrap_or_default();
                done.push((name, path, Report::of(Verdict::Right, rows)));
                continue;
            }
            return Err(error.into());
        }
        let (runner, table) = (Runner::new(common, &args.job)?, account.table(&name));
        match backup(args, runner, &table, &location).await {
            Ok(report) => done.push((name, path, report)),
            Err(error) if is_dropped(&error, &table).await => {
                Backup::new(&location, &*name).discard().await?;
                dropped.push(name);
            }
            Err(error) => return Err(error),
        }
    }
    let tables = done.len() + dropped.len();
    let ended = end(common, done);
    if dropped.is_empty() {
        return ended;
    }
    let what = format!(
        "{} of {tables} tables were dropped by another program meanwhile, and have no backup: {}",
        dropped.len(),
        dropped.join(", ")
    );
    Err(match ended {
        Ok(()) => Error::new(Exit::Partly, format!("the command is done; {what}")),
        Err(error) => error.and(what),
    })
}

/// Whether an export failed because its table is gone.
async fn is_dropped(error: &Error, table: &Table) -> bool {
    matches!(error.exit(), Exit::NotFound | Exit::Condition)
        && matches!(exists(table).await, Ok(false))
}

/// Exports a table as a backup.
async fn backup(args: &Export, runner: Runner, table: &Table, to: &Location) -> Result<Report> {
    let export = Backup::new(to, table.name()).compression(args.compression.into());
    if !runner.is_resumed() {
        export.check_free().await?;
    }
    let selected = args.selection.of(&runner)?;
    let job = selected.tie(export.job(selected.walk(table)));
    let finish = async |report: &Report| Ok(export.finish(report).await.map(drop)?);
    runner.run_and(job, Job::<Walking<_, _>>::run, finish).await
}

/// Exports a table to a file, which is there when it is whole.
async fn file(
    common: &Common,
    args: &Export,
    table: &Table,
    format: Format,
    path: &Path,
) -> Result<Report> {
    let (shown, name) = (path.display(), path.to_string_lossy());
    let format = (format, Compression::of_name(&name));
    // A link leads to the new file.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(Error::usage(format!("{shown} is no file; name another one, or - for stdout")));
    }
    let failed =
        |error: io::Error| Error::new(Exit::Failed, format!("{shown} cannot be written: {error}"));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let beside = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    let (out, beside) = beside.map_err(failed)?.into_parts();
    let out = BufWriter::new(out);
    let end = |out: BufWriter<fs::File>| {
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    };
    let report = stream(common, args, table, format, (&name, out), end).await?;
    beside.persist(path).map_err(|error| failed(error.error))?;
    Ok(report)
}

/// Writes the entities in the order of their keys, and ends with what was written to.
async fn stream<W: Write + Send + 'static>(
    common: &Common,
    args: &Export,
    table: &Table,
    (format, compression): (Format, Compression),
    (name, out): (&str, W),
    end: impl FnOnce(W) -> io::Result<()> + Send + 'static,
) -> Result<Report> {
    if args.job.has_checkpoint() {
        return Err(Error::usage(
            "a file is written from its beginning each time; export to a folder to go on from a checkpoint",
        ));
    }
    let runner = Runner::new(common, &args.job)?;
    let encoder = FormatEncoder::new(format, out, compression, tempfile::tempfile)?;
    // A thread that waits for a reader holds its lock.
    let out = Arc::new(Mutex::new(Some(encoder)));
    // The job's error has its text alone.
    let failed = Mutex::new(None);
    let step = |page: Page<DynamicEntity>| {
        let (out, failed) = (Arc::clone(&out), &failed);
        async move {
            let written = apart(move || write(&out, page)).await;
            let written = written.map_err(rowkey_transfer::Error::from).and_then(|written| written);
            written.map_err(|error| {
                let error = error.in_file(name);
                let text = error.to_string();
                *lock(failed) = Some(error);
                rowkey::Error::refused(rowkey::ErrorKind::Unexpected, text)
            })
        }
    };
    let job = Job::walk("export", args.selection.of(&runner)?.in_order(table), step);
    let finish = async |_: &Report| {
        let out = Arc::clone(&out);
        let ended = apart(move || -> rowkey_transfer::Result<()> {
            let Some(encoder) = lock(&out).take() else { return Ok(()) };
            Ok(end(encoder.finish()?)?)
        });
        Ok(ended.await?.map_err(|error| error.in_file(name))?)
    };
    let report = runner.run_and(job, Job::<Walking<_, _>>::run, finish).await;
    match lock(&failed).take() {
        Some(failed) => Err(failed.into()),
        None => report,
    }
}

/// Runs what may wait for a reader on a thread of its own, so that signals still stop the command, which does not wait for it then.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        // If the command has ended, it needs no result.
        let _ = sender.send(work());
    };
    thread::Builder::new().name("output".to_owned()).spawn(work)?;
    receiver.await.map_err(|_| io::Error::other("the thread that writes ended with a panic"))
}

fn write<W: Write + Send>(
    out: &Mutex<Option<FormatEncoder<W>>>,
    page: Page<DynamicEntity>,
) -> rowkey_transfer::Result<Report> {
    let report = Report::of(Verdict::Right, page.entities.len() as u64);
    if let Some(encoder) = lock(out).as_mut() {
        page.entities.into_iter().try_for_each(|stored| encoder.write(&Row::from(stored)))?;
    }
    Ok(report)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the destination names.
fn place(args: &Export, account: &StorageAccount, destination: &str) -> Result<Place> {
    if args.container {
        return Ok(Place::Backup(location(args, account, destination)?));
    }
    let format = args.format.map(Format::from);
    if destination == "-" {
        let format = format.unwrap_or(Format::JsonLines);
        return Ok(Place::Stdout(format));
    }
    let is_folder = Path::new(destination).is_dir() || destination.ends_with('/');
    match format.or_else(|| Format::of_name(destination)) {
        Some(format) if !is_folder => Ok(Place::File(destination.into(), format)),
        Some(_) if args.format.is_some() => {
            Err(Error::usage("--format is for a file or stdout; a folder gets a backup"))
        }
        _ => Ok(Place::Backup(Location::folder(destination))),
    }
}

/// The folder, or the blobs of a container.
pub(super) fn location(args: &Export, account: &StorageAccount, path: &str) -> Result<Location> {
    if args.container { blobs(account, path) } else { Ok(Location::folder(path)) }
}

/// The blobs that CONTAINER/FOLDER names.
pub(super) fn blobs(account: &StorageAccount, path: &str) -> Result<Location> {
    let (container, folder) = path.split_once('/').unwrap_or((path, ""));
    if container.is_empty() {
        return Err(Error::usage("--container: name it as CONTAINER/FOLDER"));
    }
    let folder = folder.trim_matches('/');
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    Ok(Location::container(&account.container(container), prefix))
}

async fn create(account: &StorageAccount, path: &str) -> Result<()> {
    let container = path.split('/').next().unwrap_or_default();
    match account.container(container).create_if_missing().await {
        Err(error) if error.kind() != rowkey::ErrorKind::Auth => Err(Error::of_write(error)),
        _ => Ok(()),
    }
}

/// A line for each table, and the exit code.
fn end(common: &Common, done: Vec<(String, String, Report)>) -> Result<()> {
    let mut all = Report::default();
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for (table, to, report) in done {
        rows.push(vec![table.into(), to.into(), report.total.right.into()]);
        all.merge(report);
    }
    output::records(common.form(), &["table", "to", "exported"], &rows)?;
    jobs::finish(common, &all)
}
