//! Settling by the writer itself: one conditional write for each row elsewhere, in transactions of those that share
//! a partition.
//!
//! The writer knows what it replaced. It looks at a row elsewhere before the commit, or wrote the row itself,
//! and afterwards replaces or deletes the row only if it is unchanged since then. A new row is inserted. If a
//! write is refused, another writer was faster, and the target is settled like that of any other write:
//! read, read, write, read.
//!
//! A row that should be there and is not, before the commit or after it, may be about to be inserted by a writer
//! that committed before this one. If such a writer may exist, the op row and the message stay, and a worker
//! settles again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rowkey::table::EncodedRow;
use rowkey::{Blob, DynamicEntity, ETag, Outcome, Partition, Result};

use super::announce::Announcer;
use super::commit::is_undecodable;
use super::group::{self, READS};
use super::settle::{Noted, is_lost, report};
use crate::deciding::Deciding;
use crate::place::Place;
use crate::plan::Plan;
use crate::plan::op::{self, ClaimRef, OpRow, Target};
use crate::row::{INDEX, Keys, primary_keys, text};
use crate::together::try_all;

/// How many rows elsewhere a program remembers.
const MAX_REMEMBERED: usize = 1000;

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

/// The rows elsewhere that this program wrote, and their `ETag`s, so that it need not read them to write them
/// again.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    by_place: HashMap<Place, Row>,
    /// In the order in which they were written first.
    oldest: VecDeque<Place>,
}

struct Row {
    etag: ETag,
    owner: Keys,
    mark: Option<String>,
}

impl Remembered {
    /// Returns the `ETag` of the row, if the entity's last writer was this program.
    fn find(&self, row: &RowElsewhere) -> Option<ETag> {
        let rows = self.rows();
        let before = row.marks.as_ref().map(|(before, _)| before.clone());
        rows.by_place.get(&row.place).and_then(|found| {
            let is_it = found.owner == row.owner
                && before.is_none_or(|before| before.is_some() && before == found.mark);
            is_it.then(|| found.etag.clone())
        })
    }

    fn wrote(&self, row: &RowElsewhere, etag: Option<ETag>) {
        let mut rows = self.rows();
        let Some(etag) = etag else {
            rows.by_place.remove(&row.place);
            return;
        };
        let mark = row.marks.as_ref().map(|(_, after)| after.clone());
        let new = Row { etag, owner: row.owner.clone(), mark };
        if rows.by_place.insert(row.place.clone(), new).is_none() {
            rows.oldest.push_back(row.place.clone());
        }
        // Deleted rows are in the order, too.
        while rows.oldest.len() > MAX_REMEMBERED {
            let Some(oldest) = rows.oldest.pop_front() else { break };
            rows.by_place.remove(&oldest);
        }
    }

    fn rows(&self) -> std::sync::MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the rows elsewhere that a plan replaces or deletes, before its commit. One request for each that
/// this program does not remember, and fewer if more than two are in one partition.
pub(crate) async fn look(table: &Deciding, announcer: &Announcer, plan: &mut Plan) -> Result<()> {
    let rows = plan.inline.iter().enumerate().filter_map(|(at, inline)| match &inline.effect {
        Effect::Row(row) if row.known == Known::Unread => Some((at, row)),
        _ => None,
    });
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (at, row) in rows {
        match announcer.rows.find(row) {
            Some(etag) => known.push((at, Known::Present(etag))),
            None => unknown.push((at, row)),
        }
    }
    unknown.sort_by(|(_, one), (_, other)| one.place.table_name().cmp(other.place.table_name()));
    let by_table = unknown.chunk_by(|(_, row), (_, next)| row.place.is_beside(&next.place));
    let found = try_all(by_table.map(|rows| look_at(table, rows)), READS).await?;
    known.extend(found.into_iter().flatten());
    for (at, now) in known {
        if let Effect::Row(row) = &mut plan.inline[at].effect {
            row.known = now;
        }
    }
    Ok(())
}

/// Looks at rows of one table. If another table than that of the entities is unavailable, they stay unread: the write
/// does not wait for it, and a worker settles the rows.
async fn look_at(table: &Deciding, rows: &[(usize, &RowElsewhere)]) -> Result<Vec<(usize, Known)>> {
    let Some((_, RowElsewhere { place, .. })) = rows.first() else { return Ok(Vec::new()) };
    let keys: Vec<_> = rows.iter().map(|(_, row)| &row.place.keys).collect();
    let found = group::read(place.deciding(table), &keys).await;
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
        match transaction.submit().await {
            Ok(etags) => {
                for (one, etag) in group.into_iter().zip(etags) {
                    let (target, row) = all[one];
                    is_done[one] = true;
                    announcer.rows.wrote(row, etag);
                    let done = Ok(super::settle::Settled::Done);
                    report(table.table(), op, &target.contributor, &done);
                    left.retain(|other| other != target);
                }
            }
            Err(error) => {
                for one in &group {
                    announcer.rows.wrote(of_all[*one], None);
                }
                noted.in_doubt |= error.outcome() == Outcome::Unknown;
                if is_undecodable(&error) {
                    return Err(error);
                }
                if group.len() > 1 && is_lost(&error) {
                    groups = false;
                    continue;
                }
                let (target, row) = all[at];
                if row.known == Known::New && is_lost(&error) {
                    noted.met.push(target.clone());
                }
                break;
            }
        }
    }
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

/// Returns the targets of other operations of the partition that are not finished, which may be about to insert
/// their rows; `None` if they cannot be read, because a newer program wrote one. One request.
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

/// Deletes the claims that a committed plan releases, if they are as they were before the commit. Returns the
/// others.
pub(crate) async fn release(table: &Deciding, plan: &Plan) -> Result<Vec<ClaimRef>> {
    let claims: Vec<_> = plan.released.iter().zip(&plan.released_at).collect();
    group::release(table, &claims).await
}

/// Deletes the blobs that a committed plan frees. Returns the targets of those that could not be deleted.
pub(crate) async fn free(table: &Deciding, (plan, op): (&Plan, &Keys)) -> Vec<Target> {
    let mut left = Vec::new();
    for inline in &plan.inline {
        let Effect::Free(blob) = &inline.effect else { continue };
        match blob.delete_if_exists().await {
            Ok(_) => {
                let done = Ok(super::settle::Settled::Done);
                report(table.table(), op, &inline.target.contributor, &done);
            }
            Err(_) => left.push(inline.target.clone()),
        }
    }
    left
}
