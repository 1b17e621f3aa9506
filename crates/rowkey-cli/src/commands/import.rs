//! `rowkey import`: writes the entities of a backup, a file or stdin to a table.

use std::io::{self, Seek as _};
use std::path::Path;

use clap::{Args, ValueEnum};
use futures_util::Stream;
use futures_util::stream::{BoxStream, StreamExt as _};
use rowkey::patterns::job::{Job, Loading, Report, Verdict};
use rowkey::{DynamicEntity, StorageAccount, Table};
use rowkey_transfer::jobs::{Failure, Location, Source};
use rowkey_transfer::{Compression, Format};
use serde_json::Value;

use super::copy::create;
use super::export::{FormatFlag, blobs};
use crate::args::Common;
use crate::connect;
use crate::error::{Error, Exit, Result};
use crate::jobs::{self, Input, JobFlags, Runner};
use crate::output;
use crate::rejects::{Rejects, RejectsFlag};

const EXAMPLES: &str = "\
Examples:
  rowkey import orders backup/orders --checkpoint import.checkpoint
  rowkey import orders orders.csv --write insert
  gunzip < orders.jsonl.gz | rowkey import orders -
  rowkey import orders old-azcopy-backup --dry-run
  rowkey import --all backup";

/// Write the entities of a backup, a file or stdin to a table.
///
/// A folder holds a backup of `rowkey export`, or one of AzCopy 7.3 with its manifest. All of it is read and compared with its manifest
/// before the first entity is written. The table is created if it does not exist.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Import {
    /// The name of the table; with --all, the folder alone.
    #[arg(value_name = "TABLE")]
    first: String,
    /// A folder; a file, by the end of its name: .jsonl, .csv, .json (Storage Explorer) or .parquet, the first three also with .gz;
    /// or `-` for stdin.
    #[arg(value_name = "SOURCE", required_unless_present = "all")]
    second: Option<String>,
    /// Import each backup in a folder of FOLDER, to the table that its manifest names.
    #[arg(long)]
    all: bool,
    /// SOURCE is CONTAINER/FOLDER in the account's blobs.
    #[arg(long, conflicts_with = "all")]
    container: bool,
    /// The format of a file or stdin. Default: by the end of the name, JSON lines for stdin.
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatFlag>,
    /// What happens to entities of the table with the same keys.
    #[arg(long, value_name = "HOW", default_value = "replace")]
    write: Write,
    /// Read all of it, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    rejects: RejectsFlag,
    #[command(flatten)]
    job: JobFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Write {
    /// They are replaced.
    Replace,
    /// Their other properties are kept.
    Merge,
    /// They are kept, and those of the source are rejected unless they are equal.
    Insert,
}

type Entities = BoxStream<'static, DynamicEntity>;

pub(crate) async fn run(common: &Common, args: Import) -> Result<()> {
    let account = connect::account(common)?;
    let rejects = Rejects::new(&args.rejects, if args.all { "import" } else { &args.first });
    let done = if args.all {
        all(common, &args, &account, &rejects).await
    } else {
        one(common, &args, &account, &rejects)
            .await
            .map(|report| vec![(args.first.clone(), report)])
    };
    rejects.finish(done, |done| end(common, &args, done))
}

async fn one(
    common: &Common,
    args: &Import,
    account: &StorageAccount,
    rejects: &Rejects,
) -> Result<Report> {
    let from = args.second.as_deref().unwrap_or_default();
    let table = account.table(&args.first);
    if from == "-" {
        stdin(common, args, &table, rejects).await
    } else {
        let source = source(args, account, from).await?;
        import(common, args, &table, (source, None), rejects).await
    }
}

/// Imports each backup in a folder below a folder.
async fn all(
    common: &Common,
    args: &Import,
    account: &StorageAccount,
    rejects: &Rejects,
) -> Result<Vec<(String, Report)>> {
    if args.second.is_some() || args.job.has_checkpoint() || args.format.is_some() {
        return Err(Error::usage(
            "import --all takes one folder, and neither --checkpoint nor --format",
        ));
    }
    let failed = |error: io::Error| {
        Error::new(Exit::Failed, format!("{} cannot be read: {error}", args.first))
    };
    if args.first.is_empty() {
        return Err(Error::usage("the source has no name; `.` is this folder"));
    }
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(&args.first).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            let source = Source::open(&Location::folder(&path)).await?;
            let table = source.table().map(str::to_owned).ok_or_else(|| {
                Error::usage(format!("{}: the manifest names no table", path.display()))
            })?;
            sources.push((table, source));
        }
    }
    // Names of tables have no case.
    sources.sort_by_key(|(table, _)| table.to_ascii_lowercase());
    if let Some(pair) = sources.windows(2).find(|pair| pair[0].0.eq_ignore_ascii_case(&pair[1].0)) {
        let what =
            format!("there are two backups of the table {}; import one of them alone", pair[0].0);
        return Err(Error::usage(what));
    }
    // All of them before the first entity of one is written.
    let mut verified = Vec::new();
    for (name, source) in sources {
        let rows = source.verify().await?;
        verified.push((name, source, rows));
    }
    let mut done = Vec::new();
    for (name, source, rows) in verified {
        let source = (source, Some(rows));
        let report = import(common, args, &account.table(&name), source, rejects).await?;
        done.push((name, report));
    }
    Ok(done)
}

