//! One engine for all jobs over a table, with pacing, progress, checkpoints and one report format.
//!
//! A job combines its work ([`Job::walk`], [`Job::count`], [`Job::load`]) with settings for how to run
//! it. Its requests run in the background ([`Pace::background`]), which repeats those that the service does not
//! accept. It reports its [`Progress`], can
//! resume from a [`Checkpoint`] in another process, and returns a [`Report`] in a format shared by all
//! jobs.
//!
//! - this file: [`Job`], its settings, and the state shared by its runs
//! - `repeat`: [`Attempt`], what failed and is done again after a pause
//! - `walk`: [`Walk`], a table in ranges, and the jobs that read it · `range`: a range, page by page · `split`: ranges that are split
//!   while they are read
//! - `load`: [`Batch`], groups of entities that are stored · `pack`: how groups are filled
//! - `rows`, `delete`: loading and deleting entities of plain types · `copy`: copying entities to another table
//! - `several`: [`Jobs`], several jobs as one
//! - `checkpoint`: [`Checkpoint`], the position of a job as text that can be stored
//! - `report`: [`Report`], the result of a job · `outputs`: what its steps wrote elsewhere · `usage`: what a job uses, before it runs
//! - `measure`: metrics

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rowkey_client::internals::patient;
use rowkey_client::pace::{Lane, Pace, Requests};
use rowkey_client::{ClientOptions, Error, ErrorKind, Result, ScanPolicy, Table};

mod checkpoint;
mod copy;
#[cfg(test)]
mod copy_tests;
mod delete;
#[cfg(test)]
mod input_tests;
#[cfg(test)]
mod lane_tests;
mod load;
mod measure;
mod outputs;
pub(crate) mod pack;
#[cfg(test)]
mod patience_tests;
mod range;
#[cfg(test)]
mod range_tests;
#[cfg(test)]
mod reason_tests;
mod repeat;
mod report;
pub(crate) mod rows;
#[cfg(test)]
mod same_tests;
mod several;
mod split;
mod usage;
mod walk;

use split::Splits;

pub use checkpoint::Checkpoint;
pub use copy::Copying;
pub use delete::Deletion;
pub use load::{Batch, Loading};
pub use pack::Packs;
pub use repeat::Attempt;
pub use report::{Counts, MAX_PROBLEMS, Problem, Report, Verdict};
pub use rows::{Rejected, Rows};
pub use several::Jobs;
pub use walk::{Keys, PageStep, Walk, Walking};

/// A job over a table, ready to run.
///
/// Created by [`Job::walk`], [`Job::count`], [`Job::delete`], [`Job::load`], [`Job::insert`],
/// [`Job::upsert`] and the jobs of a `Store`. Nothing is sent before `run`.
///
/// ```
/// use rowkey::pace::Pace;
/// use rowkey::patterns::job::{Checkpoint, Job, Walk};
/// use rowkey::{DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let events = account.table("events");
/// events.create().await?;
/// for number in 0..20 {
///     events.insert(&DynamicEntity::new(format!("device-{}", number % 3), number.to_string())).await?;
/// }
///
/// let mut stored = String::new(); // in a file or a blob, as a rule
/// let report = Job::count(Walk::keys(&events).split_partitions(["device-1", "device-2"]))
///     .pace(Pace::background().requests_per_second(50))
///     .concurrency(4)
///     .progress(|progress| stored = progress.checkpoint.to_string())
///     .run()
///     .await?;
/// assert_eq!(report.total.examined, 20);
///
/// let checkpoint: Checkpoint = stored.parse()?;
/// let again = Job::count(Walk::keys(&events)).resume(checkpoint).run().await?;
/// assert_eq!(again, report); // it was finished: nothing was sent
/// # Ok(()) }
/// ```
///
/// # Cancellation
///
/// Dropping the future of `run` stops the job at any time. The last [`Progress`] remains valid: a job
/// that [resumes](Self::resume) from its checkpoint does the remaining work, and repeats what was in
/// flight.
#[must_use = "nothing is done until `run`"]
pub struct Job<'a, W> {
    name: String,
    table: Table,
    work: W,
    pace: Pace,
    patience: Option<Duration>,
    concurrency: usize,
    stop_after: u64,
    parameters: Vec<(String, String)>,
    on_progress: OnProgress<'a>,
    resume: Option<Checkpoint>,
}

