//! The parts of verifying and repairing that do not name the type of the entities, so that they are compiled
//! once and not for each type.

use std::collections::{BTreeSet, HashMap};

use chrono::TimeDelta;
use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey_client::entity::{BlobField, Declarations};
use rowkey_client::index::{Index, Scope};
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Page, Result, Stored};
use rowkey_patterns::internals::try_all;
use rowkey_patterns::job::{Report, Verdict};

use super::list::list_of;
use super::orphans::{Orphan, Orphans};
use crate::declarations::list::list_keys;
use crate::declaring::settling::Settled;
use crate::execute::Executor;
use crate::execute::announce::{Notice, is_backlog};
use crate::execute::release::delete;
use crate::execute::resume::Resumed;
use crate::layer::deciding::{Deciding, is_lost, is_still};
use crate::layer::wide::{Gathered, Wide};
use crate::layer::{Demands, Layers, wide};
use crate::row::blobs::Blobs;
use crate::row::op::OpRow;
use crate::row::times::KEPT;
use crate::row::{
    Claim, Closed, CopyRow, Head, INDEX, Keys, MARK, Marked, beside, blob_pointer, index_keys, op,
    primary_keys, text,
};

/// The part of a report that counts op rows.
const OPERATIONS: &str = "operations";

/// Rows of a page that are checked in parallel.
const AT_A_TIME: usize = 16;

/// The rows that an entity demands.
pub(super) trait Demanding: Send + Sync {
    /// Returns the keys of its row in the index at `position`.
    fn index_keys(&self, position: usize) -> Result<Option<Keys>>;

    /// Returns the lists of its values in the list at `position`.
    fn list_keys(&self, position: usize) -> BTreeSet<Keys>;

    /// Returns its copy in the index at `position`. `keys` are its own, `at` those of the copy.
    fn copy(&self, position: usize, keys: &Keys, at: &Keys) -> Result<DynamicEntity>;
}

impl<E: Entity + Send + Sync> Demanding for Head<E> {
    fn index_keys(&self, position: usize) -> Result<Option<Keys>> {
        index_keys(&self.entity, position)
    }

    fn list_keys(&self, position: usize) -> BTreeSet<Keys> {
        list_keys(&self.entity, position)
    }

    fn copy(&self, position: usize, keys: &Keys, at: &Keys) -> Result<DynamicEntity> {
        let mark = self.mark.as_deref().unwrap_or_default();
        let (content, index) = (self.content(), &E::DECLARED.indexes[position]);
        Ok(DynamicEntity::of(&CopyRow { content, index, keys: at, primary: keys, mark })?)
    }
}

/// How the entities of a page are read.
#[derive(Clone, Copy)]
pub(super) struct Decoding {
    /// Decodes an entity; `None` if it is not readable or of an older version.
    pub(super) head: fn(&DynamicEntity) -> Option<Box<dyn Demanding>>,
    /// Returns the keys of an entity's row in the index at a position.
    pub(super) index_keys: fn(&DynamicEntity, usize) -> Option<Keys>,
}

type OnPage<'p> = HashMap<(&'p str, &'p str), &'p Stored<DynamicEntity>>;

/// Returns the rows of a page that need a separate check. A page shows a partition at one point in time,
/// so rows that agree on the page are reported without a request.
pub(super) fn doubtful(
    page: &Page<DynamicEntity>,
    report: &mut Report,
    (declared, of): (&Declarations, &str),
    decoding: Decoding,
) -> Vec<DynamicEntity> {
    let rows: OnPage<'_> = page
        .entities
        .iter()
        .map(|stored| ((&*stored.entity.partition_key, &*stored.entity.row_key), stored))
        .collect();
    let is_doubtful = |stored: &&Stored<DynamicEntity>| {
        let agrees = agrees(&rows, &stored.entity, (declared, of), decoding);
        if agrees == Some(true) {
            report.note(None, Verdict::Right, 1);
            let names = declared.indexes.iter().map(|index| index.name);
            for name in names.chain(declared.lists.iter().map(|list| list.name)) {
                report.note(Some(name), Verdict::Right, 1);
            }
        }
        agrees.is_none()
    };
    page.entities.iter().filter(is_doubtful).map(|stored| stored.entity.clone()).collect()
}

