//! The targets that the writer itself settles: what it writes, and what it knows of the rows.

use rowkey_client::table::EncodedRow;
use rowkey_client::{Blob, ETag};

use crate::layer::place::Place;
use crate::row::Keys;
use crate::row::op::Target;

/// What the writer itself does with a target.
pub(crate) struct Inline {
    pub(crate) target: Target,
    pub(crate) effect: Effect,
}

pub(crate) enum Effect {
    /// Writes a row in another partition or table, or deletes it.
    Row(RowElsewhere),
    /// Deletes a blob that the head no longer names. No head will name it again.
    Free(Blob),
}

/// A copy in another partition or table.
pub(crate) struct RowElsewhere {
    pub(crate) place: Place,
    /// The row to store; `None` deletes it.
    pub(crate) write: Option<EncodedRow>,
    pub(crate) known: Known,
    /// The index of the copy.
    pub(crate) index: &'static str,
    /// The keys of the entity.
    pub(crate) owner: Keys,
    /// The operations that wrote the replaced copy and the new one, if their marks are in the copies.
    pub(crate) marks: Option<(Option<String>, String)>,
}

/// What is known of a row elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The entity had no such row.
    New,
    /// The entity has such a row. It is read before the commit, unless its table is another one that is unavailable.
    Unread,
    Present(ETag),
    /// The row is not there, or belongs to another entity.
    Missing,
}
