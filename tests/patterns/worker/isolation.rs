//! Code of the program that panics, aborts or blocks while a message is read, handled or dropped: the others are
//! done, and the message that causes it becomes a dead letter.

use std::collections::BTreeSet;
use std::future::{pending, poll_fn};
use std::panic::panic_any;
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::{Either, join, select};
use rowkey::queue::Body;
use rowkey::worker::dead_letters::{Cause, Inspected, Selection};
use rowkey::worker::{Attempt, Done, Handler, Step, Task, Tasks, Worker};
use rowkey::{Error, ErrorKind, ManualClock, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Deed, VISIBILITY, letters, resize, standing, start, tasks};

/// A task that says where it breaks.
#[derive(Debug, Serialize, Deserialize)]
struct Odd {
    number: u64,
    #[serde(default)]
    key: Option<String>,
    breaks: Breaks,
}

/// Ends the tasks that block while they are read.
static GO_ON: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Default, PartialEq, Serialize)]
struct Breaks(String);

impl<'de> Deserialize<'de> for Breaks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let at = String::deserialize(deserializer)?;
        assert!(at != "reading", "the task cannot be read");
        if at == "abort" {
            std::process::abort();
        }
        while at == "block" && !GO_ON.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        Ok(Self(at))
    }
}

impl Task for Odd {
    const KIND: &'static str = "odd";

    fn key(&self) -> Option<String> {
        assert!(self.breaks.0 != "key", "the task has no key");
        self.key.clone()
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        assert!(self.breaks.0 != "drop" || std::thread::panicking(), "the task cannot be dropped");
    }
}

/// What a panic or an error carries, and what cannot be dropped.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "it cannot be dropped");
    }
}

impl std::fmt::Display for Bomb {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("it has no text")
    }
}

impl std::error::Error for Bomb {}

fn odd(account: &StorageAccount) -> Tasks<Odd> {
    Tasks::new(account.queue("jobs"))
}