/// Whether a row agrees with other rows of its page: `true` for an entity, `false` for a copy, `None` if
/// unknown.
fn agrees(
    rows: &OnPage<'_>,
    row: &DynamicEntity,
    (declared, of): (&Declarations, &str),
    decoding: Decoding,
) -> Option<bool> {
    let keys = (row.partition_key.clone(), row.row_key.clone());
    if let Some(owner) = primary_keys(row) {
        let position = index_of(row, &owner, declared.indexes, of)?;
        let head = &rows.get(&(&*owner.0, &*owner.1))?.entity;
        return ((decoding.index_keys)(head, position)? == keys).then_some(false);
    }
    let is_head = keys.1.starts_with(of)
        && !keys.1.starts_with(op::HEAD)
        && claimed(declared.indexes, &keys).is_none()
        && list_of(declared.lists, &keys).is_none();
    if !is_head {
        return None;
    }
    let head = (decoding.head)(row)?;
    let has_no_list = (0..declared.lists.len()).all(|list| head.list_keys(list).is_empty());
    let agrees = |position: usize| -> Result<bool> {
        let Some(at) = head.index_keys(position)? else { return Ok(true) };
        let found = rows.get(&(&*at.0, &*at.1));
        Ok(match (declared.indexes[position].scope, found) {
            (Scope::SamePartition, Some(found)) => {
                is_copy(&keys, &*head, position, &at, &found.entity)?
            }
            _ => false,
        })
    };
    let agree = (0..declared.indexes.len()).all(|index| agrees(index).is_ok_and(|agrees| agrees));
    (has_no_list && agree).then_some(true)
}

/// Checks several rows and adds up their reports.
pub(super) fn examine_all(
    examined: Vec<BoxFuture<'_, Result<Report>>>,
    mut report: Report,
) -> BoxFuture<'_, Result<Report>> {
    async move {
        for one in try_all(examined, AT_A_TIME).await? {
            report.merge(one);
        }
        Ok(report)
    }
    .boxed()
}

/// What a row of the table is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Head,
    /// A copy in the index at this position.
    Copy(usize),
    /// The claim of the unique value at this position.
    Claim(usize),
    /// The list at this position.
    List(usize),
    /// A further row of an entity, with this number.
    Further(wide::Number),
    Backlog,
    Op,
}

impl Kind {
    /// Returns `None` if the row does not belong to the type whose RowKeys begin with `of`.
    pub(super) fn of(
        row: &DynamicEntity,
        keys: &Keys,
        declared: &Declarations,
        of: &str,
    ) -> Option<Self> {
        if let Some((owner, number)) = wide::number_of(row) {
            owner.starts_with(of).then_some(Self::Further(number))
        } else if let Some(owner) = primary_keys(row) {
            index_of(row, &owner, declared.indexes, of).map(Self::Copy)
        } else if let Some(position) = claimed(declared.indexes, keys) {
            Some(Self::Claim(position))
        } else if let Some(position) = list_of(declared.lists, keys) {
            Some(Self::List(position))
        } else if is_backlog(row) {
            // A backlog row has the RowKey of an op row.
            Some(Self::Backlog)
        } else if keys.1.starts_with(op::HEAD) {
            Some(Self::Op)
        } else {
            keys.1.starts_with(of).then_some(Self::Head)
        }
    }
}

/// The table of a walk, and the declarations whose rows are there.
#[derive(Clone)]
pub(super) struct Walked {
    pub(super) table: Deciding,
    /// Whether it is the table of the entities.
    pub(super) is_own: bool,
    /// If it is not, the declarations whose rows are there.
    pub(super) names: Vec<&'static str>,
}

impl Walked {
    /// Whether rows of this kind are in the table. A row of a declaration in another table than the declared one is
    /// that of another program, which declares it there.
    pub(super) fn has(&self, kind: Kind, declared: &Declarations) -> bool {
        let (name, table) = match kind {
            Kind::Copy(position) => {
                (declared.indexes[position].name, declared.indexes[position].table)
            }
            Kind::List(position) => (declared.lists[position].name, declared.lists[position].table),
            Kind::Head | Kind::Claim(_) | Kind::Further(_) | Kind::Backlog | Kind::Op => {
                return self.is_own;
            }
        };
        if self.is_own { table.is_none() } else { self.names.contains(&name) }
    }
}

/// Records the error of a row that cannot be checked. Returns an error that ends the job.
pub(super) fn note_failure(error: Error, keys: &Keys, report: &mut Report) -> Result<()> {
    if error.is_retryable() || error.kind() == ErrorKind::Auth {
        return Err(error);
    }
    let verdict = match error.kind() {
        ErrorKind::Decode => Verdict::Unreadable,
        _ => Verdict::Failed,
    };
    report.problem(error.details().index, verdict, (&keys.0, &keys.1), &error);
    Ok(())
}

