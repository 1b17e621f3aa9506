//! The sweep: what becomes of a scenario when any one of its requests fails, in every way.
//!
//! Databases are tested so with failing disks: run once to count the requests, then once more for
//! each request and each way to fail, recover, and look at the store.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::{Either, select};
use rowkey::{ClientOptions, Clock, ManualClock, RetryOptions, StorageAccount};
use rowkey_server::{ErrorCode, Fault, Server, Snapshot};

use crate::TestResult;

/// How the server's clock moves on before a scenario is recovered from: long enough for messages
/// to be visible again, for leases to end and for names to be free.
const HEALING: Duration = Duration::from_secs(61);

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The connection breaks before anything is changed.
    CloseBeforeCommit,
    /// What is asked for is done, and the connection breaks before the answer.
    CloseAfterCommit,
    /// 503 `ServerBusy`.
    RejectBusy,
    /// 500 `InternalError`: the client cannot know that nothing was changed.
    RejectInternal,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] =
        [Self::CloseBeforeCommit, Self::CloseAfterCommit, Self::RejectBusy, Self::RejectInternal];

    fn fault(self, request: u64) -> Fault {
        let requests = Fault::any().nth(request);
        match self {
            Self::CloseBeforeCommit => requests.close_before_commit(),
            Self::CloseAfterCommit => requests.close_after_commit(),
            Self::RejectBusy => requests.reject(ErrorCode::SERVER_BUSY),
            Self::RejectInternal => requests.reject(ErrorCode::INTERNAL_ERROR),
        }
    }
}

/// The runs of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// How many requests the scenario has when nothing fails.
    pub requests: u64,
    /// How many runs there were in which one of them failed.
    pub failures: u64,
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests, {} runs with a failure", self.requests, self.failures)
    }
}

/// Runs `scenario` on copies of `server`: once as it is, then once for each of its requests and
/// each [`Mode`], in which that request fails. After each run the fault is taken away, a minute
/// passes, `recover` does what the program would do then, and `invariants` looks at the store.
///
/// The scenario gets an account that repeats what may be repeated, and whose waits take no time;
/// [`once`] makes one of it that repeats nothing. Its result is shown to the other two.
///
/// Scenarios have to send the same requests in the same order each time, up to the one that fails.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn sweep<T>(
    server: &Server,
    scenario: impl AsyncFn(&StorageAccount) -> T,
    recover: impl AsyncFn(&StorageAccount, &T) -> TestResult,
    invariants: impl Fn(&Snapshot, &T),
) -> Result<Runs, Box<dyn std::error::Error>> {
    sweep_on(server, account, scenario, recover, invariants).await
}

/// A [`sweep`] of what uses more than one account of the server: `connect` makes what a program has,
/// with [`account_named`].
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn sweep_on<A, T>(
    server: &Server,
    connect: impl Fn(&Server) -> Result<A, rowkey::Error>,
    scenario: impl AsyncFn(&A) -> T,
    recover: impl AsyncFn(&A, &T) -> TestResult,
    invariants: impl Fn(&Snapshot, &T),
) -> Result<Runs, Box<dyn std::error::Error>> {
    let one = async |fault: Option<(u64, Mode)>| -> Result<u64, Box<dyn std::error::Error>> {
        let _context = Context(fault);
        let server = server.fork().await?;
        let injected = fault.map(|(request, mode)| server.inject(mode.fault(request)));
        let result = scenario(&connect(&server)?).await;
        let requests = u64::try_from(server.journal().len())?;
        if let Some(injected) = injected {
            assert_eq!(injected.hits(), 1, "the scenario does not send this request every time");
        }
        server.clock().advance(HEALING);
        recover(&connect(&server)?, &result).await?;
        invariants(&server.snapshot(), &result);
        Ok(requests)
    };
    let requests = one(None).await?;
    assert!(requests > 0, "the scenario sends nothing");
    let mut failures = 0;
    for request in 1..=requests {
        for mode in Mode::ALL {
            one(Some((request, mode))).await?;
            failures += 1;
        }
    }
    let runs = Runs { requests, failures };
    eprintln!("sweep: {runs}");
    Ok(runs)
}

