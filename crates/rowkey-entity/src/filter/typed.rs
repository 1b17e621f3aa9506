//! Compares a column, with a comparison for each type that its values may be stored as.

use rowkey_wire::edm::{DateTime, Guid, Type, Value, ValueRef};
use rowkey_wire::filter::{Filter, Operator};

use super::numbers::{self, NUMBERS, Number};
use crate::entity::PropertyError;
use crate::entity::convert;

/// How the values of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The stored type, if it is not that of the field.
    pub(super) as_type: Option<Type>,
    /// Whether no row has another type.
    pub(super) exact: bool,
}

/// The comparison `name operator value`.
pub(super) fn compare(
    name: &str,
    operator: Operator,
    value: &ValueRef<'_>,
    stored: Stored,
) -> Result<Filter, PropertyError> {
    let is_text = stored.as_type == Some(Type::String);
    let number = match value {
        ValueRef::Int32(value) => Number::Whole((*value).into()),
        ValueRef::Int64(value) => Number::Whole(*value),
        ValueRef::Double(value) => Number::Double(*value),
        ValueRef::DateTime(instant) if is_text => {
            let text = instant_text(name, operator, *instant)?;
            return Ok(or_else(text, stored, || Filter::compare(name, operator, *instant)));
        }
        ValueRef::Guid(guid) if is_text => {
            let text = guid_text(name, operator, *guid)?;
            return Ok(or_else(text, stored, || Filter::compare(name, operator, *guid)));
        }
        other => return Ok(Filter::compare(name, operator, other.clone().into_owned())),
    };
    let own = stored.as_type.unwrap_or_else(|| value.edm_type());
    if is_text {
        equality(operator, "numbers")?;
        let text = convert::store(value.clone(), Type::String)?;
        let text = Filter::compare(name, operator, text.into_owned());
        return Ok(or_else(text, stored, || any(name, operator, number, Type::Int64)));
    }
    if stored.exact {
        return Ok(numbers::compare(name, operator, number, own));
    }
    Ok(any(name, operator, number, own))
}

/// A comparison for each number type, that of most rows first.
fn any(name: &str, operator: Operator, number: Number, own: Type) -> Filter {
    let others = NUMBERS.into_iter().filter(|other| *other != own);
    let all = [own].into_iter().chain(others);
    let all = all.map(|stored| numbers::compare(name, operator, number, stored));
    let all = all.filter(|one| *one != Filter::Or(Vec::new())).reduce(Filter::or);
    all.unwrap_or_else(|| Filter::Or(Vec::new()))
}

/// Matches rows of this column's own type, and rows of the other type unless the column is exact.
fn or_else(own: Filter, stored: Stored, other: impl FnOnce() -> Filter) -> Filter {
    if stored.exact { own } else { own.or(other()) }
}

/// Refuses order comparisons of values that are stored as text.
fn equality(operator: Operator, what: &str) -> Result<(), PropertyError> {
    if matches!(operator, Operator::Equal | Operator::NotEqual) {
        return Ok(());
    }
    Err(PropertyError::new(format!(
        "{what} that are stored as Edm.String have the order of their text, not their own; compare them with \
         `is`, `ne` or `one_of`, or store them as their own type"
    )))
}

/// Texts of the same instant differ in their fraction, `09:00:00Z` and `09:00:00.000Z`, and all
/// begin with the same second. So a bound in whole seconds is exact.
fn instant_text(
    name: &str,
    operator: Operator,
    instant: DateTime,
) -> Result<Filter, PropertyError> {
    let is_second = instant.ticks() % 10_000_000 == 0;
    match operator {
        Operator::Equal | Operator::NotEqual => {}
        Operator::GreaterOrEqual | Operator::Less if is_second => {
            let text = instant.to_chrono().format("%Y-%m-%dT%H:%M:%S").to_string();
            return Ok(Filter::compare(name, operator, text));
        }
        _ => {
            return Err(PropertyError::new(
                "dates that are stored as Edm.String are compared with whole seconds alone, by `ge` and `lt`: \
                 the fractions of their texts have no fixed width",
            ));
        }
    }
    let text = convert::store(ValueRef::DateTime(instant), Type::String)?;
    Ok(Filter::compare(name, operator, text.into_owned()))
}

/// Compares with the GUID in lower case, as this program writes it, and in upper case, as other
/// programs write it.
fn guid_text(name: &str, operator: Operator, guid: Guid) -> Result<Filter, PropertyError> {
    equality(operator, "GUIDs")?;
    let lower = guid.as_hyphenated().to_string();
    let upper = lower.to_ascii_uppercase();
    let one = |text: &str| Filter::compare(name, operator, Value::from(text));
    Ok(if lower == upper {
        one(&lower)
    } else if operator == Operator::Equal {
        one(&lower).or(one(&upper))
    } else {
        one(&lower).and(one(&upper))
    })
}
