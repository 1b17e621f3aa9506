//! The commands: which there are, and a file for each.

mod check;
mod copy;
mod count;
mod dead_letters;
mod delete;
mod distinct;
mod export;
mod get;
mod import;
mod inspect;
mod man;
mod profile;
mod purge;
mod query;
mod queue;
mod sas;
mod serve;
mod stats;
mod tables;
mod write;

use std::convert::Infallible;
use std::ffi::OsString;

use clap::{ArgMatches, Parser, Subcommand};

use crate::args::Common;
use crate::error::Result;
use crate::programs;

const EXAMPLES: &str = "\
Examples:
  rowkey --emulator tables
  rowkey get orders contoso order_000007
  rowkey query orders \"PartitionKey eq 'contoso' and Cents gt 500L\" --select Cents,Note
  rowkey set orders '{\"PartitionKey\":\"contoso\",\"RowKey\":\"order_000008\",\"Cents\":{\"Edm.Int64\":\"995\"}}'";

const ENDING: &str = "\
Connections:
  --profile, --connection-string-env, --account or --emulator; otherwise the environment variable
  ROWKEY_CONNECTION_STRING, then AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT with
  AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN.

Exit codes:
  0  done
  1  failed
  2  wrong usage or input, or a flag such as --yes is missing; nothing was changed
  3  the entity, table or profile does not exist
  4  the condition is not met: another ETag, or it exists already
  5  the credential was rejected, or does not permit the operation
  6  the service is busy or did not answer; try again later
  7  whether the change was applied is unknown; read before you repeat it
  8  done, but some entities failed or differ; see the messages or the reject file
  9  stopped because more than 1,000 entities failed; correct the cause and go on
  130, 143  stopped by Ctrl-C or SIGTERM; the message says how to go on

Other programs:
  rowkey NAME runs the program rowkey-NAME, which is beside rowkey or in PATH, with all that is
  behind NAME; its exit code is passed on. rowkey sql runs rowkey-sql: SQL over tables.";

/// Looks at and changes Azure Table storage: Azure, Azure Cosmos DB for Table, Azurite and rowkey-server.
#[derive(Parser)]
#[command(
    name = "rowkey",
    version,
    before_help = EXAMPLES,
    after_help = ENDING,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Tables(tables::Tables),
    Get(get::Get),
    Set(write::Set),
    Patch(write::Patch),
    Delete(delete::Delete),
    Query(query::Query),
    Count(count::Count),
    Copy(copy::Copy),
    Export(export::Export),
    Import(import::Import),
    Purge(purge::Purge),
    Check(check::Check),
    Queue(queue::Queue),
    DeadLetters(dead_letters::Letters),
    Sas(sas::Signature),
    Serve(serve::Serve),
    Inspect(inspect::Inspect),
    Stats(stats::Stats),
    Profile(profile::Profile),
    Completions(man::Completions),
    Man(man::Man),
    /// Another program.
    #[command(external_subcommand)]
    External(Vec<OsString>),
}

impl Cli {
    /// Runs the program that takes the place of a command, if one is named. Returns an error only if it cannot be run.
    pub(crate) fn run_program(
        &self,
        matches: &ArgMatches,
        describe: fn() -> clap::Command,
    ) -> Result<()> {
        match &self.command {
            Command::External(words) => programs::run_named(words, matches, &describe())
                .map(|never: Infallible| match never {}),
            _ => Ok(()),
        }
    }
}

/// Runs a command. `describe` describes all of them, for completions and manual pages.
pub(crate) async fn run(cli: Cli, describe: fn() -> clap::Command) -> Result<()> {
    let Cli { common, command } = cli;
    match command {
        Command::Tables(tables) => tables::run(&common, tables).await,
        Command::Get(get) => get::run(&common, get).await,
        Command::Set(set) => write::set(&common, set).await,
        Command::Patch(patch) => write::patch(&common, patch).await,
        Command::Delete(delete) => delete::run(&common, delete).await,
        Command::Query(query) => query::run(&common, query).await,
        Command::Count(count) => count::run(&common, count).await,
        Command::Copy(copy) => copy::run(&common, copy).await,
        Command::Export(export) => export::run(&common, export).await,
        Command::Import(import) => import::run(&common, import).await,
        Command::Purge(purge) => purge::run(&common, purge).await,
        Command::Check(check) => check::run(&common, check).await,
        Command::Queue(queue) => queue::run(&common, queue).await,
        Command::DeadLetters(letters) => dead_letters::run(&common, letters).await,
        Command::Sas(signature) => sas::run(&common, signature),
        Command::Serve(serve) => match serve::run(serve)? {},
        Command::Inspect(inspect) => inspect::run(&common, inspect).await,
        Command::Stats(stats) => stats::run(&common, stats).await,
        Command::Profile(profile) => profile::run(&common, profile),
        Command::Completions(completions) => man::completions(&completions, describe()),
        Command::Man(man) => man::man(&man, describe()),
        // It has taken the place of this program.
        Command::External(_) => Ok(()),
    }
}
