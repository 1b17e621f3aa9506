//! Jobs that end when the service does not answer, and go on while it answers at all, on a clock that waits advance.

use std::time::Duration;

use futures_util::stream;
use rowkey_client::pace::Pace;
use rowkey_client::{
    Clock as _, DynamicEntity, ErrorKind, ManualClock, Page, StorageAccount, SystemClock, Table,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};

use super::{Job, Jobs, Report, Verdict, Walk};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

const ROWS: u64 = 30;
const FIVE_MINUTES: Duration = Duration::from_secs(300);

/// A table of one partition, on a clock that waits advance.
async fn table() -> TestResult<(Server, Table, ManualClock)> {
    let server = Server::start().await?;
    let clock = ManualClock::auto_advancing(SystemClock.now());
    let text = server.connection_string();
    let account = StorageAccount::from_connection_string(text)?.table("things");
    account.create().await?;
    let rows = (0..ROWS).map(|row| DynamicEntity::new("p", format!("{row:02}")));
    Job::insert(&account, stream::iter(rows)).run().await?;
    let builder = StorageAccount::builder().connection_string(text)?.clock(clock.clone());
    Ok((server, builder.build()?.table("things"), clock))
}

/// Fifteen pages, one after the other.
fn walk(table: &Table) -> Walk<DynamicEntity> {
    Walk::new(table, |table| table.scan::<DynamicEntity>().page_size(2))
}

#[tokio::test]
async fn a_job_ends_when_nothing_is_answered_for_as_long_as_its_patience() -> TestResult {
    let (server, table, clock) = table().await?;
    let begun = clock.elapsed();
    let busy = server.inject(Fault::any().nth(4).times(u64::MAX).reject(ErrorCode::SERVER_BUSY));
    let count = Job::count(walk(&table)).patience(FIVE_MINUTES);
    let stopped = count.run().await.unwrap_err();
    assert_eq!(stopped.error.kind(), ErrorKind::Throttled);
    assert!(stopped.error.is_retryable());
    let text = stopped.error.to_string();
    assert!(text.contains("nothing was answered for too long; resume the job"), "{text}");
    let waited = clock.elapsed().saturating_sub(begun);
    assert!(waited <= FIVE_MINUTES && waited > 4 * FIVE_MINUTES / 5, "{waited:?}");
    // Half a minute between attempts.
    assert!((8..40).contains(&busy.hits()), "{}", busy.hits());
    assert_eq!(stopped.checkpoint.report().total.examined, 6);
    drop(busy);
    let rest = Job::count(walk(&table)).patience(FIVE_MINUTES).resume(*stopped.checkpoint);
    assert_eq!(rest.run().await?.total.examined, ROWS);
    Ok(())
}

#[tokio::test]
async fn a_job_that_cannot_reach_the_service_ends() -> TestResult {
    let (server, table, clock) = table().await?;
    drop(server);
    let begun = clock.elapsed();
    let rows = stream::iter([DynamicEntity::new("p", "new")]);
    let load = Job::upsert(&table, rows).patience(FIVE_MINUTES);
    let stopped = load.run().await.unwrap_err();
    assert_eq!(stopped.error.kind(), ErrorKind::Unavailable);
    let waited = clock.elapsed().saturating_sub(begun);
    assert!(waited <= FIVE_MINUTES && waited > FIVE_MINUTES / 2, "{waited:?}");

    let count = Jobs::new("count").then("things", Job::count(walk(&table))).patience(FIVE_MINUTES);
    assert!(count.run().await.unwrap_err().error.is_retryable());
    Ok(())
}

#[tokio::test]
async fn a_slow_job_that_advances_does_not_end() -> TestResult {
    let (server, table, clock) = table().await?;
    let patience = Duration::from_secs(10);
    // Every second request is refused at first. A fault does not count those that one before it matched.
    let faults: Vec<_> = (0..7)
        .map(|fault| {
            Fault::on(Operation::QueryEntities).nth(fault + 2).reject(ErrorCode::SERVER_BUSY)
        })
        .map(|fault| server.inject(fault))
        .collect();
    // Steps that take longer than its patience, at a maximum rate of its own.
    let (begun, sleeping) = (clock.elapsed(), clock.clone());
    let slow = Job::walk("slow", walk(&table), move |page: Page<DynamicEntity>| {
        let sleeping = sleeping.clone();
        async move {
            sleeping.sleep(2 * patience).await;
            Ok(Report::of(Verdict::Right, page.entities.len() as u64))
        }
    });
    let slow = slow.pace(Pace::background().entities_per_second(1)).patience(patience);
    assert_eq!(slow.run().await?.total.right, ROWS);
    assert!(faults.iter().all(|fault| fault.hits() == 1));
    assert!(clock.elapsed().saturating_sub(begun) >= 15 * 2 * patience);
    Ok(())
}
