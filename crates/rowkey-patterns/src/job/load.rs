//! Loading: a job that stores a stream of groups of entities, each group in one partition.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::{BoxStream, FuturesUnordered};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use rowkey_client::internals::shown;
use rowkey_client::pace::Pace;
use rowkey_client::telemetry::with_receipt;
use rowkey_client::{Clock, Error, ErrorCode, ErrorKind, Result, Table};

use super::repeat::until_done;
use super::{Attempt, Interrupted, Job, Report, Run, Verdict};

/// Groups buffered while their partition is busy, per group in flight.
const WAITING: usize = 4;
/// The bytes of groups that wait at which no more are read.
const WAITING_BYTES: usize = 8 * 1024 * 1024;

/// Entities of one partition that are stored together: an item of the stream of a load.
pub trait Batch: Send + Sync {
    /// The PartitionKey of all entities, and the RowKey of the first.
    fn keys(&self) -> (&str, &str);

    /// The number of entities stored.
    fn entities(&self) -> u64;

    /// About how many bytes the group has in memory, so that few large ones wait; 0 if it is unknown.
    #[doc(hidden)]
    fn bytes(&self) -> usize {
        0
    }

    /// Stores all entities, usually with one request, and reports the result.
    ///
    /// Called again after a [retryable](Error::is_retryable) error, so it must be repeatable:
    /// [`Attempt::after_unknown`] says that an earlier call may have stored everything. Its requests have the
    /// pace of the job, and are repeated while the service is busy; requests of tasks that it spawns have not.
    /// Any other error fails the whole group.
    fn store(&self, attempt: Attempt) -> impl Future<Output = Result<Report>> + Send;
}

/// The work of a job from [`Job::load`].
pub struct Loading<S> {
    pub(super) groups: S,
    per_partition: usize,
    around: Option<Around>,
}

/// Runs the whole load: does something before and after it, at the pace of the job.
type Around =
    Box<dyn for<'w> FnOnce(BoxFuture<'w, Result<()>>, Pace) -> BoxFuture<'w, Result<()>> + Send>;

impl<S, B> Job<'_, Loading<S>>
where
    S: Stream<Item = B> + Send,
    B: Batch,
{
    /// Stores all groups of a stream.
    ///
    /// Groups that the service does not accept are stored later: throttling loses none. Groups of one
    /// partition are stored one at a time, in the order of the stream
    /// ([`groups_per_partition`](Self::groups_per_partition)). A group that fails is reported with its
    /// keys, and the others continue. A load ends early only if the credential or the table is
    /// refused, too many entities failed, or the deadline of the pace is reached.
    ///
    /// The stream is read beside the pace of the job: what it sends itself, such as a scan of another table, has the pace of
    /// its own options, if any.
    ///
    /// To resume a load, pass the same stream from its beginning; completed groups are skipped.
    ///
    /// ```
    /// use futures_util::stream;
    /// use rowkey::patterns::job::{Attempt, Batch, Job, Report, Verdict};
    /// use rowkey::{DynamicEntity, Result, StorageAccount, Table, Transaction};
    ///
    /// struct Rows(Table, Vec<DynamicEntity>);
    ///
    /// impl Batch for Rows {
    ///     fn keys(&self) -> (&str, &str) {
    ///         (&self.1[0].partition_key, &self.1[0].row_key)
    ///     }
    ///
    ///     fn entities(&self) -> u64 {
    ///         self.1.len() as u64
    ///     }
    ///
    ///     async fn store(&self, _: Attempt) -> Result<Report> {
    ///         self.1.iter().fold(self.0.transaction(), Transaction::upsert).submit().await?;
    ///         Ok(Report::of(Verdict::Right, self.entities()))
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # account.table("events").create().await?;
    /// let events = account.table("events");
    /// let groups = (0..4).map(|device| {
    ///     let row = |number| DynamicEntity::new(format!("device-{device}"), format!("{number:04}"));
    ///     Rows(events.clone(), (0..100).map(row).collect())
    /// });
    /// let report = Job::load("import", &events, stream::iter(groups)).run().await?;
    /// assert_eq!((report.total.right, report.is_clean()), (400, true));
    /// # Ok(()) }
    /// ```
    pub fn load(name: impl Into<String>, table: &Table, groups: S) -> Self {
        Self::new(name, table, Loading { groups, per_partition: 1, around: None })
    }

    /// Runs the load inside another future. That gives its own requests the pace, and not the load, which reads its
    /// input beside it.
    #[doc(hidden)]
    pub fn around<F>(mut self, around: F) -> Self
    where
        F: for<'w> FnOnce(BoxFuture<'w, Result<()>>, Pace) -> BoxFuture<'w, Result<()>>
            + Send
            + 'static,
    {
        self.work.around = Some(Box::new(around));
        self
    }

    /// Stores up to this many groups of one partition at once, at least 1. With more than one, their
    /// order is undefined. Default: 1, which keeps the order of the stream.
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
    /// let rows = (0..1000).map(|number| DynamicEntity::new("device-7", format!("{number:04}")));
    /// let load = Job::insert(&events, stream::iter(rows)).groups_per_partition(4);
    /// assert_eq!(load.run().await?.total.right, 1000);
    /// # Ok(()) }
    /// ```
    pub fn groups_per_partition(mut self, groups: usize) -> Self {
        self.work.per_partition = groups.max(1);
        self
    }

    /// Runs to the end of the stream and returns the report, including that of the runs it resumes.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], with a checkpoint, in the cases listed at [`load`](Self::load). Its kind is
    /// [`Invalid`](ErrorKind::Invalid), and nothing is read, if the checkpoint to resume belongs to
    /// another job.
    pub async fn run(self) -> Result<Report, Interrupted> {
        let (run, table, work) = self.start(Vec::new())?;
        let is_finished = run.state().checkpoint.is_finished();
        let load = async { if is_finished { Ok(()) } else { work.load(&run, &table).await } };
        let (loaded, _) = with_receipt(load).await;
        run.end(loaded)
    }
}

