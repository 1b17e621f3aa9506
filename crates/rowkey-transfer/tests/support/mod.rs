//! What the tests of all formats share: cases at the limits of each type, random rows, and the formats.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "tests use a part each")]

use std::io::Cursor;
use std::ops::Range;

use rowkey_entity::DynamicEntity;
use rowkey_entity::edm::{DateTime, Guid, Value};
use rowkey_transfer::storage_explorer::{
    CsvDecoder, CsvEncoder, CsvOptions, JsonDecoder, JsonEncoder, Untyped,
};
use rowkey_transfer::{Columns, Result, Row, Spool, azcopy, json_lines};

/// A format, written to memory and read from there.
#[derive(Clone, Copy)]
pub struct Format {
    pub name: &'static str,
    pub encode: fn(&[Row]) -> Vec<u8>,
    pub decode: fn(&[u8]) -> Vec<Result<Row>>,
    /// Whether a part of a file cannot be a whole file.
    pub has_end: bool,
}

/// All formats that are built.
pub fn formats() -> Vec<Format> {
    let formats = [
        Format { name: "json lines", encode: lines, decode: read_lines, has_end: false },
        Format { name: "azcopy", encode: azcopy, decode: read_azcopy, has_end: true },
        Format { name: "csv", encode: csv, decode: read_csv, has_end: false },
        Format { name: "json", encode: json, decode: read_json, has_end: true },
    ];
    #[cfg(feature = "parquet")]
    let formats = formats.iter().chain(parquet::FORMATS);
    #[cfg(not(feature = "parquet"))]
    let formats = formats.iter();
    formats.copied().collect()
}

fn lines(rows: &[Row]) -> Vec<u8> {
    let mut encoder = json_lines::Encoder::new(Vec::new());
    for row in rows {
        encoder.write(row).unwrap();
    }
    encoder.finish().unwrap()
}

fn read_lines(file: &[u8]) -> Vec<Result<Row>> {
    json_lines::Decoder::new(file).collect()
}

fn azcopy(rows: &[Row]) -> Vec<u8> {
    let mut encoder = azcopy::Encoder::new(Vec::new());
    for row in rows {
        encoder.write(row).unwrap();
    }
    encoder.finish().unwrap()
}

fn read_azcopy(file: &[u8]) -> Vec<Result<Row>> {
    azcopy::Decoder::new(file).collect()
}

fn csv(rows: &[Row]) -> Vec<u8> {
    let (columns, rows) = spooled(rows);
    let mut encoder = CsvEncoder::new(Vec::new(), &columns).unwrap();
    for row in &rows {
        encoder.write(row).unwrap();
    }
    encoder.finish().unwrap()
}

fn read_csv(file: &[u8]) -> Vec<Result<Row>> {
    match CsvDecoder::new(file, CsvOptions::default()) {
        Ok(rows) => rows.collect(),
        Err(error) => vec![Err(error)],
    }
}

fn json(rows: &[Row]) -> Vec<u8> {
    let mut encoder = JsonEncoder::new(Vec::new());
    for row in rows {
        encoder.write(row).unwrap();
    }
    encoder.finish().unwrap()
}

fn read_json(file: &[u8]) -> Vec<Result<Row>> {
    JsonDecoder::new(file).untyped(Untyped::Refuse).collect()
}

/// The columns of rows, and the rows as they come out of a spool.
pub fn spooled(rows: &[Row]) -> (Columns, Vec<Row>) {
    let mut spool = Spool::new(Cursor::new(Vec::new()));
    for row in rows {
        spool.write(row).unwrap();
    }
    let (columns, rows) = spool.finish().unwrap();
    (columns, rows.map(Result::unwrap).collect())
}

#[cfg(feature = "parquet")]
pub mod parquet {
    //! Parquet with each codec.

    use rowkey_transfer::parquet::{Codec, Decoder, Encoder};

    use super::{Format, Result, Row, spooled};

    pub const FORMATS: &[Format] = &[
        Format { name: "parquet", encode: plain, decode: read, has_end: true },
        Format { name: "parquet, snappy", encode: snappy, decode: read, has_end: true },
        #[cfg(feature = "zstd")]
        Format { name: "parquet, zstd", encode: zstd, decode: read, has_end: true },
    ];

    pub fn encode(rows: &[Row], codec: Codec) -> Vec<u8> {
        let (columns, rows) = spooled(rows);
        let mut encoder = Encoder::new(Vec::new(), &columns, codec).unwrap();
        for row in &rows {
            encoder.write(row).unwrap();
        }
        encoder.finish().unwrap()
    }

    fn plain(rows: &[Row]) -> Vec<u8> {
        encode(rows, Codec::Uncompressed)
    }

    fn snappy(rows: &[Row]) -> Vec<u8> {
        encode(rows, Codec::Snappy)
    }

    #[cfg(feature = "zstd")]
    fn zstd(rows: &[Row]) -> Vec<u8> {
        encode(rows, Codec::Zstd)
    }

    pub fn read(file: &[u8]) -> Vec<Result<Row>> {
        match Decoder::from_bytes(file.to_vec()) {
            Ok(rows) => rows.collect(),
            Err(error) => vec![Err(error)],
        }
    }
}

