//! Signatures, filters and bodies: `cargo bench -p rowkey-wire`.

#![expect(clippy::unwrap_used, reason = "a wrong benchmark is to stop")]

use std::hint::black_box;

use divan::Bencher;
use divan::counter::BytesCount;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use rowkey_wire::auth::{Scheme, Service, SigningKey, Unsigned, authorization, string_to_sign};
use rowkey_wire::blob::checksum::Checksum;
use rowkey_wire::edm::ValueRef;
use rowkey_wire::filter;
use rowkey_wire::odata::{Fields, Scanner, render};

/// Allocations are shown beside the times.
#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

/// The length of a block of a blob.
const BLOCK: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sum {
    Md5,
    Crc64,
}

const ACCOUNT: &str = "devstoreaccount1";
/// The key that every emulator has.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const FILTER: &str = "PartitionKey eq 'north' and RowKey ge '0001000' and RowKey lt '0002000' and \
                      (Level gt 40 or Active eq true)";

#[divan::bench(args = [Scheme::SharedKeyLite, Scheme::SharedKey])]
fn sign_a_request(bencher: Bencher, scheme: Scheme) {
    let key = SigningKey::from_base64(KEY).unwrap();
    let headers = headers();
    bencher.bench(|| {
        let text = string_to_sign(Service::Table, scheme, ACCOUNT, &request(black_box(&headers)));
        authorization(scheme, ACCOUNT, &key.sign(&text)).concat()
    });
}

#[divan::bench(args = [Sum::Md5, Sum::Crc64])]
fn sum_of_a_block(bencher: Bencher, sum: Sum) {
    let block: Vec<u8> = (0..BLOCK).map(|place| place.to_le_bytes()[0]).collect();
    bencher.counter(BytesCount::new(BLOCK)).bench(|| {
        let mut sums = Checksum::new(sum == Sum::Md5, sum == Sum::Crc64);
        sums.update(black_box(&block));
        sums.finish()
    });
}

#[divan::bench(args = [Scheme::SharedKeyLite, Scheme::SharedKey])]
fn verify_a_request(bencher: Bencher, scheme: Scheme) {
    let key = SigningKey::from_base64(KEY).unwrap();
    let headers = headers();
    let text = string_to_sign(Service::Table, scheme, ACCOUNT, &request(&headers));
    let signature = key.sign(&text);
    bencher.bench(|| {
        let text = string_to_sign(Service::Table, scheme, ACCOUNT, &request(black_box(&headers)));
        assert!(key.verify(&text, &signature));
    });
}

#[divan::bench]
fn parse_a_filter() -> filter::Filter {
    filter::parse(black_box(FILTER)).unwrap()
}

#[divan::bench]
fn print_a_filter(bencher: Bencher) {
    let tree = filter::parse(FILTER).unwrap();
    bencher.bench(|| filter::print(black_box(&tree)));
}

#[divan::bench]
fn read_the_fields_of_an_answer(bencher: Bencher) {
    let body = body();
    bencher.bench(|| {
        let mut fields = Fields::default();
        fields.read(&mut Scanner::new(black_box(&body))).unwrap();
        assert_eq!(fields.text("RowKey"), Some("0000007"));
    });
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-ms-date", HeaderValue::from_static("Fri, 20 Nov 2026 12:34:56 GMT"));
    headers.insert("x-ms-version", HeaderValue::from_static("2019-02-02"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

fn request(headers: &HeaderMap) -> Unsigned<'_> {
    Unsigned {
        method: "POST",
        path: "/devstoreaccount1/readings",
        query: None,
        headers,
        content_length: 1_024,
    }
}

/// Ten properties of six types, about 1 KiB.
fn body() -> String {
    let long = "o".repeat(256);
    let mut out = br#"{"PartitionKey":"north","RowKey":"0000007""#.to_vec();
    let instant = "2026-11-20T12:34:56.7654321Z".parse().unwrap();
    for (name, value) in [
        ("Level", ValueRef::Int32(42)),
        ("Total", ValueRef::Int64(1 << 40)),
        ("Ratio", ValueRef::Double(0.1)),
        ("Active", ValueRef::Boolean(true)),
        ("Measured", ValueRef::DateTime(instant)),
        ("Began", ValueRef::DateTime(instant)),
        ("Name", ValueRef::String("The third from the left".into())),
        ("Site", ValueRef::String("north-north-east, above the second stair".into())),
        ("Notes", ValueRef::String(long.as_str().into())),
        ("Comment", ValueRef::String(long.as_str().into())),
    ] {
        render::property(&mut out, name, &value);
    }
    out.push(b'}');
    String::from_utf8(out).unwrap()
}
