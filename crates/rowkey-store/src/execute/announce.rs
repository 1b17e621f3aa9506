//! Announcing a write before its commit: a message that appears by itself if the writer goes away.
//!
//! If the queue cannot be reached in a short time, or does not answer, a row in one of a few backlog
//! partitions takes the message's place. A write that can leave neither is not committed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::queue::{Body, Message};
use rowkey::{
    ClientOptions, DynamicEntity, Error, ErrorKind, Key, Match, Queue, Result, RetryOptions,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::deciding::Deciding;
use crate::plan::op::ClaimRef;
use crate::row::{FORMAT, FORMAT_VERSION, Keys, check_format, is_newer, text};

/// How long a message stays hidden while its writer commits and settles.
pub(crate) const HIDDEN: Duration = Duration::from_secs(60);

/// How long after its operation began a writer sends requests of it, by its own clock. Blobs may be
/// uploaded in that time.
pub(crate) const SENT: Duration = Duration::from_secs(300);

/// The longest time after which a request that was sent may still land.
pub(crate) const LATEST: Duration = Duration::from_secs(600);

/// How long a writer waits for the queue.
const BUDGET: Duration = Duration::from_secs(1);

/// How long the queue is left alone after it failed.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

/// How many rows of the backlog are remembered for the receiver of this program. Drains find the others.
const MAX_LEFT: usize = 1000;

/// How many partitions share the rows of the backlog.
pub(crate) const BACKLOGS: u8 = 4;

const NOTICE: &str = "Notice";

/// Where the writes of a store are announced.
pub(crate) struct Announcer {
    queue: Queue,
    /// Until when the queue is left alone.
    resting_until: Mutex<DateTime<Utc>>,
    /// Wakes the receiver of this program when a write was left to it.
    wake: Notify,
    /// Rows of the backlog that writers of this program left, and that no message tells of.
    left: Mutex<Vec<Keys>>,
}

/// What stands for a write until it is settled.
pub(crate) enum Announced {
    Message(Message),
    Backlog(Keys),
}

/// The body of a message: where the op row is, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    /// The version of this format.
    v: u8,
    /// The PartitionKey and the RowKey of the op row.
    pub(crate) op: Keys,
    /// The claims that the write makes, which no op row names if it is never committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) claims: Vec<ClaimRef>,
}

/// The version of messages that this program writes; those of version 1 name no op row.
const VERSION: u8 = 2;

/// The most characters that the claims of a notice have in all, so that it fits into a message and into a
/// property. What a write with more leaves is found when a value is claimed again.
const MAX_CLAIMS: usize = 24 * 1024;

impl Notice {
    pub(crate) fn new(op: Keys, mut claims: Vec<ClaimRef>) -> Self {
        let mut room = MAX_CLAIMS;
        let fits = |claim: &ClaimRef| {
            // A character of an unusual key is escaped, or has several bytes.
            let size = 120 + claim.name.len() + claim.of.len() + claim.row_key.len();
            let size = size + claim.keys.0.len() + claim.keys.1.len();
            let left = room.checked_sub(size);
            room = left.unwrap_or_default();
            left.is_some()
        };
        let fitting = claims.iter().map(fits).take_while(|fits| *fits).count();
        claims.truncate(fitting);
        Self { v: VERSION, op, claims }
    }

    /// Reads the text of a message, or of a row of the backlog; `None` if a newer program wrote it, which
    /// a program of that version will receive.
    pub(crate) fn read(text: &str) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Versioned {
            v: u8,
        }
        // The error of the parser quotes the message.
        let refused = |_| Error::refused(ErrorKind::Decode, "an announcement names no op row");
        let Versioned { v } = serde_json::from_str(text).map_err(refused)?;
        if v > VERSION {
            return Ok(None);
        }
        serde_json::from_str(text).map(Some).map_err(refused)
    }

    pub(crate) fn text(&self) -> Result<String> {
        let what = "the announcement is no JSON";
        serde_json::to_string(self).map_err(|_| Error::refused(ErrorKind::Invalid, what))
    }
}

