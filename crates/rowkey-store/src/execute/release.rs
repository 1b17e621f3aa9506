//! Releasing a claim by what is stored: whether it is that of an operation, and whether its entity still has the value.

use rowkey_client::{DynamicEntity, ETag, ErrorKind, Key, Match, Outcome, Result};

use super::announce::{Announcer, no_queue};
use super::claim::give_up;
use crate::declaring::settling::Settled;
use crate::layer::Demands;
use crate::layer::deciding::{Deciding, is_lost, is_undecodable};
use crate::row::op::{ClaimRef, mark_of};
use crate::row::{Claim, Keys};

/// Releases a claim if its entity does not have the value: a claim that the operation `op` made, or
/// one that existed when `op` released the value.
///
/// Since the program read or wrote the claim, another operation of the entity may have written it and ended
/// without a commit; then no other write releases it. That operation is decided first, as before a claim is taken
/// over.
pub(crate) async fn release(
    (table, announcer): (&Deciding, Option<&Announcer>),
    op: &Keys,
    claim: &ClaimRef,
    (demands, position): (&Demands, usize),
) -> Result<Settled> {
    let Some(found) = to_release(table, op, claim).await? else { return Ok(Settled::Done) };
    let owner = (op.0.clone(), claim.row_key.clone());
    if let Some(other) = found.undecided {
        let announcer = announcer.ok_or_else(no_queue)?;
        give_up(table, announcer, &(op.0.clone(), other)).await?;
    }
    if let Some(head) = table.row(&owner).await?
        && demands.ask(table.table(), &head, position, &claim.keys).await?
    {
        return Ok(Settled::Done);
    }
    delete(table, &claim.keys, found.etag).await
}

/// A claim that is to be released.
pub(crate) struct ToRelease {
    etag: ETag,
    /// The RowKey of the operation that wrote the claim, if that one may still be committed.
    undecided: Option<String>,
}

/// Reads a claim that an operation made or released; `None` if it is gone or another one took it over.
pub(crate) async fn to_release(
    table: &Deciding,
    op: &Keys,
    claim: &ClaimRef,
) -> Result<Option<ToRelease>> {
    let Some(found) = table.row(&claim.keys).await? else { return Ok(None) };
    let stored = Claim::read(&found.entity)?;
    if stored.owner.0 != op.0 || stored.owner.1 != claim.row_key {
        return Ok(None);
    }
    let is_known = stored.op == op.1 || claim.before.as_ref() == Some(&stored.op);
    if !is_known && claim.before.is_none() {
        // The claim is of an operation that releases it itself.
        return Ok(None);
    }
    // What wrote the head that was replaced is committed.
    let wrote_head = claim.head.is_some() && mark_of(&stored.op) == claim.head.as_deref();
    let undecided = Some(stored.op).filter(|_| !(is_known || wrote_head));
    Ok(Some(ToRelease { etag: found.etag, undecided }))
}

/// Deletes a row if it is unchanged since it was read.
pub(crate) async fn delete(table: &Deciding, keys: &Keys, etag: ETag) -> Result<Settled> {
    let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
    match table.table().delete(key, Match::ETag(etag)).await {
        Ok(()) => Ok(Settled::Done),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Settled::Done),
        Err(error) if is_lost(&error) => Ok(Settled::Pending),
        Err(error) if error.outcome() == Outcome::Unknown && !is_undecodable(&error) => {
            Ok(Settled::Pending)
        }
        Err(error) => Err(error),
    }
}
