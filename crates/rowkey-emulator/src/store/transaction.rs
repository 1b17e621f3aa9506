//! Entity group transactions: several changes in one partition, all or none.

use std::collections::HashSet;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

use super::table::Table;
use crate::table::wire::entity::Strictness;
use crate::table::wire::op::Change;

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
    /// matter to another.
    pub(crate) fn transact(
        &mut self,
        changes: &[Change<'_>],
        strict: Strictness,
        mut stamp: impl FnMut() -> DateTime,
    ) -> Result<Vec<DateTime>, Failed> {
        let mut stamps = Vec::with_capacity(changes.len());
        let mut before = Vec::with_capacity(changes.len());
        let mut unity = Unity::default();
        for (index, change) in changes.iter().enumerate() {
            let made = unity.check(&changes[..index], change).and_then(|()| {
                let at = stamp();
                stamps.push(at);
                self.apply(change, strict, at)
            });
            match made {
                Ok(row) => before.push(row),
                Err(rejection) => {
                    self.put_back(changes.iter().zip(before));
                    return Err(Failed { index, rejection });
                }
            }
        }
        Ok(stamps)
    }
}

/// What all changes of a transaction have in common, and each has alone.
#[derive(Default)]
struct Unity<'a> {
    /// The rows of all, once they do not ascend any more.
    row_keys: Option<HashSet<&'a str>>,
}

impl<'a> Unity<'a> {
    /// Refuses a change of another partition or table than those before it, and a second one of a
    /// row.
    fn check(&mut self, before: &'a [Change<'_>], change: &'a Change<'_>) -> Result<(), Rejection> {
        let address = &change.address;
        let [.., last] = before else { return Ok(()) };
        if last.address.partition_key != address.partition_key
            || !last.address.table.eq_ignore_ascii_case(address.table)
        {
            return Err(Rejection::new(ErrorCode::COMMANDS_IN_BATCH_ACT_ON_DIFFERENT_PARTITIONS));
        }
        // Rows that ascend, as most do, are different ones.
        if self.row_keys.is_none() && last.address.row_key < address.row_key {
            return Ok(());
        }
        let row_keys = self
            .row_keys
            .get_or_insert_with(|| before.iter().map(|change| &*change.address.row_key).collect());
        if !row_keys.insert(&address.row_key) {
            return Err(Rejection::new(ErrorCode::INVALID_DUPLICATE_ROW));
        }
        Ok(())
    }
}
