//! `rowkey inspect`: the types, key formats and sizes in a table, and the Rust struct that reads its rows.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use rowkey::patterns::inspect::{Inspection, inspect};
use rowkey::patterns::job::{Job, Report, Verdict, Walk};
use rowkey::{DynamicEntity, Page, Table};
use serde_json::{Value, json};

use crate::args::{Common, Form};
use crate::connect;
use crate::error::Result;
use crate::jobs::{self, JobFlags, Runner};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  rowkey inspect orders
  rowkey inspect orders --all --name Order
  rowkey inspect orders --json --name Order | jq -r .declaration > order.rs";

/// Report the types of each property, the formats of the keys and the sizes in a table, and print the Rust struct that reads its rows.
///
/// Reads a sample that is spread over the keys of the table, or all rows with --all. Shows no values and no keys.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// The name of the table.
    table: String,
    #[command(flatten)]
    rows: Rows,
    /// The name of the struct.
    #[arg(long, value_name = "NAME", default_value = "Row", value_parser = type_name)]
    name: String,
}

/// Which rows are read.
#[derive(Args)]
pub(super) struct Rows {
    /// Read a sample of at most this many rows.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(super) sample: u64,
    /// Read all rows: one request for each 1,000 of them.
    #[arg(long, conflicts_with = "sample")]
    pub(super) all: bool,
}

/// A name that Rust accepts for a type.
fn type_name(text: &str) -> std::result::Result<String, String> {
    let is_start = |first: char| first.is_ascii_alphabetic();
    let is_name = text.starts_with(is_start)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text != "Self"
        // Keywords have no capitals but for this one.
        && text.bytes().any(|byte| byte.is_ascii_uppercase());
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        "not the name of a type; write letters and digits that begin with a capital, such as Order".to_owned()
    })
}

pub(crate) async fn run(common: &Common, Inspect { table, rows, name }: Inspect) -> Result<()> {
    let handle = connect::account(common)?.table(&table);
    let (found, report) = if rows.all {
        all(common, &handle).await?
    } else {
        (inspect(&handle, rows.sample).await?, Report::default())
    };
    show(common.form(), table, &found, report.total.unreadable, &name)?;
    jobs::finish(common, &report)
}

fn show(form: Form, table: String, found: &Inspection, unreadable: u64, name: &str) -> Result<()> {
    let declaration = found.declaration(name);
    if form == Form::Csv {
        return print(form, found);
    }
    if form == Form::Table {
        output::text(heading(&table, found.rows, found.complete, unreadable).as_bytes())?;
        print(form, found)?;
        return output::text(declaration.as_bytes());
    }
    let columns = [
        "table",
        "rows",
        "complete",
        "unreadable",
        "partition_keys",
        "row_keys",
        "properties",
        "declaration",
    ];
    let row = vec![
        table.into(),
        found.rows.into(),
        found.complete.into(),
        unreadable.into(),
        json!(found.partition_keys),
        json!(found.row_keys),
        properties(found),
        declaration.into(),
    ];
    output::records(form, &columns, &[row])
}

/// Reads all rows, in several ranges at once. What was found is not in a checkpoint, so there is no file of it.
async fn all(common: &Common, table: &Table) -> Result<(Inspection, Report)> {
    let found = Mutex::new(Inspection::default());
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let walk = Walk::new(table, Table::scan::<DynamicEntity>).split_automatically();
    let job = Job::walk("inspect", walk, |page: Page<DynamicEntity>| {
        let mut found = lock();
        page.entities.iter().for_each(|row| found.add(&row.entity));
        ready(Ok(Report::of(Verdict::Right, page.entities.len() as u64)))
    });
    let report = Runner::new(common, &JobFlags::default())?.walk(job).await?;
    let mut found = std::mem::take(&mut *lock());
    found.complete = found.rows == report.total.examined;
    Ok((found, report))
}

/// Says which rows the numbers below are of.
pub(super) fn heading(table: &str, rows: u64, is_complete: bool, unreadable: u64) -> String {
    match unreadable {
        0 if is_complete => format!("all {rows} rows of {table}\n"),
        0 => format!("a sample of {rows} rows of {table}\n"),
        _ => format!("{rows} rows of {table}; {unreadable} others cannot be read\n"),
    }
}

fn properties(found: &Inspection) -> Value {
    let properties = found.columns.iter().map(|(name, column)| {
        json!({
            "name": name,
            "types": column.types,
            "absent": found.rows - column.present,
            "max_bytes": column.max_bytes,
        })
    });
    properties.collect()
}

/// The keys and the properties, a line each.
fn print(form: Form, found: &Inspection) -> Result<()> {
    let keys = [("PartitionKey", &found.partition_keys), ("RowKey", &found.row_keys)];
    let keys = keys.map(|(name, formats)| {
        vec![Value::from(name), counts(formats).into(), 0.into(), Value::Null]
    });
    let properties = found.columns.iter().map(|(name, column)| {
        let absent = found.rows - column.present;
        vec![
            Value::from(&**name),
            counts(&column.types).into(),
            absent.into(),
            column.max_bytes.into(),
        ]
    });
    let rows: Vec<_> = keys.into_iter().chain(properties).collect();
    output::records(form, &["column", "types", "absent", "max_bytes"], &rows)
}

/// `Edm.Int32 6, Edm.Double 1`
pub(super) fn counts<T: AsRef<str>>(all: &BTreeMap<T, u64>) -> String {
    let each = all.iter().map(|(name, count)| format!("{} {count}", name.as_ref()));
    each.collect::<Vec<_>>().join(", ")
}
