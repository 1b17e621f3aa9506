//! Numbers as properties: each type reads every stored number that it represents exactly.

use rowkey_wire::edm::{Type, ValueRef};

use super::property::{Property, PropertyError};

/// The limit of exact Doubles: beyond it, one Double may stand for several integers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The integer that equals a stored number of another type.
#[cold]
fn whole(value: &ValueRef<'_>, field: Type) -> Result<i64, PropertyError> {
    match value {
        ValueRef::Int32(value) => Ok(i64::from(*value)),
        ValueRef::Int64(value) => Ok(*value),
        ValueRef::Double(value) => whole_double(*value).ok_or_else(|| {
            PropertyError::new(
                "it is an Edm.Double with a fraction or beyond ±2^53, and the field takes whole numbers",
            )
        }),
        other => Err(PropertyError::wrong_type(field, other.edm_type())),
    }
}

/// The integer that equals a Double, if the Double is whole and within ±2^53.
#[expect(clippy::cast_possible_truncation, reason = "it is whole and within ±2^53")]
pub(super) fn whole_double(value: f64) -> Option<i64> {
    (value.abs() <= EXACT && value.fract() == 0.0).then_some(value as i64)
}

/// Whether a float with this many binary digits represents `value` exactly.
fn has_digits(value: i64, digits: u32) -> bool {
    let magnitude = value.unsigned_abs();
    magnitude >> magnitude.trailing_zeros().min(63) < 1 << digits
}

/// The Double that equals a stored integer, for a float type with this many binary digits.
#[cold]
fn float(value: &ValueRef<'_>, digits: u32, field: &str) -> Result<f64, PropertyError> {
    let (value, found) = match value {
        ValueRef::Int32(value) => (i64::from(*value), Type::Int32),
        ValueRef::Int64(value) => (*value, Type::Int64),
        other => return Err(PropertyError::wrong_type(Type::Double, other.edm_type())),
    };
    if !has_digits(value, digits) {
        let what = format!("it is an {found} that no {field} represents exactly");
        return Err(PropertyError::new(what));
    }
    #[expect(clippy::cast_precision_loss, reason = "it has no more digits than the type")]
    let value = value as f64;
    Ok(value)
}

macro_rules! integers {
    ($($property:ty => $variant:ident),*) => {$(
        impl Property for $property {
            const TYPE: Option<Type> = Some(Type::$variant);

            fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
                (*self).try_into().map(|value| Some(ValueRef::$variant(value))).map_err(|_| {
                    PropertyError::new(concat!(
                        "the number is too large for the ", stringify!($variant), " it is stored as"
                    ))
                })
            }

            fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
                let number = match value {
                    ValueRef::$variant(value) => value.try_into().ok(),
                    other => whole(&other, Type::$variant)?.try_into().ok(),
                };
                number.ok_or_else(|| {
                    PropertyError::new(concat!("the number does not fit ", stringify!($property)))
                })
            }
        }
    )*};
}

integers!(i8 => Int32, i16 => Int32, i32 => Int32, u8 => Int32, u16 => Int32,
          i64 => Int64, u32 => Int64, u64 => Int64);

impl Property for f64 {
    const TYPE: Option<Type> = Some(Type::Double);

    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(ValueRef::Double(*self)))
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        match value {
            ValueRef::Double(value) => Ok(value),
            other => float(&other, Self::MANTISSA_DIGITS, "f64"),
        }
    }
}

