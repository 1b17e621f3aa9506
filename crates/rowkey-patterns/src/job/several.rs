//! Several jobs as one: one after the other, with one pace, one checkpoint and one report.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream};
use rowkey_client::pace::Pace;
use rowkey_client::{Error, ErrorKind, Projection, Result};

use super::walk::PageStep;
use super::{
    Batch, Checkpoint, Interrupted, Job, Loading, OnProgress, Progress, Reason, Report, Walking,
};

/// Jobs that run one after the other as one job, over several stores, tables and accounts: for example, to delete
/// everything of a tenant.
///
/// They share a pace if one is set, have one [`Checkpoint`] and one [`Report`]. The report has a
/// [part](Report::part) for each job, by its name; a part of a job's own report is `name: part`. Nothing is sent
/// before [`run`](Self::run). Costs the requests of the jobs.
///
/// ```
/// use rowkey::patterns::job::{Job, Jobs, Walk};
/// use rowkey::store::Store;
/// use rowkey::{Entity, StorageAccount};
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(store, partition = "{tenant}_{region}", row = "order_{id:6}")]
/// #[entity(index(name = by_customer, row = "customer_{customer}", many))]
/// struct Order { tenant: String, region: String, id: u32, customer: String }
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(store, partition = "{tenant}", row = "user_{name}")]
/// struct User { tenant: String, name: String }
///
/// #[derive(Entity)]
/// #[entity(partition = "{tenant}", row = "event_{number:6}")]
/// struct Event { tenant: String, number: u32 }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let (table, events) = (account.table("service"), account.table("events"));
/// # table.create().await?;
/// # events.create().await?;
/// let orders = Store::<Order>::builder(table.clone()).build()?;
/// let users = Store::<User>::builder(table).build()?;
/// # for (tenant, id) in [("contoso", 1), ("contoso", 2), ("fabrikam", 3)] {
/// #     let (tenant, region) = (tenant.to_owned(), "eu".into());
/// #     orders.insert(&Order { tenant: tenant.clone(), region, id, customer: "ada".into() }).await?;
/// #     users.upsert(&User { tenant: tenant.clone(), name: "ada".into() }).await?;
/// #     events.insert(&Event { tenant, number: id }).await?;
/// # }
/// let of_tenant = |tenant: &'static str| Walk::new(&events, move |events| events.query(Event::partition(tenant)));
/// let report = Jobs::new("delete a tenant")
///     .then("orders", orders.delete_under("contoso_")?)
///     .then("users", users.delete_where(User::partition("contoso")))
///     .then("events", Job::delete(of_tenant("contoso")))
///     .run()
///     .await?;
/// assert_eq!((report.part("orders").right, report.total.right), (2, 5));
/// assert_eq!(orders.count(Order::partition("fabrikam", "eu")).await?, 1);
/// # Ok(()) }
/// ```
///
/// Dropping the future of `run` stops the jobs at any time, as it stops one [`Job`].
#[must_use = "nothing is done until `run`"]
pub struct Jobs<'a> {
    name: String,
    steps: Vec<(String, Begin)>,
    pace: Option<Pace>,
    patience: Option<Duration>,
    on_progress: OnProgress<'a>,
    resume: Option<Checkpoint>,
}

/// Runs one of the jobs.
type Begin = Box<dyn for<'r> FnOnce(Setting<'r>) -> Ran<'r> + Send>;
type Ran<'r> = BoxFuture<'r, Result<Report, Interrupted>>;

/// What the jobs share.
struct Setting<'r> {
    pace: Option<Pace>,
    patience: Option<Duration>,
    resume: Option<Checkpoint>,
    told: &'r mut (dyn FnMut(&Progress<'_>) + Send),
}

