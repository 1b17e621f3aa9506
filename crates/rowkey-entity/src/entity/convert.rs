//! Stores values as another type than their own, `#[entity(as = "Int32")]`.

use std::borrow::Cow;

use chrono::SecondsFormat;
use rowkey_wire::edm::{DateTime, Guid, Type, ValueRef};

use super::number::whole_double;
use super::property::{Property, PropertyError};

/// Converts the value to `stored` without loss.
pub(crate) fn store(value: ValueRef<'_>, stored: Type) -> Result<ValueRef<'_>, PropertyError> {
    let own = value.edm_type();
    if own == stored {
        return Ok(value);
    }
    let whole = match &value {
        ValueRef::Int32(value) => Some(i64::from(*value)),
        ValueRef::Int64(value) => Some(*value),
        ValueRef::Double(value) => whole_double(*value),
        ValueRef::DateTime(instant) if stored == Type::String => {
            // The form that serde writes for chrono's dates: a fraction of 0, 3, 6 or 9 digits.
            let text = instant.to_chrono().to_rfc3339_opts(SecondsFormat::AutoSi, true);
            return Ok(ValueRef::String(Cow::Owned(text)));
        }
        ValueRef::Guid(guid) if stored == Type::String => {
            return Ok(ValueRef::String(Cow::Owned(guid.as_hyphenated().to_string())));
        }
        _ => None,
    };
    let converted = whole.and_then(|whole| match stored {
        Type::Int32 => i32::try_from(whole).ok().map(ValueRef::Int32),
        Type::Int64 => Some(ValueRef::Int64(whole)),
        Type::Double => double(whole).map(ValueRef::Double),
        Type::String if own != Type::Double => {
            Some(ValueRef::String(Cow::Owned(whole.to_string())))
        }
        _ => None,
    });
    converted.ok_or_else(|| {
        PropertyError::new(format!(
            "it is {own} and stored as {stored}, which does not have this value; name another type with \
             `#[entity(as = \"..\")]` on the field, or give it a value that fits"
        ))
    })
}

/// The number as a Double, if every integer field reads it back as the same number.
fn double(whole: i64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "it is checked below")]
    let double = whole as f64;
    (whole_double(double) == Some(whole)).then_some(double)
}

/// Reads a field that is stored as `stored`. Values of the field's own types are accepted as well.
pub(crate) fn load<P: Property>(value: ValueRef<'_>, stored: Type) -> Result<P, PropertyError> {
    let text = match &value {
        ValueRef::String(text) if stored == Type::String => text,
        _ => return P::from_value(value),
    };
    let (own, what) = match P::TYPE {
        Some(Type::Int32 | Type::Int64) => {
            (integer(text).map(ValueRef::Int64), "a whole number in decimal digits")
        }
        Some(Type::DateTime) => (instant(text).map(ValueRef::DateTime), "an RFC 3339 date"),
        Some(Type::Guid) => (guid(text).map(ValueRef::Guid), "a hyphenated GUID"),
        _ => return P::from_value(value),
    };
    let own = own.ok_or_else(|| PropertyError::new(format!("its text is not {what}")))?;
    P::from_value(own)
}

/// Parses an integer in canonical form: no sign except `-`, no leading zeros.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = match digits.as_bytes() {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_canonical { text.parse().ok() } else { None }
}

fn instant(text: &str) -> Option<DateTime> {
    let instant = chrono::DateTime::parse_from_rfc3339(text).ok()?;
    DateTime::try_from(instant.to_utc()).ok()
}

