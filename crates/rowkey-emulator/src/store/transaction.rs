//! Entity group transactions: several changes in one partition, applied together or not at all.

use std::collections::HashSet;
use std::convert::Infallible;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

use super::table::{Table, Written};
use crate::op::entity::Strictness;
use crate::op::table::Change;

/// The error of a transaction, and the change that caused it.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The index of the change, from 0.
    pub(crate) index: usize,
    /// The error of the change.
    pub(crate) rejection: Rejection,
}

impl Table {
    /// Applies all `changes` or none. `stamp` returns a separate instant for each. Each is shown to
    /// `see` as it is made, even if a later one fails.
    ///
    /// All changes are to one partition, and each row is changed once, so the changes do not affect
    /// each other.
    pub(crate) fn transact(
        &mut self,
        changes: &[Change<'_>],
        strict: Strictness,
        mut stamp: impl FnMut() -> DateTime,
        see: &mut dyn FnMut(&Written<'_>),
    ) -> Result<(), Failed> {
        let mut before = Vec::with_capacity(changes.len());
        let mut check = TransactionCheck::default();
        for (index, change) in changes.iter().enumerate() {
            let made = check.check(&changes[..index], change);
            let made = made.and_then(|()| self.apply(change, strict, stamp(), see));
            match made {
                Ok(row) => before.push(row),
                Err(rejection) => {
                    for (change, before) in changes.iter().zip(before) {
                        let Ok(_) =
                            self.change::<Infallible>(&change.address, |_, _, _| Ok(before));
                    }
                    return Err(Failed { index, rejection });
                }
            }
        }
        Ok(())
    }
}

/// Checks that all changes of a transaction are to one partition of one table, and that no row is
/// changed twice.
#[derive(Default)]
struct TransactionCheck<'a> {
    /// All row keys, once they are no longer ascending.
    row_keys: Option<HashSet<&'a str>>,
}

impl<'a> TransactionCheck<'a> {
    /// Rejects a change to another partition or table, and a second change to the same row.
    fn check(&mut self, before: &'a [Change<'_>], change: &'a Change<'_>) -> Result<(), Rejection> {
        let address = &change.address;
        let [.., last] = before else { return Ok(()) };
        if last.address.partition_key != address.partition_key
            || !last.address.table.eq_ignore_ascii_case(address.table)
        {
            return Err(Rejection::new(ErrorCode::COMMANDS_IN_BATCH_ACT_ON_DIFFERENT_PARTITIONS));
        }
        // Ascending row keys, which are usual, are distinct.
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
