//! Verifying and repairing: one walk over the table that checks every row of a type.
//!
//! | row | right if | otherwise |
//! |---|---|---|
//! | entity | its copies and claims exist and match, its lists name it | missing or stale: the entity is written again |
//! | | the blobs of its fields exist | missing: reported |
//! | entity of several rows | its further rows exist and come from one write | missing: reported |
//! | further row of a wide entity | the head of its entity counts it | orphaned: deleted |
//! | copy | its entity demands it | orphaned: deleted |
//! | list | each of its entities has the value | orphaned: the RowKey is removed from it |
//! | claim | its entity has the value | orphaned: its operation is ended, and it is deleted |
//! | row edited by a contributor | a rewrite of the entity would not change it | stale: the entity is written again |
//! | target of a contributor | the contributor confirms it | missing or stale: the entity is written again |
//! | row of a contributor elsewhere | its entity names the target | orphaned: the target is settled |
//! | op row | it is younger than the time for which it is kept | orphaned: resumed as a worker does |

use std::collections::HashMap;

use chrono::TimeDelta;
use futures_util::FutureExt as _;
use rowkey::index::Scope;
use rowkey::{DynamicEntity, ETag, Entity, ErrorKind, Key, Page, Result, Rows, Stored, Table};

use super::list::list_of;
use super::rewriting::VERSIONS;
use super::settle::no_queue;
use super::{Inner, ReadHead, Step, Store, is_race, parts};
use crate::execute::announce::{Notice, is_backlog};
use crate::execute::claim::{claim, end};
use crate::execute::settle::{Settled, Settling, delete};
use crate::execute::{KEPT, Resumed};
use crate::job::{Job, Report, Verdict, Walk, Walking};
use crate::layer::Demands;
use crate::plan::blob_field::BlobFields;
use crate::plan::list::list_keys;
use crate::plan::op::{self, ClaimRef, OpRow};
use crate::plan::{Change, Contributor, NewClaim, Op, Plan};
use crate::row::{
    Claim, CopyRow, Head, INDEX, Keys, MARK, Marked, Whole, index_keys, primary_keys, text,
};
use crate::together::try_all;
use crate::wide::{self, Gathered, Wide};

/// The part of a report that counts op rows.
const OPERATIONS: &str = "operations";

/// How often an entity is checked again that changes in the meantime.
const ROUNDS: u32 = 8;

