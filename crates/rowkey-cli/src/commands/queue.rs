//! `rowkey queue`: lists queues, looks at messages, puts them and deletes them all.

use std::fs;
use std::io::{self, Read as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use rowkey::ErrorKind;
use rowkey::queue::{Body, Peeked};
use serde_json::Value;

use crate::args::Common;
use crate::confirm::Confirm;
use crate::connect;
use crate::duration;
use crate::error::{Error, Exit, IF_MISSING, Result};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  rowkey queue list --count
  rowkey queue peek jobs --limit 5
  rowkey queue put jobs '{\"order\":7}'
  rowkey queue clear jobs --yes";

const LIST: &str = "\
Examples:
  rowkey queue list
  rowkey queue list --prefix jobs --count --json";

const PEEK: &str = "\
Examples:
  rowkey queue peek jobs
  rowkey queue peek jobs --limit 5 --json | jq -r .text";

const PUT: &str = "\
Examples:
  rowkey queue put jobs '{\"order\":7}'
  rowkey queue put jobs @picture.bin --base64 --ttl never
  printf '{\"order\":7}' | rowkey queue put jobs - --hidden-for 10m";

const CLEAR: &str = "\
Examples:
  rowkey queue clear jobs
  rowkey queue clear jobs --yes";

const CREATE: &str = "\
Examples:
  rowkey queue create jobs
  rowkey queue create jobs --if-missing";

const DELETE: &str = "\
Examples:
  rowkey queue delete jobs --yes
  rowkey queue delete jobs --if-exists --yes";

/// List queues, look at their messages, put messages, or delete them all.
#[derive(Args)]
#[command(before_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Queue {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(List),
    Peek(Peek),
    Put(Put),
    Clear(Clear),
    Create(Create),
    Delete(Delete),
}

/// List the queues of the account.
#[derive(Args)]
#[command(before_help = LIST)]
struct List {
    /// List only queues whose names begin with this text.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Show the approximate number of messages, hidden ones included. One request for each queue.
    #[arg(long)]
    count: bool,
}

/// Show the messages at the front of a queue, and leave them as they are.
///
/// `text` is what the queue stores. `decoded` is the text that it holds in Base64, if it is Base64 of UTF-8. Hidden messages are
/// not shown.
#[derive(Args)]
#[command(before_help = PEEK)]
struct Peek {
    /// The name of the queue.
    queue: String,
    /// Show at most this many messages, 1 to 32: the service shows no more.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(1..=32)
    )]
    limit: u32,
}

/// Put a message at the end of a queue.
#[derive(Args)]
#[command(before_help = PUT)]
struct Put {
    /// The name of the queue.
    queue: String,
    /// The message; `@FILE` to read a file, `-` to read stdin, both with the line break at their end. A message that begins
    /// with `@` comes from stdin, one that begins with a hyphen stands after `--`.
    message: String,
    /// Store the message in Base64, as Azure Functions reads it. It may have any bytes.
    #[arg(long)]
    base64: bool,
    /// Delete the message after this time, such as `12h`, or `never`. Default: 7 days.
    #[arg(long, value_name = "DURATION", value_parser = ttl)]
    ttl: Option<Ttl>,
    /// Hide the message for this time, such as `10m`, at most `7d`.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    hidden_for: Option<Duration>,
}

/// How long a message lives.
#[derive(Clone, Copy)]
enum Ttl {
    Never,
    After(Duration),
}

/// Delete all messages of a queue, hidden ones included.
#[derive(Args)]
#[command(before_help = CLEAR)]
struct Clear {
    /// The name of the queue.
    queue: String,
    #[command(flatten)]
    confirm: Confirm,
}

/// Create a queue.
#[derive(Args)]
#[command(before_help = CREATE)]
struct Create {
    /// The name of the queue.
    queue: String,
    /// Succeed if the queue exists.
    #[arg(long)]
    if_missing: bool,
}

/// Delete a queue with all its messages.
#[derive(Args)]
#[command(before_help = DELETE)]
struct Delete {
    /// The name of the queue.
    queue: String,
    /// Succeed if the queue does not exist.
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    confirm: Confirm,
}

pub(crate) async fn run(common: &Common, Queue { command }: Queue) -> Result<()> {
    match command {
        Command::List(args) => list(common, args).await,
        Command::Peek(args) => peek(common, args).await,
        Command::Put(args) => put(common, args).await,
        Command::Clear(args) => clear(common, args).await,
        Command::Create(args) => create(common, args).await,
        Command::Delete(args) => delete(common, args).await,
    }
}

