//! Workers: settle the writes that writers left unfinished, from their messages and from the backlog.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt as _, select};
use rowkey_client::internals::doubled;
use rowkey_client::queue::{Body, Message};
use rowkey_client::{
    DynamicEntity, Entity, Error, ErrorKind, Key, Match, Partition, Result, Table,
};
use rowkey_patterns::Waits;
use rowkey_patterns::internals::all_until;

use super::Store;
use crate::execute::Executor;
use crate::execute::announce::{
    Announcer, BACKLOGS, HIDDEN, Notice, backlog_partition, no_queue, read_backlog,
};
use crate::execute::resume::Resumed;
use crate::row::Keys;

/// How long a received message stays hidden, unless the worker sets another time.
const RECEIVED: Duration = Duration::from_secs(60);
/// Messages received at once.
const MESSAGES: u32 = 32;
/// The wait before an unsettled message is tried again; it doubles each time, up to a minute.
const SOON: Duration = Duration::from_secs(1);
/// The longest wait before a message that cannot be settled is tried again, because a newer program wrote it
/// or its rows are damaged. The wait begins with a minute and doubles each time.
const LONGEST: Duration = Duration::from_secs(3600);
/// A message that was handed back this often is hidden for a time once.
const PAUSE_EVERY: u32 = 8;
/// How often an unreadable message is received before it is moved to the poison queue.
const ATTEMPTS: u32 = 5;
/// Writes settled in parallel.
const AT_A_TIME: usize = 8;
/// How long work in progress may continue after the shutdown.
const FINISH: Duration = Duration::from_secs(25);
/// How often the backlog is read.
const BACKLOG_EVERY: Duration = Duration::from_secs(300);

/// The result of one round of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Worked {
    /// Writes that are settled now or already were.
    pub settled: u64,
    /// Writes that will be tried again later.
    pub waiting: u64,
    /// Announcements that could not be handled. They appear again.
    pub failed: u64,
    /// Of those that wait: writes that were handed back, because they name declarations that this program
    /// does not have, by the name of the declaration. Types that the program does not have are named by the
    /// beginning of their RowKeys. A program that has the declaration settles them. If there is none any more, use
    /// [`Store::clean`], or [`Store::repair_without`].
    pub undeclared: BTreeMap<String, u64>,
    /// How many of `waiting` were handed back.
    handed_back: u64,
}

impl Worked {
    /// Converts the result of one announcement.
    fn of(resumed: Result<Resumed>) -> Self {
        match resumed {
            Ok(Resumed::Done) => Self { settled: 1, ..Self::default() },
            Ok(Resumed::Soon | Resumed::More | Resumed::Again(_)) => {
                Self { waiting: 1, ..Self::default() }
            }
            Ok(Resumed::Undeclared(names)) => {
                tracing::warn!(declarations = ?names, "a write waits for a program that declares them");
                let undeclared = names.into_iter().map(|name| (name, 1)).collect();
                Self { waiting: 1, undeclared, handed_back: 1, ..Self::default() }
            }
            Err(error) => {
                tracing::warn!(%error, "an announcement failed and will appear again");
                Self { failed: 1, ..Self::default() }
            }
        }
    }

    fn and(mut self, other: Self) -> Self {
        for (name, writes) in other.undeclared {
            *self.undeclared.entry(name).or_default() += writes;
        }
        Self {
            settled: self.settled + other.settled,
            waiting: self.waiting + other.waiting,
            failed: self.failed + other.failed,
            undeclared: self.undeclared,
            handed_back: self.handed_back + other.handed_back,
        }
    }

    /// Whether the next round should follow at once. A write that was handed back is visible, and would
    /// be received again and again.
    fn is_busy(&self) -> bool {
        self.settled + self.waiting.saturating_sub(self.handed_back) + self.failed > 0
    }
}

