//! What may stand in a key template, `"{department}"` or `"id_{id:6}"`.

use chrono::Utc;
use rowkey_wire::edm::{DateTime, Guid};

use super::read::KeyReadError;
use super::write::KeyWriter;

/// A value that can be part of a PartitionKey or a RowKey.
///
/// Keys are text and are kept in text order, so a part is written such that the order of the text
/// is the order of the values: numbers are padded with zeros to the width of their type (or to the
/// width that the template asks for), dates become ticks, and the few characters that keys must not
/// contain are escaped without disturbing the order.
///
/// Implemented for strings, integers, `bool`, dates and GUIDs; `#[derive(KeyPart)]` implements it
/// for newtypes of those and for enums without fields. Floating-point numbers have no text whose
/// order is theirs and cannot be parts.
///
/// # A part of several values
///
/// A type of your own may write several parts, each with the separator that ends it. In a template it
/// may stand anywhere: what it writes is escaped as a whole if it contains the separator that follows.
///
/// ```
/// use rowkey::key::{KeyPart, KeyReadError, KeyReader, KeyWriter, PartFormat};
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
    /// Whether a template may ask for `{part:desc}`; [`PartFormat::descending`] is never set if not.
    const DESCENDING: bool = false;

    /// Whether a template may ask for `{part:6}`; [`PartFormat::width`] is never set if not.
    const WIDTH: bool = false;

    /// Whether it is one text, written by a single [`KeyWriter::text`], which escapes the separator
    /// itself. The template of an index may write it in lower case, `{part:lower}`.
    const TEXT: bool = false;

    /// Whether no value's text is the beginning of another's, as of numbers, dates and GUIDs, and
    /// sorts as the value. Then a range of keys is a range of values, also if parts follow, and
    /// the service reads no other rows. Otherwise it reads a few more, which are passed over.
    const PREFIX_FREE: bool = false;

    /// Writes the value.
    fn write(&self, out: &mut KeyWriter);

    /// Reads the value that [`KeyPart::write`] wrote with the same format. Unless the part is
    /// [`TEXT`](Self::TEXT), `text` is as it was written, and `format` has no separator.
    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError>;
}

/// How the template asks for a part to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartFormat {
    /// `{id:6}`: digits of a number; without it as many as its type needs.
    pub width: Option<u8>,
    /// `{at:desc}`: largest first.
    pub descending: bool,
    /// The character that ends this part in the template; a string part escapes it.
    pub separator: Option<char>,
    /// `{email:lower}`: text in lower case, so that it is found whatever its case. It cannot be read
    /// back as it was.
    pub lower: bool,
}

impl PartFormat {
    /// `{part}` at the end of a template: no width, ascending, nothing follows.
    pub const DEFAULT: Self =
        Self { width: None, descending: false, separator: None, lower: false };
}

impl KeyPart for String {
    const TEXT: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.text(self);
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        Ok(super::read::text(text, format))
    }
}

impl KeyPart for bool {
    const DESCENDING: bool = true;
    const PREFIX_FREE: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.unsigned(u64::from(*self), 1, 1);
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        super::read::unsigned(text, format, 1, 1).map(|value| value == 1)
    }
}

macro_rules! unsigned {
    ($($part:ty: $digits:literal),*) => {$(
        impl KeyPart for $part {
            const DESCENDING: bool = true;
            const WIDTH: bool = true;
            const PREFIX_FREE: bool = true;

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
            const DESCENDING: bool = true;
            const WIDTH: bool = true;
            const PREFIX_FREE: bool = true;

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
    const DESCENDING: bool = true;
    const PREFIX_FREE: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.ticks(*self);
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        super::read::ticks(text, format)
    }
}

/// As [`DateTime`]; nanoseconds below 100 are cut off.
impl KeyPart for chrono::DateTime<Utc> {
    const DESCENDING: bool = true;
    const PREFIX_FREE: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        match DateTime::try_from(*self) {
            Ok(instant) => out.ticks(instant),
            Err(_) => out.date_out_of_range(),
        }
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        super::read::ticks(text, format).map(Into::into)
    }
}

/// 36 lower-case characters.
impl KeyPart for Guid {
    const PREFIX_FREE: bool = true;

    fn write(&self, out: &mut KeyWriter) {
        out.guid(*self);
    }

    fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        super::read::guid(text, format)
    }
}
