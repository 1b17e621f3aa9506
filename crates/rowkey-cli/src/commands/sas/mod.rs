//! `rowkey sas`: makes shared access signatures, and explains them.

mod explain;

use std::fmt::Display;
use std::net::Ipv4Addr;
use std::ops::{Bound, RangeInclusive};
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use rowkey::sas::{
    AccountPermissions, BlobPermissions, QueuePermissions, ResourceTypes, Sas, SasToken, Services,
    TablePermissions,
};
use rowkey::{DynamicEntity, Key, StorageAccount};
use serde::Serialize;

use crate::args::Common;
use crate::connect;
use crate::duration;
use crate::error::{Error, Result};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  rowkey sas table orders --permissions r --expires 1h --partition contoso
  rowkey sas queue jobs --permissions a --expires 1h --as url
  rowkey sas account --services t --resource-types sco --permissions rl --expires 1h --as connection-string
  rowkey sas read < token.txt";

const TABLE: &str = "\
Examples:
  rowkey sas table orders --permissions r --expires 1h --partition contoso
  rowkey sas table orders --permissions raud --expires 2026-12-01T00:00:00Z --from-partition a --to-partition m
  rowkey sas table orders --policy readers --as url";

const QUEUE: &str = "\
Examples:
  rowkey sas queue jobs --permissions a --expires 1h --as url
  rowkey sas queue jobs --permissions rp --expires 12h --ip 203.0.113.0-203.0.113.255";

const CONTAINER: &str = "\
Examples:
  rowkey sas container backups --permissions rl --expires 1h";

const BLOB: &str = "\
Examples:
  rowkey sas blob backups 2026/11/orders.jsonl --permissions r --expires 1h --as url";

const ACCOUNT: &str = "\
Examples:
  rowkey sas account --services t --resource-types sco --permissions rl --expires 1h
  rowkey sas account --services tq --resource-types o --permissions raup --expires 1h --as connection-string";

/// Make shared access signatures, or explain one. Nothing is sent.
///
/// A signature is a secret: its holder has the access that it grants until it expires.
#[derive(Args)]
#[command(before_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Signature {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Table(ForTable),
    Queue(ForQueue),
    Container(ForContainer),
    Blob(ForBlob),
    Account(ForAccount),
    Read(explain::Read),
}

/// Make a signature for a table, or for a range of its keys.
#[derive(Args)]
#[command(before_help = TABLE)]
struct ForTable {
    /// The name of the table.
    table: String,
    /// Letters: `r` read, `a` add, `u` update, `d` delete.
    #[arg(long, value_name = "LETTERS")]
    permissions: Option<TablePermissions>,
    /// Only the partition with this PartitionKey.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from_partition", "to_partition"])]
    partition: Option<String>,
    /// Only from the partition with this PartitionKey on.
    #[arg(long, value_name = "KEY")]
    from_partition: Option<String>,
    /// In the first partition, only from the entity with this RowKey on.
    #[arg(long, value_name = "KEY")]
    from_row: Option<String>,
    /// Only up to the partition with this PartitionKey.
    #[arg(long, value_name = "KEY")]
    to_partition: Option<String>,
    /// In the last partition, only up to the entity with this RowKey.
    #[arg(long, value_name = "KEY")]
    to_row: Option<String>,
    #[command(flatten)]
    policy: Policy,
    #[command(flatten)]
    terms: Terms,
}

/// Make a signature for a queue.
#[derive(Args)]
#[command(before_help = QUEUE)]
struct ForQueue {
    /// The name of the queue.
    queue: String,
    /// Letters: `r` peek, `a` put, `u` update, `p` receive and delete.
    #[arg(long, value_name = "LETTERS")]
    permissions: Option<QueuePermissions>,
    #[command(flatten)]
    policy: Policy,
    #[command(flatten)]
    terms: Terms,
}

/// Make a signature for a container and its blobs.
#[derive(Args)]
#[command(before_help = CONTAINER)]
struct ForContainer {
    /// The name of the container.
    container: String,
    /// Letters: `r` read, `a` append, `c` create, `w` write, `d` delete, `l` list.
    #[arg(long, value_name = "LETTERS")]
    permissions: Option<BlobPermissions>,
    #[command(flatten)]
    policy: Policy,
    #[command(flatten)]
    terms: Terms,
}

