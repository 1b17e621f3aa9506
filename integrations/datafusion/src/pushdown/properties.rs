//! Conditions on properties, as a filter of the service that holds for all rows for which the condition holds, and maybe for others.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator as Sql;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, InListExpr, NotExpr};
use rowkey::edm::{DateTime, Guid, Value};
use rowkey::{Filter, Operator};

use super::terms;
use crate::columns::{Kind, PARTITION_KEY, ROW_KEY, from_unix_ticks};
use crate::keys::has_one_order;

/// The filter for a condition; `None` if the service cannot decide any of it.
///
/// NaN is greater than all numbers in SQL, and not in the service. So `>` is sent only for a column that `is_bounded` above, too.
pub(super) fn filter(
    condition: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    is_bounded: &dyn Fn(&str) -> bool,
) -> Option<Filter> {
    let inner = |condition| filter(condition, schema, is_bounded);
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Sql::And => match (inner(binary.left()), inner(binary.right())) {
                (Some(left), Some(right)) => Some(left.and(right)),
                (left, right) => left.or(right),
            },
            Sql::Or => {
                // Inside an alternative, another one's bound says nothing.
                let inner = |condition| filter(condition, schema, &|_| false);
                Some(inner(binary.left())?.or(inner(binary.right())?))
            }
            _ => {
                let (column, operator, value) = terms::comparison(binary)?;
                compare(column, operator, value, schema, is_bounded)
            }
        };
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let (column, values) = terms::list(list)?;
        let values = values.into_iter().filter(|value| !value.is_null());
        let each = values.map(|value| compare(column, Sql::Eq, value, schema, is_bounded));
        return each.collect::<Option<Vec<_>>>()?.into_iter().reduce(Filter::or);
    }
    if let Some(column) = boolean(condition, schema) {
        return Some(Filter::dynamic(column, Operator::Equal, true));
    }
    if let Some(not) = condition.downcast_ref::<NotExpr>() {
        let column = boolean(not.arg(), schema)?;
        return Some(Filter::dynamic(column, Operator::Equal, false));
    }
    let (column, prefix) = terms::prefix(condition)?;
    if kind(column, schema)? != Kind::Text || !has_one_order(&prefix) || prefix.is_empty() {
        return None;
    }
    Some(Filter::dynamic(column, Operator::GreaterOrEqual, prefix))
}

/// Whether a condition that must hold limits a column of numbers from above, so that it is no NaN.
pub(super) fn is_bounded_above(
    condition: &Arc<dyn PhysicalExpr>,
    column: &str,
    schema: &Schema,
) -> bool {
    let Some(binary) = condition.downcast_ref::<BinaryExpr>() else { return false };
    terms::comparison(binary).is_some_and(|(of, operator, value)| {
        of == column
            && matches!(operator, Sql::Lt | Sql::LtEq | Sql::Eq)
            && kind(of, schema) == Some(Kind::Double)
            && number(value).is_some()
    })
}

/// A column of Booleans that stands for a condition.
fn boolean<'e>(expression: &'e Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<&'e str> {
    let column = terms::column(expression)?;
    (kind(column, schema)? == Kind::Boolean).then_some(column)
}

/// The kind of a property; `None` for the keys.
fn kind(column: &str, schema: &Schema) -> Option<Kind> {
    if matches!(column, PARTITION_KEY | ROW_KEY) {
        return None;
    }
    Kind::of_field(schema.field_with_name(column).ok()?)
}

