//! Applies random operations to a queue and to a plain list: both must have the same contents and
//! results.

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use uuid::Uuid;

use super::messages::{Message, Queue};
use crate::store::model_tests::Random;

/// A message of the model, found by linear search.
#[derive(Clone, Debug)]
struct Model {
    id: String,
    text: String,
    expires: i64,
    visible: i64,
    dequeued: u32,
    stamp: i64,
    number: usize,
}

/// The observable state of a message.
type Seen = (String, String, u32, i64);

fn seconds(count: u32) -> i64 {
    i64::from(count) * 10_000_000
}

fn instant(ticks: i64) -> DateTime {
    DateTime::from_ticks(ticks).unwrap()
}

fn seen(message: &Message) -> Seen {
    let text = message.text.to_string();
    (message.id.to_string(), text, message.dequeued, message.visible.ticks())
}

fn seen_of(message: &Model) -> Seen {
    (message.id.clone(), message.text.clone(), message.dequeued, message.visible)
}

/// The first visible messages of the model.
fn visible(model: &mut [Model], now: i64, count: u32) -> Vec<&mut Model> {
    let mut visible: Vec<_> = model.iter_mut().filter(|message| message.visible <= now).collect();
    visible.sort_by_key(|message| (message.visible, message.number));
    visible.truncate(count as usize);
    visible
}

fn hide(message: &mut Model, until: i64) {
    message.visible = until;
    message.stamp = until.max(message.stamp + 1);
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let mut below = |end: u32| u32::try_from(random.below(end as usize)).unwrap();
    let mut queue = Queue::default();
    let mut model: Vec<Model> = Vec::new();
    // All receipts that were issued, valid and invalid.
    let mut receipts: Vec<(String, i64)> = Vec::new();
    let mut now = instant(638_000_000_000_000_000).ticks();
    for number in 0..3000 {
        // The clock often stands still.
        now += seconds(below(4).saturating_sub(1));
        model.retain(|message| message.expires > now);
        match below(8) {
            0..=2 => {
                let id = Uuid::from_u128(number as u128);
                let lifetime = [Some(3), Some(20), None][below(3) as usize];
                let visibility = below(3);
                let text = format!("text {number}");
                queue.put(id, text.as_str().into(), lifetime, visibility, instant(now));
                let visible = now + seconds(visibility);
                let expires = lifetime.map_or(i64::MAX, |lifetime| now + seconds(lifetime));
                let id = id.to_string();
                receipts.push((id.clone(), visible));
                let stamp = visible;
                model.push(Model { id, text, expires, visible, dequeued: 0, stamp, number });
            }
            3 | 4 => {
                let (count, visibility) = (below(5) + 1, below(5) + 1);
                let mut gotten = Vec::new();
                queue.get(count, visibility, instant(now), |message| {
                    receipts.push((message.id.to_string(), message.stamp));
                    gotten.push(seen(message));
                });
                let expected: Vec<_> = visible(&mut model, now, count)
                    .into_iter()
                    .map(|message| {
                        message.dequeued += 1;
                        hide(message, now + seconds(visibility));
                        seen_of(message)
                    })
                    .collect();
                assert_eq!(gotten, expected, "seed {seed}, step {number}");
            }
            5 => {
                let mut peeked = Vec::new();
                queue.peek(32, instant(now), |message| peeked.push(seen(message)));
                let expected: Vec<_> = visible(&mut model, now, 32)
                    .into_iter()
                    .map(|message| seen_of(message))
                    .collect();
                assert_eq!(peeked, expected, "seed {seed}, step {number}");
            }
            // Some of the latest receipts are valid.
            kind if !receipts.is_empty() => {
                let recent = u32::try_from(receipts.len().min(12)).unwrap();
                let back = below(recent) as usize + 1;
                let (id, stamp) = receipts[receipts.len() - back].clone();
                let at = model.iter().position(|message| message.id == id);
                let expected = match at {
                    None => Err(ErrorCode::MESSAGE_NOT_FOUND),
                    Some(at) if model[at].stamp != stamp => Err(ErrorCode::POP_RECEIPT_MISMATCH),
                    Some(at) => Ok(at),
                };
                let result = if kind == 6 {
                    let deleted = queue.delete(&id, stamp, instant(now));
                    if let Ok(at) = expected {
                        model.remove(at);
                    }
                    deleted
                } else {
                    let visibility = below(4);
                    let text = (below(2) == 0).then(|| format!("new {number}"));
                    let boxed = text.as_deref().map(Into::into);
                    let updated = queue.update(&id, stamp, boxed, visibility, instant(now));
                    if let Ok(at) = expected {
                        hide(&mut model[at], now + seconds(visibility));
                        if let Some(text) = text {
                            model[at].text = text;
                        }
                    }
                    updated.map(|message| receipts.push((message.id.to_string(), message.stamp)))
                };
                let result = result.map_err(|rejection| rejection.code);
                assert_eq!(result, expected.map(|_| ()), "seed {seed}, step {number}");
            }
            _ => {}
        }
        assert_eq!(queue.count(instant(now)), model.len(), "seed {seed}, step {number}");
    }
}

#[test]
fn a_queue_agrees_with_a_model() {
    for seed in 1..=20 {
        run(seed);
    }
}