/// The callback for progress.
type OnProgress<'a> = Box<dyn FnMut(&Progress<'_>) + Send + 'a>;

/// The progress of a job, reported after each page or group and at the end.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The position of the job. Store it to be able to resume.
    pub checkpoint: &'a Checkpoint,
    /// The total number of units of work (ranges), which grows if ranges are
    /// [split](Walk::split_automatically); `None` for a stream, whose length is unknown.
    pub units: Option<u64>,
    /// The requests sent through the job's [`Pace`], by all jobs that share it.
    pub requests: Requests,
    /// The one partition that limits the job, if there is one: that of [`Pace::lane`].
    pub lane: Option<Lane>,
}

/// A job that ended early, with a checkpoint to resume from.
///
/// Converts to its [`Error`] with `?`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Interrupted {
    /// What happened, to what, and what to do.
    pub error: Error,
    /// Why, to branch on: errors of different reasons may have the same [kind](Error::kind).
    pub reason: Reason,
    /// The checkpoint to resume from, with the report so far.
    pub checkpoint: Box<Checkpoint>,
}

/// Why a job ended early.
///
/// ```
/// # use rowkey::{DynamicEntity, StorageAccount};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let events = account.table("events");
/// # events.create().await?;
/// use rowkey::patterns::job::{Checkpoint, Job, Reason, Walk};
///
/// let stored = r#"{"version":1,"job":"delete","table":"events","begun":0,"report":{"total":{}}}"#;
/// let of_another_job: Checkpoint = stored.parse()?;
/// let count = || Job::count(Walk::keys(&events));
/// let report = match count().resume(of_another_job).run().await {
///     Err(stopped) if stopped.reason == Reason::Checkpoint => count().run().await?,
///     ended => ended?,
/// };
/// assert!(report.is_clean());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The checkpoint to resume belongs to another job, table, parameter or version, or contradicts itself. Nothing was sent: resume
    /// the job that wrote it, or start without a checkpoint.
    Checkpoint,
    /// The stream of a load has fewer groups than in the run that it resumes. Resume with the same stream.
    Stream,
    /// More items failed than [`stop_after`](Job::stop_after) allows. Correct what the problems of the report have in common, and resume.
    TooManyFailed,
    /// The deadline of the pace came, or the [patience](Job::patience) ended. Resume later.
    Late,
    /// A read, a write or a step failed, and doing it again does not help: see the [kind](Error::kind) of the error.
    Failed,
}

/// Settings of all jobs.
impl<'a, W> Job<'a, W> {
    fn new(name: impl Into<String>, table: &Table, work: W) -> Self {
        Self {
            name: name.into(),
            table: primary(table),
            work,
            pace: Pace::background(),
            patience: None,
            concurrency: 8,
            stop_after: 1000,
            parameters: Vec::new(),
            on_progress: Box::new(|_| {}),
            resume: None,
        }
    }

