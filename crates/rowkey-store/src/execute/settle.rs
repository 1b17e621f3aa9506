//! Settling: making rows and blobs in other places agree with the present state of an entity.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use rowkey_client::{DynamicEntity, ETag, ErrorKind, Key, Match, Outcome, Result, Table};

use super::announce::{Announcer, no_queue};
use super::claim::give_up;
use crate::contributor::settling::{Move, Settled};
use crate::layer::Demands;
use crate::layer::deciding::{Deciding, is_lost, is_undecodable};
use crate::row::op::{ClaimRef, Target, created_of, mark_of};
use crate::row::{Claim, Keys};

/// Notes made while a write is settled.
#[derive(Default)]
pub(crate) struct Noted {
    /// Whether a request may take effect later.
    pub(crate) in_doubt: bool,
    /// Targets that must not be settled again.
    pub(crate) finished: Vec<Target>,
    /// Targets that are settled in part, and where the next turn continues.
    pub(crate) moved: Vec<(Target, Move)>,
    /// The declarations of other programs that targets and claims wait for.
    pub(crate) undeclared: BTreeSet<String>,
    /// Targets at which the writer's insert met a row.
    pub(crate) met: Vec<Target>,
    /// Whether a row elsewhere was missing that another writer may be about to insert.
    pub(crate) missed: bool,
    /// Rows that must be deleted. If one does not exist, another writer may be about to insert it.
    pub(crate) coming: Vec<Target>,
}

impl Noted {
    /// Notes the targets whose rows settling did not find.
    pub(crate) fn found_none(&mut self, row_key: &str, absent: &[String]) {
        let is_absent =
            |target: &Target| target.row_key == row_key && absent.contains(&target.address);
        self.missed |= self.coming.iter().any(is_absent);
    }

    /// Whether a target is settled in part, so that another turn follows.
    pub(crate) fn goes_on(&self) -> bool {
        self.moved.iter().any(|(_, moved)| moved.ended.is_none())
    }

    /// When the first part of a target that is settled in turns was settled.
    pub(crate) fn begun(&self) -> Option<DateTime<Utc>> {
        let ended = self.moved.iter().filter_map(|(_, moved)| moved.ended.as_ref());
        ended.map(|(begun, _)| *begun).min()
    }

    /// The targets that are settled in part, each with its new address. When all have ended, they begin
    /// again: they are settled once more when no request can take effect any more.
    pub(crate) fn moves(&self) -> Vec<(&Target, &str)> {
        let goes_on = self.goes_on();
        let to = self.moved.iter().map(|(target, moved)| match &moved.ended {
            Some((_, all)) if !goes_on => (target, &**all),
            _ => (target, &*moved.to),
        });
        to.collect()
    }
}

/// Settles the targets and claims of one type.
pub(crate) trait Settler: Send + Sync {
    /// The type, as the prefix of its RowKeys.
    fn of(&self) -> &'static str;

    /// Whether the program settles the targets, or releases the claims, of a declaration.
    fn declares(&self, name: &str) -> bool;

    /// Settles the targets and claims of a write that belong to this type. `op` is the keys of the
    /// write's op row. A failure does not stop the others.
    fn settle<'a>(
        &'a self,
        op: &'a Keys,
        targets: &'a [Target],
        claims: &'a [ClaimRef],
        noted: &'a mut Noted,
    ) -> BoxFuture<'a, Result<Settled>>;
}

/// Combines two results: the first error, or both. Callers settle the rest even after an error.
pub(crate) fn both(first: Result<Settled>, second: Result<Settled>) -> Result<Settled> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok(first.and(second)),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

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

/// Reports the result of a target, and the lag of its contributor.
pub(crate) fn report(table: &Table, op: &Keys, follower: &str, settled: &Result<Settled>) {
    let account = table.account();
    let labels = [("table", table.name()), ("follower", follower)];
    let lag = created_of(&op.1).map(|created| account.clock().now() - created);
    if let Some(Ok(lag)) = lag.map(|lag| lag.to_std()) {
        account.telemetry().gauge("rowkey.store.lag", &labels, lag.as_secs_f64());
    }
    let outcome = match settled {
        Ok(Settled::Done) => "done",
        Ok(Settled::Pending) => "pending",
        Err(_) => "failed",
    };
    let [table, follower] = labels;
    let labels = [table, follower, ("outcome", outcome)];
    account.telemetry().count("rowkey.store.settled", &labels, 1);
}