/// Checks rows that are neither entities nor lists.
pub(super) struct Examiner<'o> {
    pub(super) executor: Executor,
    /// The table of the rows.
    pub(super) table: Deciding,
    pub(super) demands: Demands,
    pub(super) indexes: &'static [Index],
    /// Where orphans are collected, if the job repairs.
    pub(super) orphans: Option<&'o Orphans>,
}

impl Examiner<'_> {
    pub(super) fn examine<'a>(
        &'a self,
        kind: Kind,
        row: &'a DynamicEntity,
        keys: &'a Keys,
        report: &'a mut Report,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            match kind {
                Kind::Copy(position) => self.examine_copy(keys, position, report).await,
                Kind::Claim(position) => self.examine_claim(keys, position, report).await,
                Kind::Further(number) => match wide::number_of(row) {
                    Some((of, _)) => {
                        let owner = (keys.0.clone(), of.to_owned());
                        self.examine_further(keys, &owner, number, text(row, MARK), report).await
                    }
                    None => Ok(()),
                },
                Kind::Op => self.examine_op(keys, report).await,
                Kind::Backlog => {
                    // Workers handle it.
                    report.note(Some(OPERATIONS), Verdict::Skipped, 1);
                    Ok(())
                }
                Kind::Head | Kind::List(_) => Ok(()),
            }
        }
        .boxed()
    }

    fn deciding(&self) -> &Deciding {
        &self.executor.table
    }

    async fn examine_copy(&self, keys: &Keys, position: usize, report: &mut Report) -> Result<()> {
        let part = Some(self.indexes[position].name);
        // Read the copy, then the entity, then delete the copy under its ETag, as settling does.
        let Some(found) = self.table.row(keys).await? else { return Ok(()) };
        let Some(owner) = primary_keys(&found.entity) else { return Ok(()) };
        if self.is_demanded(&owner, position, keys).await? {
            // The copy was counted with its entity.
            return Ok(());
        }
        if let Some(orphans) = self.orphans {
            orphans.add(Orphan { keys: keys.clone(), etag: found.etag, part });
        } else if is_still(&self.table, keys, &found.etag).await? {
            // If the copy changed in the meantime, its writer keeps it in step.
            report.note(part, Verdict::Orphaned, 1);
        }
        Ok(())
    }

    /// Checks a further row of a wide entity against the head that it names.
    async fn examine_further(
        &self,
        keys: &Keys,
        owner: &Keys,
        number: wide::Number,
        mark: Option<&str>,
        report: &mut Report,
    ) -> Result<()> {
        let deciding = self.deciding();
        let head = || deciding.row_as::<wide::HeadRows>(owner);
        // Read the row, then the entity, then delete the row under its ETag, as for a copy.
        let found = match head().await? {
            Some(head) if self.has_further(owner, &head.entity, number, mark).await? => {
                return Ok(());
            }
            Some(head) if head.entity.is_of(number, mark) => {
                // The same write wrote both: the head has a wrong number of rows.
                return self.examine_number(owner, head, number.number, report).await;
            }
            _ => deciding.row_as::<Marked>(keys).await?,
        };
        let Some(found) = found else { return Ok(()) };
        if let Some(head) = head().await? {
            let mark = found.entity.0.as_deref();
            if head.entity.is_of(number, mark)
                || self.has_further(owner, &head.entity, number, mark).await?
            {
                // A writer has just written it.
                return Ok(());
            }
        }
        let is_orphaned = if self.orphans.is_some() {
            delete(deciding, keys, found.etag).await? == Settled::Done
        } else {
            is_still(deciding, keys, &found.etag).await?
        };
        // If the row changed in the meantime, its writer keeps it in step.
        if is_orphaned {
            report.note(Some(wide::PART), Verdict::Orphaned, 1);
            report.repaired(Some(wide::PART), u64::from(self.orphans.is_some()));
        }
        Ok(())
    }

    /// Whether an entity has a further row with this number and mark, or may have it: a part of another write is
    /// left over only if no other part is missing.
    async fn has_further(
        &self,
        owner: &Keys,
        head: &wide::HeadRows,
        number: wide::Number,
        mark: Option<&str>,
    ) -> Result<bool> {
        if !head.has(number) || number.layout.is_none() || head.is_of(number, mark) {
            return Ok(head.has(number));
        }
        let found = wide::written_with(self.deciding().table(), owner, head).await?;
        Ok(found.len() + 1 != head.rows)
    }

    /// Checks the number of rows in a head that has fewer than were written with it: another program
    /// changed it. The first of the others, with this number, reports it.
    ///
    /// A write writes all rows in one transaction, so that rows without a gap prove the number.
    async fn examine_number(
        &self,
        owner: &Keys,
        head: Stored<wide::HeadRows>,
        number: usize,
        report: &mut Report,
    ) -> Result<()> {
        let (deciding, part) = (self.deciding(), Some(wide::PART));
        let found = wide::written_with(deciding.table(), owner, &head.entity).await?;
        if found.range(head.entity.rows..).next() != Some(&number) {
            return Ok(());
        }
        if !is_still(deciding, owner, &head.etag).await? {
            return Ok(());
        }
        if found.iter().ne((1..=found.len()).collect::<Vec<_>>().iter()) {
            let keys = (&*owner.0, &*owner.1);
            report.problem(part, Verdict::Missing, keys, &wide::damaged(found.len()));
            return Ok(());
        }
        report.note(part, Verdict::Stale, 1);
        if self.orphans.is_some() {
            let mut row = DynamicEntity::new(&*owner.0, &*owner.1);
            row.set(beside::ROWS, i32::try_from(found.len() + 1).unwrap_or(i32::MAX));
            match deciding.table().merge((&row, head.etag)).await {
                Ok(_) => report.repaired(part, 1),
                // A writer changed the entity, and writes all its rows.
                Err(error) if is_lost(&error) => report.repaired(part, 1),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn examine_claim(&self, keys: &Keys, position: usize, report: &mut Report) -> Result<()> {
        let part = Some(self.indexes[position].name);
        let deciding = self.deciding();
        let Some(found) = deciding.row(keys).await? else { return Ok(()) };
        let claim = Claim::read(&found.entity)?;
        if self.is_demanded(&claim.owner, position, keys).await? {
            return Ok(());
        }
        let Some(orphans) = self.orphans else {
            if is_still(deciding, keys, &found.etag).await? {
                report.note(part, Verdict::Orphaned, 1);
            }
            return Ok(());
        };
        let op = (claim.owner.0.clone(), claim.op.clone());
        if !self.executor.is_over(&op) {
            // The void stays until no request of the operation can take effect; a later repair removes it.
            orphans.end(deciding, &op).await?;
        }
        if self.is_demanded(&claim.owner, position, keys).await? {
            return Ok(());
        }
        orphans.add(Orphan { keys: keys.clone(), etag: found.etag, part });
        Ok(())
    }

    /// Settles or removes an operation that no announcement names any more.
    async fn examine_op(&self, keys: &Keys, report: &mut Report) -> Result<()> {
        let Some(found) = self.deciding().row(keys).await? else { return Ok(()) };
        let row = OpRow::read(&found.entity)?;
        let (OpRow::Committed { created, .. } | OpRow::Void { created }) = row;
        let kept = TimeDelta::from_std(KEPT).unwrap_or(TimeDelta::MAX);
        if self.deciding().clock().now() - created <= kept {
            report.note(Some(OPERATIONS), Verdict::Skipped, 1);
            return Ok(());
        }
        let undeclared = self.executor.undeclared(&row);
        if undeclared.is_empty() {
            report.note(Some(OPERATIONS), Verdict::Orphaned, 1);
        } else {
            let error = of_other_programs(&undeclared);
            report.problem(Some(OPERATIONS), Verdict::Orphaned, (&keys.0, &keys.1), &error);
        }
        if self.orphans.is_some() {
            let notice = Notice::new(keys.clone(), Vec::new());
            let mut resumed = self.executor.resume(&notice).await?;
            while resumed == Resumed::More {
                resumed = self.executor.resume(&notice).await?;
            }
            if resumed == Resumed::Done {
                report.repaired(Some(OPERATIONS), 1);
            }
        }
        Ok(())
    }

    async fn is_demanded(&self, owner: &Keys, position: usize, keys: &Keys) -> Result<bool> {
        match self.deciding().row(owner).await? {
            Some(head) => self.demands.ask(self.deciding().table(), &head, position, keys).await,
            None => Ok(false),
        }
    }
}

/// Returns the error of a write that waits for declarations that this program does not have.
fn of_other_programs(declarations: &BTreeSet<String>) -> Error {
    let names: Vec<_> = declarations.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    let what = format!("a write waits for a program that declares {names}");
    Error::refused(ErrorKind::Invalid, what).advise(
        "run a worker of that program; if there is none any more, end it with `Store::clean`, or without a \
         manifest with `Store::repair_without`",
    )
}

/// Checks the row at `at` that an entity demands for one of its indexes or unique values.
pub(super) fn examine_demand<'a>(
    deciding: &'a Deciding,
    keys: &'a Keys,
    (index, at): (&'a Index, &'a Keys),
    position: usize,
    head: &'a dyn Demanding,
) -> BoxFuture<'a, Result<Verdict>> {
    async move {
        let Some(found) = deciding.row(at).await? else { return Ok(Verdict::Missing) };
        let found = found.entity;
        let is_right = if index.scope == Scope::Claim {
            Claim::read(&found)?.owner == *keys
        } else {
            is_copy(keys, head, position, at, &found)?
        };
        Ok(if is_right { Verdict::Right } else { Verdict::Stale })
    }
    .boxed()
}