/// Rows of a page that are checked in parallel.
const AT_A_TIME: usize = 16;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Checks every row of the table that belongs to the type, and reports disagreements by the name of the
    /// declaration. Changes nothing.
    ///
    /// A page of 1,000 rows costs one request. Entities that agree with their copies on the same page and
    /// have no other rows cost nothing more. Other entities cost one read, and one for each of their rows; a
    /// copy or a claim costs two. Committed writes that are not settled yet are reported as they are.
    pub fn verify(&self) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.examine("verify", &self.inner.table, false)
    }

    /// Checks another table in which contributors keep rows, such as the summaries of views, and reports
    /// rows that no entity demands. [`verify`](Self::verify) reports rows that are missing there.
    pub fn verify_in(&self, table: &Table) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.examine("verify", table, false)
    }

    /// Like [`verify`](Self::verify), and repairs disagreements: an entity whose rows are missing or
    /// stale is rewritten unchanged, a copy or a claim without an entity is deleted, and a leftover op
    /// row is settled. Programs may write in the meantime.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # use rowkey_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # #[entity(index(name = by_customer, row = "customer_{customer}", many))]
    /// # struct Order { tenant: String, id: u32, customer: String, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// # orders.create_if_missing().await?;
    /// # let order = |id, customer: &str| Order {
    /// #     tenant: "contoso".into(), id, customer: customer.into(), cents: 100 * i64::from(id),
    /// # };
    /// # orders.insert(&order(1, "ada")).await?;
    /// // Another program deletes the entity and leaves its copy in the index.
    /// let head = rowkey::Key::<rowkey::DynamicEntity>::new("contoso", "order_000001");
    /// orders.table().delete(head, rowkey::Match::Any).await?;
    /// assert_eq!(orders.verify().run().await?.part("by_customer").orphaned, 1);
    ///
    /// assert_eq!(orders.repair().run().await?.part("by_customer").repaired, 1);
    /// assert!(orders.verify().run().await?.is_clean());
    /// # Ok(()) }
    /// ```
    pub fn repair(&self) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.examine("repair", &self.inner.table, true)
    }

    /// Like [`verify_in`](Self::verify_in), and settles rows that no entity demands.
    pub fn repair_in(&self, table: &Table) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.examine("repair", table, true)
    }

    fn examine(
        &self,
        name: &str,
        table: &Table,
        repairs: bool,
    ) -> Job<'static, Walking<DynamicEntity, Step>> {
        let store = self.clone();
        // In another table, only rows of contributors are checked.
        let is_own = table.name() == self.inner.table.name();
        let step: Step = Box::new(move |page: Page<DynamicEntity>| {
            let store = store.clone();
            async move {
                let mut report = Report::default();
                let rows = store.doubtful(page, &mut report);
                let examined = rows.into_iter().map(|row| {
                    let store = store.clone();
                    async move { store.examine_row(&row, is_own, repairs).await }
                });
                for one in try_all(examined, AT_A_TIME).await? {
                    report.merge(one);
                }
                Ok(report)
            }
            .boxed()
        });
        let of = Inner::<E>::of();
        let walk = Walk::new(table, Table::scan::<DynamicEntity>);
        Job::walk(format!("{name} {of}"), walk, step)
    }

    /// Returns the rows of a page that need a separate check. A page shows a partition at one point in time,
    /// so rows that agree on the page are reported without a request.
    fn doubtful(&self, page: Page<DynamicEntity>, report: &mut Report) -> Vec<DynamicEntity> {
        if !self.inner.layers.is_empty() || self.inner.added > 0 {
            // Rows must be opened, or contributors must verify them.
            return page.entities.into_iter().map(|stored| stored.entity).collect();
        }
        let rows: HashMap<_, _> = page
            .entities
            .iter()
            .map(|stored| ((&*stored.entity.partition_key, &*stored.entity.row_key), stored))
            .collect();
        let is_doubtful = |stored: &&Stored<DynamicEntity>| {
            let agrees = Self::agrees(&rows, &stored.entity);
            if agrees == Some(true) {
                report.note(None, Verdict::Right, 1);
                let names = E::INDEXES.iter().map(|index| index.name);
                for name in names.chain(E::LISTS.iter().map(|list| list.name)) {
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
        rows: &HashMap<(&str, &str), &Stored<DynamicEntity>>,
        row: &DynamicEntity,
    ) -> Option<bool> {
        let keys = (row.partition_key.clone(), row.row_key.clone());
        if let Some(owner) = primary_keys(row) {
            let position = index_of::<E>(row, &owner)?;
            let head = rows.get(&(&*owner.0, &*owner.1))?.entity.read_as::<E>().ok()?;
            return (index_keys(&head, position).ok()?.as_ref() == Some(&keys)).then_some(false);
        }
        let is_head = keys.1.starts_with(Inner::<E>::of())
            && !keys.1.starts_with(op::HEAD)
            && claimed::<E>(&keys).is_none()
            && list_of::<E>(&keys).is_none();
        if !is_head {
            return None;
        }
        let Whole::<E>(head) = row.read_as().ok()?;
        if head.older.is_some() {
            // Its rows are those of another version.
            return None;
        }
        let etag = rows.get(&(&*keys.0, &*keys.1))?.etag.clone();
        let head = ReadHead { head, etag };
        let has_no_list = (0..E::LISTS.len()).all(|list| list_keys(&head.entity, list).is_empty());
        let agrees = |position: usize| -> Result<bool> {
            let Some(at) = index_keys(&head.entity, position)? else { return Ok(true) };
            let found = rows.get(&(&*at.0, &*at.1));
            Ok(match (E::INDEXES[position].scope, found) {
                (Scope::SamePartition, Some(found)) => {
                    is_copy(&keys, &head, position, &at, &found.entity)?
                }
                _ => false,
            })
        };
        let agree = (0..E::INDEXES.len()).all(|index| agrees(index).is_ok_and(|agrees| agrees));
        (has_no_list && agree).then_some(true)
    }

    async fn examine_row(
        &self,
        row: &DynamicEntity,
        is_own: bool,
        repairs: bool,
    ) -> Result<Report> {
        let mut report = Report::default();
        let keys = (row.partition_key.clone(), row.row_key.clone());
        let mut contributors = self.inner.contributors.iter();
        let kept = contributors.find_map(|one| Some((&**one, one.target_of(row)?)));
        let examined = if let Some((contributor, (key, address))) = kept {
            self.examine_target(contributor, &key, &address, repairs, &mut report).await
        } else if !is_own {
            Ok(())
        } else if let Some((of, number)) = wide::number_of(row) {
            let owner = (keys.0.clone(), of.to_owned());
            if of.starts_with(Inner::<E>::of()) {
                self.examine_further(&keys, &owner, number, repairs, &mut report).await
            } else {
                Ok(())
            }
        } else if let Some(owner) = primary_keys(row) {
            match index_of::<E>(row, &owner) {
                Some(position) => self.examine_copy(&keys, position, repairs, &mut report).await,
                None => Ok(()),
            }
        } else if let Some(position) = claimed::<E>(&keys) {
            self.examine_claim(&keys, position, repairs, &mut report).await
        } else if let Some(position) = list_of::<E>(&keys) {
            self.examine_list(&keys, position, repairs, &mut report).await
        } else if is_backlog(row) {
            // A backlog row has the RowKey of an op row. Workers handle it.
            report.note(Some(OPERATIONS), Verdict::Skipped, 1);
            Ok(())
        } else if keys.1.starts_with(op::HEAD) {
            self.examine_op(&keys, repairs, &mut report).await
        } else if keys.1.starts_with(Inner::<E>::of()) {
            self.examine_head(&keys, repairs, &mut report).await
        } else {
            Ok(())
        };
        match examined {
            Err(error) if !error.is_retryable() && error.kind() != ErrorKind::Auth => {
                let verdict = match error.kind() {
                    ErrorKind::Decode => Verdict::Unreadable,
                    _ => Verdict::Failed,
                };
                report.problem(error.details().index, verdict, (&keys.0, &keys.1), &error);
            }
            result => result?,
        }
        Ok(report)
    }

    /// Checks all rows that an entity demands now.
    async fn examine_head(&self, keys: &Keys, repairs: bool, report: &mut Report) -> Result<()> {
        for _ in 0..ROUNDS {
            let read = match self.read_before(keys).await {
                Err(error) if self.lacks_rows(keys, &error).await? => {
                    report.problem(Some(wide::PART), Verdict::Missing, (&keys.0, &keys.1), &error);
                    return Ok(());
                }
                read => read?,
            };
            let Some(head) = read else { return Ok(()) };
            if head.older.is_some() {
                // Its rows are those of another version; `migrate` rewrites them.
                report.note(Some(VERSIONS), Verdict::Skipped, 1);
                return Ok(());
            }
            let mut found = Vec::new();
            for position in 0..E::INDEXES.len() {
                let name = E::INDEXES[position].name;
                found.push((name, self.examine_demand(keys, &head, position).await?));
            }
            for list in 0..E::LISTS.len() {
                found.push((E::LISTS[list].name, self.examine_lists(keys, &head, list).await?));
            }
            for contributor in self.given() {
                let verdict = self.examine_contributor(contributor, keys, &head).await?;
                found.push((contributor.name(), verdict));
            }
            let is_wrong = |(_, verdict): &(&str, Verdict)| *verdict != Verdict::Right;
            let in_blobs = self.examine_blobs(&head).await?;
            if found.iter().chain(&in_blobs).any(is_wrong) && self.has_changed(keys, &head).await? {
                // The rows were not read at one point in time.
                continue;
            }
            let repaired = if repairs && found.iter().any(is_wrong) {
                self.rewrite_head(keys, &head).await
            } else {
                Ok(())
            };
            if repaired.as_ref().is_err_and(is_race) && self.has_changed(keys, &head).await? {
                continue;
            }
            report.note(None, Verdict::Right, 1);
            if head.closed().is_some_and(|closed| !closed.beside.stored().is_empty()) {
                report.note(Some(wide::PART), Verdict::Right, 1);
            }
            for (name, verdict) in found.iter().chain(&in_blobs) {
                report.note(Some(name), *verdict, 1);
            }
            repaired?;
            if repairs {
                let wrong = found.iter().enumerate().filter(|(_, one)| is_wrong(one));
                for (at, (name, _)) in wrong {
                    if self.is_repaired(keys, at).await? {
                        report.repaired(Some(name), 1);
                    }
                }
            }
            return Ok(());
        }
        // The entity keeps changing. Its writers keep its rows in step.
        report.note(None, Verdict::Skipped, 1);
        Ok(())
    }

    /// Whether the rows of one declaration or contributor agree with the entity now.
    async fn is_repaired(&self, keys: &Keys, at: usize) -> Result<bool> {
        let declared = E::INDEXES.len() + E::LISTS.len();
        for _ in 0..ROUNDS {
            let Some(head) = self.read_before(keys).await? else { return Ok(true) };
            let contributor = at.checked_sub(declared).and_then(|at| self.given().nth(at));
            let now = match (contributor, at.checked_sub(E::INDEXES.len())) {
                (Some(one), _) => self.examine_contributor(one, keys, &head).await?,
                (None, None) => self.examine_demand(keys, &head, at).await?,
                (None, Some(list)) => self.examine_lists(keys, &head, list).await?,
            };
            if now == Verdict::Right {
                return Ok(true);
            }
            if let Some(one) = contributor {
                // Entities that share a row elsewhere are repaired in parallel: another one won.
                let settling = self.settling(keys);
                for target in self.rewritten(one, keys, Some(&head)).await?.targets {
                    // The next round checks pending rows.
                    let _ = one.settle(&settling, &target.address).await?;
                }
            } else if !self.has_changed(keys, &head).await? {
                return Ok(false);
            }
        }
        // Writers of a changing entity keep its own rows in step; workers settle shared rows.
        Ok(at < declared)
    }

    /// Checks that the blobs of the entity's fields exist. One request each.
    async fn examine_blobs(&self, head: &ReadHead<E>) -> Result<Vec<(&'static str, Verdict)>> {
        let mut found = Vec::new();
        let named = head.closed().map(|closed| BlobFields::named(E::BLOBS, &closed.row));
        for (property, blob) in named.unwrap_or_default() {
            let blob = self.inner.blobs()?.deciding().blob(&blob);
            let is_there = blob.properties().await?.is_some();
            found.push((property, if is_there { Verdict::Right } else { Verdict::Missing }));
        }
        Ok(found)
    }

    /// Checks the row that the entity demands for one of its indexes or unique values.
    async fn examine_demand(
        &self,
        keys: &Keys,
        head: &ReadHead<E>,
        position: usize,
    ) -> Result<Verdict> {
        let index = &E::INDEXES[position];
        let Some(at) = index_keys(&head.entity, position)? else { return Ok(Verdict::Right) };
        let Some(found) = self.inner.deciding.row(&at).await? else { return Ok(Verdict::Missing) };
        let found = found.entity;
        let is_right = if index.scope == Scope::Claim {
            Claim::read(&found)?.owner == *keys
        } else {
            is_copy(keys, head, position, &at, &found)?
        };
        Ok(if is_right { Verdict::Right } else { Verdict::Stale })
    }

    /// Returns the contributors that the program added, in order.
    fn given(&self) -> impl Iterator<Item = &dyn Contributor<E>> {
        let Inner { contributors, added, .. } = &*self.inner;
        contributors.iter().skip(contributors.len() - added).map(|one| &**one)
    }

    /// Plans the contribution of one contributor to a rewrite of the unchanged entity. Writes nothing.
    async fn rewritten(
        &self,
        contributor: &dyn Contributor<E>,
        keys: &Keys,
        head: Option<&ReadHead<E>>,
    ) -> Result<Plan> {
        let op = Op::random(self.inner.deciding.clock().now())?;
        let mut plan = Plan::new(keys.0.clone(), op.clone());
        let Some(head) = head else { return Ok(plan) };
        let change = Change {
            before: Some(&head.entity),
            after: Some(&head.entity),
            keys,
            op: &op,
            rewrites: true,
            reads_copies: false,
            unknown: &head.unknown,
            closed: head.closed(),
            older: head.older.as_ref(),
        };
        self.contribute(&mut plan, contributor, change).await?;
        Ok(plan)
    }

    /// Checks the rows and targets of one contributor for an entity.
    async fn examine_contributor(
        &self,
        contributor: &dyn Contributor<E>,
        keys: &Keys,
        head: &ReadHead<E>,
    ) -> Result<Verdict> {
        let plan = self.rewritten(contributor, keys, Some(head)).await?;
        for row in plan.rows.values() {
            match (&row.before, &row.after) {
                (None, Some(_)) => return Ok(Verdict::Missing),
                (Some((before, _)), after) if Some(before) != after.as_ref() => {
                    return Ok(Verdict::Stale);
                }
                _ => {}
            }
        }
        for target in &plan.targets {
            let settling = self.settling(keys);
            let verdict = contributor.verify(&settling, &target.address).await?;
            if verdict != Verdict::Right {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Right)
    }

    /// Checks a row that a contributor keeps in another place for an entity.
    async fn examine_target(
        &self,
        contributor: &dyn Contributor<E>,
        key: &Key<E>,
        address: &str,
        repairs: bool,
        report: &mut Report,
    ) -> Result<()> {
        let keys = parts(key)?;
        let head = self.read_before(&keys).await?;
        let plan = self.rewritten(contributor, &keys, head.as_ref()).await?;
        if plan.targets.iter().any(|target| target.address == address) {
            // The row is counted with its entity.
            return Ok(());
        }
        let part = Some(contributor.name());
        report.note(part, Verdict::Orphaned, 1);
        if repairs && contributor.settle(&self.settling(&keys), address).await? == Settled::Done {
            report.repaired(part, 1);
        }
        Ok(())
    }

    fn settling(&self, keys: &Keys) -> Settling<E> {
        let Inner { deciding, layers, .. } = &*self.inner;
        Settling::new(deciding.clone(), keys.clone(), layers.clone())
    }

    async fn has_changed(&self, keys: &Keys, head: &ReadHead<E>) -> Result<bool> {
        let now = self.read_before(keys).await?;
        Ok(now.is_none_or(|now| now.etag != head.etag))
    }

    /// Rewrites an unchanged entity with all its rows, and claims its values.
    async fn rewrite_head(&self, keys: &Keys, head: &ReadHead<E>) -> Result<()> {
        let op = Op::random(self.inner.deciding.clock().now())?;
        for (position, index) in E::INDEXES.iter().enumerate() {
            if index.scope == Scope::Claim
                && let Some(at) = index_keys(&head.entity, position)?
                && self.examine_demand(keys, head, position).await? != Verdict::Right
            {
                let reference = ClaimRef {
                    keys: at,
                    row_key: keys.1.clone(),
                    of: Inner::<E>::of().to_owned(),
                    name: index.name.to_owned(),
                    before: None,
                };
                let (owner, index) = (keys.clone(), index.name);
                let demands = Demands::of::<E>(&self.inner.layers);
                let new = NewClaim { reference, owner, index, position, demands, inserts: false };
                let announcer = self.inner.announcer.as_ref().ok_or_else(no_queue)?;
                claim(&self.inner.deciding, announcer, &new, &op, &mut false).await?;
            }
        }
        let after = head.entity.clone();
        let before = ReadHead {
            head: Head {
                entity: after.clone(),
                mark: head.mark.clone(),
                closed: head.closed.clone(),
                unknown: head.unknown.clone(),
                older: head.older.clone(),
            },
            etag: head.etag.clone(),
        };
        let rounds = &mut self.rounds(keys);
        self.write_all(keys, Some(before), Some(&after), true, rounds).await.map(drop)
    }

    async fn examine_copy(
        &self,
        keys: &Keys,
        position: usize,
        repairs: bool,
        report: &mut Report,
    ) -> Result<()> {
        let part = Some(E::INDEXES[position].name);
        // Read the copy, then the entity, then delete the copy under its ETag, as settling does.
        let Some(found) = self.inner.deciding.row(keys).await? else { return Ok(()) };
        let Some(owner) = primary_keys(&found.entity) else { return Ok(()) };
        if self.is_demanded(&owner, position, keys).await? {
            // The copy was counted with its entity.
            return Ok(());
        }
        let is_orphaned = if repairs {
            delete(&self.inner.deciding, keys, found.etag).await? == Settled::Done
        } else {
            self.is_still(keys, &found.etag).await?
        };
        // If the copy changed in the meantime, its writer keeps it in step.
        if is_orphaned {
            report.note(part, Verdict::Orphaned, 1);
            report.repaired(part, u64::from(repairs));
        }
        Ok(())
    }

    /// Whether an entity is unreadable because further rows of it are missing or come from another write.
    async fn lacks_rows(&self, keys: &Keys, error: &rowkey::Error) -> Result<bool> {
        let Inner { deciding, layers, .. } = &*self.inner;
        if !layers.is_wide() || error.kind() != ErrorKind::Decode {
            return Ok(false);
        }
        let Some(mut head) = deciding.row(keys).await? else { return Ok(false) };
        let gathered = Wide::gather(deciding.table(), &mut head.entity).await?;
        Ok(matches!(gathered, Gathered::Torn(_)))
    }

    /// Checks a further row of a wide entity against the head that it names.
    async fn examine_further(
        &self,
        keys: &Keys,
        owner: &Keys,
        number: usize,
        repairs: bool,
        report: &mut Report,
    ) -> Result<()> {
        let deciding = &self.inner.deciding;
        let is_demanded = || async {
            let head = deciding.row_as::<wide::HeadRows>(owner).await?;
            Ok::<_, rowkey::Error>(head.is_some_and(|head| number < head.entity.0))
        };
        // The row is checked with its entity.
        if is_demanded().await? {
            return Ok(());
        }
        // Read the row, then the entity, then delete the row under its ETag, as for a copy.
        let Some(found) = deciding.row_as::<Marked>(keys).await? else { return Ok(()) };
        if is_demanded().await? {
            return Ok(());
        }
        let is_orphaned = if repairs {
            delete(deciding, keys, found.etag).await? == Settled::Done
        } else {
            self.is_still(keys, &found.etag).await?
        };
        // If the row changed in the meantime, its writer keeps it in step.
        if is_orphaned {
            report.note(Some(wide::PART), Verdict::Orphaned, 1);
            report.repaired(Some(wide::PART), u64::from(repairs));
        }
        Ok(())
    }

    /// Whether a row is unchanged since it was read.
    pub(super) async fn is_still(&self, keys: &Keys, etag: &ETag) -> Result<bool> {
        let now = self.inner.deciding.row_as::<Marked>(keys).await?;
        Ok(now.is_some_and(|now| now.etag == *etag))
    }

    async fn examine_claim(
        &self,
        keys: &Keys,
        position: usize,
        repairs: bool,
        report: &mut Report,
    ) -> Result<()> {
        let part = Some(E::INDEXES[position].name);
        let deciding = &self.inner.deciding;
        let Some(found) = deciding.row(keys).await? else { return Ok(()) };
        let claim = Claim::read(&found.entity)?;
        if self.is_demanded(&claim.owner, position, keys).await? {
            return Ok(());
        }
        if !repairs {
            if self.is_still(keys, &found.etag).await? {
                report.note(part, Verdict::Orphaned, 1);
            }
            return Ok(());
        }
        end(deciding, &(claim.owner.0.clone(), claim.op.clone())).await?;
        if self.is_demanded(&claim.owner, position, keys).await? {
            return Ok(());
        }
        if delete(deciding, keys, found.etag).await? == Settled::Done {
            report.note(part, Verdict::Orphaned, 1);
            report.repaired(part, 1);
        }
        Ok(())
    }

    /// Settles or removes an operation that no announcement names any more.
    async fn examine_op(&self, keys: &Keys, repairs: bool, report: &mut Report) -> Result<()> {
        let Some(found) = self.inner.deciding.row(keys).await? else { return Ok(()) };
        let (OpRow::Committed { created, .. } | OpRow::Void { created }) =
            OpRow::read(&found.entity)?;
        let kept = TimeDelta::from_std(KEPT).unwrap_or(TimeDelta::MAX);
        if self.inner.deciding.clock().now() - created <= kept {
            report.note(Some(OPERATIONS), Verdict::Skipped, 1);
            return Ok(());
        }
        report.note(Some(OPERATIONS), Verdict::Orphaned, 1);
        if repairs {
            let notice = Notice::new(keys.clone(), Vec::new());
            if self.executor().resume(&notice).await? == Resumed::Done {
                report.repaired(Some(OPERATIONS), 1);
            }
        }
        Ok(())
    }

    async fn is_demanded(&self, owner: &Keys, position: usize, keys: &Keys) -> Result<bool> {
        match self.inner.deciding.row(owner).await? {
            Some(head) => {
                let (table, demands) =
                    (self.inner.deciding.table(), Demands::of::<E>(&self.inner.layers));
                demands.ask(table, &head, position, keys).await
            }
            None => Ok(false),
        }
    }
}

/// Whether a row is the correct copy of an entity in an index.
fn is_copy<E: Entity>(
    keys: &Keys,
    head: &ReadHead<E>,
    position: usize,
    at: &Keys,
    found: &DynamicEntity,
) -> Result<bool> {
    if primary_keys(found).as_ref() != Some(keys) {
        return Ok(false);
    }
    let mark = head.mark.as_deref().unwrap_or_default();
    let (content, index) = (head.content(), &E::INDEXES[position]);
    let expected = CopyRow { content, index, keys: at, primary: keys, mark };
    let expected = DynamicEntity::of(&expected)?;
    // The mark of a copy may be that of an older operation.
    let differs =
        |(name, value): (&str, &rowkey::edm::Value)| name != MARK && found.get(name) != Some(value);
    Ok(!expected.iter().any(differs) && expected.iter().len() == found.iter().len())
}

/// Returns the position of the declared index of a copy of an entity of this type.
fn index_of<E: Entity>(row: &DynamicEntity, owner: &Keys) -> Option<usize> {
    let name = text(row, INDEX)?;
    let head = match E::ROWS {
        Rows::Head(head) | Rows::One(head) => head,
        Rows::All => "",
    };
    let is_own = owner.1.starts_with(head);
    E::INDEXES.iter().position(|index| is_own && index.name == name)
}

/// Returns the position of the unique value whose claim has these keys.
fn claimed<E: Entity>(keys: &Keys) -> Option<usize> {
    E::INDEXES.iter().position(|index| {
        index.scope == Scope::Claim
            && keys.1 == index.row_head
            && keys.0.starts_with(index.partition_head)
    })
}
