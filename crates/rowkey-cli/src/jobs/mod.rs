//! What all commands that run a job share: its flags, its progress line, its checkpoint file, and how it stops.
//!
//! - this file: [`JobFlags`], and [`Runner`], which runs a job · `report`: what of it failed, and the exit code
//! - `checkpoint`: the position of a job in a file · `line`: the line that shows the progress on a terminal
//! - `interrupts`: Ctrl-C and the signal that ends programs, while a job runs

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Args;
use futures_util::future::{Either, select};
use rowkey::cost::{Meter, PriceTable};
use rowkey::pace::Pace;
use rowkey::patterns::job::{
    Checkpoint, Interrupted, Job, Jobs, PageStep, Progress, Reason, Report, Walking,
};
use rowkey::{ClientOptions, Clock as _, Projection, SystemClock};
use rowkey_transfer::jobs::Failure;
use tokio::sync::Notify;

use crate::args::Common;
use crate::error::{Error, Exit, Result};
use crate::prices::Prices;

mod checkpoint;
mod interrupts;
mod line;
mod report;

use checkpoint::CheckpointFile;
use interrupts::Interrupts;
use line::Line;

pub(crate) use report::{entities, finish};

/// How often the checkpoint is stored.
const STORE_EVERY: Duration = Duration::from_secs(1);

/// Flags of all commands that run a job.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct JobFlags {
    /// Keep the position in this file while the command runs. If the file exists, go on from there. It holds keys, has mode
    /// 0600, and is removed at the end.
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    checkpoint: Option<PathBuf>,
    /// Read and write at most this many entities a second.
    #[arg(
        long,
        value_name = "ENTITIES_PER_SECOND",
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Job"
    )]
    max_rate: Option<u32>,
    /// Work on this many ranges or groups of entities at once. Default: 8.
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(1..=256),
        help_heading = "Job"
    )]
    concurrency: Option<u16>,
    #[command(flatten)]
    prices: Prices,
}

impl JobFlags {
    /// What requests cost.
    pub(crate) const fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Whether the command can go on after it was stopped.
    pub(crate) fn has_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// The same for a job that is done before the one whose checkpoint is kept.
    pub(crate) fn without_checkpoint(&self) -> Self {
        Self { checkpoint: None, ..self.clone() }
    }
}

/// Runs a job as the flags say: with a progress line, from its checkpoint and with a new one, until it is done or stopped.
pub(crate) struct Runner {
    file: Option<CheckpointFile>,
    resume: Option<Checkpoint>,
    pace: Pace,
    concurrency: usize,
    patience: Duration,
    total: Option<u64>,
    prices: Option<PriceTable>,
    is_json: bool,
    input: Option<Input>,
}

/// What a job reads besides the tables.
pub(crate) struct Input {
    /// Whether it failed. The job never ends then.
    pub(crate) failure: Failure,
    /// Whether it can be read again.
    pub(crate) is_file: bool,
}

/// Why a job was ended from outside.
enum Stop {
    Signal(Exit),
    /// Its checkpoint cannot be stored.
    Checkpoint,
    /// Its input cannot be read.
    Input(rowkey_transfer::Error),
}

impl Runner {
    /// Reads the checkpoint if its file exists. Otherwise checks that it can be written, before the job does anything.
    pub(crate) fn new(common: &Common, flags: &JobFlags) -> Result<Self> {
        let (file, resume) = match &flags.checkpoint {
            Some(path) => {
                let (file, resume) = CheckpointFile::open(path)?;
                (Some(file), resume)
            }
            None => (None, None),
        };
        let pace = Pace::background();
        let patience = common.timeout.map(Duration::from_secs);
        Ok(Self {
            file,
            resume,
            pace: match flags.max_rate {
                Some(entities) => pace.entities_per_second(entities),
                None => pace,
            },
            concurrency: flags.concurrency.map_or(8, usize::from),
            patience: patience.unwrap_or(ClientOptions::default().timeout),
            total: None,
            prices: flags.prices.read()?,
            is_json: common.json,
            input: None,
        })
    }

    /// The number of entities, if it is known: the progress line then estimates the time that is left.
    pub(crate) fn total(self, entities: Option<u64>) -> Self {
        Self { total: entities, ..self }
    }

    /// Ends the job with the error of its input, if there is one.
    pub(crate) fn input(self, input: Input) -> Self {
        Self { input: Some(input), ..self }
    }

    /// A parameter of the job that it goes on with.
    pub(crate) fn resumed(&self, name: &str) -> Option<&str> {
        self.resume.as_ref().and_then(|checkpoint| checkpoint.parameter(name))
    }

