//! Splits a PartitionKey or a RowKey into parts by its template.
//!
//! Reading is strict: a text is accepted only if [`KeyWriter`] makes the same text of the value. So
//! a key that is read and written again is the same key, and no write goes to a row other than the
//! one that was read. Each reader checks the spelling itself, so no part is written a second time,
//! except one with a handwritten implementation that does not guarantee the check
//! ([`KeyPart::EXACT`]).

use std::fmt;

use rowkey_wire::edm::Guid;

use super::notation::{Notation, PartKind};
use super::part::{KeyPart, PartFormat};
use super::write::{
    ESCAPED, KeyWriter, PLAIN, after, begins_escape, is_common, is_escaped, may_be_escaped,
    power_of_ten, spelled, words,
};

/// Reads the literals and parts of a template from a key.
pub struct KeyReader<'a> {
    rest: &'a str,
}

/// A key that does not match its template.
///
/// Another program may have written it in another format: a GUID in upper case, a number without
/// leading zeros, text with characters that a template escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReadError {
    expected: Expected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// This literal text of the template.
    Literal(&'static str),
    /// A part, with a description of what was expected.
    Part(&'static str),
}

impl fmt::Debug for KeyReader<'_> {
    /// Does not show the unread rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyReader").finish_non_exhaustive()
    }
}

impl<'a> KeyReader<'a> {
    /// Starts at the beginning of the key.
    pub fn new(key: &'a str) -> Self {
        Self { rest: key }
    }

    /// Reads literal text of the template.
    pub fn literal(&mut self, text: &'static str) -> Result<(), KeyReadError> {
        let expected = KeyReadError { expected: Expected::Literal(text) };
        self.rest = self.rest.strip_prefix(text).ok_or(expected)?;
        Ok(())
    }

    /// Reads a part, up to its separator or to the end.
    ///
    /// # Errors
    ///
    /// Fails if there is no value of which [`KeyWriter::part`] makes exactly this text.
    pub fn part<P: KeyPart>(&mut self, format: PartFormat) -> Result<P, KeyReadError> {
        let part = self.text_of_part(format)?;
        let within = PartFormat { separator: None, ..format };
        let value = if matches!(P::KIND, PartKind::Text) {
            P::read(part, format)?
        } else if may_be_escaped::<P>(format) && !is_common(part, format.separator) {
            // The part was escaped as a whole: see `KeyWriter::part`.
            let whole = PartFormat { separator: format.separator, ..PartFormat::DEFAULT };
            P::read(&text(part, whole)?, within)?
        } else {
            P::read(part, within)?
        };
        if !P::EXACT {
            let mut again = KeyWriter::new();
            again.part(&value, format);
            if again.finish().as_deref() != Ok(part) {
                return Err(KeyReadError::malformed("the text that its part writes of the value"));
            }
        }
        Ok(value)
    }

    /// Reads a part that is also in the other key, and checks that both are the same.
    #[doc(hidden)]
    pub fn same<P: KeyPart>(&mut self, part: &P, format: PartFormat) -> Result<(), KeyReadError> {
        let mut expected = KeyWriter::new();
        expected.part(part, format);
        if expected
            .finish()
            .is_ok_and(|expected| self.text_of_part(format) == Ok(expected.as_str()))
        {
            Ok(())
        } else {
            Err(KeyReadError::malformed("the value that the other key has"))
        }
    }

    /// Reads the number of a bucket.
    #[doc(hidden)]
    pub fn bucket(&mut self, buckets: u16) -> Result<(), KeyReadError> {
        let digits = usize::from(super::bucket::digits(buckets));
        let number =
            self.rest.get(..digits).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let number = number.and_then(|text| text.parse::<u16>().ok());
        if number.is_none_or(|number| number >= buckets) {
            return Err(KeyReadError::malformed("the number of a bucket"));
        }
        self.rest = &self.rest[digits..];
        Ok(())
    }

    fn text_of_part(&mut self, format: PartFormat) -> Result<&'a str, KeyReadError> {
        let end = match format.separator {
            Some(separator) => {
                self.rest.find(separator).ok_or(KeyReadError::malformed("a separator"))?
            }
            None => self.rest.len(),
        };
        let (part, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(part)
    }

    /// Checks that the whole key has been read.
    pub fn end(self) -> Result<(), KeyReadError> {
        if self.rest.is_empty() { Ok(()) } else { Err(KeyReadError::malformed("its end")) }
    }
}

impl KeyReadError {
    /// The key does not have `expected` in place of the part: `"a GUID"`. The text must not quote
    /// the key.
    ///
    /// ```
    /// use rowkey::KeyPart;
    /// use rowkey::key::{KeyReadError, KeyWriter, PartFormat};
    ///
    /// /// A country by its ISO 3166 code of two letters.
    /// #[derive(Debug, PartialEq)]
    /// struct Country([u8; 2]);
    ///
    /// impl KeyPart for Country {
    ///     fn write(&self, out: &mut KeyWriter) {
    ///         out.part(&String::from_utf8_lossy(&self.0).into_owned(), PartFormat::DEFAULT);
    ///     }
    ///
    ///     fn read(text: &str, _: PartFormat) -> Result<Self, KeyReadError> {
    ///         text.as_bytes().try_into().map(Self).map_err(|_| KeyReadError::malformed("a country"))
    ///     }
    /// }
    ///
    /// assert_eq!(Country::read("uk", PartFormat::DEFAULT)?, Country(*b"uk"));
    /// let error = Country::read("narnia", PartFormat::DEFAULT).unwrap_err();
    /// assert!(error.to_string().contains("a country"));
    /// # Ok::<(), KeyReadError>(())
    /// ```
    pub fn malformed(expected: &'static str) -> Self {
        Self { expected: Expected::Part(expected) }
    }
}

