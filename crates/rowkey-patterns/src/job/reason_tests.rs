//! A job that ends early tells why: each reason is another one, and names what it is about.

use std::time::Duration;

use futures_util::stream;
use rowkey_client::pace::Pace;
use rowkey_client::{
    Clock as _, DynamicEntity, ErrorKind, ManualClock, StorageAccount, SystemClock, Table,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};

use super::{Checkpoint, Interrupted, Job, Jobs, Reason, Walk};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A table of 10 rows in a partition each, on a clock that waits advance.
async fn table() -> TestResult<(Server, Table)> {
    let server = Server::start().await?;
    let builder = StorageAccount::builder().connection_string(server.connection_string())?;
    let clock = ManualClock::auto_advancing(SystemClock.now());
    let table = builder.clock(clock).build()?.table("things");
    table.create().await?;
    Job::insert(&table, stream::iter(rows(10, 1))).run().await?;
    Ok((server, table))
}

fn rows(count: usize, value: i32) -> impl Iterator<Item = DynamicEntity> {
    (0..count).map(move |row| {
        let mut row = DynamicEntity::new(format!("secret-{row}"), "secret");
        row.set("Value", value);
        row
    })
}

fn count(
    table: &Table,
) -> Job<'static, super::Walking<super::Keys, impl super::PageStep<super::Keys> + use<>>> {
    Job::count(Walk::keys(table))
}

/// Checks the reason and the text of the error, and that no key is in it. Returns the checkpoint.
fn is(stopped: Interrupted, reason: Reason, text: &str) -> Checkpoint {
    assert_eq!(stopped.reason, reason, "{stopped}");
    let shown = stopped.to_string();
    assert!(shown.contains(text), "{shown}");
    assert!(!shown.contains("secret") && !format!("{stopped:?}").contains("secret"), "{shown}");
    *stopped.checkpoint
}

#[tokio::test]
async fn each_reason_is_another_one() -> TestResult {
    let (server, table) = table().await?;
    // All exist with another value.
    let load = || Job::insert(&table, stream::iter(rows(10, 2))).concurrency(1);
    let stopped = load().stop_after(2).run().await.unwrap_err();
    let text = "job insert: too many items failed, 3 of 3; see the problems of the report";
    let checkpoint = is(stopped, Reason::TooManyFailed, text);

    let stopped = count(&table).resume(checkpoint.clone()).run().await.unwrap_err();
    let text = "Job on things: the checkpoint belongs to the job `insert`, not to `count`";
    is(stopped, Reason::Checkpoint, text);
    let several = || Jobs::new("several").then("first", count(&table));
    let stopped = several().resume(checkpoint).run().await.unwrap_err();
    is(stopped, Reason::Checkpoint, "Jobs on several: the checkpoint belongs to the job `insert`");

    let denied = Fault::on(Operation::QueryEntities).reject(ErrorCode::AUTHENTICATION_FAILED);
    let denied = server.inject(denied);
    let stopped = count(&table).run().await.unwrap_err();
    assert_eq!(stopped.error.kind(), ErrorKind::Auth);
    is(stopped, Reason::Failed, "job count: QueryEntities on things: ");
    drop(denied);

    let over = Pace::background().until(table.account().clock().now());
    let stopped = count(&table).pace(over).run().await.unwrap_err();
    is(stopped, Reason::Late, "the deadline has passed; resume the job");
    let busy = server.inject(Fault::any().reject(ErrorCode::SERVER_BUSY));
    let impatient = several().patience(Duration::from_secs(60));
    let stopped = impatient.run().await.unwrap_err();
    is(stopped, Reason::Late, "nothing was answered for too long; resume the job");
    drop(busy);
    Ok(())
}

#[tokio::test]
async fn a_stream_that_has_become_shorter_is_a_reason_of_its_own() -> TestResult {
    let (server, table) = table().await?;
    let load = |count| Job::upsert(&table, stream::iter(rows(count, 2)));
    let denied = Fault::on(Operation::Transaction).nth(4).reject(ErrorCode::AUTHENTICATION_FAILED);
    let denied = server.inject(denied);
    let stopped = load(10).concurrency(1).run().await.unwrap_err();
    drop(denied);
    let checkpoint = is(stopped, Reason::Failed, "job upsert: ");
    let stopped = load(1).resume(checkpoint.clone()).run().await.unwrap_err();
    is(stopped, Reason::Stream, "groups of an earlier run; resume with the same stream");
    assert_eq!(load(10).resume(checkpoint).run().await?.total.right, 10);
    Ok(())
}
