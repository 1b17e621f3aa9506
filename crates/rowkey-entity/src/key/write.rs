//! Joins the parts of a key so that text order is value order.
//!
//! # Escaped text
//!
//! Keys must not contain `/ \ # ?`, and a string that is followed by a separator must not contain
//! the separator. Such a character `c` is written as the character before it and a `~`: `/` as
//! `.~`, `_` as `^~`. No character after a `.` in text sorts above `~` (one that would is preceded
//! by a `}`), so `a/b` still sorts after everything that begins with `a.` and before `a0`. Common
//! text, such as names and e-mail addresses, is written unchanged.

use std::fmt;
use std::fmt::Write as _;

use chrono::NaiveDate;
use rowkey_wire::edm::Guid;
use rowkey_wire::key as wire;
use rowkey_wire::shown;

use super::instant::{Instant, OutOfRange, write_date};
use super::notation::{Notation, PartKind};
use super::part::{KeyPart, PartFormat};

/// The second character of an escape.
pub(super) const ESCAPED: char = '~';
/// Marks a character that could begin an escape but does not, where the next one would sort as high
/// as [`ESCAPED`].
pub(super) const PLAIN: char = '}';

/// Writes a PartitionKey or a RowKey from the literals and parts of a template.
#[derive(Default)]
pub struct KeyWriter {
    text: String,
    format: PartFormat,
    error: Option<KeyError>,
}

/// Why the values do not make a valid key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// A control character in a string part.
    ControlCharacter,
    /// A date that its notation cannot represent: outside the years 1 to 9999, or outside 1970 to
    /// 2286 in Unix time of fixed width.
    DateOutOfRange,
    /// The key as a whole is not valid.
    Invalid(wire::KeyError),
    /// An end of a range is a RowKey that does not match the row template of the type.
    NotOfTemplate,
    /// A range of an index has an end in another index.
    OtherIndex,
    /// A range has an end outside the partition that is queried.
    OtherPartition,
    /// A number has more digits than the template's width; more digits would sort incorrectly.
    TooWide {
        /// The number of digits that the template allows.
        width: u8,
    },
}

/// The keys that a constructor of a derive has written: of an entity, of a partition, or of a row
/// of an index or list.
#[doc(hidden)]
#[derive(Debug)]
pub struct WrittenKeys {
    /// The position of the index or list in its declarations; 0 for the entity itself.
    pub position: usize,
    pub partition_key: KeyWriter,
    /// The RowKey, or the text that the RowKeys of a range begin with.
    pub row_key: KeyWriter,
    /// The format of the part that follows in a range of an index.
    pub next: PartFormat,
}

impl WrittenKeys {
    pub(crate) fn finish(self) -> Result<(String, String), KeyError> {
        Ok((self.partition_key.finish()?, self.row_key.finish()?))
    }
}

impl KeyWriter {
    /// Starts an empty key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes literal text of the template.
    pub fn literal(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Writes a part in the format of the template.
    ///
    /// A part may itself consist of parts and literals ([`KeyPart`] has an example). If its text
    /// contains the separator that follows it, the text is escaped as a whole, so that the part
    /// does not end too early.
    pub fn part<P: KeyPart>(&mut self, part: &P, format: PartFormat) {
        let around = self.format;
        if matches!(P::KIND, PartKind::Text) {
            self.format = format;
            part.write(self);
        } else {
            self.format = PartFormat { separator: None, ..format };
            let start = self.text.len();
            part.write(self);
            if may_be_escaped::<P>(format) && !is_common(&self.text[start..], format.separator) {
                let whole = self.text.split_off(start);
                self.format = PartFormat { separator: format.separator, ..PartFormat::default() };
                self.escaped(&whole);
            }
        }
        self.format = around;
    }

    /// Writes the bucket of a value: [`bucket_of`](super::bucket_of) of its text in a key, without
    /// escapes.
    #[doc(hidden)]
    pub fn bucket<P: KeyPart>(&mut self, part: &P, buckets: u16) {
        let mut alone = Self::new();
        alone.part(part, PartFormat::DEFAULT);
        if let Some(error) = alone.error {
            self.error.get_or_insert(error);
            return;
        }
        // The text of a part of several values may not be valid escaped text.
        let text = super::read::text(&alone.text, PartFormat::DEFAULT).unwrap_or(alone.text);
        let bucket = super::bucket_of(&text, buckets);
        self.digits(i128::from(bucket), super::bucket::digits(buckets));
    }

    /// Writes the bucket of another key: [`bucket_of`](super::bucket_of) of it as a whole, with escapes.
    #[doc(hidden)]
    pub fn bucket_of_key(&mut self, key: &Self, buckets: u16) {
        let bucket = super::bucket_of(&key.text, buckets);
        self.digits(i128::from(bucket), super::bucket::digits(buckets));
    }

    /// Checks the key and returns it.
    pub fn finish(self) -> Result<String, KeyError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        wire::check(&self.text).map_err(KeyError::Invalid)?;
        Ok(self.text)
    }

