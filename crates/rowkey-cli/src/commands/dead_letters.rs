//! `rowkey dead-letters`: lists, shows, redrives and purges the tasks that workers put aside.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use clap::{Args, Subcommand};
use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey::ErrorKind;
use rowkey::worker::dead_letters::{self, Cause, DeadLetter, DeadLetters, Inspected, Selection};
use rowkey::worker::dead_letters::{Failure, Summary};
use rowkey::worker::{AnyTask, Tasks};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::{Common, Form};
use crate::confirm::Confirm;
use crate::connect;
use crate::duration;
use crate::error::{Error, Exit, Result};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  rowkey dead-letters list
  rowkey dead-letters list photos --by-reason
  rowkey dead-letters show photos 5f0c6a5e-9c1d-4a52-8f2b-0d9a3b6a7c11
  rowkey dead-letters redrive photos --cause Unavailable --yes
  rowkey dead-letters purge photos --older-than 30d --yes";

const LIST: &str = "\
Examples:
  rowkey dead-letters list
  rowkey dead-letters list photos --by-reason
  rowkey dead-letters list photos --cause Panic --newer-than 1d --json";

const SHOW: &str = "\
Examples:
  rowkey dead-letters show photos 5f0c6a5e-9c1d-4a52-8f2b-0d9a3b6a7c11
  rowkey dead-letters show photos 5f0c6a5e-9c1d-4a52-8f2b-0d9a3b6a7c11 --claims claims --json | jq .task";

const REDRIVE: &str = "\
Examples:
  rowkey dead-letters redrive photos 5f0c6a5e-9c1d-4a52-8f2b-0d9a3b6a7c11 --yes
  rowkey dead-letters redrive photos --reason-contains 'no decoder' --redriven-less-than 3 --yes
  rowkey dead-letters redrive photos --all --claims claims --yes";

const PURGE: &str = "\
Examples:
  rowkey dead-letters purge photos 5f0c6a5e-9c1d-4a52-8f2b-0d9a3b6a7c11 --yes
  rowkey dead-letters purge photos --cause Rejected --older-than 30d --yes
  rowkey dead-letters purge photos --all --claims claims --yes";

/// List, show, redrive or purge dead letters: the tasks that the workers of rowkey put aside.
#[derive(Args)]
#[command(before_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Letters {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(List),
    Show(Show),
    Redrive(Redrive),
    Purge(Purge),
}

/// List the dead letters of a queue, newest first. Without a queue: their number for each queue.
#[derive(Args)]
#[command(before_help = LIST)]
struct List {
    /// The name of the queue that the tasks came from.
    queue: Option<String>,
    /// Show how many dead letters have each cause and reason, the most frequent first.
    #[arg(long, conflicts_with = "limit")]
    by_reason: bool,
    /// List at most this many.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    conditions: Conditions,
    #[command(flatten)]
    place: Place,
}

/// Show a dead letter with its task and the history of its attempts.
#[derive(Args)]
#[command(before_help = SHOW)]
struct Show {
    /// The name of the queue that the task came from.
    queue: String,
    /// The id of the task.
    id: String,
    /// Read the task from this container if it is too large for a message.
    #[arg(long, value_name = "CONTAINER")]
    claims: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Put tasks back into their queue, and delete their dead letters.
#[derive(Args)]
#[command(before_help = REDRIVE)]
struct Redrive {
    #[command(flatten)]
    which: Which,
    /// Put messages in Base64, for workers that read no other ones. Those of rowkey read both.
    #[arg(long)]
    base64: bool,
}

/// Delete dead letters with their tasks.
#[derive(Args)]
#[command(before_help = PURGE)]
struct Purge {
    #[command(flatten)]
    which: Which,
}

/// Which dead letters a command changes. All of a queue must be asked for.
#[derive(Args)]
struct Which {
    /// The name of the queue that the tasks came from.
    queue: String,
    /// The id of one task.
    id: Option<String>,
    /// All dead letters of the queue.
    #[arg(long, conflicts_with = "id")]
    all: bool,
    /// The container with tasks that are too large for a message.
    #[arg(long, value_name = "CONTAINER")]
    claims: Option<String>,
    #[command(flatten)]
    conditions: Conditions,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    confirm: Confirm,
}

/// What selected dead letters have in common.
#[derive(Args)]
struct Conditions {
    /// Only with this cause, such as `Panic`, `Rejected` or `NotFound`. May be given several times.
    #[arg(long, value_name = "CAUSE", value_parser = cause)]
    cause: Vec<Cause>,
    /// Only tasks of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Only with this text in the reason.
    #[arg(long, value_name = "TEXT")]
    reason_contains: Option<String>,
    /// Only those put aside longer ago than this, such as `30d`.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Only those put aside since then, such as `1h`.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    newer_than: Option<Duration>,
    /// Only tasks that were redriven fewer times.
    #[arg(long, value_name = "TIMES")]
    redriven_less_than: Option<u32>,
}

/// Where dead letters are.
#[derive(Args)]
struct Place {
    /// The table of dead letters.
    #[arg(long, default_value = "deadletters")]
    table: String,
}

impl Conditions {
    fn are_given(&self) -> bool {
        !self.cause.is_empty()
            || self.kind.is_some()
            || self.reason_contains.is_some()
            || self.older_than.is_some()
            || self.newer_than.is_some()
            || self.redriven_less_than.is_some()
    }

