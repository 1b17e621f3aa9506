//! Rows that do not decode: which ones they are, and how to read the others in spite of them.

use rowkey_wire::edm::Type;
use rowkey_wire::shown;
use std::fmt;

use super::row::{DecodeError, RowReader};
use super::traits::Projection;
use crate::declaration::Declarations;

/// A row that does not decode as the type it was read as, with its keys.
///
/// `ErrorDetails::failed_rows` of the client holds the rows that made an
/// operation fail, and `Query::results` yields them together with the rows
/// that decode. It holds keys: protect it like the data. Neither its message nor its `Debug` output
/// shows them.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedRow {
    /// The PartitionKey as it is stored.
    pub partition_key: Box<str>,
    /// The RowKey as it is stored.
    pub row_key: Box<str>,
    reason: Box<str>,
}

impl FailedRow {
    /// Describes the row with these keys; `reason` says why it does not decode, and must not quote
    /// keys or values.
    ///
    /// For layers above the client that read rows in another form.
    pub fn new(
        partition_key: impl Into<Box<str>>,
        row_key: impl Into<Box<str>>,
        reason: &impl fmt::Display,
    ) -> Self {
        let reason = reason.to_string().into();
        Self { partition_key: partition_key.into(), row_key: row_key.into(), reason }
    }

    /// Describes the row that is being read.
    #[cold]
    #[doc(hidden)]
    pub fn of(row: &RowReader<'_>, error: &DecodeError) -> Self {
        let (partition_key, row_key) = (row.partition_key(), row.row_key());
        Self::new(partition_key.unwrap_or_default(), row_key.unwrap_or_default(), error)
    }
}

impl fmt::Display for FailedRow {
    /// Says why the row does not decode, without its keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

shown! {
    /// Does not show the keys.
    FailedRow: reason
}

impl std::error::Error for FailedRow {}

/// Reads a row as a value if it decodes, and as a [`FailedRow`] if not, for
/// `Query::results`.
impl<P: Projection> Projection for Result<P, FailedRow> {
    const COLUMNS: Option<&'static [&'static str]> = P::COLUMNS;
    const TYPES: &'static [(&'static str, Option<Type>)] = P::TYPES;
    const DECLARED: Declarations = P::DECLARED;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        match P::decode(row) {
            Ok(value) => Ok(Ok(value)),
            Err(error) if error.is_index_copy() => Err(error),
            Err(error) => Ok(Err(FailedRow::of(row, &error))),
        }
    }
}
