//! `rowkey check`: whether a backup is whole, two tables or a table and a backup hold the same, or every entity of a table can be read.

use std::future::ready;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use futures_util::StreamExt as _;
use rowkey::patterns::job::{Job, Jobs, Report, Verdict, Walk};
use rowkey::{DynamicEntity, Page, StorageAccount, Table};
use rowkey_transfer::ErrorKind;
use rowkey_transfer::jobs::{Comparison, Location, Source};

use super::distinct::Distinct;
use super::export::blobs;
use crate::args::{Common, To};
use crate::connect;
use crate::error::{Error, Exit, Result};
use crate::jobs::{self, JobFlags, Runner};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  rowkey check --backup backups/orders
  rowkey check orders
  rowkey check orders --backup backups/orders
  rowkey check --backup backups/2026-11-27/orders --container
  rowkey check orders orders2 --checkpoint check.checkpoint
  rowkey check orders --profile production --to-profile staging --show-keys";

/// Check that a backup is whole, that two tables or a table and a backup hold the same, or that every entity can be read.
///
/// Two tables hold the same if they have the same entities, with the type and the value of each property; the Timestamp is not
/// compared. What is not as it should be is on stderr, and the exit code is 8.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Check {
    /// The name of the table.
    #[arg(required_unless_present = "backup")]
    table: Option<String>,
    /// The table to compare it with. In another account, the default is the same name.
    other: Option<String>,
    /// Check the backup in this folder, also one of AzCopy 7.3: its files, by their counts and checksums. With a table, compare both, too.
    #[arg(long, value_name = "FOLDER", conflicts_with = "other")]
    backup: Option<String>,
    /// FOLDER is CONTAINER/FOLDER in the account's blobs.
    #[arg(long, requires = "backup")]
    container: bool,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    job: JobFlags,
}

pub(crate) async fn run(common: &Common, check: Check) -> Result<()> {
    if check.backup.is_some() {
        if check.to.is_given() {
            return Err(Error::usage(
                "a backup is no table of another account; remove --to-profile and the like",
            ));
        }
        return match &check.table {
            None => report_backup(common, &whole(common, &check).await?),
            Some(table) => restorable(common, table, &check).await,
        };
    }
    let Check { table, other, to, job, .. } = check;
    let (account, table) = (connect::account(common)?, table.unwrap_or_default());
    match other {
        None if !to.is_given() => readable(common, &account, &table, &job).await,
        other => {
            let name = other.as_deref().unwrap_or(&table);
            same(common, (&account, &table), (&to, name), &job).await
        }
    }
}

/// Reads every entity of a table.
async fn readable(
    common: &Common,
    account: &StorageAccount,
    table: &str,
    job: &JobFlags,
) -> Result<()> {
    let runner = Runner::new(common, job)?;
    let walk = Walk::new(&account.table(table), Table::scan::<DynamicEntity>);
    // What cannot be read is not among the entities of a page; the job reports it.
    let check = Job::walk("check", walk.split_automatically(), |page: Page<DynamicEntity>| {
        ready(Ok(Report::of(Verdict::Right, page.entities.len() as u64)))
    });
    let report = runner.walk(check).await?;
    let row = vec![table.into(), report.total.right.into(), report.total.unreadable.into()];
    output::records(common.form(), &["table", "readable", "unreadable"], &[row])?;
    jobs::finish(common, &report)
}

/// Compares two tables.
async fn same(
    common: &Common,
    (account, table): (&StorageAccount, &str),
    (to, name): (&To, &str),
    job: &JobFlags,
) -> Result<()> {
    let other = connect::other(common, to, account)?;
    if !to.is_given() && table.eq_ignore_ascii_case(name) {
        return Err(Error::usage(format!(
            "{table} is one table; name another one, or another account by --to-profile NAME or \
             --to-connection-string-env NAME"
        )));
    }
    let runner = Runner::new(common, job)?;
    let comparison = Comparison::of(&account.table(table)).concurrency(runner.concurrency());
    let report = runner.jobs(comparison.with(&other.table(name))).await?;
    let [entities, others] = ["entities", "others"].map(|part| report.part(part));
    let columns = ["table", "other", "same", "different", "missing", "surplus", "unreadable"];
    let row = vec![
        table.into(),
        name.into(),
        entities.right.into(),
        entities.stale.into(),
        entities.missing.into(),
        others.orphaned.into(),
        report.total.unreadable.into(),
    ];
    output::records(common.form(), &columns, &[row])?;
    jobs::finish(common, &report)
}