/// Checks that the blobs of the entity's fields, and those that it refers to, exist. One request each.
pub(super) fn examine_blobs<'a>(
    blobs: &'a Blobs,
    (fields, closed): (&'static [BlobField], Option<&'a Closed>),
    referred: Vec<(&'static str, &'a str)>,
) -> BoxFuture<'a, Result<Vec<(&'static str, Verdict)>>> {
    async move {
        let mut found = Vec::new();
        let named =
            closed.map(|closed| blob_pointer::named(fields, &closed.row)).unwrap_or_default();
        let named =
            named.into_iter().map(|(property, blob)| (property, blobs.deciding().blob(&blob)));
        // Blobs that the store did not upload are not its own.
        let referred = referred
            .into_iter()
            .filter_map(|(property, path)| Some((property, blobs.at_path(path)?)));
        for (property, blob) in named.chain(referred) {
            let is_there = blob.properties().await?.is_some();
            found.push((property, if is_there { Verdict::Right } else { Verdict::Missing }));
        }
        Ok(found)
    }
    .boxed()
}

/// Returns what is left of an entity that is unreadable because further rows of it are missing or come
/// from another write; `None` for other entities.
pub(super) async fn remains(
    deciding: &Deciding,
    layers: &Layers,
    keys: &Keys,
    error: &Error,
) -> Result<Option<wide::Remains>> {
    if !layers.is_wide() || error.kind() != ErrorKind::Decode {
        return Ok(None);
    }
    let Some(mut head) = deciding.row(keys).await? else { return Ok(None) };
    match Wide::gather(deciding.table(), &mut head.entity).await? {
        Gathered::Torn(_) => wide::Remains::read(deciding.table(), head).await.map(Some),
        Gathered::All(_) => Ok(None),
    }
}

