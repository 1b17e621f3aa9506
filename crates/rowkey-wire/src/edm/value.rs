//! Property values, owned and borrowed, and the names of their types. Their forms are in `forms.rs`.

use std::borrow::Cow;
use std::fmt;

use super::{DateTime, Guid};

/// The type of a property, as in the `@odata.type` annotation. With serde it is its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Type {
    /// `Edm.Binary`: up to 64 KiB of bytes, base64 on the wire.
    Binary = 0,
    /// `Edm.Boolean`.
    Boolean = 1,
    /// `Edm.DateTime`: 100 ns ticks, UTC, from 1601.
    DateTime = 2,
    /// `Edm.Double`: an IEEE 754 double, NaN and infinities included.
    Double = 3,
    /// `Edm.Guid`.
    Guid = 4,
    /// `Edm.Int32`.
    Int32 = 5,
    /// `Edm.Int64`, text on the wire.
    Int64 = 6,
    /// `Edm.String`: up to 64 KiB of UTF-16.
    String = 7,
}

impl Type {
    /// The name on the wire, such as `Edm.Int64`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Binary => "Edm.Binary",
            Self::Boolean => "Edm.Boolean",
            Self::DateTime => "Edm.DateTime",
            Self::Double => "Edm.Double",
            Self::Guid => "Edm.Guid",
            Self::Int32 => "Edm.Int32",
            Self::Int64 => "Edm.Int64",
            Self::String => "Edm.String",
        }
    }

    /// The type with this name, such as `Edm.Int64`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// All types.
    pub const ALL: [Self; 8] = [
        Self::Binary,
        Self::Boolean,
        Self::DateTime,
        Self::Double,
        Self::Guid,
        Self::Int32,
        Self::Int64,
        Self::String,
    ];

    /// A number that does not change between versions, for values that are kept as bytes.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The type with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.code() == code)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A property value. There is no null: a null property is the same as an absent one.
///
/// # JSON
///
/// With serde, a String, a Boolean and an Int32 are plain JSON values. Every other value is an
/// object with one member: the name of its type, and its text in OData. So every value is read back
/// exactly.
///
/// ```
/// # use rowkey_wire as rowkey;
/// use rowkey::edm::Value;
///
/// let values = [Value::from("5"), true.into(), 5.into(), 5_i64.into(), 5.0.into(), vec![5].into()];
/// let json = r#"["5",true,5,{"Edm.Int64":"5"},{"Edm.Double":"5.0"},{"Edm.Binary":"BQ=="}]"#;
/// assert_eq!(serde_json::to_string(&values)?, json);
/// assert_eq!(serde_json::from_str::<[Value; 6]>(json)?, values);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is the type of the same name")]
pub enum Value {
    Binary(Vec<u8>),
    Boolean(bool),
    DateTime(DateTime),
    Double(f64),
    Guid(Guid),
    Int32(i32),
    Int64(i64),
    String(String),
}

/// A value as one of another type with the same variants, given what becomes of a number and of text or bytes.
macro_rules! each {
    ($value:expr, $source:ident => $target:ident, |$v:ident| $number:expr, $text:expr) => {
        match $value {
            $source::Binary($v) => $target::Binary($text),
            $source::Boolean($v) => $target::Boolean($number),
            $source::DateTime($v) => $target::DateTime($number),
            $source::Double($v) => $target::Double($number),
            $source::Guid($v) => $target::Guid($number),
            $source::Int32($v) => $target::Int32($number),
            $source::Int64($v) => $target::Int64($number),
            $source::String($v) => $target::String($text),
        }
    };
}

impl Value {
    /// The value's type.
    pub fn edm_type(&self) -> Type {
        self.as_ref().edm_type()
    }

    /// The same value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        each!(self, Self => ValueRef, |v| *v, Cow::Borrowed(v))
    }
}

/// A property value that may borrow its text or bytes: from the response body when decoding, from
/// the caller's entity when encoding.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is the type of the same name")]
pub enum ValueRef<'a> {
    Binary(Cow<'a, [u8]>),
    Boolean(bool),
    DateTime(DateTime),
    Double(f64),
    Guid(Guid),
    Int32(i32),
    Int64(i64),
    String(Cow<'a, str>),
}

impl ValueRef<'_> {
    /// The value's type.
    pub const fn edm_type(&self) -> Type {
        match self {
            Self::Binary(_) => Type::Binary,
            Self::Boolean(_) => Type::Boolean,
            Self::DateTime(_) => Type::DateTime,
            Self::Double(_) => Type::Double,
            Self::Guid(_) => Type::Guid,
            Self::Int32(_) => Type::Int32,
            Self::Int64(_) => Type::Int64,
            Self::String(_) => Type::String,
        }
    }

    /// The same value, owned.
    pub fn into_owned(self) -> Value {
        each!(self, Self => Value, |v| v, v.into_owned())
    }
}

impl From<Value> for ValueRef<'_> {
    fn from(value: Value) -> Self {
        each!(value, Value => Self, |v| v, Cow::Owned(v))
    }
}

/// A value in formats of serde that are not self-describing.
#[derive(serde::Deserialize, serde::Serialize)]
#[serde(remote = "ValueRef", rename = "Value")]
pub(crate) enum Compact<'a> {
    Binary(#[serde(with = "crate::serial::bytes")] Cow<'a, [u8]>),
    Boolean(bool),
    DateTime(DateTime),
    Double(f64),
    Guid(Guid),
    Int32(i32),
    Int64(i64),
    String(Cow<'a, str>),
}

macro_rules! from {
    ($($source:ty => $variant:ident),* $(,)?) => {$(
        impl From<$source> for Value {
            fn from(value: $source) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from!(Vec<u8> => Binary, &[u8] => Binary, bool => Boolean, DateTime => DateTime, f64 => Double,
      Guid => Guid, i32 => Int32, i64 => Int64, String => String, &str => String);
