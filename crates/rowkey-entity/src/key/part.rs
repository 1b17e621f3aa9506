//! Values that a key template may contain, `"{department}"` or `"id_{id:6}"`.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{NaiveDate, Utc};
use rowkey_wire::edm::{DateTime, Guid};

use super::instant::Instant;
use super::notation::{Notation, PartKind};
use super::read::KeyReadError;
use super::write::KeyWriter;

/// A value that can be part of a PartitionKey or a RowKey.
///
/// Keys are text and are stored in text order, so a part is written such that text order is value
/// order: numbers are padded with zeros to the width of their type (or to the width that the
/// template specifies), dates become ticks, and the few characters that are forbidden in keys are
/// escaped in a way that keeps the order. A template may instead specify the [`Notation`] of
/// another program.
///
/// Implemented for strings, integers, `bool`, dates and GUIDs; `#[derive(KeyPart)]` implements it
/// for newtypes of those and for enums without fields. Floating-point numbers cannot be parts,
/// because they have no text that sorts like them.
///
/// # A part of several values
///
/// A custom type may write several parts, each with the separator that ends it. It may be anywhere
/// in a template: its text is escaped as a whole if it contains the separator that follows.
///
/// ```
/// use rowkey::{KeyPart, key::{KeyReadError, KeyReader, KeyWriter, PartFormat}};
/// use rowkey::Entity;
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Place {
///     country: String,
///     city: String,
/// }
///
/// const COUNTRY: PartFormat = PartFormat { separator: Some('_'), ..PartFormat::DEFAULT };
///
/// impl KeyPart for Place {
///     fn write(&self, out: &mut KeyWriter) {
///         out.part(&self.country, COUNTRY);
///         out.literal("_");
///         out.part(&self.city, PartFormat::DEFAULT);
///     }
///
///     fn read(text: &str, _: PartFormat) -> Result<Self, KeyReadError> {
///         let mut reader = KeyReader::new(text);
///         let country = reader.part(COUNTRY)?;
///         reader.literal("_")?;
///         let city = reader.part(PartFormat::DEFAULT)?;
///         reader.end()?;
///         Ok(Self { country, city })
///     }
/// }
///
/// #[derive(Entity)]
/// #[entity(partition = "{place}", row = "{place}_{shop:4}")]
/// struct Shop {
///     place: Place,
///     shop: u16,
/// }
///
/// let place = Place { country: "uk".into(), city: "leeds".into() };
/// let key = Shop::key(&place, 7);
/// assert_eq!(key.parts(), Ok(("uk_leeds", "uk^~leeds_0007")));
/// assert_eq!(Shop::parse_key("uk_leeds", "uk^~leeds_0007")?, (place, 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key",
    note = "key parts are strings, integers, dates, GUIDs, or newtypes that derive `KeyPart`"
)]
pub trait KeyPart: Sized {
    /// The kind of value, which decides the notations that a template may use, the symbols that may
    /// follow the part, and how its texts sort. A type that writes and reads like another one has
    /// the kind of that type.
    const KIND: PartKind = PartKind::Other { prefix_free: false };

    /// Whether [`read`](Self::read) accepts only the text that [`write`](Self::write) makes of the
    /// returned value. If not, [`KeyReader::part`](super::KeyReader::part) writes each value again
    /// and compares the text, at the cost of an allocation for each part.
    const EXACT: bool = false;

    /// Writes the value.
    fn write(&self, out: &mut KeyWriter);

    /// Reads the value that [`KeyPart::write`] wrote with the same format. Unless the part is
    /// [`Text`](PartKind::Text), `text` is unescaped, and `format` has no separator.
    ///
    /// An implementation must refuse every other spelling of a value: keys are written with
    /// `write`, so an entity that was read from another spelling would be written to another row.
    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError>;
}

/// The format that the template specifies for a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartFormat {
    /// `{id:6}`, `{at:iso3}`: the notation of the value.
    pub notation: Notation,
    /// `{at:desc}`: largest first.
    pub descending: bool,
    /// The character that ends this part in the template; a string part escapes it.
    pub separator: Option<char>,
}

impl PartFormat {
    /// `{part}` at the end of a template: standard notation, ascending, no separator.
    pub const DEFAULT: Self =
        Self { notation: Notation::Standard, descending: false, separator: None };
}

macro_rules! texts {
    ($($part:ty),*) => {$(
        impl KeyPart for $part {
            const KIND: PartKind = PartKind::Text;
            const EXACT: bool = true;

            fn write(&self, out: &mut KeyWriter) {
                out.text(self);
            }

            fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
                super::read::text(text, format).map(Into::into)
            }
        }
    )*};
}

texts!(String, Arc<str>, Box<str>, Cow<'static, str>);

impl KeyPart for bool {
    const KIND: PartKind = PartKind::Bool;
    const EXACT: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.bool(*self);
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        super::read::bool(text, format)
    }
}

macro_rules! unsigned {
    ($($part:ty: $digits:literal),*) => {$(
        impl KeyPart for $part {
            const KIND: PartKind = PartKind::Unsigned;
            const EXACT: bool = true;

            fn write(&self, out: &mut KeyWriter) {
                out.unsigned(u64::from(*self), u64::from(<$part>::MAX), $digits);
            }

            fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
                let value = super::read::unsigned(text, format, u64::from(<$part>::MAX), $digits)?;
                <$part>::try_from(value).map_err(|_| KeyReadError::malformed("a number of its type"))
            }
        }
    )*};
}

macro_rules! signed {
    ($($part:ty: $digits:literal),*) => {$(
        impl KeyPart for $part {
            const KIND: PartKind = PartKind::Signed;
            const EXACT: bool = true;

            fn write(&self, out: &mut KeyWriter) {
                out.signed(i64::from(*self), $digits);
            }

            fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
                let value = super::read::signed(text, format, $digits)?;
                <$part>::try_from(value).map_err(|_| KeyReadError::malformed("a number of its type"))
            }
        }
    )*};
}

unsigned!(u8: 3, u16: 5, u32: 10, u64: 20);
signed!(i8: 3, i16: 5, i32: 10, i64: 19);

/// Ticks of 100 ns since 0001-01-01, 19 digits; `desc` counts down from .NET's
/// `DateTime.MaxValue.Ticks`, as rows written by .NET do.
impl KeyPart for DateTime {
    const KIND: PartKind = PartKind::Instant;
    const EXACT: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.instant(Ok((*self).into()));
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        Instant::read(text, format)?.to_edm()
    }
}

/// Like [`DateTime`], from the year 1 on; digits finer than the notation are truncated, in ticks
/// the nanoseconds below 100.
impl KeyPart for chrono::DateTime<Utc> {
    const KIND: PartKind = PartKind::Instant;
    const EXACT: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.instant(Instant::from_chrono(*self));
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        Instant::read(text, format)?.to_chrono()
    }
}

/// `2026-11-23`, in the years 1 to 9999.
impl KeyPart for NaiveDate {
    const KIND: PartKind = PartKind::Date;
    const EXACT: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.date(*self);
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        super::instant::read_date(text, format.notation)
    }
}

/// 36 lower-case characters.
impl KeyPart for Guid {
    const KIND: PartKind = PartKind::Guid;
    const EXACT: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.guid(*self);
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        super::read::guid(text, format)
    }
}
