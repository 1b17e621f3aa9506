//! The rows of dead letters: a stored format.
//!
//! A dead letter has two rows, written in one transaction. `letter_<time>_<id>` holds all data, and sorts the
//! newest first. `task_<id>` names the current dead letter of the task. It stays when that is redriven or
//! purged, so that an old message of the task is recognized.

use std::cmp::Ordering;
use std::ops::Range;

use chrono::{DateTime, Utc};
use rowkey_client::edm::Value;
use rowkey_client::queue::Message;
use rowkey_client::{DynamicEntity, ETag, Key, Stored};
use rowkey_store::long_text::{set_text, whole_text};

use super::Cause;
use crate::task::{Envelope, key_part, shortened, time};

/// The RowKeys of dead letters: their prefix, and the exclusive end of the range.
pub(super) const LETTERS: Range<&str> = "letter_".."letter`";
/// The RowKeys of tasks: their prefix, and the exclusive end of the range.
pub(super) const TASKS: Range<&str> = "task_".."task`";

/// The last millisecond of the year 9999. Keys hold the time remaining until then, so the newest sort first.
const LAST: i64 = 253_402_300_799_999;

/// The maximum length of a stored reason, in characters. Only handlers write longer ones; errors are shorter.
const MAX_REASON: usize = 8 * 1024;

/// The maximum length of a stored kind, in characters. The message has the whole name.
const MAX_KIND: usize = 1024;

/// The fields of a dead letter that can be read without parsing its message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LetterRow {
    pub(super) queue: String,
    pub(super) id: String,
    pub(super) kind: Option<String>,
    pub(super) cause: Cause,
    pub(super) reason: String,
    pub(super) attempts: u32,
    pub(super) first_seen: Option<DateTime<Utc>>,
    pub(super) put_aside: DateTime<Utc>,
    /// How often the task was redriven before.
    pub(super) redriven: u32,
    /// The id of the call that redrove it last.
    pub(super) redrive: Option<String>,
    /// The queue's id of the message.
    pub(super) message: String,
    /// The message's text: JSON, not base64; or the unchanged text if it cannot be read.
    pub(super) text: String,
    /// Whether its RowKey is not the one of such a dead letter, so that another program wrote it.
    pub(super) is_foreign: bool,
}

/// The row of a task that has or had a dead letter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskRow {
    pub(super) queue: String,
    pub(super) id: String,
    /// The RowKey of its dead letter; `None` if it was redriven or purged.
    pub(super) letter: Option<String>,
    /// How often the task was redriven.
    pub(super) redriven: u32,
    /// The message that became a dead letter last.
    pub(super) message: String,
    /// The id of the call that redrove it last, while it has no dead letter. Messages of other calls are dropped.
    pub(super) redrive: Option<String>,
    pub(super) is_purged: bool,
    pub(super) at: DateTime<Utc>,
}

impl LetterRow {
    pub(super) fn row_key(&self) -> String {
        format!("letter_{:015}_{}", inverted(self.put_aside), key_part(&self.id))
    }

    pub(super) fn key(&self) -> Key<DynamicEntity> {
        Key::new(&*self.queue, self.row_key())
    }

    pub(super) fn entity(&self) -> DynamicEntity {
        let mut row = DynamicEntity::new(&*self.queue, self.row_key());
        // A message of another program may hold longer texts than a property does.
        set_text(&mut row, "Id", &self.id);
        if let Some(kind) = &self.kind {
            row.set("Kind", kind.chars().take(MAX_KIND).collect::<String>());
        }
        row.set("Cause", self.cause.to_string());
        row.set("Reason", shortened(&self.reason, MAX_REASON));
        row.set("Attempts", number(self.attempts));
        if let Some(first_seen) = self.first_seen {
            row.set("FirstSeen", time(first_seen));
        }
        row.set("PutAside", time(self.put_aside));
        row.set("Redriven", number(self.redriven));
        if let Some(redrive) = &self.redrive {
            row.set("Redrive", &**redrive);
        }
        row.set("MessageId", &*self.message);
        set_text(&mut row, "Message", &self.text);
        row
    }

    /// Reads a row that any program may have written; missing properties are empty.
    pub(super) fn read(row: &DynamicEntity) -> Self {
        let text = |name| string(row, name).map(str::to_owned);
        let letter = Self {
            queue: row.partition_key.clone(),
            id: whole_text(row, "Id"),
            kind: text("Kind"),
            cause: string(row, "Cause").unwrap_or_default().into(),
            reason: text("Reason").unwrap_or_default(),
            attempts: count(row, "Attempts"),
            first_seen: string(row, "FirstSeen").and_then(|time| time.parse().ok()),
            put_aside: put_aside(&row.row_key).unwrap_or_default(),
            redriven: count(row, "Redriven"),
            redrive: text("Redrive"),
            message: text("MessageId").unwrap_or_default(),
            text: whole_text(row, "Message"),
            is_foreign: false,
        };
        Self { is_foreign: letter.row_key() != row.row_key, ..letter }
    }

