//! Workers that can be left alone: handlers that panic, block, hang and fail, dependencies that are down,
//! shutdowns with a deadline.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join;
use rowkey::queue::Body;
use rowkey::worker::dead_letters::Selection;
use rowkey::worker::{Attempt, Done, Handler, Step, Task, Tasks, Worker};
use rowkey::{Credential, Error, ErrorKind, ManualClock, StorageAccount};
use rowkey_emulator::{Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::once;
use serde::{Deserialize, Serialize};

use serde_json::Value;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use super::{
    Deed, Resize, Resizer, VISIBILITY, done, letters, redrive, resize, standing, start, tasks,
    texts, worker,
};

/// Completes when the condition holds, looking each time the worker is polled.
fn when(condition: impl Fn() -> bool + Send) -> impl Future<Output = ()> + Send {
    poll_fn(move |_| if condition() { Poll::Ready(()) } else { Poll::Pending })
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

fn advance(server: &Server, clock: &ManualClock, by: Duration) {
    clock.advance(by);
    server.clock().advance(by);
}

fn unavailable() -> Error {
    Error::refused(ErrorKind::Unavailable, "the resizer is down")
}

/// Processes tasks while its dependency is available.
fn while_up(up: &Arc<AtomicBool>) -> impl Handler<Resize> + use<> {
    let up = Arc::clone(up);
    move |_: Resize, _: Attempt| {
        let up = up.load(Ordering::Relaxed);
        async move { if up { Ok(Done::Applied) } else { Err(unavailable()) } }
    }
}

/// Waits until the `n`-th sleep that is not one of a renewal, and says how long it is.
async fn paused(clock: &ManualClock, n: usize) -> Duration {
    let pauses = || -> Vec<_> {
        clock.slept().into_iter().filter(|slept| *slept != VISIBILITY / 3).collect()
    };
    until(|| pauses().len() >= n).await;
    pauses()[n - 1]
}

#[tokio::test]
async fn a_panic_of_a_handler_fails_only_its_message() -> TestResult {
    let (server, account) = start().await?;
    for picture in 0..8 {
        tasks(&account).put(&resize(picture, Deed::Succeed)).await?;
    }
    let small = account.table("small");
    let handler = move |task: Resize, _: Attempt| {
        let small = small.clone();
        async move {
            assert!(task.picture != 3, "no picture has number 3");
            small.upsert(&super::Small { picture: task.picture, pixels: 0 }).await?;
            Ok(Done::Applied)
        }
    };
    let worker = Worker::new(tasks(&account), handler).concurrency(8).max_attempts(1);
    let ended = || worker.counts().handled + worker.counts().poisoned == 8;
    let counts = worker.run_until(when(ended)).await?;
    assert_eq!((counts.handled, counts.poisoned), (7, 1));
    assert_eq!(done(&server.snapshot()), [0, 1, 2, 4, 5, 6, 7]);
    let kept = letters(&server.snapshot()).remove(0);
    assert_eq!(kept["task"]["picture"], 3);
    assert_eq!(kept["cause"], "Panic");
    assert_eq!(kept["reason"], "the handler panicked: no picture has number 3");
    Ok(())
}

/// The worker has one thread, which a handler keeps for three times as long as messages are hidden.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_handler_does_not_delay_others() -> TestResult {
    let (server, account) = start().await?;
    for picture in [1, 2] {
        tasks(&account).put(&resize(picture, Deed::Succeed)).await?;
    }
    let (account, clock) = standing(&server)?;
    let (go, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let begun = Arc::new(AtomicUsize::new(0));
    let handler = {
        let begun = Arc::clone(&begun);
        move |task: Resize, _: Attempt| {
            let (blocked, begun) = (Arc::clone(&blocked), Arc::clone(&begun));
            async move {
                begun.fetch_add(1, Ordering::Relaxed);
                if task.picture == 1 {
                    until(|| begun.load(Ordering::Relaxed) == 2).await;
                    let _ = blocked.lock().unwrap().recv();
                } else {
                    until(|| begun.load(Ordering::Relaxed) == 3).await;
                }
                Ok(Done::Applied)
            }
        }
    };
    let worker = Worker::new(tasks(&account), handler).concurrency(2).visibility(VISIBILITY);
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(worker.run_until(when(|| worker.counts().handled == 2)))
    });
    until(|| begun.load(Ordering::Relaxed) == 2).await;
    for turn in 1..=9 {
        until(|| clock.slept().len() >= 2 + 4 * (turn - 1)).await;
        advance(&server, &clock, VISIBILITY / 3);
        until(|| server.journal().count(Operation::UpdateMessage) >= 2 * turn).await;
    }
    begun.fetch_add(1, Ordering::Relaxed);
    go.send(())?;
    let counts = tokio::task::spawn_blocking(|| thread.join()).await?.unwrap()?;
    assert_eq!((counts.handled, counts.lost), (2, 0));
    Ok(())
}

