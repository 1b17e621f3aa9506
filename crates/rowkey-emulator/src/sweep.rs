//! The sweep: what becomes of a scenario when any one of its requests fails, in every way.
//!
//! Databases are tested so with failing disks: run once to count the requests, then once more for
//! each request and each way to fail, recover, and look at what is stored.

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

use crate::control::{Fault, JournalEntry};
use crate::server::Server;

/// How long a scenario is left alone before it is recovered from: long enough for messages to be
/// visible again, for leases to end and for names to be free.
const HEALING: Duration = Duration::from_secs(61);

/// Failed runs after which a sweep ends.
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
    /// 500 `InternalError`: the client cannot know that nothing was changed.
    Rejected,
    /// The caller is dropped while it waits for the response, and the request is not executed: as if the
    /// program had been killed after the request before.
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

/// Runs a scenario once for each of its requests and each way in which that request can fail.
///
/// The scenario is anything that sends requests: a write of a store, a handler of a service. Each run has
/// a server of its own, a [fork](Server::fork) of the one that is given, with what that one holds. After
/// the fault a minute passes on the server's clock, a program that was started anew does what it would do
/// then, and a check looks at what is stored.
///
/// A run with the scenario's requests *n* costs *n* requests; a sweep makes 5 *n* + 1 runs, or a
/// [sample](Self::sample) of them.
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
///         // What a worker does a minute later.
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
/// With the client of this project, a run waits for nothing on a server with a
/// [manual clock](crate::ServerBuilder::manual_clock) and accounts with `ManualClock::auto_advancing`.
#[derive(Clone, Debug)]
#[must_use = "a sweep runs nothing before `run`"]
pub struct Sweep<'s> {
    server: &'s Server,
    faults: Vec<SweepFault>,
    healing: Duration,
    lags: bool,
    waits: bool,
    at_a_time: usize,
    /// Of how many runs one takes place, and which.
    sample: (u64, u64),
}

/// What a [`Sweep`] has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many requests the scenario has when nothing fails.
    pub requests: u64,
    /// How many runs there were in which one of them failed.
    pub runs: u64,
}

/// Runs of a [`Sweep`] that did not end as they should, at most 10 of them.
pub struct SweepError(Vec<SweepFailure>);

/// One run of a [`Sweep`] that did not end as it should.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepFailure {
    /// The number of the request that failed, from 1; `None` if none did.
    pub request: Option<u64>,
    /// The operation that was requested, and the table, queue or blob that it was about.
    pub operation: String,
    /// How the request failed; `None` if none did.
    pub fault: Option<SweepFault>,
    /// What was wrong in the end.
    pub what: String,
}

/// An error of the program under test.
type AnyError = Box<dyn Error>;

impl<'s> Sweep<'s> {
    /// A sweep of all faults, from what `server` holds now. The server needs its
    /// [journal](crate::ServerBuilder::journal), which it has unless that was turned off.
    pub fn new(server: &'s Server) -> Self {
        let faults = SweepFault::ALL.to_vec();
        let (lags, waits, at_a_time, sample) = (false, false, 1, (1, 0));
        Self { server, faults, healing: HEALING, lags, waits, at_a_time, sample }
    }

    /// Only these faults.
    pub fn faults(mut self, faults: impl IntoIterator<Item = SweepFault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Only one run of `of`, which `seed` chooses: for tests of each change, where all runs take too long.
    /// `of` seeds in a row choose all runs. If `of` is at most the number of faults, every request still
    /// fails in some way, and every fault happens at some request.
    pub fn sample(mut self, of: u64, seed: u64) -> Self {
        self.sample = (of.max(1), seed);
        self
    }

    /// The secondary shows what there was before the scenario, until it is recovered from. Only a client
    /// that reads from the secondary meets it, as a rule when the primary is throttled.
    pub fn lagging_secondary(mut self) -> Self {
        self.lags = true;
        self
    }

    /// How much time passes before a scenario is recovered from. 61 seconds unless this is called.
    pub fn healing(mut self, healing: Duration) -> Self {
        self.healing = healing;
        self
    }

    /// Waits until that time has passed really, in place of moving the server's clock on: for programs
    /// whose clock cannot be replaced. All runs wait at the same time, each with its server; at most
    /// [`at_a_time`](Self::at_a_time) of them do anything else.
    pub fn real_time(mut self) -> Self {
        self.waits = true;
        self
    }

    /// How many runs take place at the same time, on the calling task, besides those that wait for
    /// [`real_time`](Self::real_time) to pass. One unless this is called.
    pub fn at_a_time(mut self, runs: usize) -> Self {
        self.at_a_time = runs.max(1);
        self
    }

    /// Runs the sweep.
    ///
    /// - `setup` makes what a program has when it starts, for one server: accounts, stores, a service. It
    ///   is called twice a run: before the scenario and, as if the program was started anew, after it.
    /// - `act` is the scenario. It sends the same requests in the same order each time, up to the one that
    ///   fails.
    /// - `settle` does what the program does a minute later: its worker, its retries.
    /// - `check` looks at what is stored, and at the result of `act`, which is `None` if the caller was
    ///   dropped.
    ///
    /// # Errors
    ///
    /// [`SweepError`] with the runs in which a closure failed or panicked. If the run without a fault
    /// fails, it is the only one.
    #[expect(clippy::future_not_send, reason = "closures of tests hold what they like")]
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
        // Diagonals: the next request fails in the ways that this one did not.
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

    /// One run; gives the requests of the scenario.
    #[expect(clippy::future_not_send, reason = "closures of tests hold what they like")]
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
        // An error only of a semaphore that is closed, which this one never is.
        let place = places.acquire().await.ok();
        let mut server = self.server.fork().await.map_err(forked)?;
        let started = setup(&server).await.map_err(|error| format!("setup: {error}"))?;
        // What setting up sends is no part of the scenario.
        let before = server.journal();
        let behind = self.lags.then(|| server.hold_back_secondary());
        let injected = fault.map(|(request, fault)| server.inject(fault.of(request)));
        let result = match (&injected, fault) {
            (Some(held), Some((_, SweepFault::Dropped))) => {
                let (stop, run) = (pin!(held.wait_until_held()), pin!(act(&started)));
                match select(stop, run).await {
                    Either::Left(_) => None,
                    // Scenarios that send several requests at a time may end earlier.
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
            // The request that is held is not executed on the other server, however late this one learns
            // that its caller is gone.
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

/// A request as a failure names it.
fn shown(entry: &JournalEntry) -> String {
    format!("{:?} {}", entry.operation(), entry.resource())
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

impl SweepError {
    /// The runs, in the order of their requests.
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
        // Tests that return it print this.
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
