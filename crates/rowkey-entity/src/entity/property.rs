//! Values that can be a property: the eight EDM types, and types that convert to them without loss.

use std::borrow::Cow;
use std::fmt;

use chrono::Utc;
use rowkey_wire::edm::{DateTime, Guid, Type, Value, ValueRef};

/// A value that can be stored in a property.
///
/// | Rust | is stored as | also reads |
/// |---|---|---|
/// | `String` | Edm.String | |
/// | `i32`, `i16`, `i8`, `u16`, `u8` | Edm.Int32 | Edm.Int64, Edm.Double |
/// | `i64`, `u32`, `u64` (up to `i64::MAX`) | Edm.Int64 | Edm.Int32, Edm.Double |
/// | `f64`, `f32` | Edm.Double | Edm.Int32, Edm.Int64 |
/// | `bool` | Edm.Boolean | |
/// | [`DateTime`], `chrono::DateTime<Utc>` (cut to 100 ns) | Edm.DateTime | |
/// | [`Guid`] | Edm.Guid | |
/// | `Vec<u8>`, `bytes::Bytes` | Edm.Binary | |
/// | `Arc<str>`, `Box<str>`, `Cow<'static, str>` | Edm.String | |
/// | `usize`, `isize` (up to `i64::MAX`) | Edm.Int64 | Edm.Int32, Edm.Double |
/// | `chrono::DateTime<FixedOffset>` (the instant; the offset is not stored) | Edm.DateTime | |
/// | `chrono::NaiveDate` (0:00 UTC) | Edm.DateTime | |
/// | `std::time::Duration`, `chrono::TimeDelta` (nanoseconds, up to 292 years) | Edm.Int64 | Edm.Int32, Edm.Double |
/// | `Option` of these | the same, absent when `None` | the same |
///
/// `#[derive(Property)]` implements it for newtypes of these, and for enums, which are stored as
/// text or numbers.
///
/// Other programs may store a number as another type, so a number field reads every number type if
/// nothing is lost: an integer reads a Double without a fraction within ±2^53, a float reads the
/// integers that it represents exactly (`f32` rounds a Double). Any other value is an error that
/// names the property.
///
/// Implement it for a type that the derive does not fit:
///
/// ```
/// use rowkey::edm::{Type, ValueRef};
/// use rowkey::entity::PropertyError;
/// use rowkey::{DynamicEntity, Property};
///
/// /// An IPv4 address, stored as text.
/// #[derive(Debug, PartialEq)]
/// struct Address(std::net::Ipv4Addr);
///
/// impl Property for Address {
///     const TYPE: Option<Type> = Some(Type::String);
///
///     fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
///         Ok(Some(ValueRef::String(self.0.to_string().into())))
///     }
///
///     fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
///         let ValueRef::String(text) = value else {
///             return Err(PropertyError::wrong_type(Type::String, value.edm_type()));
///         };
///         text.parse().map(Self).map_err(|_| PropertyError::new("it is not an IPv4 address"))
///     }
/// }
///
/// let mut host = DynamicEntity::new("hosts", "web-1");
/// host.set("Address", "192.0.2.7");
/// assert_eq!(host.get_as::<Address>("Address")?, Address([192, 0, 2, 7].into()));
/// host.set("Address", 7);
/// let error = host.get_as::<Address>("Address").unwrap_err();
/// assert!(error.to_string().contains("it is Edm.Int32, the field takes Edm.String"));
/// # Ok::<(), rowkey::DecodeError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a table property",
    note = "use one of the eight EDM types, an `Option` of one, a newtype that derives `Property`, or `#[entity(json)]` on the field"
)]
pub trait Property: Sized {
    /// The EDM type of the stored value; `None` if it varies from value to value.
    const TYPE: Option<Type> = None;

    /// Converts to the value that the service stores; `None` leaves the property out.
    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError>;

    /// Reads a stored value.
    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError>;

    /// The value for an entity without the property; `None` if its absence is an error.
    fn absent() -> Option<Self> {
        None
    }
}

/// An error for a value that the type or the service does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyError {
    reason: Cow<'static, str>,
}

impl PropertyError {
    /// Says what is wrong, without the value.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into() }
    }

    /// The value has another EDM type than the field.
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
    const TYPE: Option<Type> = P::TYPE;

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
    const TYPE: Option<Type> = Some(Type::String);

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
    const TYPE: Option<Type> = Some(Type::Binary);

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
    const TYPE: Option<Type> = Some(Type::Binary);

    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(ValueRef::Binary(Cow::Borrowed(self))))
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        Vec::from_value(value).map(Into::into)
    }
}

impl Property for chrono::DateTime<Utc> {
    const TYPE: Option<Type> = Some(Type::DateTime);

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

/// Any value, for properties whose type varies from entity to entity.
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
            const TYPE: Option<Type> = Some(Type::$variant);

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

exact!(bool = Boolean, DateTime = DateTime, Guid = Guid);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_absent_when_none() {
        assert_eq!(None::<i32>.to_value(), Ok(None));
        assert_eq!(Option::<i32>::absent(), Some(None));
        assert_eq!(i32::absent(), None);
    }
}