async fn put(account: &StorageAccount, number: u64, breaks: &str) -> rowkey::Result<()> {
    let text = format!(r#"{{"number":{number},"breaks":"{breaks}"}}"#);
    account.queue("jobs").put(Body::text(text)).send().await.map(drop)
}

fn worker(account: &StorageAccount) -> Worker<Odd, impl Handler<Odd> + use<>> {
    Worker::new(odd(account), |task: Odd, _: Attempt| async move {
        match &*task.breaks.0 {
            "payload" => panic_any(Bomb),
            "error" => {
                Err(Error::refused(ErrorKind::Unexpected, "the handler failed").with_source(Bomb))
            }
            _ => Ok(Done::Applied),
        }
    })
    .visibility(VISIBILITY)
}

/// Completes when the condition holds, looking each time the worker is polled.
fn when(condition: impl Fn() -> bool + Send) -> impl Future<Output = ()> + Send {
    poll_fn(move |context| {
        if condition() {
            return Poll::Ready(());
        }
        // What the condition is about changes in other tasks, too, behind the last time that this one is woken.
        context.waker().wake_by_ref();
        Poll::Pending
    })
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

#[tokio::test]
async fn a_panic_anywhere_in_the_code_of_a_task_fails_only_its_message() -> TestResult {
    for breaks in ["reading", "key", "drop", "payload", "error"] {
        let (server, account) = start().await?;
        for number in 0..8 {
            put(&account, number, if number == 3 { breaks } else { "" }).await?;
        }
        let worker = worker(&account).concurrency(8).max_attempts(1);
        let ended = || worker.counts().handled + worker.counts().poisoned == 8;
        let counts = worker.run_until(when(ended)).await?;
        assert_eq!((counts.handled, counts.poisoned), (7, 1), "{breaks}");
        let kept = letters(&server.snapshot()).remove(0);
        assert_eq!((&kept["task"]["number"], &kept["cause"]), (&3.into(), &"Panic".into()));
    }
    Ok(())
}

#[tokio::test]
async fn a_panic_while_a_task_is_read_is_retried_and_named_in_the_dead_letter() -> TestResult {
    let (server, account) = start().await?;
    put(&account, 3, "reading").await?;
    let worker = worker(&account).max_attempts(2).retry_backoff(Duration::ZERO, Duration::ZERO);
    assert_eq!((worker.step().await?, worker.step().await?), (Step::Retried, Step::Poisoned));
    let kept = letters(&server.snapshot()).remove(0);
    assert_eq!(kept["reason"], "reading the task panicked: the task cannot be read");
    // Nor does it end the calls about dead letters.
    let dead = odd(&account).dead_letters();
    let letter = dead.list(&Selection::all()).try_next().await?.unwrap();
    assert_eq!(letter.cause, Cause::Panic);
    let Inspected::Unreadable { reason, .. } = letter.task else { panic!("it cannot be read") };
    assert_eq!(reason, "reading it as a task panicked");
    Ok(())
}

#[tokio::test]
async fn a_task_that_waits_for_its_key_is_dropped_apart_at_the_shutdown() -> TestResult {
    let (_server, account) = start().await?;
    for _ in 0..2 {
        let text = r#"{"number":1,"key":"a","breaks":"drop"}"#;
        account.queue("jobs").put(Body::text(text)).send().await?;
    }
    let begun = Arc::new(AtomicUsize::new(0));
    let begins = Arc::clone(&begun);
    let worker = Worker::new(odd(&account), move |task: Odd, _: Attempt| {
        begins.fetch_add(1, Ordering::Relaxed);
        async move {
            let _task = task;
            pending().await
        }
    });
    let worker = worker.concurrency(2).shutdown_deadline(Duration::ZERO);
    let counts = worker.run_until(when(|| begun.load(Ordering::Relaxed) == 1)).await?;
    assert_eq!(counts.handed_back + counts.retried, 2);
    Ok(())
}

/// The environment of the process that does tasks: the server, and its time.
const SERVER: &str = "ROWKEY_ISOLATION_SERVER";
const TIME: &str = "ROWKEY_ISOLATION_TIME";

/// A task whose `Deserialize` aborts the process, as one does that overflows the stack.
#[tokio::test]
async fn a_task_that_aborts_the_process_while_it_is_read_becomes_the_only_dead_letter() -> TestResult
{
    if let Ok(server) = std::env::var(SERVER) {
        return work_in_this_process(&server).await;
    }
    let (server, account) = start().await?;
    for number in 0..8 {
        put(&account, number, if number == 3 { "abort" } else { "" }).await?;
    }
    let (mut runs, mut is_over) = (0, false);
    while !is_over {
        runs += 1;
        assert!(runs <= 20, "it never ends");
        is_over = tokio::task::spawn_blocking({
            let (text, now) = (server.connection_string().to_owned(), server.clock().now());
            move || run_in_a_process(&text, now.to_chrono().timestamp())
        })
        .await??;
        server.clock().advance(VISIBILITY * 2);
    }
    let aside: Vec<_> = letters(&server.snapshot()).iter().map(|it| it["task"].clone()).collect();
    assert_eq!(aside.iter().map(|task| &task["number"]).collect::<Vec<_>>(), [3]);
    assert_eq!(letters(&server.snapshot())[0]["cause"], "UnknownEnd");
    assert_eq!(super::done(&server.snapshot()), [0, 1, 2, 4, 5, 6, 7]);
    assert_eq!(super::texts(&server.snapshot(), "jobs"), [""; 0]);
    Ok(())
}

/// Runs a worker in a process of its own; whether it came to the end of the queue.
fn run_in_a_process(server: &str, time: i64) -> std::io::Result<bool> {
    let test = "worker::isolation::a_task_that_aborts_the_process_while_it_is_read_becomes_the_only_dead_letter";
    let output = Command::new(std::env::current_exe()?)
        .args(["--exact", test, "--nocapture"])
        .env(SERVER, server)
        .env(TIME, time.to_string())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("running 1 test"), "{said}");
    assert_ne!(output.status.code(), Some(101), "a test failed: {said}");
    Ok(output.status.success())
}

async fn work_in_this_process(server: &str) -> TestResult {
    let time = std::env::var(TIME)?.parse()?;
    let clock = ManualClock::new(chrono::DateTime::from_timestamp(time, 0).ok_or("no time")?);
    let account = StorageAccount::builder().connection_string(server)?.clock(clock.clone());
    let account = account.build()?;
    let small = account.table("small");
    let handler = move |task: Odd, _: Attempt| {
        let small = small.clone();
        async move {
            small.upsert(&super::Small { picture: task.number, pixels: 0 }).await?;
            Ok(Done::Applied)
        }
    };
    let worker = Worker::new(odd(&account), handler).visibility(VISIBILITY).concurrency(8);
    // It is idle when it waits for something else than the next renewal.
    let is_idle = || clock.slept().iter().any(|slept| *slept != VISIBILITY / 3);
    let worker = worker.max_attempts(2);
    worker.run_until(when(is_idle)).await?;
    Ok(())
}

/// A worker of tasks with one key, the first of which blocks its thread until it is told to go on.
struct Blocked {
    worker: Worker<Odd, Box<dyn Fn(Odd, Attempt) -> Handled + Send + Sync>>,
    begun: Arc<AtomicUsize>,
    now: Arc<Mutex<BTreeSet<u64>>>,
    go: mpsc::Sender<()>,
}

type Handled = futures_util::future::BoxFuture<'static, rowkey::Result<Done>>;

const LIMIT: Duration = Duration::from_secs(5);

async fn blocked(account: &StorageAccount) -> rowkey::Result<Blocked> {
    for number in [1, 2] {
        let text = format!(r#"{{"number":{number},"key":"a","breaks":""}}"#);
        account.queue("jobs").put(Body::text(text)).send().await?;
    }
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let (begun, now) = (Arc::new(AtomicUsize::new(0)), Arc::<Mutex<BTreeSet<u64>>>::default());
    let (begins, works) = (Arc::clone(&begun), Arc::clone(&now));
    let handler = move |task: Odd, _: Attempt| -> Handled {
        let (wait, works) = (Arc::clone(&wait), Arc::clone(&works));
        let is_first = begins.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            assert!(works.lock().unwrap().is_empty(), "two at a time");
            works.lock().unwrap().insert(task.number);
            if is_first {
                let _ = wait.lock().unwrap().recv();
            }
            works.lock().unwrap().clear();
            Ok(Done::Applied)
        })
    };
    let handler: Box<dyn Fn(Odd, Attempt) -> Handled + Send + Sync> = Box::new(handler);
    let worker = Worker::new(odd(account), handler)
        .visibility(VISIBILITY)
        .time_limit(LIMIT)
        .concurrency(2)
        .retry_backoff(Duration::from_secs(1), Duration::from_secs(1));
    Ok(Blocked { worker, begun, now, go })
}

