//! Keys of entities: in addresses, and taken apart by templates.

use std::borrow::Cow;
use std::fmt::Debug;

use rowkey::edm::{DateTime, Guid};
use rowkey::key::{KeyPart, KeyReader, KeyWriter, PartFormat};
use rowkey_wire::key;
use rowkey_wire::table::op::Target;
use rowkey_wire::table::parse::{self, Options};

/// Every decoder of keys.
pub fn all(input: &[u8]) {
    crate::text(input, |text| {
        let _ = (key::check(text), key::successor(text), key::text_successor(text));
        address(text);
        for separator in [None, Some('_'), Some(':'), Some('|')] {
            for descending in [false, true] {
                for width in [None, Some(6)] {
                    let format = PartFormat { width, descending, separator, lower: false };
                    parts(text, format);
                }
            }
        }
    });
}

/// Asserts that a key is read from the address that is written of it.
fn address(text: &str) {
    let options = Options::default();
    let _ = parse::decode_path(text).map(|path| parse::target(&path, &options).is_ok());
    if key::check(text).is_err() {
        return;
    }
    let mut path = "/table".to_owned();
    key::write_address(&mut path, text, text);
    let decoded = parse::decode_path(&path).expect("a written address is encoded well");
    match parse::target(&decoded, &options) {
        Ok(Target::Entity(address)) => {
            assert_eq!((&*address.partition_key, &*address.row_key), (text, text));
        }
        other => panic!("the address of {text:?} is {other:?}"),
    }
}

/// Every type of key part.
fn parts(text: &str, format: PartFormat) {
    let number = |width| PartFormat { width, ..format };
    let plain = PartFormat { width: None, descending: false, ..format };
    part::<String>(text, plain);
    part::<bool>(text, number(None));
    part::<Guid>(text, plain);
    part::<DateTime>(text, number(None));
    part::<chrono::DateTime<chrono::Utc>>(text, number(None));
    part::<u8>(text, format);
    part::<u16>(text, format);
    part::<u32>(text, format);
    part::<u64>(text, format);
    part::<i8>(text, format);
    part::<i16>(text, format);
    part::<i32>(text, format);
    part::<i64>(text, format);
}

/// Asserts that a part that was read can be written, and is read again as written.
fn part<P: KeyPart + PartialEq + Debug>(text: &str, format: PartFormat) {
    let Ok(value) = KeyReader::new(text).part::<P>(format) else { return };
    let mut out = KeyWriter::new();
    out.part(&value, format);
    // A number of more digits than its width is read, and a key may be too long: both fail when written.
    let Ok(mut written) = out.finish() else { return };
    written.extend(format.separator);
    let again = KeyReader::new(&written).part::<P>(format);
    assert_eq!(again.as_ref(), Ok(&value), "{:?} as {format:?}", Cow::from(text));
}
