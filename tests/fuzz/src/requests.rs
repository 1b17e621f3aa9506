//! Targets, options and headers of requests to the three services, as the server understands them.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rowkey_emulator::fuzzing;

const METHODS: [Method; 7] = [
    Method::GET,
    Method::PUT,
    Method::POST,
    Method::DELETE,
    Method::PATCH,
    Method::HEAD,
    Method::OPTIONS,
];

/// Every service. The first byte chooses the method; the first line is the address, the next ones are
/// headers, and what follows an empty line is the body.
pub fn all(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else { return };
    let merge = Method::from_bytes(b"MERGE").expect("a method");
    let method = METHODS.get(usize::from(*choice)).unwrap_or(&merge);
    let end = input.windows(2).position(|two| two == b"\n\n").unwrap_or(input.len());
    let (head, body) = input.split_at(end);
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let address = lines.next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if let (Ok(name), Ok(value)) =
            (name.trim().parse::<HeaderName>(), HeaderValue::from_str(value.trim()))
        {
            headers.append(name, value);
        }
    }
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    fuzzing::request(method, path, query, &headers, body);
}
