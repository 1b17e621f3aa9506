//! Intents that no worker came to: found by their age, and handled.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::TryStreamExt as _;
use rowkey::edm::DateTime;
use rowkey::{
    Continuation, DynamicEntity, Error, ErrorKind, Filter, Key, Operator, Partition, Query, Result,
    ScanPolicy,
};
use serde::{Deserialize, Serialize};

use super::intent::{self, Address, HEAD, KIND};
use super::{Delivery, Notice};
use crate::task::Task;
use crate::worker::{Attempt, Done, Handler};

const PAGE: u32 = 100;

/// Is told of an intent whose handling failed, and why.
type Failed = dyn Fn(&Key<DynamicEntity>, &Error) + Send + Sync;

/// A search for intents that are old, from [`Outbox::drain`](super::Outbox::drain): each is handled as
/// if its message had come. [`run`](Self::run) it to the end, or [`step`](Self::step) by step.
///
/// An intent whose handling fails stays, is counted, and does not keep the others from their turn.
pub struct Drain<T, H> {
    delivery: Delivery<T, H>,
    partition: Option<String>,
    page_size: u32,
    failed: Arc<Failed>,
    /// The end of what is old enough; another one would be another query.
    end: String,
    next: Option<Continuation>,
    ended: bool,
    drained: Drained,
}

/// Where a [`Drain`] stands: to go on in another process.
///
/// It holds a continuation token, which may contain keys: treat it as you treat the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    end: String,
    next: Continuation,
}

/// What a [`Drain`] has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// The intents that were found.
    pub found: u64,
    /// Those of them that were handled.
    pub delivered: u64,
    /// Those that somebody else handled in between.
    pub gone: u64,
    /// Those whose handling failed. They are where they were.
    pub failed: u64,
}

impl<T: Task, H: Handler<T>> Drain<T, H> {
    pub(super) fn new(delivery: Delivery<T, H>, older_than: Duration) -> Self {
        let now = delivery.outbox.table().account().clock().now();
        let age = TimeDelta::from_std(older_than).unwrap_or(TimeDelta::MAX);
        let before = now.checked_sub_signed(age).and_then(|at| DateTime::try_from(at).ok());
        Self {
            delivery,
            partition: None,
            page_size: PAGE,
            failed: Arc::new(|_, _| {}),
            end: intent::head(before.unwrap_or(DateTime::MIN)),
            next: None,
            ended: false,
            drained: Drained::default(),
        }
    }

    /// Only the intents of the partition with this key: one range query instead of a scan of the table.
    #[must_use = "the drain itself does not change"]
    pub fn partition(mut self, partition_key: impl Into<String>) -> Self {
        self.partition = Some(partition_key.into());
        self
    }

    /// How many intents a step handles at most, 1 to 1000; 100 unless set.
    #[must_use = "the drain itself does not change"]
    pub fn page_size(mut self, intents: u32) -> Self {
        self.page_size = intents;
        self
    }

    /// Calls `failed` with each intent whose handling fails, and why.
    #[must_use = "the drain itself does not change"]
    pub fn failed(
        mut self,
        failed: impl Fn(&Key<DynamicEntity>, &Error) + Send + Sync + 'static,
    ) -> Self {
        self.failed = Arc::new(failed);
        self
    }

    /// Goes on where another drain stood, of the same table and the same partition, with the intents
    /// that were old then.
    #[must_use = "the drain itself does not change"]
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.end = checkpoint.end;
        self.next = Some(checkpoint.next);
        self
    }

    /// Handles all that there are; says what was done.
    ///
    /// After an error nothing is lost: call it again.
    pub async fn run(&mut self) -> Result<Drained> {
        while self.step().await? {}
        Ok(self.drained)
    }

    /// Reads one page of intents and handles each; says whether there was one.
    pub async fn step(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let query = self.query().page_size(self.page_size);
        let query = match &self.next {
            Some(next) => query.resume(next.clone()),
            None => query,
        };
        let page = query.project::<Address>().pages().try_next().await?;
        let (found, next) = page.map(|page| (page.entities, page.continuation)).unwrap_or_default();
        for address in found {
            let Address { key, partition_key, row_key } = address.entity;
            self.drained.found += 1;
            let notice = Notice::new(self.delivery.outbox.table(), partition_key, row_key);
            // The delivery knows the intent's own id and age.
            let attempt = Attempt::without_message("", chrono::DateTime::UNIX_EPOCH);
            let error = match self.delivery.handle(notice, attempt).await {
                Ok(Done::Applied) => {
                    self.drained.delivered += 1;
                    continue;
                }
                Ok(Done::AlreadyApplied) => {
                    self.drained.gone += 1;
                    continue;
                }
                Ok(Done::Poison(reason)) => Error::refused(ErrorKind::Invalid, reason)
                    .of("DrainOutbox", self.delivery.outbox.table().name()),
                Err(error) => error,
            };
            self.drained.failed += 1;
            tracing::warn!(%error, "an intent was not handled, and stays");
            (self.failed)(&key, &error);
        }
        self.ended = next.is_none();
        self.next = next;
        Ok(true)
    }

    /// Where the drain stands; `None` at its beginning and at its end.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let next = self.next.clone()?;
        Some(Checkpoint { end: self.end.clone(), next })
    }

    /// What was done so far.
    pub fn drained(&self) -> Drained {
        self.drained
    }

    fn query(&self) -> Query<DynamicEntity> {
        let table = self.delivery.outbox.table();
        let of_this_kind =
            Filter::dynamic(KIND, Operator::Equal, self.delivery.outbox.kind.as_ref());
        let query = match &self.partition {
            Some(partition_key) => {
                let bound = |row: &str| Key::new(&**partition_key, row);
                let rows = Partition::<DynamicEntity>::new(&**partition_key);
                table.query(rows.range(bound(HEAD)..bound(&self.end)))
            }
            None => table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow).filter(
                Filter::dynamic("RowKey", Operator::GreaterOrEqual, HEAD).and(Filter::dynamic(
                    "RowKey",
                    Operator::Less,
                    &*self.end,
                )),
            ),
        };
        query.filter(of_this_kind)
    }
}

impl<T, H> fmt::Debug for Drain<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("drained", &self.drained).finish_non_exhaustive()
    }
}