async fn source(args: &Import, account: &StorageAccount, from: &str) -> Result<Source> {
    if args.container && args.format.is_some() {
        return Err(Error::usage(
            "--format is for a file or stdin; the manifest of a container's folder says it",
        ));
    }
    if args.container {
        return Ok(Source::open(&blobs(account, from)?).await?);
    }
    let path = Path::new(from);
    if path.is_dir() {
        if args.format.is_some() {
            return Err(Error::usage(
                "--format is for a file or stdin; the manifest of a folder says it",
            ));
        }
        return Ok(Source::open(&Location::folder(path)).await?);
    }
    let format = args.format.map(Format::from).or_else(|| Format::of_name(from));
    let unknown =
        || Error::usage(format!("{from}: the end of the name says no format; name it by --format"));
    Ok(Source::file(path, format.ok_or_else(unknown)?, Compression::of_name(from)))
}

/// Imports what can be read twice.
async fn import(
    common: &Common,
    args: &Import,
    table: &Table,
    (source, verified): (Source, Option<u64>),
    rejects: &Rejects,
) -> Result<Report> {
    let rows = match verified {
        Some(rows) => rows,
        None => source.verify().await?,
    };
    if args.dry_run {
        return Ok(Report::of(Verdict::Right, rows));
    }
    let runner = Runner::new(common, &args.job)?.total(Some(rows));
    let tied = (rows, source.fingerprint());
    let (entities, failure) = source.entities();
    store(args, table, runner, rejects, tied, (entities, failure)).await
}

async fn stdin(common: &Common, args: &Import, table: &Table, rejects: &Rejects) -> Result<Report> {
    if args.job.has_checkpoint() {
        return Err(Error::usage(
            "stdin cannot be read again; write it to a file to go on from a checkpoint",
        ));
    }
    let format = args.format.map_or(Format::JsonLines, Format::from);
    let rows = if format == Format::Parquet {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut io::stdin(), &mut file)?;
        file.rewind()?;
        format.read(file, Compression::None)?
    } else {
        format.read_text(io::stdin(), Compression::None)?
    };
    if args.dry_run {
        let mut rows = rows.map(|row| row.map(drop));
        let rows = rows.try_fold(0, |all, row| row.map(|()| all + 1))?;
        return Ok(Report::of(Verdict::Right, rows));
    }
    let runner = Runner::new(common, &args.job)?;
    store(args, table, runner, rejects, (0, String::new()), Failure::of(rows)).await
}

/// Writes the entities.
async fn store(
    args: &Import,
    table: &Table,
    runner: Runner,
    rejects: &Rejects,
    (rows, fingerprint): (u64, String),
    (entities, failure): (impl Stream<Item = DynamicEntity> + Send + 'static, Failure),
) -> Result<Report> {
    create(table).await?;
    let entities: Entities = entities.boxed();
    let job = match args.write {
        Write::Replace => Job::upsert(table, entities),
        Write::Merge => Job::upsert_merge(table, entities),
        Write::Insert => Job::insert(table, entities),
    };
    let (kept, name) = (rejects.clone(), table.name().to_owned());
    // A checkpoint counts groups of entities of the source, so another source, or another order, would lose some.
    let job = job
        .parameter("to", table.place())
        .parameter("source", args.second.as_deref().unwrap_or_default())
        .parameter("rows", rows.to_string())
        .parameter("content", fingerprint)
        .rejected(move |rejected| kept.keep(&name, rejected));
    let is_file = args.second.as_deref() != Some("-");
    runner.input(Input { failure, is_file }).run(job, Job::<Loading<_>>::run).await
}

/// A line for each table, and the exit code.
fn end(common: &Common, args: &Import, done: Vec<(String, Report)>) -> Result<()> {
    let column = if args.dry_run { "would_import" } else { "imported" };
    let mut all = Report::default();
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for (table, report) in done {
        rows.push(vec![table.into(), report.total.right.into(), report.total.failed.into()]);
        all.merge(report);
    }
    output::records(common.form(), &["table", column, "rejected"], &rows)?;
    jobs::finish(common, &all)
}
