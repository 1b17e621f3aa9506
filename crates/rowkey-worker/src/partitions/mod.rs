//! Partition leases: any number of programs divide a set of partitions among themselves.
//!
//! - [`Partitions`]: the set, and running a program of it
//! - [`Owned`]: a partition that the program owns, passed to its work
//! - [`Fence`]: makes the service refuse the writes of former owners
//! - `view`: the state that the leases show, and a program's next actions
//! - `run`: looking, acquiring, handing over, leaving
//! - `hold`: the work of one partition, from the acquisition of its lease to its end

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::{Container, Error, ErrorKind, Result, Table};
use rowkey_patterns::Waits;
use rowkey_patterns::lease_lock::Held;
use tokio::sync::watch;

mod fence;
mod hold;
mod run;
mod view;

pub use fence::Fence;

/// The most partitions of a set. One page of a listing has all of them, and the programs.
const MAX_COUNT: u32 = 1000;

/// The work of a partition, of any type.
type Work = Arc<dyn Fn(Owned) -> BoxFuture<'static, std::result::Result<(), String>> + Send + Sync>;

/// A set of partitions that any number of programs divide among themselves.
///
/// A partition is a number below [`count`](Self::new); the program decides what it stands for: a queue, a range of
/// PartitionKeys, a remainder of a hash. Each is owned by one program at a time, by a lease on a blob. Programs that
/// come or go are noticed within a minute or two, and the partitions are divided again: each program owns as
/// many as the others, or one more. A partition moves only if its owner has too many or is gone.
///
/// ```
/// use std::sync::Arc;
///
/// use rowkey::StorageAccount;
/// use rowkey::worker::partitions::{Owned, Partitions};
/// use tokio::sync::Semaphore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let locks = account.container("locks");
/// locks.create_if_missing().await?;
/// let partitions = Partitions::new(locks, "orders", 4);
///
/// let begun = Arc::new(Semaphore::new(0));
/// let of_work = begun.clone();
/// let work = move |owned: Owned| {
///     let begun = of_work.clone();
///     async move {
///         println!("partition {} under token {}", owned.index(), owned.token());
///         begun.add_permits(1);
///         owned.stopping().await; // works until then
///         Ok::<_, rowkey::Error>(())
///     }
/// };
/// // A signal, as a rule; here the fourth partition.
/// partitions.run_until(work, async { drop(begun.acquire_many(4).await) }).await?;
/// # Ok(()) }
/// ```
///
/// No clock of one program is compared with that of another: the leases show the running programs, and each
/// program measures its own leases by [`Clock::elapsed`](rowkey_client::Clock::elapsed). A program that was suspended
/// may send a request after another one has taken over; a [`Fence`] makes the service refuse it.
#[derive(Clone, Debug)]
pub struct Partitions {
    container: Container,
    name: String,
    count: u32,
    term: Duration,
    look_every: Duration,
    shutdown_deadline: Duration,
    again: Waits,
}

/// The stages of the ownership of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Owned,
    /// The program must give it up.
    Stopping,
    /// The lease was lost.
    Lost,
}

/// A partition that this program owns. Clones refer to the same ownership.
#[derive(Clone)]
pub struct Owned {
    index: u32,
    held: Arc<Held>,
    stage: watch::Receiver<Stage>,
}

/// Configuration.
impl Partitions {
    /// A set of `count` partitions, 1 to 1,000. Its leases are on blobs below `<name>/` in `container`, which must
    /// exist. Sends nothing.
    ///
    /// More partitions than programs divide the load evenly, but each costs requests: about four per program
    /// are enough. Stop all programs of a set before the count changes; a program whose count differs from that
    /// of the running ones fails.
    pub fn new(container: Container, name: impl Into<String>, count: u32) -> Self {
        Self {
            container,
            name: name.into(),
            count,
            term: Duration::from_secs(60),
            look_every: Duration::from_secs(20),
            shutdown_deadline: Duration::from_secs(25),
            again: Waits::new(Duration::from_secs(1), Duration::from_secs(60)),
        }
    }

    /// Sets how long a partition stays owned when its program dies: 15 to 60 seconds. Default: 60. Leases are renewed
    /// after each third of it.
    #[must_use = "use the returned partitions"]
    pub fn term(mut self, term: Duration) -> Self {
        self.term = term;
        self
    }

    /// Sets how often the program lists the leases of all programs. Default: 20 seconds; four times as often
    /// while it owns more or fewer partitions than its share.
    #[must_use = "use the returned partitions"]
    pub fn look_every(mut self, interval: Duration) -> Self {
        self.look_every = interval.max(Duration::from_secs(1));
        self
    }

    /// Sets how long work may continue after it was asked to stop, because the program stops or the partition
    /// moves to another one. Default: 25 seconds. Then it is dropped at its current await.
    #[must_use = "use the returned partitions"]
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }

    /// Sets how long the program waits before it restarts the work of a partition that ended by itself:
    /// `least` after success, and after failures doubled each time up to `most`. Default: 1 to 60 seconds.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # use rowkey::worker::partitions::{Owned, Partitions};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let locks = account.container("locks");
    /// # locks.create_if_missing().await?;
    /// // One pass over the partition each minute.
    /// let minute = Duration::from_secs(60);
    /// let partitions = Partitions::new(locks, "orders", 2)
    ///     .term(Duration::from_secs(30))
    ///     .look_every(Duration::from_secs(10))
    ///     .shutdown_deadline(Duration::from_secs(5))
    ///     .restart_backoff(minute, 10 * minute);
    /// let (passed, mut passes) = tokio::sync::mpsc::unbounded_channel();
    /// let pass = move |owned: Owned| {
    ///     let passed = passed.clone();
    ///     async move { passed.send(owned.index()) }
    /// };
    /// partitions.run_until(pass, async { drop(passes.recv().await) }).await?;
    /// # Ok(()) }
    /// ```
    #[must_use = "use the returned partitions"]
    pub fn restart_backoff(mut self, least: Duration, most: Duration) -> Self {
        let shortest = Duration::from_millis(10);
        self.again = Waits::new(least.max(shortest), most.max(shortest));
        self
    }
}

