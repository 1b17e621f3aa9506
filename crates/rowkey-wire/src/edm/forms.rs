//! The forms of a value: text, JSON, the constant of a filter and bytes; its size and its order.
//!
//! A new type is added here and in `value.rs`. All other code calls these methods, and matches only
//! the types that it treats apart.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::ops::Deref;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::size::utf16_len;
use super::{DateTime, Guid, Type, Value, ValueRef, double, json};
use crate::key;

impl Type {
    /// Whether JSON does not imply the type, so that it is annotated. A Double that JSON cannot
    /// represent is annotated, too: see [`ValueRef::is_annotated`].
    #[inline]
    pub const fn is_annotated(self) -> bool {
        !matches!(self, Self::Boolean | Self::Double | Self::Int32 | Self::String)
    }

    /// How many [bytes](ValueRef::bytes) all values have; `None` for text and Binary, which have
    /// any number.
    #[inline]
    pub const fn width(self) -> Option<usize> {
        match self {
            Self::Binary | Self::String => None,
            Self::Boolean => Some(1),
            Self::Int32 => Some(4),
            Self::DateTime | Self::Double | Self::Int64 => Some(8),
            Self::Guid => Some(16),
        }
    }

    /// Parses the text of a JSON value, without quotes and escapes.
    pub fn parse(self, text: &str) -> Option<ValueRef<'_>> {
        match self {
            Self::Binary => STANDARD.decode(text).ok().map(|bytes| ValueRef::Binary(bytes.into())),
            // Python writes `False`; .NET's reader accepts any case.
            Self::Boolean if text.eq_ignore_ascii_case("true") => Some(ValueRef::Boolean(true)),
            Self::Boolean if text.eq_ignore_ascii_case("false") => Some(ValueRef::Boolean(false)),
            Self::Boolean => None,
            Self::DateTime => text.parse::<DateTime>().ok().map(ValueRef::DateTime),
            Self::Double => double::parse(text).map(ValueRef::Double),
            Self::Guid => Guid::try_parse(text).ok().map(ValueRef::Guid),
            Self::Int32 => text.parse().ok().map(ValueRef::Int32),
            Self::Int64 => text.parse().ok().map(ValueRef::Int64),
            Self::String => Some(ValueRef::String(Cow::Borrowed(text))),
        }
    }

    /// The type of the quoted constants in a filter that have this prefix, `guid'..'`.
    pub(crate) fn of_literal(prefix: &str) -> Option<Self> {
        match prefix {
            "X" | "binary" => Some(Self::Binary),
            "datetime" => Some(Self::DateTime),
            "guid" => Some(Self::Guid),
            _ => None,
        }
    }

    /// Parses the text of a quoted constant with a prefix.
    pub(crate) fn parse_literal(self, text: &str) -> Option<Value> {
        match self {
            Self::Binary => unhex(text).map(Value::Binary),
            // The parser of `uuid` also accepts braces and URNs.
            Self::Guid if text.len() != 36 => None,
            other => other.parse(text).map(ValueRef::into_owned),
        }
    }
}

impl<'a> ValueRef<'a> {
    /// Whether the value needs a type annotation in JSON.
    #[inline]
    pub const fn is_annotated(&self) -> bool {
        match self {
            Self::Double(number) => !number.is_finite(),
            other => other.edm_type().is_annotated(),
        }
    }

