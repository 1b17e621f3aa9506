//! Tasks that must not be lost: a photo service puts a task for each upload into a queue, and workers create
//! thumbnails. One worker dies during a task, one picture is too large for a message, and one task fails
//! until the program is fixed; all three are done in the end.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::queue::Body;
use rowkey::worker::dead_letters::Selection;
use rowkey::worker::{Attempt, Done, Handler, Step, Task, Tasks, Worker};
use rowkey::{Clock, Entity, ManualClock, StorageAccount, Table};
use rowkey_emulator::{Fault, Operation, Server};
use serde::{Deserialize, Serialize};

/// A task in the queue.
#[derive(Serialize, Deserialize)]
struct Shrink {
    photo: u64,
    format: String,
    pixels: String,
}

impl Task for Shrink {
    const KIND: &'static str = "shrink-photo";
}

/// The result of a task.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "thumbnails", row = "{photo}")]
struct Thumbnail {
    photo: u64,
    pixels: i32,
}

/// The handler. The same photo may be delivered twice, so the handler upserts.
struct Shrinker {
    thumbnails: Table,
    formats: &'static [&'static str],
}

impl Handler<Shrink> for Shrinker {
    async fn handle(&self, task: Shrink, attempt: Attempt) -> rowkey::Result<Done> {
        if !self.formats.contains(&task.format.as_str()) {
            // A retry would fail, too.
            return Ok(Done::Poison(format!("there is no decoder for {}", task.format)));
        }
        let pixels = i32::try_from(task.pixels.len() / 2).unwrap_or(i32::MAX);
        self.thumbnails.upsert(&Thumbnail { photo: task.photo, pixels }).await?;
        println!("photo {} is done in attempt {}", task.photo, attempt.number());
        Ok(Done::Applied)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Manual clocks, so that the program does not wait for messages to become visible again.
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let thumbnails = account.table("thumbnails");
    thumbnails.create().await?;
    let photo = |photo, format: &str, pixels| Shrink {
        photo,
        format: format.to_owned(),
        pixels: "#".repeat(pixels),
    };

    // Uploads. The second one is too large for a message, and is in a blob until it is done.
    let claims = account.container("claims");
    let tasks = Tasks::<Shrink>::new(account.queue("photos")).claims(claims.clone());
    tasks.create_if_missing().await?;
    tasks.put(&photo(1, "jpeg", 64)).await?;
    tasks.put(&photo(2, "jpeg", 100_000)).await?;
    tasks.put(&photo(3, "heic", 64)).await?;
    // A script in another language writes only the required fields.
    let by_hand = Body::text(r#"{"photo": 4, "format": "jpeg", "pixels": "abcd"}"#);
    tasks.queue().put(by_hand).send().await?;

    // A worker receives the first task and dies: the message is hidden, but not deleted.
    let visibility = Duration::from_secs(30);
    let worker = |formats| {
        let handler = Shrinker { thumbnails: thumbnails.clone(), formats };
        Worker::new(tasks.clone(), handler).visibility(visibility)
    };
    let power_cut = server.inject(Fault::on(Operation::InsertOrReplaceEntity).times(1).hold());
    let doomed = worker(&["jpeg"]);
    tokio::select! {
        _ = doomed.step() => unreachable!("the request is held"),
        () = power_cut.wait_until_held() => println!("the first worker died"),
    }
    drop(doomed);

    // Another worker continues. It runs until the queue is empty; a program would run until shutdown,
    // and finish the tasks that it has received.
    let second = worker(&["jpeg"]);
    while second.step().await? != Step::Idle {}
    assert!(thumbnails.get(Thumbnail::key(1)).await?.is_none(), "its message is still hidden");
    server.clock().advance(visibility);
    clock.advance(visibility);
    assert_eq!(second.step().await?, Step::Handled);
    for photo in [1, 2, 4] {
        assert!(thumbnails.get(Thumbnail::key(photo)).await?.is_some());
    }
    let counts = second.counts();
    assert_eq!((counts.handled, counts.poisoned), (3, 1));
    assert!(
        claims.blobs().all().await?.is_empty(),
        "the blob of the large task was deleted with its message"
    );

    // The third task is a dead letter, with the reason.
    let dead = tasks.dead_letters();
    let letter = dead.list(&Selection::all()).try_next().await?.ok_or("no dead letter")?;
    println!("task {} is a dead letter: {}", letter.id, letter.reason);

    // A new version has the decoder, so the task is redriven.
    assert_eq!(dead.redrive(&Selection::all()).await?.done, 1);
    let third = worker(&["jpeg", "heic"]);
    assert_eq!(third.step().await?, Step::Handled);
    assert!(thumbnails.get(Thumbnail::key(3)).await?.is_some());
    assert_eq!(dead.count(&Selection::all()).await?, 0);
    assert_eq!(third.step().await?, Step::Idle);
    println!("everything is done at {}", clock.now());
    drop(power_cut);
    Ok(())
}
