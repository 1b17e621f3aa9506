//! Chores: the work that a janitor runs, with its schedules, and the leadership passed to each run.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::Entity;
use rowkey_client::internals::shown;
use rowkey_patterns::job::{Interrupted, Report};
use rowkey_patterns::lease_lock::Held;
use rowkey_store::{Store, Worked};
use tokio::sync::watch;

use crate::dead_letters::{DeadLetters, Selection, Summary};
use crate::inbox::Inbox;
use crate::task::{Task, Tasks};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The counts of a run, by name: rows deleted, messages settled.
pub type Counts = BTreeMap<String, u64>;

pub(super) type Work =
    dyn Fn(Leadership) -> BoxFuture<'static, Result<Counts, String>> + Send + Sync;

/// Work that a [`Janitor`](super::Janitor) runs repeatedly.
///
/// ```
/// use rowkey::worker::janitor::{Chore, Leadership};
/// use std::collections::BTreeMap;
/// use std::time::Duration;
///
/// let report = Chore::new("daily report", Duration::from_secs(24 * 3600), |leadership: Leadership| async move {
///     // Writes carry `leadership.token()`; the target rejects a smaller token than its last one.
///     let _ = leadership.token();
///     Ok::<_, rowkey::Error>(BTreeMap::from([("pages".to_owned(), 3)]))
/// });
/// let report = report.first_after(Duration::from_secs(3600)).time_limit(Duration::from_secs(600));
/// assert_eq!(report.name(), "daily report");
/// ```
///
/// A chore can run twice: if a leader stops in the middle of it, the next leader runs it again.
pub struct Chore {
    name: String,
    pub(super) every: Duration,
    pub(super) first_after: Duration,
    pub(super) jitter: Duration,
    pub(super) time_limit: Duration,
    pub(super) work: Arc<Work>,
}

/// Configuration.
impl Chore {
    /// Creates a chore that runs `work`. Each run begins `every` after the last one began. The schedule is
    /// stored under `name`.
    ///
    /// `work` returns its counts. Its error becomes text in the stored [report](super::Report), so keep
    /// secrets and contents of entities out of it.
    pub fn new<F, Fut, E>(name: impl Into<String>, every: Duration, work: F) -> Self
    where
        F: Fn(Leadership) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Counts, E>> + Send + 'static,
        E: fmt::Display,
    {
        let work = move |leadership| {
            let work = work(leadership);
            async move { work.await.map_err(|error| error.to_string()) }.boxed()
        };
        let (name, work) = (name.into(), Arc::new(work));
        let (first_after, time_limit) = (Duration::ZERO, Duration::from_secs(3600));
        Self { name, every, first_after, jitter: every, time_limit, work }.every(every)
    }

    /// Sets the time from the beginning of one run to that of the next. At least a second.
    #[must_use = "use the returned chore"]
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every.max(Duration::from_secs(1));
        self.jitter = self.every / 10;
        self
    }

    /// Sets the delay of the first run after a janitor first registers the chore. Default: no delay.
    #[must_use = "use the returned chore"]
    pub fn first_after(mut self, first_after: Duration) -> Self {
        self.first_after = first_after;
        self
    }

    /// Sets the maximum jitter: a delay of each run, derived from its name and time. Default: a tenth
    /// of [`every`](Self::every).
    #[must_use = "use the returned chore"]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the time limit of a run. Default: an hour. A run that exceeds it is dropped at its current await.
    /// Code that blocks cannot be stopped; this program does not begin the chore again before that code ends.
    #[must_use = "use the returned chore"]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// A chore that works on a clone of `source`.
    fn of<S, F, Fut, E>(name: String, every: Duration, source: &S, work: F) -> Self
    where
        S: Clone + Send + Sync + 'static,
        F: Fn(S) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Counts, E>> + Send + 'static,
        E: fmt::Display,
    {
        let source = source.clone();
        Self::new(name, every, move |_| work(source.clone()))
    }

    /// The name of the chore.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The chores that this library provides.