    fn narrow(self, selection: Selection) -> Selection {
        let mut selection = self.cause.into_iter().fold(selection, Selection::cause);
        if let Some(kind) = self.kind {
            selection = selection.kind(kind);
        }
        if let Some(text) = self.reason_contains {
            selection = selection.reason_contains(text);
        }
        if let Some(age) = self.older_than {
            selection = selection.older_than(age);
        }
        if let Some(age) = self.newer_than {
            selection = selection.newer_than(age);
        }
        if let Some(times) = self.redriven_less_than {
            selection = selection.redriven_less_than(times);
        }
        selection
    }
}

pub(crate) async fn run(common: &Common, Letters { command }: Letters) -> Result<()> {
    match command {
        Command::List(args) => list(common, args).await,
        Command::Show(args) => show(common, args).await,
        Command::Redrive(Redrive { which, base64 }) => {
            change(common, which, base64, Change::Redrive).await
        }
        Command::Purge(Purge { which }) => change(common, which, false, Change::Purge).await,
    }
}

/// The tasks of a queue, with the places that the flags name. Sends nothing.
fn tasks(
    common: &Common,
    queue: &str,
    table: &str,
    claims: Option<&str>,
) -> Result<Tasks<AnyTask>> {
    let account = connect::account(common)?;
    let tasks = Tasks::new(account.queue(queue)).dead_letters_in(account.table(table));
    Ok(match claims {
        Some(container) => tasks.claims(account.container(container)),
        None => tasks,
    })
}

async fn list(common: &Common, args: List) -> Result<()> {
    let List { queue, by_reason, limit, conditions, place } = args;
    let Some(queue) = queue else {
        if by_reason || limit.is_some() || conditions.are_given() {
            return Err(Error::usage(
                "without a queue, their number is listed for each queue; name the queue, or remove \
                 the other flags",
            ));
        }
        let table = connect::account(common)?.table(&place.table);
        let counts = dead_letters::count_by_queue(&table).await?;
        let rows: Vec<_> =
            counts.into_iter().map(|(queue, count)| vec![queue.into(), count.into()]).collect();
        return output::records(common.form(), &["queue", "dead_letters"], &rows);
    };
    let letters = tasks(common, &queue, &place.table, None)?.dead_letters();
    let letters = letters.list(&conditions.narrow(Selection::all()));
    if by_reason {
        return reasons(common.form(), letters.boxed()).await;
    }
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let rows: Vec<_> = letters.take(limit).map_ok(row).try_collect().await?;
    let columns =
        ["id", "kind", "cause", "reason", "attempts", "redriven", "first_seen", "put_aside"];
    output::records(common.form(), &columns, &rows)
}

fn row(letter: DeadLetter<AnyTask>) -> Vec<Value> {
    vec![
        letter.id.into(),
        letter.kind.into(),
        letter.cause.to_string().into(),
        letter.reason.into(),
        letter.attempts.into(),
        letter.redriven.into(),
        letter.first_seen.map_or(Value::Null, output::time),
        output::time(letter.put_aside),
    ]
}

/// Shows how many there are of each cause and reason.
async fn reasons(
    form: Form,
    mut letters: futures_util::stream::BoxStream<'_, rowkey::Result<DeadLetter<AnyTask>>>,
) -> Result<()> {
    let mut groups = BTreeMap::new();
    while let Some(letter) = letters.try_next().await? {
        let (count, newest, oldest) = groups
            .entry((letter.cause.to_string(), letter.reason))
            .or_insert((0_u64, letter.put_aside, letter.put_aside));
        *count += 1;
        *newest = letter.put_aside.max(*newest);
        *oldest = letter.put_aside.min(*oldest);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    // Stable, so that equal numbers are in the order of their causes.
    groups.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    let rows: Vec<_> = groups
        .into_iter()
        .map(|((cause, reason), (count, newest, oldest))| {
            let (newest, oldest) = (output::time(newest), output::time(oldest));
            vec![cause.into(), reason.into(), count.into(), newest, oldest]
        })
        .collect();
    output::records(form, &["cause", "reason", "dead_letters", "newest", "oldest"], &rows)
}

/// A dead letter as JSON, with the task as it was written.
#[derive(Serialize)]
struct Shown<'a> {
    queue: &'a str,
    id: &'a str,
    kind: Option<&'a str>,
    cause: String,
    reason: &'a str,
    attempts: u32,
    redriven: u32,
    first_seen: Value,
    put_aside: Value,
    history: &'a [Failure],
    traceparent: Option<&'a str>,
    /// The blob that holds the task.
    claim: Option<&'a str>,
    task: Option<Box<RawValue>>,
    /// The text of a message that is no task.
    text: Option<&'a str>,
    /// Why there is no task.
    problem: Option<&'a str>,
}

async fn show(common: &Common, Show { queue, id, claims, place }: Show) -> Result<()> {
    let letters = tasks(common, &queue, &place.table, claims.as_deref())?.dead_letters();
    // Without a container, the name of the blob is shown and not its task.
    let letter = match claims {
        Some(_) => letters.get(&id).await?,
        None => letters.list(&Selection::of(&*id)).try_next().await?,
    };
    let letter = letter.ok_or_else(|| missing(&queue))?;
    let (mut claim, mut task, mut text, mut problem) = (None, None, None, None);
    match &letter.task {
        Inspected::Task(json) => {
            // In JSON, line breaks stand between values alone.
            let line = json.json().replace(['\r', '\n'], " ");
            task = Some(RawValue::from_string(line).map_err(io::Error::from)?);
        }
        Inspected::Claim(name) => claim = Some(&**name),
        Inspected::Done => problem = Some("another message of the task was processed since"),
        Inspected::Unreadable { text: unread, reason } => {
            (text, problem) = (Some(&**unread), Some(&**reason));
        }
        _ => problem = Some("this version of the program cannot show the task"),
    }
    let shown = Shown {
        queue: &letter.queue,
        id: &letter.id,
        kind: letter.kind.as_deref(),
        cause: letter.cause.to_string(),
        reason: &letter.reason,
        attempts: letter.attempts,
        redriven: letter.redriven,
        first_seen: letter.first_seen.map_or(Value::Null, output::time),
        put_aside: output::time(letter.put_aside),
        history: &letter.history,
        traceparent: letter.traceparent.as_deref(),
        claim,
        task,
        text,
        problem,
    };
    output::record(common.form(), &shown, &["history"])
}

fn missing(queue: &str) -> Error {
    let text = format!(
        "no dead letter of queue {queue} has this id; `rowkey dead-letters list {queue}` lists them"
    );
    Error::new(Exit::NotFound, text)
}

/// What is done to dead letters.
#[derive(Clone, Copy)]
enum Change {
    Redrive,
    Purge,
}

impl Change {
    const fn verb(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Purge => "purge",
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Redrive => "redriven",
            Self::Purge => "purged",
        }
    }