    /// Writes another key as a string part that ends with `separator`.
    #[doc(hidden)]
    pub fn key(&mut self, key: Self, separator: char) {
        if let Some(error) = key.error {
            self.error.get_or_insert(error);
        }
        self.format = PartFormat { separator: Some(separator), ..PartFormat::default() };
        self.text(&key.text);
    }

    /// Writes a string.
    pub fn text(&mut self, text: &str) {
        if self.format.notation == Notation::Lower {
            // One character at a time, so that the lower case of a prefix is a prefix of the lower
            // case: `str::to_lowercase` converts a capital sigma depending on what follows.
            let lower: String = text.chars().flat_map(char::to_lowercase).collect();
            self.escaped(&lower);
        } else {
            self.escaped(text);
        }
    }

    fn escaped(&mut self, text: &str) {
        if is_common(text, self.format.separator) {
            self.text.push_str(text);
            return;
        }
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            if character.is_control() {
                self.error = Some(KeyError::ControlCharacter);
                return;
            }
            if is_escaped(character, self.format.separator) {
                self.text.push(before(character));
                self.text.push(ESCAPED);
                continue;
            }
            self.text.push(character);
            if begins_escape(character, self.format.separator)
                && characters.peek().is_some_and(|next| *next >= PLAIN)
            {
                self.text.push(PLAIN);
            }
        }
    }

    /// Writes a number from 0 to `max`, with `digits` digits if the template does not specify a
    /// width.
    pub(crate) fn unsigned(&mut self, value: u64, max: u64, digits: u8) {
        let (width, top) = match self.format.notation {
            Notation::Hex { digits, upper } => return self.hex(value, digits, upper),
            Notation::Unpadded => {
                let _ = write!(self.text, "{value}");
                return;
            }
            Notation::Digits(width) => (width, power_of_ten(width) - 1),
            _ => (digits, i128::from(max)),
        };
        let value = i128::from(value);
        if value > top {
            self.error = Some(KeyError::TooWide { width });
            return;
        }
        self.digits(if self.format.descending { top - value } else { value }, width);
    }

    fn hex(&mut self, value: u64, digits: u8, upper: bool) {
        let width = usize::from(digits);
        if digits < 16 && value >> (4 * digits) != 0 {
            self.error = Some(KeyError::TooWide { width: digits });
            return;
        }
        let _ = if upper {
            write!(self.text, "{value:0width$X}")
        } else {
            write!(self.text, "{value:0width$x}")
        };
    }

    /// Writes a number that may be negative: below zero `-` and the distance from the lowest
    /// number, otherwise digits. `-` sorts before digits.
    pub(crate) fn signed(&mut self, value: i64, digits: u8) {
        let width = match self.format.notation {
            Notation::Unpadded => {
                let _ = write!(self.text, "{value}");
                return;
            }
            Notation::Digits(width) => width,
            _ => digits,
        };
        let value = if self.format.descending { -1 - i128::from(value) } else { i128::from(value) };
        let limit = power_of_ten(width);
        if value >= limit || value < -limit {
            self.error = Some(KeyError::TooWide { width });
        } else if value < 0 {
            self.text.push('-');
            self.digits(limit + value, width);
        } else {
            self.digits(value, width);
        }
    }

    /// Writes a bool as `0` or `1`, or as a word.
    pub(super) fn bool(&mut self, value: bool) {
        match self.format.notation {
            Notation::Words { capitalized } => self.text.push_str(words(value, capitalized)),
            _ => self.unsigned(u64::from(value), 1, 1),
        }
    }

    /// Writes an instant, or records that it is out of range.
    pub(super) fn instant(&mut self, instant: Result<Instant, OutOfRange>) {
        let written = instant.and_then(|instant| instant.write(self.format, &mut self.text));
        if let Err(OutOfRange) = written {
            self.error = Some(KeyError::DateOutOfRange);
        }
    }

    /// Writes a day.
    pub(super) fn date(&mut self, date: NaiveDate) {
        if let Err(OutOfRange) = write_date(date, self.format.notation, &mut self.text) {
            self.error = Some(KeyError::DateOutOfRange);
        }
    }

    /// Writes a GUID.
    pub(crate) fn guid(&mut self, guid: Guid) {
        let mut room = Guid::encode_buffer();
        self.text.push_str(spelled(guid, self.format.notation, &mut room));
    }

    fn digits(&mut self, value: i128, width: u8) {
        let width = usize::from(width);
        let _ = write!(self.text, "{value:0width$}");
    }
}

