//! Encodes queues and messages as rows, and restores them from rows.

use std::io;

use uuid::Uuid;

use super::code::{Decoder, Encoder, invalid};
use super::journal::{Space, Unit};
use super::names::{self, AccountJournal, Kind, Registry};
use super::recording::Rows;
use crate::store::queue::account::Touch;
use crate::store::queue::messages::Touch as QueueTouch;
use crate::store::queue::{Message, Queue, Queues as Store};

/// The rows of queues.
#[derive(Debug, Default)]
pub(super) struct QueueRows(pub(super) Registry);

impl Rows for QueueRows {
    type Store = Store;
    type Touch = Touch;

    fn watch(store: &mut Store) {
        store.watch();
    }

    fn take(store: &mut Store) -> Vec<Touch> {
        store.touched.take()
    }

    fn touch_all(store: &mut Store) {
        store.touch_all();
    }

    fn note(&mut self, journal: &AccountJournal, touch: Touch, store: &mut Store, unit: &mut Unit) {
        let name = match &touch {
            Touch::Properties => {
                let key = journal.key(Kind::QueueProperties, "");
                return unit.put(Space::Names, key, names::properties(store.properties()));
            }
            Touch::Queue(name) => name,
        };
        if let Some(queue) = store.touched_at(name) {
            self.note_queue(journal, name, queue, unit);
        } else {
            self.0.remove(journal, Kind::Queue, name, unit);
        }
        let name = (name.as_str(), store.blocked_until(name));
        self.0.note_blocked(journal, Kind::QueueBlocked, name, unit);
    }

    fn clear(&mut self, journal: &AccountJournal, unit: &mut Unit) {
        self.0.clear(journal, [Kind::Queue, Kind::QueueBlocked], unit);
    }
}

impl QueueRows {
    fn note_queue(
        &mut self,
        journal: &AccountJournal,
        name: &str,
        queue: &mut Queue,
        unit: &mut Unit,
    ) {
        let mut touched = queue.touched.take();
        let mut owner = self.0.owner(name).unwrap_or_else(|| {
            queue.touched.watch();
            touched.insert(0, QueueTouch::Description);
            journal.new_owner()
        });
        for touch in touched {
            match touch {
                QueueTouch::Cleared | QueueTouch::Description => {
                    if matches!(touch, QueueTouch::Cleared) {
                        unit.swept.push((Space::Rows, owner));
                        owner = journal.new_owner();
                    }
                    let key = journal.key(Kind::Queue, name);
                    unit.put(Space::Names, key, describe(owner, queue));
                }
                QueueTouch::Message(id) => {
                    let mut key = owner.to_be_bytes().to_vec();
                    key.extend_from_slice(id.as_bytes());
                    match queue.message(id) {
                        Some(message) => unit.put(Space::Rows, key, write_message(message)),
                        None => unit.remove(Space::Rows, key),
                    }
                }
            }
        }
        self.0.set_owner(name, owner);
    }
}

fn describe(owner: u64, queue: &Queue) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u64(owner);
    names::metadata(&mut out, queue.metadata());
    names::policies(&mut out, queue.policies());
    out.finish()
}

/// Restores a queue from its row: number, metadata and policies.
pub(super) fn read_queue(store: &mut Store, name: &str, value: &[u8]) -> io::Result<u64> {
    let mut read = Decoder(value);
    let owner = read.count()?;
    let mut queue = Queue::new(names::read_metadata(&mut read)?);
    queue.set_policies(names::read_policies(&mut read)?);
    store.restore(name, queue);
    Ok(owner)
}

fn write_message(message: &Message) -> Vec<u8> {
    let mut out = Encoder::with_capacity(message.text.len() + 64);
    out.instant(message.inserted).instant(message.expires).instant(message.visible);
    out.fixed(message.dequeued.to_le_bytes()).i64(message.stamp).u64(message.number);
    out.text(&message.text).finish()
}

/// Restores a message. `id` is the key without the owner.
pub(super) fn read_message(
    store: &mut Store,
    name: &str,
    id: &[u8],
    value: &[u8],
) -> io::Result<()> {
    let mut read = Decoder(value);
    let message = Message {
        id: Uuid::from_slice(id).map_err(invalid)?,
        inserted: read.instant()?,
        expires: read.instant()?,
        visible: read.instant()?,
        dequeued: u32::from_le_bytes(read.fixed()?),
        stamp: read.count()?.cast_signed(),
        number: read.count()?,
        text: read.text()?.into(),
    };
    let is_restored = store.touched_at(name).is_none_or(|queue| queue.restore(message));
    is_restored.then_some(()).ok_or_else(|| invalid("two messages have the same number"))
}

#[cfg(test)]
mod tests {
    use rowkey_wire::edm::DateTime;

    use super::*;
    use crate::op::metadata::Metadata;
    use crate::store::Names;

    fn message(stamp: i64, number: u64) -> Vec<u8> {
        let (now, text) = (DateTime::MIN, "text".into());
        let id = Uuid::nil();
        write_message(&Message {
            id,
            inserted: now,
            expires: DateTime::MAX,
            visible: now,
            dequeued: u32::MAX,
            stamp,
            text,
            number,
        })
    }

    #[test]
    fn a_message_without_a_next_number_or_with_that_of_another_is_damage() {
        let mut store = Store::new(Names::Blocked, 1);
        store.restore("q", Queue::new(Metadata::default()));
        let mut read = |id: u128, value: &[u8]| {
            let id = Uuid::from_u128(id);
            read_message(&mut store, "q", id.as_bytes(), value).map_err(|error| error.to_string())
        };
        let too_large = Err("a number is too large".to_owned());
        assert_eq!(read(1, &message(0, u64::MAX)), too_large);
        assert_eq!(read(1, &message(i64::MAX, 0)), too_large);
        assert_eq!(read(1, &message(0, 7)), Ok(()));
        let twice = Err("two messages have the same number".to_owned());
        assert_eq!(read(2, &message(0, 7)), twice);
        let queue = store.touched_at("q").unwrap();
        queue.get(1, 1, DateTime::MAX, |message| assert_eq!(message.id, Uuid::from_u128(1)));
        assert_eq!(queue.put(Uuid::nil(), "".into(), None, 0, DateTime::MIN).number, 8);
    }
}
