//! The client's work other than the request: `cargo bench -p rowkey-client`. An entity has ten properties
//! of seven types and 1 KiB of JSON.

#![expect(clippy::unwrap_used, reason = "a wrong benchmark is to stop")]

use std::fmt::Write as _;
use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;
use rowkey_client::edm::{DateTime, Guid};
use rowkey_client::internals::{decode, decode_page, encode};
use rowkey_client::key::{KeyReader, Notation, PartFormat};
use rowkey_client::{Entity, Key};

/// Shows allocations beside the times.
#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

#[derive(Clone, Debug, Entity)]
#[entity(crate = "rowkey_client")]
#[entity(partition = "{site}", row = "{device}_{number:7}", rename_all = "PascalCase")]
struct Reading {
    site: String,
    device: Guid,
    number: u32,
    level: i32,
    total: i64,
    ratio: f64,
    active: bool,
    measured: DateTime,
    owner: Guid,
    name: String,
    place: String,
    notes: String,
    comment: String,
}

impl Reading {
    fn numbered(number: u32) -> Self {
        Self {
            site: "north".to_owned(),
            device: Guid::from_u128(0xc9da_6455_213d_42c9_9a79_3e91_49a5_7833),
            number,
            level: 42,
            total: 1 << 40,
            ratio: f64::from(number) / 7.0,
            active: true,
            measured: "2026-11-20T12:34:56.7654321Z".parse().unwrap(),
            owner: Guid::from_u128(u128::from(number)),
            name: "n".repeat(24),
            place: "p".repeat(40),
            notes: "o".repeat(256),
            comment: "c".repeat(256),
        }
    }

    /// The JSON of the entity as in the service's response.
    fn answered(&self) -> String {
        let body = String::from_utf8(encode(self).unwrap()).unwrap();
        let instant = "2026-11-20T12:34:56.7654321Z";
        let tag = "W/\\\"datetime'2026-11-20T12%3A34%3A56.7654321Z'\\\"";
        format!("{{\"odata.etag\":\"{tag}\",\"Timestamp\":\"{instant}\",{}", &body[1..])
    }
}

#[divan::bench]
fn encode_an_entity(bencher: Bencher) {
    let reading = Reading::numbered(7);
    bencher.bench(|| encode(black_box(&reading)).unwrap());
}

#[divan::bench]
fn decode_an_entity(bencher: Bencher) {
    let body = Reading::numbered(7).answered();
    bencher.bench(|| decode::<Reading>(black_box(body.as_bytes())).unwrap());
}

#[divan::bench]
fn decode_a_page_of_1000(bencher: Bencher) {
    let mut body = "{\"value\":[".to_owned();
    for number in 0..1_000 {
        let comma = if number == 0 { "" } else { "," };
        write!(body, "{comma}{}", Reading::numbered(number).answered()).unwrap();
    }
    body += "]}";
    let bencher = bencher.counter(ItemsCount::new(1_000_u32));
    bencher.bench(|| decode_page::<Reading>(black_box(body.as_bytes())).unwrap());
}

#[divan::bench]
fn write_the_keys_of_an_entity(bencher: Bencher) {
    let reading = Reading::numbered(7);
    bencher.bench(|| Key::of(black_box(&reading)));
}

/// The work of the derive for the RowKey of an entity that it reads.
#[divan::bench]
fn read_a_row_key(bencher: Bencher) {
    let key = Key::of(&Reading::numbered(7));
    let row_key = key.parts().unwrap().1;
    let device = PartFormat { separator: Some('_'), ..PartFormat::default() };
    let number = PartFormat { notation: Notation::Digits(7), ..PartFormat::default() };
    bencher.bench(|| {
        let mut reader = KeyReader::new(black_box(row_key));
        let device = reader.part::<Guid>(device).unwrap();
        reader.literal("_").unwrap();
        let number = reader.part::<u32>(number).unwrap();
        reader.end().unwrap();
        (device, number)
    });
}