/// `True` or `false`, capitalized or not.
pub(super) fn words(value: bool, capitalized: bool) -> &'static str {
    match (value, capitalized) {
        (true, true) => "True",
        (false, true) => "False",
        (true, false) => "true",
        (false, false) => "false",
    }
}

/// A GUID in the notation of the template.
pub(super) fn spelled(guid: Guid, notation: Notation, room: &mut [u8; GUID_ROOM]) -> &str {
    match notation {
        Notation::Simple { upper: true } => guid.simple().encode_upper(room),
        Notation::Simple { upper: false } => guid.simple().encode_lower(room),
        Notation::Braced { upper: true } => guid.braced().encode_upper(room),
        Notation::Braced { upper: false } => guid.braced().encode_lower(room),
        Notation::Hyphenated { upper: true } => guid.hyphenated().encode_upper(room),
        _ => guid.hyphenated().encode_lower(room),
    }
}

/// The most bytes that a GUID takes in any notation of the `uuid` crate.
pub(super) const GUID_ROOM: usize = Guid::encode_buffer().len();

/// Whether the text of the part may be escaped as a whole, because it may contain the separator.
/// Known at compile time, so numbers, dates and GUIDs are not searched.
pub(super) fn may_be_escaped<P: KeyPart>(format: PartFormat) -> bool {
    format.separator.is_some_and(|separator| !P::KIND.never_has(format.notation, separator))
}

pub(super) fn power_of_ten(width: u8) -> i128 {
    10_i128.pow(u32::from(width.min(20)))
}

/// Whether the text has none of the characters that are escaped, are forbidden in keys, or sort as
/// high as an escape. Returns `false` in doubt.
pub(super) fn is_common(text: &str, separator: Option<char>) -> bool {
    let separator = separator.and_then(|character| u8::try_from(character).ok());
    let is_odd = |byte: u8| {
        !(b' '..b'}').contains(&byte)
            || matches!(byte, b'/' | b'\\' | b'#' | b'?')
            || separator == Some(byte)
    };
    // Tests every byte without a branch.
    !text.bytes().fold(false, |odd, byte| odd | is_odd(byte))
}

