//! `rowkey stats`: rows, bytes, the largest partitions, and the types by property.

use clap::Args;
use rowkey::patterns::inspect::{self, PartitionStats, PropertyStats, Tally};
use rowkey::patterns::job::Report;
use serde_json::{Value, json};

use super::inspect::{Rows, counts, heading};
use crate::args::{Common, Form};
use crate::connect;
use crate::error::Result;
use crate::jobs::{self, JobFlags, Runner};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  rowkey stats orders
  rowkey stats orders --all --top 20
  rowkey stats orders --all --json | jq '.most_bytes[0]'";

/// Report the rows and bytes of a table, the partitions with the most of them, and the types by property.
///
/// Reads a sample that is spread over the keys of the table: then all numbers are those of the sample, and not of the table. With
/// --all they are exact. Bytes are those that the service counts.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Stats {
    /// The name of the table.
    table: String,
    #[command(flatten)]
    rows: Rows,
    /// Show this many of the largest partitions.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(1..=1_000)
    )]
    top: u16,
}

pub(crate) async fn run(common: &Common, Stats { table, rows, top }: Stats) -> Result<()> {
    let handle = connect::account(common)?.table(&table);
    let top = top.into();
    let (found, report) = if rows.all {
        let tally = Tally::new(&handle, top);
        // The counts are not in a checkpoint, so there is no file of it.
        let report = Runner::new(common, &JobFlags::default())?.walk(tally.job()).await?;
        (tally.stats(&report), report)
    } else {
        (inspect::stats(&handle, rows.sample, top).await?, Report::default())
    };
    show(common.form(), table, &found, report.total.unreadable)?;
    jobs::finish(common, &report)
}

fn show(form: Form, table: String, found: &Found, unreadable: u64) -> Result<()> {
    match form {
        Form::Table => tables(&table, found, unreadable),
        Form::Csv => csv(found),
        Form::JsonLines => {
            let columns = [
                "table",
                "rows",
                "complete",
                "unreadable",
                "bytes",
                "partitions",
                "most_rows",
                "most_bytes",
                "properties",
            ];
            let row = vec![
                table.into(),
                found.rows.into(),
                found.complete.into(),
                unreadable.into(),
                found.bytes.into(),
                found.partitions.into(),
                found.most_rows.iter().map(partition).collect(),
                found.most_bytes.iter().map(partition).collect(),
                found.properties.iter().map(property).collect(),
            ];
            output::records(form, &columns, &[row])
        }
    }
}

fn partition(one: &PartitionStats) -> Value {
    json!({ "partition_key": one.partition_key, "rows": one.rows, "bytes": one.bytes })
}

fn property((name, property): (&String, &PropertyStats)) -> Value {
    json!({ "name": name, "types": property.types, "bytes": property.bytes })
}

/// What was counted.
type Found = inspect::Stats;

fn tables(table: &str, found: &Found, unreadable: u64) -> Result<()> {
    let heading = heading(table, found.rows, found.complete, unreadable);
    let (heading, bytes, partitions) = (heading.trim_end(), found.bytes, found.partitions);
    output::text(format!("{heading}: {bytes} bytes in {partitions} partitions\n").as_bytes())?;
    let largest = [
        ("most rows in partition", &found.most_rows),
        ("most bytes in partition", &found.most_bytes),
    ];
    for (name, largest) in largest {
        let rows: Vec<_> = largest
            .iter()
            .map(|one| vec![Value::from(&*one.partition_key), one.rows.into(), one.bytes.into()])
            .collect();
        output::records(Form::Table, &[name, "rows", "bytes"], &rows)?;
    }
    let properties: Vec<_> = found
        .properties
        .iter()
        .map(|(name, property)| {
            vec![Value::from(&**name), counts(&property.types).into(), property.bytes.into()]
        })
        .collect();
    output::records(Form::Table, &["property", "types", "bytes"], &properties)
}

/// One list, because CSV has one header: the total, then partitions, then properties by type.
fn csv(found: &Found) -> Result<()> {
    let item = |item: &str, name: Value, kind: Value, rows: u64, bytes: Value| {
        vec![item.into(), name, kind, rows.into(), bytes]
    };
    let total = if found.complete { "table" } else { "sample" };
    let total = item(total, Value::Null, Value::Null, found.rows, found.bytes.into());
    let others = found.most_bytes.iter().filter(|one| !found.most_rows.contains(one));
    let partitions = found.most_rows.iter().chain(others).map(|one| {
        item("partition", (&*one.partition_key).into(), Value::Null, one.rows, one.bytes.into())
    });
    let properties = found.properties.iter().flat_map(|(name, property)| {
        let types = property.types.iter();
        types.map(|(kind, rows)| {
            item("property", (&**name).into(), (*kind).into(), *rows, Value::Null)
        })
    });
    let rows: Vec<_> = [total].into_iter().chain(partitions).chain(properties).collect();
    output::records(Form::Csv, &["item", "name", "type", "rows", "bytes"], &rows)
}