async fn list(common: &Common, List { prefix, count }: List) -> Result<()> {
    let account = connect::account(common)?;
    let queues = account.queues();
    let queues = match &prefix {
        Some(prefix) => queues.starting_with(prefix),
        None => queues,
    };
    let mut rows = Vec::new();
    for queue in queues.all().await? {
        let mut row = vec![Value::from(&*queue.name)];
        if count {
            row.push(match account.queue(&queue.name).approximate_count().await {
                Ok(messages) => messages.into(),
                // Deleted since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => Value::Null,
                Err(error) => return Err(error.into()),
            });
        }
        rows.push(row);
    }
    let columns = ["queue", "approximate_messages"];
    output::records(common.form(), &columns[..=usize::from(count)], &rows)
}

async fn peek(common: &Common, Peek { queue, limit }: Peek) -> Result<()> {
    let messages = connect::account(common)?.queue(&queue).peek(limit).await?;
    let columns = ["id", "inserted", "expires", "dequeue_count", "text", "decoded"];
    let rows: Vec<_> = messages.iter().map(row).collect();
    output::records(common.form(), &columns, &rows)
}

fn row(message: &Peeked) -> Vec<Value> {
    vec![
        Value::from(&*message.id),
        output::time(message.inserted),
        message.expires.map_or(Value::Null, output::time),
        message.dequeue_count.into(),
        message.text().into(),
        // The empty text is Base64 of nothing.
        message.base64().ok().filter(|text| !text.is_empty()).into(),
    ]
}

async fn put(common: &Common, args: Put) -> Result<()> {
    let queue = connect::account(common)?.queue(&args.queue);
    let mut put = queue.put(body(args.message, args.base64)?);
    put = match args.ttl {
        None => put,
        Some(Ttl::Never) => put.ttl(None),
        Some(Ttl::After(ttl)) => put.ttl(ttl),
    };
    if let Some(hidden) = args.hidden_for {
        put = put.hidden_for(hidden);
    }
    let message = put.send().await.map_err(Error::of_write)?;
    let row = vec![
        Value::from(args.queue),
        message.id.into(),
        message.expires.map_or(Value::Null, output::time),
        output::time(message.next_visible),
    ];
    output::records(common.form(), &["queue", "id", "expires", "next_visible"], &[row])
}

/// The message from the command line, a file or stdin.
fn body(message: String, is_base64: bool) -> Result<Body> {
    let (bytes, place) = match message.strip_prefix('@') {
        Some(path) => {
            let cannot =
                |error| Error::new(Exit::Failed, format!("{path} cannot be read: {error}"));
            (fs::read(path).map_err(cannot)?, path)
        }
        None if message == "-" => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes)?;
            (bytes, "stdin")
        }
        None => (message.into_bytes(), "the message"),
    };
    if is_base64 {
        return Ok(Body::bytes(bytes));
    }
    // The error of the standard library has the bytes.
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::usage(format!("{place} is not UTF-8; add --base64 to put it in Base64"))
    })?;
    Ok(Body::text(text))
}

fn ttl(text: &str) -> Result<Ttl, String> {
    if text == "never" {
        return Ok(Ttl::Never);
    }
    duration::parse(text).map(Ttl::After).map_err(|error| format!("{error}; or `never`"))
}

async fn clear(common: &Common, Clear { queue, confirm }: Clear) -> Result<()> {
    let handle = connect::account(common)?.queue(&queue);
    confirm.ask(&format!("delete all messages of queue {queue}"), None)?;
    handle.clear().await.map_err(Error::of_write)?;
    output::records(common.form(), &["queue", "cleared"], &[vec![queue.into(), true.into()]])
}

async fn create(common: &Common, Create { queue, if_missing }: Create) -> Result<()> {
    let handle = connect::account(common)?.queue(&queue);
    let created = if if_missing {
        handle.create_if_missing().await
    } else {
        handle.create().await.map(|()| true)
    };
    let created = created.map_err(|error| match error.kind() {
        // The service answers with a success and no code if the metadata are the same, too.
        ErrorKind::AlreadyExists => Error::of_write(error.advise(IF_MISSING)),
        _ => Error::of_write(error),
    })?;
    output::records(common.form(), &["queue", "created"], &[vec![queue.into(), created.into()]])
}

async fn delete(common: &Common, Delete { queue, if_exists, confirm }: Delete) -> Result<()> {
    let handle = connect::account(common)?.queue(&queue);
    confirm.ask(&format!("delete queue {queue} with all its messages"), None)?;
    let deleted = if if_exists {
        handle.delete_queue_if_exists().await
    } else {
        handle.delete_queue().await.map(|()| true)
    };
    let deleted = deleted.map_err(Error::of_write)?;
    output::records(common.form(), &["queue", "deleted"], &[vec![queue.into(), deleted.into()]])
}
