//! Settling by the writer itself: one conditional write for each row elsewhere.
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

use rowkey::table::{EncodedRow, RowWrite};
use rowkey::{Blob, DynamicEntity, ETag, Error, Key, Match, Outcome, Partition, Result};

use super::announce::Announcer;
use super::commit::is_undecodable;
use super::settle::{Noted, is_lost, report};
use crate::deciding::Deciding;
use crate::place::Place;
use crate::plan::Plan;
use crate::plan::op::{self, ClaimRef, OpRow, Target};
use crate::row::{INDEX, Keys, primary_keys, text};
use crate::together::try_all;

/// How many rows elsewhere a program remembers.
const MAX_REMEMBERED: usize = 1000;

/// Rows elsewhere that are read at once.
const READS: usize = 8;

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
/// this program does not remember.
pub(crate) async fn look(table: &Deciding, announcer: &Announcer, plan: &mut Plan) -> Result<()> {
    let rows = plan.inline.iter().enumerate().filter_map(|(at, inline)| match &inline.effect {
        Effect::Row(row) if row.known == Known::Unread => Some((at, row)),
        _ => None,
    });
    let known = rows.map(|(at, row)| async move {
        if let Some(etag) = announcer.rows.find(row) {
            return Ok::<_, Error>((at, Known::Present(etag)));
        }
        let found = match row.place.row(table).await {
            Ok(found) => found,
            // The write does not wait for a table that is unavailable. A worker settles the row.
            Err(error) if row.place.may_be_left(&error) => {
                tracing::debug!(%error, "a row elsewhere was not read before the commit");
                return Ok((at, Known::Unread));
            }
            Err(error) => return Err(error),
        };
        let own = found.filter(|found| {
            text(&found.entity, INDEX) == Some(row.index)
                && primary_keys(&found.entity).as_ref() == Some(&row.owner)
        });
        Ok((at, own.map_or(Known::Missing, |found| Known::Present(found.etag))))
    });
    let known = try_all(known, READS).await?;
    for (at, now) in known {
        if let Effect::Row(row) = &mut plan.inline[at].effect {
            row.known = now;
        }
    }
    Ok(())
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
    for (target, row) in rows() {
        let there = row.place.deciding(table);
        let transaction = there.transaction();
        let transaction = match (&row.write, &row.known) {
            (Some(write), Known::New) => transaction.row(write, RowWrite::Insert),
            (Some(write), Known::Present(etag)) => {
                transaction.row(write, RowWrite::Replace(Match::ETag(etag.clone())))
            }
            (None, Known::Present(etag)) => {
                let (partition_key, row_key) = &row.place.keys;
                let key = Key::<DynamicEntity>::new(&**partition_key, &**row_key);
                transaction.delete(key, Match::ETag(etag.clone()))
            }
            (_, Known::Unread | Known::Missing) | (None, Known::New) => break,
        };
        match there.write(transaction).await {
            Ok(etag) => {
                announcer.rows.wrote(row, etag);
                report(table.table(), op, &target.contributor, &Ok(super::settle::Settled::Done));
                left.retain(|other| other != target);
            }
            Err(error) => {
                announcer.rows.wrote(row, None);
                noted.in_doubt |= error.outcome() == Outcome::Unknown;
                if is_undecodable(&error) {
                    return Err(error);
                }
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
    let mut left = Vec::new();
    for (claim, etag) in plan.released.iter().zip(&plan.released_at) {
        let key = Key::<DynamicEntity>::new(&*claim.keys.0, &*claim.keys.1);
        match table.table().delete(key, Match::ETag(etag.clone())).await {
            Ok(()) => {}
            Err(error) if is_undecodable(&error) => return Err(error),
            // It is looked at again.
            Err(_) => left.push(claim.clone()),
        }
    }
    Ok(left)
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
