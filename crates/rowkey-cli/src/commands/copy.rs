//! `rowkey copy`: copies entities to another table, or all tables to another account. With `--sync` it deletes what only the destination
//! has.

use std::io::{self, Write as _};

use clap::Args;
use rowkey::patterns::job::{Job, Jobs, Report};
use rowkey::{DynamicEntity, ErrorCode, ErrorKind, ScanPolicy, StorageAccount, Table};
use rowkey_transfer::jobs::Comparison;
use serde_json::{Value, json};

use crate::args::{Common, To};
use crate::confirm::Confirm;
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
  rowkey copy orders replica --sync --dry-run
  rowkey --profile production copy --all --to-emulator --dry-run";

/// Copy entities to another table, of another account as well.
///
/// Entities are inserted or replace those with the same keys; others of the destination stay, or are deleted with --sync. Types are
/// kept, the Timestamp is new. A copy is no snapshot: entities that other programs write meanwhile are copied as they were or as they are, and new ones may
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
    /// After the copy, delete the entities of the destination that the source does not have. On a terminal they are counted before the
    /// question. What another program writes to the destination meanwhile stays. Tables are not dropped.
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    confirm: Confirm,
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
    if args.sync
        && let Some(flag) = args.selection.narrows_by_content()
    {
        return Err(Error::usage(format!(
            "--sync deletes what the source does not have, and {flag} selects by more than keys; copy with {flag} alone, or --sync \
             without it"
        )));
    }
    let from = connect::account(common)?;
    let to = connect::destination(common, &args.to)?;
    let pairs = pairs(&args, &from, to.as_ref()).await?;
    let runner = Runner::new(common, &args.job)?;
    let selected = args.selection.of(&runner)?;
    if args.dry_run {
        count(common, &args, runner, &selected, &pairs).await?;
        return tell_surplus(common, &args, &pairs, to.as_ref()).await;
    }
    let name = args.destination.as_deref().unwrap_or("copy");
    let rejects = Rejects::new(&args.rejects, name);
    let mut all = Jobs::new(if args.sync { "synchronize" } else { "copy" });
    for (from, to) in &pairs {
        let (kept, name) = (rejects.clone(), to.name().to_owned());
        let job = Job::copy(selected.walk(from), to)
            .concurrency(runner.concurrency())
            .rejected(move |rejected| kept.keep(&name, rejected));
        all = all.then(from.name(), selected.tie(job));
        if args.sync {
            let compare = Comparison::of(from).concurrency(runner.concurrency());
            let delete = compare.delete_others(selected.keys(to))?;
            all = all.then(others(from), selected.tie(delete));
        }
    }
    if !args.all {
        for (from, _) in &pairs {
            // Otherwise a table would be created for a name with a typing error.
            from.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow).exists().await?;
        }
    }
    if args.sync {
        confirm(common, &args, &selected, &pairs).await?;
    }
    for (_, to) in &pairs {
        create(to).await?;
    }
    let ended = runner.run(all, Jobs::run).await;
    let surplus =
        if ended.is_ok() { tell_surplus(common, &args, &pairs, to.as_ref()).await } else { Ok(()) };
    rejects.finish(ended, |report| {
        summary(common, &args, &pairs, &report)?;
        jobs::finish(common, &report)?;
        surplus
    })
}

/// The name of the job that deletes what a source lacks. No table has it.
fn others(from: &Table) -> String {
    format!("others than {}", from.name())
}

/// Asks whether to delete what only the destinations have.
async fn confirm(
    common: &Common,
    args: &Copy,
    selected: &Selected,
    pairs: &[(Table, Table)],
) -> Result<()> {
    let of = match pairs {
        [(from, to)] => format!("of {} that {} does not have", to.name(), from.name()),
        _ => format!("of {} tables that the source does not have", pairs.len()),
    };
    if !args.confirm.is_asked() {
        return args.confirm.ask(&format!("delete entities {of}"), Some("--dry-run"));
    }
    // The file is that of the copy.
    let counting = Runner::new(common, &args.job.without_checkpoint())?;
    let found = find_others(Jobs::new("count"), &counting, selected, pairs).await?;
    match counting.run(found, Jobs::run).await?.total.orphaned {
        0 => Ok(()),
        count => args.confirm.ask(&format!("delete {} {of}", jobs::entities(count)), None),
    }
}

