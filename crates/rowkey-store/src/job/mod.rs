//! One engine for every job over a table: at a pace, with progress, a checkpoint and one report.
//!
//! A job is what is done ([`Job::walk`], [`Job::count`], [`Job::load`]) and how. It repeats what the
//! service does not take ([`Pace`]), tells its [`Progress`], can go on from a [`Checkpoint`] in another
//! process, and says in a [`Report`] what it found, in the words that all jobs share.
//!
//! - this file: [`Job`], its settings, and what runs share
//! - `pace`: [`Pace`], how fast requests are sent · `limiter`: its state for each partition
//! - `walk`: [`Walk`], a table in ranges, page by page, and the jobs that read it
//! - `load`: [`Batch`], groups of entities that are stored · `pack`: how they are filled
//! - `rows`, `delete`: entities of plain types, loaded and deleted
//! - `checkpoint`: [`Checkpoint`], how far a job is, as text that can be stored
//! - `report`: [`Report`], what it found and did

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rowkey::{Error, ErrorKind, Result, Table};

mod checkpoint;
mod delete;
mod limiter;
mod load;
mod pace;
pub(crate) mod pack;
mod report;
pub(crate) mod rows;
pub(crate) mod walk;

pub use checkpoint::Checkpoint;
pub use delete::Deletion;
pub use load::{Batch, Loading};
pub use pace::{Attempt, Pace, Requests, Target, paced};
pub use pack::Packs;
pub use report::{Counts, MAX_PROBLEMS, Problem, Report, Verdict};
pub use rows::Rows;
pub use walk::{Keys, PageStep, Walk, Walking};

/// A job over a table, ready to run.
///
/// Made by [`Job::walk`], [`Job::count`], [`Job::delete`], [`Job::load`], [`Job::insert`] and
/// [`Job::upsert`], and by the jobs of a [`Store`](crate::Store). Nothing is sent before `run`.
///
/// ```
/// use rowkey::{DynamicEntity, StorageAccount};
/// use rowkey_store::job::{Checkpoint, Job, Pace, Walk};
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
///     .pace(Pace::new(&account).requests_per_second(50))
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
/// Dropping the future of `run` at any time stops the job. What it told as [`Progress`] until then holds:
/// a job that [resumes](Self::resume) from the last checkpoint does the rest, and again what was in
/// flight.
#[must_use = "nothing is done until `run`"]
pub struct Job<'a, W> {
    name: String,
    table: Table,
    work: W,
    pace: Pace,
    concurrency: usize,
    stop_after: u64,
    parameters: Vec<(String, String)>,
    on_progress: OnProgress<'a>,
    resume: Option<Checkpoint>,
}

/// What is called as the job gets on.
type OnProgress<'a> = Box<dyn FnMut(&Progress<'_>) + Send + 'a>;

/// How far a job is: told after each page and each group, and at the end.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// How far it is. Store it to be able to resume.
    pub checkpoint: &'a Checkpoint,
    /// How many units of work (ranges) there are; `None` for a stream, which may have any number.
    pub units: Option<u64>,
    /// What the job's [`Pace`] has sent, for all jobs that share it.
    pub requests: Requests,
}

/// A job that ended before its end, and where it can go on.
///
/// Converts to its [`Error`] with `?`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Interrupted {
    /// Why: an error that is not retryable, too many failed items, or the deadline.
    pub error: Error,
    /// Where to go on, with the report until here.
    pub checkpoint: Box<Checkpoint>,
}

/// Settings of all jobs.
impl<'a, W> Job<'a, W> {
    fn new(name: impl Into<String>, table: &Table, work: W) -> Self {
        Self {
            name: name.into(),
            table: paced(table),
            work,
            pace: Pace::new(table.account()),
            concurrency: 8,
            stop_after: 1000,
            parameters: Vec::new(),
            on_progress: Box::new(|_| {}),
            resume: None,
        }
    }

    /// Sends requests at this pace. Default: one of its own, without ceilings and without a deadline.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Works on this many ranges or groups at once, at least 1. Default: 8.
    ///
    /// A range holds one page of up to 1,000 entities in memory.
    pub fn concurrency(mut self, units: usize) -> Self {
        self.concurrency = units.max(1);
        self
    }

    /// Calls `progress` after each page and each group that is done, and at the end. It should return
    /// soon: the job waits for it.
    pub fn progress(mut self, progress: impl FnMut(&Progress<'_>) + Send + 'a) -> Self {
        self.on_progress = Box::new(progress);
        self
    }

    /// Ends the job when more than this many items of a run have [`Verdict::Failed`]. Default: 1,000.
    pub fn stop_after(mut self, failed: u64) -> Self {
        self.stop_after = failed;
        self
    }

    /// Binds checkpoints to a parameter of the job, beside its name and table: what it looks for,
    /// whether it repairs. A checkpoint with another value is refused.
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Goes on where another run of the same job was. `run` refuses the checkpoint of another job.
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.resume = Some(checkpoint);
        self
    }

    /// Takes the settings and the work apart. `splits` are where ranges begin, unless the checkpoint
    /// says it.
    fn start(self, splits: Vec<String>) -> Result<(Run<'a>, Table, W), Interrupted> {
        let mut first = Checkpoint::new(&self.name, self.table.name(), &self.parameters);
        first.splits = splits;
        let checkpoint = match self.resume {
            Some(resumed) => match first.check(&resumed) {
                Ok(()) => resumed,
                Err(error) => {
                    let error = error.of("Job", self.table.name());
                    return Err(Interrupted { error, checkpoint: Box::new(resumed) });
                }
            },
            None => first,
        };
        let most_failed = checkpoint.report().total.failed.saturating_add(self.stop_after);
        let state = Mutex::new(State { checkpoint, on_progress: self.on_progress });
        let Self { name, pace, concurrency, table, work, .. } = self;
        Ok((Run { name, pace, concurrency, most_failed, units: None, state }, table, work))
    }
}

/// A job that runs: what its ranges or groups share.
struct Run<'a> {
    name: String,
    pace: Pace,
    concurrency: usize,
    most_failed: u64,
    units: Option<u64>,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    checkpoint: Checkpoint,
    on_progress: OnProgress<'a>,
}

impl<'a> Run<'a> {
    /// Notes what became of a page or a group, all at once: what is in the report is behind the
    /// checkpoint.
    fn advance(&self, at: u64, next: Option<rowkey::Continuation>, report: Report) -> Result<()> {
        let mut state = self.state();
        state.checkpoint.advance(at, next, report);
        self.tell(&mut state);
        let failed = state.checkpoint.report().total.failed;
        if failed > self.most_failed {
            return Err(Error::refused(ErrorKind::Invalid, "too many items failed")
                .advise("see the problems of the report; `stop_after` allows more"));
        }
        Ok(())
    }

    /// The end of the job, or of this run.
    fn end(self, result: Result<()>) -> Result<Report, Interrupted> {
        let mut state = self.state();
        let result = result.and_then(|()| state.checkpoint.check_complete());
        if let Err(error) = result {
            let checkpoint = Box::new(state.checkpoint.clone());
            let error = error.during(format!("job {}", self.name));
            return Err(Interrupted { error, checkpoint });
        }
        if !state.checkpoint.is_finished() {
            state.checkpoint.finish();
            self.tell(&mut state);
        }
        Ok(state.checkpoint.report().clone())
    }

    fn tell(&self, state: &mut State<'_>) {
        let State { checkpoint, on_progress } = state;
        let requests = self.pace.requests();
        on_progress(&Progress { checkpoint, units: self.units, requests });
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress<'_> {
    /// What was found and done so far.
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
