//! A JSON reader for entities, which are objects of names and scalars. It borrows from the text.
//!
//! It accepts exactly what `serde_json` accepts (`tests/robustness` compares them), in less time:
//! long strings are scanned many bytes at once, and nothing is passed through visitors. Objects
//! within entities, which are rare, are left to `serde_json`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::fields::Scalar;

/// A position in a JSON text.
#[derive(Clone, Debug)]
pub struct Scanner<'de> {
    text: &'de str,
    at: usize,
}

/// The error for text that is not JSON, or not the expected element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

type Result<T> = std::result::Result<T, Malformed>;

impl<'de> Scanner<'de> {
    /// A scanner at the start of a text.
    pub fn new(text: &'de str) -> Self {
        Self::at(text, 0)
    }

    /// A scanner at another position, which [`place`](Self::place) returned.
    pub fn at(text: &'de str, at: usize) -> Self {
        Self { text, at }
    }

    /// The current position in bytes; after an error, the position of the error.
    pub fn place(&self) -> usize {
        self.at
    }

    /// Whether only white space is left.
    pub fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Skips bytes that were already inspected.
    #[inline]
    fn step(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    /// The next byte after white space, which is usually absent.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        match self.byte() {
            Some(byte) if byte > b' ' => Some(byte),
            _ => self.peek_behind_space(),
        }
    }

    #[cold]
    fn peek_behind_space(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t' | b'\n' | b'\r');
        self.step(rest.iter().take_while(is_space).count());
        self.byte()
    }

    /// Consumes `byte` if it is next.
    #[inline]
    fn takes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.step(usize::from(found));
        found
    }

    /// Consumes `byte`, or fails if it is not next.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<()> {
        if self.takes(byte) { Ok(()) } else { Err(Malformed) }
    }

    /// Consumes a comma before the next element, or `end`; returns whether there is an element.
    #[inline]
    pub fn goes_on(&mut self, is_first: bool, end: u8) -> Result<bool> {
        match self.peek() {
            Some(b',') if !is_first => {
                self.step(1);
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.step(1);
                Ok(false)
            }
            Some(_) if is_first => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// The name of a member, including the colon after it.
    #[inline]
    pub fn name(&mut self) -> Result<Cow<'de, str>> {
        let name = self.string()?;
        self.expect(b':')?;
        Ok(name)
    }

    /// Consumes the start of another member if it has this name and the usual form `,"name":`.
    #[inline]
    pub(super) fn takes_member(&mut self, name: &str) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let Some(rest) = rest.strip_prefix(b",\"") else { return false };
        let Some(rest) = rest.strip_prefix(name.as_bytes()) else { return false };
        let found = rest.starts_with(b"\":");
        self.step(if found { name.len().saturating_add(4) } else { 0 });
        found
    }

    /// Text, borrowed if it has no escapes.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Cow<'de, str>> {
        self.expect(b'"')?;
        let start = self.at;
        self.step(plain(&self.text.as_bytes()[start..]));
        match self.byte() {
            Some(b'"') => {
                let text = &self.text[start..self.at];
                self.step(1);
                Ok(Cow::Borrowed(text))
            }
            Some(b'\\') => self.escaped(start).map(Cow::Owned),
            // A control character, or the end.
            _ => Err(Malformed),
        }
    }

    /// Any value. The contents of an object or a list are not kept.
    #[inline]
    pub fn scalar(&mut self) -> Result<Scalar<'de>> {
        match self.peek() {
            Some(b'"') => self.string().map(Scalar::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Scalar::Boolean(true)),
            Some(b'f') => self.word("false", Scalar::Boolean(false)),
            Some(b'n') => self.word("null", Scalar::Null),
            Some(b'{' | b'[') => self.structure().map(|()| Scalar::Structure),
            _ => Err(Malformed),
        }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Text from `start` on, after the first escape was reached.
    #[inline(never)]
    fn escaped(&mut self, start: usize) -> Result<String> {
        let bytes = self.text.as_bytes();
        let (mut escapes, mut simple) = (0_usize, true);
        while self.byte() == Some(b'\\') {
            escapes = escapes.saturating_add(1);
            simple &= matches!(bytes.get(self.at.saturating_add(1)), Some(b'"' | b'\\' | b'/'));
            self.step(2);
            // An escape is one character, or a letter followed by digits.
            let rest = bytes.get(self.at..).ok_or_else(|| self.cut_off())?;
            self.step(plain(rest));
        }
        if self.byte() != Some(b'"') {
            return Err(Malformed);
        }
        let raw = &self.text[start..self.at];
        self.step(1);
        if !simple {
            let quoted = &self.text[start.saturating_sub(1)..self.at];
            return serde_json::from_str(quoted).map_err(|_| Malformed);
        }
        // ETags contain quotes, so every entity takes this path.
        let mut text = String::with_capacity(raw.len().saturating_sub(escapes));
        let mut rest = raw;
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
            let (before, escape) = rest.split_at(at);
            text.push_str(before);
            text.push_str(&escape[1..2]);
            rest = &escape[2..];
        }
        text.push_str(rest);
        Ok(text)
    }

    fn number(&mut self) -> Result<Scalar<'de>> {
        let start = self.at;
        let is_negative = self.byte() == Some(b'-');
        self.step(usize::from(is_negative));
        let first = self.byte();
        let (digits, mut value) = self.digits();
        if digits == 0 || (digits > 1 && first == Some(b'0')) {
            return Err(Malformed);
        }
        let mut is_integer = true;
        if self.byte() == Some(b'.') {
            is_integer = false;
            self.step(1);
            if self.digits().0 == 0 {
                return Err(Malformed);
            }
        }
        if let Some(b'e' | b'E') = self.byte() {
            is_integer = false;
            self.step(1);
            self.step(usize::from(matches!(self.byte(), Some(b'+' | b'-'))));
            if self.digits().0 == 0 {
                return Err(Malformed);
            }
        }
        // Eighteen digits always fit, and there is no negative zero among integers.
        if is_integer && digits <= 18 && !(is_negative && value == 0) {
            if is_negative {
                value = value.wrapping_neg();
            }
            return Ok(Scalar::Integer(value));
        }
        let text = &self.text[start..self.at];
        if is_integer && let Some(value) = text.parse().ok().filter(|value| *value != 0) {
            return Ok(Scalar::Integer(value));
        }
        let value: f64 = text.parse().map_err(|_| Malformed)?;
        if value.is_finite() { Ok(Scalar::Float(value)) } else { Err(Malformed) }
    }

    /// Consumes digits; returns their count, and their value if there are at most eighteen.
    fn digits(&mut self) -> (usize, i64) {
        let start = self.at;
        let mut value = 0_i64;
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit & 0xF));
            self.step(1);
        }
        (self.at.saturating_sub(start), value)
    }

    fn word(&mut self, word: &str, value: Scalar<'de>) -> Result<Scalar<'de>> {
        let rest = &self.text.as_bytes()[self.at..];
        if rest.starts_with(word.as_bytes()) {
            self.step(word.len());
            return Ok(value);
        }
        if word.as_bytes().starts_with(rest) {
            self.at = self.text.len();
        }
        Err(Malformed)
    }

    /// Consumes an object or a list, up to the nesting limit of `serde_json`.
    #[cold]
    fn structure(&mut self) -> Result<()> {
        let rest = &self.text[self.at..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Checked>();
        let value = values.next();
        self.step(values.byte_offset());
        match value {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) if error.is_eof() => Err(self.cut_off()),
            _ => Err(Malformed),
        }
    }

    #[cold]
    fn cut_off(&mut self) -> Malformed {
        self.at = self.text.len();
        Malformed
    }
}

