//! A queue: its messages in order, their pop receipts and their expiry.
//!
//! Messages are delivered by the time at which they become visible, and at the same time by when
//! they were put. Get, put, update and delete take time logarithmic in the number of messages.
//! Expired messages are removed when the queue is next used.

use std::collections::{BTreeMap, HashMap};

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::SignedIdentifier;
use uuid::Uuid;

use crate::op::metadata::Metadata;
use crate::store::touched::Touched;

/// Ticks (100 ns) in a second.
const SECOND: i64 = 10_000_000;

/// A queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    metadata: Metadata,
    policies: Vec<SignedIdentifier>,
    messages: HashMap<Uuid, Message>,
    /// The messages by the time at which they become visible.
    order: BTreeMap<Position, Uuid>,
    /// The messages by expiry, without those that never expire.
    expiries: BTreeMap<Position, Uuid>,
    /// The number of messages put so far.
    put: u64,
    pub(crate) touched: Touched<Touch>,
}

/// A change to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// All messages were removed.
    Cleared,
    /// Its metadata or policies.
    Description,
    /// A message.
    Message(Uuid),
}

/// An instant and a message's number, so that every message has a unique position.
type Position = (DateTime, u64);

/// A message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) id: Uuid,
    pub(crate) inserted: DateTime,
    /// When it expires; [`DateTime::MAX`] means never.
    pub(crate) expires: DateTime,
    pub(crate) visible: DateTime,
    /// How often it was received.
    pub(crate) dequeued: u32,
    /// The value in its pop receipt: the time at which the message becomes visible, but always
    /// later than the previous value, so that no receipt is valid twice.
    pub(crate) stamp: i64,
    pub(crate) text: Box<str>,
    /// Its sequence number, by which messages that become visible at the same time are ordered.
    pub(crate) number: u64,
}

impl Queue {
    /// A queue without messages.
    pub(crate) fn new(metadata: Metadata) -> Self {
        Self { metadata, ..Self::default() }
    }