/// Make a signature for a blob.
#[derive(Args)]
#[command(before_help = BLOB)]
struct ForBlob {
    /// The name of the container.
    container: String,
    /// The name of the blob.
    blob: String,
    /// Letters: `r` read, `a` append, `c` create, `w` write, `d` delete.
    #[arg(long, value_name = "LETTERS")]
    permissions: Option<BlobPermissions>,
    #[command(flatten)]
    policy: Policy,
    #[command(flatten)]
    terms: Terms,
}

/// Make a signature for services of the account.
///
/// It can be revoked only with the account key. Prefer one for a table, a queue or a container.
#[derive(Args)]
#[command(before_help = ACCOUNT)]
struct ForAccount {
    /// Letters: `b` blobs, `q` queues, `t` tables.
    #[arg(long, value_name = "LETTERS")]
    services: Services,
    /// Letters: `s` the services themselves, `c` containers, queues and tables, `o` what is in them.
    #[arg(long, value_name = "LETTERS")]
    resource_types: ResourceTypes,
    /// Letters: `r` read, `w` write, `d` delete, `l` list, `a` add, `c` create, `u` update, `p` process messages.
    #[arg(long, value_name = "LETTERS")]
    permissions: Option<AccountPermissions>,
    #[command(flatten)]
    terms: Terms,
}

#[derive(Args)]
struct Policy {
    /// The stored access policy that has what the signature does not say, and by which it can be revoked.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
}

/// What all signatures have.
#[derive(Args)]
struct Terms {
    /// When it ends: a duration from now on, such as `1h`, or a time such as `2026-12-01T00:00:00Z`.
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    expires: Option<Expiry>,
    /// When it begins, such as `2026-12-01T00:00:00Z`. Default: at once.
    #[arg(long, value_name = "TIME", value_parser = time)]
    start: Option<DateTime<Utc>>,
    /// The address from which it may be used, or a range such as `203.0.113.0-203.0.113.255`.
    #[arg(long, value_name = "ADDRESS", value_parser = addresses)]
    ip: Option<RangeInclusive<Ipv4Addr>>,
    /// Let it be used over http, where others can read it. Default: https alone, but on an emulator.
    #[arg(long)]
    allow_http: bool,
    /// Write this alone, as plain text.
    #[arg(long = "as", value_name = "WHAT")]
    form: Option<Part>,
}

#[derive(Clone, Copy)]
enum Expiry {
    At(DateTime<Utc>),
    After(Duration),
}

/// What is written alone.
#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// The query with the signature: `sv=..&sig=..`.
    Token,
    /// The URL of the resource with the signature.
    Url,
    /// A connection string for clients of Azure storage.
    ConnectionString,
}

/// A signature as JSON.
#[derive(Serialize)]
struct Made<'a> {
    token: &'a str,
    url: String,
    connection_string: String,
    warnings: Vec<String>,
}

pub(crate) fn run(common: &Common, Signature { command }: Signature) -> Result<()> {
    match command {
        Command::Table(args) => table(common, args),
        Command::Queue(ForQueue { queue, permissions, policy, terms }) => {
            make(common, with(Sas::queue(queue), permissions, policy), terms)
        }
        Command::Container(ForContainer { container, permissions, policy, terms }) => {
            make(common, with(Sas::container(container), permissions, policy), terms)
        }
        Command::Blob(ForBlob { container, blob, permissions, policy, terms }) => {
            make(common, with(Sas::blob(container, blob), permissions, policy), terms)
        }
        Command::Account(ForAccount { services, resource_types, permissions, terms }) => {
            let sas = Sas::account(services, resource_types);
            make(common, with(sas, permissions, Policy { policy: None }), terms)
        }
        Command::Read(args) => explain::run(common, &args),
    }
}