/// Runs `scenario` on copies of `server` and ends it at each of its requests: what asked for it is
/// dropped before the request is executed, as if the program had been killed after the one before.
/// A minute later `recover` does what a new program would do, and `invariants` looks at the store.
///
/// Whether the answer to the request before had been read makes no difference: nobody lives who
/// could know it. Scenarios need not send the same requests each time.
pub async fn stopped_at_every_request<T>(
    server: &Server,
    scenario: impl AsyncFn(&StorageAccount) -> T,
    recover: impl AsyncFn(&StorageAccount) -> TestResult,
    invariants: impl Fn(&Snapshot),
) -> Result<Runs, Box<dyn std::error::Error>> {
    stopped_at_every_request_on(server, account, scenario, recover, invariants).await
}

/// The same for what uses more than one account of the server, as [`sweep_on`] does.
pub async fn stopped_at_every_request_on<A, T>(
    server: &Server,
    connect: impl Fn(&Server) -> Result<A, rowkey::Error>,
    scenario: impl AsyncFn(&A) -> T,
    recover: impl AsyncFn(&A) -> TestResult,
    invariants: impl Fn(&Snapshot),
) -> Result<Runs, Box<dyn std::error::Error>> {
    for request in 1.. {
        let _context = Stopped(request);
        let server = server.fork().await?;
        let held = server.inject(Fault::any().nth(request).hold());
        let connected = connect(&server)?;
        let end = {
            let (run, stop) = (pin!(scenario(&connected)), pin!(held.wait_until_held()));
            matches!(select(stop, run).await, Either::Right(_))
        };
        // What the request would have done is not done there, however late the server learns that
        // nobody waits for its answer.
        let server = server.fork().await?;
        server.clock().advance(HEALING);
        recover(&connect(&server)?).await?;
        invariants(&server.snapshot());
        if end {
            let runs = Runs { requests: request - 1, failures: request - 1 };
            assert!(runs.requests > 0, "the scenario sends nothing");
            eprintln!("stopped at every request: {runs}");
            return Ok(runs);
        }
    }
    unreachable!("scenarios end")
}

/// The sweeps of work that is done again until it is done: with an account that repeats requests, with
/// one that does not, and [stopped](stopped_at_every_request) at each. In the end `recover` has the
/// last word each time, and the store looks the same.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn sweep_every_way<T>(
    server: &Server,
    scenario: impl AsyncFn(&StorageAccount) -> T,
    recover: impl AsyncFn(&StorageAccount) -> TestResult,
    invariants: impl Fn(&Snapshot),
) -> TestResult {
    let recovered = async |account: &StorageAccount, _: &T| recover(account).await;
    let check = |snapshot: &Snapshot, _: &T| invariants(snapshot);
    sweep(server, &scenario, recovered, check).await?;
    let unrepeated = async |account: &StorageAccount| scenario(&once(account)).await;
    sweep(server, unrepeated, recovered, check).await?;
    stopped_at_every_request(server, &scenario, &recover, &invariants).await?;
    Ok(())
}

/// An account on a server with a manual clock. Its own clock shows the same time, and moves on
/// when somebody waits for less than five seconds, as the client does between attempts. Longer waits
/// do not end: what a program does now and then while it works has no part in a sweep.
pub fn account(server: &Server) -> Result<StorageAccount, rowkey::Error> {
    impatient(server, server.connection_string())
}

/// Another account of the server, if all have the same key.
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

/// The same account, repeating nothing.
pub fn once(account: &StorageAccount) -> StorageAccount {
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    account.with_options(ClientOptions { retry, ..account.options().clone() })
}

/// Says which run it was, when that run panics.
struct Context(Option<(u64, Mode)>);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            match self.0 {
                Some((request, mode)) => eprintln!("with request {request} failing: {mode:?}"),
                None => eprintln!("with nothing failing"),
            }
        }
    }
}

/// Says where it was stopped, when that run panics.
struct Stopped(u64);

impl Drop for Stopped {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("stopped at request {}", self.0);
        }
    }
}