/// Reads a string part. Text that the writer would have written differently is an error.
pub(super) fn text(text: &str, format: PartFormat) -> Result<String, KeyReadError> {
    if is_common(text, format.separator) {
        return Ok(text.to_owned());
    }
    let error = KeyReadError::malformed(
        "text with the escapes of `KeyWriter` where it has their characters",
    );
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character.is_control() || is_escaped(character, format.separator) {
            return Err(error);
        }
        if begins_escape(character, format.separator) {
            if characters.next_if_eq(&ESCAPED).is_some() {
                out.push(after(character));
                continue;
            }
            // The writer puts it only before a character that sorts as high.
            let is_marked = characters.next_if_eq(&PLAIN).is_some();
            if is_marked != characters.peek().is_some_and(|next| *next >= PLAIN) {
                return Err(error);
            }
        }
        out.push(character);
    }
    Ok(out)
}

pub(super) fn unsigned(
    text: &str,
    format: PartFormat,
    max: u64,
    digits: u8,
) -> Result<u64, KeyReadError> {
    let (width, top) = match format.notation {
        Notation::Hex { digits, upper } => return hex(text, digits, upper),
        Notation::Unpadded => {
            let value = integer(text)?;
            return u64::try_from(value)
                .map_err(|_| KeyReadError::malformed("a number of its type"));
        }
        Notation::Digits(width) => (width, power_of_ten(width) - 1),
        _ => (digits, i128::from(max)),
    };
    let value = number(text, width)?;
    if value > top {
        return Err(KeyReadError::malformed("a number of its type"));
    }
    let value = if format.descending { top - value } else { value };
    u64::try_from(value).map_err(|_| KeyReadError::malformed("a number of its type"))
}

pub(super) fn signed(text: &str, format: PartFormat, digits: u8) -> Result<i64, KeyReadError> {
    let width = if let Notation::Digits(width) = format.notation { width } else { digits };
    let value = match text.strip_prefix('-') {
        _ if format.notation == Notation::Unpadded => integer(text)?,
        Some(below) => number(below, width)? - power_of_ten(width),
        None => number(text, width)?,
    };
    let value = if format.descending { -1 - value } else { value };
    i64::try_from(value).map_err(|_| KeyReadError::malformed("a number of its type"))
}

fn hex(text: &str, digits: u8, upper: bool) -> Result<u64, KeyReadError> {
    let is_spelled = text.len() == usize::from(digits)
        && text.bytes().all(|byte| match byte {
            b'0'..=b'9' => true,
            b'A'..=b'F' => upper,
            b'a'..=b'f' => !upper,
            _ => false,
        });
    let value = is_spelled.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    value.ok_or(KeyReadError::malformed(if upper {
        "hexadecimal digits of the template's width in upper case"
    } else {
        "hexadecimal digits of the template's width in lower case"
    }))
}

pub(super) fn bool(text: &str, format: PartFormat) -> Result<bool, KeyReadError> {
    match format.notation {
        Notation::Words { capitalized } => [true, false]
            .into_iter()
            .find(|value| words(*value, capitalized) == text)
            .ok_or(KeyReadError::malformed("`true` or `false` in the template's case")),
        _ => unsigned(text, format, 1, 1).map(|value| value == 1),
    }
}

pub(super) fn guid(text: &str, format: PartFormat) -> Result<Guid, KeyReadError> {
    // The parser accepts all forms in any case; only the canonical one is the same text.
    let mut room = Guid::encode_buffer();
    let guid = Guid::try_parse(text).ok();
    let guid = guid.filter(|guid| spelled(*guid, format.notation, &mut room) == text);
    guid.ok_or(KeyReadError::malformed(match format.notation {
        Notation::Simple { upper: true } => "a GUID of 32 digits in upper case",
        Notation::Simple { upper: false } => "a GUID of 32 digits in lower case",
        Notation::Braced { upper: true } => "a GUID in braces and upper case",
        Notation::Braced { upper: false } => "a GUID in braces and lower case",
        Notation::Hyphenated { upper: true } => "a GUID of 36 characters in upper case",
        _ => "a GUID of 36 characters in lower case",
    }))
}

pub(super) fn number(text: &str, width: u8) -> Result<i128, KeyReadError> {
    if text.len() != usize::from(width) || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(KeyReadError::malformed("a number of the template's width"));
    }
    text.parse().map_err(|_| KeyReadError::malformed("a number"))
}

/// Reads a 64-bit number without leading zeros.
pub(super) fn integer(text: &str) -> Result<i128, KeyReadError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_spelled = match digits.as_bytes() {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.len() < 20 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let value = is_spelled.then(|| text.parse().ok()).flatten();
    value.ok_or(KeyReadError::malformed("a number without zeros in front"))
}

impl fmt::Display for KeyReadError {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not what the template makes: expected ")?;
        match self.expected {
            Expected::Literal(text) => write!(f, "{text:?}")?,
            Expected::Part(what) => f.write_str(what)?,
        }
        f.write_str(
            "; give the template the format of the stored keys, or read such rows as `DynamicEntity`",
        )
    }
}

impl std::error::Error for KeyReadError {}