    /// Sends requests at this pace: those of the job itself, and all that its steps and groups send from their
    /// own future. What the stream of a load sends is not among them. Default: [`Pace::background`], without maximum
    /// rates of its own and without a deadline.
    ///
    /// A 503 (`ServerBusy`), a timeout or a lost connection never fails an item: what failed is repeated after a
    /// pause until the deadline of the pace. With [`Pace::foreground`], requests go before those of other jobs and
    /// wait no longer than the `timeout` of the options; what the job then repeats is the page or the group.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Ends the job with its [retryable](Error::is_retryable) error when no request of it was answered for this long. Default:
    /// it waits until the service answers, or for the [deadline](Pace::until) of its pace.
    ///
    /// A job that is throttled, but advances, does not end, however long it takes. Time in which the job waits for
    /// maximum rates of its own pace, or its steps send nothing, does not count. A pause that would end later is not begun.
    ///
    /// ```
    /// # use rowkey_emulator::{ErrorCode, Fault, Server};
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// # let busy = server.inject(Fault::any().reject(ErrorCode::SERVER_BUSY));
    /// use std::time::Duration;
    ///
    /// use rowkey::patterns::job::{Job, Walk};
    ///
    /// let count = Job::count(Walk::keys(&events)).patience(Duration::from_millis(200));
    /// let stopped = count.run().await.unwrap_err();
    /// assert!(stopped.error.is_retryable());
    /// # drop(busy);
    /// // Later, perhaps in another process:
    /// let rest = Job::count(Walk::keys(&events)).resume(*stopped.checkpoint);
    /// assert_eq!(rest.run().await?.total.right, 0);
    /// # Ok(()) }
    /// ```
    pub fn patience(mut self, limit: Duration) -> Self {
        self.patience = Some(limit);
        self
    }

    /// Processes this many ranges or groups at once, at least 1. Default: 8.
    ///
    /// A range holds one page of up to 1,000 entities in memory.
    pub fn concurrency(mut self, units: usize) -> Self {
        self.concurrency = units.max(1);
        self
    }

    /// Calls `progress` after each completed page or group, and at the end. The job waits for the
    /// callback, so it should return quickly.
    pub fn progress(mut self, progress: impl FnMut(&Progress<'_>) + Send + 'a) -> Self {
        self.on_progress = Box::new(progress);
        self
    }

    /// Ends the job when more than this many items of a run have [`Verdict::Failed`]. Default: 1,000.
    ///
    /// ```
    /// # use futures_util::stream;
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// use rowkey::patterns::job::Job;
    ///
    /// let rows = (0..10).map(|number| {
    ///     let mut row = DynamicEntity::new("device-7", "the same key");
    ///     row.set("Number", number);
    ///     row
    /// });
    /// let stopped = Job::insert(&events, stream::iter(rows)).stop_after(3).run().await.unwrap_err();
    /// assert!(stopped.checkpoint.report().total.failed > 3);
    /// # Ok(()) }
    /// ```
    pub fn stop_after(mut self, failed: u64) -> Self {
        self.stop_after = failed;
        self
    }

    /// Ties checkpoints to a parameter of the job, besides its name and table, such as what it
    /// looks for or whether it repairs. A checkpoint with another value is refused.
    ///
    /// ```
    /// # use futures_util::stream;
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// use rowkey::patterns::job::{Checkpoint, Job, Walk};
    ///
    /// let mut stored = String::new();
    /// Job::count(Walk::keys(&events))
    ///     .parameter("year", "2025")
    ///     .progress(|progress| stored = progress.checkpoint.to_string())
    ///     .run()
    ///     .await?;
    /// let checkpoint: Checkpoint = stored.parse()?;
    /// let other = Job::count(Walk::keys(&events)).parameter("year", "2026").resume(checkpoint);
    /// assert!(other.run().await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Resumes another run of the same job. `run` refuses the checkpoint of another job.
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.resume = Some(checkpoint);
        self
    }

    /// Separates the settings from the work. `splits` are the starts of the ranges, unless the
    /// checkpoint names them.
    fn start(self, splits: Vec<String>) -> Result<(Run<'a>, Table, W), Interrupted> {
        let mut first = Checkpoint::new(&self.name, self.table.name(), &self.parameters);
        first.splits = splits;
        let checkpoint = match self.resume {
            Some(resumed) => match first.check(&resumed) {
                Ok(()) => resumed,
                Err(error) => {
                    let error = error.of("Job", self.table.name());
                    let (reason, checkpoint) = (Reason::Checkpoint, Box::new(resumed));
                    return Err(Interrupted { error, reason, checkpoint });
                }
            },
            None => first,
        };
        let counts = checkpoint.report().total;
        let most_failed = counts.failed.saturating_add(self.stop_after);
        let pace = match self.patience {
            Some(limit) => patient(self.pace, limit),
            None => self.pace,
        };
        let measures = measure::Measures::new(&self.table, &pace, counts);
        let (on_progress, reason) = (self.on_progress, None);
        let state = Mutex::new(State { checkpoint, on_progress, measures, reason });
        let Self { name, concurrency, table, work, .. } = self;
        let splits = Splits::new(concurrency);
        Ok((Run { name, pace, concurrency, most_failed, units: None, splits, state }, table, work))
    }
}

