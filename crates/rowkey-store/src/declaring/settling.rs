//! An entity whose targets are settled: its reads, and what becomes of the writes.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::internals::shown;
use rowkey_client::{ETag, Entity, Error, Key, Outcome, Result};

use crate::layer::deciding::{Deciding, is_lost, is_undecodable};
use crate::layer::{Demands, Layers};
use crate::row::op::Target;
use crate::row::{Head, Keys, Marked};

/// The version of an entity that was read; `None` if it does not exist.
pub(crate) type Version = Option<ETag>;

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
        let read = self.layers.deciding_head::<E>(&self.table, &self.keys).await?;
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

shown! {
    /// Does not show the keys.
    [E] Settling<E>: table
}
