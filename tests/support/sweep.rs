//! Sweep scenarios: accounts whose waits take no time, and the faults from which tests select.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::{ClientOptions, Clock, ManualClock, RetryOptions, StorageAccount};
use rowkey_emulator::{Server, Snapshot, Sweep, SweepFault};

use crate::{TestResult, erased};

/// The faults after which the caller continues, because its call returns.
pub const ANSWERED: [SweepFault; 4] =
    [SweepFault::LostBefore, SweepFault::LostAfter, SweepFault::Throttled, SweepFault::Rejected];

/// The number of runs of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The number of requests of the scenario without failures.
    pub requests: u64,
    /// The number of runs in which a request failed.
    pub failures: u64,
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests, {} runs with a failure", self.requests, self.failures)
    }
}

/// One in this many runs of a long sweep is made by CI; the nightly command makes all.
const SAMPLE: u64 = 5;

/// One in this many runs of a sweep is made where `ROWKEY_SWEEP` is not set, and of a long one.
const BRIEF: u64 = 8;
const LONG_BRIEF: u64 = 40;

/// Whether tests make few of their runs, because `ROWKEY_SWEEP` is not set: all tests of the workspace,
/// compiled on two cores, should take no more than five minutes. CI sets it.
pub fn is_brief() -> bool {
    std::env::var_os("ROWKEY_SWEEP").is_none()
}

/// The runs of a long sweep that are made: one in `.0`, selected by `.1`. `None` if `ROWKEY_SWEEP` is
/// `all`; otherwise it is the number that selects them. Without it each execution makes the same runs.
fn selected() -> Option<(u64, u64)> {
    match std::env::var("ROWKEY_SWEEP").as_deref() {
        Ok("all") => None,
        Ok(seed) => Some((SAMPLE, seed.parse().expect("ROWKEY_SWEEP is `all` or a number"))),
        Err(_) => Some((LONG_BRIEF, 0)),
    }
}

/// A long sweep that makes all runs if `ROWKEY_SWEEP` is `all`. If it is a number, one in five, in which
/// every request fails and every fault happens; the number and `name` select the runs. Few without it.
pub fn sample<'s>(sweep: Sweep<'s>, name: &str) -> Sweep<'s> {
    let Some((of, seed)) = selected() else { return sweep };
    sweep.sample(of, name.bytes().map(u64::from).sum::<u64>() + seed)
}

/// The same for a test that counts its runs itself.
pub fn is_in_sample(run: u64) -> bool {
    selected().is_none_or(|(of, seed)| (run + seed).is_multiple_of(of))
}

/// Whether a run of a test that counts its runs itself is made: all are, or few if [`is_brief`].
pub fn is_made(run: u64) -> bool {
    !is_brief() || run.is_multiple_of(BRIEF)
}

/// The sweep with all runs, or with few if [`is_brief`].
pub fn brief(sweep: Sweep<'_>) -> Sweep<'_> {
    if is_brief() { sweep.sample(BRIEF, 1) } else { sweep }
}

/// Runs `scenario` on copies of `server`: once without faults, then once for each of its requests and each of
/// [`ANSWERED`], in which that request fails; for few of them if [`is_brief`]. After each run a minute passes,
/// `recover` does what the program would do then, and `invariants` checks the store.
///
/// The account passed to the scenario retries requests where allowed, and its waits take no time; [`once`]
/// returns a copy that does not retry. The result of the scenario is passed to the other two.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn sweep<T: 'static>(
    server: &Server,
    scenario: impl AsyncFn(&StorageAccount) -> T,
    recover: impl AsyncFn(&StorageAccount, &T) -> TestResult,
    invariants: impl Fn(&Snapshot, &T),
) -> TestResult<Runs> {
    sweep_on(server, account, scenario, recover, invariants).await
}

/// A [`sweep`] that always makes all runs.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn sweep_all<T: 'static>(
    server: &Server,
    scenario: impl AsyncFn(&StorageAccount) -> T,
    recover: impl AsyncFn(&StorageAccount, &T) -> TestResult,
    invariants: impl Fn(&Snapshot, &T),
) -> TestResult<Runs> {
    let answered = Sweep::new(server).faults(ANSWERED);
    answers(answered, account, scenario, recover, invariants).await
}

/// A [`sweep`] over many requests, of which only a [sample] of runs is made.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn sweep_sample<T: 'static>(
    server: &Server,
    name: &str,
    scenario: impl AsyncFn(&StorageAccount) -> T,
    recover: impl AsyncFn(&StorageAccount, &T) -> TestResult,
    invariants: impl Fn(&Snapshot, &T),
) -> TestResult<Runs> {
    let answered = sample(Sweep::new(server).faults(ANSWERED), name);
    answers(answered, account, scenario, recover, invariants).await
}

/// A [`sweep`] of a scenario with several accounts of the server: `connect` creates the program's state, with
/// [`account_named`].
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn sweep_on<A: 'static, T: 'static>(
    server: &Server,
    connect: impl Fn(&Server) -> Result<A, rowkey::Error>,
    scenario: impl AsyncFn(&A) -> T,
    recover: impl AsyncFn(&A, &T) -> TestResult,
    invariants: impl Fn(&Snapshot, &T),
) -> TestResult<Runs> {
    let answered = brief(Sweep::new(server).faults(ANSWERED));
    answers(answered, connect, scenario, recover, invariants).await
}

