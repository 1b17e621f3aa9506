//! Targets, options and headers of requests to the three services, as the server understands them.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rowkey_wire::odata::Fields;
use rowkey_wire::odata::parse::{self as odata, Strictness};
use rowkey_wire::table::parse::{self, Options};
use rowkey_wire::{blob, queue};

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
    table(method, path, query, &headers, body);
    others(method, path, query, &headers);
}

/// A request to the Table service, understood as far as possible.
pub fn table(method: &Method, path: &str, query: &str, headers: &HeaderMap, body: &[u8]) {
    let (Ok(options), Ok(path)) = (Options::parse(query), parse::decode_path(path)) else { return };
    let _ = (parse::wanted(&options, headers), parse::prefer(headers));
    let _ = parse::check_json_type(headers);
    let (Ok(target), Ok(method)) = (parse::target(&path, &options), parse::method(method, headers))
    else {
        return;
    };
    let fields = match odata::fields(body) {
        Ok(fields) if parse::has_json(&method, &target) => fields,
        _ => Fields::default(),
    };
    for strict in [Strictness::Strict, Strictness::Loose] {
        let _ = parse::op(&method, target.clone(), &options, headers, &fields, strict);
    }
}

/// A request to the Queue and to the Blob service.
fn others(method: &Method, path: &str, query: &str, headers: &HeaderMap) {
    let (Ok(options), Ok(path)) = (Options::parse(query), parse::decode_path(path)) else { return };
    for version in ["2009-09-19", "2019-02-02", "2026-04-06"] {
        if let Ok(target) = queue::parse::target(&path, &options) {
            let _ = queue::parse::op(method, target, &options, headers, version);
        }
    }
    let target = blob::parse::target(&path, &options);
    let _ = blob::parse::op(method, target, &options, headers);
}