/// Runs a limited number of futures at once.
async fn all(works: Vec<impl Future<Output = Worked> + Send>) -> Worked {
    all_until(works, AT_A_TIME, |_| false).await.into_iter().fold(Worked::default(), Worked::and)
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Settles writes that writers left, until `shutdown` completes: writes that were dropped or stopped, lost
    /// a race or got no response. Work in progress at the shutdown is finished, for up to 25 seconds.
    ///
    /// Any number of programs may run it at the same time. A pending write of this store or its clones is
    /// handled within milliseconds. An idle worker makes a request every 1 to 30 seconds ([`Waits::IDLE`]),
    /// and four more every 5 minutes: 5,200 per day. It continues when the services are unavailable for a time;
    /// other errors, such as a queue that does not exist, end it.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
    /// # #[entity(unique(name = by_email, value = "{email}"))]
    /// # struct User { tenant: String, id: u32, email: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let users = Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
    /// # users.create_if_missing().await?;
    /// # let user = User { tenant: "contoso".into(), id: 1, email: "ada@contoso.com".into() };
    /// # users.insert(&user).await?;
    /// use std::time::Duration;
    ///
    /// let shutdown = tokio::time::sleep(Duration::from_millis(10)); // a signal, as a rule
    /// users.run(shutdown).await?;
    /// assert_eq!(users.work_once().await?.waiting, 0);
    /// assert_eq!(users.drain_backlog().await?.waiting, 0);
    /// # Ok(()) }
    /// ```
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.receiver().run(shutdown.boxed()).await
    }

    /// Settles the writes of up to 32 messages, 8 at a time. One request, and the requests of each write.
    ///
    /// A message of a newer program, or one whose rows cannot be read, is tried less and less often, but at
    /// least every hour. A message that names a declaration of another program is visible again at once, and
    /// [`Worked::undeclared`] names the declaration. A message that does not come from a store is moved to the
    /// queue with the same name and the suffix `-poison` after it was received five times.
    pub async fn work_once(&self) -> Result<Worked> {
        self.receiver().work_once().await
    }

    /// Settles the writes of the backlog. Four requests if it is empty.
    ///
    /// Rows younger than a minute are left to their writers.
    pub async fn drain_backlog(&self) -> Result<Worked> {
        self.receiver().drain_backlog().await
    }

    fn receiver(&self) -> Receiver {
        Receiver { table: self.inner.table.clone(), executor: self.executor() }
    }
}

/// Settles writes that writers left. It does not name the type of the entities, so it is compiled once.
struct Receiver {
    /// The table of the store.
    table: Table,
    executor: Executor,
}

