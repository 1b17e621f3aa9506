//! PartitionKey and RowKey: valid characters, quoting in an address, and the service's order.

use std::cmp::Ordering;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::edm::size::utf16_len;
use crate::limits::MAX_KEY_UNITS;

/// The characters that the service itself leaves unencoded in the keys of an address.
const KEY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The reason why a string is not a valid PartitionKey or RowKey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// A forbidden character, and its position.
    Forbidden {
        /// The character: `/`, `\`, `#`, `?` or a control character.
        character: char,
        /// Its position, in bytes from the start.
        at: usize,
    },
    /// Longer than 1 KiB of UTF-16 (512 units).
    TooLong {
        /// The length in UTF-16 units.
        units: usize,
    },
}

/// Checks that `key` is a valid PartitionKey or RowKey. The empty string is valid.
pub fn check(key: &str) -> Result<(), KeyError> {
    if let Some((at, character)) = key.char_indices().find(|(_, c)| is_forbidden(*c)) {
        return Err(KeyError::Forbidden { character, at });
    }
    if key.len() > MAX_KEY_UNITS {
        let units = utf16_len(key);
        if units > MAX_KEY_UNITS {
            return Err(KeyError::TooLong { units });
        }
    }
    Ok(())
}

/// Whether `character` is forbidden in keys: `/ \ # ?`, U+0000 to U+001F, U+007F to U+009F.
const fn is_forbidden(character: char) -> bool {
    matches!(character, '/' | '\\' | '#' | '?' | '\0'..='\x1F' | '\x7F'..='\u{9F}')
}

/// Appends the address of an entity, `(PartitionKey='..',RowKey='..')`, quoted and encoded.
pub fn write_address(out: &mut String, partition_key: &str, row_key: &str) {
    out.push_str("(PartitionKey='");
    write_quoted(out, partition_key);
    out.push_str("',RowKey='");
    write_quoted(out, row_key);
    out.push_str("')");
}

/// Appends a key as it is written between the quotes of an address: `'` is doubled, then everything
/// except letters, digits, `-`, `_`, `.` and `'` is percent-encoded as UTF-8.
fn write_quoted(out: &mut String, key: &str) {
    // Most keys need neither.
    if key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
        out.push_str(key);
        return;
    }
    for (i, part) in key.split('\'').enumerate() {
        if i > 0 {
            out.push_str("''");
        }
        out.extend(utf8_percent_encode(part, KEY));
    }
}

/// Compares two keys as the service does: ordinal, by UTF-16 code unit.
///
/// Rust compares strings by UTF-8 byte. The result is the same except that in UTF-16 characters
/// outside the Basic Multilingual Plane (surrogate pairs) come before U+E000 to U+FFFF.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let order = a.cmp(b);
    // The orders can differ only if the first different bytes are 0xEE or above.
    if order == Ordering::Equal {
        return order;
    }
    let Some((x, y)) = a.iter().zip(b).find(|(x, y)| x != y) else { return order };
    if *x >= 0xEE && *y >= 0xEE && (*x >= 0xF0) != (*y >= 0xF0) {
        return order.reverse();
    }
    order
}

impl fmt::Display for KeyError {
    /// Never shows the key itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden { character, at } => write!(
                f,
                "keys must not contain U+{:04X} (at byte {at}); `/`, `\\`, `#`, `?` and control \
                 characters are forbidden",
                u32::from(*character)
            ),
            Self::TooLong { units } => {
                write!(f, "the key has {units} UTF-16 units; {MAX_KEY_UNITS} (1 KiB) are allowed")
            }
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(partition_key: &str, row_key: &str) -> String {
        let mut out = String::new();
        write_address(&mut out, partition_key, row_key);
        out
    }

    #[test]
    fn addresses_are_quoted_as_the_service_writes_them_in_location_headers() {
        // Recorded Location headers (cosmosdb-python, sdk-python, sdk-js).
        assert_eq!(address("a''''b", "c"), "(PartitionKey='a''''''''b',RowKey='c')");
        assert_eq!(address("", ""), "(PartitionKey='',RowKey='')");
        assert_eq!(
            address("PK", "table@storage.com"),
            "(PartitionKey='PK',RowKey='table%40storage.com')"
        );
        assert_eq!(
            address("a b", "ô%:+,$=&\""),
            "(PartitionKey='a%20b',RowKey='%C3%B4%25%3A%2B%2C%24%3D%26%22')"
        );
    }

    #[test]
    fn forbidden_characters_and_long_keys_are_refused() {
        for key in ["a/b", "a\\b", "a#b", "a?b", "a\tb", "a\nb", "a\u{7f}", "a\u{9f}"] {
            assert!(matches!(check(key), Err(KeyError::Forbidden { at: 1, .. })), "{key:?}");
        }
        assert_eq!(check(&"x".repeat(512)), Ok(()));
        assert_eq!(check(&"x".repeat(513)), Err(KeyError::TooLong { units: 513 }));
        assert_eq!(check(&"é".repeat(512)), Ok(()));
        assert_eq!(check(&"😀".repeat(257)), Err(KeyError::TooLong { units: 514 }));
        for key in ["", " ", "%", "+", "'", "\u{a0}", "日本"] {
            assert_eq!(check(key), Ok(()), "{key:?}");
        }
    }

    #[test]
    fn the_order_is_that_of_utf16_units() {
        let mut keys = ["", "a", "B", "a\u{FFFD}", "a😀", "ab", "\u{E000}", "😀", "é", "a\u{D7FF}"];
        keys.sort_by(|a, b| compare(a, b));
        let mut expected = keys;
        expected.sort_by_key(|k| k.encode_utf16().collect::<Vec<_>>());
        assert_eq!(keys, expected);
    }
}
