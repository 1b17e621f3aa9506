//! Tests against recorded bytes (`vectors/batch-*.http`).

use bytes::Bytes;
use http::Method;
use rowkey_wire::multipart::{BatchFault, ResponseWriter};

use super::*;

/// A recording: a line with its source, the `Content-Type`, an empty line, and the body.
struct Recording {
    content_type: &'static str,
    body: &'static str,
}

fn recording(text: &'static str) -> Recording {
    let (source, rest) = text.split_once('\n').unwrap();
    assert!(source.starts_with("source: "));
    let (content_type, body) = rest.split_once("\n\n").unwrap();
    Recording { content_type: content_type.strip_prefix("Content-Type: ").unwrap(), body }
}

macro_rules! recording {
    ($name:literal) => {
        recording(include_str!(concat!("../../../../../vectors/batch-", $name, ".http")))
    };
}

mod parse;
mod responses;

fn parse(recording: &Recording) -> Vec<PartRequest<'static>> {
    parse_changes(recording.content_type, recording.body)
}

fn parse_changes(content_type: &str, body: &str) -> Vec<PartRequest<'static>> {
    let body = Box::leak(Box::new(Bytes::copy_from_slice(body.as_bytes())));
    match parse_request(content_type, body).unwrap() {
        BatchRequest::Changes(changes) => changes,
        BatchRequest::Query(_) => panic!("a query instead of a changeset"),
    }
}

fn fault(content_type: &str, body: &str) -> (BatchFault, usize) {
    let error = parse_request(content_type, &Bytes::copy_from_slice(body.as_bytes())).unwrap_err();
    (error.fault, error.at)
}

/// The text between two markers.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    text.split_once(start).unwrap().1.split_once(end).unwrap().0
}
