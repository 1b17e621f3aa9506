//! Decodes responses: the client's half. [`rowkey_wire::xml`] decodes policies, properties and
//! statistics, and [`crate::service::wire::metadata::decode`] metadata.

use chrono::{DateTime, Utc};
use http::HeaderMap;
use rowkey_wire::headers::{APPROXIMATE_COUNT, POP_RECEIPT, TIME_NEXT_VISIBLE, parse_http_date};
use rowkey_wire::shown;
use rowkey_wire::xml::{Element, XmlError};

/// A page of queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// The queues.
    pub(crate) queues: Vec<Queue>,
    /// The marker of the next page; `None` at the end.
    pub(crate) next: Option<String>,
}

/// A queue in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    /// The name.
    pub(crate) name: String,
    /// The metadata; also empty if it was not requested.
    pub(crate) metadata: Vec<(String, String)>,
}

/// A message in a response. Fields that the operation does not return are `None`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The id, a GUID.
    pub(crate) id: String,
    /// When it was put. All times in this type are whole seconds.
    pub(crate) inserted: DateTime<Utc>,
    /// When it expires; the end of 9999 if it never does.
    pub(crate) expires: DateTime<Utc>,
    /// The pop receipt, for updates and deletes; `None` for a peeked message.
    pub(crate) pop_receipt: Option<String>,
    /// When it becomes visible again; `None` for a peeked message.
    pub(crate) next_visible: Option<DateTime<Utc>>,
    /// How often it was received; `None` for a message that was put.
    pub(crate) dequeue_count: Option<u32>,
    /// The text; `None` for a message that was put.
    pub(crate) text: Option<String>,
}

/// The response to an update.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Updated {
    /// The new pop receipt; the previous one is no longer valid.
    pub(crate) pop_receipt: String,
    /// When the message becomes visible.
    pub(crate) next_visible: DateTime<Utc>,
}

/// Decodes the response to List Queues.
pub(crate) fn list(body: &[u8]) -> Result<Page, XmlError> {
    let root = Element::read_root(body, "EnumerationResults")?;
    let queues = root.child("Queues").map(|list| list.children.as_slice()).unwrap_or_default();
    let queues = queues.iter().filter(|child| child.name == "Queue").map(|queue| {
        let metadata = queue.child("Metadata").map(|list| list.children.as_slice());
        let pairs = metadata.unwrap_or_default().iter();
        Ok(Queue {
            name: queue.require("Name")?.text.clone(),
            metadata: pairs.map(|pair| (pair.name.clone(), pair.text.clone())).collect(),
        })
    });
    Ok(Page {
        queues: queues.collect::<Result<_, _>>()?,
        next: root.text_of("NextMarker").map(str::to_owned),
    })
}

/// Decodes the response to Put Message (one message, since version 2016-05-31), Get Messages and
/// Peek Messages.
pub(crate) fn messages(body: &[u8]) -> Result<Vec<Message>, XmlError> {
    let root = Element::read_root(body, "QueueMessagesList")?;
    let messages = root.children.into_iter().filter(|child| child.name == "QueueMessage");
    messages.map(message).collect()
}

/// The approximate number of messages in the response to Get Queue Metadata.
pub(crate) fn approximate_count(headers: &HeaderMap) -> Option<u64> {
    headers.get(APPROXIMATE_COUNT)?.to_str().ok()?.parse().ok()
}

/// Decodes the response to Update Message.
pub(crate) fn updated(headers: &HeaderMap) -> Option<Updated> {
    let text = |name| headers.get(name)?.to_str().ok();
    Some(Updated {
        pop_receipt: text(POP_RECEIPT)?.to_owned(),
        next_visible: parse_http_date(text(TIME_NEXT_VISIBLE)?)?,
    })
}

fn message(mut element: Element) -> Result<Message, XmlError> {
    let date = |name: &'static str| match element.text_of(name) {
        Some(text) => parse_http_date(text).map(Some).ok_or(XmlError::Value(name)),
        None => Ok(None),
    };
    let inserted = date("InsertionTime")?.ok_or(XmlError::Missing("InsertionTime"))?;
    let expires = date("ExpirationTime")?.ok_or(XmlError::Missing("ExpirationTime"))?;
    let next_visible = date("TimeNextVisible")?;
    let count = element.text_of("DequeueCount").map(str::parse).transpose();
    let dequeue_count = count.map_err(|_| XmlError::Value("DequeueCount"))?;
    let mut take = |name: &'static str| {
        let child = element.children.iter_mut().find(|child| child.name == name);
        child.map(|child| std::mem::take(&mut child.text))
    };
    Ok(Message {
        id: take("MessageId").ok_or(XmlError::Missing("MessageId"))?,
        inserted,
        expires,
        pop_receipt: take("PopReceipt"),
        next_visible,
        dequeue_count,
        text: take("MessageText"),
    })
}

shown! {
    /// Shows neither the text nor the receipt.
    Message: id, inserted, expires, next_visible, dequeue_count
}

shown! {
    /// Does not show the receipt.
    Updated: next_visible
}
