//! Settling what writers left: their messages, and the backlog for those that the queue did not take.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::queue::{Body, Message};
use rowkey::{DynamicEntity, Entity, Key, Match, Partition, Result};

use super::Store;
use super::settle::no_queue;
use crate::execute::Resumed;
use crate::execute::announce::{
    Announcer, BACKLOGS, HIDDEN, Notice, backlog_partition, read_backlog,
};

/// How long a received message stays hidden, unless the worker says otherwise.
const RECEIVED: Duration = Duration::from_secs(60);
/// How many messages are received at a time.
const MESSAGES: u32 = 32;
/// When a message is looked at again that is not settled; twice as long each time, up to a minute.
const SOON: Duration = Duration::from_secs(1);
/// The longest time after which a message is looked at again that cannot be settled: one of a newer program,
/// or one whose rows are damaged. It begins with a minute and is twice as long each time.
const LONGEST: Duration = Duration::from_secs(3600);
/// How often a message is received that cannot be read, before it is moved to the poison queue.
const ATTEMPTS: u32 = 5;
/// The wait after a round that found nothing; twice as long each time, up to [`LONGEST_IDLE`].
const IDLE: Duration = Duration::from_secs(1);
/// The longest wait of an idle worker. With the readings of the backlog it makes 5,500 requests a day.
const LONGEST_IDLE: Duration = Duration::from_secs(20);
/// How often the backlog is read.
const BACKLOG_EVERY: Duration = Duration::from_secs(300);

/// What a round of a worker found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Writes that are settled now, or were.
    pub settled: u64,
    /// Writes that are to be looked at again later.
    pub waiting: u64,
    /// Announcements that could not be carried out. They appear again.
    pub failed: u64,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Settles what writers left until `shutdown` completes: those that were dropped, that stopped, that
    /// lost a race or whose requests were not answered.
    ///
    /// Any number of programs may run it at the same time. Idle, it makes a request after 1 to 20 seconds,
    /// twice as long each time, and four more every 5 minutes: 5,500 a day. It goes on when the services are not available for a time; other errors, as
    /// a queue that does not exist, end it.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let clock = self.inner.table.account().clock();
        let mut shutdown = pin!(shutdown);
        let mut idle = IDLE;
        let mut drain_at = Duration::ZERO;
        loop {
            let drains = clock.elapsed() >= drain_at;
            let worked = async {
                let drained = if drains { self.drain_backlog().await? } else { Worked::default() };
                // A row of the backlog that waits is not looked at again before the next drain.
                let settle =
                    |worked: Worked| Worked { settled: worked.settled + drained.settled, ..worked };
                self.work_once().await.map(settle)
            };
            let worked = match select(pin!(worked), &mut shutdown).await {
                Either::Left((Ok(worked), _)) => worked,
                Either::Left((Err(error), _)) if error.is_retryable() => {
                    tracing::warn!(%error, "a round of the worker failed; the next one follows");
                    Worked::default()
                }
                Either::Left((Err(error), _)) => return Err(error),
                Either::Right(((), _)) => return Ok(()),
            };
            if drains {
                drain_at = clock.elapsed() + BACKLOG_EVERY;
            }
            if worked != Worked::default() {
                idle = IDLE;
                continue;
            }
            match select(pin!(clock.sleep(idle)), &mut shutdown).await {
                Either::Left(_) => idle = (idle * 2).min(LONGEST_IDLE),
                Either::Right(((), _)) => return Ok(()),
            }
        }
    }

    /// Settles what up to 32 messages announce. One request, and what each of them needs.
    ///
    /// A message of a newer program, and one whose rows cannot be read, is looked at less and less often, at
    /// least every hour. A text that is no message of a store is moved to the queue of the same name with
    /// `-poison` behind it when it was received five times.
    pub async fn work_once(&self) -> Result<Worked> {
        let announcer = self.inner.announcer.as_ref().ok_or_else(no_queue)?;
        let queue = announcer.queue().with_options(self.inner.table.options().clone());
        let mut worked = Worked::default();
        for message in queue.receive(MESSAGES, RECEIVED).await? {
            match self.resume_message(announcer, &message).await {
                Ok(Resumed::Done) => worked.settled += 1,
                Ok(Resumed::Soon | Resumed::Again(_)) => worked.waiting += 1,
                Err(error) => {
                    tracing::warn!(%error, "a message is left to appear again");
                    worked.failed += 1;
                }
            }
        }
        Ok(worked)
    }

    /// Settles what the backlog announces. Four requests if it is empty.
    ///
    /// Rows that are younger than a minute are left to their writers.
    pub async fn drain_backlog(&self) -> Result<Worked> {
        let deciding = &self.inner.deciding;
        let mut worked = Worked::default();
        for number in 0..BACKLOGS {
            let rows = deciding.query(Partition::<DynamicEntity>::new(backlog_partition(number)));
            for row in rows.all().await? {
                let keys = (row.entity.partition_key.clone(), row.entity.row_key.clone());
                let age = deciding.clock().now() - row.timestamp.to_chrono();
                let resumed = match read_backlog(&row.entity) {
                    // Its writer may be about to commit.
                    Ok(Some(_)) if age.to_std().unwrap_or_default() < HIDDEN => Ok(Resumed::Soon),
                    Ok(Some(notice)) => self.executor().resume(&notice).await,
                    Ok(None) => Ok(Resumed::Soon),
                    Err(error) => Err(error),
                };
                match resumed {
                    Ok(Resumed::Done) => {
                        let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
                        deciding.table().delete_if_exists(key, Match::Any).await?;
                        worked.settled += 1;
                    }
                    Ok(Resumed::Soon | Resumed::Again(_)) => worked.waiting += 1,
                    Err(error) => {
                        tracing::warn!(%error, "a row of the backlog is left");
                        worked.failed += 1;
                    }
                }
            }
        }
        Ok(worked)
    }

    async fn resume_message(&self, announcer: &Announcer, message: &Message) -> Result<Resumed> {
        let received = message.dequeue_count.saturating_sub(1);
        let later = LONGEST.min(RECEIVED * 2_u32.pow(received.min(10)));
        let notice = message.base64().and_then(|text| Notice::read(&text));
        let resumed = match notice {
            Ok(Some(notice)) => self.executor().resume(&notice).await,
            Ok(None) => Ok(Resumed::Again(later)),
            Err(error) if message.dequeue_count >= ATTEMPTS => {
                self.poison(announcer, message).await?;
                return Err(error);
            }
            Err(error) => Err(error),
        };
        let delay = match &resumed {
            Ok(Resumed::Done) => {
                announcer.queue().delete_if_exists(message).await?;
                return resumed;
            }
            Ok(Resumed::Soon) => SOON * 2_u32.pow(received.min(6)),
            Ok(Resumed::Again(delay)) => *delay,
            // It appears again in a minute.
            Err(error) if error.is_retryable() => return resumed,
            Err(_) => later,
        };
        announcer.queue().update(message).hidden_for(delay).send().await?;
        resumed
    }

    /// Moves a message to the poison queue, which is created if there is none.
    async fn poison(&self, announcer: &Announcer, message: &Message) -> Result<()> {
        let queue = announcer.queue();
        let poison = queue.account().queue(&format!("{}-poison", queue.name()));
        let poison = poison.with_options(self.inner.table.options().clone());
        poison.create_if_missing().await?;
        poison.put(Body::text(message.text())).never_expires().send().await?;
        queue.delete_if_exists(message).await.map(drop)
    }
}
