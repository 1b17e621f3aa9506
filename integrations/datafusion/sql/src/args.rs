//! The flags.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use rowkey_datafusion::{Mismatch, WriteMode};

use crate::cluster;

const EXAMPLES: &str = "\
Examples:
  rowkey-sql --emulator
  rowkey-sql -c \"SELECT * FROM orders WHERE PartitionKey = 'contoso' LIMIT 20\"
  rowkey-sql --scan --output parquet -c \"SELECT customer, SUM(cents) FROM orders GROUP BY customer\" > sums.parquet
  rowkey-sql --scan -c \"COPY (SELECT * FROM orders) TO 'az://exports/orders.parquet' STORED AS PARQUET\"
  rowkey-sql -c \"EXPLAIN SELECT * FROM orders WHERE cents > 500\"";

const ENDING: &str = "\
Names:
  Tables of the default account need no prefix. Those of others are ACCOUNT.tables.NAME, as in
  `archive.tables.orders`. Names of columns keep their case, and need no quotes.

Connections:
  The default account is that of --connection-string-env or --emulator; otherwise that of the environment
  variable ROWKEY_CONNECTION_STRING, then AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT with
  AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN. Others are in variables that begin with
  ROWKEY_CONNECTION_STRING_.

Exit codes:
  0  done
  1  failed
  2  wrong usage or SQL, or --scan is missing; nothing was read or changed
  3  the table does not exist
  4  the condition is not met: an entity or table exists already
  5  the credential was rejected, or does not permit the operation
  6  the service is busy or did not answer; try again later
130  stopped by Ctrl-C";

/// SQL over Azure tables: queries, joins, INSERT, and COPY to files, by DataFusion.
///
/// Without -c and -f, a terminal has a prompt, and other input is a script. A query that makes the service read a whole table
/// needs --scan, or an answer on a terminal.
#[derive(Parser)]
#[command(name = "rowkey-sql", version, before_help = EXAMPLES, after_help = ENDING)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) process: Option<Process>,
    /// Run this statement, or several with `;` between. May be repeated.
    #[arg(short = 'c', long = "command", value_name = "SQL", conflicts_with = "file")]
    pub(crate) query: Vec<String>,
    /// Run the statements in this file. `-` is stdin.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The form of the output. Default: `table` on a terminal, otherwise `json`.
    #[arg(long, value_name = "FORM")]
    pub(crate) output: Option<Form>,
    /// Let queries read whole tables.
    #[arg(long)]
    pub(crate) scan: bool,
    /// Read at most this many ranges of keys at once. Default: 8.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) splits: Option<u32>,
    /// What to do with a value that the type of its column cannot represent.
    #[arg(long, value_name = "ACTION", default_value = "fail")]
    pub(crate) mismatch: OnMismatch,
    /// What INSERT INTO does with a row whose key an entity has already.
    #[arg(long, value_name = "MODE", default_value = "insert")]
    pub(crate) write: Write,
    /// Let a statement that writes go on with at most this many rejected rows.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) rejects: u64,
    /// Keep at most this many MiB of sorts, joins and groups in memory. What does not fit goes to temporary files.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) memory_limit: Option<u32>,
    /// Run queries on the cluster with this scheduler.
    #[arg(long, value_name = "HOST:PORT", value_parser = cluster::address, help_heading = "Connection")]
    pub(crate) scheduler: Option<String>,
    /// The default account is that of the connection string in this environment variable.
    #[arg(long, value_name = "NAME", conflicts_with = "emulator", help_heading = "Connection")]
    pub(crate) connection_string_env: Option<String>,
    /// The default account is that of the emulator on this machine: rowkey-server or Azurite.
    #[arg(long, help_heading = "Connection")]
    pub(crate) emulator: bool,
}

/// A process of a cluster.
#[derive(Subcommand)]
pub(crate) enum Process {
    Scheduler(cluster::Scheduler),
    Executor(cluster::Executor),
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A table for reading.
    Table,
    /// CSV with a header.
    Csv,
    /// A JSON object a line.
    Json,
    /// A Parquet file, of one query.
    Parquet,
}

/// What to do with a value of another type.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnMismatch {
    /// The query fails.
    Fail,
    /// The value is NULL.
    Null,
}

impl From<OnMismatch> for Mismatch {
    fn from(action: OnMismatch) -> Self {
        match action {
            OnMismatch::Fail => Self::Fail,
            OnMismatch::Null => Self::Null,
        }
    }
}

/// How rows are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Write {
    /// The row is rejected.
    Insert,
    /// The entity is replaced.
    Upsert,
}

impl From<Write> for WriteMode {
    fn from(mode: Write) -> Self {
        match mode {
            Write::Insert => Self::Insert,
            Write::Upsert => Self::Upsert,
        }
    }
}
