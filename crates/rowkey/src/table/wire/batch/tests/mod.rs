//! Tests of the client's encoding against recorded bytes (`vectors/batch-*.http`).

use rowkey_wire::multipart::BatchFault;

use super::*;

/// A recording: a line that names its source, the `Content-Type`, an empty line, and the body.
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

mod decode;
mod encode;

fn decode(recording: &Recording) -> Vec<PartResponse<'static>> {
    decode_response(recording.content_type, recording.body.as_bytes()).unwrap()
}

/// The text between two marks.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    text.split_once(start).unwrap().1.split_once(end).unwrap().0
}