impl<S, B> Loading<S>
where
    S: Stream<Item = B> + Send,
    B: Batch,
{
    async fn load(self, run: &Run<'_>, table: &Table) -> Result<()> {
        let groups = self.groups.map(|group| Box::new(group) as AnyGroup<'_>);
        let load = load(groups.boxed(), self.per_partition, run, table).boxed();
        match self.around {
            Some(around) => around(load, run.pace.clone()).await,
            None => load.await,
        }
    }
}

/// The hash of a PartitionKey. Two partitions with the same hash only share what is stored at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Partition(u64);

impl Partition {
    fn of(partition_key: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        partition_key.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A group of any type.
type AnyGroup<'g> = Box<dyn Group + 'g>;

/// A [`Batch`] as a trait object.
pub(super) trait Group: Send + Sync {
    fn keys(&self) -> (&str, &str);
    fn entities(&self) -> u64;
    fn bytes(&self) -> usize;
    fn store(&self, attempt: Attempt) -> BoxFuture<'_, Result<Report>>;
}

impl<B: Batch> Group for B {
    fn keys(&self) -> (&str, &str) {
        Batch::keys(self)
    }

    fn entities(&self) -> u64 {
        Batch::entities(self)
    }

    fn bytes(&self) -> usize {
        Batch::bytes(self)
    }

    fn store(&self, attempt: Attempt) -> BoxFuture<'_, Result<Report>> {
        Batch::store(self, attempt).boxed()
    }
}

/// Stores all groups. Compiled once, and not for each type of group.
async fn load(
    mut groups: BoxStream<'_, AnyGroup<'_>>,
    per_partition: usize,
    run: &Run<'_>,
    table: &Table,
) -> Result<()> {
    let mut read = 0_u64;
    let mut waiting: VecDeque<(u64, Partition, AnyGroup<'_>)> = VecDeque::new();
    let mut in_flight = FuturesUnordered::new();
    let mut busy: HashMap<Partition, usize> = HashMap::new();
    let mut more = true;
    loop {
        while in_flight.len() < run.concurrency {
            let is_free = |(_, partition, _): &(u64, Partition, AnyGroup<'_>)| {
                busy.get(partition).is_none_or(|count| *count < per_partition)
            };
            let next = waiting.iter().position(is_free).and_then(|at| waiting.remove(at));
            let Some((at, partition, group)) = next else { break };
            *busy.entry(partition).or_default() += 1;
            // Nothing else is in the pace. A request of the input, which is not polled while enough groups wait, would
            // keep its place in a line, and the groups behind it.
            in_flight.push(run.pace.scope(store(run, table, at, partition, group)).boxed());
        }
        let bytes: usize = waiting.iter().map(|(_, _, group)| group.bytes()).sum();
        let may_read = more && waiting.len() < WAITING * run.concurrency && bytes < WAITING_BYTES;
        let event = match (may_read, in_flight.is_empty()) {
            // Groups that wait have another group of their partition in flight.
            (false, true) => return Ok(()),
            (false, false) => Either::Left(in_flight.next().await),
            (true, true) => Either::Right(groups.next().await),
            (true, false) => match select(in_flight.next(), groups.next()).await {
                Either::Left((stored, _)) => Either::Left(stored),
                Either::Right((read, _)) => Either::Right(read),
            },
        };
        match event {
            Either::Left(stored) => {
                let Some((partition, result)) = stored else { continue };
                result?;
                if let Some(count) = busy.get_mut(&partition) {
                    *count -= 1;
                    if *count == 0 {
                        busy.remove(&partition);
                    }
                }
            }
            Either::Right(Some(group)) => {
                let at = read;
                read += 1;
                if run.open(at) {
                    let partition = Partition::of(group.keys().0);
                    waiting.push_back((at, partition, group));
                }
            }
            Either::Right(None) => more = false,
        }
    }
}

/// Stores one group and records the result.
async fn store(
    run: &Run<'_>,
    table: &Table,
    at: u64,
    partition: Partition,
    group: AnyGroup<'_>,
) -> (Partition, Result<()>) {
    // After an error the group stays open, and the next run stores it.
    let stored = store_group(table.account().clock(), &*group).await;
    (partition, stored.and_then(|report| run.advance(at, None, report)))
}

/// Stores a group. Returns an error only if all others would fail as well; other failures are in the report.
pub(super) async fn store_group(clock: &dyn Clock, group: &dyn Group) -> Result<Report> {
    match until_done(clock, |attempt| group.store(attempt)).await {
        Err(error) if !ends_everything(&error) => {
            let mut report = Report::default();
            report.problem(None, Verdict::Failed, group.keys(), &error);
            report.note(None, Verdict::Failed, group.entities().saturating_sub(1));
            Ok(report)
        }
        stored => stored,
    }
}

/// Whether all other groups would fail as well. Retryable errors were repeated until the deadline.
pub(super) fn ends_everything(error: &Error) -> bool {
    error.is_retryable()
        || error.kind() == ErrorKind::Auth
        || error.code() == Some(&ErrorCode::TABLE_NOT_FOUND)
}

impl Run<'_> {
    /// Opens a group, unless it is done.
    fn open(&self, at: u64) -> bool {
        let mut state = self.state();
        let is_done = state.checkpoint.is_done(at);
        if !is_done {
            state.checkpoint.begin(at);
        }
        !is_done
    }
}

shown!([S] Loading<S>: per_partition);
