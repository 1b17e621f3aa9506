//! Request decoders for fuzz targets and robustness tests. Not part of the stable API.

use bytes::Bytes;
use http::{HeaderMap, Method};
use rowkey_wire::blob::BlockSource;
use rowkey_wire::edm::DateTime;
use rowkey_wire::multipart::BatchError;
use rowkey_wire::odata::Fields;
use rowkey_wire::token::encode;

#[cfg(all(feature = "durable", fuzzing))]
pub use crate::durable::fuzzing::{journal, rows};

use crate::front::auth::wire::{IpRange, parse_authorization, parse_key_info};
use crate::op::condition::{Match, Tag};
use crate::op::entity::{self, Keys, Strictness};
use crate::op::marker::Marker;
use crate::op::metadata::Metadata;
use crate::op::table::Target;
use crate::wire;
use crate::wire::options::{Options, decode_path};
use crate::wire::queue::receipt;
use crate::wire::table::{batch, parse, token};

/// Decodes a request as far as possible, as each service would.
pub fn request(method: &Method, path: &str, query: &str, headers: &HeaderMap, body: &[u8]) {
    table_request(method, path, query, headers, body);
    let (Ok(options), Ok(path)) = (Options::parse(query), decode_path(path)) else { return };
    for version in ["2009-09-19", "2019-02-02", "2026-04-06"] {
        if let Ok(target) = wire::queue::parse::target(&path, &options) {
            let _ = wire::queue::parse::op(method, target, &options, headers, version);
        }
    }
    let target = wire::blob::parse::target(&path, &options);
    let _ = wire::blob::parse::op(method, target, &options, headers);
}

/// Decodes a request to the Table service as far as possible.
fn table_request(method: &Method, path: &str, query: &str, headers: &HeaderMap, body: &[u8]) {
    let (Ok(options), Ok(path)) = (Options::parse(query), decode_path(path)) else { return };
    let _ = (parse::response_format(&options, headers), parse::prefer(headers));
    let _ = parse::check_json_type(headers);
    let (Ok(target), Ok(method)) = (parse::target(&path, &options), parse::method(method, headers))
    else {
        return;
    };
    let fields = match entity::fields(body) {
        Ok(fields) if parse::has_json(&method, &target) => fields,
        _ => Fields::default(),
    };
    for strict in [Strictness::Strict, Strictness::Loose] {
        let _ = parse::op(&method, target.clone(), &options, headers, &fields, strict);
    }
}

/// Whether `text` is the value of an `Authorization` header.
pub fn authorization(text: &str) -> bool {
    parse_authorization(text).is_some()
}

/// Whether `text` is an address or a range of addresses.
pub fn ip_range(text: &str) -> bool {
    IpRange::parse(text).is_some()
}

/// Whether `body` is a request for a user delegation key.
pub fn key_info(body: &[u8]) -> bool {
    parse_key_info(body).is_ok()
}

/// Whether `headers` have valid metadata, or none.
pub fn metadata(headers: &HeaderMap) -> bool {
    Metadata::parse(headers).is_ok()
}

/// Decodes the body of a batch, and each operation as far as possible.
pub fn batch(content_type: &str, body: &Bytes) -> Result<(), BatchError> {
    let _ = batch::table(body);
    let parts = match batch::parse_request(content_type, body)? {
        batch::BatchRequest::Changes(parts) => parts,
        batch::BatchRequest::Query(part) => vec![part],
    };
    for part in parts {
        let (path, query) = part.target.split_once('?').unwrap_or((part.target, ""));
        table_request(&part.method, path, query, &part.head.headers, part.body);
    }
    Ok(())
}

/// Whether `body` is the entity of a request.
pub fn entity(body: &[u8]) -> bool {
    let Ok(fields) = entity::fields(body) else { return false };
    for strict in [Strictness::Strict, Strictness::Loose] {
        for keys in [Keys::Address, Keys::Body] {
            let _ = entity::entity(&fields, keys, strict);
        }
    }
    true
}

/// The keys of the entity that a path names, if it names one. The outer `None` means that the path
/// is not encoded correctly.
pub fn address(path: &str) -> Option<Option<(String, String)>> {
    let path = decode_path(path).ok()?;
    Some(match parse::target(&path, &Options::default()) {
        Ok(Target::Entity(address)) => {
            Some((address.partition_key.into_owned(), address.row_key.into_owned()))
        }
        _ => None,
    })
}

/// Whether `text` is a query string.
pub fn options(text: &str) -> bool {
    let Ok(options) = Options::parse(text) else { return false };
    let _ = wire::queue::parse::target("/q", &options);
    let _ = wire::blob::parse::target("/q", &options);
    true
}

/// The text of a message in a Put Message request.
pub fn message(body: &[u8]) -> Option<String> {
    wire::queue::parse::message(body, "2026-10-06").ok()
}

/// The blocks that a Put Block List request commits, each with the list in which it is looked up.
pub fn blocks(body: &[u8]) -> Option<Vec<(BlockSource, String)>> {
    wire::blob::block_list::parse(body).ok()
}

/// Continuation tokens of a query as the server writes them.
pub fn tokens() -> [String; 3] {
    [encode("a key"), encode(""), token::encode_table("table", DateTime::MAX)]
}

/// Whether `text` is a continuation token of entities. Asserts that it round-trips.
pub fn entity_token(text: &str) -> bool {
    let _ = token::decode_table(text);
    let Ok(key) = token::decode(text) else { return false };
    assert_eq!(token::decode(&encode(&key)).expect("an encoded key"), key);
    true
}

/// Pop receipts as the server writes them.
pub fn receipts() -> [String; 2] {
    [receipt::gotten(5), receipt::updated(637_000_000, 3)]
}

/// Whether `text` is a pop receipt.
pub fn receipt(text: &str) -> bool {
    receipt::parse(text).is_some()
}

/// Listing markers as the server writes them.
pub fn markers() -> [String; 2] {
    let marker = Marker { name: "a/\u{e4} b".to_owned(), snapshot: None };
    let snapshot = "2020-07-27T23:32:47.1234567Z".parse().ok();
    [marker.encode(), Marker { snapshot, ..marker }.encode()]
}

/// Whether `text` is a listing marker. Asserts that it round-trips.
pub fn marker(text: &str) -> bool {
    let Ok(marker) = Marker::decode(text) else { return false };
    assert_eq!(Marker::decode(&marker.encode()).expect("an encoded marker"), marker);
    true
}

/// Whether `text` is a blob tag. Asserts that it round-trips.
pub fn tag(text: &str) -> bool {
    let _ = Match::parse(text);
    let Some(tag) = Tag::parse(text) else { return false };
    assert_eq!(Tag::parse(&tag.to_string()), Some(tag));
    true
}
