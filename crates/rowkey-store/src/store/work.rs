//! Settling what writers left: their messages, and the backlog for those that the queue did not take.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::queue::Message;
use rowkey::{DynamicEntity, Entity, Key, Match, Partition, Result};

use super::Store;
use super::settle::no_queue;
use crate::execute::Resumed;
use crate::execute::announce::{Announcer, BACKLOGS, Notice, backlog_partition, read_backlog};

/// How long a received message stays hidden.
const HIDDEN: Duration = Duration::from_secs(60);
/// How many messages are received at a time.
const MESSAGES: u32 = 32;
/// When a message is looked at again that is not settled; twice as long each time, up to a minute.
const SOON: Duration = Duration::from_secs(1);
/// The wait after a round that found nothing.
const IDLE: Duration = Duration::from_secs(5);
/// How often the backlog is read.
const BACKLOG_EVERY: u32 = 12;

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
    /// Any number of programs may run it at the same time. Idle, it makes a request every 5 seconds, and
    /// four more every minute. It goes on when the services are not available for a time; other errors, as
    /// a queue that does not exist, end it.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let clock = self.inner.table.account().clock();
        let mut shutdown = pin!(shutdown);
        let mut round = 0_u32;
        loop {
            let worked = async {
                if round.is_multiple_of(BACKLOG_EVERY) {
                    self.drain_backlog().await?;
                }
                self.work_once().await
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
            round = round.wrapping_add(1);
            if worked == Worked::default() {
                match select(pin!(clock.sleep(IDLE)), &mut shutdown).await {
                    Either::Left(_) => {}
                    Either::Right(((), _)) => return Ok(()),
                }
            }
        }
    }

    /// Settles what up to 32 messages announce. One request, and what each of them needs.
    pub async fn work_once(&self) -> Result<Worked> {
        let announcer = self.inner.announcer.as_ref().ok_or_else(no_queue)?;
        let queue = announcer.queue().with_options(self.inner.table.options().clone());
        let mut worked = Worked::default();
        for message in queue.receive(MESSAGES, HIDDEN).await? {
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
    pub async fn drain_backlog(&self) -> Result<Worked> {
        let deciding = &self.inner.deciding;
        let mut worked = Worked::default();
        for number in 0..BACKLOGS {
            let rows = deciding.query(Partition::<DynamicEntity>::new(backlog_partition(number)));
            for row in rows.all().await? {
                let keys = (row.entity.partition_key.clone(), row.entity.row_key.clone());
                let resumed = match read_backlog(&row.entity) {
                    Ok(notice) => self.executor().resume(&notice).await,
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
        let notice = Notice::read(&message.base64()?)?;
        let resumed = self.executor().resume(&notice).await?;
        let delay = match resumed {
            Resumed::Done => {
                announcer.queue().delete_if_exists(message).await?;
                return Ok(resumed);
            }
            Resumed::Soon => SOON * 2_u32.pow(message.dequeue_count.saturating_sub(1).min(6)),
            Resumed::Again(delay) => delay,
        };
        announcer.queue().update(message).hidden_for(delay).send().await?;
        Ok(resumed)
    }
}
