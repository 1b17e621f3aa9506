//! Keys of entities: in addresses, and taken apart by templates.

use std::fmt::Debug;

use rowkey::edm::{DateTime, Guid};
use rowkey::key::{KeyReader, KeyWriter, Notation, PartFormat, PartKind};
use rowkey::{Column, DynamicEntity, KeyPart, Partition};
use rowkey_emulator::fuzzing;
use rowkey_wire::key;

/// Every decoder of keys.
pub fn all(input: &[u8]) {
    crate::text(input, |text| {
        let _ = (key::check(text), Column::<String>::named("A").starts_with(text));
        let _ = Partition::<DynamicEntity>::new("").prefix(text);
        address(text);
        parts(text);
    });
}

/// Asserts that a key is read from the address that is written of it.
fn address(text: &str) {
    let _ = fuzzing::address(text);
    if key::check(text).is_err() {
        return;
    }
    let mut path = "/table".to_owned();
    key::write_address(&mut path, text, text);
    let keys = fuzzing::address(&path).expect("a written address is encoded well");
    assert_eq!(keys, Some((text.to_owned(), text.to_owned())));
}

/// Every type of key part, in every notation that it has.
fn parts(text: &str) {
    part::<String>(text);
    part::<bool>(text);
    part::<Guid>(text);
    part::<DateTime>(text);
    part::<chrono::DateTime<chrono::Utc>>(text);
    part::<chrono::NaiveDate>(text);
    part::<u8>(text);
    part::<u16>(text);
    part::<u32>(text);
    part::<u64>(text);
    part::<i8>(text);
    part::<i16>(text);
    part::<i32>(text);
    part::<i64>(text);
}

const NOTATIONS: [Notation; 22] = [
    Notation::Standard,
    Notation::Digits(6),
    Notation::Digits(18),
    Notation::Unpadded,
    Notation::Hex { digits: 8, upper: false },
    Notation::Hex { digits: 16, upper: true },
    Notation::Iso { fraction: 0, naive: false },
    Notation::Iso { fraction: 3, naive: false },
    Notation::Iso { fraction: 9, naive: true },
    Notation::Unix { millis: false, unpadded: false },
    Notation::Unix { millis: true, unpadded: false },
    Notation::Unix { millis: false, unpadded: true },
    Notation::Unix { millis: true, unpadded: true },
    Notation::Date,
    Notation::CompactDate,
    Notation::Hyphenated { upper: true },
    Notation::Simple { upper: true },
    Notation::Simple { upper: false },
    Notation::Braced { upper: true },
    Notation::Braced { upper: false },
    Notation::Words { capitalized: true },
    Notation::Words { capitalized: false },
];

fn part<P: KeyPart + PartialEq + Debug>(text: &str) {
    for separator in [None, Some('_'), Some(':'), Some('-')] {
        for descending in [false, true] {
            for notation in NOTATIONS {
                let kind: PartKind = P::KIND;
                let is_declared = kind.takes(notation, false)
                    && (!descending || kind.takes(notation, true))
                    && separator.is_none_or(|separator| kind.ends_at(notation, separator));
                if is_declared {
                    reads_back::<P>(text, PartFormat { notation, descending, separator });
                }
            }
        }
    }
}

/// Asserts that the parsed value is formatted as the same text.
fn reads_back<P: KeyPart + PartialEq + Debug>(text: &str, format: PartFormat) {
    let Ok(value) = KeyReader::new(text).part::<P>(format) else { return };
    let mut out = KeyWriter::new();
    out.part(&value, format);
    // A key may be too long.
    let Ok(written) = out.finish() else { return };
    let own = format.separator.and_then(|separator| text.split(separator).next()).unwrap_or(text);
    assert_eq!(written, own, "{value:?} as {format:?}");
}