#[tokio::test]
async fn an_unavailable_dependency_causes_no_dead_letter() -> TestResult {
    let (server, account) = start().await?;
    for picture in 0..50 {
        tasks(&account).put(&resize(picture, Deed::Succeed)).await?;
    }
    let (account, clock) = standing(&server)?;
    let up = Arc::new(AtomicBool::new(false));
    let worker = Worker::new(tasks(&account), while_up(&up)).visibility(VISIBILITY);
    for second in 0.. {
        up.store(second >= 40, Ordering::Relaxed);
        while worker.step().await? != Step::Idle {}
        if worker.counts().handled + worker.counts().poisoned == 50 {
            break;
        }
        advance(&server, &clock, Duration::from_secs(1));
    }
    let counts = worker.counts();
    assert_eq!((counts.handled, counts.poisoned, counts.retried), (50, 0, 0));
    assert!(counts.deferred >= 50);
    Ok(())
}

#[tokio::test]
async fn transient_failures_count_after_the_maximum_transient_time() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let (account, clock) = standing(&server)?;
    let handler = |_: Resize, _: Attempt| async { Err(unavailable()) };
    let patience = Duration::from_secs(3600);
    let worker = Worker::new(tasks(&account), handler).max_attempts(1).patience(patience);
    assert_eq!(worker.step().await?, Step::Deferred);
    advance(&server, &clock, patience);
    assert_eq!(worker.step().await?, Step::Poisoned);
    Ok(())
}

#[tokio::test]
async fn the_circuit_breaker_stops_receiving_until_a_trial_message_succeeds() -> TestResult {
    let (server, account) = start().await?;
    for picture in 0..20 {
        tasks(&account).put(&resize(picture, Deed::Succeed)).await?;
    }
    let (account, clock) = standing(&server)?;
    let up = Arc::new(AtomicBool::new(false));
    let worker = Worker::new(tasks(&account), while_up(&up))
        .visibility(VISIBILITY)
        .breaker(4)
        .concurrency(2)
        .idle_backoff(Duration::from_secs(1), Duration::from_secs(4));
    let received = || worker.counts().deferred + worker.counts().handled;
    let (counts, ()) = join(worker.run_until(when(|| worker.counts().handled == 14)), async {
        let mut before = 0;
        for (n, longest) in [(1, 1), (2, 2), (3, 4)] {
            let pause = paused(&clock, n).await;
            assert!(pause <= Duration::from_secs(longest), "{pause:?}");
            until(|| received() > before).await;
            before = received();
            assert!(before <= 4 + u64::try_from(n).unwrap(), "{before} tasks were received");
            up.store(n == 3, Ordering::Relaxed);
            advance(&server, &clock, pause);
        }
    })
    .await;
    assert_eq!(counts?.poisoned, 0);
    Ok(())
}

#[tokio::test]
async fn a_task_is_delayed_by_retry_after() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let handler = |_: Resize, _: Attempt| async { Ok(Done::Later(Duration::from_secs(7200))) };
    let worker = Worker::new(tasks(&account), handler).max_attempts(1);
    assert_eq!(worker.step().await?, Step::Deferred);
    let snapshot = server.snapshot();
    let message = snapshot.queue("jobs").unwrap().messages().next().unwrap();
    let hidden = message.visible_at().to_chrono() - server.clock().now().to_chrono();
    assert_eq!(hidden.num_seconds(), 7200);
    Ok(())
}

/// A service that the handler uses answers 503 and `Retry-After`: the task waits for that time, and so does the
/// worker, after a single failure.
#[tokio::test]
async fn the_worker_pauses_for_the_retry_after_of_a_busy_service() -> TestResult {
    let (server, account) = start().await?;
    for picture in [1, 2] {
        tasks(&account).put(&resize(picture, Deed::Succeed)).await?;
    }
    let stub = MockServer::start().await;
    let busy = ResponseTemplate::new(503).insert_header("x-ms-error-code", "ServerBusy");
    let busy = busy.insert_header("Retry-After", "300");
    Mock::given(matchers::any()).respond_with(busy).mount(&stub).await;
    let (account, clock) = standing(&server)?;
    let other = StorageAccount::builder()
        .name("other")
        .endpoint(rowkey::service::Service::Table, &stub.uri())?
        .credential(Credential::shared_key("other", "a2V5")?)
        .clock(clock.clone())
        .build()?;
    let worker = Worker::new(tasks(&account), Resizer(once(&other).table("small")))
        .visibility(VISIBILITY)
        .retry_backoff(Duration::ZERO, Duration::ZERO);
    let (counts, ()) = join(worker.run_until(when(|| worker.counts().deferred == 2)), async {
        let pause = paused(&clock, 1).await;
        assert_eq!(pause, Duration::from_secs(300));
        assert_eq!(worker.counts().deferred, 1, "one failure is enough");
        advance(&server, &clock, pause);
    })
    .await;
    assert_eq!(counts?.retried, 0);
    let snapshot = server.snapshot();
    let now = server.clock().now().to_chrono();
    let waits = snapshot.queue("jobs").unwrap().messages();
    let mut waits: Vec<_> =
        waits.map(|message| (message.visible_at().to_chrono() - now).num_seconds()).collect();
    waits.sort_unstable();
    assert_eq!(waits, [0, 300]);
    Ok(())
}

