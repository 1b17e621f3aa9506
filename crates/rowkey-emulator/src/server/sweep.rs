//! Runs a scenario repeatedly, failing each of its requests in every way.
//!
//! Databases are tested like this with failing disks: run once to count the requests, then once for
//! each request and each kind of failure, recover, and check the stored data.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, FutureExt as _, select};
use futures_util::{StreamExt as _, stream};
use rowkey_wire::code::ErrorCode;
use tokio::sync::Semaphore;

use super::Server;
use crate::control::{Fault, JournalEntry};

/// How long to wait before recovery: long enough for messages to become visible again, leases to
/// expire and names to be reusable.
const HEALING: Duration = Duration::from_secs(61);

/// The number of failed runs after which a sweep stops.
const MAX_FAILURES: usize = 10;

/// How a request of a [`Sweep`] fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepFault {
    /// The connection breaks before anything is changed.
    LostBefore,
    /// The request is executed, and the connection breaks before the response.
    LostAfter,
    /// 503 `ServerBusy`.
    Throttled,
    /// 500 `InternalError`: the client cannot know whether anything was changed.
    Rejected,
    /// The caller is dropped while it waits for the response, and the request is not executed, as
    /// if the program had been killed after the previous request.
    Dropped,
}

impl SweepFault {
    /// All faults.
    pub const ALL: [Self; 5] =
        [Self::LostBefore, Self::LostAfter, Self::Throttled, Self::Rejected, Self::Dropped];

    fn of(self, request: u64) -> Fault {
        let requests = Fault::any().nth(request);
        match self {
            Self::LostBefore => requests.close_before_commit(),
            Self::LostAfter => requests.close_after_commit(),
            Self::Throttled => requests.reject(ErrorCode::SERVER_BUSY),
            Self::Rejected => requests.reject(ErrorCode::INTERNAL_ERROR),
            Self::Dropped => requests.hold(),
        }
    }
}

/// Runs a scenario once for each of its requests and each way in which the request can fail.
///
/// The scenario is any code that sends requests: a write of a store, a handler of a service. Each
/// run has its own server, a [fork](Server::fork) of the given one with a copy of its data. After
/// the fault, a minute passes on the server's clock, `settle` does what a restarted program would
/// do then, and `check` inspects the stored data.
///
/// A run of a scenario with *n* requests costs about *n* requests. A sweep makes 5 *n* + 1 runs, or
/// a [sample](Self::sample) of them.
///
/// ```
/// use std::error::Error;
///
/// use rowkey_emulator::{Server, Sweep};
///
/// /// A client of the service under test, which retries as that one does.
/// struct Client { endpoint: String }
/// # impl Client {
/// #     async fn connect(&self) -> std::io::Result<()> {
/// #         let host = self.endpoint.trim_start_matches("http://").split('/').next();
/// #         let _ = tokio::net::TcpStream::connect(host.unwrap_or_default()).await?;
/// #         Ok(())
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn Error>> {
/// let server = Server::start().await?;
/// let swept = Sweep::new(&server)
///     .run(
///         // Connects, as a program does when it starts.
///         async |server| Ok(Client { endpoint: server.table_endpoint().to_owned() }),
///         // The scenario. Its result is shown to the check.
///         async |client| client.connect().await.is_ok(),
///         // The worker, a minute later.
///         async |_client| Ok(()),
///         // What must hold then. A panic counts as an error.
///         async |_server, _client, result| match result {
///             Some(false) => Err("it did not connect".into()),
///             Some(true) | None => Ok(()),
///         },
///     )
///     .await;
/// // A scenario that sends nothing proves nothing.
/// assert!(swept.unwrap_err().to_string().contains("sends no requests"));
/// # Ok(()) }
/// ```
///
/// With the client of this project, a run does not wait in real time if the server has a [manual
/// clock](crate::ServerBuilder::manual_clock) and the accounts have `ManualClock::auto_advancing`.
#[derive(Clone, Debug)]
#[must_use = "a sweep runs nothing before `run`"]
pub struct Sweep<'s> {
    server: &'s Server,
    faults: Vec<SweepFault>,
    healing: Duration,
    lags: bool,
    waits: bool,
    at_a_time: usize,
    /// The sweep makes one run in `.0`; `.1` is the seed that selects it.
    sample: (u64, u64),
}

/// The result of a successful [`Sweep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The number of requests in the scenario when nothing fails.
    pub requests: u64,
    /// The number of runs in which one of them failed.
    pub runs: u64,
}

/// The runs of a [`Sweep`] that failed, at most 10.
pub struct SweepError(Vec<SweepFailure>);

/// A run of a [`Sweep`] that failed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepFailure {
    /// The number of the request that the sweep failed, from 1; `None` for the run without a fault.
    pub request: Option<u64>,
    /// The operation that was requested, and its table, queue or blob.
    pub operation: String,
    /// How the request failed; `None` for the run without a fault.
    pub fault: Option<SweepFault>,
    /// The error of the closure that failed.
    pub what: String,
}