    async fn apply(
        self,
        letters: &DeadLetters<AnyTask>,
        which: &Selection,
    ) -> rowkey::Result<Summary> {
        match self {
            Self::Redrive => letters.redrive(which).await,
            Self::Purge => letters.purge(which).await,
        }
    }
}

async fn change(common: &Common, which: Which, is_base64: bool, change: Change) -> Result<()> {
    let Which { queue, id, all, claims, conditions, place, confirm } = which;
    let (verb, done) = (change.verb(), change.done());
    if id.is_none() && !all && !conditions.are_given() {
        return Err(Error::usage(format!(
            "which dead letters of queue {queue} to {verb} is not said; name the id of a task, a \
             condition such as --cause, or --all"
        )));
    }
    let tasks = tasks(common, &queue, &place.table, claims.as_deref())?;
    let letters = if is_base64 { tasks.base64() } else { tasks }.dead_letters();
    let selection = id.as_ref().map_or_else(Selection::all, Selection::of);
    let selection = conditions.narrow(selection);
    if confirm.asks() {
        let count = letters.count(&selection).await?;
        confirm.ask(&format!("{verb} {count} dead letters of queue {queue}"), None)?;
    }
    let summary = change.apply(&letters, &selection).await.map_err(Error::of_write)?;
    if id.is_some() && summary.matched == 0 {
        return Err(missing(&queue));
    }
    let row = vec![
        Value::from(queue),
        summary.matched.into(),
        summary.done.into(),
        summary.changed.into(),
        summary.failed.into(),
    ];
    let shown =
        output::records(common.form(), &["queue", "matched", done, "changed", "failed"], &[row]);
    let (failed, matched) = (summary.failed, summary.matched);
    let Some(first) = summary.failures.into_iter().next() else { return shown };
    let error = match first.error.kind() {
        ErrorKind::Invalid if claims.is_none() => {
            first.error.advise("name the container of large tasks by --claims CONTAINER")
        }
        _ => first.error,
    };
    let what = format!("{failed} of {matched} dead letters were not {done}; the first");
    Err(Error::of_write(error).during(what))
}

fn cause(name: &str) -> Result<Cause, String> {
    match Cause::from(name) {
        Cause::Other(_) => Err("the causes are Foreign, Panic, Rejected, TimeLimit, TooOld, \
                                UnknownEnd, Unreadable, and kinds of errors such as NotFound, \
                                Throttled or Unavailable"
            .to_owned()),
        cause => Ok(cause),
    }
}