    /// The row of its task while this dead letter exists.
    pub(super) fn task(&self) -> TaskRow {
        TaskRow {
            queue: self.queue.clone(),
            id: self.id.clone(),
            letter: Some(self.row_key()),
            redriven: self.redriven,
            message: self.message.clone(),
            redrive: None,
            is_purged: false,
            at: self.put_aside,
        }
    }
}

impl TaskRow {
    pub(super) fn key(queue: &str, id: &str) -> Key<DynamicEntity> {
        Key::new(queue, format!("task_{}", key_part(id)))
    }

    pub(super) fn entity(&self) -> DynamicEntity {
        let mut row = DynamicEntity::new(&*self.queue, format!("task_{}", key_part(&self.id)));
        set_text(&mut row, "Id", &self.id);
        row.set("Letter", self.letter.as_deref().unwrap_or_default());
        row.set("Redriven", number(self.redriven));
        row.set("MessageId", &*self.message);
        if let Some(redrive) = &self.redrive {
            row.set("Redrive", &**redrive);
        }
        row.set("Purged", self.is_purged);
        row.set("At", self.at.timestamp_millis());
        row
    }

    pub(super) fn read(row: &DynamicEntity) -> Self {
        let at = match row.get("At") {
            Some(Value::Int64(at)) => DateTime::from_timestamp_millis(*at).unwrap_or_default(),
            _ => DateTime::default(),
        };
        Self {
            queue: row.partition_key.clone(),
            id: whole_text(row, "Id"),
            letter: string(row, "Letter").filter(|key| !key.is_empty()).map(str::to_owned),
            redriven: count(row, "Redriven"),
            message: string(row, "MessageId").unwrap_or_default().to_owned(),
            redrive: string(row, "Redrive").map(str::to_owned),
            is_purged: row.get("Purged") == Some(&Value::Boolean(true)),
            at,
        }
    }

    /// Returns whether a message of the task must be neither processed nor recorded: the task has a dead
    /// letter that is at least as new, or the dead letter of this very message was redriven or purged, or another
    /// redrive put the message that counts.
    pub(super) fn covers(&self, message: &ReceivedMessage<'_>) -> bool {
        if self.letter.is_some() {
            return message.redriven <= self.redriven;
        }
        let was_redriven = message.redriven > 0;
        let is_overtaken = match message.redriven.cmp(&self.redriven) {
            Ordering::Less => true,
            Ordering::Equal => self.redrive.is_some() && self.redrive.as_deref() != message.redrive,
            Ordering::Greater => false,
        };
        message.id == self.message
            || (message.was_given_up && message.redriven < self.redriven)
            || (was_redriven && is_overtaken)
            || (self.is_purged && (1..=self.redriven).contains(&message.redriven))
    }

    /// Returns whether a redrive put the message and ended before it changed this row.
    pub(super) fn is_half_redriven(&self, message: &ReceivedMessage<'_>) -> bool {
        message.redrive.is_some() && message.redriven > self.redriven
    }
}

/// A received message whose task may have a dead letter.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceivedMessage<'m> {
    /// The queue's id of the message.
    pub(super) id: &'m str,
    /// How often its task had been redriven when the message was put.
    pub(super) redriven: u32,
    /// The id of the call that put it.
    pub(super) redrive: Option<&'m str>,
    /// Whether the message is marked as given up.
    pub(super) was_given_up: bool,
}

impl<'m> ReceivedMessage<'m> {
    pub(super) fn new(message: &'m Message, envelope: Option<&'m Envelope>) -> Self {
        Self {
            id: &message.id,
            redriven: envelope.map_or(0, |envelope| envelope.redriven),
            redrive: envelope.and_then(|envelope| envelope.redrive.as_deref()),
            was_given_up: envelope.is_some_and(|envelope| envelope.given_up.is_some()),
        }
    }
}

/// A row and its ETag.
pub(super) fn with_etag<R>(
    stored: Stored<DynamicEntity>,
    read: impl Fn(&DynamicEntity) -> R,
) -> (R, ETag) {
    (read(&stored.entity), stored.etag)
}

/// The RowKeys of dead letters from `from`, inclusive, to `to`, exclusive.
pub(super) fn letters(from: Option<DateTime<Utc>>, to: Option<DateTime<Utc>>) -> Range<String> {
    // A later time has a smaller key.
    let behind = |time| format!("{}{:015}", LETTERS.start, inverted(time) + 1);
    let start = to.map_or_else(|| LETTERS.start.to_owned(), behind);
    let end = from.map_or_else(|| LETTERS.end.to_owned(), behind);
    // An empty selection becomes an empty, valid range.
    if start < end { start..end } else { start.clone()..start }
}

fn inverted(time: DateTime<Utc>) -> i64 {
    LAST - time.timestamp_millis().clamp(0, LAST)
}

/// The time of a dead letter, from its RowKey.
fn put_aside(row_key: &str) -> Option<DateTime<Utc>> {
    let time: i64 = row_key.strip_prefix(LETTERS.start)?.get(..15)?.parse().ok()?;
    (0..=LAST).contains(&time).then(|| DateTime::from_timestamp_millis(LAST - time))?
}

