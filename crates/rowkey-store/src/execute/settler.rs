//! Settling for one type: targets through their declarations, claims through their entities.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::cost::{Class, Usage};
use rowkey_client::index::{Index, Scope};
use rowkey_client::internals::declared;
use rowkey_client::telemetry::{OTHER, metrics};
use rowkey_client::{Entity, Error, ErrorKind, Result, Table};

use super::announce::Announcer;
use super::noted::Noted;
use super::release::{release, to_release};
use crate::declaring::Declaration;
use crate::declaring::settling::{Settled, Settling};
use crate::layer::deciding::Deciding;
use crate::layer::{Demands, Layers};
use crate::row::Keys;
use crate::row::declared::prefix;
use crate::row::op::{ClaimRef, Target, created_of};

/// What is left of a write: the keys of its op row, its targets and its claims.
#[derive(Clone, Copy)]
pub(crate) struct Open<'a> {
    pub(crate) op: &'a Keys,
    pub(crate) targets: &'a [Target],
    pub(crate) claims: &'a [ClaimRef],
}

/// Settles the targets and claims of one type.
#[async_trait]
pub(crate) trait Settler: Send + Sync {
    /// The type, as the prefix of its RowKeys.
    fn of(&self) -> &'static str;

    /// Whether the program settles the targets, or releases the claims, of a declaration.
    fn declares(&self, name: &str) -> bool;

    /// The requests that settling a target takes without failures, and whether the declaration reads the entity again
    /// at its end; `None` if the program does not settle it.
    fn settling_usage(&self, target: &Target) -> Option<(Usage, bool)>;

    /// Settles the targets and claims of a write that belong to this type. A failure does not stop the others.
    async fn settle(&self, open: Open<'_>, noted: &mut Noted) -> Result<Settled>;
}

/// Combines two results: the first error, or both. Callers settle the rest even after an error.
pub(crate) fn both(first: Result<Settled>, second: Result<Settled>) -> Result<Settled> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok(first.and(second)),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// What settles the targets and claims of one type.
pub(crate) struct TypeSettler<E> {
    pub(crate) deciding: Deciding,
    /// `None` if the store has no queue.
    pub(crate) announcer: Option<Arc<Announcer>>,
    pub(crate) declarations: Vec<Box<dyn Declaration<E>>>,
    /// The number of declarations that the program added.
    pub(crate) added: usize,
    pub(crate) layers: Layers,
}

impl<E: Entity> TypeSettler<E> {
    /// Whether the program added declarations to those of the type.
    pub(crate) fn has_given(&self) -> bool {
        self.added > 0
    }

    /// The most operations of a change of one entity, without the op row.
    pub(crate) fn operations(&self) -> usize {
        self.declarations.iter().map(|one| one.operations()).sum::<usize>() + E::DECLARED.wide.rows
    }

    /// The most operations of a change of one entity that declarations of the program add.
    pub(crate) fn added_operations(&self) -> usize {
        let declared = self.declarations.len() - self.added;
        self.declarations.iter().skip(declared).map(|one| one.operations()).sum()
    }

    /// Returns the declaration with this name.
    fn declaration(&self, name: &str) -> Option<&dyn Declaration<E>> {
        // Not `find`, whose closure each program would compile for each of its types.
        for declaration in &self.declarations {
            if declaration.name() == name {
                return Some(&**declaration);
            }
        }
        None
    }

    /// Returns the layers for entities that are read to be settled or replaced. They do not read fields in
    /// blobs, which decide nothing, unless the program has declarations that may look at them.
    pub(crate) fn deciding_layers(&self) -> Layers {
        if self.has_given() { self.layers.clone() } else { self.layers.only_deciding() }
    }
}

#[async_trait]
impl<E: Entity + Send + Sync + 'static> Settler for TypeSettler<E> {
    fn of(&self) -> &'static str {
        prefix::<E>()
    }

    fn declares(&self, name: &str) -> bool {
        let is_claim = |index: &Index| index.scope == Scope::Claim && index.name == name;
        self.declarations.iter().any(|one| one.name() == name)
            || E::DECLARED.indexes.iter().any(is_claim)
    }

    fn settling_usage(&self, target: &Target) -> Option<(Usage, bool)> {
        let declaration = self.declaration(&target.declaration)?;
        let usage = declaration.settling_usage(&target.address);
        Some((usage, !declaration.settles_once() && usage.iter().any(|(class, _)| is_write(class))))
    }

    async fn settle(&self, open: Open<'_>, noted: &mut Noted) -> Result<Settled> {
        let Open { op, targets: mut rest, claims } = open;
        let mut all = Ok(Settled::Done);
        while let Some(first) = rest.first() {
            let (of_one, others) = of_one_entity(rest, &first.row_key);
            rest = others;
            let keys = (op.0.clone(), first.row_key.clone());
            let layers = self.deciding_layers();
            let settling = Settling::<E>::new(self.deciding.clone(), keys, layers);
            let settling = settling.having_met(&noted.met).in_turns();
            all = both(all, self.settle_one(&settling, op, of_one, noted).await);
            noted.in_doubt |= settling.is_in_doubt();
            noted.found_none(&first.row_key, &settling.take_absent());
        }
        if !claims.is_empty() {
            let demands = Demands::of::<E>(&self.layers);
            let of_type = (E::DECLARED.indexes, &demands);
            let table = (&self.deciding, self.announcer.as_deref());
            let released = release_all(table, op, claims, of_type, noted);
            all = both(all, released.await);
        }
        all
    }
}