    /// Appends the value as JSON, as the service writes it.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Binary(bytes) => json::binary(out, bytes),
            Self::Boolean(true) => out.extend_from_slice(b"true"),
            Self::Boolean(false) => out.extend_from_slice(b"false"),
            Self::DateTime(instant) => json::datetime(out, *instant),
            Self::Double(number) => json::double(out, *number),
            Self::Guid(guid) => json::guid(out, *guid),
            Self::Int32(number) => json::decimal(out, i64::from(*number)),
            Self::Int64(number) => json::int64(out, *number),
            Self::String(text) => {
                json::string(out, text);
            }
        }
    }

    /// The text that [`Type::parse`] reads.
    pub fn text(&self) -> Cow<'_, str> {
        if let Self::String(text) = self {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::new();
        self.write_json(&mut out);
        // Only text has escapes in JSON.
        let text = String::from_utf8(out).unwrap_or_default();
        Cow::Owned(text.trim_matches('"').to_owned())
    }

    /// Appends the value as a constant of a filter. Writing to a `String` cannot fail.
    pub fn write_literal(&self, out: &mut String) {
        let _ = match self {
            Self::Binary(bytes) => {
                out.push_str("X'");
                for byte in bytes.iter() {
                    let _ = write!(out, "{byte:02x}");
                }
                out.write_str("'")
            }
            Self::Boolean(value) => write!(out, "{value}"),
            Self::DateTime(value) => write!(out, "datetime'{value}'"),
            Self::Double(value) if value.is_nan() => out.write_str("NaN"),
            Self::Double(value) if value.is_infinite() => {
                out.write_str(if *value > 0.0 { "INF" } else { "-INF" })
            }
            Self::Double(value) => double::write_finite(*value, out),
            Self::Guid(value) => write!(out, "guid'{value}'"),
            Self::Int32(value) => write!(out, "{value}"),
            Self::Int64(value) => write!(out, "{value}L"),
            Self::String(value) => {
                out.push('\'');
                out.push_str(&value.replace('\'', "''"));
                out.write_str("'")
            }
        };
    }

    /// The bytes of the value: numbers and instants little-endian, texts in UTF-8.
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        match self {
            Self::Binary(bytes) => Bytes::Long(bytes),
            Self::Boolean(value) => Bytes::of([u8::from(*value)]),
            Self::DateTime(value) => Bytes::of(value.ticks().to_le_bytes()),
            Self::Double(value) => Bytes::of(value.to_le_bytes()),
            Self::Guid(value) => Bytes::of(value.into_bytes()),
            Self::Int32(value) => Bytes::of(value.to_le_bytes()),
            Self::Int64(value) => Bytes::of(value.to_le_bytes()),
            Self::String(text) => Bytes::Long(text.as_bytes()),
        }
    }

    /// The value of a type with these [bytes](Self::bytes); `None` if it has none.
    #[inline]
    pub fn from_bytes(edm_type: Type, bytes: &'a [u8]) -> Option<Self> {
        Some(match edm_type {
            Type::Binary => Self::Binary(Cow::Borrowed(bytes)),
            Type::Boolean => Self::Boolean(*bytes.first()? != 0),
            Type::DateTime => {
                let ticks = i64::from_le_bytes(bytes.try_into().ok()?);
                Self::DateTime(DateTime::from_ticks(ticks).ok()?)
            }
            Type::Double => Self::Double(f64::from_le_bytes(bytes.try_into().ok()?)),
            Type::Guid => Self::Guid(Guid::from_bytes(bytes.try_into().ok()?)),
            Type::Int32 => Self::Int32(i32::from_le_bytes(bytes.try_into().ok()?)),
            Type::Int64 => Self::Int64(i64::from_le_bytes(bytes.try_into().ok()?)),
            Type::String => Self::String(Cow::Borrowed(std::str::from_utf8(bytes).ok()?)),
        })
    }

    /// How many bytes the service counts for the value.
    #[expect(clippy::arithmetic_side_effects, reason = "twice the length of what is in memory")]
    pub fn size(&self) -> usize {
        match self {
            Self::Binary(bytes) => bytes.len() + 4,
            Self::String(text) => 2 * utf16_len(text) + 4,
            other => other.edm_type().width().unwrap_or_default(),
        }
    }

    /// The order in which filters compare; `None` if the types differ or a number is NaN. Texts are
    /// ordered as keys are.
    #[inline]
    pub fn compare(&self, other: &ValueRef<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Binary(a), ValueRef::Binary(b)) => Some(a.cmp(b)),
            (Self::Boolean(a), ValueRef::Boolean(b)) => Some(a.cmp(b)),
            (Self::DateTime(a), ValueRef::DateTime(b)) => Some(a.cmp(b)),
            (Self::Double(a), ValueRef::Double(b)) => a.partial_cmp(b),
            (Self::Guid(a), ValueRef::Guid(b)) => Some(a.cmp(b)),
            (Self::Int32(a), ValueRef::Int32(b)) => Some(a.cmp(b)),
            (Self::Int64(a), ValueRef::Int64(b)) => Some(a.cmp(b)),
            (Self::String(a), ValueRef::String(b)) => Some(key::compare(a, b)),
            _ => None,
        }
    }
}

/// The bytes of a value.
#[derive(Clone, Copy, Debug)]
pub enum Bytes<'a> {
    /// As many bytes as the type is wide.
    Fixed([u8; 16], usize),
    /// A text or a Binary.
    Long(&'a [u8]),
}

impl Bytes<'_> {
    #[inline]
    fn of<const N: usize>(bytes: [u8; N]) -> Self {
        let mut fixed = [0; 16];
        fixed[..N].copy_from_slice(&bytes);
        Self::Fixed(fixed, N)
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Fixed(bytes, length) => &bytes[..*length],
            Self::Long(bytes) => bytes,
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of every type.
    fn values() -> Vec<Value> {
        vec![
            Value::Binary(vec![0, 255, 7]),
            Value::Boolean(true),
            Value::DateTime("2017-11-10T02:44:50.3846037Z".parse().unwrap()),
            Value::Double(0.5),
            Value::Double(f64::NEG_INFINITY),
            Value::Guid(Guid::from_u128(42)),
            Value::Int32(-7),
            Value::Int64(i64::MIN),
            Value::String("\"größe\"'".into()),
        ]
    }

    #[test]
    fn a_value_comes_back_from_each_form() {
        for value in values() {
            let (value, edm_type) = (value.as_ref(), value.edm_type());
            assert_eq!(edm_type.parse(&value.text()).as_ref(), Some(&value));
            assert_eq!(ValueRef::from_bytes(edm_type, &value.bytes()).as_ref(), Some(&value));
            assert_eq!(Type::from_code(edm_type.code()), Some(edm_type));
            assert_eq!(Type::from_name(edm_type.name()), Some(edm_type));
            assert!(edm_type.width().is_none_or(|width| width == value.bytes().len()));
            let mut filter = "x eq ".to_owned();
            value.write_literal(&mut filter);
            let read = crate::filter::parse(&filter).unwrap();
            assert_eq!(
                read,
                crate::filter::Filter::compare(
                    "x",
                    crate::filter::Operator::Equal,
                    value.into_owned()
                )
            );
        }
    }

    #[test]
    fn only_values_of_one_type_are_ordered() {
        let values = values();
        for (at, a) in values.iter().enumerate() {
            for (other, b) in values.iter().enumerate() {
                let order = a.as_ref().compare(&b.as_ref());
                assert_eq!(order.is_some(), a.edm_type() == b.edm_type(), "{a:?} {b:?}");
                assert_eq!(order == Some(Ordering::Equal), at == other);
            }
        }
        let nan = ValueRef::Double(f64::NAN);
        assert_eq!(nan.compare(&nan), None);
    }

    #[test]
    fn codes_on_disk_do_not_change() {
        assert_eq!(Type::ALL.map(Type::code), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(Type::from_code(8), None);
    }
}