/// Returns `table` with the options of jobs: it reads only the primary, and allows scans.
fn primary(table: &Table) -> Table {
    let options = table.account().options().clone();
    let scan_policy = ScanPolicy::Allow;
    table.with_options(ClientOptions { read_from_secondary: false, scan_policy, ..options })
}

/// A running job: the state that its ranges or groups share.
struct Run<'a> {
    name: String,
    pace: Pace,
    concurrency: usize,
    most_failed: u64,
    /// Those with which the job began.
    units: Option<u64>,
    splits: Splits,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    checkpoint: Checkpoint,
    on_progress: OnProgress<'a>,
    measures: measure::Measures,
    /// Why the job ends early, if that is known.
    reason: Option<Reason>,
}

impl<'a> Run<'a> {
    /// Records the result of a page or a group in one step, so that the report covers exactly what
    /// the checkpoint has passed.
    fn advance(
        &self,
        at: u64,
        next: Option<rowkey_client::Continuation>,
        report: Report,
    ) -> Result<()> {
        let mut state = self.state();
        state.checkpoint.advance(at, next, report);
        self.tell(&mut state);
        let failed = state.checkpoint.report().total.failed;
        if failed > self.most_failed {
            state.reason = Some(Reason::TooManyFailed);
            let all = state.checkpoint.report().total.examined;
            let what = format!("too many items failed, {failed} of {all}");
            return Err(Error::refused(ErrorKind::Invalid, what)
                .advise("see the problems of the report; `stop_after` allows more"));
        }
        Ok(())
    }

    /// Ends this run of the job.
    fn end(self, result: Result<()>) -> Result<Report, Interrupted> {
        let mut state = self.state();
        let complete = |state: &mut State<'_>| {
            let complete = state.checkpoint.check_complete();
            complete.inspect_err(|_| state.reason = Some(Reason::Stream))
        };
        let result = result.and_then(|()| complete(&mut state));
        if let Err(error) = result {
            let late = if error.is_past_deadline() { Reason::Late } else { Reason::Failed };
            let reason = state.reason.unwrap_or(late);
            let checkpoint = Box::new(state.checkpoint.clone());
            let error = error.during(format!("job {}", self.name));
            return Err(Interrupted { error, reason, checkpoint });
        }
        if !state.checkpoint.is_finished() {
            state.checkpoint.finish();
            self.tell(&mut state);
        }
        Ok(state.checkpoint.report().clone())
    }

    fn tell(&self, state: &mut State<'_>) {
        let State { checkpoint, on_progress, measures, .. } = state;
        let units = self.units.map(|units| units + checkpoint.added.len() as u64);
        measures.tell(&self.name, &self.pace, checkpoint, units);
        let requests = self.pace.requests();
        let lane = self.pace.lane();
        on_progress(&Progress { checkpoint, units, requests, lane });
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress<'_> {
    /// The findings and changes so far.
    pub fn report(&self) -> &Report {
        self.checkpoint.report()
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Interrupted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<Interrupted> for Error {
    fn from(interrupted: Interrupted) -> Self {
        interrupted.error
    }
}

impl<W> fmt::Debug for Job<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("name", &self.name)
            .field("table", &self.table.name())
            .field("pace", &self.pace)
            .field("resume", &self.resume)
            .finish_non_exhaustive()
    }
}
