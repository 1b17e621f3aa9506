//! Operations on messages: put, get, peek, update, delete, clear.

use http::{HeaderValue, StatusCode, header};
use rowkey_wire::error::Rejection;
use rowkey_wire::headers::{POP_RECEIPT, TIME_NEXT_VISIBLE};
use uuid::fmt::Hyphenated;

use super::call::Call;
use super::queues::drop_apart;
use crate::front::documents;
use crate::front::respond::{self, HttpResponse};
use crate::op::queue::Handle;
use crate::store::queue::Message;
use crate::wire::queue::render::{self, Messages};
use crate::wire::queue::{parse, receipt};

/// The first version in which the response to Put Message contains the message.
const SHOWS_PUT: &str = "2016-05-31";
const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// The parts of a message that a response shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseKind {
    Gotten,
    Peeked,
    Put,
}

/// Put Message.
pub(super) fn put(
    call: &Call<'_>,
    queue: &str,
    lifetime: Option<u32>,
    visibility: u32,
) -> Result<HttpResponse, Rejection> {
    // As everywhere, a missing queue is reported before an invalid body.
    let list = call.change(|queues| {
        queues.queue(queue)?;
        let text = parse::message(call.body, call.version)?.into_boxed_str();
        let id = queues.message_id();
        let queue = queues.queue_mut(queue)?;
        let message = queue.put(id, text, lifetime, visibility, call.context.now);
        Ok::<_, Rejection>((call.version >= SHOWS_PUT).then(|| {
            let mut list = Messages::new();
            push(&mut list, message, ResponseKind::Put);
            list
        }))
    })?;
    let Some(list) = list else { return Ok(respond::empty(StatusCode::CREATED)) };
    let mut answer = respond::with_body(StatusCode::CREATED, list.finish());
    answer.headers_mut().insert(header::CONTENT_TYPE, XML);
    Ok(answer)
}

/// Get Messages.
pub(super) fn get(
    call: &Call<'_>,
    queue: &str,
    count: u32,
    visibility: u32,
) -> Result<HttpResponse, Rejection> {
    let mut list = Messages::new();
    call.change(|queues| {
        queues.queue_mut(queue)?.get(count, visibility, call.context.now, |message| {
            push(&mut list, message, ResponseKind::Gotten);
        });
        Ok::<_, Rejection>(())
    })?;
    Ok(documents::document(list.finish()))
}

/// Peek Messages.
pub(super) fn peek(call: &Call<'_>, queue: &str, count: u32) -> Result<HttpResponse, Rejection> {
    let mut list = Messages::new();
    call.change(|queues| {
        queues.queue_mut(queue)?.peek(count, call.context.now, |message| {
            push(&mut list, message, ResponseKind::Peeked);
        });
        Ok::<_, Rejection>(())
    })?;
    Ok(documents::document(list.finish()))
}

/// Update Message.
pub(super) fn update(
    call: &Call<'_>,
    handle: &Handle<'_>,
    visibility: u32,
) -> Result<HttpResponse, Rejection> {
    let (receipt, visible) = call.change(|queues| {
        let queue = queues.queue_mut(handle.queue)?;
        let text = match call.body.trim_ascii() {
            [] => None,
            _ => Some(parse::message(call.body, call.version)?.into_boxed_str()),
        };
        let message = queue.update(handle.id, handle.stamp, text, visibility, call.context.now)?;
        let receipt = receipt::updated(message.stamp, message.dequeued);
        let visible = message.visible.to_http();
        Ok::<_, Rejection>((receipt, visible))
    })?;
    let mut answer = respond::empty(StatusCode::NO_CONTENT);
    let headers = answer.headers_mut();
    headers.insert(POP_RECEIPT, respond::value(receipt));
    headers.insert(TIME_NEXT_VISIBLE, respond::value(visible));
    Ok(answer)
}

/// Delete Message.
pub(super) fn delete(call: &Call<'_>, handle: &Handle<'_>) -> Result<HttpResponse, Rejection> {
    call.change(|queues| {
        queues.queue_mut(handle.queue)?.delete(handle.id, handle.stamp, call.context.now)?;
        Ok::<_, Rejection>(())
    })?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Clear Messages.
pub(super) fn clear(call: &Call<'_>, queue: &str) -> Result<HttpResponse, Rejection> {
    let cleared = call.change(|queues| Ok::<_, Rejection>(queues.queue_mut(queue)?.clear()))?;
    drop_apart(cleared);
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

fn push(list: &mut Messages, message: &Message, shown: ResponseKind) {
    let mut id = [0; Hyphenated::LENGTH];
    let receipt = (shown != ResponseKind::Peeked).then(|| receipt::gotten(message.stamp));
    list.push(&render::Message {
        id: message.id.hyphenated().encode_lower(&mut id),
        inserted: message.inserted,
        expires: message.expires,
        receipt: receipt.as_deref().map(|receipt| (receipt, message.visible)),
        content: (shown != ResponseKind::Put).then_some((message.dequeued, &*message.text)),
    });
}
