//! Values in serde formats, such as the JSON of an API.
//!
//! | type | in text formats (JSON, YAML) | in binary formats (postcard, bincode) |
//! |---|---|---|
//! | [`DateTime`] | RFC 3339 in UTC, up to seven digits of fraction | ticks |
//! | [`Type`] | its name, `"Edm.Int64"` | the same |
//! | [`ETag`], [`ErrorCode`] | its text | the same |
//! | [`Value`], String, Boolean, Int32 | text, `true`, `5` | the variant and the value |
//! | [`Value`], all others | `{"Edm.Int64":"5"}`: the type, and the value's text in OData | the variant and the value |
//!
//! [`Guid`](crate::edm::Guid) is a `uuid::Uuid`, which has its own form: 36 characters in lower case.
//!
//! serde's own error messages quote unexpected input. Values are contents of entities, so [`read`]
//! accepts any input, and its messages quote none of it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess,
    SeqAccess, Visitor,
};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::code::ErrorCode;
use crate::edm::{Compact, DateTime, Type, Value, ValueRef};
use crate::etag::ETag;
use crate::odata::Scalar;

/// Reads a value from a scalar or from the members of an object.
pub trait Read<'de>: Sized {
    /// The resulting type.
    type Value;

    /// Writes the message for unexpected input: what was expected.
    fn expected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Reads a scalar.
    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<Self::Value, E> {
        drop(scalar);
        Err(self.refuse())
    }

    /// Reads an object.
    fn members<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        drop(members);
        Err(self.refuse())
    }

    /// The error for unexpected input.
    fn refuse<E: Error>(&self) -> E {
        E::custom(Expected(self, PhantomData))
    }
}

/// Reads from a self-describing format. Error messages do not show the input.
pub fn read<'de, D: Deserializer<'de>, R: Read<'de>>(
    deserializer: D,
    read: R,
) -> Result<R::Value, D::Error> {
    deserializer.deserialize_any(Quiet(read))
}

/// The message of a [`Read`].
struct Expected<'a, 'de, R>(&'a R, PhantomData<&'de ()>);

impl<'de, R: Read<'de>> fmt::Display for Expected<'_, 'de, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expected(f)
    }
}

/// A visitor that accepts every type, so that serde never has to describe the input.
#[derive(Debug)]
pub struct Quiet<R>(pub R);

impl<'de, R: Read<'de>> DeserializeSeed<'de> for Quiet<R> {
    type Value = R::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<R::Value, D::Error> {
        read(deserializer, self.0)
    }
}

impl<'de, R: Read<'de>> Visitor<'de> for Quiet<R> {
    type Value = R::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expected(f)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<R::Value, E> {
        self.0.scalar(Scalar::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<R::Value, E> {
        self.0.scalar(Scalar::Integer(value))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<R::Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "as all that is too large for an integer")]
        let float = Scalar::Float(value as f64);
        self.0.scalar(i64::try_from(value).map_or(float, Scalar::Integer))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<R::Value, E> {
        self.visit_i128(i128::from(value))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<R::Value, E> {
        self.visit_i128(i128::try_from(value).unwrap_or(i128::MAX))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<R::Value, E> {
        self.0.scalar(Scalar::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<R::Value, E> {
        self.0.scalar(Scalar::Text(Cow::Borrowed(value)))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<R::Value, E> {
        self.0.scalar(Scalar::Text(Cow::Owned(value)))
    }

    fn visit_bytes<E: Error>(self, _: &[u8]) -> Result<R::Value, E> {
        Err(self.0.refuse())
    }

    fn visit_none<E: Error>(self) -> Result<R::Value, E> {
        self.0.scalar(Scalar::Null)
    }

    fn visit_unit<E: Error>(self) -> Result<R::Value, E> {
        self.0.scalar(Scalar::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<R::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<R::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<R::Value, A::Error> {
        self.0.members(members)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<R::Value, A::Error> {
        Err(self.0.refuse())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<R::Value, A::Error> {
        Err(self.0.refuse())
    }
}

/// A type that is text in every text format.
pub(crate) struct Text<T> {
    pub(crate) expected: &'static str,
    pub(crate) read: fn(Cow<'_, str>) -> Option<T>,
}

impl<T> Read<'_> for Text<T> {
    type Value = T;

    fn expected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.expected)
    }

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<T, E> {
        match scalar {
            Scalar::Text(text) => (self.read)(text).ok_or_else(|| self.refuse()),
            _ => Err(self.refuse()),
        }
    }
}

/// RFC 3339 in UTC with up to seven digits of fraction, `"2017-11-10T02:44:50.3846037Z"`; ticks in
/// binary formats.
impl Serialize for DateTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(self.iso().as_str())
        } else {
            serializer.serialize_i64(self.ticks())
        }
    }
}

/// Accepts the input of `str::parse`: any offset, and a fraction that is cut to 100 ns.
impl<'de> Deserialize<'de> for DateTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            let ticks = i64::deserialize(deserializer)?;
            return Self::from_ticks(ticks).map_err(D::Error::custom);
        }
        let expected = "a date and time from 1601 to 9999, such as 2017-11-10T02:44:50.3846037Z";
        read(deserializer, Text { expected, read: |text| text.parse().ok() })
    }
}

/// The code as the service writes it, `"EntityAlreadyExists"`.
impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Accepts every text, because the service adds new codes.
impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// The name, `"Edm.Int64"`.
impl Serialize for Type {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "the name of an EDM type, such as Edm.Int64";
        text(deserializer, Text { expected, read: |text| Self::from_name(&text) })
    }
}