fn table(common: &Common, args: ForTable) -> Result<()> {
    let ForTable { table, permissions, partition, policy, terms, .. } = args;
    let mut from = (partition.clone().or(args.from_partition), args.from_row);
    let mut to = (partition.or(args.to_partition), args.to_row);
    for ((partition, row), name) in [(&from, "from"), (&to, "to")] {
        if row.is_some() && partition.is_none() {
            let text =
                format!("--{name}-row is in a partition; add --{name}-partition or --partition");
            return Err(Error::usage(text));
        }
    }
    let sas = with(Sas::table(table), permissions, policy);
    let sas = if from.1.is_none() && to.1.is_none() {
        sas.partitions((end(from.0.as_deref()), end(to.0.as_deref())))
    } else {
        let from = match (from.0.take(), from.1.take()) {
            (Some(partition), row) => Bound::Included(key(partition, row.unwrap_or_default())),
            (None, _) => Bound::Unbounded,
        };
        let to = match (to.0.take(), to.1.take()) {
            (Some(partition), Some(row)) => Bound::Included(key(partition, row)),
            // The end of a partition is the first key of the next one that can be.
            (Some(partition), None) => Bound::Excluded(key(partition + " ", String::new())),
            (None, _) => Bound::Unbounded,
        };
        sas.keys((from, to))
    };
    make(common, sas, terms)
}

/// An end of the range that is part of it.
const fn end(key: Option<&str>) -> Bound<&str> {
    match key {
        Some(key) => Bound::Included(key),
        None => Bound::Unbounded,
    }
}

fn key(partition: String, row: String) -> Key<DynamicEntity> {
    Key::new(partition, row)
}

fn with<P: Display>(mut sas: Sas<P>, permissions: Option<P>, policy: Policy) -> Sas<P> {
    if let Some(permissions) = permissions {
        sas = sas.permissions(permissions);
    }
    match policy.policy {
        Some(name) => sas.policy(name),
        None => sas,
    }
}

/// What to do without a key. Signatures of accounts cannot be made by a token at all.
const NO_KEY: &str = "this connection has no account key, which signs shared access signatures: it is by a token, or by such a signature; \
     use a connection string with AccountKey, which `rowkey profile add` stores. A program with a token signs for a table, a queue, \
     a container or a blob with a user delegation key: `StorageAccount::user_delegation_key`";

/// Whether an account can sign: any that has a key can make this signature.
fn has_key(account: &StorageAccount) -> bool {
    let probe = Sas::account(Services::TABLE, ResourceTypes::SERVICE);
    let probe = probe.permissions(AccountPermissions::READ).valid_for(Duration::from_secs(60));
    probe.sign(account).is_ok()
}

/// Signs, and writes the signature.
fn make<P: Display>(common: &Common, mut sas: Sas<P>, terms: Terms) -> Result<()> {
    let account = connect::account(common)?;
    sas = match terms.expires {
        Some(Expiry::At(time)) => sas.expires(time),
        Some(Expiry::After(duration)) => sas.valid_for(duration),
        None => sas,
    };
    if let Some(start) = terms.start {
        sas = sas.starts(start);
    }
    if let Some(addresses) = terms.ip {
        sas = sas.ip(addresses);
    }
    if terms.allow_http {
        sas = sas.allow_http();
    }
    let token = match sas.sign(&account) {
        Err(_) if !has_key(&account) => return Err(Error::usage(NO_KEY)),
        token => token?,
    };
    if let Some(part) = terms.form {
        return output::text(format!("{}\n", part.of(&token)).as_bytes());
    }
    let warnings = token.lint(account.clock().now());
    let made = Made {
        token: token.query(),
        url: token.url(),
        connection_string: token.connection_string(),
        warnings: warnings.iter().map(ToString::to_string).collect(),
    };
    output::record(common.form(), &made, &["warnings"])
}

impl Part {
    fn of(self, token: &SasToken) -> String {
        match self {
            Self::Token => token.query().to_owned(),
            Self::Url => token.url(),
            Self::ConnectionString => token.connection_string(),
        }
    }
}

fn expiry(text: &str) -> Result<Expiry, String> {
    if let Ok(duration) = duration::parse(text) {
        return Ok(Expiry::After(duration));
    }
    time(text).map(Expiry::At).map_err(|error| format!("a duration such as 1h or 7d, or {error}"))
}

fn time(text: &str) -> Result<DateTime<Utc>, String> {
    let time = DateTime::parse_from_rfc3339(text);
    time.map(|time| time.to_utc()).map_err(|_| "a time such as 2026-12-01T00:00:00Z".to_owned())
}

fn addresses(text: &str) -> Result<RangeInclusive<Ipv4Addr>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("an IPv4 address, or a range such as 203.0.113.0-203.0.113.255".to_owned()),
    }
}