impl Property for f32 {
    const TYPE: Option<Type> = Some(Type::Double);

    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(ValueRef::Double(f64::from(*self))))
    }

    /// Rounds a Double to the nearest `f32`; a value that was written as an `f32` is read back
    /// exactly.
    #[expect(clippy::cast_possible_truncation, reason = "the nearest f32 is what is asked for")]
    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        match value {
            ValueRef::Double(value) => Ok(value as Self),
            other => float(&other, Self::MANTISSA_DIGITS, "f32").map(|value| value as Self),
        }
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
        let error = i64::from_value(ValueRef::Boolean(true)).unwrap_err();
        assert_eq!(error.to_string(), "it is Edm.Boolean, the field takes Edm.Int64");
    }

    #[test]
    fn integers_read_every_number_that_is_exactly_one() {
        for value in [ValueRef::Int32(-5), ValueRef::Int64(-5), ValueRef::Double(-5.0)] {
            assert_eq!(i8::from_value(value.clone()), Ok(-5), "{value:?}");
            assert_eq!(i16::from_value(value.clone()), Ok(-5), "{value:?}");
            assert_eq!(i32::from_value(value.clone()), Ok(-5), "{value:?}");
            assert_eq!(i64::from_value(value.clone()), Ok(-5), "{value:?}");
            assert!(u8::from_value(value.clone()).is_err(), "{value:?}");
            assert!(u16::from_value(value.clone()).is_err(), "{value:?}");
            assert!(u32::from_value(value.clone()).is_err(), "{value:?}");
            assert!(u64::from_value(value).is_err());
        }
        for value in [ValueRef::Int32(200), ValueRef::Int64(200), ValueRef::Double(200.0)] {
            assert_eq!(u8::from_value(value.clone()), Ok(200), "{value:?}");
            assert_eq!(u16::from_value(value.clone()), Ok(200), "{value:?}");
            assert_eq!(u32::from_value(value.clone()), Ok(200), "{value:?}");
            assert_eq!(u64::from_value(value.clone()), Ok(200), "{value:?}");
            assert!(i8::from_value(value).is_err());
        }
        assert!(i32::from_value(ValueRef::Int64(1 << 31)).is_err());
        assert_eq!(i64::from_value(ValueRef::Double(-0.0)), Ok(0));
    }

    #[test]
    fn a_double_is_an_integer_up_to_2_to_the_53_and_without_a_fraction() {
        let most = 9_007_199_254_740_992_i64;
        assert_eq!(i64::from_value(ValueRef::Double(9_007_199_254_740_992.0)), Ok(most));
        assert_eq!(i64::from_value(ValueRef::Double(-9_007_199_254_740_992.0)), Ok(-most));
        for number in [0.5, -1e-300, 9_007_199_254_740_994.0, f64::INFINITY, f64::NAN, 1e300] {
            let error = i64::from_value(ValueRef::Double(number)).unwrap_err().to_string();
            let expected = "it is an Edm.Double with a fraction or beyond ±2^53, and the field takes \
                            whole numbers";
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn doubles_read_the_integers_that_they_represent_exactly() {
        let read = |value| f64::from_value(ValueRef::Int64(value));
        assert_eq!(f64::from_value(ValueRef::Int32(i32::MIN)), Ok(-2_147_483_648.0));
        assert_eq!(read(9_007_199_254_740_992), Ok(9_007_199_254_740_992.0));
        assert_eq!(read(9_007_199_254_740_994), Ok(9_007_199_254_740_994.0));
        assert_eq!(read(i64::MIN), Ok(-9_223_372_036_854_775_808.0));
        assert_eq!(read(0), Ok(0.0));
        for value in [9_007_199_254_740_993, i64::MAX, i64::MIN + 1] {
            let error = read(value).unwrap_err().to_string();
            assert_eq!(error, "it is an Edm.Int64 that no f64 represents exactly");
        }
        assert_eq!(f32::from_value(ValueRef::Int32(1 << 24)), Ok(16_777_216.0));
        assert_eq!(f32::from_value(ValueRef::Int64(-3 << 40)), Ok(-3_298_534_883_328.0));
        let error = f32::from_value(ValueRef::Int32((1 << 24) + 1)).unwrap_err().to_string();
        assert_eq!(error, "it is an Edm.Int32 that no f32 represents exactly");
        assert_eq!(f32::from_value(ValueRef::Double(0.1)), Ok(0.1), "the nearest");
    }
}
