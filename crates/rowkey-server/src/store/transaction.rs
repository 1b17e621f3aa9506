//! Entity group transactions: several changes in one partition, all or none.

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::odata::parse::Strictness;
use rowkey_wire::table::op::Change;

use super::table::Table;

/// Why a transaction was not made, and which of its changes was the reason.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The place of the change, from 0.
    pub(crate) index: usize,
    /// What the change was answered.
    pub(crate) rejection: Rejection,
}

impl Table {
    /// Makes all `changes`, or none. `stamp` gives each its own instant.
    ///
    /// All are of one partition, and each row is changed once, so what one change does cannot
    /// matter to another: all are staged against the table as it is.
    pub(crate) fn transact(
        &mut self,
        changes: &[Change<'_>],
        strict: Strictness,
        mut stamp: impl FnMut() -> DateTime,
    ) -> Result<Vec<DateTime>, Failed> {
        let mut staged = Vec::with_capacity(changes.len());
        let mut stamps = Vec::with_capacity(changes.len());
        for (index, change) in changes.iter().enumerate() {
            let failed = |rejection| Failed { index, rejection };
            check_unity(&changes[..index], change).map_err(failed)?;
            let at = stamp();
            staged.push(self.stage(change, strict, at).map_err(failed)?);
            stamps.push(at);
        }
        for change in staged {
            self.commit(change);
        }
        Ok(stamps)
    }
}

/// Refuses a change of another partition or table than the first, and a second one of a row.
fn check_unity(earlier: &[Change<'_>], change: &Change<'_>) -> Result<(), Rejection> {
    let Some(first) = earlier.first() else { return Ok(()) };
    if first.address.partition_key != change.address.partition_key
        || !first.address.table.eq_ignore_ascii_case(change.address.table)
    {
        return Err(Rejection::new(ErrorCode::COMMANDS_IN_BATCH_ACT_ON_DIFFERENT_PARTITIONS));
    }
    if earlier.iter().any(|other| other.address.row_key == change.address.row_key) {
        return Err(Rejection::new(ErrorCode::INVALID_DUPLICATE_ROW));
    }
    Ok(())
}
