//! `rowkey purge`: deletes the entities that a filter, a partition or an age selects, or drops tables by the pattern of
//! their names.

use clap::Args;
use rowkey::StorageAccount;
use rowkey::patterns::job::Job;
use serde_json::Value;

use crate::args::Common;
use crate::confirm::Confirm;
use crate::connect;
use crate::duration;
use crate::error::{Error, Result};
use crate::jobs::{self, JobFlags, Runner};
use crate::output;
use crate::selection::Selected;

const EXAMPLES: &str = "\
Examples:
  rowkey purge events --older-than 30d --dry-run
  rowkey purge events --older-than 30d --checkpoint purge.checkpoint --yes
  rowkey purge orders --partition contoso --filter \"Note eq 'test'\"
  rowkey purge --tables 'log2024*'";

/// The most names of tables in a question.
const MAX_NAMES: usize = 20;

/// Delete the entities of a table that match, or drop the tables whose names match.
///
/// Flags that select narrow each other. An entity that another program changes meanwhile is deleted only if it still matches.
/// On a terminal the entities are counted before the question.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Purge {
    /// The name of the table.
    #[arg(required_unless_present = "tables")]
    table: Option<String>,
    /// Delete the entities that match this OData filter, such as `Cents gt 500L and Note ne 'paid'`.
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Delete entities of the partition with this PartitionKey alone.
    #[arg(long, value_name = "KEY")]
    partition: Option<String>,
    /// Delete entities that were written last longer than this ago: a number and `s`, `m`, `h`, `d` or `w`,
    /// such as `30d`, or before a time such as `2026-11-20T00:00:00Z`.
    /// The Timestamp decides, which the service sets at each write.
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<String>,
    /// Delete every entity, and keep the table.
    #[arg(long, conflicts_with_all = ["filter", "partition", "older_than"])]
    all: bool,
    /// Drop the tables whose names match this pattern: `*` is any text, `?` one character. Upper and lower case are the same.
    #[arg(
        long,
        value_name = "PATTERN",
        conflicts_with_all = ["table", "filter", "partition", "older_than", "all", "checkpoint"]
    )]
    tables: Option<String>,
    /// Show how many entities or which tables it would be, and delete nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    job: JobFlags,
}

pub(crate) async fn run(common: &Common, purge: Purge) -> Result<()> {
    let Purge { table, filter, partition, older_than, all, tables, dry_run, confirm, job } = purge;
    let account = connect::account(common)?;
    if let Some(pattern) = tables {
        return drop_tables(common, &account, &pattern, dry_run, &confirm).await;
    }
    let table = table.unwrap_or_default();
    if !all && filter.is_none() && partition.is_none() && older_than.is_none() {
        return Err(Error::usage(format!(
            "nothing selects entities of {table}; add --filter, --partition or --older-than, or --all for every entity"
        )));
    }
    let handle = account.table(&table);
    let runner = Runner::new(common, &job)?;
    let selected =
        Selected::new(filter.as_deref(), partition)?.before(older_than.as_deref(), &runner)?;
    let count = || selected.tie(Job::count(selected.keys(&handle)));
    if dry_run {
        let count = runner.walk(count()).await?.total.right;
        let row = vec![table.into(), count.into()];
        return output::records(common.form(), &["table", "would_delete"], &[row]);
    }
    if confirm.is_asked() {
        // The file is that of the deletion.
        let counting = Runner::new(common, &job.without_checkpoint())?;
        let count = counting.walk(count()).await?.total.right;
        if count > 0 {
            confirm.ask(&format!("delete {} of {table}", jobs::entities(count)), None)?;
        }
    } else {
        confirm.ask(&format!("delete entities of {table}"), Some("--dry-run"))?;
    }
    let report = runner.walk(selected.tie(Job::delete(selected.walk(&handle)))).await?;
    let row = vec![table.into(), report.total.right.into(), report.total.skipped.into()];
    output::records(common.form(), &["table", "deleted", "skipped"], &[row])?;
    jobs::finish(common, &report)
}

/// An age as it was given.
fn age(text: &str) -> Result<String, String> {
    duration::time(text).map(|_| text.to_owned())
}

/// Drops the tables whose names match.
async fn drop_tables(
    common: &Common,
    account: &StorageAccount,
    pattern: &str,
    dry_run: bool,
    confirm: &Confirm,
) -> Result<()> {
    let tables = account.tables().all().await?;
    let tables: Vec<_> = tables.into_iter().filter(|name| matches(pattern, name)).collect();
    if dry_run {
        let rows: Vec<_> = tables.into_iter().map(|name| vec![name.into(), true.into()]).collect();
        return output::records(common.form(), &["table", "would_drop"], &rows);
    }
    if !tables.is_empty() {
        confirm.ask(&question(&tables), Some("--dry-run"))?;
    }
    let (mut rows, mut result) = (Vec::new(), Ok(()));
    for (number, name) in tables.iter().enumerate() {
        match account.table(name).delete_table_if_exists().await {
            Ok(dropped) => rows.push(vec![Value::from(&**name), dropped.into()]),
            Err(error) => {
                let done = format!("after {number} of {} tables were dropped", tables.len());
                result = Err(Error::of_write(error).during(done));
                break;
            }
        }
    }
    // What the service refused is the cause, even if the output is closed as well.
    let shown = output::records(common.form(), &["table", "dropped"], &rows);
    result.and(shown)
}

fn question(tables: &[String]) -> String {
    let [only] = tables else {
        let names = tables[..tables.len().min(MAX_NAMES)].join(", ");
        let more = match tables.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return format!("drop {} tables with all their entities: {names}{more}", tables.len());
    };
    format!("drop table {only} with all its entities")
}

/// Whether a name matches a pattern, where `*` is any text and `?` one character.
fn matches(pattern: &str, name: &str) -> bool {
    let lower = |text: &str| text.to_ascii_lowercase().into_bytes();
    let (pattern, name) = (lower(pattern), lower(name));
    let (mut at, mut read) = (0, 0);
    // The last `*`, and how much of the name it takes.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, read) = (place + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_the_whole_name_in_any_case() {
        for (pattern, name) in [
            ("log2024*", "log20240131"),
            ("LOG*", "log"),
            ("*", "x"),
            ("log????", "Log2024"),
            ("*2024*01", "log2024202401"),
            ("a*b*c", "aXbYbZc"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("log", "log1"),
            ("log?", "log"),
            ("", "x"),
            ("*1", "log12"),
            ("a*b*c", "acb"),
            ("og*", "log"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_question_names_the_tables() {
        let names =
            |count: usize| (0..count).map(|number| format!("t{number}")).collect::<Vec<_>>();
        assert_eq!(question(&names(1)), "drop table t0 with all its entities");
        assert_eq!(question(&names(2)), "drop 2 tables with all their entities: t0, t1");
        assert!(question(&names(22)).ends_with("t19 and 2 more"));
    }
}