fn compare(
    column: &str,
    sql: Sql,
    value: &ScalarValue,
    schema: &Schema,
    is_bounded: &dyn Fn(&str) -> bool,
) -> Option<Filter> {
    let operator = match sql {
        Sql::Eq => Operator::Equal,
        Sql::Lt => Operator::Less,
        Sql::LtEq => Operator::LessOrEqual,
        Sql::Gt => Operator::Greater,
        Sql::GtEq => Operator::GreaterOrEqual,
        // `ne` would leave out values of other types, and `not` matches rows without the property.
        _ => return None,
    };
    let is_equality = operator == Operator::Equal;
    let is_above = matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
    Some(match kind(column, schema)? {
        Kind::Int32 | Kind::Int64 => Filter::number(column, operator, number(value)?),
        Kind::Double if is_above && !is_bounded(column) => return None,
        Kind::Double => {
            // The engine has -0.0 before 0.0, and the service has them equal.
            let operator = match operator {
                Operator::Less => Operator::LessOrEqual,
                Operator::Greater => Operator::GreaterOrEqual,
                operator => operator,
            };
            Filter::number(column, operator, number(value)?)
        }
        Kind::Text => {
            let text = terms::text(value)?;
            if !is_equality && !has_one_order(text) {
                return None;
            }
            Filter::dynamic(column, operator, text)
        }
        // The order of the text is not that of the service. Other spellings are equal to no text of the column.
        Kind::Guid => {
            let text = terms::text(value)?;
            let guid =
                text.parse::<Guid>().ok().filter(|guid| is_equality && guid.to_string() == text);
            Filter::dynamic(column, operator, guid?)
        }
        Kind::Boolean => match value {
            ScalarValue::Boolean(Some(value)) if is_equality => {
                Filter::dynamic(column, operator, *value)
            }
            _ => return None,
        },
        Kind::Binary => match value {
            ScalarValue::Binary(Some(bytes)) | ScalarValue::LargeBinary(Some(bytes))
                if is_equality =>
            {
                Filter::dynamic(column, operator, bytes.clone())
            }
            _ => return None,
        },
        Kind::Nanoseconds | Kind::Microseconds => {
            // The ticks around the instant: a time between two ticks is before one and behind the other.
            let (before, behind) = instants(value)?;
            match operator {
                // Microseconds are rounded, so several instants have the same.
                Operator::Equal => Filter::dynamic(column, Operator::GreaterOrEqual, before)
                    .and(Filter::dynamic(column, Operator::LessOrEqual, behind)),
                Operator::Less | Operator::LessOrEqual => {
                    Filter::dynamic(column, Operator::LessOrEqual, behind)
                }
                _ => Filter::dynamic(column, Operator::GreaterOrEqual, before),
            }
        }
    })
}

/// A literal that is a number.
fn number(value: &ScalarValue) -> Option<Value> {
    let whole = |value: Option<i64>| value.map(Value::Int64);
    match value {
        ScalarValue::Int8(value) => whole(value.map(i64::from)),
        ScalarValue::Int16(value) => whole(value.map(i64::from)),
        ScalarValue::Int32(value) => whole(value.map(i64::from)),
        ScalarValue::Int64(value) => whole(*value),
        ScalarValue::UInt8(value) => whole(value.map(i64::from)),
        ScalarValue::UInt16(value) => whole(value.map(i64::from)),
        ScalarValue::UInt32(value) => whole(value.map(i64::from)),
        ScalarValue::UInt64(value) => whole(value.and_then(|value| i64::try_from(value).ok())),
        ScalarValue::Float32(value) => {
            value.filter(|value| !value.is_nan()).map(|value| Value::Double(value.into()))
        }
        ScalarValue::Float64(value) => value.filter(|value| !value.is_nan()).map(Value::Double),
        _ => None,
    }
}

/// The instants that the service can store around a time, at least a microsecond apart from it.
fn instants(value: &ScalarValue) -> Option<(DateTime, DateTime)> {
    let nanoseconds = match value {
        ScalarValue::TimestampSecond(Some(at), _) => i128::from(*at) * 1_000_000_000,
        ScalarValue::TimestampMillisecond(Some(at), _) => i128::from(*at) * 1_000_000,
        ScalarValue::TimestampMicrosecond(Some(at), _) => i128::from(*at) * 1_000,
        ScalarValue::TimestampNanosecond(Some(at), _) => i128::from(*at),
        _ => return None,
    };
    let ticks = nanoseconds.div_euclid(100);
    Some((from_unix_ticks(ticks - 10)?, from_unix_ticks(ticks + 11)?))
}