impl Partitions {
    /// Owns a share of the partitions, and runs `work` for each, until `shutdown` completes.
    ///
    /// Each run is a task of its own in the tokio runtime that polls this. If it ends, fails or panics, it begins again
    /// after a [while](Self::restart_backoff). It is asked to [stop](Owned::stopping) when the partition moves
    /// to another program, or when the program stops, and is dropped at its next await at the
    /// [deadline](Self::shutdown_deadline). If the lease is lost, it is dropped at once, by the thread that
    /// renews leases. Code that blocks cannot be dropped: the program keeps the lease while it runs, and its
    /// writes need a [`Fence`].
    ///
    /// Costs for each partition 3 requests to acquire it (5 the first time), and 1 per third of the
    /// [term](Self::term); for the program 1 per third of the term, and 1 per [listing](Self::look_every).
    ///
    /// Transient failures are logged and retried. Fails with [`ErrorKind::Invalid`] if the count or the term is not
    /// allowed or another program of the set has another count, and with any permanent error, such as a missing
    /// container, after its work has stopped. If this future is dropped, its work is dropped, and its leases end with
    /// their terms.
    pub async fn run_until<W, F, E>(
        &self,
        work: W,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()>
    where
        W: Fn(Owned) -> F + Send + Sync + 'static,
        F: Future<Output = std::result::Result<(), E>> + Send,
        E: fmt::Display,
    {
        self.check()?;
        let work = Arc::new(work);
        let work: Work = Arc::new(move |owned| {
            let work = Arc::clone(&work);
            async move { work(owned).await.map_err(|error| error.to_string()) }.boxed()
        });
        self.run(work, pin!(shutdown)).await
    }

    /// Checks the configuration before anything is sent.
    fn check(&self) -> Result<()> {
        let what = if self.count == 0 || self.count > MAX_COUNT {
            format!("a set has 1 to {MAX_COUNT} partitions, not {}", self.count)
        } else if self.name.is_empty() || self.name.ends_with(['.', '/']) {
            let what = "the name of a set begins the names of its blobs; it must not be empty or end with '.' or '/'";
            what.to_owned()
        } else {
            return Ok(());
        };
        Err(Error::refused(ErrorKind::Invalid, what).of("Partitions", self.container.name()))
    }

    fn folder(&self) -> String {
        format!("{}/", self.name)
    }
}

impl Owned {
    /// The number of the partition, from 0.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The fencing token: larger than those of all earlier owners of this partition.
    pub fn token(&self) -> u64 {
        self.held.token()
    }

    /// How long the partition is certainly owned, unless the lease is broken; zero if it may be lost. It is renewed
    /// while the work runs, even while that computes or blocks.
    pub fn remaining(&self) -> Duration {
        if *self.stage.borrow() == Stage::Lost { Duration::ZERO } else { self.held.remaining() }
    }

    /// Completes when the partition must be given up: the program stops, the partition moves to another one, or
    /// it was lost. End the work then; at the [deadline](Partitions::shutdown_deadline) it is dropped.
    pub async fn stopping(&self) {
        // An error means that the program has dropped everything.
        drop(self.stage.clone().wait_for(|stage| *stage > Stage::Owned).await);
    }

    /// Returns whether the partition must be given up, or is lost: for code that does not await.
    pub fn is_stopping(&self) -> bool {
        *self.stage.borrow() > Stage::Owned || self.stage.has_changed().is_err()
    }

    /// Claims a PartitionKey of a table for this owner: transactions of earlier owners that are sent through their
    /// [`Fence`] fail from now on, however late they arrive. Two requests, on the primary.
    ///
    /// Claim it before you read the rows on which your decisions are based. Fails with [`ErrorKind::Leased`] if a
    /// later owner has claimed it.
    ///
    /// ```
    /// use rowkey::worker::partitions::{Owned, Partitions};
    /// use rowkey::{DynamicEntity, ErrorKind, StorageAccount};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let locks = account.container("locks");
    /// # locks.create_if_missing().await?;
    /// let table = account.table("balances");
    /// table.create().await?;
    /// let (done, mut is_done) = tokio::sync::mpsc::unbounded_channel();
    /// let work = move |owned: Owned| {
    ///     let (table, done) = (table.clone(), done.clone());
    ///     async move {
    ///         let fence = owned.fence(&table, "ada").await?;
    ///         let balance = DynamicEntity::new("ada", "balance");
    ///         fence.submit(table.transaction().upsert(&balance)).await?;
    ///         assert_eq!((fence.partition_key(), fence.token()), ("ada", owned.token()));
    ///         drop(done.send(()));
    ///         owned.stopping().await;
    ///         Ok::<_, rowkey::Error>(())
    ///     }
    /// };
    /// let partitions = Partitions::new(locks, "accounts", 1);
    /// partitions.run_until(work, async { drop(is_done.recv().await) }).await?;
    /// # Ok(()) }
    /// ```
    pub async fn fence(&self, table: &Table, partition_key: &str) -> Result<Fence> {
        Fence::claim(table, partition_key, self.token()).await
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned")
            .field("index", &self.index)
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}
