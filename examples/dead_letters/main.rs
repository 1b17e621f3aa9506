//! Tasks that fail, and their repair: a photo service receives formats that it does not support. The operator
//! inspects what failed and why, fixes the program, redrives the tasks that can now succeed, and deletes the
//! rest.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::TryStreamExt as _;
use rowkey::worker::dead_letters::{Cause, Inspected, Selection};
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{Error, ErrorKind, StorageAccount};
use rowkey_emulator::Server;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Shrink {
    photo: u64,
    format: String,
}

impl Task for Shrink {
    const KIND: &'static str = "shrink-photo";
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let tasks = Tasks::<Shrink>::new(account.queue("photos"));
    tasks.create_if_missing().await?;
    for (photo, format) in [(1, "jpeg"), (2, "heic"), (3, "pdf"), (4, "heic")] {
        tasks.put(&Shrink { photo, format: format.into() }).await?;
    }

    let knows_heic = Arc::new(AtomicBool::new(false));
    let decoder = Arc::clone(&knows_heic);
    let worker = Worker::new(tasks.clone(), move |task: Shrink, _: Attempt| {
        let knows_heic = decoder.load(Ordering::Relaxed);
        async move {
            match &*task.format {
                "jpeg" => Ok(Done::Applied),
                "heic" if knows_heic => Ok(Done::Applied),
                "heic" => Err(Error::refused(ErrorKind::Unexpected, "no decoder for heic")),
                other => Ok(Done::Poison(format!("{other} is no photo"))),
            }
        }
    });
    let worker = worker.max_attempts(1);
    while worker.step().await? != Step::Idle {}

    // ANCHOR: operator
    let dead = tasks.dead_letters();
    let mut letters = dead.list(&Selection::all());
    while let Some(letter) = letters.try_next().await? {
        println!("{}: {} ({})", letter.put_aside, letter.reason, letter.cause);
        if let Inspected::Task(task) = letter.task {
            println!("    photo {}", task.photo);
        }
    }

    // The program gets a decoder, and the tasks that failed for want of it are put back.
    knows_heic.store(true, Ordering::Relaxed);
    let no_decoder = Selection::all().reason_contains("no decoder for heic");
    let summary = dead.redrive(&no_decoder).await?;
    assert_eq!((summary.done, summary.failed), (2, 0));

    // The rest is kept as a file, and deleted.
    let rejected = Selection::all().cause(Cause::Rejected);
    let mut file = Vec::new();
    assert_eq!(dead.export(&rejected, &mut file).await?, 1);
    assert_eq!(dead.purge(&rejected).await?.done, 1);
    // ANCHOR_END: operator

    for _ in 0..2 {
        assert_eq!(worker.step().await?, Step::Handled);
    }
    assert_eq!(dead.count(&Selection::all()).await?, 0);
    print!("{}", String::from_utf8(file)?);
    Ok(())
}
