//! Renders responses as the Queue service writes them.

#![expect(clippy::arithmetic_side_effects, reason = "lengths of data in memory")]

use std::fmt::Write as _;

use rowkey_wire::edm::DateTime;
use rowkey_wire::xml::{Writer, push_escaped};

use crate::op::metadata::Metadata;
use crate::op::queue::Listing;

/// The start of every document: a byte order mark and a declaration.
const DECLARATION: &str = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>";
/// An estimate of the bytes of a message without its text.
const MESSAGE: usize = 512;

/// A message as a response shows it. Each operation leaves out different parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// The id, a GUID.
    pub(crate) id: &'a str,
    /// When it was put.
    pub(crate) inserted: DateTime,
    /// When it expires; [`DateTime::MAX`] means never.
    pub(crate) expires: DateTime,
    /// The pop receipt, and when the message becomes visible. Not shown by Peek Messages.
    pub(crate) receipt: Option<(&'a str, DateTime)>,
    /// The dequeue count, and the text. Not shown by Put Message.
    pub(crate) content: Option<(u32, &'a str)>,
}

/// Writes a list of messages.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    out: String,
    any: bool,
}

impl Messages {
    /// A list without messages.
    pub(crate) fn new() -> Self {
        Self { out: String::new(), any: false }
    }

    /// Adds a message.
    pub(crate) fn push(&mut self, message: &Message<'_>) {
        let out = &mut self.out;
        out.reserve(MESSAGE + message.content.map_or(0, |(_, text)| text.len()));
        if !self.any {
            self.any = true;
            out.push_str(DECLARATION);
            out.push_str("<QueueMessagesList>");
        }
        // The server generates everything except the text, so nothing else needs escaping.
        out.push_str("<QueueMessage><MessageId>");
        out.push_str(message.id);
        out.push_str("</MessageId><InsertionTime>");
        message.inserted.write_http(out);
        out.push_str("</InsertionTime><ExpirationTime>");
        message.expires.write_http(out);
        out.push_str("</ExpirationTime>");
        if let Some((receipt, visible)) = message.receipt {
            out.push_str("<PopReceipt>");
            out.push_str(receipt);
            out.push_str("</PopReceipt><TimeNextVisible>");
            visible.write_http(out);
            out.push_str("</TimeNextVisible>");
        }
        if let Some((count, text)) = message.content {
            let _ = write!(out, "<DequeueCount>{count}</DequeueCount>");
            if text.is_empty() {
                out.push_str("<MessageText />");
            } else {
                out.push_str("<MessageText>");
                push_escaped(text, out);
                out.push_str("</MessageText>");
            }
        }
        out.push_str("</QueueMessage>");
    }

    /// The document.
    pub(crate) fn finish(mut self) -> String {
        if self.any {
            self.out.push_str("</QueueMessagesList>");
        } else {
            self.out.push_str(DECLARATION);
            self.out.push_str("<QueueMessagesList />");
        }
        self.out
    }
}

/// The response to List Queues. `next` is the first queue on the next page.
pub(crate) fn list<'a>(
    endpoint: &str,
    account: &str,
    listing: &Listing,
    queues: impl IntoIterator<Item = (&'a str, &'a Metadata)>,
    next: Option<&str>,
) -> String {
    let mut writer = Writer::response();
    writer.start_with("EnumerationResults", "ServiceEndpoint", &format!("{endpoint}/"));
    for (name, text) in [("Prefix", &listing.prefix), ("Marker", &listing.marker)] {
        if let Some(text) = text {
            writer.leaf(name, text);
        }
    }
    if let Some(max) = listing.max {
        writer.leaf("MaxResults", &max.to_string());
    }
    let mut queues = queues.into_iter().peekable();
    if queues.peek().is_none() {
        writer.empty("Queues");
    } else {
        writer.start("Queues");
        for (name, metadata) in queues {
            writer.start("Queue");
            writer.leaf("Name", name);
            if listing.metadata {
                write_metadata(&mut writer, metadata);
            }
            writer.end("Queue");
        }
        writer.end("Queues");
    }
    let marker = next.map(|name| format!("/{account}/{name}"));
    writer.leaf("NextMarker", marker.as_deref().unwrap_or_default());
    writer.end("EnumerationResults");
    writer.finish()
}

fn write_metadata(writer: &mut Writer, metadata: &Metadata) {
    if metadata.is_empty() {
        return writer.empty("Metadata");
    }
    writer.start("Metadata");
    for (name, value) in metadata.iter() {
        writer.leaf(name, &value);
    }
    writer.end("Metadata");
}