/// Whether a string part must escape `character`.
pub(super) fn is_escaped(character: char, separator: Option<char>) -> bool {
    matches!(character, '/' | '\\' | '#' | '?') || separator == Some(character)
}

/// Whether `character` directly precedes an escaped character in character order.
pub(super) fn begins_escape(character: char, separator: Option<char>) -> bool {
    character.is_ascii() && is_escaped(after(character), separator)
}

/// The end of the keys that continue the text at the end of `key`. Keys that continue it with an
/// escape are excluded: in those, the last character of `key` is the first half of the escape.
pub(crate) fn ends_in_escape(key: &str, format: PartFormat) -> Option<String> {
    let last = key.chars().next_back()?;
    begins_escape(last, format.separator).then(|| format!("{key}{ESCAPED}"))
}

fn before(character: char) -> char {
    char::from_u32(u32::from(character) - 1).unwrap_or(character)
}

pub(super) fn after(character: char) -> char {
    char::from_u32(u32::from(character) + 1).unwrap_or(character)
}

shown! {
    /// Does not show what was written.
    KeyWriter: error
}

impl fmt::Display for KeyError {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlCharacter => f.write_str("a string in the key has a control character"),
            Self::DateOutOfRange => f.write_str(
                "a date in the key is outside what its format has: the years 1 to 9999, in Unix time of \
                 fixed width 1970 to 2286, in ticks of 18 digits 1 to 3169",
            ),
            Self::Invalid(error) => error.fmt(f),
            Self::NotOfTemplate => f.write_str(
                "an end of the range is a RowKey that the row template of the type does not make; \
                 give ends by value, or use `row_keys` for RowKeys as they are stored",
            ),
            Self::OtherIndex => f.write_str("an end of the range is in another index"),
            Self::OtherPartition => {
                f.write_str("an end of the range lies in another partition than the one queried")
            }
            Self::TooWide { width } => write!(
                f,
                "a number in the key has more than the {width} digits its template allows"
            ),
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use rowkey_wire::edm::DateTime;

    use super::super::read::KeyReader;
    use super::*;

    const SEPARATED: PartFormat = PartFormat { separator: Some('_'), ..PartFormat::DEFAULT };
    const DESCENDING: PartFormat = PartFormat { descending: true, ..PartFormat::DEFAULT };

    fn write(part: &impl KeyPart, format: PartFormat) -> String {
        let mut out = KeyWriter::new();
        out.part(part, format);
        out.finish().unwrap()
    }

