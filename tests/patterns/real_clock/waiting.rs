//! What waits: workers, locks, logs that are flushed, paces.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::join;
use rowkey::pace::Pace;
use rowkey::patterns::{lease_lock::LeaseLock, log_blob::BlobLog};
use rowkey::worker::partitions::{Owned, Partitions};
use rowkey::worker::{Attempt, Done, Task, Tasks, Worker, Workers};
use rowkey::{DynamicEntity, StorageAccount};
use rowkey_emulator::{JournalEntry, Operation};
use rowkey_tests::TestResult;
use serde::{Deserialize, Serialize};

use super::{requests_of, start};

#[derive(Serialize, Deserialize)]
struct Job {
    number: u32,
}

impl Task for Job {
    const KIND: &'static str = "job";
}

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn count(sent: &[JournalEntry], operation: Operation) -> usize {
    sent.iter().filter(|entry| entry.operation() == operation).count()
}

async fn jobs(account: &StorageAccount) -> rowkey::Result<Tasks<Job>> {
    let tasks = Tasks::new(account.queue("jobs"));
    tasks.create_if_missing().await?;
    Ok(tasks)
}

/// Waits, a little at a time, until the condition holds.
async fn until(account: &StorageAccount, mut holds: impl FnMut() -> bool) {
    while !holds() {
        account.clock().sleep(milliseconds(20)).await;
    }
}

#[tokio::test]
async fn an_idle_worker_polls_with_increasing_delays() -> TestResult {
    let (server, account) = start().await?;
    let tasks = jobs(&account).await?;
    let handler = |_: Job, _: Attempt| async { Ok(Done::Applied) };
    // A delay is at least half of its maximum. 25 + 50 + 9 * 100 milliseconds are less than a second.
    let patient =
        Worker::new(tasks.clone(), handler).idle_backoff(milliseconds(50), milliseconds(200));
    let second = account.clock().sleep(milliseconds(1000));
    let (counts, sent) = requests_of(&server, patient.run_until(second)).await;
    assert_eq!(counts?.handled, 0);
    assert!((1..=12).contains(&sent.len()), "{} requests in a second", sent.len());

    let hasty = Worker::new(tasks, handler).idle_backoff(Duration::ZERO, Duration::ZERO);
    let pause = account.clock().sleep(milliseconds(200));
    let (counts, sent) = requests_of(&server, hasty.run_until(pause)).await;
    assert_eq!(counts?.handled, 0);
    assert!(sent.len() <= 41, "{} requests in 200 milliseconds", sent.len());
    Ok(())
}

#[tokio::test]
async fn idle_workers_of_several_queues_poll_as_each_does_alone() -> TestResult {
    let (server, account) = start().await?;
    let mut workers = Workers::new(4);
    for queue in ["jobs", "more"] {
        let tasks = Tasks::<Job>::new(account.queue(queue));
        tasks.create_if_missing().await?;
        let worker = Worker::new(tasks, |_: Job, _: Attempt| async { Ok(Done::Applied) });
        workers = workers.worker(1, worker.idle_backoff(milliseconds(50), milliseconds(200)));
    }
    let second = account.clock().sleep(milliseconds(1000));
    let (counts, sent) = requests_of(&server, workers.run_until(second)).await;
    assert!(counts?.iter().all(|queue| queue.counts.handled == 0));
    assert!((2..=24).contains(&sent.len()), "{} requests in a second", sent.len());
    Ok(())
}

#[tokio::test]
async fn a_program_of_a_set_looks_at_its_interval() -> TestResult {
    let (server, account) = start().await?;
    let locks = account.container("locks");
    locks.create().await?;
    let partitions = Partitions::new(locks, "set", 2).look_every(milliseconds(1000));
    let work = |owned: Owned| async move {
        owned.stopping().await;
        Ok::<_, rowkey::Error>(())
    };
    let seconds = account.clock().sleep(milliseconds(2500));
    let (ended, sent) = requests_of(&server, partitions.run_until(work, seconds)).await;
    ended?;
    // The first one, one a quarter of a second later, since the program did not own its share then, and others.
    let looks = count(&sent, Operation::ListBlobs);
    assert!((1..=4).contains(&looks), "{looks} looks");
    assert!(sent.len() <= 5 + 2 * 5 + looks + 4, "{} requests", sent.len());
    Ok(())
}

