//! Settling by the writer itself: one conditional write for each row elsewhere, in transactions of those that share
//! a partition.
//!
//! The writer knows what it replaced. It looks at a row elsewhere before the commit, or wrote the row itself,
//! and afterwards replaces or deletes the row only if it is unchanged since then. A new row is inserted. If a
//! write is refused, another writer was faster, and the target is settled as a worker does it: read, read, write,
//! read.
//!
//! If a row that should exist is missing, before the commit or after it, a writer that committed before this one
//! may be about to insert it. If such a writer may exist, the op row and the message stay, and a worker
//! settles again.

use rowkey_client::internals::impatient;
use rowkey_client::{DynamicEntity, ETag, Outcome, Partition, Result};
use rowkey_patterns::internals::try_all;

use super::announce::Announcer;
use super::caused::caused_by;
use super::group::{self, READS};
use super::noted::Noted;
use super::remembered::{Remembered, Row};
use super::settler::{SettledBy, report};
use crate::declaring::settling::Settled;
use crate::layer::deciding::{Deciding, is_lost, is_undecodable};
use crate::layer::place::Place;
use crate::plan::inline::{Effect, Known, RowElsewhere};
use crate::plan::{Plan, Released};
use crate::row::op::{ClaimRef, OpRow, Target};
use crate::row::{Claim, INDEX, Keys, op, primary_keys, text};

impl RowElsewhere {
    /// Returns the `ETag` of the row, if the entity's last writer was this program.
    fn remembered(&self, rows: &Remembered<Place>) -> Option<ETag> {
        let before = self.marks.as_ref().map(|(before, _)| before);
        let found = rows.find(&self.place, &self.owner)?;
        let is_it = before.is_none_or(|before| before.is_some() && *before == found.op);
        is_it.then_some(found.etag)
    }

    /// Notes the `ETag` that a write of the row returned; `None` if it was deleted or its state is unknown.
    fn wrote(&self, rows: &Remembered<Place>, etag: Option<ETag>) {
        let Some(etag) = etag else { return rows.forget(&self.place) };
        let op = self.marks.as_ref().map(|(_, after)| after.clone());
        rows.put(self.place.clone(), Row { etag, owner: self.owner.clone(), op });
    }
}

/// Fills in what this program remembers of the rows and claims that a plan replaces or deletes. Sends nothing.
pub(crate) fn recall(announcer: &Announcer, plan: &mut Plan) {
    for inline in &mut plan.inline {
        if let Effect::Row(row) = &mut inline.effect
            && row.known == Known::Unread
            && let Some(etag) = row.remembered(&announcer.rows)
        {
            row.known = Known::Present(etag);
        }
    }
    for released in plan.released.iter_mut().filter(|released| released.etag.is_none()) {
        let claim = &mut released.reference;
        let owner = (plan.partition_key.clone(), claim.row_key.clone());
        if let Some(found) = announcer.claims.find(&claim.keys, &owner) {
            claim.before = found.op;
            released.etag = Some(found.etag);
        }
    }
}

/// Looks at the rows elsewhere that a plan replaces or deletes and that this program does not remember, before its
/// commit. One request for each, and fewer if more than two are in one partition.
pub(crate) async fn look(table: &Deciding, plan: &mut Plan) -> Result<()> {
    let rows = plan.inline.iter().enumerate().filter_map(|(at, inline)| match &inline.effect {
        Effect::Row(row) if row.known == Known::Unread => Some((at, row)),
        _ => None,
    });
    let mut unknown: Vec<_> = rows.collect();
    unknown.sort_by(|(_, one), (_, other)| one.place.table_name().cmp(other.place.table_name()));
    let by_table = unknown.chunk_by(|(_, row), (_, next)| row.place.is_beside(&next.place));
    let found = try_all(by_table.map(|rows| look_at(table, rows)), READS).await?;
    for (at, now) in found.into_iter().flatten() {
        if let Effect::Row(row) = &mut plan.inline[at].effect {
            row.known = now;
        }
    }
    Ok(())
}

