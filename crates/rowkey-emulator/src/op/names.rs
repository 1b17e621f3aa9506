//! The check of the names that requests give to tables.

use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

/// Rejects an invalid table name, as the service does wherever a table is named.
pub(crate) fn check_table_name(name: &str) -> Result<(), Rejection> {
    let letters = name.bytes().all(|b| b.is_ascii_alphanumeric());
    if !letters
        || name.starts_with(|c: char| c.is_ascii_digit())
        || name.eq_ignore_ascii_case("tables")
    {
        return Err(Rejection::new(ErrorCode::INVALID_RESOURCE_NAME));
    }
    if !(3..=63).contains(&name.len()) {
        return Err(Rejection::with_message(
            ErrorCode::OUT_OF_RANGE_INPUT,
            "The specified resource name length is not within the permissible limits.",
        ));
    }
    Ok(())
}