impl<E: Entity + Send + Sync + 'static> TypeSettler<E> {
    async fn settle_one(
        &self,
        settling: &Settling<E>,
        op: &Keys,
        targets: &[Target],
        noted: &mut Noted,
    ) -> Result<Settled> {
        let mut all = Ok(Settled::Done);
        let mut moved = Vec::new();
        for target in targets {
            let Some(declaration) = self.declaration(&target.declaration) else {
                // Trying again does not help: only a program that declares it settles the target.
                noted.undeclared.insert(target.declaration.clone());
                continue;
            };
            let (name, address) = (declaration.name(), &*target.address);
            let begin = Box::new(move || declaration.settle(settling, address));
            let by = if noted.by_writer { SettledBy::Writer } else { SettledBy::Worker };
            let one = settle_target((self.deciding.table(), by), op, name, begin).await;
            moved.extend(settling.take_moved().into_iter().map(|one| (target.clone(), one)));
            if declaration.settles_once() && matches!(one, Ok(Settled::Done)) {
                noted.finished.push(target.clone());
            }
            all = both(all, one);
        }
        let is_settled = matches!(all, Ok(Settled::Done));
        if is_settled && !settling.is_unchanged().await? {
            return Ok(Settled::Pending);
        }
        // A target that fails, for example because its table is unavailable, does not stop the turns of others.
        if !is_settled && !moved.is_empty() && settling.is_unchanged().await.unwrap_or(false) {
            for (_, one) in &mut moved {
                one.waits();
            }
            noted.moved.extend(moved);
            return all;
        }
        let settled = all?;
        if is_settled {
            noted.moved.extend(moved);
        }
        Ok(if noted.goes_on() { Settled::Pending } else { settled })
    }
}

/// Whether requests of a class change something.
fn is_write(class: Class) -> bool {
    !matches!(
        class,
        Class::TableRead
            | Class::TableScan
            | Class::TableList
            | Class::QueueClass2
            | Class::BlobRead
            | Class::BlobList
    )
}

/// Splits targets after those of the first entity. The targets of one entity are consecutive.
fn of_one_entity<'t>(targets: &'t [Target], row_key: &str) -> (&'t [Target], &'t [Target]) {
    targets.split_at(targets.iter().take_while(|other| other.row_key == row_key).count())
}

/// Begins to settle a target.
type Begin<'a> = Box<dyn FnOnce() -> BoxFuture<'a, Result<Settled>> + Send + 'a>;

/// Settles a target by the declaration `name`, and reports the result.
fn settle_target<'a>(
    (table, by): (&'a Table, SettledBy),
    op: &'a Keys,
    name: &'a str,
    begin: Begin<'a>,
) -> BoxFuture<'a, Result<Settled>> {
    async move {
        // A panic in one declaration must end neither the worker nor a committed write.
        let settle = declared(name, async { begin().await });
        let one = match AssertUnwindSafe(settle).catch_unwind().await {
            Ok(one) => one,
            Err(_) => Err(Error::refused(ErrorKind::Unexpected, "the declaration panicked")
                .advise("fix the declaration; its targets are settled again later")),
        };
        report((table, by), op, name, &one);
        one.map_err(|error| error.during(name.to_owned()))
    }
    .boxed()
}

/// Releases claims of a type with these indexes. A failure does not stop the others.
fn release_all<'a>(
    (deciding, announcer): (&'a Deciding, Option<&'a Announcer>),
    op: &'a Keys,
    claims: &'a [ClaimRef],
    (indexes, demands): (&'a [Index], &'a Demands),
    noted: &'a mut Noted,
) -> BoxFuture<'a, Result<Settled>> {
    async move {
        let mut all = Ok(Settled::Done);
        for claim in claims {
            let is_it = |index: &Index| index.scope == Scope::Claim && index.name == claim.name;
            let released = match indexes.iter().position(is_it) {
                Some(position) => {
                    let released = release((deciding, announcer), op, claim, (demands, position));
                    declared(&*claim.name, released).await
                }
                // Only a program that declares the unique value can tell whether the entity has it. The name comes from a
                // row, so meters do not list it.
                None => declared(OTHER, to_release(deciding, op, claim)).await.map(|found| {
                    noted.undeclared.extend(found.map(|_| claim.name.clone()));
                    Settled::Done
                }),
            };
            all = both(all, released);
        }
        all
    }
    .boxed()
}

/// Who settles a target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettledBy {
    /// The writer, before its call returns.
    Writer,
    Worker,
}

/// Reports the result of a target, and the lag of its declaration.
pub(crate) fn report(
    (table, by): (&Table, SettledBy),
    op: &Keys,
    declaration: &str,
    settled: &Result<Settled>,
) {
    let account = table.account();
    let labels = [("db.collection.name", table.name()), ("rowkey.declaration", declaration)];
    let lag = created_of(&op.1).map(|created| account.clock().now() - created);
    if let Some(Ok(lag)) = lag.map(|lag| lag.to_std()) {
        account.telemetry().gauge(metrics::STORE_LAG.name, &labels, lag.as_secs_f64());
    }
    let outcome = match settled {
        Ok(Settled::Done) => "done",
        Ok(Settled::Pending) => "pending",
        Err(_) => "failed",
    };
    let by = match by {
        SettledBy::Writer => "writer",
        SettledBy::Worker => "worker",
    };
    let [table, declaration] = labels;
    let labels = [table, declaration, ("rowkey.outcome", outcome), ("rowkey.settled_by", by)];
    account.telemetry().count(metrics::STORE_SETTLED.name, &labels, 1);
}