    /// Asserts that text order is value order, and that every value reads back.
    fn assert_ordered<T: KeyPart + Ord + Clone + fmt::Debug>(values: &[T], format: PartFormat) {
        for a in values {
            let text = write(a, format);
            assert_eq!(&T::read(&text, format).unwrap(), a, "{text:?}");
            for b in values {
                let expected = if format.descending { b.cmp(a) } else { a.cmp(b) };
                assert_eq!(wire::compare(&text, &write(b, format)), expected, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn numbers_sort_as_numbers_and_read_back() {
        let width = PartFormat { notation: Notation::Digits(6), ..PartFormat::default() };
        assert_eq!(write(&123_u32, width), "000123", "as the design guide writes employee ids");
        for format in [PartFormat::default(), DESCENDING] {
            assert_ordered(&[0_u64, 1, 9, 10, 123, u64::MAX - 1, u64::MAX], format);
            assert_ordered(&[i64::MIN, i64::MIN + 1, -10, -9, -1, 0, 1, 9, 10, i64::MAX], format);
            assert_ordered(&[i8::MIN, -1, 0, 1, i8::MAX], format);
            assert_ordered(&[i32::MIN, -1, 0, i32::MAX], format);
            assert_ordered(&[false, true], format);
            let width = PartFormat { notation: Notation::Digits(4), ..format };
            assert_ordered(&[0_u16, 7, 9999], width);
            assert_ordered(&[-9999_i32, -1, 0, 1, 9999], width);
        }
    }

    #[test]
    fn a_number_wider_than_its_template_is_refused() {
        let mut out = KeyWriter::new();
        out.part(&1000_u32, PartFormat { notation: Notation::Digits(3), ..PartFormat::default() });
        assert_eq!(out.finish(), Err(KeyError::TooWide { width: 3 }));
    }

    #[test]
    fn descending_dates_are_the_inverted_ticks_of_dotnet() {
        // DateTime.MaxValue.Ticks - new DateTime(2017, 11, 10).Ticks, 19 digits.
        let instant: DateTime = "2017-11-10T00:00:00Z".parse().unwrap();
        assert_eq!(write(&instant, DESCENDING), "2518920287999999999");
        assert_eq!(write(&DateTime::MAX, DESCENDING), "0000000000000000000");
        assert_ordered(&[DateTime::MIN, instant, DateTime::MAX], DESCENDING);
        assert_ordered(&[DateTime::MIN, instant, DateTime::MAX], PartFormat::default());
    }

    #[test]
    fn common_text_is_written_as_it_is() {
        for text in ["jonesj@contoso.com", "New York", "O'Neil", "étude", "100%", ""] {
            assert_eq!(write(&text.to_owned(), SEPARATED), text);
        }
        assert_eq!(write(&"john_doe".to_owned(), SEPARATED), "john^~doe");
        assert_eq!(write(&"a/b\\c#d?".to_owned(), PartFormat::default()), "a.~b[~c\"~d>~");
    }

    /// A string ordered by UTF-16 unit, as keys are stored.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Ordinal(String);
    impl PartialOrd for Ordinal {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Ordinal {
        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            wire::compare(&self.0, &other.0)
        }
    }
    impl KeyPart for Ordinal {
        const KIND: PartKind = PartKind::Text;

        fn write(&self, out: &mut KeyWriter) {
            self.0.write(out);
        }
        fn read(text: &str, format: PartFormat) -> Result<Self, super::super::KeyReadError> {
            String::read(text, format).map(Self)
        }
    }

    #[test]
    fn text_of_any_characters_sorts_as_text_and_reads_back() {
        let alphabet = [
            "", " ", "!", "\"", "#", "$", "'", ".", "/", "0", ">", "?", "@", "[", "\\", "]", "^",
            "_", "`", "a", "{", "|", "}", "~", "\u{a0}", "é", "\u{D7FF}", "😀", "\u{FFFD}",
        ];
        let pairs: Vec<_> = alphabet
            .iter()
            .flat_map(|a| alphabet.iter().map(move |b| Ordinal(format!("{a}{b}"))))
            .collect();
        assert_ordered(&pairs, SEPARATED);
        assert_ordered(&pairs, PartFormat::default());
    }

    #[test]
    fn a_string_before_a_separator_never_runs_into_what_follows() {
        for text in ["a", "a_", "_", "a_b^", "^~", "}", "~"] {
            let mut out = KeyWriter::new();
            out.literal("id_");
            out.part(&text.to_owned(), SEPARATED);
            out.literal("_");
            out.part(&7_u8, PartFormat::default());
            let key = out.finish().unwrap();
            let mut reader = KeyReader::new(&key);
            reader.literal("id_").unwrap();
            assert_eq!(reader.part::<String>(SEPARATED).unwrap(), text);
            reader.literal("_").unwrap();
            assert_eq!(reader.part::<u8>(PartFormat::default()).unwrap(), 7);
            reader.end().unwrap();
        }
    }

    #[test]
    fn control_characters_and_long_keys_are_refused() {
        let mut out = KeyWriter::new();
        out.part(&"a\tb".to_owned(), PartFormat::default());
        assert_eq!(out.finish(), Err(KeyError::ControlCharacter));
        let mut out = KeyWriter::new();
        out.part(&"x".repeat(600), PartFormat::default());
        assert!(matches!(out.finish(), Err(KeyError::Invalid(wire::KeyError::TooLong { .. }))));
    }
}