/// An error of the program under test.
type AnyError = Box<dyn Error>;

impl<'s> Sweep<'s> {
    /// Creates a sweep with all faults, starting from the current contents of `server`. The server
    /// must have its [journal](crate::ServerBuilder::journal), which is on by default.
    pub fn new(server: &'s Server) -> Self {
        let faults = SweepFault::ALL.to_vec();
        let (lags, waits, at_a_time, sample) = (false, false, 1, (1, 0));
        Self { server, faults, healing: HEALING, lags, waits, at_a_time, sample }
    }

    /// Injects only these faults.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rowkey_emulator::{Server, Sweep, SweepFault};
    ///
    /// # use std::io::{Read as _, Write as _};
    /// # /// Lists the tables without a signature.
    /// # fn tables(endpoint: &str) -> std::io::Result<String> {
    /// #     let (host, account) = endpoint.trim_start_matches("http://").split_once('/').unwrap();
    /// #     let mut connection = std::net::TcpStream::connect(host)?;
    /// #     let head = format!("GET /{account}/Tables HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    /// #     connection.write_all(head.as_bytes())?;
    /// #     let mut response = String::new();
    /// #     connection.read_to_string(&mut response)?;
    /// #     Ok(response)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = Server::start().await?;
    /// let swept = Sweep::new(&server)
    ///     .faults([SweepFault::LostBefore, SweepFault::Throttled])
    ///     .sample(1, 7)
    ///     .lagging_secondary()
    ///     .healing(Duration::from_secs(5))
    ///     .at_a_time(2)
    ///     .run(
    ///         async |server| Ok(server.table_endpoint().to_owned()),
    ///         async |endpoint| drop(tables(endpoint)),
    ///         async |_| Ok(()),
    ///         async |_, _, _| Ok(()),
    ///     )
    ///     .await;
    /// let swept = swept.unwrap();
    /// assert_eq!((swept.requests, swept.runs), (1, 2));
    /// # Ok(()) }
    /// ```
    pub fn faults(mut self, faults: impl IntoIterator<Item = SweepFault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Makes only one run in `of`, chosen by `seed`, for tests of each change where all runs take
    /// too long. `of` consecutive seeds cover all runs. If `of` is at most the number of faults,
    /// every request still fails in some way, and every fault happens at some request.
    pub fn sample(mut self, of: u64, seed: u64) -> Self {
        self.sample = (of.max(1), seed);
        self
    }

    /// Freezes the secondary at its contents before the scenario, until recovery. This affects only
    /// a client that reads from the secondary, usually because the primary is throttled.
    pub fn lagging_secondary(mut self) -> Self {
        self.lags = true;
        self
    }

    /// Sets how much time passes before recovery. Default: 61 seconds.
    pub fn healing(mut self, healing: Duration) -> Self {
        self.healing = healing;
        self
    }

    /// Waits in real time instead of advancing the server's clock, for programs whose clock cannot
    /// be replaced. All runs wait at the same time, each with its own server. At most
    /// [`at_a_time`](Self::at_a_time) of them do anything else.
    pub fn real_time(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Sets how many runs proceed at the same time, on the calling task, besides those that wait
    /// for [`real_time`](Self::real_time). Default: 1.
    pub fn at_a_time(mut self, runs: usize) -> Self {
        self.at_a_time = runs.max(1);
        self
    }

    /// Runs the sweep.
    ///
    /// - `setup` creates what a program has when it starts, for one server: accounts, stores, a
    ///   service. It is called twice per run: before the scenario, and after it, as if the program
    ///   had been restarted.
    /// - `act` is the scenario. It sends the same requests in the same order each time, up to the
    ///   one that fails.
    /// - `settle` does what the program does a minute later: its worker, its retries.
    /// - `check` inspects the stored data, and the result of `act`, which is `None` if the caller
    ///   was dropped.
    ///
    /// # Errors
    ///
    /// [`SweepError`] with the runs in which a closure failed or panicked. If the run without a
    /// fault fails, it is the only one.
    #[expect(clippy::future_not_send, reason = "closures of tests need not be Send")]
    pub async fn run<A, T>(
        self,
        setup: impl AsyncFn(&Server) -> Result<A, AnyError>,
        act: impl AsyncFn(&A) -> T,
        settle: impl AsyncFn(&A) -> Result<(), AnyError>,
        check: impl AsyncFn(&Server, &A, Option<&T>) -> Result<(), AnyError>,
    ) -> Result<Swept, SweepError> {
        let places = Semaphore::new(self.at_a_time);
        let one = async |fault: Option<(u64, SweepFault)>| {
            let run = self.one(fault, &places, &setup, &act, &settle, &check);
            let ended = AssertUnwindSafe(run).catch_unwind().await;
            ended.unwrap_or_else(|panic| Err(format!("panicked: {}", message(&*panic))))
        };
        let failure = |fault: Option<(u64, SweepFault)>, operation: &str, what: String| {
            let (request, fault) = fault.unzip();
            SweepFailure { request, operation: operation.to_owned(), fault, what }
        };
        let requests = one(None).await.map_err(|what| SweepError(vec![failure(None, "", what)]))?;
        if requests.is_empty() {
            let what = "the scenario sends no requests, or the server has no journal";
            return Err(SweepError(vec![failure(None, "", what.to_owned())]));
        }
        let numbered = (1_u64..).zip(&requests);
        let (of, seed) = self.sample;
        // Diagonals: successive requests fail in different ways.
        let is_chosen = |number: u64, way: u64| (number + way) % of == seed % of;
        let runs = numbered.flat_map(|(number, operation)| {
            let faults = (0..).zip(&self.faults).filter(move |(way, _)| is_chosen(number, *way));
            faults.map(move |(_, fault)| ((number, *fault), operation))
        });
        let runs = runs.map(|(fault, operation)| {
            let one = &one;
            async move { (fault, operation, one(Some(fault)).await) }
        });
        let begun = if self.waits { usize::MAX } else { self.at_a_time };
        let mut runs = stream::iter(runs).buffer_unordered(begun);
        let mut swept = Swept { requests: requests.len() as u64, runs: 0 };
        let mut failures = Vec::new();
        while let Some((fault, operation, result)) = runs.next().await {
            swept.runs += 1;
            if let Err(what) = result {
                failures.push(failure(Some(fault), operation, what));
                if failures.len() == MAX_FAILURES {
                    break;
                }
            }
        }
        failures.sort_by_key(|failure| failure.request);
        if failures.is_empty() { Ok(swept) } else { Err(SweepError(failures)) }
    }

    /// Makes one run; returns the requests of the scenario.
    #[expect(clippy::future_not_send, reason = "closures of tests need not be Send")]
    async fn one<A, T>(
        &self,
        fault: Option<(u64, SweepFault)>,
        places: &Semaphore,
        setup: &impl AsyncFn(&Server) -> Result<A, AnyError>,
        act: &impl AsyncFn(&A) -> T,
        settle: &impl AsyncFn(&A) -> Result<(), AnyError>,
        check: &impl AsyncFn(&Server, &A, Option<&T>) -> Result<(), AnyError>,
    ) -> Result<Vec<String>, String> {
        let forked = |error| format!("the server cannot be forked: {error}");
        // The semaphore is never closed, so this does not fail.
        let place = places.acquire().await.ok();
        let mut server = self.server.fork().await.map_err(forked)?;
        let started = setup(&server).await.map_err(|error| format!("setup: {error}"))?;
        // The requests of the setup are not part of the scenario.
        let before = server.journal();
        let behind = self.lags.then(|| server.hold_back_secondary());
        let injected = fault.map(|(request, fault)| server.inject(fault.of(request)));
        let result = match (&injected, fault) {
            (Some(held), Some((_, SweepFault::Dropped))) => {
                let (stop, run) = (pin!(held.wait_until_held()), pin!(act(&started)));
                match select(stop, run).await {
                    Either::Left(_) => None,
                    // A scenario with concurrent requests may end earlier.
                    Either::Right((result, _)) => Some(result),
                }
            }
            _ => Some(act(&started).await),
        };
        let journal = server.journal().since(&before);
        let requests = journal.iter().map(shown).collect();
        if let (Some(injected), Some((_, fault))) = (&injected, fault)
            && fault != SweepFault::Dropped
            && injected.hits() != 1
        {
            return Err("the scenario does not send this request every time".to_owned());
        }
        if result.is_none() {
            // The held request must not be executed on the other server, even if this server learns
            // late that its caller is gone.
            server = server.fork().await.map_err(forked)?;
        }
        drop((started, injected, behind, place));
        if self.waits {
            let clock = server.clock();
            clock.sleep(clock.now(), self.healing).await;
        } else {
            server.clock().advance(self.healing);
        }
        let _place = places.acquire().await.ok();
        let system = setup(&server).await.map_err(|error| format!("setup: {error}"))?;
        settle(&system).await.map_err(|error| format!("settle: {error}"))?;
        let checked = check(&server, &system, result.as_ref()).await;
        checked.map_err(|error| format!("check: {error}"))?;
        Ok(requests)
    }
}

/// The request as shown in a failure.
fn shown(entry: &JournalEntry) -> String {
    format!("{:?} {}", entry.operation(), entry.resource())
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

impl SweepError {
    /// The failed runs, in the order of their requests.
    pub fn failures(&self) -> &[SweepFailure] {
        &self.0
    }
}

impl Error for SweepError {}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sweep: {} runs failed", self.0.len())?;
        for failure in &self.0 {
            write!(f, "\n  {failure}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A test that returns this error prints it with `Debug`.
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SweepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.request, self.fault) {
            (Some(request), Some(fault)) => {
                write!(f, "request {request} ({}), {fault:?}: ", self.operation)?;
            }
            _ => f.write_str("without a fault: ")?,
        }
        f.write_str(&self.what)
    }
}

impl fmt::Debug for SweepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests, {} runs with a failure", self.requests, self.runs)
    }
}
