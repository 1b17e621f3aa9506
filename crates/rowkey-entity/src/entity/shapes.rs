//! Types of the standard library and of chrono as properties, with their stored forms. (Strings and
//! bytes, numbers and instants are in `property` and `number`.)

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use chrono::{FixedOffset, NaiveDate, NaiveTime, TimeDelta, Utc};
use rowkey_wire::edm::{DateTime, Type, ValueRef};

use super::property::{Property, PropertyError};
use crate::arg::Arg;

/// Text in other owned types.
macro_rules! texts {
    ($($property:ty),*) => {$(
        /// Stored like a `String`.
        impl Property for $property {
            const TYPE: Option<Type> = Some(Type::String);

            fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
                Ok(Some(ValueRef::String(Cow::Borrowed(self))))
            }

            fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
                match value {
                    // Copied only once, even if the response had to be unescaped.
                    ValueRef::String(Cow::Borrowed(text)) => Ok(text.to_owned().into()),
                    ValueRef::String(Cow::Owned(text)) => Ok(text.into()),
                    other => Err(PropertyError::wrong_type(Type::String, other.edm_type())),
                }
            }
        }

        impl Arg<$property> for &str {
            fn into_arg(self) -> $property {
                self.to_owned().into()
            }
        }
    )*};
}

texts!(Arc<str>, Box<str>, Cow<'static, str>);

/// Integers of pointer width, stored as 64 bits, so that the stored value does not depend on the
/// machine.
macro_rules! sizes {
    ($($property:ty as $stored:ty),*) => {$(
        #[doc = concat!("As a `", stringify!($stored), "`.")]
        impl Property for $property {
            const TYPE: Option<Type> = <$stored as Property>::TYPE;

            fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
                let stored = i64::try_from(*self).map_err(|_| {
                    PropertyError::new("the number is too large for the Int64 it is stored as")
                })?;
                Ok(Some(ValueRef::Int64(stored)))
            }

            fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
                Self::try_from(<$stored>::from_value(value)?).map_err(|_| {
                    PropertyError::new(concat!("the number does not fit ", stringify!($property)))
                })
            }
        }
    )*};
}

sizes!(usize as u64, isize as i64);

/// The instant as Edm.DateTime, truncated to 100 ns. The offset is not stored: the value is read
/// with the offset +00:00, and equals the one that was written.
impl Property for chrono::DateTime<FixedOffset> {
    const TYPE: Option<Type> = Some(Type::DateTime);

    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        instant(self.with_timezone(&Utc)).map(Some)
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        chrono::DateTime::<Utc>::from_value(value).map(Into::into)
    }
}

/// The start of the day in UTC as Edm.DateTime. An instant within a day is an error.
impl Property for NaiveDate {
    const TYPE: Option<Type> = Some(Type::DateTime);

    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        instant(self.and_time(NaiveTime::MIN).and_utc()).map(Some)
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        let instant = chrono::DateTime::<Utc>::from_value(value)?;
        if instant.time() != NaiveTime::MIN {
            let what = "it is an instant within a day, and the field takes dates, which are stored as 0:00 UTC";
            return Err(PropertyError::new(what));
        }
        Ok(instant.date_naive())
    }
}

fn instant(at: chrono::DateTime<Utc>) -> Result<ValueRef<'static>, PropertyError> {
    match DateTime::try_from(at) {
        Ok(instant) => Ok(ValueRef::DateTime(instant)),
        Err(error) => Err(PropertyError::new(error.to_string())),
    }
}

const TOO_LONG: &str = "the duration is longer than the nanoseconds of an Int64, 292 years";

/// Nanoseconds as Edm.Int64, up to 292 years.
impl Property for Duration {
    const TYPE: Option<Type> = Some(Type::Int64);

    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        let nanos = i64::try_from(self.as_nanos()).map_err(|_| PropertyError::new(TOO_LONG))?;
        Ok(Some(ValueRef::Int64(nanos)))
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        let nanos = u64::try_from(i64::from_value(value)?);
        nanos.map(Self::from_nanos).map_err(|_| {
            PropertyError::new("it is negative, and the field takes durations of no sign")
        })
    }
}

