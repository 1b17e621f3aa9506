//! Decodes and encodes the store's formats, for the fuzz targets, which are separate programs.

use rowkey_client::{DynamicEntity, Result};

use crate::execute::announce::Notice;
use crate::layer::wide;
use crate::row::Claim;
use crate::row::blob_pointer::reread_pointer;
use crate::row::op::OpRow;

/// Returns the encoding of everything that `row` can be decoded as: an op row or a void, a claim, a head
/// whose property `Image` is in a blob.
pub fn row(row: &DynamicEntity) -> Vec<DynamicEntity> {
    let keys = (row.partition_key.clone(), row.row_key.clone());
    let op = OpRow::read(row).and_then(|op| op.row(&keys.0, &keys.1));
    let claim = Claim::read(row).map(|claim| claim.row(&keys));
    let rows: [Result<DynamicEntity>; 3] = [op, claim, reread_pointer(row)];
    rows.into_iter().filter_map(Result::ok).collect()
}

/// Decodes and encodes the text of a store's message.
pub fn message(text: &str) -> Option<String> {
    Notice::read(text).ok()?.and_then(|notice| notice.text().ok())
}

/// Returns the number of rows of a wide entity with this head, and the number of a further row.
pub fn wide(row: &DynamicEntity) -> (Option<usize>, Option<usize>) {
    let rows = wide::rows_of(row).ok().flatten();
    (rows, wide::number_of(row).map(|(_, number)| number.number))
}