fn guid(text: &str) -> Option<Guid> {
    if text.len() == 36 { Guid::try_parse(text).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ValueRef<'_> {
        ValueRef::String(Cow::Borrowed(text))
    }

    #[test]
    fn a_number_is_stored_as_another_type_if_that_has_it_exactly() {
        let most = 9_007_199_254_740_992_i64;
        for (value, stored, expected) in [
            (ValueRef::Int64(5), Type::Int32, ValueRef::Int32(5)),
            (ValueRef::Int32(-5), Type::Int64, ValueRef::Int64(-5)),
            (ValueRef::Int64(most), Type::Double, ValueRef::Double(9_007_199_254_740_992.0)),
            (ValueRef::Double(-7.0), Type::Int32, ValueRef::Int32(-7)),
            (ValueRef::Double(1e12), Type::Int64, ValueRef::Int64(1_000_000_000_000)),
            (ValueRef::Int64(i64::MIN), Type::String, text("-9223372036854775808")),
            (ValueRef::Double(0.5), Type::Double, ValueRef::Double(0.5)),
        ] {
            assert_eq!(store(value, stored), Ok(expected));
        }
        for (value, stored) in [
            (ValueRef::Int64(1 << 31), Type::Int32),
            (ValueRef::Int64(most + 1), Type::Double),
            (ValueRef::Int64(i64::MAX), Type::Double),
            (ValueRef::Int64(1 << 60), Type::Double),
            (ValueRef::Double(0.5), Type::Int64),
            (ValueRef::Double(f64::NAN), Type::Int32),
            (ValueRef::Double(1e300), Type::Int64),
            (ValueRef::Double(5.0), Type::String),
        ] {
            let error = store(value.clone(), stored).unwrap_err().to_string();
            assert!(error.contains(value.edm_type().name()), "{error}");
            assert!(error.contains(stored.name()), "{error}");
        }
    }

    #[test]
    fn dates_and_guids_are_stored_as_the_text_that_serde_makes_of_them() {
        let instant: DateTime = "2026-11-20T09:00:00Z".parse().unwrap();
        let stored = store(ValueRef::DateTime(instant), Type::String);
        assert_eq!(stored, Ok(text("2026-11-20T09:00:00Z")));
        for fraction in ["2026-11-20T09:00:00.120Z", "2026-11-20T09:00:00.123456700Z"] {
            let instant = instant_of(fraction);
            assert_eq!(store(ValueRef::DateTime(instant), Type::String), Ok(text(fraction)));
        }
        let guid: Guid = "C9DA6455-213D-42C9-9A79-3E9149A57833".parse().unwrap();
        let stored = store(ValueRef::Guid(guid), Type::String);
        assert_eq!(stored, Ok(text("c9da6455-213d-42c9-9a79-3e9149a57833")));
    }

    fn instant_of(text: &str) -> DateTime {
        instant(text).unwrap()
    }

    #[test]
    fn text_is_read_as_what_it_was_written_for() {
        assert_eq!(load::<i64>(text("-12"), Type::String), Ok(-12));
        assert_eq!(load::<Option<u8>>(text("255"), Type::String), Ok(Some(255)));
        assert_eq!(load::<i64>(ValueRef::Int32(4), Type::String), Ok(4), "as it reads anyway");
        assert_eq!(load::<i64>(ValueRef::Double(4.0), Type::Int32), Ok(4));
        for wrong in
            ["", "-", "-0", "00", "05", "+5", " 5", "5.0", "1e3", "9223372036854775808", "５"]
        {
            let error = load::<i64>(text(wrong), Type::String).unwrap_err().to_string();
            assert_eq!(error, "its text is not a whole number in decimal digits");
        }
        assert!(load::<u8>(text("256"), Type::String).is_err());
        assert!(load::<i64>(text("5"), Type::Int64).is_err(), "it is not stored as text");

        let instant: DateTime = "2026-11-20T09:00:00.5Z".parse().unwrap();
        for date in ["2026-11-20T09:00:00.5Z", "2026-11-20T10:00:00.500+01:00"] {
            assert_eq!(load::<DateTime>(text(date), Type::String), Ok(instant));
        }
        assert_eq!(load::<DateTime>(ValueRef::DateTime(instant), Type::String), Ok(instant));
        assert!(load::<DateTime>(text("2026-11-20"), Type::String).is_err());
        assert!(load::<DateTime>(text("1600-01-01T00:00:00Z"), Type::String).is_err());

        let id: Guid = "c9da6455-213d-42c9-9a79-3e9149a57833".parse().unwrap();
        for spelled in
            ["c9da6455-213d-42c9-9a79-3e9149a57833", "C9DA6455-213D-42C9-9A79-3E9149A57833"]
        {
            assert_eq!(load::<Guid>(text(spelled), Type::String), Ok(id));
        }
        assert!(load::<Guid>(text("c9da6455213d42c99a793e9149a57833"), Type::String).is_err());
    }
}