impl Blocked {
    /// Runs until both tasks are done, after the first was told to go on.
    async fn finish(self, server: &Server, clock: &ManualClock) -> TestResult {
        let Self { worker, begun, now, go } = self;
        assert_eq!(begun.load(Ordering::Relaxed), 1, "{:?} and another one", now.lock().unwrap());
        go.send(())?;
        until(|| worker.counts().at_work == 0).await;
        advance(server, clock, VISIBILITY * 2);
        let counts = worker.run_until(when(|| worker.counts().handled == 2)).await?;
        assert_eq!(counts.poisoned, 0);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_key_is_locked_until_a_handler_past_its_time_limit_has_ended() -> TestResult {
    let (server, _) = start().await?;
    let (account, clock) = standing(&server)?;
    let blocked = blocked(&account).await?;
    let (worker, begun) = (&blocked.worker, &blocked.begun);
    let is_put_off = || worker.counts().deferred == 1 || begun.load(Ordering::Relaxed) > 1;
    let (counts, ()) = join(worker.run_until(when(is_put_off)), async {
        until(|| begun.load(Ordering::Relaxed) == 1 && clock.slept().contains(&LIMIT)).await;
        advance(&server, &clock, LIMIT);
    })
    .await;
    assert_eq!(counts?.overrun, 1);
    blocked.finish(&server, &clock).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_task_that_blocks_while_it_is_read_ends_at_its_time_limit() -> TestResult {
    let (server, account) = start().await?;
    for number in [1, 2] {
        put(&account, number, if number == 1 { "block" } else { "" }).await?;
    }
    let (account, clock) = standing(&server)?;
    let worker = worker(&account).time_limit(LIMIT).max_attempts(1);
    let ended = || worker.counts().handled + worker.counts().poisoned == 2;
    let (counts, ()) = join(worker.run_until(when(ended)), async {
        until(|| clock.slept().contains(&LIMIT)).await;
        advance(&server, &clock, LIMIT);
    })
    .await;
    assert_eq!((counts?.handled, worker.counts().poisoned), (1, 1));
    GO_ON.store(true, Ordering::Relaxed);
    until(|| worker.counts().at_work == 0).await;
    assert_eq!(letters(&server.snapshot())[0]["cause"], "TimeLimit");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_key_is_locked_until_a_handler_of_a_dropped_run_has_ended() -> TestResult {
    let (server, _) = start().await?;
    let (account, clock) = standing(&server)?;
    let blocked = blocked(&account).await?;
    let (worker, begun) = (&blocked.worker, &blocked.begun);
    {
        let has_begun = pin!(until(|| begun.load(Ordering::Relaxed) == 1));
        let ended = select(has_begun, Box::pin(worker.run_until(pending()))).await;
        assert!(matches!(ended, Either::Left(_)));
    }
    advance(&server, &clock, VISIBILITY * 2);
    let is_put_off = || worker.counts().deferred == 2 || begun.load(Ordering::Relaxed) > 1;
    worker.run_until(when(is_put_off)).await?;
    blocked.finish(&server, &clock).await
}

/// If another task could begin before, and end the process, the first one would look as if it had done that.
#[tokio::test]
async fn a_task_that_is_tried_alone_is_alone_until_its_message_has_ended() -> TestResult {
    let (server, account) = start().await?;
    for picture in [1, 2] {
        tasks(&account).put(&resize(picture, Deed::Succeed)).await?;
    }
    assert_eq!(account.queue("jobs").receive(2, VISIBILITY).await?.len(), 2);
    server.clock().advance(VISIBILITY);
    let held = server.inject(Fault::on(Operation::DeleteMessage).times(1).hold());
    let worker = super::worker(&account).max_attempts(1).concurrency(2);
    let (counts, ()) = join(worker.run_until(when(|| worker.counts().handled == 2)), async {
        held.wait_until_held().await;
        for _ in 0..50 {
            account.queue("jobs").peek(1).await.unwrap();
        }
        assert_eq!(super::done(&server.snapshot()).len(), 1);
        held.release();
    })
    .await;
    assert_eq!(counts?.handled, 2);
    Ok(())
}
