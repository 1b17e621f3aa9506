//! Encrypted properties, their metadata and the records of branch keys: alterations are detected.

use std::sync::LazyLock;

use chrono::DateTime;
use futures_util::FutureExt as _;
use rowkey::edm::Value;
use rowkey::encryption::{AesKeyWrap, IndexKey, KeyRing, MacKey};
use rowkey::store::Op;
use rowkey::{DynamicEntity, ErrorKind};

/// A row that was sealed, and the record of its branch key.
struct Sealed {
    ring: KeyRing,
    row: DynamicEntity,
    record: DynamicEntity,
}

static SEALED: LazyLock<Sealed> = LazyLock::new(|| {
    let (wraps, signs) = (AesKeyWrap::new("2026", [7; 32]), MacKey::new("records", [9; 32]));
    let ring = KeyRing::new("patients", wraps, signs).index(IndexKey::new([99; 32]), ["Name"]);
    // The same bytes at each start, so that an input means the same.
    let ring = ring.sign_plaintext().with_random(|bytes| bytes.fill(5));
    let mut row = DynamicEntity::new("north", "000007");
    row.set("Name", "Ada");
    row.set("Scan", vec![1_u8, 2, 3]);
    row.set("Bed", "3");
    let op = |number: u8| Op::new(DateTime::UNIX_EPOCH, [number; 8]);
    let sealed = ring.seal_offline([op(1), op(2)], &["Name", "Scan"], &mut row);
    let record = sealed.now_or_never().expect("keys in memory").expect("a row that can be sealed");
    Sealed { ring, row, record }
});

/// An encrypted row, altered by the input.
pub fn all(input: &[u8]) {
    let _ = opens(input);
}

/// Inputs that alter nothing.
pub fn seeds() -> Vec<Vec<u8>> {
    let Sealed { row, record, .. } = &*SEALED;
    let values = row.iter().chain(record.iter()).map(|(_, value)| match value {
        Value::Binary(bytes) => bytes.clone(),
        Value::String(text) => text.clone().into_bytes(),
        _ => vec![2],
    });
    (0_u8..).zip(values).map(|(which, value)| [vec![which], value].concat()).collect()
}

/// Puts the input in the place of a stored value, which its first byte chooses; whether the row opens.
/// Asserts that it is refused with the one text unless the value is the one that was there.
pub fn opens(input: &[u8]) -> bool {
    let Some((which, value)) = input.split_first() else { return false };
    let Sealed { ring, row, record } = &*SEALED;
    let names =
        |row: &DynamicEntity| row.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    let (of_row, of_record) = (names(row), names(record));
    let which = usize::from(*which) % (of_row.len() + of_record.len());
    let (mut row, mut record) = (row.clone(), record.clone());
    let (altered, name) = match which.checked_sub(of_row.len()) {
        None => (&mut row, &of_row[which]),
        Some(at) => (&mut record, &of_record[at]),
    };
    let value = match altered.get(name) {
        Some(Value::Binary(_)) => Value::Binary(value.to_vec()),
        Some(Value::Int32(_)) => Value::Int32(value.iter().map(|byte| i32::from(*byte)).sum()),
        _ => Value::String(String::from_utf8_lossy(value).into_owned()),
    };
    let is_same = altered.get(name) == Some(&value);
    altered.set(name.clone(), value);
    let opened = ring.open_offline(&record, &mut row).now_or_never().expect("keys in memory");
    match opened {
        Ok(()) => {
            assert!(is_same, "`{name}` was altered, and the row opened");
            true
        }
        Err(error) => {
            assert!(!is_same, "{error}");
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(error.to_string().contains("authentication failed"), "{error}");
            false
        }
    }
}
