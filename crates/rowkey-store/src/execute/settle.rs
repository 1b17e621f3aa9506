//! Settling: making rows and blobs in other places agree with the present state of an entity.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::{DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Match, Outcome, Result, Table};

use super::announce::{Announcer, no_queue};
use super::claim::give_up;
use super::commit::is_undecodable;
use crate::declarations::remote::Version;
use crate::layer::deciding::Deciding;
use crate::layer::{Demands, Layers};
use crate::row::op::{ClaimRef, Target, created_of, mark_of};
use crate::row::{Claim, Head, Keys, Marked};

/// The result of settling a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is pending has to be settled again"]
pub enum Settled {
    /// It agrees with the entity.
    Done,
    /// Another writer changed it, or a write was not answered: it must be settled again.
    Pending,
}

impl Settled {
    /// Combines two results: `Done` if both are.
    pub fn and(self, other: Self) -> Self {
        if self == Self::Done { other } else { self }
    }
}

/// The entity whose targets are settled.
///
/// Each call of [`entity`](Self::entity) reads it on the primary. At the end the executor reads it once
/// more and settles the targets again if it has changed.
pub struct Settling<E> {
    table: Deciding,
    keys: Keys,
    layers: Layers,
    /// Targets at which the writer's insert met a row.
    met: Vec<String>,
    /// Whether a target of many rows is settled in several turns.
    in_turns: bool,
    seen: Mutex<Seen>,
    entity: std::marker::PhantomData<fn() -> E>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The versions that were read, without duplicates.
    versions: Vec<Version>,
    wrote: bool,
    in_doubt: bool,
    /// The targets whose rows must be deleted and do not exist.
    absent: Vec<String>,
    moved: Vec<Move>,
}

/// The new address of a target of many rows, one part of which is settled.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    /// The address of the rest.
    pub(crate) to: String,
    /// If there is no rest: the time at which the first part was begun, and the address of all rows.
    pub(crate) ended: Option<(DateTime<Utc>, String)>,
}

impl Move {
    /// Does not begin again at its end, because other targets of the write are not settled.
    pub(crate) fn waits(&mut self) {
        if let Some((_, all)) = &mut self.ended {
            all.clone_from(&self.to);
        }
    }
}

impl Seen {
    /// Records the error of a write, or its success.
    fn wrote(&mut self, error: Option<Error>) -> Result<Settled> {
        self.wrote = true;
        match error {
            None => Ok(Settled::Done),
            Some(error) if error.outcome() == Outcome::Unknown => {
                // It may take effect later, when the message and the op row are gone.
                self.in_doubt = true;
                // A worker reports the cause; the next answer would be no better.
                if is_undecodable(&error) { Err(error) } else { Ok(Settled::Pending) }
            }
            Some(error) if is_lost(&error) => Ok(Settled::Pending),
            Some(error) => Err(error),
        }
    }

    /// Records the version that a read found.
    fn read(&mut self, version: Version) {
        if !self.versions.contains(&version) {
            self.versions.push(version);
        }
    }
}

/// Whether an entity is unchanged since it was read. One request if a target was written.
fn is_unchanged<'a>(
    table: &'a Deciding,
    keys: &'a Keys,
    seen: &'a Mutex<Seen>,
) -> BoxFuture<'a, Result<bool>> {
    async move {
        let (versions, wrote) = {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            (seen.versions.clone(), seen.wrote)
        };
        if !wrote {
            return Ok(true);
        }
        let now = table.row_as::<Marked>(keys).await?.map(|read| read.etag);
        Ok(versions == [now])
    }
    .boxed()
}

impl<E: Entity> Settling<E> {
    pub(crate) fn new(table: Deciding, keys: Keys, layers: Layers) -> Self {
        let (met, seen, in_turns) = (Vec::new(), Mutex::default(), false);
        Self { table, keys, layers, met, in_turns, seen, entity: std::marker::PhantomData }
    }

    /// Settles targets of many rows in several turns.
    pub(crate) fn in_turns(self) -> Self {
        Self { in_turns: true, ..self }
    }

    pub(crate) fn is_in_turns(&self) -> bool {
        self.in_turns
    }

    /// Notes that a part of a target is settled.
    pub(crate) fn moves(&self, moved: Move) {
        self.seen().moved.push(moved);
    }

    /// Takes the notes of targets that are settled in part.
    pub(crate) fn take_moved(&self) -> Vec<Move> {
        std::mem::take(&mut self.seen().moved)
    }

    /// Names the targets of which the writer's insert met a row.
    pub(crate) fn having_met(self, met: &[Target]) -> Self {
        Self { met: met.iter().map(|target| target.address.clone()).collect(), ..self }
    }

    /// Whether the writer's insert of a target met a row. Another writer may be about to delete that row, on
    /// condition that it is unchanged, so the row is written even if it is right.
    pub(crate) fn has_met(&self, address: &str) -> bool {
        self.met.iter().any(|met| met == address)
    }

    /// The table of the entity.
    pub fn table(&self) -> &Deciding {
        &self.table
    }

    /// The key of the entity.
    pub fn key(&self) -> Key<E> {
        Key::new(&*self.keys.0, &*self.keys.1)
    }

    /// Reads the entity on the primary; `None` if it does not exist. One request.
    pub async fn entity(&self) -> Result<Option<E>> {
        Ok(self.head().await?.map(|head| head.entity))
    }

    /// Converts the result of a conditional write of a target. A refusal means that another writer
    /// changed the target, which stays pending. Other errors are returned.
    pub fn wrote<T>(&self, write: Result<T>) -> Result<Settled> {
        self.seen().wrote(write.err())
    }

    /// Notes that the row of a target must be deleted and does not exist.
    pub(crate) fn found_none(&self, address: String) {
        self.seen().absent.push(address);
    }

    pub(crate) fn take_absent(&self) -> Vec<String> {
        std::mem::take(&mut self.seen().absent)
    }

    /// Whether a write may take effect later.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.seen().in_doubt
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn demands(&self) -> Demands {
        Demands::of::<E>(&self.layers)
    }

    pub(crate) async fn head(&self) -> Result<Option<Head<E>>> {
        let read = self.table.head::<E>(&self.layers, &self.keys).await?;
        let version = read.as_ref().map(|read| read.etag.clone());
        self.seen().read(version);
        Ok(read.map(|read| read.entity))
    }

    /// Whether the entity is unchanged since it was read. One request if a target was written.
    pub(crate) async fn is_unchanged(&self) -> Result<bool> {
        is_unchanged(&self.table, &self.keys, &self.seen).await
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> std::fmt::Debug for Settling<E> {
    /// Does not show the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settling").field("table", &self.table).finish_non_exhaustive()
    }
}

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

/// Whether a row is unchanged since it was read.
pub(crate) async fn is_still(deciding: &Deciding, keys: &Keys, etag: &ETag) -> Result<bool> {
    let now = deciding.row_as::<Marked>(keys).await?;
    Ok(now.is_some_and(|now| now.etag == *etag))
}

/// Whether a conditional write was refused because of another writer.
pub(crate) fn is_lost(error: &Error) -> bool {
    error.outcome() == Outcome::Rejected
        && error.code() != Some(&rowkey::ErrorCode::TABLE_NOT_FOUND)
        && error.code() != Some(&rowkey::ErrorCode::CONTAINER_NOT_FOUND)
        && matches!(
            error.kind(),
            ErrorKind::AlreadyExists | ErrorKind::Conflict | ErrorKind::NotFound
        )
}
