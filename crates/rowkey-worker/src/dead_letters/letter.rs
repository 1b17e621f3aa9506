//! A dead letter as callers see it.

use std::panic::AssertUnwindSafe;

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use rowkey_client::Result;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::row::LetterRow;
use super::{Cause, DeadLetters};
use crate::panics::text;
use crate::task::{Content, Envelope, Failure, Loaded, Task};

/// A task that could not be processed, and the reason.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeadLetter<T> {
    /// The task's id, or the id of its message if the task has none.
    pub id: String,
    /// The queue it came from.
    pub queue: String,
    /// The kind that its message names; `None` if it names none.
    pub kind: Option<String>,
    /// Why it became a dead letter.
    pub cause: Cause,
    /// The cause in words: the text of the last error or panic, or the handler's reason.
    pub reason: String,
    /// The number of attempts that counted.
    pub attempts: u32,
    /// When the task was first put.
    pub first_seen: Option<DateTime<Utc>>,
    /// When it became a dead letter, by the worker's clock.
    pub put_aside: DateTime<Utc>,
    /// How often it was redriven before.
    pub redriven: u32,
    /// The latest 16 failures.
    pub history: Vec<Failure>,
    /// The `traceparent` of its message.
    pub traceparent: Option<String>,
    /// The task itself.
    pub task: Inspected<T>,
}

/// The task of a dead letter, if it can be read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Inspected<T> {
    /// The task is in the blob of this name, in the container for claims. [`DeadLetters::get`] reads it.
    Claim(String),
    /// Another message of the same task was processed since.
    Done,
    /// The task.
    Task(T),
    /// The task cannot be read.
    Unreadable {
        /// The text as it was written.
        text: String,
        /// Why it cannot be read, without quoting the text.
        reason: String,
    },
}

impl<T: Task> Inspected<T> {
    fn of(loaded: Loaded<T>, text: &str) -> Self {
        let reason = match loaded {
            Loaded::Task(task) => return Self::Task(task),
            Loaded::Done => return Self::Done,
            Loaded::Gone => "the blob with its task is gone".to_owned(),
            Loaded::Newer(reason) | Loaded::Unreadable(reason) => reason,
        };
        Self::Unreadable { text: text.to_owned(), reason }
    }
}

impl<T: Task> DeadLetters<T> {
    /// Decodes a row, and reads the task from its blob if `reads_claim`.
    pub(super) async fn inspect(&self, row: LetterRow, reads_claim: bool) -> Result<DeadLetter<T>> {
        let message = self.tasks.open_text(&row.text, &row.message);
        let (history, traceparent, task) = match message {
            Ok(envelope) => {
                let task = match &envelope.content {
                    Content::Claim { name, .. } if !reads_claim => Inspected::Claim(name.clone()),
                    Content::Claim { name, .. } => {
                        Inspected::of(self.loaded(&envelope).await?, name)
                    }
                    Content::Inline(task) => {
                        Inspected::of(self.loaded(&envelope).await?, task.get())
                    }
                };
                let trace = envelope.trace.map(|trace| trace.to_string());
                (envelope.history, trace, task)
            }
            Err(reason) => (Vec::new(), None, Inspected::Unreadable { text: row.text, reason }),
        };
        Ok(DeadLetter {
            id: row.id,
            queue: row.queue,
            kind: row.kind,
            cause: row.cause,
            reason: row.reason,
            attempts: row.attempts,
            first_seen: row.first_seen,
            put_aside: row.put_aside,
            redriven: row.redriven,
            history,
            traceparent,
            task,
        })
    }

    /// Reads the task. If that panics, the others can be inspected nevertheless.
    async fn loaded(&self, envelope: &Envelope) -> Result<Loaded<T>> {
        let loaded = AssertUnwindSafe(self.tasks.load(envelope, || ())).catch_unwind().await;
        loaded.unwrap_or_else(|panic| {
            tracing::warn!(panic = text(panic), "a dead letter cannot be read");
            Ok(Loaded::Unreadable("reading it as a task panicked".to_owned()))
        })
    }

    /// One line of an export: all fields, with the task read from its blob.
    pub(super) async fn line(&self, row: LetterRow) -> Result<String> {
        let message = self.tasks.open_text(&row.text, &row.message);
        let mut line = Map::new();
        let mut set = |name: &str, value: Value| line.insert(name.to_owned(), value);
        set("id", row.id.into());
        set("queue", row.queue.into());
        set("kind", row.kind.into());
        set("cause", row.cause.to_string().into());
        set("reason", row.reason.into());
        set("attempts", row.attempts.into());
        set("firstSeen", row.first_seen.map(crate::task::time).into());
        set("putAside", crate::task::time(row.put_aside).into());
        set("redriven", row.redriven.into());
        let task = if let Ok(envelope) = message {
            set("history", serde_json::to_value(&envelope.history).unwrap_or_default());
            set("traceparent", envelope.trace.map(|trace| trace.to_string()).into());
            if let Content::Claim { name, .. } = &envelope.content {
                set("claim", name.clone().into());
            }
            self.json(&envelope).await?
        } else {
            set("text", row.text.into());
            None
        };
        let mut line = serde_json::to_string(&line).unwrap_or_default();
        if let Some(task) = task {
            // The JSON is exported as it was written, so that numbers and the order of fields are unchanged.
            line.pop();
            line.push_str(",\"task\":");
            line.push_str(task.get());
            line.push('}');
        }
        Ok(line)
    }

    /// The JSON of a task on one line, if it exists.
    async fn json(&self, envelope: &Envelope) -> Result<Option<Box<RawValue>>> {
        let task = match &envelope.content {
            Content::Inline(task) => Some(task.clone()),
            Content::Claim { .. } => self.tasks.raw(envelope).await?,
        };
        // Strings in JSON cannot contain line breaks, so every line break is insignificant whitespace.
        let one_line = |task: Box<RawValue>| {
            let text = task.get().replace(['\r', '\n'], " ");
            RawValue::from_string(text).ok()
        };
        Ok(task.and_then(one_line))
    }
}