/// Adds jobs that count what only the destinations have.
async fn find_others<'j>(
    mut all: Jobs<'j>,
    runner: &Runner,
    selected: &Selected,
    pairs: &[(Table, Table)],
) -> Result<Jobs<'j>> {
    for (from, to) in pairs {
        if exists(to).await? {
            let compare = Comparison::of(from).concurrency(runner.concurrency());
            all = all.then(others(from), selected.tie(compare.others(selected.keys(to))));
        }
    }
    Ok(all)
}

/// Whether a table exists, empty or not.
pub(super) async fn exists(table: &Table) -> Result<bool> {
    let gone = [ErrorCode::TABLE_NOT_FOUND, ErrorCode::TABLE_BEING_DELETED];
    match table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow).exists().await {
        Err(error) if error.code().is_some_and(|code| gone.contains(code)) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(true),
    }
}

/// Says which tables of the destination the source lacks: they stay.
async fn tell_surplus(
    common: &Common,
    args: &Copy,
    pairs: &[(Table, Table)],
    to: Option<&StorageAccount>,
) -> Result<()> {
    let Some(to) = to.filter(|_| args.sync && args.all) else { return Ok(()) };
    let is_known = |name: &str| pairs.iter().any(|(_, to)| to.name().eq_ignore_ascii_case(name));
    let mut names = connect::tables(to).await?;
    names.retain(|name| !is_known(name));
    if names.is_empty() {
        return Ok(());
    }
    let what = "tables of the destination that the source does not have are not dropped";
    let line = if common.json {
        json!({"notice": {"message": what, "tables": names}}).to_string()
    } else {
        format!("rowkey: {what}: {}", names.join(", "))
    };
    // The command does not depend on who reads it.
    let _ = writeln!(io::stderr(), "{line}");
    Ok(())
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
    args: &Copy,
    runner: Runner,
    selected: &Selected,
    pairs: &[(Table, Table)],
) -> Result<()> {
    let mut all = Jobs::new("count");
    for (from, _) in pairs {
        let job = Job::count(selected.keys(from)).concurrency(runner.concurrency());
        all = all.then(from.name(), selected.tie(job));
    }
    if args.sync {
        all = find_others(all, &runner, selected, pairs).await?;
    }
    let report = runner.run(all, Jobs::run).await?;
    summary(common, args, pairs, &report)
}

/// A line for each table.
fn summary(common: &Common, args: &Copy, pairs: &[(Table, Table)], report: &Report) -> Result<()> {
    let mut columns = vec!["from", "to"];
    columns.push(if args.dry_run { "would_copy" } else { "copied" });
    columns.push("rejected");
    match (args.sync, args.dry_run) {
        (true, true) => columns.push("would_delete"),
        (true, false) => columns.extend(["deleted", "skipped"]),
        (false, _) => {}
    }
    let rows: Vec<Vec<Value>> = pairs
        .iter()
        .map(|(from, to)| {
            let (counts, others) = (report.part(from.name()), report.part(&others(from)));
            let (right, failed) = (counts.right, counts.failed + counts.unreadable);
            let mut row = vec![from.name().into(), to.name().into(), right.into(), failed.into()];
            match (args.sync, args.dry_run) {
                (true, true) => row.push(others.orphaned.into()),
                (true, false) => row.extend([others.repaired.into(), others.skipped.into()]),
                (false, _) => {}
            }
            row
        })
        .collect();
    output::records(common.form(), &columns, &rows)
}