/// Nanoseconds as Edm.Int64, up to 292 years of either sign.
impl Property for TimeDelta {
    const TYPE: Option<Type> = Some(Type::Int64);

    fn to_value(&self) -> Result<Option<ValueRef<'_>>, PropertyError> {
        let nanos = self.num_nanoseconds().ok_or_else(|| PropertyError::new(TOO_LONG))?;
        Ok(Some(ValueRef::Int64(nanos)))
    }

    fn from_value(value: ValueRef<'_>) -> Result<Self, PropertyError> {
        i64::from_value(value).map(Self::nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored<P: Property>(value: &P) -> ValueRef<'_> {
        value.to_value().unwrap().unwrap()
    }

    fn read<P: Property>(value: ValueRef<'_>) -> Result<P, String> {
        P::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn text_of_any_owner_is_a_string() {
        let text = || ValueRef::String("é".into());
        assert_eq!(stored(&Arc::<str>::from("é")), text());
        assert_eq!(stored(&Box::<str>::from("é")), text());
        assert_eq!(stored(&Cow::<'static, str>::Borrowed("é")), text());
        assert_eq!(read::<Arc<str>>(text()), Ok("é".into()));
        assert_eq!(read::<Box<str>>(text()), Ok("é".into()));
        assert_eq!(
            read::<Cow<'static, str>>(ValueRef::String("é".to_owned().into())),
            Ok("é".into())
        );
        assert!(read::<Arc<str>>(ValueRef::Int32(1)).unwrap_err().contains("Edm.Int32"));
    }

    #[test]
    fn sizes_are_stored_as_integers_of_64_bits() {
        assert_eq!(stored(&7_usize), ValueRef::Int64(7));
        assert_eq!(stored(&-7_isize), ValueRef::Int64(-7));
        assert_eq!(read(ValueRef::Int32(7)), Ok(7_usize));
        assert!(read::<usize>(ValueRef::Int64(-1)).is_err());
        assert!(usize::MAX.to_value().is_err());
    }

    #[test]
    fn a_date_is_the_beginning_of_its_day() {
        let date = NaiveDate::from_ymd_opt(2024, 12, 31).unwrap();
        let instant = |text: &str| ValueRef::DateTime(text.parse().unwrap());
        assert_eq!(stored(&date), instant("2024-12-31T00:00:00Z"));
        assert_eq!(read(instant("2024-12-31T00:00:00Z")), Ok(date));
        let error = read::<NaiveDate>(instant("2024-12-31T00:00:00.0000001Z")).unwrap_err();
        assert!(error.contains("within a day"), "{error}");
        // The service accepts no dates before 1601.
        assert!(NaiveDate::from_ymd_opt(1600, 12, 31).unwrap().to_value().is_err());
    }

    #[test]
    fn an_instant_with_an_offset_comes_back_equal_and_in_utc() {
        let at = chrono::DateTime::parse_from_rfc3339("2024-12-31T12:34:05.1234567+02:00").unwrap();
        let instant = ValueRef::DateTime("2024-12-31T10:34:05.1234567Z".parse().unwrap());
        assert_eq!(stored(&at), instant);
        let read: chrono::DateTime<FixedOffset> = read(instant).unwrap();
        assert_eq!((read, read.offset().local_minus_utc()), (at, 0));
    }

    #[test]
    fn durations_are_nanoseconds() {
        let longest = Duration::from_nanos(i64::MAX.unsigned_abs());
        assert_eq!(stored(&Duration::from_nanos(1_500)), ValueRef::Int64(1_500));
        assert_eq!(read(ValueRef::Int64(i64::MAX)), Ok(longest));
        assert!((longest + Duration::from_nanos(1)).to_value().is_err());
        assert!(read::<Duration>(ValueRef::Int64(-1)).unwrap_err().contains("negative"));
        assert_eq!(stored(&TimeDelta::microseconds(-1)), ValueRef::Int64(-1_000));
        assert_eq!(read(ValueRef::Int64(-1_000)), Ok(TimeDelta::microseconds(-1)));
        assert!(TimeDelta::MAX.to_value().is_err());
    }
}