/// Looks at the claims that a plan releases and that this program does not remember, before its commit. Drops those
/// that need no release. One request for each, and fewer if several are in one partition.
pub(crate) async fn look_at_claims(table: &Deciding, plan: &mut Plan) -> Result<()> {
    let unread = |released: &&Released| released.etag.is_none();
    let keys = plan.released.iter().filter(unread).map(|released| &released.reference.keys);
    let keys: Vec<_> = keys.collect();
    if keys.is_empty() {
        return Ok(());
    }
    let names = plan.released.iter().filter(unread).map(|one| &*one.reference.name);
    let rows = caused_by(names, group::read(table, &keys)).await?;
    let unread = plan.released.iter_mut().filter(|released| released.etag.is_none());
    for (released, found) in unread.zip(rows) {
        let claim = &mut released.reference;
        let Some(found) = found else { continue };
        let stored = Claim::read(&found.entity)?;
        if stored.owner.0 == plan.partition_key && stored.owner.1 == claim.row_key {
            claim.before = Some(stored.op);
            released.etag = Some(found.etag);
        }
    }
    // A claim that does not exist or belongs to another entity needs no release.
    plan.released.retain(|released| released.etag.is_some());
    Ok(())
}

/// Looks at rows of one table. If another table than that of the entities is unavailable, they stay unread: the write
/// does not wait for it, and a worker settles the rows.
async fn look_at(table: &Deciding, rows: &[(usize, &RowElsewhere)]) -> Result<Vec<(usize, Known)>> {
    let Some((_, RowElsewhere { place, .. })) = rows.first() else { return Ok(Vec::new()) };
    let keys: Vec<_> = rows.iter().map(|(_, row)| &row.place.keys).collect();
    let names = rows.iter().map(|(_, row)| row.index);
    let read = caused_by(names, group::read(place.deciding(table), &keys));
    let found = if place.is_elsewhere() { impatient(read).await } else { read.await };
    let found = match found.map_err(|error| place.named(error)) {
        Ok(found) => found,
        Err(error) if place.may_be_left(&error) => {
            tracing::debug!(%error, "rows elsewhere were not read before the commit");
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let known = rows.iter().zip(found).map(|((at, row), found)| {
        let own = found.filter(|found| {
            text(&found.entity, INDEX) == Some(row.index)
                && primary_keys(&found.entity).as_ref() == Some(&row.owner)
        });
        (*at, own.map_or(Known::Missing, |found| Known::Present(found.etag)))
    });
    Ok(known.collect())
}

/// Writes the rows elsewhere of a committed plan, in the order of its targets, until a write is refused.
/// Returns the targets that are left, without those of blobs.
pub(crate) async fn write_rows(
    table: &Deciding,
    announcer: &Announcer,
    (plan, op): (&Plan, &Keys),
    noted: &mut Noted,
) -> Result<Vec<Target>> {
    let rows = || {
        plan.inline.iter().filter_map(|inline| match &inline.effect {
            Effect::Row(row) => Some((&inline.target, row)),
            Effect::Free(_) => None,
        })
    };
    let is_free = |target: &Target| {
        let mut freed = plan.inline.iter().filter(|one| matches!(one.effect, Effect::Free(_)));
        freed.any(|one| one.target == *target)
    };
    let mut left: Vec<_> = plan.targets.iter().filter(|target| !is_free(target)).cloned().collect();
    let all: Vec<_> = rows().collect();
    let of_all: Vec<_> = all.iter().map(|(_, row)| *row).collect();
    let mut is_done = vec![false; all.len()];
    // After a refusal, the others are written one by one, to find the row that is in the way.
    let mut groups = true;
    let mut at = 0;
    while at < all.len() {
        if is_done[at] {
            at += 1;
            continue;
        }
        let sent = if groups {
            group::together(table, &of_all, &is_done, at)
        } else {
            group::operation(table, of_all[at]).map(|one| (one, vec![at]))
        };
        let Some((transaction, group)) = sent else { break };
        let names = group.iter().map(|one| of_all[*one].index);
        match caused_by(names, transaction.submit()).await {
            Ok(etags) => {
                for (one, etag) in group.into_iter().zip(etags) {
                    let (target, row) = all[one];
                    is_done[one] = true;
                    row.wrote(&announcer.rows, etag);
                    let done = Ok(Settled::Done);
                    report((table.table(), SettledBy::Writer), op, &target.declaration, &done);
                    left.retain(|other| other != target);
                }
            }
            Err(error) => {
                for one in &group {
                    of_all[*one].wrote(&announcer.rows, None);
                }
                noted.in_doubt |= error.outcome() == Outcome::Unknown;
                if is_undecodable(&error) {
                    return Err(error);
                }
                if group.len() > 1 && is_lost(&error) {
                    groups = false;
                    continue;
                }
                break;
            }
        }
    }
    // A new row that was not inserted may exist nevertheless, also if the insert was not sent because another
    // write was refused. A writer that removed the value before may be about to delete the row, so settling has to
    // write it.
    let is_new = |at: &usize| !is_done[*at] && all[*at].1.known == Known::New;
    noted.met.extend((0..all.len()).filter(is_new).map(|at| all[at].0.clone()));
    // A row that was not read may be missing, too.
    let is_missing = |known: &Known| matches!(known, Known::Missing | Known::Unread);
    let missing: Vec<_> = rows().filter(|(_, row)| is_missing(&row.known)).collect();
    // A row that has to go, was there before the commit and is gone now may come back: an earlier writer took it
    // away, and a later one is about to insert it. Settling, which reads, would find nothing to delete.
    let gone = rows().filter(|(target, row)| {
        row.write.is_none() && !is_missing(&row.known) && left.contains(target)
    });
    let gone: Vec<_> = gone.filter(|_| !noted.in_doubt).collect();
    if !(missing.is_empty() && gone.is_empty()) {
        let others = targets_of_others(table, op).await?;
        let is_named = |target: &Target| others.as_ref().is_none_or(|all| all.contains(target));
        noted.missed = missing.iter().any(|(target, _)| is_named(target));
        let coming = gone.iter().filter(|(target, _)| is_named(target));
        noted.coming = coming.map(|(target, _)| (*target).clone()).collect();
    }
    Ok(left)
}

/// Returns the targets of the unfinished operations of the partition, whose writers may be about to insert the
/// rows; `None` if they cannot be read, because a newer program wrote one. One request.
async fn targets_of_others(table: &Deciding, op: &Keys) -> Result<Option<Vec<Target>>> {
    let rows = table.query(Partition::<DynamicEntity>::new(&*op.0).prefix(op::HEAD)).all().await?;
    let mut others = Vec::new();
    for row in rows.iter().filter(|row| row.entity.row_key != op.1) {
        match OpRow::read(&row.entity) {
            Ok(OpRow::Committed { targets, .. }) => others.extend(targets),
            Ok(OpRow::Void { .. }) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(others))
}

/// Deletes the claims that a committed plan releases, if they are as they were before the commit, or as this
/// program remembers them. Returns the others.
pub(crate) async fn release(table: &Deciding, plan: &Plan) -> Result<Vec<ClaimRef>> {
    let etags = plan.released.iter().filter_map(|one| Some((&one.reference, one.etag.as_ref()?)));
    group::release(table, &etags.collect::<Vec<_>>()).await
}

/// Deletes the blobs that a committed plan frees. Returns the targets of those that could not be deleted. One request
/// for up to 256 of them.
pub(crate) async fn free(
    table: &Deciding,
    announcer: &Announcer,
    (plan, op): (&Plan, &Keys),
) -> Vec<Target> {
    let freed = plan.inline.iter().filter_map(|inline| match &inline.effect {
        Effect::Free(blob) => Some((&inline.target, blob)),
        Effect::Row(_) => None,
    });
    let (targets, blobs): (Vec<_>, Vec<_>) = freed.unzip();
    let mut left = Vec::new();
    let names = targets.iter().map(|target| &*target.declaration);
    let deleted = caused_by(names, announcer.batches.delete(&blobs)).await;
    for (target, deleted) in targets.into_iter().zip(deleted) {
        match deleted {
            Ok(()) => {
                let done = Ok(Settled::Done);
                report((table.table(), SettledBy::Writer), op, &target.declaration, &done);
            }
            Err(_) => left.push(target.clone()),
        }
    }
    left
}
