//! Pop receipts: opaque to clients, but in the same format as the service's.
//!
//! Recorded: base64 of `02 00 00 00`, `03 00 00 00`, four zeros and an instant; after an update
//! the first byte is 3 and the dequeue count follows. All numbers are little-endian, the instant
//! is a FILETIME (100 ns since 1601).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rowkey_wire::edm::DateTime;

/// Ticks from 0001-01-01 to 1601-01-01, where FILETIME begins.
const FILETIME: i64 = DateTime::MIN.ticks();

/// The pop receipt of a message that was put or received.
pub(crate) fn gotten(stamp: i64) -> String {
    BASE64_STANDARD.encode(head(2, stamp))
}

/// The pop receipt of a message that was updated.
pub(crate) fn updated(stamp: i64, dequeue_count: u32) -> String {
    let mut bytes = [0; 24];
    bytes[..20].copy_from_slice(&head(3, stamp));
    bytes[20..].copy_from_slice(&dequeue_count.to_le_bytes());
    BASE64_STANDARD.encode(bytes)
}

/// The instant in a pop receipt, in ticks; `None` if the receipt is invalid.
pub(crate) fn parse(text: &str) -> Option<i64> {
    // A `+` that was not encoded arrives as a space.
    let mut bytes = [0; 26];
    let length = if text.contains(' ') {
        BASE64_STANDARD.decode_slice(text.replace(' ', "+"), &mut bytes)
    } else {
        BASE64_STANDARD.decode_slice(text, &mut bytes)
    };
    let bytes = bytes.get(..length.ok()?)?;
    if !matches!((bytes.first(), bytes.len()), (Some(2), 20) | (Some(3), 24)) {
        return None;
    }
    let stamp = i64::from_le_bytes(bytes.get(12..20)?.try_into().ok()?);
    stamp.checked_add(FILETIME)
}

fn head(kind: u8, stamp: i64) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[0] = kind;
    bytes[4] = 3;
    bytes[12..].copy_from_slice(&stamp.saturating_sub(FILETIME).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_match_recordings() {
        // azure-storage-queue (Python): test_queue.test_account_sas, whose message was put at
        // Tue, 22 Oct 2019 21:19:20 GMT, and test_queue.test_sas_update.
        let put = "AgAAAAMAAAAAAAAASV25Xh6J1QE=";
        let stamp = parse(put).unwrap();
        assert_eq!(gotten(stamp), put);
        let instant = DateTime::from_ticks(stamp).unwrap().to_string();
        assert!(instant.starts_with("2019-10-22T21:19:20."), "{instant}");

        let update = "AwAAAAMAAAAAAAAA0DXTgR6J1QEBAAAA";
        assert_eq!(updated(parse(update).unwrap(), 1), update);
    }

    #[test]
    fn a_space_in_a_receipt_is_read_as_a_plus() {
        let stamp = (0..4096).find(|n| gotten(FILETIME + n).contains('+')).unwrap() + FILETIME;
        assert_eq!(parse(&gotten(stamp).replace('+', " ")), Some(stamp));
    }

    #[test]
    fn malformed_receipts_are_rejected() {
        let long = "A".repeat(4096);
        for text in ["", "x", "AgAAAAMAAAAAAAAASV25Xh6J1Q", "AwAAAAMAAAAAAAAASV25Xh6J1QE=", &long] {
            assert_eq!(parse(text), None, "{text}");
        }
        // An instant out of range.
        assert_eq!(parse("AgAAAAMAAAAAAAAA/////////38="), None);
    }
}
