//! `rowkey tables`: lists, creates and drops tables.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::args::Common;
use crate::confirm::Confirm;
use crate::connect;
use crate::error::{Error, Result};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  rowkey tables
  rowkey tables --prefix log
  rowkey tables create orders --if-missing
  rowkey tables drop orders --yes";

const CREATE: &str = "\
Examples:
  rowkey tables create orders
  rowkey tables create orders --if-missing";

const DROP: &str = "\
Examples:
  rowkey tables drop orders
  rowkey tables drop orders --if-exists --yes";

/// List the tables of the account, or create or drop one.
#[derive(Args)]
#[command(before_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Tables {
    #[command(subcommand)]
    command: Option<Command>,
    /// List only tables whose names begin with this text.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    Create(Create),
    Drop(Drop),
}

/// Create a table.
#[derive(Args)]
#[command(before_help = CREATE)]
struct Create {
    /// The name of the table.
    table: String,
    /// Succeed if the table exists.
    #[arg(long)]
    if_missing: bool,
}

/// Delete a table with all its entities.
#[derive(Args)]
#[command(before_help = DROP)]
struct Drop {
    /// The name of the table.
    table: String,
    /// Succeed if the table does not exist.
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    confirm: Confirm,
}

pub(crate) async fn run(common: &Common, Tables { command, prefix }: Tables) -> Result<()> {
    match command {
        Some(_) if prefix.is_some() => {
            Err(Error::usage("--prefix is only for the list of tables; remove it"))
        }
        None => list(common, prefix.as_deref()).await,
        Some(Command::Create(args)) => create(common, args).await,
        Some(Command::Drop(args)) => drop_table(common, args).await,
    }
}

async fn list(common: &Common, prefix: Option<&str>) -> Result<()> {
    let tables = connect::account(common)?.tables();
    let tables = match prefix {
        Some(prefix) => tables.starting_with(prefix),
        None => tables,
    };
    let rows: Vec<_> =
        tables.all().await?.into_iter().map(|name| vec![Value::from(name)]).collect();
    output::records(common.form(), &["table"], &rows)
}

async fn create(common: &Common, Create { table, if_missing }: Create) -> Result<()> {
    let handle = connect::account(common)?.table(&table);
    let created = if if_missing {
        handle.create_if_missing().await
    } else {
        handle.create().await.map(|()| true)
    };
    let created = created.map_err(Error::of_write)?;
    output::records(common.form(), &["table", "created"], &[vec![table.into(), created.into()]])
}

async fn drop_table(common: &Common, Drop { table, if_exists, confirm }: Drop) -> Result<()> {
    let handle = connect::account(common)?.table(&table);
    confirm.ask(&format!("drop table {table}"), None)?;
    let dropped = if if_exists {
        handle.delete_table_if_exists().await
    } else {
        handle.delete_table().await.map(|()| true)
    };
    let dropped = dropped.map_err(Error::of_write)?;
    output::records(common.form(), &["table", "dropped"], &[vec![table.into(), dropped.into()]])
}
