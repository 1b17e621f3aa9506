//! Headers of responses and of requests: every decoder returns, for all values.

use http::{HeaderMap, HeaderName, HeaderValue};
use rowkey_wire::{blob, metadata, queue, table};

/// Every decoder of headers. The input is lines of `name: value`.
pub fn all(input: &[u8]) {
    read(input);
}

/// Whether a continuation and a length of 1024 were read.
pub fn read(input: &[u8]) -> bool {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..colon]), value) {
            headers.append(name, value);
        }
    }
    let (blob, _) = (blob::decode::properties(&headers), blob::decode::container(&headers));
    let _ = (blob::decode::written(&headers), blob::decode::appended(&headers));
    let _ = (blob::decode::lease_id(&headers), blob::decode::lease_time(&headers));
    let _ = (blob::decode::content_md5(&headers), blob::decode::content_crc64(&headers));
    let _ = (queue::decode::approximate_count(&headers), queue::decode::updated(&headers));
    let _ = table::decode::next_table(&headers);
    let _ = (metadata::decode(&headers), metadata::Metadata::parse(&headers));
    table::decode::continuation(&headers).is_some() && blob.length == 1024
}
