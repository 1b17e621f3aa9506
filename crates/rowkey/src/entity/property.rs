//! Values that can be a property: the eight EDM types, and what converts to them without loss.

use std::borrow::Cow;
use std::fmt;

use chrono::Utc;
use rowkey_wire::edm::{DateTime, Guid, Type, Value, ValueRef};

/// A value that can be stored in a property.
///
/// | Rust | EDM |
/// |---|---|
/// | `String` | Edm.String |
/// | `i32`, `i16`, `i8`, `u16`, `u8` | Edm.Int32 |
/// | `i64`, `u32`, `u64` (up to `i64::MAX`) | Edm.Int64 |
/// | `f64`, `f32` | Edm.Double |
/// | `bool` | Edm.Boolean |
/// | [`DateTime`], `chrono::DateTime<Utc>` (cut to 100 ns) | Edm.DateTime |
/// | [`Guid`] | Edm.Guid |
/// | `Vec<u8>`, `bytes::Bytes` | Edm.Binary |
/// | `Option` of these | the same, absent when `None` |
///
/// `#[derive(Property)]` implements it for newtypes of these and for enums without fields.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a table property",
    note = "use one of the eight EDM types, an `Option` of one, a newtype that derives `Property`, or `#[entity(json)]` on the field"
)]
pub trait Property: Sized {
    /// The value as the service stores it; `None` leaves the property out.
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError>;

    /// Reads a stored value.
    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError>;

    /// What an entity without the property means; `None` if that is an error.
    fn absent() -> Option<Self> {
        None
    }
}

/// A value that the type cannot take, or the service cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyError {
    reason: Cow<'static, str>,
}

impl PropertyError {
    /// Says what is wrong, without the value.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into() }
    }

    /// A value of another EDM type than the field's.
    pub fn wrong_type(expected: Type, found: Type) -> Self {
        Self::new(format!("it is {found}, the field takes {expected}"))
    }

    pub(crate) fn reason(&self) -> String {
        self.reason.to_string()
    }
}

impl fmt::Display for PropertyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for PropertyError {}

impl<P: Property> Property for Option<P> {
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        self.as_ref().map_or(Ok(None), P::to_value)
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        P::from_value(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl Property for String {
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(ValueRef::String(Cow::Borrowed(self))))
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        match value {
            ValueRef::String(text) => Ok(text.into_owned()),
            other => Err(PropertyError::wrong_type(Type::String, other.edm_type())),
        }
    }
}

impl Property for Vec<u8> {
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(ValueRef::Binary(Cow::Borrowed(self))))
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        match value {
            ValueRef::Binary(bytes) => Ok(bytes.into_owned()),
            other => Err(PropertyError::wrong_type(Type::Binary, other.edm_type())),
        }
    }
}

impl Property for bytes::Bytes {
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(ValueRef::Binary(Cow::Borrowed(self))))
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        Vec::from_value(value).map(Into::into)
    }
}

impl Property for chrono::DateTime<Utc> {
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        match DateTime::try_from(*self) {
            Ok(instant) => Ok(Some(ValueRef::DateTime(instant))),
            Err(error) => Err(PropertyError::new(error.to_string())),
        }
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        DateTime::from_value(value).map(Into::into)
    }
}

/// Any value, for properties whose type differs from entity to entity.
impl Property for Value {
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(self.as_ref()))
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        Ok(value.into_owned())
    }
}

macro_rules! exact {
    ($($property:ty = $variant:ident),*) => {$(
        impl Property for $property {
            fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
                Ok(Some(ValueRef::$variant(*self)))
            }

            fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
                match value {
                    ValueRef::$variant(value) => Ok(value),
                    other => Err(PropertyError::wrong_type(Type::$variant, other.edm_type())),
                }
            }
        }
    )*};
}

exact!(bool = Boolean, DateTime = DateTime, Guid = Guid, i32 = Int32, i64 = Int64);

impl Property for f64 {
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(ValueRef::Double(*self)))
    }

    /// Reads an Int32, too: nothing is lost, and an emulator that is widely used writes whole
    /// doubles as integers.
    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        match value {
            ValueRef::Double(value) => Ok(value),
            ValueRef::Int32(value) => Ok(value.into()),
            other => Err(PropertyError::wrong_type(Type::Double, other.edm_type())),
        }
    }
}

/// Integers that are stored in a wider one.
macro_rules! widened {
    ($($property:ty => $stored:ty: $variant:ident),*) => {$(
        impl Property for $property {
            fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
                <$stored>::try_from(*self).map(|value| Some(ValueRef::$variant(value))).map_err(|_| {
                    PropertyError::new(concat!(
                        "the number is too large for the ", stringify!($variant), " it is stored as"
                    ))
                })
            }

            fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
                Self::try_from(<$stored>::from_value(value)?).map_err(|_| {
                    PropertyError::new(concat!("the number does not fit ", stringify!($property)))
                })
            }
        }
    )*};
}

widened!(i8 => i32: Int32, i16 => i32: Int32, u8 => i32: Int32, u16 => i32: Int32,
         u32 => i64: Int64, u64 => i64: Int64);

impl Property for f32 {
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(ValueRef::Double(f64::from(*self))))
    }

    /// Rounds to the nearest `f32`; what an `f32` wrote comes back exactly.
    #[expect(clippy::cast_possible_truncation, reason = "the nearest f32 is what is asked for")]
    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        f64::from_value(value).map(|value| value as Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_its_stored_type_is_refused_and_not_wrapped() {
        assert!(u64::MAX.to_value().is_err());
        assert_eq!((i64::MAX as u64).to_value().unwrap(), Some(ValueRef::Int64(i64::MAX)));
        assert!(u8::from_value(ValueRef::Int32(256)).is_err());
        assert!(u32::from_value(ValueRef::Int64(-1)).is_err());
    }

    #[test]
    fn another_type_is_an_error_that_names_both() {
        let error = i64::from_value(ValueRef::Int32(5)).unwrap_err();
        assert_eq!(error.to_string(), "it is Edm.Int32, the field takes Edm.Int64");
    }

    #[test]
    fn an_option_is_absent_when_none() {
        assert_eq!(None::<i32>.to_value(), Ok(None));
        assert_eq!(Option::<i32>::absent(), Some(None));
        assert_eq!(i32::absent(), None);
    }
}
