//! Tasks and workers: what a worker does with each message, what it costs, and what is left when it
//! ends anywhere.

mod hostile;
mod isolation;
mod messages;
mod model;
mod poisoned;
mod renewal;
mod running;
mod runtime;
mod schedules;
mod several;
mod sweeps;

use std::time::Duration;

use rowkey::edm;
use rowkey::worker::dead_letters::{Selection, Summary};
use rowkey::worker::{Attempt, Done, Handler, Task, Tasks, Worker};
use rowkey::{Clock, Entity, Error, ErrorKind, ManualClock, StorageAccount, Table};
use rowkey_emulator::{Server, Snapshot, StoredQueue};
use rowkey_tests::TestResult;
use rowkey_tests::sweep;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const VISIBILITY: Duration = Duration::from_secs(30);

/// A task that says how it wants to go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Resize {
    picture: u64,
    deed: Deed,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pixels: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Deed {
    Fail,
    FailFirst,
    Poison,
    Succeed,
}

impl Task for Resize {
    const KIND: &'static str = "resize";
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "small", row = "{picture}")]
struct Small {
    picture: u64,
    pixels: i32,
}

/// Does tasks with one request each.
struct Resizer(Table);

impl Handler<Resize> for Resizer {
    async fn handle(&self, task: Resize, attempt: Attempt) -> rowkey::Result<Done> {
        match task.deed {
            Deed::Poison => return Ok(Done::Poison("it is no picture".to_owned())),
            Deed::Fail => return Err(broken()),
            Deed::FailFirst if attempt.number() == 1 => return Err(broken()),
            Deed::FailFirst | Deed::Succeed => {}
        }
        let pixels = i32::try_from(task.pixels.len()).unwrap();
        self.0.upsert(&Small { picture: task.picture, pixels }).await?;
        Ok(Done::Applied)
    }
}

/// A failure that counts as an attempt.
fn broken() -> Error {
    Error::refused(ErrorKind::Unexpected, "the resizer is down").advise("try again later")
}

fn resize(picture: u64, deed: Deed) -> Resize {
    Resize { picture, deed, pixels: String::new() }
}

/// A task that no message can hold.
fn large(picture: u64, deed: Deed) -> Resize {
    Resize { picture, deed, pixels: "#".repeat(70_000) }
}

fn tasks(account: &StorageAccount) -> Tasks<Resize> {
    Tasks::new(account.queue("jobs")).claims(account.container("claims"))
}

fn worker(account: &StorageAccount) -> Worker<Resize, Resizer> {
    Worker::new(tasks(account), Resizer(account.table("small"))).visibility(VISIBILITY)
}

/// A server with everything in place, and an account whose short waits take no time.
async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    account.table("small").create().await?;
    tasks(&account).create_if_missing().await?;
    Ok((server, account))
}

/// An account on the same server with a clock that only tests move.
fn standing(server: &Server) -> rowkey::Result<(StorageAccount, ManualClock)> {
    let clock = ManualClock::new(server.clock().now().to_chrono());
    Ok((on_clock(server, clock.clone())?, clock))
}

fn on_clock(server: &Server, clock: impl Clock + 'static) -> rowkey::Result<StorageAccount> {
    StorageAccount::builder().connection_string(server.connection_string())?.clock(clock).build()
}

/// The texts in a queue.
fn texts(snapshot: &Snapshot, queue: &str) -> Vec<String> {
    let queue = snapshot.queue(queue);
    let messages = queue.into_iter().flat_map(StoredQueue::messages);
    messages.map(|it| it.text().to_owned()).collect()
}

/// The dead letters, the newest first: the fields of their messages (`text` if a message is no JSON object),
/// with the reason, the cause and the attempts of their rows.
fn letters(snapshot: &Snapshot) -> Vec<Value> {
    let table = snapshot.table("deadletters");
    let rows = table.iter().flat_map(|table| table.entities());
    let letters = rows.filter(|row| row.row_key().starts_with("letter_")).map(|row| {
        let text = |name: &str| match row.get(name) {
            Some(edm::Value::String(text)) => text,
            _ => String::new(),
        };
        let message = text("Message") + &text("Message2") + &text("Message3");
        let object = serde_json::from_str(&message).ok().filter(Value::is_object);
        let mut letter = object.unwrap_or_else(|| serde_json::json!({ "text": message }));
        letter["reason"] = text("Reason").into();
        letter["cause"] = text("Cause").into();
        letter["id"] = text("Id").into();
        letter["attempts"] = match row.get("Attempts") {
            Some(edm::Value::Int32(attempts)) => attempts.into(),
            _ => Value::Null,
        };
        letter
    });
    letters.collect()
}

/// Redrives all dead letters; how many.
async fn redrive(account: &StorageAccount) -> rowkey::Result<u64> {
    redriven(tasks(account).dead_letters().redrive(&Selection::all()).await?)
}

fn redriven(summary: Summary) -> rowkey::Result<u64> {
    match summary.failures.into_iter().next() {
        Some(failed) => Err(failed.error),
        None => Ok(summary.done),
    }
}

/// The pictures that were made small.
fn done(snapshot: &Snapshot) -> Vec<u64> {
    let table = snapshot.table("small").unwrap();
    let mut done: Vec<_> = table.entities().map(|row| row.row_key().parse().unwrap()).collect();
    done.sort_unstable();
    done
}

async fn claims(account: &StorageAccount) -> rowkey::Result<Vec<String>> {
    let blobs = account.container("claims").blobs().all().await?;
    Ok(blobs.into_iter().map(|blob| blob.name).collect())
}