#[tokio::test]
async fn a_message_is_renewed_after_each_third_of_its_visibility_timeout() -> TestResult {
    let (server, account) = start().await?;
    let tasks = jobs(&account).await?;
    tasks.put(&Job { number: 1 }).await?;
    let handler = move |_: Job, attempt: Attempt| {
        let account = account.clone();
        async move {
            let mut left = attempt.remaining();
            // Until it was renewed.
            until(&account, || {
                attempt.remaining() > std::mem::replace(&mut left, attempt.remaining())
            })
            .await;
            Ok(Done::Applied)
        }
    };
    let worker = Worker::new(tasks, handler).visibility(Duration::from_secs(9));
    let (step, sent) = requests_of(&server, worker.step()).await;
    assert_eq!(step?, rowkey::worker::Step::Handled);
    assert_eq!(count(&sent, Operation::UpdateMessage), 1);
    assert_eq!(sent.len(), 3, "received, renewed, deleted");
    Ok(())
}

#[tokio::test]
async fn a_lock_is_renewed_during_work_and_waited_for() -> TestResult {
    let (server, account) = start().await?;
    account.container("locks").create().await?;
    let lock =
        LeaseLock::new(account.container("locks").blob("lock")).term(Duration::from_secs(15));
    let leases = || server.journal().count(Operation::LeaseBlob);
    let (done, sent) = requests_of(&server, async {
        let held = lock.acquire().await?;
        let before = leases();
        let (next, done) = join(lock.acquire(), async {
            // One attempt of the other in vain, and a renewal: a third of the term is five seconds.
            let done = held.guard(async |_| until(&account, || leases() >= before + 2).await).await;
            held.release().await.map(|_| done.done())
        })
        .await;
        next?.release().await?;
        done
    })
    .await;
    assert_eq!(done?, Some(()));
    // Three seconds between two attempts: none at zero and at three, one after the work.
    let leases = count(&sent, Operation::LeaseBlob);
    assert!(leases <= 12 && sent.len() <= 20, "{leases} of {} requests", sent.len());
    Ok(())
}

#[tokio::test]
async fn an_idle_log_sends_no_request() -> TestResult {
    let (server, account) = start().await?;
    let container = account.container("logs");
    container.create().await?;
    let log = BlobLog::new(container, "web").flush_every(milliseconds(10));
    let writer = log.writer()?;
    let pause = account.clock().sleep(milliseconds(300));
    let (ended, sent) = requests_of(&server, writer.run_until(pause)).await;
    ended?;
    assert_eq!(sent.len(), 0, "flushes of nothing");

    let start = account.clock().now();
    let logging = async {
        for number in 0..5 {
            writer.log(&format!("line {number}")).await.unwrap();
            until(&account, || writer.waiting().lines == 0).await;
        }
    };
    let (ended, sent) = requests_of(&server, writer.run_until(logging)).await;
    ended?;
    // A blob is made, each line may be a block of its own, and the end is noted.
    assert!(sent.len() <= 2 * (1 + 5 + 1), "{} requests for five lines", sent.len());
    let end = account.clock().now();
    let day = chrono::TimeDelta::days(1);
    let lines: Vec<_> = log.read(start - day..end + day).try_collect().await?;
    assert_eq!(lines.len(), 5);
    Ok(())
}

#[tokio::test]
async fn a_maximum_rate_is_respected() -> TestResult {
    let (server, account) = start().await?;
    let pace = Pace::background().entities_per_second(100);
    let table = account.table("jobs");
    table.create_if_missing().await?;
    let start = account.clock().now();
    let (stored, sent) = requests_of(&server, async {
        for batch in 0..5 {
            let rows = (0..10).map(|row| DynamicEntity::new("p", format!("{batch}-{row}")));
            let rows = rows.fold(table.transaction(), |all, row| all.upsert(&row));
            pace.scope(rows.submit()).await?;
        }
        Ok::<_, rowkey::Error>(())
    })
    .await;
    stored?;
    assert_eq!(sent.len(), 5);
    // The first goes at once, and 40 more take 400 milliseconds at a hundred a second.
    let taken = account.clock().now() - start;
    assert!(taken >= chrono::TimeDelta::milliseconds(390), "{taken}");
    Ok(())
}