impl<'a> Jobs<'a> {
    /// Begins without jobs. A checkpoint is tied to the name.
    pub fn new(name: impl Into<String>) -> Self {
        let on_progress = Box::new(|_: &Progress<'_>| {});
        let (name, steps) = (name.into(), Vec::new());
        Self { name, steps, pace: None, patience: None, on_progress, resume: None }
    }

    /// Adds a job, which begins when those before it have ended. Its own callback for progress and its own
    /// checkpoint are replaced.
    ///
    /// A checkpoint is tied to the order of the jobs.
    pub fn then<P, F>(mut self, name: impl Into<String>, job: Job<'static, Walking<P, F>>) -> Self
    where
        P: Projection + Send + 'static,
        F: PageStep<P> + 'static,
    {
        let begin: Begin = Box::new(move |setting| shared(job, setting).run().boxed());
        self.steps.push((name.into(), begin));
        self
    }

    /// Adds a job that loads a stream, which begins when those before it have ended, as [`then`](Self::then) does. If it has ended in
    /// an earlier run, its stream is not read.
    ///
    /// ```
    /// use futures_util::stream;
    /// use rowkey::patterns::job::{Job, Jobs, Walk};
    /// use rowkey::{DynamicEntity, StorageAccount};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// let rows = stream::iter((0..20).map(|number| DynamicEntity::new("device-7", format!("{number:02}"))));
    /// let report = Jobs::new("import")
    ///     .then_load("rows", Job::upsert(&events, rows))
    ///     .then("count", Job::count(Walk::keys(&events)))
    ///     .run()
    ///     .await?;
    /// assert_eq!((report.part("rows").right, report.part("count").right), (20, 20));
    /// # Ok(()) }
    /// ```
    pub fn then_load<S, B>(mut self, name: impl Into<String>, job: Job<'static, Loading<S>>) -> Self
    where
        S: Stream<Item = B> + Send + 'static,
        B: Batch + 'static,
    {
        let begin: Begin = Box::new(move |setting| shared(job, setting).run().boxed());
        self.steps.push((name.into(), begin));
        self
    }

    /// Sends the requests of all jobs at this pace. Default: each job has its own.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = Some(pace);
        self
    }

    /// Ends the job that runs when no request of it was answered for this long, as [`Job::patience`] does.
    /// Default: each job has its own.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rowkey::patterns::job::{Job, Jobs, Walk};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// let count = Jobs::new("count").then("events", Job::count(Walk::keys(&events)));
    /// let report = count.patience(Duration::from_secs(60)).run().await?;
    /// assert_eq!(report.part("events").right, 0);
    /// # Ok(()) }
    /// ```
    pub fn patience(mut self, limit: Duration) -> Self {
        self.patience = Some(limit);
        self
    }

    /// Calls `progress` after each completed page, and at the end of each job. `units` is `None`.
    pub fn progress(mut self, progress: impl FnMut(&Progress<'_>) + Send + 'a) -> Self {
        self.on_progress = Box::new(progress);
        self
    }

    /// Resumes another run of the same jobs. Jobs that have ended are not run again. `run` refuses the
    /// checkpoint of other jobs.
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.resume = Some(checkpoint);
        self
    }

    /// Runs all jobs and returns their report, including that of the runs that they resume.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], with the checkpoint of all jobs, if one of them ends early. Those after it are not begun.
    pub async fn run(self) -> Result<Report, Interrupted> {
        let Self { name, steps, pace, patience, mut on_progress, resume } = self;
        let names: Vec<_> = steps.iter().map(|(name, _)| name.clone()).collect();
        let mut all = Checkpoint::new(&name, "", &[]);
        if let Some(resumed) = resume {
            let fits = all.check(&resumed).and_then(|()| resumed.check_parts(names.len()));
            if let Err(error) = fits {
                let error = error.of("Jobs", &name);
                let (reason, checkpoint) = (Reason::Checkpoint, Box::new(resumed));
                return Err(Interrupted { error, reason, checkpoint });
            }
            all = resumed;
        }
        for (at, (_, begin)) in steps.into_iter().enumerate() {
            // One that is finished sends nothing, and is refused by another job.
            let resume = all.parts.get(at).cloned();
            let mut told = |progress: &Progress<'_>| {
                all.set_part(at, progress.checkpoint.clone(), &names);
                on_progress(&Progress { checkpoint: &all, units: None, ..*progress });
            };
            let setting = Setting { pace: pace.clone(), patience, resume, told: &mut told };
            if let Err(Interrupted { error, reason, checkpoint }) = begin(setting).await {
                // Those behind it stay if it was refused.
                if all.parts.get(at) != Some(&*checkpoint) {
                    all.set_part(at, *checkpoint, &names);
                }
                let error = error.during(names[at].clone());
                return Err(Interrupted { error, reason, checkpoint: Box::new(all) });
            }
        }
        all.finish();
        Ok(all.report().clone())
    }
}

/// A job with what all of them share.
fn shared<'r, W>(job: Job<'r, W>, setting: Setting<'r>) -> Job<'r, W> {
    let Setting { pace, patience, resume, told } = setting;
    let mut job = job.progress(|progress| told(progress));
    job.resume = resume;
    if let Some(pace) = pace {
        job = job.pace(pace);
    }
    job.patience = patience.or(job.patience);
    job
}

impl Checkpoint {
    /// Refuses the checkpoint of several jobs if there are fewer jobs.
    fn check_parts(&self, jobs: usize) -> Result<()> {
        if self.parts.len() <= jobs {
            return Ok(());
        }
        let what = format!("the checkpoint has {} jobs, and there are {jobs}", self.parts.len());
        Err(Error::refused(ErrorKind::Invalid, what)
            .advise("resume the job that wrote it, or start without a checkpoint"))
    }

    /// Records the position of one of several jobs. All before it have ended.
    fn set_part(&mut self, at: usize, part: Self, names: &[String]) {
        self.parts.truncate(at);
        self.parts.push(part);
        self.report = Report::default();
        for (name, part) in names.iter().zip(&self.parts) {
            self.report.merge_named(name, part.report());
        }
    }
}

impl fmt::Debug for Jobs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.steps.iter().map(|(name, _)| name).collect();
        f.debug_struct("Jobs")
            .field("name", &self.name)
            .field("jobs", &names)
            .finish_non_exhaustive()
    }
}
