//! Clean-up that the writes in flight of one program share.
//!
//! A settled write leaves an op row and a message. While other writes of the program are in flight, they delete
//! both: when the last of them ends, or 16 writes are settled, one transaction deletes all op rows of a partition.
//! A message is deleted after its op row. If the program stops before, the message appears, and a worker deletes
//! the op row. A message whose op row is gone is free: the next write reuses it, by one request instead of a
//! deletion and a put.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use rowkey_client::queue::Message;

use super::announce::Announced;
use crate::row::Keys;

/// How many settled writes are left to others.
const MAX_ENDED: usize = 16;

/// How many free messages are kept.
const MAX_FREE: usize = 32;

/// How long after its start a write is left to others, and how long its message is kept: a message appears a
/// minute after it was put.
const YOUNG: TimeDelta = TimeDelta::seconds(20);

/// The writes of a program that are in flight, and what ended writes left.
#[derive(Default)]
pub(crate) struct Ending(Mutex<State>);

#[derive(Default)]
struct State {
    in_flight: usize,
    ended: Vec<Ended>,
    free: Vec<(Message, DateTime<Utc>)>,
}

/// A settled write.
pub(crate) struct Ended {
    pub(crate) op: Keys,
    pub(crate) announced: Announced,
    pub(crate) created: DateTime<Utc>,
}

/// A write in flight.
pub(crate) struct Flight<'e>(&'e Ending);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_flight = state.in_flight.saturating_sub(1);
    }
}

impl Ending {
    /// Notes a write that begins.
    pub(crate) fn begin(&self) -> Flight<'_> {
        self.state().in_flight += 1;
        Flight(self)
    }

    /// Leaves the clean-up of a settled write to the writes in flight.
    pub(crate) fn leave(&self, ended: Ended) {
        self.state().ended.push(ended);
    }

    /// Takes the settled writes to clean up, unless a write in flight will do so soon.
    pub(crate) fn take(&self, now: DateTime<Utc>) -> Vec<Ended> {
        let mut state = self.state();
        let is_old = |ended: &Ended| now - ended.created >= YOUNG;
        let is_due = state.in_flight == 0
            || state.ended.len() >= MAX_ENDED
            || state.ended.first().is_some_and(is_old);
        if is_due { std::mem::take(&mut state.ended) } else { Vec::new() }
    }

    /// Keeps the messages of writes whose op rows are gone, for later writes. Returns the messages to
    /// delete: those that are too old, and all if no write is in flight.
    pub(crate) fn free(
        &self,
        messages: Vec<(Message, DateTime<Utc>)>,
        now: DateTime<Utc>,
    ) -> Vec<Message> {
        let mut state = self.state();
        let mut all = std::mem::take(&mut state.free);
        all.extend(messages);
        let mut gone = Vec::new();
        for (message, created) in all {
            let is_kept =
                state.in_flight > 0 && state.free.len() < MAX_FREE && now - created < YOUNG;
            if is_kept {
                state.free.push((message, created));
            } else {
                gone.push(message);
            }
        }
        gone
    }

    /// Takes a free message.
    pub(crate) fn reuse(&self, now: DateTime<Utc>) -> Option<Message> {
        let mut state = self.state();
        let young = state.free.iter().position(|(_, created)| now - *created < YOUNG)?;
        Some(state.free.swap_remove(young).0)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