/// The text, `"W/\"datetime'2017-11-10T02%3A46%3A53.636692Z'\""`.
impl Serialize for ETag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ETag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = |text: Cow<'_, str>| Some(Self::new(text.into_owned()));
        text(deserializer, Text { expected: "the text of an ETag", read })
    }
}

/// Reads text from every format.
fn text<'de, D: Deserializer<'de>, T>(deserializer: D, text: Text<T>) -> Result<T, D::Error> {
    if deserializer.is_human_readable() {
        return read(deserializer, text);
    }
    let found = String::deserialize(deserializer)?;
    (text.read)(Cow::Owned(found)).ok_or_else(|| text.refuse())
}

/// See [`Value`].
impl Serialize for ValueRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return Compact::serialize(self, serializer);
        }
        let text = match self {
            Self::Boolean(value) => return serializer.serialize_bool(*value),
            Self::Int32(value) => return serializer.serialize_i32(*value),
            Self::String(text) => return serializer.serialize_str(text),
            other => other.text(),
        };
        let mut typed = serializer.serialize_map(Some(1))?;
        typed.serialize_entry(self.edm_type().name(), &text)?;
        typed.end()
    }
}

/// Text, `true` or a number for a String, a Boolean and an Int32; for all other types an object
/// with one member, the type and the value's text in OData: `{"Edm.Double":"0.5"}`.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().serialize(serializer)
    }
}

/// Accepts an object for every type, and a number in it if the type is numeric:
/// `{"Edm.Double":0.5}`.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let property = Property { name: None };
        property.deserialize(deserializer)?.ok_or_else(|| property.refuse())
    }
}

/// Reads the value of a property, `None` for null, and names the property in messages.
#[derive(Clone, Copy, Debug)]
pub struct Property<'n> {
    /// The name of the property, if it is known.
    pub name: Option<&'n str>,
}

/// `serde_json` represents numbers by an object with this member if its feature
/// `arbitrary_precision` is on.
const ANY_NUMBER: &str = "$serde_json::private::Number";

impl Property<'_> {
    fn natural<E: Error>(self, scalar: &Scalar<'_>) -> Result<Option<Value>, E> {
        Ok(Some(match scalar {
            Scalar::Boolean(value) => Value::Boolean(*value),
            Scalar::Integer(value) => {
                Value::Int32(i32::try_from(*value).map_err(|_| self.refuse())?)
            }
            Scalar::Null => return Ok(None),
            Scalar::Text(text) => Value::String(text.to_string()),
            // Many programs do not distinguish 5.0 and 5, so only an Int32 is a plain number.
            Scalar::Float(_) | Scalar::Structure => return Err(self.refuse()),
        }))
    }
}

impl<'de> DeserializeSeed<'de> for Property<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if deserializer.is_human_readable() {
            read(deserializer, self)
        } else {
            Compact::deserialize(deserializer).map(|value| Some(value.into_owned()))
        }
    }
}

impl<'de> Read<'de> for Property<'_> {
    type Value = Option<Value>;

    fn expected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_property(f, self.name)?;
        f.write_str(
            "expected text, true, false, an Int32, or an object that names the type of any other value, \
             such as {\"Edm.Int64\": \"5\"}",
        )
    }

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<Option<Value>, E> {
        match scalar {
            Scalar::Text(Cow::Owned(text)) => Ok(Some(Value::String(text))),
            scalar => self.natural(&scalar),
        }
    }

    fn members<A: MapAccess<'de>>(self, mut members: A) -> Result<Option<Value>, A::Error> {
        let name: Option<String> = members.next_key()?;
        let value = match name.as_deref().map(|name| (name, Type::from_name(name))) {
            Some((_, Some(edm_type))) => {
                let typed = Typed { property: self.name, edm_type };
                Some(members.next_value_seed(Quiet(typed))?)
            }
            Some((ANY_NUMBER, None)) => {
                let number: String = members.next_value()?;
                self.natural(&any_number(&number))?
            }
            _ => return Err(self.refuse()),
        };
        match members.next_key::<IgnoredAny>()? {
            None => Ok(value),
            Some(_) => Err(self.refuse()),
        }
    }
}

/// A value with a named type.
struct Typed<'n> {
    property: Option<&'n str>,
    edm_type: Type,
}

impl<'de> Read<'de> for Typed<'_> {
    type Value = Value;

    fn expected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_property(f, self.property)?;
        write!(f, "expected a valid {}", self.edm_type)
    }

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<Value, E> {
        match scalar.value(Some(self.edm_type)) {
            Ok(Some(value)) => Ok(value.into_owned()),
            Ok(None) | Err(_) => Err(self.refuse()),
        }
    }

    fn members<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        match members.next_key::<String>()?.as_deref() {
            Some(ANY_NUMBER) => {
                let number: String = members.next_value()?;
                self.scalar(any_number(&number))
            }
            _ => Err(self.refuse()),
        }
    }
}

fn any_number(text: &str) -> Scalar<'static> {
    match text.parse() {
        Ok(integer) => Scalar::Integer(integer),
        Err(_) => text.parse().map_or(Scalar::Structure, Scalar::Float),
    }
}

fn write_property(f: &mut fmt::Formatter<'_>, name: Option<&str>) -> fmt::Result {
    name.map_or(Ok(()), |name| write!(f, "property `{name}`: "))
}

/// Bytes as such; by default serde writes a list of numbers.
pub(crate) mod bytes {
    use super::{Cow, Deserializer, Error, SeqAccess, Serializer, Visitor, fmt};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Cow<'static, [u8]>, D::Error> {
        from.deserialize_byte_buf(Bytes).map(Cow::Owned)
    }

    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = seq.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes)
        }
    }
}

#[cfg(test)]
mod tests;