impl Chore {
    /// [`Store::drain_backlog`], every 5 minutes: settles writes that were announced while the queue was
    /// unavailable. Four requests if there are none.
    pub fn drain_backlog<E: Entity + Clone + Send + Sync + 'static>(store: &Store<E>) -> Self {
        let name = of_store("drain backlog", store);
        Self::of(name, 5 * MINUTE, store, |store| async move {
            store.drain_backlog().await.map(|done| worked(&done))
        })
    }

    /// [`Store::delete_expired`], once a day. Compiles for types with `#[entity(expiry)]`.
    pub fn delete_expired<E: Entity + Clone + Send + Sync + 'static>(store: &Store<E>) -> Self {
        Self::of(of_store("delete expired", store), DAY, store, |store| async move {
            reported(store.delete_expired().run().await)
        })
    }

    /// [`Store::sweep`], once a day: deletes blobs, and keys in lists in blobs, that no entity refers to.
    pub fn sweep<E: Entity + Clone + Send + Sync + 'static>(store: &Store<E>) -> Self {
        Self::of(of_store("sweep", store), DAY, store, |store| async move {
            reported(store.sweep().run().await)
        })
    }

    /// [`Store::verify`], once a week: counts rows that disagree with their entity. Reads the whole table.
    pub fn verify<E: Entity + Clone + Send + Sync + 'static>(store: &Store<E>) -> Self {
        Self::of(of_store("verify", store), 7 * DAY, store, |store| async move {
            reported(store.verify().run().await)
        })
    }

    /// [`Store::repair`], once a week: corrects rows that disagree with their entity, and deletes op rows and
    /// claims that have no message. Reads the whole table.
    pub fn repair<E: Entity + Clone + Send + Sync + 'static>(store: &Store<E>) -> Self {
        Self::of(of_store("repair", store), 7 * DAY, store, |store| async move {
            reported(store.repair().run().await)
        })
    }

    /// [`Inbox::expire`], once a day: deletes expired inbox rows. Scans the table.
    pub fn expire_inbox(inbox: &Inbox) -> Self {
        let name = format!("expire inbox {}", inbox.table().table().name());
        Self::of(name, DAY, inbox, |inbox| async move { reported(inbox.expire().await) })
    }

    /// [`Tasks::sweep_claims`], once a day: deletes blobs of tasks older than `older_than`, which must be
    /// longer than any task waits and takes to process.
    pub fn sweep_claims<T: Task>(tasks: &Tasks<T>, older_than: Duration) -> Self {
        let name = format!("sweep claims {}", tasks.queue().name());
        Self::of(name, DAY, tasks, move |tasks| async move {
            let deleted = tasks.sweep_claims(older_than).await?;
            Ok::<_, rowkey_client::Error>(counts([("deleted", deleted)]))
        })
    }
}

/// The chores for dead letters.
impl Chore {
    /// [`DeadLetters::redrive`], every 10 minutes. Limit `which`, so that a task that always fails stays a
    /// dead letter: by causes, by [age](Selection::older_than) and by [number of
    /// redrives](Selection::redriven_less_than).
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # use rowkey::store::Deciding;
    /// # use rowkey::worker::inbox::Inbox;
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # use std::collections::BTreeSet;
    /// # use std::time::Duration;
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// use rowkey::worker::dead_letters::Selection;
    /// use rowkey::worker::janitor::Chore;
    ///
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// # let inbox = Inbox::new(&Deciding::new(&account.table("balances")));
    /// let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// let (letters, day) = (tasks.dead_letters(), Duration::from_secs(86_400));
    /// let chores = [
    ///     Chore::collect(&letters),
    ///     Chore::redrive(&letters, Selection::all().redriven_less_than(3)).every(day),
    ///     Chore::expire_letters(&letters, 90 * day),
    ///     Chore::sweep_claims(&tasks, 14 * day),
    ///     Chore::expire_inbox(&inbox),
    /// ];
    /// assert_eq!(chores.iter().map(Chore::name).collect::<BTreeSet<_>>().len(), 5);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn redrive<T: Task>(letters: &DeadLetters<T>, which: Selection) -> Self {
        let all = (letters.clone(), which);
        Self::of(of_letters("redrive", letters), 10 * MINUTE, &all, |(letters, which)| async move {
            letters.redrive(&which).await.map(|summary| summed(&summary))
        })
    }

    /// [`DeadLetters::collect`], every 10 minutes: creates dead letters from the messages that other programs
    /// put into the queue `<queue>-poison`. One request if there are none.
    pub fn collect<T: Task>(letters: &DeadLetters<T>) -> Self {
        Self::of(of_letters("collect", letters), 10 * MINUTE, letters, |letters| async move {
            letters.collect().await.map(|summary| summed(&summary))
        })
    }

    /// [`DeadLetters::expire`] and [`DeadLetters::forget`], once a day: deletes dead letters older than
    /// `older_than`, and the remaining rows of those redriven or purged longer ago.
    pub fn expire_letters<T: Task>(letters: &DeadLetters<T>, older_than: Duration) -> Self {
        Self::of(of_letters("expire", letters), DAY, letters, move |letters| async move {
            let mut counts = summed(&letters.expire(older_than).await?);
            let forgotten = letters.forget(older_than).await?;
            counts.extend((forgotten > 0).then(|| ("forgotten".to_owned(), forgotten)));
            Ok::<_, rowkey_client::Error>(counts)
        })
    }
}