    /// Whether it goes on from a checkpoint.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resume.is_some()
    }

    /// Runs a job that walks a table to its end.
    pub(crate) async fn walk<P, F>(self, job: Job<'_, Walking<P, F>>) -> Result<Report>
    where
        P: Projection + Send + 'static,
        F: PageStep<P>,
    {
        self.run(job, Job::<Walking<P, F>>::run).await
    }

    /// Runs several jobs as one.
    pub(crate) async fn jobs(self, jobs: Jobs<'_>) -> Result<Report> {
        self.run(jobs, Jobs::run).await
    }

    /// Runs a job to its end. `begin` is `Job::<Loading<_>>::run` for a load.
    ///
    /// The checkpoint file is removed when the job is done. Otherwise it holds the last checkpoint, and the error says
    /// how to go on.
    pub(crate) async fn run<S, F>(self, job: S, begin: impl FnOnce(S) -> F) -> Result<Report>
    where
        S: Settings,
        F: Future<Output = Result<Report, Interrupted>>,
    {
        self.run_and(job, begin, async |_: &Report| Ok(())).await
    }

    /// Like [`run`](Self::run), and does something with the report before the checkpoint file is removed. A signal stops that as well.
    pub(crate) async fn run_and<S, F>(
        self,
        job: S,
        begin: impl FnOnce(S) -> F,
        finish: impl AsyncFnOnce(&Report) -> Result<()>,
    ) -> Result<Report>
    where
        S: Settings,
        F: Future<Output = Result<Report, Interrupted>>,
    {
        let Self { file, resume, pace, concurrency, patience, total, prices, is_json, input } =
            self;
        let (failure, is_file) = match input {
            Some(input) => (input.failure, input.is_file),
            None => (Failure::default(), true),
        };
        let meter = Meter::new();
        let interrupts = Interrupts::begin()?;
        if let (Some(resume), Some(file), false) = (&resume, &file, is_json) {
            file.tell_resumed(resume);
        }
        let state = State {
            file,
            latest: None,
            stored: None,
            failed: None,
            pace: pace.clone(),
            is_file,
            line: Line::new(total, resume.as_ref(), prices.map(|prices| (prices, meter.clone()))),
        };
        let state = Arc::new(Mutex::new(state));
        let stop = Arc::new(Notify::new());
        let progress = {
            let (state, stop) = (Arc::clone(&state), Arc::clone(&stop));
            move |progress: &Progress<'_>| {
                if !lock(&state).tell(progress) {
                    stop.notify_one();
                }
            }
        };
        let setting = Setting { pace, concurrency, patience, progress: Box::new(progress), resume };
        let ended = {
            let job = pin!(failure.or(meter.scope(begin(job.with(setting)))));
            let (signalled, cannot_store) = (pin!(interrupts.signalled()), pin!(stop.notified()));
            let stopped = select(signalled, cannot_store);
            match select(job, stopped).await {
                Either::Left((ended, _)) => ended.map_err(Stop::Input),
                Either::Right((Either::Left((exit, _)), _)) => Err(Stop::Signal(exit)),
                Either::Right((Either::Right(_), _)) => Err(Stop::Checkpoint),
            }
        };
        lock(&state).line.clear();
        if let Ok(Ok(report)) = &ended {
            // If that is stopped, the next run has the same report. Otherwise it does more again.
            let _ = lock(&state).keep();
            let (finishing, signalled) = (pin!(finish(report)), pin!(interrupts.signalled()));
            match select(finishing, signalled).await {
                Either::Left((finished, _)) => finished?,
                Either::Right((exit, _)) => return Err(lock(&state).stopped(Stop::Signal(exit))),
            }
        }
        let mut state = lock(&state);
        match ended {
            // The last checkpoint could not be stored, and nothing is lost.
            Ok(Ok(report)) => state.done().map(|()| report),
            Ok(Err(interrupted)) => Err(state.interrupted(interrupted)),
            Err(stop) => Err(state.stopped(stop)),
        }
    }

    /// The number of units at once, for jobs of [`Jobs`], which have their own.
    pub(crate) fn concurrency(&self) -> usize {
        self.concurrency
    }
}

