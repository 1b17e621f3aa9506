//! Types of values in text: their names, and what a value without one is.

use rowkey_entity::edm::{DateTime, Guid, Type, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::row::parse;

/// The end of the names of type columns.
pub(super) const SUFFIX: &str = "@type";

/// What a value without a type is read as. A value that is empty and has no type is an absent property in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Untyped {
    /// As an error, [`ErrorKind::Untyped`].
    #[default]
    Refuse,
    /// As a String.
    AsString,
    /// As the type that the property has in the last row that names one, and as an error before that. For exports of
    /// Storage Explorer 1.40.0, which have the types in the first row only.
    AsColumn,
    /// By the look of the text: `true` and `false` are Booleans, whole numbers Int32 or Int64, other numbers Doubles,
    /// GUIDs of 36 characters Guids, and a date with a time, such as `2020-06-22T15:16:05Z`, a DateTime. All others are
    /// Strings, and so are numbers with leading zeros or a plus, such as `007`.
    Infer,
}

impl Untyped {
    /// The value of a text without a type. `column` is the last type of the property.
    pub(super) fn read(self, name: &str, column: Option<Type>, text: &str) -> Result<Value> {
        match (self, column) {
            (Self::AsString, _) => Ok(text.into()),
            (Self::Infer, _) => Ok(infer(text)),
            (Self::AsColumn, Some(edm_type)) => parse(name, edm_type, text),
            (Self::AsColumn, None) | (Self::Refuse, _) => {
                let what = format!(
                    "property `{name}`: the value has no type; choose how values without a type are read"
                );
                Err(Error::new(ErrorKind::Untyped, what))
            }
        }
    }
}

/// The type with a name, as `Int64` or `Edm.Int64`.
pub(super) fn named(property: &str, name: &str) -> Result<Type> {
    let short = name.strip_prefix("Edm.").unwrap_or(name);
    Type::ALL.into_iter().find(|known| short_name(*known) == short).ok_or_else(|| {
        let what = format!(
            "property `{property}`: its type is unknown; write one of the eight, such as Int64"
        );
        Error::new(ErrorKind::InvalidValue, what)
    })
}

/// The name without `Edm.`.
pub(super) fn short_name(edm_type: Type) -> &'static str {
    edm_type.name().strip_prefix("Edm.").unwrap_or_default()
}

fn infer(text: &str) -> Value {
    match text {
        "true" => return true.into(),
        "false" => return false.into(),
        "NaN" | "Infinity" | "-Infinity" => {
            return parse("", Type::Double, text).unwrap_or_else(|_| text.into());
        }
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let is_number = match digits {
        [b'0'] | [b'0', b'.' | b'e' | b'E', ..] => text != "-0",
        [first, ..] => matches!(first, b'1'..=b'9'),
        [] => false,
    };
    let value = if is_number {
        text.parse::<i32>()
            .map(Value::Int32)
            .or_else(|_| text.parse::<i64>().map(Value::Int64))
            .ok()
            .or_else(|| parse("", Type::Double, text).ok())
            .or_else(|| instant(text))
            .or_else(|| guid(text))
    } else {
        instant(text).or_else(|| guid(text))
    };
    value.unwrap_or_else(|| text.into())
}

fn instant(text: &str) -> Option<Value> {
    // The parser also accepts dates without a zone and with fewer digits.
    let is_whole = text.len() >= 20 && text.as_bytes()[10] == b'T';
    let instant = is_whole.then(|| text.parse::<DateTime>().ok())?;
    instant.map(Value::DateTime)
}

fn guid(text: &str) -> Option<Value> {
    (text.len() == 36).then(|| Guid::try_parse(text).ok())?.map(Value::Guid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_both_spellings() {
        for edm_type in Type::ALL {
            assert_eq!(named("A", edm_type.name()).unwrap(), edm_type);
            assert_eq!(named("A", short_name(edm_type)).unwrap(), edm_type);
        }
        for name in ["", "Edm.", "int32", "Edm.Edm.Int32", "secret"] {
            let error = named("A", name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidValue);
            assert!(error.to_string().starts_with("property `A`: its type is unknown"));
        }
    }

    #[test]
    fn text_is_inferred_only_if_it_reads_back_the_same() {
        for (text, expected) in [
            ("true", Type::Boolean),
            ("True", Type::String),
            ("0", Type::Int32),
            ("-2147483648", Type::Int32),
            ("2147483648", Type::Int64),
            ("9223372036854775808", Type::Double),
            ("0.5", Type::Double),
            ("1e-7", Type::Double),
            ("NaN", Type::Double),
            ("-0", Type::String),
            ("007", Type::String),
            ("+1", Type::String),
            ("-", Type::String),
            (".5", Type::String),
            ("1-2", Type::String),
            ("2020-06-22T15:16:05.333Z", Type::DateTime),
            ("2020-06-22", Type::String),
            ("c9da6455-213d-42c9-9a79-3e9149a57833", Type::Guid),
            ("10da6455-213d-42c9-9a79-3e9149a57833", Type::Guid),
            ("c9da6455213d42c99a793e9149a57833", Type::String),
            ("Ada", Type::String),
        ] {
            assert_eq!(infer(text).edm_type(), expected, "{text}");
        }
    }

    #[test]
    fn a_value_without_a_type_is_what_the_option_says() {
        let read = |untyped: Untyped, column| untyped.read("A", column, "5");
        assert_eq!(read(Untyped::AsString, Some(Type::Int32)).unwrap(), "5".into());
        assert_eq!(read(Untyped::AsColumn, Some(Type::Double)).unwrap(), 5.0.into());
        assert_eq!(read(Untyped::Infer, None).unwrap(), 5.into());
        for error in [read(Untyped::Refuse, Some(Type::Int32)), read(Untyped::AsColumn, None)] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Untyped);
        }
    }
}