/// Whether a row is the correct copy of an entity in an index.
fn is_copy(
    keys: &Keys,
    head: &dyn Demanding,
    position: usize,
    at: &Keys,
    found: &DynamicEntity,
) -> Result<bool> {
    if primary_keys(found).as_ref() != Some(keys) {
        return Ok(false);
    }
    let expected = head.copy(position, keys, at)?;
    // The mark of a copy may be that of an older operation.
    let differs = |(name, value): (&str, &rowkey_client::edm::Value)| {
        name != MARK && found.get(name) != Some(value)
    };
    Ok(!expected.iter().any(differs) && expected.iter().len() == found.iter().len())
}

/// Returns the position of the declared index of a copy of an entity whose RowKeys begin with `of`.
fn index_of(row: &DynamicEntity, owner: &Keys, indexes: &[Index], of: &str) -> Option<usize> {
    let name = text(row, INDEX)?;
    let is_own = owner.1.starts_with(of);
    indexes.iter().position(|index| is_own && index.name == name)
}

/// Returns the position of the unique value whose claim has these keys.
pub(super) fn claimed(indexes: &[Index], keys: &Keys) -> Option<usize> {
    indexes.iter().position(|index| {
        index.scope == Scope::Claim
            && (keys.1 == index.row_head
                // With `buckets`, the RowKey has the value.
                || (index.row_template.len() > 1 && keys.1.starts_with(index.row_head)))
            && keys.0.starts_with(index.partition_head)
    })
}