fn number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn count(row: &DynamicEntity, name: &str) -> u32 {
    match row.get(name) {
        Some(Value::Int32(count)) => u32::try_from(*count).unwrap_or_default(),
        _ => 0,
    }
}

fn string<'r>(row: &'r DynamicEntity, name: &str) -> Option<&'r str> {
    match row.get(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> LetterRow {
        let time = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        LetterRow {
            queue: "jobs".to_owned(),
            id: "a/1".to_owned(),
            kind: Some("resize".to_owned()),
            cause: Cause::Panic,
            reason: "no such picture".to_owned(),
            attempts: 5,
            first_seen: Some(time("2026-03-01T12:00:00Z")),
            put_aside: time("2026-03-02T12:00:00.125Z"),
            redriven: 2,
            redrive: Some("r1".to_owned()),
            message: "m1".to_owned(),
            text: text.to_owned(),
            is_foreign: false,
        }
    }

    #[test]
    fn rows_round_trip() {
        let long = "😀".repeat(32 * 1024);
        for text in ["", "no json", &long] {
            let row = row(text);
            let entity = row.entity();
            assert_eq!(LetterRow::read(&entity), row);
            assert_eq!(TaskRow::read(&row.task().entity()), row.task());
        }
    }

    #[test]
    fn texts_of_other_programs_fit_the_properties_of_a_row() {
        let long = "\u{1F600}".repeat(20_000);
        let row = LetterRow {
            id: long.clone(),
            kind: Some(long.clone()),
            cause: Cause::from(&*long),
            reason: long.clone(),
            redrive: Some("r1".to_owned()),
            ..row("")
        };
        for entity in [row.entity(), row.task().entity()] {
            for (name, value) in entity.iter() {
                let Value::String(text) = value else { continue };
                assert!(text.encode_utf16().count() <= 32 * 1024, "{name}");
            }
        }
        let read = LetterRow::read(&row.entity());
        assert_eq!((&read.id, read.is_foreign), (&long, false));
        assert_eq!(TaskRow::read(&row.task().entity()).id, long);
    }

    #[test]
    fn dead_letters_sort_newest_first_and_time_ranges_are_key_ranges() {
        let at = |millis: i64| {
            let put_aside = DateTime::from_timestamp_millis(millis).unwrap();
            LetterRow { put_aside, ..row("") }.row_key()
        };
        let time = |millis: i64| DateTime::from_timestamp_millis(millis);
        assert!(at(1000) > at(1001) && LETTERS.contains(&&*at(1000)));
        let range = letters(time(1000), time(2000));
        for (millis, is_in) in [(999, false), (1000, true), (1999, true), (2000, false)] {
            assert_eq!(range.contains(&at(millis)), is_in, "{millis}");
        }
        assert!(letters(time(2000), time(1000)).is_empty());
    }

    #[test]
    fn rows_of_other_programs_are_read_leniently() {
        let mut foreign = DynamicEntity::new("jobs", "letter_x");
        foreign.set("Attempts", "many");
        foreign.set("Redriven", -1);
        let row = LetterRow::read(&foreign);
        assert_eq!((row.attempts, row.redriven, &*row.text), (0, 0, ""));
        assert!(row.is_foreign);
        assert_eq!(row.cause, Cause::Other(String::new()));
    }

    #[test]
    fn a_task_row_covers_messages_that_it_has_already_settled() {
        let received = |id, redriven, was_given_up| {
            let redrive = (redriven > 0).then_some("r1");
            ReceivedMessage { id, redriven, redrive, was_given_up }
        };
        let with_letter = row("").task();
        assert!(with_letter.covers(&received("m2", 2, false)));
        assert!(with_letter.covers(&received("m2", 0, false)));
        assert!(!with_letter.covers(&received("m2", 3, false)), "it was redriven after this");
        let redriven = TaskRow { letter: None, redriven: 3, ..with_letter };
        assert!(redriven.covers(&received("m1", 2, false)));
        assert!(redriven.covers(&received("m0", 2, true)));
        assert!(!redriven.covers(&received("m2", 3, false)), "the one that was put");
        assert!(!redriven.covers(&received("m2", 0, false)), "it was put anew");
        let overtaken = TaskRow { redrive: Some("r2".to_owned()), ..redriven.clone() };
        assert!(overtaken.covers(&received("m2", 3, false)), "of a redrive that was overtaken");
        let won = TaskRow { redrive: Some("r1".to_owned()), ..redriven.clone() };
        assert!(!won.covers(&received("m2", 3, false)));
        assert!(won.covers(&received("m2", 2, false)), "of a redrive before");
        assert!(!won.covers(&received("m2", 0, false)), "it was put anew");
        let purged = TaskRow { is_purged: true, ..redriven };
        assert!(purged.covers(&received("m2", 3, false)));
        assert!(!purged.covers(&received("m2", 0, false)), "it was put anew");
    }
}
