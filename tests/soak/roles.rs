//! The processes: a writer puts the numbers that it reads, a worker runs until shutdown.

use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures_util::future::join4;
use futures_util::stream::{self, StreamExt as _};
use rowkey::worker::Counts;
use rowkey::{ClientOptions, Clock as _, RetryOptions, ScanPolicy, StorageAccount};
use rowkey_tests::random::Random;
use tokio::sync::{mpsc, watch};

use crate::Result;
use crate::clock::SharedClock;
use crate::doer::{Doer, MEANT};
use crate::jobs::{Places, Plan};

/// How often a writer tries to put a task before it says that something is wrong.
const TRIES: u32 = 20_000;

/// An account of a process of its own, which sends no scan.
pub(crate) fn account(
    connection_string: &str,
    clock: SharedClock,
    scan_policy: ScanPolicy,
) -> rowkey::Result<StorageAccount> {
    let millis = Duration::from_millis;
    let retry =
        RetryOptions { base_delay: millis(10), max_delay: millis(200), ..RetryOptions::default() };
    let options = ClientOptions { retry, scan_policy, ..ClientOptions::default() };
    StorageAccount::builder()
        .connection_string(connection_string)?
        .clock(clock)
        .options(options)
        .build()
}

/// Tells the parent; the line is with it when this returns.
pub(crate) fn say(word: &str, what: impl fmt::Display) {
    // A parent that is gone does not listen, and ends this process by that.
    let _ = writeln!(std::io::stdout().lock(), "{word} {what}");
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| format!("{name} is missing").into())
}

pub(crate) async fn run(role: &str) -> Result {
    let panics = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let is_meant = info.payload().downcast_ref::<String>().is_some_and(|text| text == MEANT)
            || info.payload().downcast_ref::<&str>() == Some(&MEANT);
        if !is_meant {
            panics(info);
        }
    }));
    let clock = SharedClock::open(Path::new(&variable("ROWKEY_SOAK_CLOCK")?))?;
    let connection_string = variable("ROWKEY_SOAK_SERVER")?;
    let account = account(&connection_string, clock.clone(), ScanPolicy::Deny)?;
    let places = Places::new(account)?;
    if role == "writer" {
        let plan = Plan::new(variable("ROWKEY_SOAK")?.parse()?);
        let born = variable("ROWKEY_SOAK_BORN")?.parse()?;
        write(places, plan, clock, born).await
    } else {
        Box::pin(work(places, clock)).await
    }
}

/// Works until the standard input ends.
async fn work(places: Places, clock: SharedClock) -> Result {
    let (stop, stopped) = watch::channel(false);
    thread::spawn(move || {
        for _ in std::io::stdin().lines() {}
        stop.send_replace(true);
    });
    let until = || {
        let mut stopped = stopped.clone();
        async move { drop(stopped.wait_for(|stopped| *stopped).await) }
    };
    let Places { orders, people, photos, .. } = places.clone();
    let begun = Box::new(|number| say("begun", number));
    let jobs = Doer { places, clock, begun, is_clumsy: true }.worker();
    let (counts, orders, people, photos) = Box::pin(join4(
        jobs.run_until(until()),
        orders.run(until()),
        people.run(until()),
        photos.run(until()),
    ))
    .await;
    let Counts { handled, suppressed, retried, deferred, overrun, lost, .. } = counts?;
    orders.and(people).and(photos)?;
    let counts = format!("{handled} {suppressed} {retried} {deferred} {overrun} {lost}");
    say("counts", counts);
    Ok(())
}

/// Puts the numbers that come by the standard input, and says what became of each.
async fn write(places: Places, plan: Plan, clock: SharedClock, born: u64) -> Result {
    let (send, receive) = mpsc::unbounded_channel::<u64>();
    thread::spawn(move || {
        let lines = std::io::stdin().lines().map_while(std::result::Result::ok);
        lines.filter_map(|line| line.parse().ok()).all(|number| send.send(number).is_ok())
    });
    let numbers = stream::unfold(receive, async |mut receive| {
        let number = receive.recv().await?;
        Some((number, receive))
    });
    numbers
        .for_each_concurrent(24, |number| {
            let (places, clock) = (&places, &clock);
            async move {
                let mut random = Random(number ^ (born << 40));
                random.next();
                // A caller that goes away: the future is dropped after some polls.
                let polls = random.one_in(40).then(|| 1 + random.below(12));
                match polled(put(places, &plan, clock, number), polls).await {
                    Some(()) => say("put", number),
                    None => say("dropped", number),
                }
            }
        })
        .await;
    Ok(())
}

/// Until it is put.
async fn put(places: &Places, plan: &Plan, clock: &SharedClock, number: u64) {
    let job = plan.job(number);
    for _ in 0..TRIES {
        let Err(error) = places.put(&job).await else { return };
        assert!(error.is_retryable() || error.outcome() == rowkey::Outcome::Unknown, "{error}");
        clock.sleep(Duration::from_millis(20)).await;
    }
    panic!("task {number} cannot be put");
}

/// The end of a future; `None` if it was dropped after this many polls.
async fn polled<T>(future: impl Future<Output = T>, polls: Option<u32>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == Some(0) {
            return Poll::Ready(None);
        }
        left = left.map(|left| left - 1);
        let polled = future.as_mut().poll(context).map(Some);
        if polled.is_pending() && left == Some(0) {
            return Poll::Ready(None);
        }
        polled
    })
    .await
}