impl Announcer {
    pub(crate) fn new(queue: &Queue) -> Self {
        let retry = RetryOptions { max_attempts: 1, ..queue.account().options().retry.clone() };
        let options = ClientOptions {
            timeout: BUDGET,
            attempt_timeout: BUDGET,
            retry,
            ..queue.account().options().clone()
        };
        let resting_until = Mutex::new(DateTime::<Utc>::MIN_UTC);
        let (wake, left) = (Notify::new(), Mutex::default());
        Self { queue: queue.with_options(options), resting_until, wake, left }
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Announces a write. One request; two if the queue does not take the message.
    pub(crate) async fn announce(&self, table: &Deciding, notice: &Notice) -> Result<Announced> {
        self.announce_at(table, notice, &notice.op.1).await
    }

    /// Announces the void of another party's operation. Where the queue is down, its row of the backlog is
    /// another one than that of the operation's writer, who deletes its own when it has ended.
    pub(crate) async fn announce_void(&self, table: &Deciding, op: Keys) -> Result<()> {
        let row_key = format!("{}_void", op.1);
        self.announce_at(table, &Notice::new(op, Vec::new()), &row_key).await.map(drop)
    }

    async fn announce_at(
        &self,
        table: &Deciding,
        notice: &Notice,
        row_key: &str,
    ) -> Result<Announced> {
        let now = table.clock().now();
        let is_resting = now < *self.resting();
        if !is_resting {
            match self.put(notice).await {
                Ok(message) => return Ok(Announced::Message(message)),
                Err(error) if matches!(error.kind(), ErrorKind::Auth | ErrorKind::Invalid) => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::warn!(%error, "the queue does not take a message; a backlog row takes its place");
                    *self.resting() = now.checked_add_signed(PAUSE).unwrap_or(now);
                }
            }
        }
        let keys = (backlog(&notice.op), row_key.to_owned());
        let mut row = DynamicEntity::new(&*keys.0, &*keys.1);
        row.set(FORMAT, FORMAT_VERSION);
        row.set(NOTICE, notice.text()?);
        // Sent again without an answer: it is the same row.
        match table.insert(&row).await {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(Announced::Backlog(keys)),
        }
    }

    async fn put(&self, notice: &Notice) -> Result<Message> {
        let put = self.queue.put(Body::base64(notice.text()?)).never_expires();
        put.hidden_for(HIDDEN).send().await
    }

    /// Takes back the announcement of a write that left nothing to be settled.
    pub(crate) async fn withdraw(&self, table: &Deciding, announced: Announced) {
        let withdrawn = match announced {
            Announced::Message(message) => self.queue.delete_if_exists(&message).await.map(drop),
            Announced::Backlog(keys) => {
                let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
                table.table().delete_if_exists(key, Match::Any).await.map(drop)
            }
        };
        if let Err(error) = withdrawn {
            // A worker finds that there is nothing to do.
            tracing::debug!(%error, "the announcement of a settled write stays");
        }
    }

    /// Makes an announcement appear after `delay`; if that is none, wakes the receiver of this program. A row of
    /// the backlog is found by that one, or by the next drain.
    pub(crate) async fn reveal(&self, announced: &Announced, delay: Duration) {
        match announced {
            Announced::Message(message) => {
                if let Err(error) = self.queue.update(message).hidden_for(delay).send().await {
                    tracing::debug!(%error, "the message of an unsettled write appears when it is due");
                }
            }
            Announced::Backlog(keys) => {
                let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
                if delay.is_zero() && left.len() < MAX_LEFT {
                    left.push(keys.clone());
                }
            }
        }
        if delay.is_zero() {
            self.wake.notify_one();
        }
    }

    /// Completes when a writer of this program left something since it last did.
    pub(crate) async fn left(&self) {
        self.wake.notified().await;
    }

    /// The rows of the backlog that writers of this program left.
    pub(crate) fn take_left(&self) -> Vec<Keys> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn resting(&self) -> std::sync::MutexGuard<'_, DateTime<Utc>> {
        self.resting_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The partition of the backlog that an operation's row is in.
fn backlog(op: &Keys) -> String {
    let last = op.1.bytes().last().unwrap_or_default();
    backlog_partition(last % BACKLOGS)
}

/// The PartitionKey of one part of the backlog.
pub(crate) fn backlog_partition(number: u8) -> String {
    format!("backlog_{number}")
}

/// Whether a row is one of the backlog.
pub(crate) fn is_backlog(row: &DynamicEntity) -> bool {
    text(row, NOTICE).is_some()
}

/// What a row of the backlog announces; `None` if a newer program wrote it.
pub(crate) fn read_backlog(row: &DynamicEntity) -> Result<Option<Notice>> {
    if is_newer(row) {
        return Ok(None);
    }
    check_format(row, "a row of the backlog")?;
    Notice::read(text(row, NOTICE).unwrap_or_default())
}