/// What the progress of a job changes.
struct State {
    file: Option<CheckpointFile>,
    /// The last checkpoint that is not stored.
    latest: Option<Checkpoint>,
    /// When one was stored, by the clock.
    stored: Option<Duration>,
    /// Why none can be stored.
    failed: Option<Error>,
    pace: Pace,
    is_file: bool,
    line: Line,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Shows and keeps the progress. Returns `false` if the job has to stop because its checkpoint cannot be stored.
    fn tell(&mut self, progress: &Progress<'_>) -> bool {
        self.line.tell(progress);
        let Some(file) = &self.file else { return true };
        let now = SystemClock.elapsed();
        if self.stored.is_some_and(|stored| now.saturating_sub(stored) < STORE_EVERY) {
            self.latest = Some(progress.checkpoint.clone());
            return true;
        }
        let stored = file.store(progress.checkpoint);
        (self.latest, self.stored) = (None, Some(now));
        self.failed = stored.err();
        self.failed.is_none()
    }

    /// Removes the checkpoint of a job that is done.
    fn done(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), CheckpointFile::remove)
    }

    /// The error of a job that was ended from outside.
    fn stopped(&mut self, stop: Stop) -> Error {
        let kept = self.keep();
        if let Some(error) = self.failed.take() {
            return error.and("correct that, and run the command again");
        }
        if let Err(error) = kept {
            return error;
        }
        let how = self.how_to_go_on();
        match stop {
            Stop::Signal(exit) => Error::new(exit, format!("stopped; {how}")),
            Stop::Checkpoint => Error::new(Exit::Failed, format!("stopped; {how}")),
            Stop::Input(error) if self.pace.requests().sent == 0 => {
                Error::from(error).and(format!("nothing is written; correct it, and {how}"))
            }
            // Entities before it may be written, so this is not the exit code of wrong input.
            Stop::Input(error) => Error::new(Exit::Failed, error.to_string())
                .and(format!("entities before it may be written; correct it, and {how}")),
        }
    }

    /// The error of a job that ended early.
    fn interrupted(&mut self, interrupted: Interrupted) -> Error {
        let Interrupted { error, reason, checkpoint, .. } = interrupted;
        if let (Reason::Checkpoint, Some(file)) = (reason, &self.file) {
            return file.refused(error).into();
        }
        if self.file.is_some() {
            self.latest = Some(*checkpoint);
        }
        if let Err(kept) = self.keep() {
            return kept;
        }
        let how = self.how_to_go_on();
        match reason {
            Reason::TooManyFailed => {
                let advice = format!("correct what they have in common; {how}");
                Error::new(Exit::TooManyFailed, error.advise(advice).to_string())
            }
            // Entities may be written, so this is not the exit code of wrong input.
            Reason::Stream => {
                let advice = format!("restore the source as it was; {how}");
                Error::new(Exit::Failed, error.advise(advice).to_string())
            }
            _ if error.is_retryable() => {
                let advice = format!("try again later, or allow more time by --timeout; {how}");
                error.advise(advice).into()
            }
            _ if self.file.is_some() => Error::from(error).and(how),
            _ => error.into(),
        }
    }

    /// Stores the last checkpoint.
    fn keep(&mut self) -> Result<()> {
        match (&self.file, self.latest.take()) {
            (Some(file), Some(latest)) => file.store(&latest),
            _ => Ok(()),
        }
    }

    fn how_to_go_on(&self) -> String {
        match &self.file {
            Some(file) => format!("the same command goes on from {}", file.shown()),
            None if self.is_file => {
                "the same command begins again; with --checkpoint FILE it would go on".to_owned()
            }
            None => {
                "the same command begins again; from a file, with --checkpoint FILE, it would go on"
                    .to_owned()
            }
        }
    }
}

/// How a job runs.
pub(crate) struct Setting {
    pace: Pace,
    concurrency: usize,
    patience: Duration,
    progress: Box<dyn FnMut(&Progress<'_>) + Send>,
    resume: Option<Checkpoint>,
}

/// A job, or several as one.
pub(crate) trait Settings: Sized {
    fn with(self, setting: Setting) -> Self;
}

impl<W> Settings for Job<'_, W> {
    fn with(self, setting: Setting) -> Self {
        let Setting { pace, concurrency, patience, progress, resume } = setting;
        let job = self.pace(pace).concurrency(concurrency).patience(patience).progress(progress);
        match resume {
            Some(checkpoint) => job.resume(checkpoint),
            None => job,
        }
    }
}

impl Settings for Jobs<'_> {
    fn with(self, setting: Setting) -> Self {
        let Setting { pace, patience, progress, resume, .. } = setting;
        let jobs = self.pace(pace).patience(patience).progress(progress);
        match resume {
            Some(checkpoint) => jobs.resume(checkpoint),
            None => jobs,
        }
    }
}
