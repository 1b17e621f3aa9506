//! `rowkey copy`: copies entities to another table, or all tables to another account.

use clap::Args;
use rowkey::patterns::job::{Job, Jobs, Report};
use rowkey::{DynamicEntity, ErrorKind, ScanPolicy, StorageAccount, Table};
use serde_json::Value;

use crate::args::{Common, To};
use crate::connect;
use crate::error::{Error, Result};
use crate::jobs::{self, JobFlags, Runner};
use crate::output;
use crate::rejects::{Rejects, RejectsFlag};
use crate::selection::{Selected, Selection};

const EXAMPLES: &str = "\
Examples:
  rowkey copy orders archive
  rowkey copy orders orders --to-profile staging --checkpoint copy.checkpoint
  rowkey copy orders archive --since 2026-11-20T00:00:00Z
  rowkey --profile production copy --all --to-emulator --dry-run";

/// Copy entities to another table, of another account as well.
///
/// Entities are inserted or replace those with the same keys; others of the destination stay. Types are kept, the Timestamp is
/// new. A copy is no snapshot: entities that other programs write meanwhile are copied as they were or as they are, and new ones may
/// be missing.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Copy {
    /// The table to read.
    #[arg(required_unless_present = "all")]
    source: Option<String>,
    /// The table to write. It is created if it does not exist.
    #[arg(required_unless_present = "all")]
    destination: Option<String>,
    /// Copy all tables, to tables of the same names in another account.
    #[arg(long, conflicts_with_all = ["source", "destination"])]
    all: bool,
    /// Count the entities, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    rejects: RejectsFlag,
    #[command(flatten)]
    job: JobFlags,
}

pub(crate) async fn run(common: &Common, args: Copy) -> Result<()> {
    let from = connect::account(common)?;
    let to = connect::destination(common, &args.to)?;
    let pairs = pairs(&args, &from, to.as_ref()).await?;
    let runner = Runner::new(common, &args.job)?;
    let selected = args.selection.of(&runner)?;
    if args.dry_run {
        return count(common, runner, &selected, &pairs).await;
    }
    for (from, to) in &pairs {
        if !args.all {
            // Otherwise a table would be created for a name with a typing error.
            from.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow).exists().await?;
        }
        create(to).await?;
    }
    let name = args.destination.as_deref().unwrap_or("copy");
    let rejects = Rejects::new(&args.rejects, name);
    let mut all = Jobs::new("copy");
    for (from, to) in &pairs {
        let (kept, name) = (rejects.clone(), to.name().to_owned());
        let job = Job::copy(selected.walk(from), to)
            .concurrency(runner.concurrency())
            .rejected(move |rejected| kept.keep(&name, rejected));
        all = all.then(from.name(), selected.tie(job));
    }
    let ended = runner.run(all, Jobs::run).await;
    rejects.finish(ended, |report| {
        summary(common, &pairs, &report, "copied")?;
        jobs::finish(common, &report)
    })
}

/// The tables to read and to write.
async fn pairs(
    args: &Copy,
    from: &StorageAccount,
    to: Option<&StorageAccount>,
) -> Result<Vec<(Table, Table)>> {
    let pairs = match (&args.source, &args.destination, to) {
        (Some(source), Some(destination), to) => {
            vec![(from.table(source), to.unwrap_or(from).table(destination))]
        }
        (_, _, Some(to)) => {
            let names = connect::tables(from).await?;
            names.iter().map(|name| (from.table(name), to.table(name))).collect()
        }
        (_, _, None) => {
            return Err(Error::usage(
                "copy --all: name the other account by --to-profile, --to-connection-string-env or --to-emulator",
            ));
        }
    };
    for (from, to) in &pairs {
        if from.is_same_table(to) {
            let what =
                format!("{}: a table cannot be copied to itself; name another one", from.name());
            return Err(Error::usage(what));
        }
    }
    Ok(pairs)
}

/// Creates the destination if it is missing. A credential that may not create tables may write to one that exists.
pub(super) async fn create(table: &Table) -> Result<()> {
    match table.create_if_missing().await {
        Err(error) if error.kind() != ErrorKind::Auth => Err(Error::of_write(error)),
        _ => Ok(()),
    }
}

async fn count(
    common: &Common,
    runner: Runner,
    selected: &Selected,
    pairs: &[(Table, Table)],
) -> Result<()> {
    let mut all = Jobs::new("count");
    for (from, _) in pairs {
        let job = Job::count(selected.keys(from)).concurrency(runner.concurrency());
        all = all.then(from.name(), selected.tie(job));
    }
    let report = runner.run(all, Jobs::run).await?;
    summary(common, pairs, &report, "would_copy")
}

/// A line for each table.
fn summary(common: &Common, pairs: &[(Table, Table)], report: &Report, done: &str) -> Result<()> {
    let rows: Vec<Vec<Value>> = pairs
        .iter()
        .map(|(from, to)| {
            let counts = report.part(from.name());
            let (right, failed) = (counts.right, counts.failed + counts.unreadable);
            vec![from.name().into(), to.name().into(), right.into(), failed.into()]
        })
        .collect();
    output::records(common.form(), &["from", "to", done, "rejected"], &rows)
}