/// Checks a value without keeping it. `serde`'s `IgnoredAny` accepts lone surrogates in names and
/// text, and invalid numbers.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> std::result::Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

/// The number of bytes before a quote, an escape or a control character.
#[expect(clippy::arithmetic_side_effects, reason = "places within `bytes`")]
fn plain(bytes: &[u8]) -> usize {
    /// Names and short values end within this length, and are scanned eight bytes at a time.
    const SHORT: usize = 16;
    /// The number of bytes that the compiler compares at once.
    const WIDE: usize = 32;
    let mut at = 0;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        if at >= SHORT {
            let (wide, _) = bytes[at..].as_chunks::<WIDE>();
            let is_plain = |chunk: &&[u8; WIDE]| {
                !chunk.iter().fold(false, |special, byte| special | is_special(*byte))
            };
            at += WIDE * wide.iter().take_while(is_plain).count();
            break;
        }
        match first_special(*word) {
            8 => at += 8,
            found => return at + found,
        }
    }
    let rest = &bytes[at..];
    let (words, tail) = rest.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let found = first_special(*word);
        if found < 8 {
            return at + 8 * i + found;
        }
    }
    at + 8 * words.len() + tail.iter().take_while(|byte| !is_special(**byte)).count()
}

fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// The position of the first special byte among eight, or 8.
fn first_special(word: [u8; 8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    // The top bit of each zero byte. Bits after the first one may be wrong.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & TOPS;
    let control = word.wrapping_sub(ONES * 0x20) & !word & TOPS;
    let found =
        control | zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\')));
    found.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found_wherever_it_is() {
        for special in [b'"', b'\\', 0, 0x1F, b'\n'] {
            for other in [b'a', b' ', b'!', 0x7F, 0x80, 0xFF] {
                for at in 0..120 {
                    let mut bytes = vec![other; 130];
                    assert_eq!(plain(&bytes[..at]), at);
                    bytes[at] = special;
                    assert_eq!(plain(&bytes), at, "{special} among {other}");
                    // The bytes after it do not matter.
                    bytes[at + 1] = special;
                    assert_eq!(plain(&bytes), at);
                }
            }
        }
    }

    #[test]
    fn escapes_are_resolved_and_nothing_else_is_copied() {
        let text = |json: &'static str| Scanner::new(json).string();
        assert_eq!(text(r#""a b""#), Ok(Cow::Borrowed("a b")));
        assert!(matches!(text(r#""a b""#), Ok(Cow::Borrowed(_))));
        let tag = text(r#""W/\"datetime'x'\"""#).unwrap().into_owned();
        assert_eq!(tag, "W/\"datetime'x'\"");
        assert_eq!(tag.capacity(), tag.len());
        assert_eq!(text(r#""\u00e9\n\ud83d\ude00\/\\""#).unwrap(), "é\n😀/\\");
        for wrong in
            [r#""\x""#, r#""\ud800""#, "\"a\nb\"", r#""a"#, r#""a\"#, r#""a\""#, r#""\u12"#]
        {
            assert_eq!(text(wrong), Err(Malformed), "{wrong}");
        }
    }

    #[test]
    fn what_is_nested_is_checked_as_all_else_is() {
        let structure = |json: &'static str| Scanner::new(json).scalar();
        for right in [r#"{"a":[1,{"b\u00e9":"\ud83d\ude00"}]}"#, "[[],{},null,true,-1.5e3]"] {
            assert_eq!(structure(right), Ok(Scalar::Structure), "{right}");
        }
        for wrong in [
            r#"{"\ud800":1}"#,
            r#"{"a":{"\ud800":1}}"#,
            r#"["\ud800"]"#,
            r#"{"a":["x\udc00\ud800"]}"#,
            r#"{"a":1e999}"#,
            "[[1e999]]",
        ] {
            assert_eq!(structure(wrong), Err(Malformed), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_integers_as_far_as_those_go() {
        let number = |json: &'static str| Scanner::new(json).scalar();
        for (json, value) in [
            ("0", 0),
            ("-1", -1),
            ("999999999999999999", 999_999_999_999_999_999),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(number(json), Ok(Scalar::Integer(value)));
        }
        for (json, value) in [
            ("-0", -0.0),
            ("9223372036854775808", 9_223_372_036_854_775_808.0),
            ("1e3", 1000.0),
            ("1.5E-2", 0.015),
            ("1.7976931348623157E+308", f64::MAX),
        ] {
            assert_eq!(number(json), Ok(Scalar::Float(value)));
        }
        for wrong in ["-", "01", "1.", "1e", ".5", "+1", "1e999", "-a", "tru", "nul"] {
            let mut scanner = Scanner::new(wrong);
            assert!(scanner.scalar().is_err() || !scanner.is_at_end(), "{wrong}");
        }
    }
}
