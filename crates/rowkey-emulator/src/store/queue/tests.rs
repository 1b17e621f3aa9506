//! Tests of queues, with the time as an argument.

use http::{HeaderMap, HeaderValue};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use uuid::Uuid;

use super::account::{Created, Queues};
use super::messages::{Message, Queue};
use crate::op::metadata::Metadata;
use crate::op::queue::Listing;
use crate::store::Names;

/// The instant this number of seconds after the start of the test.
fn at(seconds: i64) -> DateTime {
    let start: DateTime = "2026-01-01T00:00:00Z".parse().unwrap();
    DateTime::from_ticks(start.ticks() + seconds * 10_000_000).unwrap()
}

fn put(queue: &mut Queue, text: &str, lifetime: Option<u32>, visibility: u32, now: i64) {
    let id = Uuid::from_u128(text.bytes().fold(0, |sum, byte| sum << 8 | u128::from(byte)));
    queue.put(id, text.into(), lifetime, visibility, at(now));
}

/// The texts of the received messages, and the id and receipt of the last one.
fn get(queue: &mut Queue, count: u32, visibility: u32, now: i64) -> (Vec<String>, (String, i64)) {
    let (mut texts, mut held) = (Vec::new(), (String::new(), 0));
    queue.get(count, visibility, at(now), |message| {
        texts.push(message.text.to_string());
        held = (message.id.to_string(), message.stamp);
    });
    (texts, held)
}

fn peek(queue: &mut Queue, now: i64) -> Vec<(String, u32)> {
    let mut seen = Vec::new();
    queue.peek(32, at(now), |message| seen.push((message.text.to_string(), message.dequeued)));
    seen
}

fn code<T: std::fmt::Debug>(result: Result<T, rowkey_wire::error::Rejection>) -> ErrorCode {
    result.unwrap_err().code
}

fn metadata(value: &'static str) -> Metadata {
    let mut headers = HeaderMap::new();
    headers.insert("x-ms-meta-a", HeaderValue::from_static(value));
    Metadata::parse(&headers).unwrap()
}

#[test]
fn messages_are_received_in_insertion_order() {
    let mut queue = Queue::default();
    for text in ["a", "b", "c"] {
        put(&mut queue, text, Some(100), 0, 0);
    }
    assert_eq!(get(&mut queue, 2, 30, 0).0, ["a", "b"]);
    assert_eq!(get(&mut queue, 2, 30, 0).0, ["c"]);
    assert_eq!(get(&mut queue, 2, 30, 29).0, [""; 0]);
    assert_eq!(get(&mut queue, 32, 30, 30).0, ["a", "b", "c"]);
}