/// Values at the limits of all eight types.
pub fn values() -> Vec<Value> {
    let binary = [vec![], vec![0], vec![255; 3], (0..=255).collect(), vec![7; 64 << 10]];
    let doubles = [
        0.0,
        -0.0,
        1.0,
        0.1,
        -1.5e-7,
        1e15,
        1e16,
        123_456_789_012_345_680.0,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let instants = [
        "1601-01-01T00:00:00Z",
        "1601-01-01T00:00:00.0000001Z",
        "1677-09-21T00:12:43.1452241Z",
        "1969-12-31T23:59:59.9999999Z",
        "1970-01-01T00:00:00Z",
        "2026-11-20T12:34:56.7654321Z",
        "2262-04-11T23:47:16.8547759Z",
        "9999-12-31T23:59:59.9999999Z",
    ];
    let texts = [
        "",
        " ",
        "  a ",
        "null",
        "NaN",
        "true",
        "0",
        "a,b;c\td",
        "\"",
        "\"\"",
        "'",
        "\\",
        "\r",
        "\n",
        "\r\n",
        "\u{0}",
        "\u{1f}",
        "\u{7f}",
        "é",
        "\u{1F600}",
        "\u{feff}",
        "\u{2028}",
        "\u{fffd}",
        "\u{ffff}",
        "=1+1",
        "{\"A\":[1]}",
        "Edm.Int32",
        "@type",
    ];
    let mut values: Vec<Value> = binary.map(Value::from).into();
    values.extend([true, false].map(Value::from));
    values.extend(instants.map(|text| Value::from(text.parse::<DateTime>().unwrap())));
    values.extend(doubles.map(Value::from));
    values.extend([Guid::nil(), Guid::max(), Guid::from_u128(42)].map(Value::from));
    values.extend([0, 1, -1, i32::MIN, i32::MAX].map(Value::from));
    let large = (1_i64 << 53) + 1;
    values.extend([0, 1, i64::MIN, i64::MAX, large, -large].map(Value::from));
    values.extend(texts.map(Value::from));
    values.push("\u{10000}".repeat(16 << 10).into());
    values
}

/// Texts for keys; the service allows fewer.
const KEYS: [&str; 8] = ["", " ", "p", "é\u{1F600}", "a,\"b\"", "'", "{}", "\u{fffd}"];

/// An instant some ticks after one in 2025.
fn near(ticks: usize) -> DateTime {
    DateTime::from_ticks(639_000_000_000_000_000 + i64::try_from(ticks).unwrap()).unwrap()
}

/// Rows with each value, each in a property of one type and in one of all types, with empty keys, without properties, and with
/// and without Timestamps.
pub fn cases() -> Vec<Row> {
    let names = ["value", "Value", "é", "_0", "name_type", "Odata", "x"];
    let mut rows = Vec::new();
    for (at, value) in values().into_iter().enumerate() {
        let mut entity = DynamicEntity::new(KEYS[at % KEYS.len()], format!("{at}"));
        entity.set(format!("Only{}", &value.edm_type().name()[4..]), value.clone());
        if at % 3 == 0 {
            entity.set(names[at % names.len()], value.clone());
        }
        entity.set("Mixed", value);
        let timestamp = (at % 2 == 0).then(|| near(at));
        rows.push(Row { entity, timestamp });
    }
    rows.extend(KEYS.map(|key| Row::new(DynamicEntity::new("none", key))));
    rows.push(Row::new(DynamicEntity::new("", "")));
    rows
}

/// Fails unless the rows are the same, one after the other, Timestamps included.
pub fn assert_same(found: &[Result<Row>], expected: &[Row], what: &str) {
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let found = found.as_ref().unwrap_or_else(|error| panic!("{what}, row {at}: {error}"));
        assert!(found.same_entity(expected), "{what}, row {at}: {found:?} is not {expected:?}");
        assert_eq!(found.timestamp, expected.timestamp, "{what}, row {at}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

/// A small generator (`SplitMix64`), so that a run is the same each time.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// A row with up to eight properties of random types, so that one property has several.
    pub fn row(&mut self) -> Row {
        let text = |random: &mut Self| {
            let length = random.below(6);
            let characters =
                ['a', 'Z', '0', ',', '"', '\n', '\r', ' ', 'é', '\u{1F600}', '\u{0}', '@'];
            (0..length).map(|_| characters[random.below(characters.len())]).collect::<String>()
        };
        let mut entity = DynamicEntity::new(text(self), text(self));
        for _ in 0..self.below(8) {
            let name = format!("P{}", self.below(12));
            let value: Value = match self.below(8) {
                0 => (0..self.below(20))
                    .map(|_| self.next().to_le_bytes()[0])
                    .collect::<Vec<_>>()
                    .into(),
                1 => (self.below(2) == 0).into(),
                2 => {
                    let span = DateTime::MAX.ticks() - DateTime::MIN.ticks();
                    let ticks = i64::try_from(self.next() % u64::try_from(span).unwrap()).unwrap();
                    DateTime::from_ticks(DateTime::MIN.ticks() + ticks).unwrap().into()
                }
                3 => f64::from_bits(self.next()).into(),
                4 => {
                    Guid::from_u128(u128::from(self.next()) << 64 | u128::from(self.next())).into()
                }
                5 => i32::from_le_bytes(self.next().to_le_bytes()[..4].try_into().unwrap()).into(),
                6 => self.next().cast_signed().into(),
                _ => text(self).into(),
            };
            entity.set(name, value);
        }
        let timestamp = (self.below(2) == 0).then(|| near(self.below(1 << 40)));
        Row { entity, timestamp }
    }
}

/// The seeds for a test of random rows: `usual` seeds, multiplied by `ROWKEY_SEEDS` if set. A tenth of them where neither
/// that nor `ROWKEY_SWEEP` is set.
pub fn seeds(usual: u64) -> Range<u64> {
    let times = std::env::var("ROWKEY_SEEDS").ok().and_then(|times| times.parse::<u64>().ok());
    match times {
        Some(times) => 0..usual * times,
        None if std::env::var_os("ROWKEY_SWEEP").is_none() => 0..usual.div_ceil(10),
        None => 0..usual,
    }
}

/// The seed of damaged inputs, `ROWKEY_SEED`, or 1.
pub fn seed() -> u64 {
    std::env::var("ROWKEY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}
