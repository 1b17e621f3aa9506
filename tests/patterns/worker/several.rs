//! Workers of several queues with one limit: weights, shares of empty queues, what fails alone, and what it costs.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::join;
use rowkey::worker::{Attempt, Done, Handler, Task, Tasks, Worker, Workers};
use rowkey::{Attempt as Sent, Error, ErrorKind, Policy, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{stopped_at_every_request, waiting};
use serde::{Deserialize, Serialize};

use super::super::programs::failing_at_each_request;
use super::{Deed, VISIBILITY, done, large, letters, standing, start, texts};

const QUEUES: [&str; 3] = ["urgent", "normal", "bulk"];

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Send {
    number: usize,
    #[serde(default)]
    to: Option<String>,
}

impl Task for Send {
    const KIND: &'static str = "send";

    fn key(&self) -> Option<String> {
        self.to.clone()
    }
}

fn of(account: &StorageAccount, queue: &str) -> Tasks<Send> {
    Tasks::new(account.queue(queue))
}

/// A server whose queues have as many tasks as `counts` says.
async fn filled(counts: [usize; 3]) -> TestResult<(Server, StorageAccount)> {
    let (server, account) = start().await?;
    for (queue, count) in QUEUES.into_iter().zip(counts) {
        of(&account, queue).create_if_missing().await?;
        for number in 0..count {
            of(&account, queue).put(&Send { number, to: None }).await?;
        }
    }
    Ok((server, account))
}

/// Completes when the condition holds, looking each time the workers are polled.
fn when(
    condition: impl Fn() -> bool + std::marker::Send,
) -> impl Future<Output = ()> + std::marker::Send {
    poll_fn(move |_| if condition() { Poll::Ready(()) } else { Poll::Pending })
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

async fn turns() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

fn handled(workers: &Workers) -> u64 {
    workers.counts().iter().map(|queue| queue.counts.handled).sum()
}

/// What handlers of several queues do, in order.
#[derive(Clone, Default)]
struct Log {
    begun: Arc<Mutex<Vec<&'static str>>>,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// How many handlers run before the first one ends.
    at_once: usize,
}

impl Log {
    fn handler(&self, queue: &'static str) -> impl Handler<Send> + use<> {
        let log = self.clone();
        move |_: Send, _: Attempt| {
            let log = log.clone();
            async move {
                log.begun.lock().unwrap().push(queue);
                let now = log.now.fetch_add(1, Ordering::SeqCst) + 1;
                log.most.fetch_max(now, Ordering::SeqCst);
                tokio::task::yield_now().await;
                until(|| log.most.load(Ordering::SeqCst) >= log.at_once).await;
                log.now.fetch_sub(1, Ordering::SeqCst);
                Ok(Done::Applied)
            }
        }
    }

    fn worker(
        &self,
        account: &StorageAccount,
        queue: &'static str,
    ) -> Worker<Send, impl Handler<Send> + use<>> {
        let least = Duration::from_secs(1);
        Worker::new(of(account, queue), self.handler(queue)).idle_backoff(least, least * 2)
    }

    /// How many of the first tasks were from each queue.
    fn first(&self, count: usize) -> [usize; 3] {
        let begun = self.begun.lock().unwrap();
        QUEUES.map(|queue| begun[..count].iter().filter(|it| **it == queue).count())
    }
}

#[tokio::test]
async fn tasks_that_begin_are_divided_by_the_weights() -> TestResult {
    for places in [1, 4] {
        let (server, _) = filled([80, 50, 30]).await?;
        let account = standing(&server)?.0;
        let log = Log { at_once: places, ..Log::default() };
        let workers = Workers::new(places)
            .worker(6, log.worker(&account, "urgent"))
            .worker(3, log.worker(&account, "normal"))
            .worker(1, log.worker(&account, "bulk"));
        let all_places_are_used = workers.run_until(when(|| handled(&workers) == 160));
        tokio::time::timeout(Duration::from_secs(300), all_places_are_used).await??;
        assert_eq!(log.most.load(Ordering::SeqCst), places, "no more");
        // With more places, the order depends on which queue answers first.
        if places == 1 {
            let first = log.first(100);
            for (count, share) in first.into_iter().zip([60, 30, 10]) {
                assert!(count.abs_diff(share) <= 1, "{first:?}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn no_queue_waits_for_ever_and_an_empty_one_leaves_its_share() -> TestResult {
    let (server, _) = filled([60, 0, 60]).await?;
    let account = standing(&server)?.0;
    let log = Log::default();
    let workers = Workers::new(1)
        .worker(20, log.worker(&account, "urgent"))
        .worker(1000, log.worker(&account, "normal"))
        .worker(1, log.worker(&account, "bulk"));
    workers.run_until(when(|| handled(&workers) == 120)).await?;
    let [urgent, _, bulk] = log.first(42);
    assert!(urgent >= 39 && bulk >= 2, "{urgent} and {bulk}");
    Ok(())
}

#[tokio::test]
async fn a_worker_takes_no_more_places_than_its_own_limit() -> TestResult {
    let (server, _) = filled([20, 0, 20]).await?;
    let account = standing(&server)?.0;
    let (all, slow) = (Log::default(), Log::default());
    let workers = Workers::new(4)
        .worker(1, all.worker(&account, "urgent"))
        .worker(50, slow.worker(&account, "bulk").concurrency(2));
    workers.run_until(when(|| handled(&workers) == 40)).await?;
    assert!(slow.most.load(Ordering::SeqCst) <= 2);
    let places: Vec<_> = workers.counts().into_iter().map(|it| it.counts.handled).collect();
    assert_eq!(places, [20, 20]);
    Ok(())
}

#[tokio::test]
async fn an_idle_queue_costs_what_it_costs_alone() -> TestResult {
    let (server, _) = filled([0; 3]).await?;
    let mut clocks = Vec::new();
    let mut workers = Workers::new(8);
    for queue in QUEUES {
        let (account, clock) = waiting(&server)?;
        let worker = Worker::new(of(&account, queue), Log::default().handler(queue));
        workers = workers.worker(1, worker);
        clocks.push(clock);
    }
    // After 15 minutes, the server refuses the date of the requests.
    let long = Duration::from_secs(600);
    let all_waited =
        || clocks.iter().all(|clock| clock.slept().into_iter().sum::<Duration>() >= long);
    let before = server.journal();
    workers.run_until(when(all_waited)).await?;
    let sent = server.journal().since(&before);
    assert_eq!(sent.len(), sent.count(Operation::GetMessages), "nothing else is sent");
    let waits: usize = clocks.iter().map(|clock| clock.slept().len()).sum();
    assert!(sent.len().abs_diff(waits) <= 3, "a request for each wait: {waits}");
    for clock in clocks {
        let (waits, time) = (clock.slept().len(), clock.slept().into_iter().sum::<Duration>());
        // At first the waits are shorter.
        let steady = u64::try_from(waits).unwrap().saturating_sub(5);
        let each = time.as_secs() / steady;
        assert!((15..=30).contains(&each), "a request each {each} seconds");
    }
    Ok(())
}

#[tokio::test]
async fn a_queue_that_fails_rests_while_the_others_continue() -> TestResult {
    let (server, _) = filled([3, 0, 0]).await?;
    let (account, clock) = standing(&server)?;
    account.queue("bulk").delete_queue().await?;
    let log = Log::default();
    let workers = Workers::new(2)
        .worker(1, log.worker(&account, "urgent"))
        .worker(1, log.worker(&account, "bulk"));
    let (counts, ()) = join(workers.run_until(when(|| handled(&workers) == 4)), async {
        until(|| handled(&workers) == 3 && workers.counts()[1].failures == 1).await;
        let failure = workers.counts()[1].failure.clone().unwrap();
        assert!(failure.contains("QueueNotFound"), "{failure}");
        server.clock().advance(Duration::from_secs(60));
        of(&account, "bulk").create_if_missing().await.unwrap();
        of(&account, "bulk").put(&Send { number: 1, to: None }).await.unwrap();
        // The queue is tried again a minute later. The other one sleeps meanwhile.
        turns().await;
        assert_eq!(workers.counts()[1].counts.handled, 0);
        clock.advance(Duration::from_secs(60));
    })
    .await;
    let counts = counts?;
    assert_eq!((counts[1].counts.handled, counts[1].failures), (1, 1));
    assert_eq!((&counts[1].failure, &*counts[1].queue), (&None, "bulk"));
    assert_eq!((counts[0].failures, counts[0].counts.handled), (0, 3));
    Ok(())
}

/// The service does not answer for a queue that was empty, while another one gets tasks.
#[tokio::test]
async fn an_empty_queue_that_is_not_answered_does_not_stop_the_others() -> TestResult {
    let (server, _) = filled([0; 3]).await?;
    let (account, clock) = standing(&server)?;
    let log = Log::default();
    let long = Duration::from_secs(100);
    let workers = Workers::new(2)
        .worker(1, log.worker(&account, "urgent").idle_backoff(long, long))
        .worker(1, log.worker(&account, "normal"));
    let tasks = of(&account, "urgent");
    let held = server.inject(Fault::on(Operation::GetMessages).resource("normal").nth(2).hold());
    let (counts, put) = join(workers.run_until(when(|| handled(&workers) == 2)), async {
        until(|| server.journal().count(Operation::GetMessages) == 2).await;
        turns().await;
        // The other queue looks only later.
        clock.advance(Duration::from_secs(2));
        held.wait_until_held().await;
        for number in 0..2 {
            tasks.put(&Send { number, to: None }).await?;
        }
        clock.advance(long);
        until(|| handled(&workers) == 2).await;
        held.release();
        Ok::<_, Error>(())
    })
    .await;
    put?;
    assert_eq!(counts?[0].counts.handled, 2);
    Ok(())
}

#[tokio::test]
async fn workers_fail_when_all_queues_have_or_when_asked_to() -> TestResult {
    let (_server, account) = filled([3, 0, 0]).await?;
    let log = Log::default();
    for queue in ["normal", "bulk"] {
        account.queue(queue).delete_queue().await?;
    }
    let none = Workers::new(2)
        .worker(1, log.worker(&account, "normal"))
        .worker(1, log.worker(&account, "bulk"));
    let error = none.run_until(pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(none.counts().iter().all(|queue| queue.failures == 1));

    let strict = Workers::new(8)
        .worker(1, log.worker(&account, "urgent"))
        .worker(1, log.worker(&account, "bulk"))
        .stop_on_failure();
    let error = strict.run_until(pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let counts = strict.counts();
    assert_eq!(counts[0].counts.at_work, 0, "tasks that were received are finished");
    assert_eq!(counts[0].failures, 0);
    Ok(())
}

#[tokio::test]
async fn workers_without_queues_end_on_shutdown() -> TestResult {
    assert_eq!(Workers::new(2).run_until(async {}).await?, []);
    Ok(())
}

/// Panics in the loop of a worker, not in a handler.
struct Defective;

impl Policy for Defective {
    fn before(&self, _: &mut Sent<'_>) -> rowkey::Result<()> {
        panic!("a defect of a policy")
    }
}

#[tokio::test]
async fn a_panic_of_one_worker_does_not_stop_the_others() -> TestResult {
    let (server, account) = filled([3, 3, 0]).await?;
    let builder = StorageAccount::builder().connection_string(server.connection_string())?;
    let defective = builder.policy(Arc::new(Defective)).build()?;
    let log = Log::default();
    let workers = Workers::new(1)
        .worker(1, log.worker(&defective, "urgent"))
        .worker(1, log.worker(&account, "normal"));
    let counts = workers.run_until(when(|| handled(&workers) == 3)).await?;
    assert_eq!((counts[0].failures, counts[1].counts.handled), (1, 3));
    let failure = counts[0].failure.as_deref().unwrap();
    assert!(failure.contains("panicked: a defect of a policy"), "{failure}");
    Ok(())
}

#[tokio::test]
async fn the_circuit_breaker_is_of_one_queue() -> TestResult {
    let (server, _) = filled([20, 20, 0]).await?;
    let (account, _clock) = standing(&server)?;
    let tried = Arc::new(AtomicUsize::new(0));
    let of_handler = Arc::clone(&tried);
    let fails = move |_: Send, _: Attempt| {
        of_handler.fetch_add(1, Ordering::SeqCst);
        async { Err(Error::refused(ErrorKind::Unavailable, "the mail server is down")) }
    };
    let log = Log::default();
    let workers = Workers::new(2)
        .worker(9, Worker::new(of(&account, "urgent"), fails))
        .worker(1, log.worker(&account, "normal"));
    let counts = workers.run_until(when(|| handled(&workers) == 20)).await?;
    assert_eq!(counts[1].counts.handled, 20);
    let tried = tried.load(Ordering::SeqCst);
    assert!((5..=7).contains(&tried), "it stopped after 5 failures: {tried}");
    Ok(())
}

#[tokio::test]
async fn the_shutdown_has_one_deadline_for_all_queues() -> TestResult {
    let (server, _) = filled([1, 1, 0]).await?;
    let (account, clock) = standing(&server)?;
    let begun = Arc::new(AtomicUsize::new(0));
    let worker = |queue| {
        let begun = Arc::clone(&begun);
        let hangs = move |_: Send, _: Attempt| {
            begun.fetch_add(1, Ordering::SeqCst);
            pending::<rowkey::Result<Done>>()
        };
        // Its own deadline is not used.
        Worker::new(of(&account, queue), hangs).shutdown_deadline(Duration::from_secs(3600))
    };
    let workers = Workers::new(2)
        .worker(1, worker("urgent"))
        .worker(1, worker("normal"))
        .shutdown_deadline(Duration::from_secs(5));
    let is_at_work = || begun.load(Ordering::SeqCst) == 2;
    let (counts, ()) = join(workers.run_until(when(is_at_work)), async {
        until(|| clock.slept().contains(&Duration::from_secs(5))).await;
        turns().await;
        clock.advance(Duration::from_secs(5));
    })
    .await;
    for queue in counts? {
        assert_eq!((queue.counts.handed_back, queue.counts.at_work), (1, 0));
    }
    Ok(())
}

#[tokio::test]
async fn a_task_is_tried_alone_among_all_queues() -> TestResult {
    let (server, account) = filled([1, 12, 0]).await?;
    // Its workers died twice.
    for _ in 0..2 {
        let second = Duration::from_secs(1);
        assert_eq!(account.queue("urgent").receive(1, second).await?.len(), 1);
        server.clock().advance(second);
    }
    let account = standing(&server)?.0;
    let (now, suspect) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
    let worker = |queue: &'static str| {
        let (now, suspect) = (Arc::clone(&now), Arc::clone(&suspect));
        let handler = move |_: Send, _: Attempt| {
            let (now, suspect) = (Arc::clone(&now), Arc::clone(&suspect));
            async move {
                let others = now.fetch_add(1, Ordering::SeqCst);
                if queue == "urgent" {
                    turns().await;
                    suspect.store(others.max(now.load(Ordering::SeqCst) - 1), Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(Done::Applied)
            }
        };
        Worker::new(of(&account, queue), handler).max_attempts(2)
    };
    let workers = Workers::new(4).worker(1, worker("normal")).worker(1, worker("urgent"));
    workers.run_until(when(|| handled(&workers) == 13)).await?;
    assert_eq!(suspect.load(Ordering::SeqCst), 0, "no task of the other queue ran beside it");
    Ok(())
}

#[tokio::test]
async fn a_key_is_of_a_kind_of_task_in_all_queues() -> TestResult {
    let (server, account) = filled([0; 3]).await?;
    for queue in QUEUES {
        for number in 0..4 {
            of(&account, queue).put(&Send { number, to: Some("ada".into()) }).await?;
        }
    }
    let (account, log) = (standing(&server)?.0, Log::default());
    let mut workers = Workers::new(8);
    for queue in QUEUES {
        workers = workers.worker(1, log.worker(&account, queue));
    }
    workers.run_until(when(|| handled(&workers) == 12)).await?;
    assert_eq!(log.most.load(Ordering::SeqCst), 1);
    Ok(())
}

/// Two queues, on one of which tasks fail. It ends when all four tasks have ended, or after `seconds`: each
/// wait of an idle queue moves the clock.
async fn work(account: &StorageAccount, seconds: i64) -> rowkey::Result<u64> {
    let idle = (Duration::from_secs(1), Duration::from_secs(4));
    let jobs = super::worker(account)
        .retry_backoff(Duration::ZERO, Duration::ZERO)
        .idle_backoff(idle.0, idle.1);
    let small = account.table("small");
    let handler = move |task: Send, _: Attempt| {
        let small = small.clone();
        async move {
            if task.number == 0 {
                return Ok(Done::Poison("it cannot be sent".to_owned()));
            }
            small.upsert(&super::Small { picture: 100, pixels: 0 }).await?;
            Ok(Done::Applied)
        }
    };
    let sends = Worker::new(of(account, "urgent"), handler)
        .visibility(VISIBILITY)
        .retry_backoff(Duration::ZERO, Duration::ZERO)
        .idle_backoff(idle.0, idle.1);
    let workers = Workers::new(2).worker(2, sends).worker(1, jobs);
    let until = account.clock().now() + TimeDelta::seconds(seconds);
    let ended = || -> u64 {
        workers.counts().iter().map(|it| it.counts.handled + it.counts.poisoned).sum()
    };
    workers.run_until(when(|| ended() == 4 || account.clock().now() >= until)).await?;
    Ok(ended())
}

#[tokio::test]
async fn tasks_of_all_queues_are_done_once_after_any_fault() -> TestResult {
    let (server, account) = filled([2, 0, 0]).await?;
    super::tasks(&account).put(&large(7, Deed::Succeed)).await?;
    super::tasks(&account).put(&large(8, Deed::FailFirst)).await?;
    let recover = async |account: &StorageAccount| -> TestResult {
        // What is left of the four, at last an empty queue.
        for _ in 0..10 {
            if work(account, 30).await? == 0 {
                return Ok(());
            }
        }
        Err("the queues do not become empty".into())
    };
    let invariants = |snapshot: &Snapshot| {
        assert_eq!(done(snapshot), [7, 8, 100]);
        assert_eq!(letters(snapshot).len(), 1);
        for queue in ["jobs", "urgent"] {
            assert_eq!(texts(snapshot, queue), [""; 0]);
        }
    };
    let failing = async |account: &StorageAccount| drop(work(account, 30).await);
    failing_at_each_request(&server, 28, failing, recover, invariants).await?;
    let scenario = async |account: &StorageAccount| work(account, 30).await;
    stopped_at_every_request(&server, scenario, recover, invariants).await?;
    Ok(())
}