#[test]
fn a_hidden_message_appears_after_its_visibility_timeout() {
    let mut queue = Queue::default();
    put(&mut queue, "later", Some(100), 10, 0);
    put(&mut queue, "now", Some(100), 0, 1);
    assert_eq!(peek(&mut queue, 1), [("now".to_owned(), 0)]);
    assert_eq!(queue.count(at(1)), 2, "hidden messages count");
    put(&mut queue, "last", Some(100), 0, 11);
    assert_eq!(get(&mut queue, 32, 5, 11).0, ["now", "later", "last"]);
    assert_eq!(peek(&mut queue, 16).iter().map(|seen| seen.1).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_message_expires_after_its_time_to_live() {
    let mut queue = Queue::default();
    put(&mut queue, "short", Some(10), 0, 0);
    put(&mut queue, "ever", None, 0, 0);
    let (_, held) = get(&mut queue, 1, 60, 0);
    assert_eq!(queue.count(at(9)), 2);
    assert_eq!(queue.count(at(10)), 1, "though a client holds it");
    assert_eq!(code(queue.delete(&held.0, held.1, at(10))), ErrorCode::MESSAGE_NOT_FOUND);
    assert_eq!(get(&mut queue, 32, 1, 3_000_000_000).0, ["ever"]);
    let mut expires = None;
    queue.peek(1, at(4_000_000_000), |message: &Message| expires = Some(message.expires));
    assert_eq!(expires, Some(DateTime::MAX));
}

#[test]
fn only_the_latest_pop_receipt_is_valid() {
    let mut queue = Queue::default();
    put(&mut queue, "a", Some(100), 0, 0);
    let (_, first) = get(&mut queue, 1, 5, 0);
    let (_, second) = get(&mut queue, 1, 5, 5);
    assert_eq!(first.0, second.0);
    assert_eq!(code(queue.delete(&first.0, first.1, at(5))), ErrorCode::POP_RECEIPT_MISMATCH);
    // No other client received it meanwhile, so the receipt is valid even after the message is
    // visible.
    let third = queue.update(&second.0, second.1, Some("b".into()), 0, at(20)).unwrap().stamp;
    assert_eq!(peek(&mut queue, 20), [("b".to_owned(), 2)]);
    let fourth = queue.update(&second.0, third, None, 0, at(20)).unwrap().stamp;
    assert_ne!(third, fourth, "two updates at one instant");
    assert_eq!(peek(&mut queue, 20), [("b".to_owned(), 2)]);
    assert_eq!(code(queue.delete(&first.0, third, at(20))), ErrorCode::POP_RECEIPT_MISMATCH);
    assert_eq!(queue.delete(&first.0.to_uppercase(), fourth, at(20)), Ok(()));
    assert_eq!(code(queue.delete(&first.0, fourth, at(20))), ErrorCode::MESSAGE_NOT_FOUND);
    assert_eq!(code(queue.delete("no guid", fourth, at(20))), ErrorCode::MESSAGE_NOT_FOUND);
}

#[test]
fn put_message_returns_a_valid_pop_receipt() {
    let mut queue = Queue::default();
    let message = queue.put(Uuid::from_u128(1), "a".into(), Some(100), 7, at(0));
    let (id, stamp) = (message.id.to_string(), message.stamp);
    assert_eq!(stamp, at(7).ticks());
    assert_eq!(queue.delete(&id, stamp, at(1)), Ok(()));
    assert_eq!(queue.count(at(1)), 0);
}

#[test]
fn an_update_reorders_a_message() {
    let mut queue = Queue::default();
    put(&mut queue, "a", Some(100), 0, 0);
    let (_, held) = get(&mut queue, 1, 60, 0);
    put(&mut queue, "b", Some(100), 0, 2);
    let visible = queue.update(&held.0, held.1, None, 1, at(3)).unwrap().visible;
    assert_eq!(visible, at(4));
    assert_eq!(get(&mut queue, 32, 1, 4).0, ["b", "a"]);
}

#[test]
fn clear_deletes_hidden_messages_and_keeps_the_queue() {
    let mut queue = Queue::new(metadata("x"));
    put(&mut queue, "a", None, 50, 0);
    put(&mut queue, "b", Some(60), 0, 0);
    assert_eq!(queue.clear().kept(), 2);
    assert_eq!(queue.count(at(0)), 0);
    assert_eq!(*queue.metadata(), metadata("x"));
    put(&mut queue, "c", None, 0, 1);
    assert_eq!(get(&mut queue, 32, 1, 100).0, ["c"]);
}

#[test]
fn creating_a_queue_again_succeeds_only_with_the_same_metadata() {
    let mut queues = Queues::new(Names::Blocked, 1);
    assert_eq!(queues.create("abc", metadata("x"), at(0)), Ok(Created::New));
    assert_eq!(queues.create("abc", metadata("x"), at(0)), Ok(Created::Existing));
    let other = queues.create("abc", metadata("y"), at(0));
    assert_eq!(code(other), ErrorCode::QUEUE_ALREADY_EXISTS);
    assert_eq!(code(queues.queue("abd")), ErrorCode::QUEUE_NOT_FOUND);
}

#[test]
fn the_name_of_a_deleted_queue_is_blocked_temporarily() {
    let mut queues = Queues::new(Names::Blocked, 1);
    let create = |queues: &mut Queues, now| queues.create("abc", Metadata::default(), at(now));
    create(&mut queues, 0).unwrap();
    queues.delete("abc", at(0)).unwrap();
    assert_eq!(code(queues.delete("abc", at(1))), ErrorCode::QUEUE_NOT_FOUND);
    assert_eq!(code(create(&mut queues, 29)), ErrorCode::QUEUE_BEING_DELETED);
    assert_eq!(create(&mut queues, 30), Ok(Created::New));

    let mut reusing = Queues::new(Names::Reused, 1);
    create(&mut reusing, 0).unwrap();
    reusing.delete("abc", at(0)).unwrap();
    assert_eq!(create(&mut reusing, 0), Ok(Created::New));
}

#[test]
fn queues_are_listed_in_pages() {
    let mut queues = Queues::new(Names::Blocked, 1);
    for name in ["b-1", "a-2", "b-3", "b-2", "c-1"] {
        queues.create(name, Metadata::default(), at(0)).unwrap();
    }
    let list = |prefix: &str, marker: &str, max| {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let listing = Listing { prefix: text(prefix), marker: text(marker), max, metadata: false };
        let (page, next) = queues.list(&listing, max.unwrap_or(5000) as usize);
        let names: Vec<_> = page.into_iter().map(|(name, _)| name.to_owned()).collect();
        (names.join(" "), next.map(str::to_owned))
    };
    assert_eq!(list("", "", None), ("a-2 b-1 b-2 b-3 c-1".to_owned(), None));
    assert_eq!(list("b", "", Some(2)), ("b-1 b-2".to_owned(), Some("b-3".to_owned())));
    assert_eq!(list("b", "/acc/b-3", Some(2)), ("b-3".to_owned(), None));
    assert_eq!(list("b", "/acc/a-2", Some(3)), ("b-1 b-2 b-3".to_owned(), None));
    assert_eq!(list("b", "/acc/c-1", None), (String::new(), None));
    assert_eq!(list("x", "", None), (String::new(), None));
}

#[test]
fn message_ids_are_unique_version_4_guids() {
    let mut queues = Queues::new(Names::Blocked, 7);
    let ids: std::collections::HashSet<_> = (0..1000).map(|_| queues.message_id()).collect();
    assert_eq!(ids.len(), 1000);
    assert!(ids.iter().all(|id| id.get_version_num() == 4));
}