impl Receiver {
    fn run<'a>(&'a self, mut shutdown: BoxFuture<'a, ()>) -> BoxFuture<'a, Result<()>> {
        async move {
        let clock = self.table.account().clock();
        let announcer = self.executor.announcer.as_ref().ok_or_else(no_queue)?;
        let mut quiet = 0;
        let mut drain_at = Duration::ZERO;
        loop {
            let drains = clock.elapsed() >= drain_at;
            let round = pin!(self.round(announcer, drains));
            let (worked, is_over) = match select(round, &mut shutdown).await {
                Either::Left((worked, _)) => (worked, false),
                Either::Right(((), round)) => match select(round, clock.sleep(FINISH)).await {
                    Either::Left((worked, _)) => (worked, true),
                    Either::Right(((), _)) => return Ok(()),
                },
            };
            let worked = match worked {
                Ok(worked) => worked,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "a round of the receiver failed; the next one follows");
                    Worked::default()
                }
                Err(error) => return Err(error),
            };
            if is_over {
                return Ok(());
            }
            if drains {
                drain_at = clock.elapsed() + BACKLOG_EVERY;
            }
            if worked.is_busy() {
                quiet = 0;
                continue;
            }
            let left = pin!(announcer.left());
            let wait = select(clock.sleep(Waits::IDLE.after(quiet)), left);
            match select(wait, &mut shutdown).await {
                Either::Left((Either::Left(_), _)) => quiet += 1,
                Either::Left((Either::Right(_), _)) => quiet = 0,
                Either::Right(((), _)) => return Ok(()),
            }
        }
        }.boxed()
    }

    /// Handles the writes that this program left, the queue, and the backlog if it is due.
    async fn round(&self, announcer: &Announcer, drains: bool) -> Result<Worked> {
        let own = announcer.take_left();
        let mut worked = self.settle_own(own).await;
        if drains {
            match self.drain_backlog().await {
                // A waiting backlog row is not tried again before the next drain.
                Ok(drained) => worked.settled += drained.settled,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "the backlog was not read; it is read again later");
                }
                Err(error) => return Err(error),
            }
        }
        let received = self.work_once().await?;
        Ok(worked.and(received))
    }

    /// Settles the backlog rows that writers of this program left, without waiting for the minute after
    /// which a writer is presumed gone.
    async fn settle_own(&self, own: Vec<Keys>) -> Worked {
        let settle = own.into_iter().map(|keys| async move {
            let row = match self.executor.table.row(&keys).await {
                Ok(Some(row)) => row.entity,
                Ok(None) => return Worked::default(),
                Err(error) => return Worked::of(Err(error)),
            };
            // A waiting row is left to the drains, and is no reason for another round at once.
            Worked { waiting: 0, handed_back: 0, ..Worked::of(self.resume_row(&row).await) }
        });
        let settle: Vec<_> = settle.collect();
        all(settle).await
    }

    fn work_once(&self) -> BoxFuture<'_, Result<Worked>> {
        async move {
            let announcer = self.executor.announcer.as_ref().ok_or_else(no_queue)?;
            let queue = announcer.queue().with_options(self.table.account().options().clone());
            let messages = queue.receive(MESSAGES, RECEIVED).await?;
            let resumed = messages.iter().map(|message| async move {
                Worked::of(self.resume_message(announcer, message).await)
            });
            let resumed: Vec<_> = resumed.collect();
            Ok(all(resumed).await)
        }
        .boxed()
    }

    fn drain_backlog(&self) -> BoxFuture<'_, Result<Worked>> {
        async move {
            let deciding = &self.executor.table;
            let mut worked = Worked::default();
            for number in 0..BACKLOGS {
                let rows =
                    deciding.query(Partition::<DynamicEntity>::new(backlog_partition(number)));
                let rows = rows.all().await?;
                let resumed = rows.iter().map(|row| async move {
                    let age = deciding.clock().now() - row.timestamp.to_chrono();
                    // Its writer may still commit.
                    if age.to_std().unwrap_or_default() < HIDDEN {
                        return Worked { waiting: 1, ..Worked::default() };
                    }
                    Worked::of(self.resume_row(&row.entity).await)
                });
                let resumed: Vec<_> = resumed.collect();
                worked = worked.and(all(resumed).await);
            }
            Ok(worked)
        }
        .boxed()
    }

    /// Settles the write of a backlog row, and then deletes the row.
    async fn resume_row(&self, row: &DynamicEntity) -> Result<Resumed> {
        let Some(notice) = read_backlog(row)? else { return Ok(Resumed::Soon) };
        let mut resumed = self.resume(&notice).await?;
        while resumed == Resumed::More {
            resumed = self.resume(&notice).await?;
        }
        if resumed == Resumed::Done {
            let key = Key::<DynamicEntity>::new(&*row.partition_key, &*row.row_key);
            self.executor.table.table().delete_if_exists(key, Match::Any).await?;
        }
        Ok(resumed)
    }

    /// Decides and settles one write. A panic does not affect other writes.
    async fn resume(&self, notice: &Notice) -> Result<Resumed> {
        // Boxed, so that the future of a worker stays small.
        let resumed = AssertUnwindSafe(self.executor.resume(notice)).catch_unwind().await;
        resumed.unwrap_or_else(|_| {
            Err(Error::refused(ErrorKind::Unexpected, "settling panicked")
                .advise("fix the cause of the panic; the write is settled again later"))
        })
    }

    async fn resume_message(&self, announcer: &Announcer, message: &Message) -> Result<Resumed> {
        let received = message.dequeue_count.saturating_sub(1);
        let later = doubled(RECEIVED, received, LONGEST);
        let notice = message.base64().and_then(|text| Notice::read(&text));
        let resumed = match notice {
            Ok(Some(notice)) => self.resume(&notice).await,
            Ok(None) => Ok(Resumed::Again(later)),
            Err(error) if message.dequeue_count >= ATTEMPTS => {
                self.poison(announcer, message).await?;
                return Err(error);
            }
            Err(error) => Err(error),
        };
        let delay = match &resumed {
            // Visible at once, so that the other program's worker receives it. Hidden now and then, so that
            // messages of a program that is gone are not received at each turn.
            Ok(Resumed::Undeclared(_)) if received % PAUSE_EVERY < PAUSE_EVERY - 1 => {
                Duration::ZERO
            }
            Ok(Resumed::Done) => {
                announcer.queue().delete_if_exists(message).await?;
                return resumed;
            }
            // Visible at once: this worker or another one continues.
            Ok(Resumed::More) => Duration::ZERO,
            Ok(Resumed::Soon) => doubled(SOON, received, SOON * 60),
            Ok(Resumed::Again(delay)) => *delay,
            // The message appears again in a minute.
            Err(error) if error.is_retryable() => return resumed,
            Ok(Resumed::Undeclared(_)) | Err(_) => later,
        };
        announcer.queue().update(message).hidden_for(delay).send().await?;
        resumed
    }

    /// Moves a message to the poison queue, and creates the queue if it does not exist.
    async fn poison(&self, announcer: &Announcer, message: &Message) -> Result<()> {
        let queue = announcer.queue();
        let poison = queue.account().queue(&format!("{}-poison", queue.name()));
        let poison = poison.with_options(self.table.account().options().clone());
        poison.create_if_missing().await?;
        poison.put(Body::text(message.text())).ttl(None).send().await?;
        queue.delete_if_exists(message).await.map(drop)
    }
}