/// A backup that is checked.
struct Backup {
    /// As it was named.
    shown: String,
    source: Source,
    rows: u64,
    damaged: usize,
}

/// Compares a table with a backup that is whole.
async fn restorable(common: &Common, name: &str, args: &Check) -> Result<()> {
    let table = connect::account(common)?.table(name);
    let runner = Runner::new(common, &args.job)?;
    let backup = whole(common, args).await?;
    if backup.damaged > 0 {
        return report_backup(common, &backup);
    }
    let Backup { shown, source, rows, .. } = backup;
    // In the order of the files: entities whose keys ascend are compared by the fewest requests.
    let source = source.files_at_once(1);
    let fingerprint = source.fingerprint();
    let (entities, failure) = source.entities();
    let distinct = Arc::<Mutex<Distinct>>::default();
    let noted = Arc::clone(&distinct);
    let entities = entities.inspect(move |entity| {
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.note(&entity.partition_key, &entity.row_key);
    });
    let compare = Comparison::of(&table).concurrency(runner.concurrency()).with_entities(entities);
    let compare = compare
        .parameter("table", table.place())
        .parameter("entities", rows.to_string())
        .parameter("content", fingerprint);
    let count = Job::count(Walk::keys(&table).split_automatically());
    let jobs = Jobs::new("check").then_load("entities", compare);
    let jobs = jobs.then("count", count.concurrency(runner.concurrency()));
    // Both halves read as many, if all is well.
    let runner = runner.total(Some(rows.saturating_mul(2)));
    // The files were read before, so an error means that one has changed since.
    let changed = |error| Error::from(error).and("it was another one a moment ago");
    let mut report = failure.or(runner.jobs(jobs)).await.map_err(changed)??;
    distinct.lock().unwrap_or_else(PoisonError::into_inner).check(&shown, name)?;
    let all = report.part("count").right;
    report.total = report.part("entities");
    let found = report.total.examined - report.total.orphaned - report.total.failed;
    report.note(None, Verdict::Missing, all.saturating_sub(found));
    let columns = ["table", "backup", "same", "different", "missing", "surplus", "unreadable"];
    let row = vec![
        name.into(),
        shown.into(),
        report.total.right.into(),
        report.total.stale.into(),
        report.total.missing.into(),
        report.total.orphaned.into(),
        report.total.unreadable.into(),
    ];
    output::records(common.form(), &columns, &[row])?;
    jobs::finish(common, &report)
}

/// Reads the files of a backup, compares them with its manifest, and reports those that are damaged.
async fn whole(common: &Common, args: &Check) -> Result<Backup> {
    let shown = args.backup.clone().unwrap_or_default();
    let location = if args.container {
        blobs(&connect::account(common)?, &shown)?
    } else if Path::new(&shown).is_dir() {
        Location::folder(&shown)
    } else {
        return Err(Error::new(Exit::NotFound, format!("there is no folder {shown}")));
    };
    // What the service or the disk refuses is no damage.
    let refused = |error: rowkey_transfer::Error| match error.kind() {
        ErrorKind::Service | ErrorKind::Io => Error::from(error),
        _ => Error::new(Exit::Partly, error.to_string()),
    };
    let source = Source::open(&location).await.map_err(refused)?;
    let (rows, faults) = source.check().await?;
    for fault in &faults {
        let error = Error::new(Exit::Partly, fault.to_string());
        let line = if common.json { error.json() } else { format!("rowkey: {error}") };
        // The exit code says it, too, if stderr is closed.
        let _ = writeln!(io::stderr(), "{line}");
    }
    let rows = source.rows().unwrap_or(rows);
    Ok(Backup { shown, source, rows, damaged: faults.len() })
}

fn report_backup(common: &Common, backup: &Backup) -> Result<()> {
    let Backup { shown, source, rows, damaged } = backup;
    let files = source.files();
    let columns = ["backup", "table", "files", "entities", "damaged"];
    let row = vec![
        shown.clone().into(),
        source.table().into(),
        files.into(),
        (*rows).into(),
        (*damaged).into(),
    ];
    output::records(common.form(), &columns, &[row])?;
    if *damaged == 0 {
        return Ok(());
    }
    let what =
        format!("the backup in {shown} is not whole: {damaged} of {files} files are damaged");
    Err(Error::new(Exit::Partly, what))
}