#[tokio::test]
async fn a_hanging_handler_is_dropped_at_its_time_limit() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let (account, clock) = standing(&server)?;
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    let handler = move |_: Resize, _: Attempt| {
        begins.store(true, Ordering::Relaxed);
        pending()
    };
    let limit = Duration::from_secs(25);
    let worker = Worker::new(tasks(&account), handler).visibility(VISIBILITY).time_limit(limit);
    let (step, ()) = join(worker.step(), async {
        for (sleeps, wait) in [(1, 10), (3, 10), (5, 5)] {
            // The limit counts from when the handler begins.
            until(|| clock.slept().len() >= sleeps && begun.load(Ordering::Relaxed)).await;
            advance(&server, &clock, Duration::from_secs(wait));
        }
    })
    .await;
    assert_eq!(step?, Step::Retried);
    assert_eq!(worker.counts().overrun, 1);
    until(|| worker.counts().at_work == 0).await;
    assert_eq!(
        server.journal().count(Operation::UpdateMessage),
        3,
        "two renewals, and the failure"
    );
    let text: Value = serde_json::from_str(&texts(&server.snapshot(), "jobs")[0])?;
    assert_eq!(text["history"][0]["error"], "it exceeded its time limit of 25s");
    assert_eq!(text["attempts"], 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_slot_of_a_blocked_handler_is_reused() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(1, Deed::Succeed)).await?;
    let (account, clock) = standing(&server)?;
    let (go, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let handler = move |task: Resize, _: Attempt| {
        let blocked = Arc::clone(&blocked);
        async move {
            if task.picture == 1 {
                let _ = blocked.lock().unwrap().recv();
            }
            Ok(Done::Applied)
        }
    };
    let limit = Duration::from_secs(5);
    let worker = Worker::new(tasks(&account), handler).visibility(VISIBILITY).time_limit(limit);
    let (counts, ()) = join(worker.run_until(when(|| worker.counts().handled == 1)), async {
        until(|| worker.counts().at_work == 1).await;
        tasks(&account).put(&resize(2, Deed::Succeed)).await.unwrap();
        // The wait for the end of the limit.
        until(|| clock.slept().contains(&limit)).await;
        advance(&server, &clock, limit);
        until(|| worker.counts().overrun == 1).await;
    })
    .await;
    let counts = counts?;
    assert_eq!((counts.handled, counts.retried, counts.at_work), (1, 1, 1));
    go.send(())?;
    until(|| worker.counts().at_work == 0).await;
    Ok(())
}

/// A worker whose handler runs until it is dropped or observes the cancellation.
fn endless(account: &StorageAccount, looks: bool) -> Worker<Resize, impl Handler<Resize> + use<>> {
    let handler = move |_: Resize, attempt: Attempt| async move {
        attempt.shutdown().await;
        assert!(attempt.is_shutting_down());
        if looks { Ok(Done::Later(Duration::ZERO)) } else { pending().await }
    };
    Worker::new(tasks(account), handler).visibility(VISIBILITY).max_attempts(1)
}

#[tokio::test]
async fn unfinished_tasks_are_returned_at_the_shutdown_deadline() -> TestResult {
    for looks in [false, true] {
        let (server, account) = start().await?;
        tasks(&account).put(&resize(7, Deed::Succeed)).await?;
        let (still, clock) = standing(&server)?;
        let deadline = Duration::from_secs(7);
        let endless = endless(&still, looks).shutdown_deadline(deadline);
        let at_work = || endless.counts().at_work == 1;
        let (counts, ()) = join(endless.run_until(async { until(at_work).await }), async {
            if !looks {
                until(|| clock.slept().contains(&deadline)).await;
                advance(&server, &clock, deadline);
            }
        })
        .await;
        let counts = counts?;
        assert_eq!((counts.handed_back, counts.deferred), (u64::from(!looks), u64::from(looks)));
        assert_eq!(worker(&account).max_attempts(1).step().await?, Step::Handled, "at once");
    }
    Ok(())
}

