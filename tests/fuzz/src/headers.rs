//! Headers of responses and of requests: every decoder returns, for all values.

use http::{HeaderMap, HeaderName, HeaderValue};

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
    let _ = rowkey_emulator::fuzzing::metadata(&headers);
    rowkey::internals::headers(&headers)
}
