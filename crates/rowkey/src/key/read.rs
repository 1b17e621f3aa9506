//! Takes a PartitionKey or a RowKey apart by its template.

use std::fmt;

use rowkey_wire::edm::{DateTime, Guid};

use super::part::{KeyPart, PartFormat};
use super::write::{ESCAPED, KeyWriter, PLAIN, after, begins_escape, power_of_ten};

/// Reads the literals and parts of a template from a key.
pub struct KeyReader<'a> {
    rest: &'a str,
}

/// A key that its template did not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReadError {
    expected: &'static str,
}

impl fmt::Debug for KeyReader<'_> {
    /// Does not show what is left to read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyReader").finish_non_exhaustive()
    }
}

impl<'a> KeyReader<'a> {
    /// Begins with the whole key.
    pub fn new(key: &'a str) -> Self {
        Self { rest: key }
    }

    /// Reads text of the template.
    pub fn literal(&mut self, text: &'static str) -> Result<(), KeyReadError> {
        self.rest = self.rest.strip_prefix(text).ok_or(KeyReadError { expected: text })?;
        Ok(())
    }

    /// Reads a part: up to its separator, or to the end.
    pub fn part<P: KeyPart>(&mut self, format: PartFormat) -> Result<P, KeyReadError> {
        let part = self.text_of_part(format)?;
        if P::TEXT {
            return P::read(part, format);
        }
        let within = PartFormat { separator: None, ..format };
        match format.separator {
            // It was escaped as a whole, if that was needed: see `KeyWriter::part`.
            Some(_) if part.contains([ESCAPED, PLAIN]) => {
                let whole = PartFormat { separator: format.separator, ..PartFormat::DEFAULT };
                P::read(&text(part, whole), within)
            }
            _ => P::read(part, within),
        }
    }

    /// Reads a part that stood in the other key as well, and checks that it is the same.
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
            Err(KeyReadError::malformed("the value of the PartitionKey"))
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

    /// Checks that nothing is left.
    pub fn end(self) -> Result<(), KeyReadError> {
        if self.rest.is_empty() { Ok(()) } else { Err(KeyReadError::malformed("its end")) }
    }
}

impl KeyReadError {
    /// The key does not have `expected` where the template does.
    pub fn malformed(expected: &'static str) -> Self {
        Self { expected }
    }
}

pub(super) fn text(text: &str, format: PartFormat) -> String {
    if !text.chars().any(|character| begins_escape(character, format.separator)) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if begins_escape(character, format.separator) {
            if characters.next_if_eq(&ESCAPED).is_some() {
                out.push(after(character));
                continue;
            }
            characters.next_if_eq(&PLAIN);
        }
        out.push(character);
    }
    out
}

pub(super) fn unsigned(
    text: &str,
    format: PartFormat,
    max: u64,
    digits: u8,
) -> Result<u64, KeyReadError> {
    let (width, top) = match format.width {
        Some(width) => (width, power_of_ten(width) - 1),
        None => (digits, i128::from(max)),
    };
    let value = number(text, width)?;
    let value = if format.descending { top - value } else { value };
    u64::try_from(value).map_err(|_| KeyReadError::malformed("a number of its type"))
}

pub(super) fn signed(text: &str, format: PartFormat, digits: u8) -> Result<i64, KeyReadError> {
    let width = format.width.unwrap_or(digits);
    let value = match text.strip_prefix('-') {
        Some(below) => number(below, width)? - power_of_ten(width),
        None => number(text, width)?,
    };
    let value = if format.descending { -1 - value } else { value };
    i64::try_from(value).map_err(|_| KeyReadError::malformed("a number of its type"))
}

pub(super) fn ticks(text: &str, format: PartFormat) -> Result<DateTime, KeyReadError> {
    let error = KeyReadError::malformed("19 digits of ticks");
    let value = i64::try_from(number(text, 19)?).map_err(|_| error.clone())?;
    let ticks = if format.descending { DateTime::MAX.ticks() - value } else { value };
    DateTime::from_ticks(ticks).map_err(|_| error)
}

pub(super) fn guid(text: &str, _format: PartFormat) -> Result<Guid, KeyReadError> {
    Guid::try_parse(text).map_err(|_| KeyReadError::malformed("a GUID"))
}

fn number(text: &str, width: u8) -> Result<i128, KeyReadError> {
    if text.len() != usize::from(width) || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(KeyReadError::malformed("a number of the template's width"));
    }
    text.parse().map_err(|_| KeyReadError::malformed("a number"))
}

impl fmt::Display for KeyReadError {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key does not have {:?} where its template does", self.expected)
    }
}

impl std::error::Error for KeyReadError {}
