//! Several programs on one server, whose clocks differ and are moved together, and requests that fail while others
//! are sent.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::patterns::lease_lock::LeaseLock;
use rowkey::worker::janitor::Janitor;
use rowkey::{Attempt, AttemptResult, ErrorKind, ManualClock, Policy, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{self, once};

/// A server, and the clocks of programs.
pub(super) struct Programs {
    pub(super) server: Server,
    clients: Clients,
}

impl Programs {
    pub(super) fn new(server: Server) -> Self {
        let clients = Clients::new(server.connection_string());
        Self { server, clients }
    }

    /// An account of a program whose date is so much ahead of the server's.
    pub(super) fn account(&self, ahead: TimeDelta) -> rowkey::Result<StorageAccount> {
        self.clients.account_at(self.server.clock().now().to_chrono() + ahead)
    }

    /// An account of a program on a clock that does not move with the others.
    pub(super) fn account_on(&self, clock: ManualClock) -> rowkey::Result<StorageAccount> {
        self.clients.account_on(clock)
    }

    /// Moves all clocks, and lets what that woke come to rest.
    pub(super) async fn step(&self, by: Duration) {
        self.server.clock().advance(by);
        self.clients.step(by).await;
    }

    /// Waits until every request is answered, and every task waits for a clock.
    pub(super) async fn rest(&self) {
        self.clients.rest().await;
    }
}

/// The programs of this process, and their clocks. The server may be that of another process.
pub(super) struct Clients {
    connection_string: String,
    clocks: Mutex<Vec<ManualClock>>,
    requests: Arc<Requests>,
}

impl Clients {
    pub(super) fn new(connection_string: &str) -> Self {
        let connection_string = connection_string.to_owned();
        Self { connection_string, clocks: Mutex::default(), requests: Arc::default() }
    }

    /// An account of a program with this date.
    pub(super) fn account_at(&self, date: DateTime<Utc>) -> rowkey::Result<StorageAccount> {
        let clock = ManualClock::new(date);
        self.clocks.lock().unwrap().push(clock.clone());
        self.account_on(clock)
    }

    fn account_on(&self, clock: ManualClock) -> rowkey::Result<StorageAccount> {
        let builder = StorageAccount::builder().connection_string(&self.connection_string)?;
        let requests: Arc<Requests> = Arc::clone(&self.requests);
        builder.clock(clock).policy(requests).build()
    }

    /// Moves all clocks but the server's, and lets what that woke come to rest.
    pub(super) async fn step(&self, by: Duration) {
        for clock in &*self.clocks.lock().unwrap() {
            clock.advance(by);
        }
        self.rest().await;
    }

    /// Waits until every request is answered, and every task waits for a clock, on the renewal thread too: until
    /// nothing has begun or ended while all tasks had their turn. How long that takes does not matter.
    pub(super) async fn rest(&self) {
        let mut seen = None;
        loop {
            turns().await;
            let slept = || {
                let clocks = self.clocks.lock().unwrap();
                clocks.iter().map(|clock| clock.slept().len()).sum::<usize>()
            };
            let ended = self.requests.ended.load(Ordering::SeqCst);
            let begun = self.requests.begun.load(Ordering::SeqCst);
            let now = Some((begun, ended, slept()));
            if begun == ended && now == seen {
                return;
            }
            seen = now;
        }
    }
}

/// How many requests have been sent and answered.
#[derive(Default)]
struct Requests {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Policy for Requests {
    fn before(&self, _: &mut Attempt<'_>) -> rowkey::Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn after(&self, _: &Attempt<'_>, _: AttemptResult) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// Refuses every request.
struct Refusing;

impl Policy for Refusing {
    fn before(&self, _: &mut Attempt<'_>) -> rowkey::Result<()> {
        Err(rowkey::Error::refused(ErrorKind::Invalid, "it is not to be sent"))
    }
}

/// Lets all tasks of this thread and of the renewal thread have their turns.
async fn turns() {
    let yields = async || {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    };
    yields().await;
    // A janitor sends its first request from the renewal thread, behind what waits there.
    let account = StorageAccount::builder().connection_string("UseDevelopmentStorage=true");
    let account = account.unwrap().policy(Arc::new(Refusing)).build().unwrap();
    let lock = LeaseLock::new(account.container("locks").blob("janitor"));
    Janitor::new(lock).run_until(pending()).await.unwrap_err();
    yields().await;
}

#[expect(clippy::disallowed_methods, reason = "programs run beside each other")]
pub(super) fn spawn<R: Send + 'static>(
    future: impl Future<Output = R> + Send + 'static,
) -> tokio::task::JoinHandle<R> {
    tokio::spawn(future)
}

/// Runs `scenario` on copies of `server`, and lets each of its first `requests` requests fail in four ways; few of
/// them without `ROWKEY_SWEEP`. A minute later `recover` does what a program would do then, and `invariants` checks the
/// store. For scenarios whose requests run beside each other, so that their number varies: a fault that is never
/// reached is a run without one.
pub(super) async fn failing_at_each_request(
    server: &Server,
    requests: u64,
    scenario: impl AsyncFn(&StorageAccount),
    recover: impl AsyncFn(&StorageAccount) -> TestResult,
    invariants: impl Fn(&Snapshot),
) -> TestResult {
    let mut hits = 0;
    for request in 1..=requests {
        let any = || Fault::any().nth(request);
        let faults = [
            any().reject(ErrorCode::SERVER_BUSY),
            any().reject(ErrorCode::AUTHENTICATION_FAILED),
            any().close_before_commit(),
            any().close_after_commit(),
        ];
        for (way, fault) in (0..).zip(faults) {
            for repeats in [true, false] {
                let is_skipped = sweep::is_brief() && !request.is_multiple_of(3);
                if is_skipped || !sweep::is_made(request + way + 4 * u64::from(repeats)) {
                    continue;
                }
                let server = server.fork().await?;
                let account = sweep::account(&server)?;
                let account = if repeats { account } else { once(&account) };
                let fault = server.inject(fault.clone());
                scenario(&account).await;
                hits += fault.hits();
                drop(fault);
                server.clock().advance(Duration::from_secs(60));
                let at = format!("request {request}, way {way}, repeats: {repeats}");
                let recovered = recover(&sweep::account(&server)?).await;
                recovered.map_err(|error| format!("{at}: {error}"))?;
                eprintln!("{at}");
                invariants(&server.snapshot());
            }
        }
    }
    assert!(hits * 2 > requests || sweep::is_brief(), "most requests failed: {hits}");
    Ok(())
}
