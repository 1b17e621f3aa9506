//! What the store's decoders read, written again: for the fuzz targets, which are programs of their own.

use rowkey::{DynamicEntity, Result};

use crate::execute::announce::Notice;
use crate::plan::blob_field::reread_pointer;
use crate::plan::op::OpRow;
use crate::row::Claim;
use crate::wide;

/// Each row that `row` can be read as, as this program would write it: an op row or a void, a claim, a head
/// whose property `Image` lies in a blob.
pub fn row(row: &DynamicEntity) -> Vec<DynamicEntity> {
    let keys = (row.partition_key.clone(), row.row_key.clone());
    let op = OpRow::read(row).and_then(|op| op.row(&keys.0, &keys.1));
    let claim = Claim::read(row).map(|claim| claim.row(&keys));
    let rows: [Result<DynamicEntity>; 3] = [op, claim, reread_pointer(row)];
    rows.into_iter().filter_map(Result::ok).collect()
}

/// The text of a store's message.
pub fn message(text: &str) -> Option<String> {
    Notice::read(text).ok()?.and_then(|notice| notice.text().ok())
}

/// How many rows a wide entity with this head has; the number of a further row.
pub fn wide(row: &DynamicEntity) -> (Option<usize>, Option<usize>) {
    let rows = wide::rows_of(row).ok().flatten();
    (rows, wide::number_of(row).map(|(_, number)| number))
}
