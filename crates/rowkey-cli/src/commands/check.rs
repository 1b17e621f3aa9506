//! `rowkey check`: whether a backup is whole, two tables or a table and a backup hold the same, or every entity of a table can be read.

use std::fs::{self, File};
use std::future::ready;
use std::io::{self, Write as _};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use rowkey::patterns::job::{Job, Loading, Report, Verdict, Walk};
use rowkey::{DynamicEntity, Page, StorageAccount, Table};
use rowkey_transfer::backup::{BackupFile, FileDecoder, Manifest};
use rowkey_transfer::jobs::Comparison;

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
  rowkey check orders orders2 --checkpoint check.checkpoint
  rowkey check orders --profile production --to-profile staging --show-keys";

/// The name of the manifest of a backup.
const MANIFEST: &str = "manifest.json";

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
    /// Check the backup in this folder: its files, by their counts and checksums. With a table, compare both, too.
    #[arg(long, value_name = "FOLDER", conflicts_with = "other")]
    backup: Option<PathBuf>,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    job: JobFlags,
}

pub(crate) async fn run(common: &Common, check: Check) -> Result<()> {
    let Check { table, other, backup, to, job } = check;
    if let Some(folder) = backup {
        if to.is_given() {
            return Err(Error::usage(
                "a backup is in no account; remove --to-profile and the like",
            ));
        }
        let Some(table) = table else {
            let (manifest, damaged) = whole(common, &folder)?;
            return report_backup(common, &folder, &manifest, damaged);
        };
        return restorable(common, &table, &folder, &job).await;
    }
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

/// Compares a table with a backup that is whole.
async fn restorable(common: &Common, name: &str, folder: &Path, job: &JobFlags) -> Result<()> {
    let table = connect::account(common)?.table(name);
    let runner = Runner::new(common, job)?;
    let (manifest, damaged) = whole(common, folder)?;
    if damaged > 0 {
        return report_backup(common, folder, &manifest, damaged);
    }
    // They were read before, so an error means that a file has changed since.
    let failed = Arc::new(Mutex::new(None));
    let rows = {
        let (failed, folder, files) =
            (Arc::clone(&failed), folder.to_owned(), manifest.files.clone());
        let read = move |file: BackupFile| -> Box<dyn Iterator<Item = _> + Send> {
            match File::open(folder.join(&file.name)) {
                Ok(input) => match FileDecoder::new(input, &file) {
                    Ok(rows) => Box::new(rows),
                    Err(error) => Box::new(iter::once(Err(error))),
                },
                Err(error) => Box::new(iter::once(Err(error.into()))),
            }
        };
        files.into_iter().flat_map(read).map_while(move |row| {
            row.map_err(|error| {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            })
            .ok()
        })
    };
    let compare = Comparison::of(&table).with_rows(rows);
    let compare = compare.parameter("started", manifest.started.to_string());
    let compare = compare.parameter("entities", manifest.rows.to_string());
    let runner = runner.total(Some(manifest.rows));
    let mut report = runner.run(compare, Job::<Loading<_>>::run).await?;
    if let Some(error) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(Error::from(error).and("it was another one a moment ago"));
    }
    let count = Job::count(Walk::keys(&table).split_automatically());
    let all = Runner::new(common, &job.without_checkpoint())?.walk(count).await?.total.right;
    let found = report.total.examined - report.total.orphaned - report.total.failed;
    report.note(None, Verdict::Missing, all.saturating_sub(found));
    let columns = ["table", "backup", "same", "different", "missing", "surplus", "unreadable"];
    let row = vec![
        name.into(),
        folder.display().to_string().into(),
        report.total.right.into(),
        report.total.stale.into(),
        report.total.missing.into(),
        report.total.orphaned.into(),
        report.total.unreadable.into(),
    ];
    output::records(common.form(), &columns, &[row])?;
    jobs::finish(common, &report)
}

/// Reads the files of a backup, compares them with its manifest, and returns how many are damaged.
fn whole(common: &Common, folder: &Path) -> Result<(Manifest, usize)> {
    let shown = folder.display();
    let text = match fs::read(folder.join(MANIFEST)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && folder.is_dir() => {
            let what =
                format!("{shown} has no {MANIFEST}: it is no backup, or one that did not end");
            return Err(Error::new(Exit::Partly, what));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::new(Exit::NotFound, format!("there is no folder {shown}")));
        }
        Err(error) => {
            let what = format!("{MANIFEST} in {shown} cannot be read: {error}");
            return Err(Error::new(Exit::Failed, what));
        }
    };
    let manifest = Manifest::from_json(&text)
        .map_err(|error| Error::new(Exit::Partly, error.in_file(MANIFEST).to_string()))?;
    let faults = manifest.verify(|name| File::open(folder.join(name)));
    for fault in &faults {
        let error = Error::new(Exit::Partly, fault.to_string());
        let line = if common.json { error.json() } else { format!("rowkey: {error}") };
        // The exit code says it, too, if stderr is closed.
        let _ = writeln!(io::stderr(), "{line}");
    }
    Ok((manifest, faults.len()))
}

fn report_backup(
    common: &Common,
    folder: &Path,
    manifest: &Manifest,
    damaged: usize,
) -> Result<()> {
    let (shown, files) = (folder.display(), manifest.files.len());
    let columns = ["backup", "table", "files", "entities", "damaged"];
    let row = vec![
        shown.to_string().into(),
        manifest.table.clone().into(),
        files.into(),
        manifest.rows.into(),
        damaged.into(),
    ];
    output::records(common.form(), &columns, &[row])?;
    if damaged == 0 {
        return Ok(());
    }
    let what =
        format!("the backup in {shown} is not whole: {damaged} of {files} files are damaged");
    Err(Error::new(Exit::Partly, what))
}