#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn answers<A: 'static, T: 'static>(
    sweep: Sweep<'_>,
    connect: impl Fn(&Server) -> Result<A, rowkey::Error>,
    scenario: impl AsyncFn(&A) -> T,
    recover: impl AsyncFn(&A, &T) -> TestResult,
    invariants: impl Fn(&Snapshot, &T),
) -> TestResult<Runs> {
    run(sweep, connect, scenario, async |server, connected, result| {
        if let Some(result) = result {
            recover(connected, result).await?;
            invariants(&server.snapshot(), result);
        }
        Ok(())
    })
    .await
}

/// Runs `scenario` on copies of `server` and drops it at each of its requests, at few of them if
/// [`is_brief`]. A minute later `recover` does
/// what a new program would do, and `invariants` checks the store.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn stopped_at_every_request<T: 'static>(
    server: &Server,
    scenario: impl AsyncFn(&StorageAccount) -> T,
    recover: impl AsyncFn(&StorageAccount) -> TestResult,
    invariants: impl Fn(&Snapshot),
) -> TestResult<Runs> {
    stopped_at_every_request_on(server, account, scenario, recover, invariants).await
}

/// The same for a scenario with several accounts of the server, like [`sweep_on`].
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn stopped_at_every_request_on<A: 'static, T: 'static>(
    server: &Server,
    connect: impl Fn(&Server) -> Result<A, rowkey::Error>,
    scenario: impl AsyncFn(&A) -> T,
    recover: impl AsyncFn(&A) -> TestResult,
    invariants: impl Fn(&Snapshot),
) -> TestResult<Runs> {
    let dropped = brief(Sweep::new(server).faults([SweepFault::Dropped]));
    run(dropped, connect, scenario, async |server, connected, _| {
        recover(connected).await?;
        invariants(&server.snapshot());
        Ok(())
    })
    .await
}

/// The sweeps of work that is repeated until it succeeds: with an account that retries requests, with one
/// that does not, and [stopped](stopped_at_every_request) at each request. Each run ends with `recover`, and
/// the state of the store must be the same. The first two are [samples](sample).
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn sweep_every_way<T: 'static>(
    server: &Server,
    scenario: impl AsyncFn(&StorageAccount) -> T,
    recover: impl AsyncFn(&StorageAccount) -> TestResult,
    invariants: impl Fn(&Snapshot),
) -> TestResult {
    let recovered = async |account: &StorageAccount, _: &T| recover(account).await;
    let check = |snapshot: &Snapshot, _: &T| invariants(snapshot);
    sweep_sample(server, "repeated", &scenario, recovered, check).await?;
    let unrepeated = async |account: &StorageAccount| scenario(&once(account)).await;
    sweep_sample(server, "once", unrepeated, recovered, check).await?;
    stopped_at_every_request(server, &scenario, &recover, &invariants).await?;
    Ok(())
}

#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn run<A: 'static, T: 'static>(
    sweep: Sweep<'_>,
    connect: impl Fn(&Server) -> Result<A, rowkey::Error>,
    scenario: impl AsyncFn(&A) -> T,
    check: impl AsyncFn(&Server, &A, Option<&T>) -> TestResult,
) -> TestResult<Runs> {
    let connect = async |server: &Server| Ok(connect(server)?);
    let swept = erased::run(sweep, connect, scenario, async |_| Ok(()), check).await?;
    eprintln!("sweep: {swept}");
    Ok(Runs { requests: swept.requests, failures: swept.runs })
}

/// An account on a server with a manual clock. Its own clock shows the same time, and advances by each wait
/// of less than five seconds, like those of the client between attempts. Longer waits never end: periodic
/// work of a program is not part of a sweep.
pub fn account(server: &Server) -> Result<StorageAccount, rowkey::Error> {
    impatient(server, server.connection_string())
}
/// Another account of the server. Requires that all accounts have the same key.
pub fn account_named(server: &Server, name: &str) -> Result<StorageAccount, rowkey::Error> {
    let first = account(server)?;
    impatient(server, &server.connection_string().replace(first.name(), name))
}

fn impatient(server: &Server, connection_string: &str) -> Result<StorageAccount, rowkey::Error> {
    StorageAccount::builder()
        .connection_string(connection_string)?
        .clock(Impatient(ManualClock::auto_advancing(server.clock().now().to_chrono())))
        .build()
}

/// An account on a server with a manual clock, and the account's own clock, which shows the same time and
/// advances by each wait: waits take no time, and can be counted.
pub fn waiting(server: &Server) -> Result<(StorageAccount, ManualClock), rowkey::Error> {
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let builder = StorageAccount::builder().connection_string(server.connection_string())?;
    Ok((builder.clock(clock.clone()).build()?, clock))
}

/// The clock of [`account`].
#[derive(Debug)]
struct Impatient(ManualClock);

impl Clock for Impatient {
    fn now(&self) -> DateTime<Utc> {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        if duration < Duration::from_secs(5) {
            return self.0.sleep(duration);
        }
        Box::pin(std::future::pending())
    }
}

/// The same account without retries.
pub fn once(account: &StorageAccount) -> StorageAccount {
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    account.with_options(ClientOptions { retry, ..account.options().clone() })
}
