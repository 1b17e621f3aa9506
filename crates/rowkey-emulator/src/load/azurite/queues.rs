//! Queues and messages.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rowkey_wire::edm::DateTime;
use serde::Deserialize;
use uuid::Uuid;

use super::extents::{Chunk, Extents};
use super::import::Import;
use super::loki::{File, damaged};
use super::values::{Instant, Policy, policies};
use crate::load::metadata;
use crate::store::queue::{Message, Queue};

pub(super) const FILE: &str = "__azurite_db_queue__.json";
const FOLDER: &str = "__queuestorage__";
const QUEUES: &str = "$QUEUES_COLLECTION$";
const MESSAGES: &str = "$MESSAGES_COLLECTION$";
/// From here on a message never expires, in ticks: the last second of the year 9999.
const NEVER: i64 = DateTime::MAX.ticks() - 10_000_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueRow {
    account_name: String,
    name: String,
    metadata: Option<BTreeMap<String, String>>,
    queue_acl: Option<Vec<Policy>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageRow {
    account_name: String,
    queue_name: String,
    message_id: Uuid,
    time_next_visible: Instant,
    insertion_time: Instant,
    expiration_time: Instant,
    dequeue_count: u32,
    persistency: Chunk,
}

/// Reads the queues; returns whether there is a database of queues.
pub(super) fn read(directory: &Path, import: &mut Import<'_>) -> io::Result<bool> {
    let Some(file) = File::read(directory, FILE)? else { return Ok(false) };
    let database = file.database(QUEUES)?;
    import.services(&database, |account| account.queues.properties_mut())?;
    for row in database.rows::<QueueRow>(QUEUES) {
        read_queue(row?, import);
    }
    let mut extents = Extents::new(directory, FOLDER);
    for (number, row) in (0..).zip(database.rows::<MessageRow>(MESSAGES)) {
        let row = row?;
        let text = String::from_utf8(extents.read(&row.persistency)?.into());
        let text = text.map_err(|_| damaged(&directory.join(FOLDER), "a message is not UTF-8"))?;
        let message = message(&row, number, text);
        let message = message.ok_or_else(|| {
            database.damaged(&format!("row {number} of {MESSAGES} has no valid instants"))
        })?;
        let is_held = message.dequeued > 0 && message.visible > import.now;
        let Some(account) = import.account(&row.account_name) else { continue };
        let Some(queue) = account.queues.touched_at(&row.queue_name) else {
            import.note("messages of queues that were deleted");
            continue;
        };
        if !queue.restore(message) {
            return Err(database.damaged("two messages have one id"));
        }
        import.counts.messages += 1;
        import.note_several(
            "pop receipts of messages that a receiver holds: they become visible when their time has come",
            u64::from(is_held),
        );
    }
    Ok(true)
}

fn read_queue(row: QueueRow, import: &mut Import<'_>) {
    let pairs = row.metadata.iter().flatten().map(|(name, value)| (&**name, &**value));
    let metadata = metadata::metadata(pairs, metadata::received);
    import.note_several("metadata of queues that Azure does not allow", metadata.is_err().into());
    let (policies, unread) = policies(row.queue_acl);
    import.note_several(
        "stored access policies of queues with instants that are not of Azure",
        unread,
    );
    let Some(account) = import.account(&row.account_name) else { return };
    let mut queue = Queue::new(metadata.unwrap_or_default());
    queue.set_policies(policies);
    account.queues.restore(&row.name, queue);
    import.counts.queues += 1;
}

/// A message; `None` if an instant is not valid.
fn message(row: &MessageRow, number: u64, text: String) -> Option<Message> {
    let visible = row.time_next_visible.get()?;
    let expires = row.expiration_time.get()?;
    Some(Message {
        id: row.message_id,
        inserted: row.insertion_time.get()?,
        expires: if expires.ticks() >= NEVER { DateTime::MAX } else { expires },
        visible,
        dequeued: row.dequeue_count,
        stamp: visible.ticks(),
        text: text.into(),
        number,
    })
}