fn of_letters<T: Task>(what: &str, letters: &DeadLetters<T>) -> String {
    format!("{what} dead letters {}", letters.queue())
}

fn summed(summary: &Summary) -> Counts {
    let Summary { matched, done, changed, failed, .. } = *summary;
    counts([("matched", matched), ("done", done), ("changed", changed), ("failed", failed)])
}

fn of_store<E: Entity + Clone + Send + Sync + 'static>(what: &str, store: &Store<E>) -> String {
    let head = match E::ROWS {
        rowkey_client::Rows::Head(head) | rowkey_client::Rows::One(head) => head,
        rowkey_client::Rows::All => "",
    };
    format!("{what} {}/{head}", store.table().name())
}

fn worked(worked: &Worked) -> Counts {
    let undeclared = worked.undeclared.values().sum();
    counts([
        ("settled", worked.settled),
        ("waiting", worked.waiting),
        ("failed", worked.failed),
        ("undeclared", undeclared),
    ])
}

fn reported(report: Result<Report, Interrupted>) -> Result<Counts, Interrupted> {
    report.map(|Report { total, .. }| {
        counts([
            ("examined", total.examined),
            ("repaired", total.repaired),
            ("missing", total.missing),
            ("stale", total.stale),
            ("orphaned", total.orphaned),
            ("unreadable", total.unreadable),
            ("failed", total.failed),
            ("skipped", total.skipped),
        ])
    })
}

/// The counts that are not zero.
fn counts<const N: usize>(all: [(&str, u64); N]) -> Counts {
    all.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_owned(), n)).collect()
}

shown!(Chore: name, every);

/// The leadership of this program, passed to each run of a chore.
#[derive(Clone)]
pub struct Leadership {
    pub(super) held: Arc<Held>,
    pub(super) is_over: watch::Receiver<bool>,
}

impl Leadership {
    /// The fencing token: larger than that of every earlier leader. The resource that the chore writes to can
    /// store the largest token it has seen and refuse smaller ones, because a leader that was suspended may
    /// continue for a moment.
    pub fn token(&self) -> u64 {
        self.held.token()
    }

    /// How long no other program can lead, unless an operator breaks the lease; zero when another may lead.
    pub fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    /// Completes when the lease is lost or the janitor shuts down, so that a long chore can end itself. When
    /// the lease is lost, the chore is dropped at once; on shutdown, after the janitor's
    /// [deadline](super::Janitor::shutdown_deadline).
    pub async fn over(&self) {
        // An error means that the janitor was dropped.
        drop(self.is_over.clone().wait_for(|is_over| *is_over).await);
    }

    /// Returns whether the lease is lost or the janitor is shutting down.
    pub fn is_over(&self) -> bool {
        *self.is_over.borrow() || self.held.remaining().is_zero()
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("token", &self.token()).finish_non_exhaustive()
    }
}
