//! Entity group transactions as `multipart/mixed`, and the errors in their responses.

use bytes::Bytes;
use rowkey::internals::{self, Body};
use rowkey_emulator::fuzzing as server;

/// Every decoder of batches. Those of 300 bytes matter as much as whole ones, so the boundary is taken
/// from the first line, as a client would repeat it in the header.
pub fn all(input: &[u8]) {
    let first = input.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    let boundary = String::from_utf8_lossy(first.strip_prefix(b"--").unwrap_or(first));
    let content_type = format!("multipart/mixed; boundary={boundary}");
    let _ = (request(&content_type, input), response(&content_type, input), error(input));
}

/// Whether it is a request; asserts that faults are placed within the body, and reads every part.
pub fn request(content_type: &str, input: &[u8]) -> bool {
    let body = Bytes::copy_from_slice(input);
    match server::batch(content_type, &body) {
        Ok(()) => true,
        Err(error) => {
            assert!(error.at <= body.len(), "{error:?}");
            false
        }
    }
}

/// Whether it is a response; asserts that faults are placed within the body.
pub fn response(content_type: &str, input: &[u8]) -> bool {
    match internals::batch(content_type, input) {
        Ok(bodies) => {
            for body in bodies {
                let _ = error(body);
            }
            true
        }
        Err(error) => {
            assert!(error.at <= input.len(), "{error:?}");
            false
        }
    }
}

/// Whether it is an error's body.
pub fn error(input: &[u8]) -> bool {
    internals::read(Body::Error, input, |_| ())
}