#[derive(Serialize, Deserialize)]
enum Older {
    Rotate { picture: u64 },
}

impl Task for Older {
    const KIND: &'static str = "edit";
}

#[derive(Serialize, Deserialize)]
enum Newer {
    Rotate { picture: u64 },
    Crop { picture: u64 },
}

impl Task for Newer {
    const KIND: &'static str = "edit";
}

#[tokio::test]
async fn a_task_of_a_newer_program_stays_in_the_queue() -> TestResult {
    let (server, account) = start().await?;
    let newer = Tasks::<Newer>::new(account.queue("jobs"));
    newer.put(&Newer::Crop { picture: 7 }).await?;
    let (still, clock) = standing(&server)?;
    let older = Tasks::<Older>::new(still.queue("jobs"));
    let older = Worker::new(older, |_: Older, _: Attempt| async { Ok(Done::Applied) });
    let older = older.max_attempts(1);
    for _ in 0..10 {
        assert_eq!(older.step().await?, Step::Deferred);
        advance(&server, &clock, Duration::from_secs(3600));
    }
    let newer = Tasks::<Newer>::new(still.queue("jobs"));
    let newer = Worker::new(newer, |task: Newer, _: Attempt| async move {
        Ok(match task {
            Newer::Crop { picture: 7 } => Done::Applied,
            Newer::Crop { .. } | Newer::Rotate { .. } => Done::Poison("another task".to_owned()),
        })
    });
    assert_eq!(newer.max_attempts(1).step().await?, Step::Handled);
    Ok(())
}

#[tokio::test]
async fn a_message_can_reference_only_claim_blobs_of_its_queue() -> TestResult {
    let (server, account) = start().await?;
    let container = account.container("claims");
    let secret = r#"{"picture":7,"deed":"Succeed"}"#;
    let sha256 = "17d4c5e1a0a2a3b2a4ed3ab5a9c08f53e9a4d4a4a1f3f0f3a1a1b1c1d1e1f101";
    for name in ["others/secret", "jobsecret", "jobs/", "jobs/../others/secret", "jobs"] {
        container.blob("others/secret").put(secret).send().await?;
        let text = format!(r#"{{"kind":"resize","claim":"{name}","sha256":"{sha256}"}}"#);
        tasks(&account).queue().put(Body::text(text)).send().await?;
        let before = server.journal();
        assert_eq!(worker(&account).step().await?, Step::Poisoned, "{name}");
        let sent = server.journal().since(&before);
        let blobs = [Operation::GetBlob, Operation::DeleteBlob, Operation::SetBlobMetadata];
        assert!(blobs.into_iter().all(|operation| sent.count(operation) == 0), "{name}");
        let kept = letters(&server.snapshot()).remove(0);
        assert_eq!(kept["reason"], "it names a blob that is not one of its queue's claims");
        assert_eq!(redrive(&account).await?, 1);
        assert_eq!(worker(&account).step().await?, Step::Poisoned, "{name}");
        assert_eq!(tasks(&account).dead_letters().purge(&Selection::all()).await?.done, 1);
    }
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Visit {
    patient: String,
}

impl Task for Visit {
    const KIND: &'static str = "visit";

    fn key(&self) -> Option<String> {
        Some(self.patient.clone())
    }
}

#[tokio::test]
async fn tasks_with_one_key_are_processed_sequentially() -> TestResult {
    let (_server, account) = start().await?;
    let visits = Tasks::<Visit>::new(account.queue("jobs"));
    for patient in ["ada", "bob", "ada", "bob", "ada", "bob"] {
        visits.put(&Visit { patient: patient.to_owned() }).await?;
    }
    let at_work: Arc<Mutex<Vec<String>>> = Arc::default();
    let most = Arc::new(AtomicUsize::new(0));
    let handler = {
        let most = Arc::clone(&most);
        move |visit: Visit, _: Attempt| {
            let (at_work, most) = (Arc::clone(&at_work), Arc::clone(&most));
            async move {
                {
                    let mut at_work = at_work.lock().unwrap();
                    assert!(!at_work.contains(&visit.patient), "two at a time");
                    at_work.push(visit.patient.clone());
                    most.fetch_max(at_work.len(), Ordering::Relaxed);
                }
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                at_work.lock().unwrap().retain(|patient| *patient != visit.patient);
                Ok(Done::Applied)
            }
        }
    };
    let worker = Worker::new(visits, handler).concurrency(6).max_attempts(1);
    let ended = || worker.counts().handled + worker.counts().poisoned == 6;
    let counts = worker.run_until(when(ended)).await?;
    assert_eq!((counts.handled, most.load(Ordering::Relaxed)), (6, 2));
    Ok(())
}