    /// The messages in the order in which they become visible, expired ones included.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Message> {
        self.order.values().filter_map(|id| self.messages.get(id))
    }

    /// Adds a message. `lifetime` and `visibility` are in seconds; without a lifetime it never
    /// expires.
    pub(crate) fn put(
        &mut self,
        id: Uuid,
        text: Box<str>,
        lifetime: Option<u32>,
        visibility: u32,
        now: DateTime,
    ) -> &Message {
        self.expire(now);
        let number = self.put;
        self.put += 1;
        let expires = lifetime.map_or(DateTime::MAX, |seconds| after(now, seconds));
        let visible = after(now, visibility);
        self.order.insert((visible, number), id);
        if expires != DateTime::MAX {
            self.expiries.insert((expires, number), id);
        }
        let stamp = visible.ticks();
        self.touched.note(|| Touch::Message(id));
        let message =
            Message { id, inserted: now, expires, visible, dequeued: 0, stamp, text, number };
        self.messages.entry(id).or_insert(message)
    }

    /// Passes up to `count` visible messages to `each`, and hides them for some seconds.
    pub(crate) fn get(
        &mut self,
        count: u32,
        visibility: u32,
        now: DateTime,
        mut each: impl FnMut(&Message),
    ) {
        self.expire(now);
        for (position, id) in self.visible(count, now) {
            let Some(message) = self.messages.get_mut(&id) else { continue };
            self.order.remove(&position);
            message.dequeued = message.dequeued.saturating_add(1);
            message.hide(after(now, visibility));
            self.order.insert((message.visible, message.number), id);
            self.touched.note(|| Touch::Message(id));
            each(message);
        }
    }

    /// Passes up to `count` visible messages to `each`, without changing them.
    pub(crate) fn peek(&mut self, count: u32, now: DateTime, mut each: impl FnMut(&Message)) {
        self.expire(now);
        for (_, id) in self.visible(count, now) {
            if let Some(message) = self.messages.get(&id) {
                each(message);
            }
        }
    }

    /// Hides a message for `visibility` seconds from now, and sets a new text if given.
    pub(crate) fn update(
        &mut self,
        id: &str,
        stamp: i64,
        text: Option<Box<str>>,
        visibility: u32,
        now: DateTime,
    ) -> Result<&Message, Rejection> {
        let id = self.held(id, stamp, now)?;
        let message = self.messages.get_mut(&id).ok_or_else(not_found)?;
        self.order.remove(&(message.visible, message.number));
        message.hide(after(now, visibility));
        self.order.insert((message.visible, message.number), id);
        if let Some(text) = text {
            message.text = text;
        }
        self.touched.note(|| Touch::Message(id));
        Ok(message)
    }

    /// Removes a message.
    pub(crate) fn delete(&mut self, id: &str, stamp: i64, now: DateTime) -> Result<(), Rejection> {
        let id = self.held(id, stamp, now)?;
        if let Some(message) = self.messages.remove(&id) {
            self.order.remove(&(message.visible, message.number));
            self.expiries.remove(&(message.expires, message.number));
            self.touched.note(|| Touch::Message(id));
        }
        Ok(())
    }

    /// Removes all messages. The caller drops them, which can take long for many messages.
    pub(crate) fn clear(&mut self) -> Self {
        self.touched.note(|| Touch::Cleared);
        Self {
            messages: std::mem::take(&mut self.messages),
            order: std::mem::take(&mut self.order),
            expiries: std::mem::take(&mut self.expiries),
            ..Self::default()
        }
    }

    /// The number of messages, including hidden ones.
    pub(crate) fn count(&mut self, now: DateTime) -> usize {
        self.expire(now);
        self.messages.len()
    }

    /// The number of stored messages, including expired ones.
    pub(crate) fn kept(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(crate) fn set_metadata(&mut self, metadata: Metadata) {
        self.touched.note(|| Touch::Description);
        self.metadata = metadata;
    }

    pub(crate) fn policies(&self) -> &[SignedIdentifier] {
        &self.policies
    }

    pub(crate) fn set_policies(&mut self, policies: Vec<SignedIdentifier>) {
        self.touched.note(|| Touch::Description);
        self.policies = policies;
    }

    /// The first visible messages.
    fn visible(&self, count: u32, now: DateTime) -> Vec<(Position, Uuid)> {
        let visible = self.order.range(..=(now, u64::MAX));
        visible.take(count as usize).map(|(position, id)| (*position, *id)).collect()
    }

    /// The message with this id, if the stamp matches its latest pop receipt.
    fn held(&mut self, id: &str, stamp: i64, now: DateTime) -> Result<Uuid, Rejection> {
        self.expire(now);
        let id = Uuid::try_parse(id).map_err(|_| not_found())?;
        let message = self.messages.get(&id).ok_or_else(not_found)?;
        if message.stamp == stamp {
            Ok(id)
        } else {
            Err(Rejection::new(ErrorCode::POP_RECEIPT_MISMATCH))
        }
    }

    /// Removes expired messages.
    fn expire(&mut self, now: DateTime) {
        while let Some(first) = self.expiries.first_entry() {
            if first.key().0 > now {
                break;
            }
            let id = first.remove();
            if let Some(message) = self.messages.remove(&id) {
                self.order.remove(&(message.visible, message.number));
                self.touched.note(|| Touch::Message(id));
            }
        }
    }
}

/// For the durable store, which also keeps the queue on disk.
#[cfg(feature = "durable")]
impl Queue {
    /// The message with this id.
    pub(crate) fn message(&self, id: Uuid) -> Option<&Message> {
        self.messages.get(&id)
    }

    /// Restores a message. Returns false if another has its place.
    pub(crate) fn restore(&mut self, message: Message) -> bool {
        let Message { id, visible, expires, number, .. } = message;
        let mut is_new = self.order.insert((visible, number), id).is_none();
        if expires != DateTime::MAX {
            is_new &= self.expiries.insert((expires, number), id).is_none();
        }
        self.put = self.put.max(number + 1);
        is_new && self.messages.insert(id, message).is_none()
    }

    /// Records everything as changed.
    pub(crate) fn touch_all(&mut self) {
        self.touched.note(|| Touch::Description);
        for id in self.messages.keys() {
            self.touched.note(|| Touch::Message(*id));
        }
    }
}

impl Message {
    /// Hides it until an instant, and invalidates its pop receipt.
    fn hide(&mut self, until: DateTime) {
        self.visible = until;
        self.stamp = until.ticks().max(self.stamp + 1);
    }
}

fn after(now: DateTime, seconds: u32) -> DateTime {
    DateTime::from_ticks(now.ticks() + i64::from(seconds) * SECOND).unwrap_or(DateTime::MAX)
}

fn not_found() -> Rejection {
    Rejection::new(ErrorCode::MESSAGE_NOT_FOUND)
}
