//! Announcing a write before its commit: a hidden message that appears by itself if the writer
//! stops.
//!
//! If the queue cannot be reached quickly or does not answer, a row in one of a few backlog
//! partitions replaces the message. A write that cannot be announced in either way is not committed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey_client::queue::{Body, Message};
use rowkey_client::{
    ClientOptions, DynamicEntity, Error, ErrorKind, Key, Match, Queue, Result, RetryOptions,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::blobs::Batches;
use super::ending::Ending;
use super::remembered::Remembered;
use crate::layer::deciding::Deciding;
use crate::layer::place::Place;
use crate::row::op::ClaimRef;
use crate::row::{FORMAT, FORMAT_VERSION, Keys, check_format, is_newer, text};

/// How long a message stays hidden while its writer commits and settles.
pub(crate) const HIDDEN: Duration = Duration::from_secs(60);

/// How long a writer waits for the queue.
const BUDGET: Duration = Duration::from_secs(1);

/// How long the queue is not used after a failure.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

/// How many backlog rows are remembered for the receiver of this program. Drains find the others.
const MAX_LEFT: usize = 1000;

/// The number of backlog partitions.
pub(crate) const BACKLOGS: u8 = 4;

const NOTICE: &str = "Notice";

/// Announces the writes of a store.
pub(crate) struct Announcer {
    queue: Queue,
    /// The queue is not used before this time.
    resting_until: Mutex<DateTime<Utc>>,
    /// Wakes the receiver of this program when a writer leaves a write to it.
    wake: Notify,
    /// Backlog rows that writers of this program left, without a message.
    left: Mutex<Vec<Keys>>,
    /// The rows elsewhere that this program wrote.
    pub(crate) rows: Remembered<Place>,
    /// The claims that committed writes of this program made, and those by which it found entities.
    pub(crate) claims: Remembered<Keys>,
    /// The writes in flight.
    pub(crate) ending: Ending,
    pub(crate) batches: Batches,
}

/// The announcement of a write, kept until the write is settled.
pub(crate) enum Announced {
    Message(Message),
    Backlog(Keys),
}

/// The body of a message: the keys of the op row, which exists if the write was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    /// The version of this format.
    v: u8,
    /// The PartitionKey and the RowKey of the op row.
    pub(crate) op: Keys,
    /// The claims of the write. If it is never committed, no op row names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) claims: Vec<ClaimRef>,
}

/// The message version that this program writes. Messages of version 1 do not name the op row.
const VERSION: u8 = 2;

/// The maximum total size of the claims in a notice, in characters, so that it fits into a message and
/// into a property. Further claims are cleaned up when their values are claimed again.
const MAX_CLAIMS: usize = 24 * 1024;

impl Notice {
    pub(crate) fn new(op: Keys, mut claims: Vec<ClaimRef>) -> Self {
        let mut room = MAX_CLAIMS;
        let fits = |claim: &ClaimRef| {
            // Unusual characters in keys are escaped or take several bytes.
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

    /// Reads the text of a message or of a backlog row; `None` if a newer program wrote it. A program of
    /// that version will receive it.
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
        let what = "the announcement cannot be written as JSON";
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
        let (rows, claims) = (Remembered::default(), Remembered::default());
        let (queue, ending) = (queue.with_options(options), Ending::default());
        let batches = Batches::default();
        Self { queue, resting_until, wake, left, rows, claims, ending, batches }
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Announces a write. One request; two if the queue does not accept the message.
    pub(crate) async fn announce(&self, table: &Deciding, notice: &Notice) -> Result<Announced> {
        self.announce_at(table, notice, &notice.op.1).await
    }

    /// Announces the void of another program's operation. If the queue is unavailable, the backlog row
    /// differs from that of the operation's writer, which deletes its own row at the end.
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
            match self.put(notice, now).await {
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
        // If the row exists, an unanswered attempt inserted it.
        match table.insert(&row).await {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(Announced::Backlog(keys)),
        }
    }

    /// Puts a message, or reuses a free one. One request; two if the free one is gone.
    async fn put(&self, notice: &Notice, now: DateTime<Utc>) -> Result<Message> {
        if let Some(free) = self.ending.reuse(now) {
            let update = self.queue.update(&free).body(Body::base64(notice.text()?));
            match update.hidden_for(HIDDEN).send().await {
                Ok(message) => return Ok(message),
                // If the message was updated nevertheless, the write is announced twice.
                Err(error) => tracing::debug!(%error, "a free message was not used again"),
            }
        }
        let put = self.queue.put(Body::base64(notice.text()?)).ttl(None);
        put.hidden_for(HIDDEN).send().await
    }

    /// Withdraws the announcement of a write that left nothing to settle.
    pub(crate) async fn withdraw(&self, table: &Deciding, announced: Announced) {
        let withdrawn = match announced {
            Announced::Message(message) => self.queue.delete_if_exists(&message).await.map(drop),
            Announced::Backlog(keys) => {
                let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
                table.table().delete_if_exists(key, Match::Any).await.map(drop)
            }
        };
        if let Err(error) = withdrawn {
            // A worker will find nothing to do.
            tracing::debug!(%error, "the announcement of a settled write was not deleted");
        }
    }

    /// Makes an announcement appear after `delay`; without a delay, wakes the receiver of this program. A
    /// backlog row is found by this receiver or by the next drain.
    pub(crate) async fn reveal(&self, announced: &Announced, delay: Duration) {
        match announced {
            Announced::Message(message) => {
                if let Err(error) = self.queue.update(message).hidden_for(delay).send().await {
                    tracing::debug!(%error, "the message of an unsettled write was not updated; it appears when it is due");
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

    /// Waits until a writer of this program leaves a write to the receiver.
    pub(crate) async fn left(&self) {
        self.wake.notified().await;
    }

    /// Takes the backlog rows that writers of this program left.
    pub(crate) fn take_left(&self) -> Vec<Keys> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn resting(&self) -> std::sync::MutexGuard<'_, DateTime<Utc>> {
        self.resting_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the backlog partition of an operation.
fn backlog(op: &Keys) -> String {
    let last = op.1.bytes().last().unwrap_or_default();
    backlog_partition(last % BACKLOGS)
}

/// Returns the PartitionKey of a backlog partition.
pub(crate) fn backlog_partition(number: u8) -> String {
    format!("backlog_{number}")
}

/// Whether a row is a backlog row.
pub(crate) fn is_backlog(row: &DynamicEntity) -> bool {
    text(row, NOTICE).is_some()
}

/// Reads the notice in a backlog row; `None` if a newer program wrote it.
pub(crate) fn read_backlog(row: &DynamicEntity) -> Result<Option<Notice>> {
    if is_newer(row) {
        return Ok(None);
    }
    check_format(row, "a row of the backlog")?;
    Notice::read(text(row, NOTICE).unwrap_or_default())
}

/// Returns the error of a store without a queue.
pub(crate) fn no_queue() -> Error {
    Error::refused(ErrorKind::Invalid, "the store has no queue")
        .advise("give one to `StoreBuilder::queue`")
}
