//! Writes single values as the service writes them in JSON.

#![expect(clippy::arithmetic_side_effects, reason = "lengths of what is in memory")]

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{DateTime, Guid, double};

/// Lets text be formatted into a byte buffer.
#[derive(Debug)]
pub(crate) struct Text<'a>(pub(crate) &'a mut Vec<u8>);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Appends bytes as base64 text.
pub(crate) fn binary(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or_default();
    out.truncate(start + written);
    out.push(b'"');
}

/// Appends an instant as text.
pub fn datetime(out: &mut Vec<u8>, instant: DateTime) {
    out.push(b'"');
    out.extend_from_slice(instant.iso().as_bytes());
    out.push(b'"');
}

/// Appends a number, or as text the name of one that JSON cannot represent.
pub(crate) fn double(out: &mut Vec<u8>, number: f64) {
    match double::name(number) {
        Some(name) => {
            let _ = write!(Text(out), "\"{name}\"");
        }
        None => {
            let _ = double::write_finite(number, &mut Text(out));
        }
    }
}

/// Appends a GUID as text.
pub(crate) fn guid(out: &mut Vec<u8>, guid: Guid) {
    out.push(b'"');
    let mut buffer = Guid::encode_buffer();
    out.extend_from_slice(guid.hyphenated().encode_lower(&mut buffer).as_bytes());
    out.push(b'"');
}

/// Appends an Int64 as text, because JSON numbers lose its last digits in some languages.
pub(crate) fn int64(out: &mut Vec<u8>, number: i64) {
    out.push(b'"');
    decimal(out, number);
    out.push(b'"');
}

/// Appends text with the service's escapes. Returns whether nothing was escaped.
pub fn string(out: &mut Vec<u8>, text: &str) -> bool {
    out.push(b'"');
    let is_clean = is_clean(text.as_bytes());
    if is_clean {
        out.extend_from_slice(text.as_bytes());
    } else {
        string_body(out, text);
    }
    out.push(b'"');
    is_clean
}

/// Whether text needs no escapes in JSON: printable ASCII without `"` and `\`.
///
/// Each page looks over the keys of all its rows, and most keys are shorter than what the compiler
/// compares at once: byte by byte that was a quarter of the instructions of a page. So the rest is
/// looked over as words, and what is left of these in a table.
fn is_clean(text: &[u8]) -> bool {
    // Without an early exit and without branches, the compiler compares many bytes at once.
    let (wide, rest) = text.as_chunks::<32>();
    let (words, tail) = rest.as_chunks::<8>();
    let wide = wide.as_flattened().iter().fold(0, |dirty, b| {
        dirty
            | u8::from(*b < 0x20)
            | u8::from(*b > 0x7E)
            | u8::from(*b == b'"')
            | u8::from(*b == b'\\')
    });
    let words = words.iter().fold(0, |dirty, word| dirty | dirty_bits(*word));
    let tail = tail.iter().fold(false, |dirty, byte| dirty | DIRTY[usize::from(*byte)]);
    wide == 0 && words == 0 && !tail
}

const fn is_dirty(byte: u8) -> bool {
    byte < 0x20 || byte > 0x7E || byte == b'"' || byte == b'\\'
}

/// [`is_dirty`] for every byte.
const DIRTY: [bool; 256] = {
    let mut dirty = [false; 256];
    let mut byte = 0;
    while byte < dirty.len() {
        #[expect(clippy::cast_possible_truncation, reason = "the index of 256 is a byte")]
        {
            dirty[byte] = is_dirty(byte as u8);
        }
        byte += 1;
    }
    dirty
};

/// Zero if none of eight bytes is dirty.
const fn dirty_bits(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES << 7;
    /// Has the top bit of the lowest zero byte, and none if no byte is zero.
    const fn zero(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word
    }
    let word = u64::from_le_bytes(word);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = zero(word ^ (ONES * b'"' as u64));
    let backslash = zero(word ^ (ONES * b'\\' as u64));
    let delete = zero(word ^ (ONES * 0x7F));
    (word | control | quote | backslash | delete) & TOPS
}

/// Appends the escaped text without quotes.
pub(crate) fn string_body(out: &mut Vec<u8>, text: &str) {
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{C}' => out.extend_from_slice(b"\\f"),
            ' '..='~' => out.push(character as u8),
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    let _ = write!(Text(out), "\\u{unit:04x}");
                }
            }
        }
    }
}

/// Appends an integer.
pub(crate) fn decimal(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::edm::ValueRef;

    pub(crate) fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_written_as_recorded() {
        let cases = [
            (ValueRef::Int64(-39), "\"-39\""),
            (ValueRef::Int64(i64::MIN), "\"-9223372036854775808\""),
            (ValueRef::Int32(0), "0"),
            (ValueRef::Double(3.0), "3.0"),
            (ValueRef::Double(f64::NEG_INFINITY), "\"-Infinity\""),
            (ValueRef::Boolean(false), "false"),
            (ValueRef::Binary(b"binary".as_slice().into()), "\"YmluYXJ5\""),
            (
                ValueRef::Guid("C9DA6455-213D-42C9-9A79-3E9149A57833".parse().unwrap()),
                "\"c9da6455-213d-42c9-9a79-3e9149a57833\"",
            ),
            (
                ValueRef::DateTime("1973-10-04T00:00:00Z".parse().unwrap()),
                "\"1973-10-04T00:00:00Z\"",
            ),
            // cosmosdb-python test_unicode_property_value; a pair of surrogates; controls.
            (ValueRef::String("\u{554a}\u{9f44}".into()), "\"\\u554a\\u9f44\""),
            (ValueRef::String("😀'\"\\\n\u{1}".into()), "\"\\ud83d\\ude00'\\\"\\\\\\n\\u0001\""),
        ];
        for (input, expected) in cases {
            assert_eq!(text(|out| input.write_json(out)), expected);
        }
    }

    #[test]
    fn text_is_clean_when_nothing_in_it_is_escaped() {
        for byte in 0..=0x7F_u8 {
            let character = char::from(byte).to_string();
            let plain = text(|out| string_body(out, &character)) == character;
            assert_eq!(is_clean(character.as_bytes()), plain, "{byte:#x}");
            let inside = format!("{}{character}{}", "a".repeat(40), "b".repeat(40));
            assert_eq!(is_clean(inside.as_bytes()), plain, "{byte:#x}");
        }
        assert!(!is_clean("é".as_bytes()));
        // At every place of texts of every length, beside bytes of every kind.
        for length in 1..75 {
            for other in [b' ', b'!', b'#', b'[', b']', b'a', b'~'] {
                let mut text = vec![other; length];
                assert!(is_clean(&text), "{length} of {other:#x}");
                for at in 0..length {
                    for dirty in [0, 0x1F, b'"', b'\\', 0x7F, 0x80, 0xA2, 0xDC, 0xFF] {
                        text[at] = dirty;
                        assert!(!is_clean(&text), "{dirty:#x} at {at} of {length}");
                    }
                    text[at] = other;
                }
            }
        }
    }
}
