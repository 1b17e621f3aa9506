//! Claiming values before a commit.

use rowkey_client::rounds::Rounds;
use rowkey_client::{DynamicEntity, ETag, Error, ErrorKind, Outcome, Result};

use super::announce::Announcer;
use crate::layer::deciding::{Deciding, is_lost, is_undecodable};
use crate::plan::NewClaim;
use crate::row::op::{Op, OpRow};
use crate::row::{Claim, Keys, Marked, op};

/// The decision about an operation that another program presumes dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Committed,
    /// A void exists, so the operation will never be committed.
    Void,
}

/// How often an unanswered claim is sent again.
const REPETITIONS: usize = 3;

/// Claims a value for its entity. One request if the value is free.
///
/// Fails with [`ErrorKind::AlreadyExists`] if another entity has the value. Sets `in_doubt` if a
/// request may take effect later.
pub(crate) async fn claim(
    table: &Deciding,
    announcer: &Announcer,
    new: &NewClaim,
    op: &Op,
    in_doubt: &mut bool,
) -> Result<ETag> {
    let wanted = Claim { owner: new.owner.clone(), op: op.row_key()? };
    let keys = &new.reference.keys;
    let row = wanted.row(keys);
    let mut rounds = Rounds::new(table.table(), keys);
    let mut repetitions = REPETITIONS;
    loop {
        // Not repeated by the client, which does not report unanswered attempts.
        let lost = match table.table().insert(&row).await {
            Ok(etag) => return Ok(etag),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => error,
            Err(error) => {
                *in_doubt |= error.outcome() == Outcome::Unknown;
                unanswered(error, &mut repetitions)?
            }
        };
        if let Some(found) = table.row(keys).await? {
            let claim = Claim::read(&found.entity)?;
            if claim == wanted {
                // An earlier attempt stored this claim, and its response was lost.
                return Ok(found.etag);
            }
            match take_over(table, announcer, new, &claim, &row, found.etag).await {
                Ok(Some(etag)) => return Ok(etag),
                Ok(None) => {}
                Err(error) => {
                    *in_doubt |= error.outcome() == Outcome::Unknown;
                    unanswered(error, &mut repetitions)?;
                }
            }
        }
        if !rounds.again().await {
            return Err(
                lost.advise("other writers changed the claim in every round: try again later")
            );
        }
    }
}

/// Returns the error of a request that got no answer while repetitions are left, so that the caller looks for its
/// effect. Fails with any other error.
fn unanswered(error: Error, repetitions: &mut usize) -> Result<Error> {
    if error.outcome() != Outcome::Unknown || is_undecodable(&error) || *repetitions == 0 {
        return Err(error);
    }
    *repetitions -= 1;
    Ok(error)
}

/// Replaces an existing claim if its owner does not have the value. `None` if the claim has changed
/// in the meantime.
///
/// The order matters: first decide the operation that wrote the claim, then read the head that it may
/// have written, then replace the claim under the ETag that was read before both. An owner that wants
/// the value again rewrites its claim first.
async fn take_over(
    table: &Deciding,
    announcer: &Announcer,
    new: &NewClaim,
    claim: &Claim,
    row: &DynamicEntity,
    etag: ETag,
) -> Result<Option<ETag>> {
    let is_own = claim.owner == new.owner;
    if !is_own && holds(table, new, &claim.owner).await? {
        return Err(taken(new));
    }
    let head = if is_own { table.row_as::<Marked>(&claim.owner).await? } else { None };
    if new.inserts && head.is_some() {
        // A deletion releases the claim together with the entity. An insert that took over the
        // claim before the deletion, and was committed after it, would have no claim.
        return Err(exists());
    }
    // The operation that wrote the head is committed. Another one of the same entity may be in progress.
    let mark = head.and_then(|head| head.entity.0);
    let is_decided = mark.is_some_and(|mark| op::mark_of(&claim.op) == Some(&mark));
    if !is_decided {
        give_up(table, announcer, &(claim.owner.0.clone(), claim.op.clone())).await?;
        if !is_own && holds(table, new, &claim.owner).await? {
            return Err(taken(new));
        }
        // The operation may have inserted the entity since it was looked for.
        if is_own && new.inserts && table.row_as::<Marked>(&claim.owner).await?.is_some() {
            return Err(exists());
        }
    }
    match table.table().replace((row, etag)).await {
        Ok(etag) => Ok(Some(etag)),
        Err(error) if is_lost(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Decides an operation that is presumed dead, by its op row. One request if the row exists, otherwise three:
/// a void is announced, so that a worker removes it later.
pub(crate) async fn give_up(table: &Deciding, announcer: &Announcer, ended: &Keys) -> Result<()> {
    if fate(table, ended).await?.is_some() {
        return Ok(());
    }
    announcer.announce_void(table, ended.clone()).await?;
    end(table, ended).await.map(drop)
}

async fn holds(table: &Deciding, new: &NewClaim, owner: &Keys) -> Result<bool> {
    match table.row(owner).await? {
        Some(head) => {
            let keys = &new.reference.keys;
            new.demands.ask(table.table(), &head, new.position, keys).await
        }
        None => Ok(false),
    }
}

fn exists() -> Error {
    Error::refused(ErrorKind::AlreadyExists, "an entity with these keys exists")
        .advise("read it, and use `replace_if` with its version")
}

fn taken(new: &NewClaim) -> Error {
    let what = format!("another entity has the same value of `{}`", new.index);
    Error::refused(ErrorKind::AlreadyExists, what)
        .in_index(new.index)
        .advise("write another value, or change that entity first")
}

/// Decides an operation: inserts a void at the key of its op row, unless an op row or a void exists. One
/// request, two if a row exists. `None` if that row was removed between the two requests: the operation
/// was decided and cleaned up.
pub(crate) async fn end(table: &Deciding, keys: &Keys) -> Result<Option<Fate>> {
    let void = OpRow::Void { created: table.clock().now() }.row(&keys.0, &keys.1)?;
    match table.insert(&void).await {
        Ok(_) => Ok(Some(Fate::Void)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Ok(fate(table, keys).await?.map(|(fate, _)| fate))
        }
        Err(error) => Err(error),
    }
}

/// Reads the row at the key of an operation; `None` if there is none.
pub(crate) async fn fate(table: &Deciding, keys: &Keys) -> Result<Option<(Fate, OpRow)>> {
    let Some(found) = table.row(keys).await? else { return Ok(None) };
    let row = OpRow::read(&found.entity)?;
    let fate = if matches!(row, OpRow::Void { .. }) { Fate::Void } else { Fate::Committed };
    Ok(Some((fate, row)))
}
