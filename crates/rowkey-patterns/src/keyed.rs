//! An entity together with its RowKey as it is stored.

use rowkey::entity::RowReader;
use rowkey::{DecodeError, Projection};

/// What a query of `E` is read as where the place of a row matters: reading the key from the answer
/// is exact, whatever `E` makes of it.
#[derive(Debug)]
pub(crate) struct Keyed<E> {
    pub(crate) row_key: String,
    pub(crate) entity: E,
}

impl<E: Projection> Projection for Keyed<E> {
    const COLUMNS: Option<&'static [&'static str]> = E::COLUMNS;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { row_key: row.row_key()?.to_owned(), entity: E::decode(row)? })
    }
}
