//! Conversions that a write must not make without a word: the engine makes all of them.

use arrow::datatypes::DataType;
use datafusion::common::{Result, TableReference, plan_err};

use super::{PARTITION_KEY, ROW_KEY};

/// Digits of a decimal number that a Double keeps.
const DIGITS: u8 = 15;

/// Refuses a conversion that cuts values, may round them, or is not what it seems.
pub(crate) fn unchanged(
    table: &TableReference,
    column: &str,
    from: &DataType,
    to: &DataType,
) -> Result<()> {
    if matches!(column, PARTITION_KEY | ROW_KEY) && from.is_numeric() {
        return plan_err!(
            "INSERT INTO {table} would write numbers of the type {from} as {column}, without the zeros that a key may begin with; convert them in a SELECT: \
             lpad(CAST(x AS TEXT), 6, '0'), or read a file with CREATE EXTERNAL TABLE and a column of the type TEXT"
        );
    }
    let is_binary = matches!(to, DataType::Binary | DataType::BinaryView | DataType::LargeBinary);
    if from.is_string() && is_binary {
        return plan_err!(
            "INSERT INTO {table} would write the letters of a text for the column {column}, which is Binary; convert it in a SELECT: decode(x, 'hex') or \
             decode(x, 'base64')"
        );
    }
    if (from.is_temporal() && to.is_numeric()) || (from.is_numeric() && to.is_temporal()) {
        return plan_err!(
            "INSERT INTO {table} would convert {from} to {to} for the column {column}; convert it in a SELECT, as by to_timestamp_millis(x)"
        );
    }
    let decimal = match from {
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => Some((*digits, *scale)),
        _ => None,
    };
    let has_fractions = from.is_floating() || decimal.is_some_and(|(_, scale)| scale > 0);
    if (has_fractions && to.is_integer()) || (from.is_numeric() && *to == DataType::Boolean) {
        return plan_err!(
            "INSERT INTO {table} would cut values of the type {from} to {to} for the column {column}; convert them in a SELECT, as by \
             CAST(round(x) AS BIGINT)"
        );
    }
    let is_long = matches!(from, DataType::Int64 | DataType::UInt64)
        || decimal.is_some_and(|(digits, _)| digits > DIGITS);
    if is_long && *to == DataType::Float64 {
        return plan_err!(
            "INSERT INTO {table} would round values of the type {from} that have more than {DIGITS} digits to {to} for the column {column}; \
             convert them in a SELECT, by CAST(x AS DOUBLE)"
        );
    }
    Ok(())
}
