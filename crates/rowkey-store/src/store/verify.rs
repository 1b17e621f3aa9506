//! Verifying and repairing: one walk over the tables of a store that checks every row of a type.
//!
//! | row | right if | otherwise |
//! |---|---|---|
//! | entity | its copies and claims exist and match, its lists name it | missing or stale: the entity is written again |
//! | | the blobs of its fields exist | missing: reported |
//! | entity of several rows | its further rows exist and come from one write | missing: reported, because the data is gone |
//! | further row of a wide entity | the head of its entity counts it | orphaned: deleted; written with the head: the head is corrected |
//! | copy | its entity demands it | orphaned: deleted |
//! | list | each of its entities has the value | orphaned: the RowKey is removed from it |
//! | claim | its entity has the value | orphaned: its operation is ended, and it is deleted |
//! | row edited by a contributor | a rewrite of the entity would not change it | stale: the entity is written again |
//! | target of a contributor | the contributor confirms it | missing or stale: the entity is written again |
//! | total of a contributor, such as a summary | it is what all entities add up to | stale: computed again |
//! | row of a contributor elsewhere | its entity names the target | orphaned: the target is settled |
//! | op row | it is younger than the time for which it is kept | orphaned: resumed as a worker does |

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey_client::{DynamicEntity, Entity, Key, Page, Result, Table};
use rowkey_patterns::job::{Job, Report, Verdict, Walk, Walking};

use super::clean::Left;
use super::examine::{
    Decoding, Demanding, Examiner, Kind, Walked, doubtful, examine_all, examine_blobs,
    examine_demand, note_failure, remains,
};
use super::repair::{Examined, Found, Repairs};
use super::rewriting::VERSIONS;
use super::totals::{OnPage, Totals};
use super::{Inner, ReadHead, Step, Store, is_race, parts};
use crate::contributor::settling::{Settled, Settling};
use crate::contributor::{Change, Contributor};
use crate::layer::deciding::Deciding;
use crate::layer::{Demands, wide};
use crate::plan::{NewClaim, Plan};
use crate::row::declared::Declared;
use crate::row::op::{ClaimRef, Op};
use crate::row::{Keys, Whole, index_keys};

/// The name of a job over the rows of a type.
fn named<E: Entity + Clone + Send + Sync + 'static>(name: &str) -> String {
    format!("{name} {}", Inner::<E>::of())
}

/// All rows of a table.
fn rows(table: &Table) -> Walk<DynamicEntity> {
    Walk::new(table, Table::scan::<DynamicEntity>)
}

/// How often an entity is checked again that changes in the meantime.
const ROUNDS: u32 = 8;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Checks every row that belongs to the type, and reports disagreements by the name of the declaration: the rows of
    /// the table, and those of the tables of declarations with `table = ".."`, in other accounts, too. Changes nothing.
    ///
    /// A page of 1,000 rows costs one request, in each table. Entities that agree with their copies on the same page and
    /// have no other rows cost nothing more. Other entities cost one read, and one for each of their rows; a
    /// copy or a claim costs two. Each group of a view is added up once, in the part `totals of` its name:
    /// two requests, and one for each 1,000 entities of the group. Committed writes that are not settled yet
    /// are reported, too. An unavailable account of another table delays the job until the
    /// [deadline](rowkey_patterns::job::Pace::until) of its pace; a table that does not exist has no rows.
    pub fn verify(&self) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.examine_all_tables("verify", false)
    }

    /// Checks a table in which contributors keep rows, such as the summaries of views or copies elsewhere, and reports
    /// rows that no entity demands, and wrong summaries of groups without entities. [`verify`](Self::verify) reports
    /// rows that are missing there. It does not walk these tables, which may be large and belong to another store.
    pub fn verify_in(&self, table: &Table) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.examine("verify", table, false, None)
    }

    /// Like [`verify`](Self::verify), and repairs disagreements: an entity whose rows are missing or
    /// stale is rewritten unchanged, a copy or a claim without an entity is deleted, and a leftover op
    /// row is settled. Programs may write in the meantime.
    ///
    /// A table of `table = ".."` belongs to the entities of one table: if two stores of one type shared it, each
    /// would treat the copies of the other as orphaned.
    ///
    /// Costs what [`verify`](Self::verify) costs, and one more read for each entity that is wrong. The entities of
    /// a partition on a page are rewritten together, as many per transaction as fit with their rows; claims are
    /// written, and orphans deleted, 100 per transaction of a partition. If a group is refused, its entities are
    /// rewritten one by one.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
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
        self.examine_all_tables("repair", true)
    }

    /// Like [`repair`](Self::repair), and ends everything of a declaration that no program has any more, for
    /// tables without a manifest: deletes its copies, claims and lists in the table of the entities, and removes it from
    /// pending writes.
    /// Workers then end those writes. With a manifest, use [`clean`](Self::clean).
    ///
    /// Run it when no program with the declaration runs any more, and 10 minutes after the last has stopped,
    /// because a request may be applied that late. A program that still has it misses rows from then on.
    ///
    /// Fails with [`ErrorKind::Invalid`](rowkey_client::ErrorKind) if this program declares it.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # mod old {
    /// #     #[derive(Clone, Debug, PartialEq, rowkey::Entity)]
    /// #     #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// #     #[entity(index(name = by_customer, row = "customer_{customer}", many))]
    /// #     pub struct Order { pub tenant: String, pub id: u32, pub customer: String }
    /// # }
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, customer: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let before = Store::<old::Order>::builder(account.table("orders")).build()?;
    /// # before.create_if_missing().await?;
    /// # before.insert(&old::Order { tenant: "contoso".into(), id: 1, customer: "ada".into() }).await?;
    /// // The program before declared `by_customer`, and this one does not.
    /// let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// let report = orders.repair_without("by_customer")?.run().await?;
    /// assert_eq!(report.part("by_customer").repaired, 1);
    /// # Ok(()) }
    /// ```
    pub fn repair_without(&self, name: &str) -> Result<Job<'static, Walking<DynamicEntity, Step>>> {
        self.check_undeclared(name).map_err(|error| self.named("Repair", error))?;
        let title = format!("repair without {name} in");
        Ok(self.examine(&title, &self.inner.table, true, Some(name.to_owned())))
    }

    /// Like [`verify_in`](Self::verify_in), and settles rows that no entity demands.
    pub fn repair_in(&self, table: &Table) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.examine("repair", table, true, None)
    }

    /// Examines the table of the entities, and those of declarations that have one of their own.
    fn examine_all_tables(
        &self,
        name: &str,
        repairs: bool,
    ) -> Job<'static, Walking<DynamicEntity, Step>> {
        let totals = Arc::default();
        let own = &self.inner.table;
        let job =
            Job::walk(named::<E>(name), rows(own), self.examining(own, repairs, None, &totals));
        let others = self.inner.tables.distinct();
        others.into_iter().fold(job, |job, other| {
            job.beside(rows(other), self.examining(other, repairs, None, &totals))
        })
    }

    /// Examines one table.
    fn examine(
        &self,
        name: &str,
        table: &Table,
        repairs: bool,
        without: Option<String>,
    ) -> Job<'static, Walking<DynamicEntity, Step>> {
        let step = self.examining(table, repairs, without, &Arc::default());
        Job::walk(named::<E>(name), rows(table), step)
    }

    /// Examines a page of a table.
    fn examining(
        &self,
        table: &Table,
        repairs: bool,
        without: Option<String>,
        totals: &Arc<Totals>,
    ) -> Step {
        let (store, totals) = (self.clone(), Arc::clone(totals));
        let without = without.map(|name| Arc::new(Left::new(Inner::<E>::of(), &name)));
        // In another table, only rows of contributors and of declarations with this table are checked.
        let is_own = table.is_same_table(&self.inner.table);
        let names = self.inner.tables.in_table(table);
        let walked = Walked { table: Deciding::new(table), is_own, names };
        let walked = Arc::new(walked);
        Box::new(move |page: Page<DynamicEntity>| {
            let (store, totals, without) = (store.clone(), Arc::clone(&totals), without.clone());
            let walked = Arc::clone(&walked);
            async move {
                let checked = store.examine_page(page, &walked, (repairs, without), &totals);
                if repairs { store.executor().sharing(checked).await } else { checked.await }
            }
            .boxed()
        })
    }

    async fn examine_page(
        &self,
        page: Page<DynamicEntity>,
        walked: &Walked,
        (repairs, without): (bool, Option<Arc<Left>>),
        totals: &Totals,
    ) -> Result<Report> {
        let mut report = match without {
            Some(left) => self.clean_page(&page, &left).await?,
            None => Report::default(),
        };
        let (on_page, found) = (totals.page(), Found::default());
        let mut examined = Vec::new();
        for row in self.doubtful(page, walked.is_own, &mut report) {
            let (totals, found) = (&on_page, repairs.then_some(&found));
            let examine = async move { self.examine_row(&row, walked, found, totals).await };
            examined.push(examine.boxed());
        }
        let mut report = examine_all(examined, report).await?;
        self.repair_found(walked, found, &on_page, &mut report).await?;
        on_page.keep();
        Ok(report)
    }

    /// Returns the rows of a page that need a separate check. A page shows a partition at one point in time,
    /// so rows that agree on the page are reported without a request.
    fn doubtful(
        &self,
        page: Page<DynamicEntity>,
        is_own: bool,
        report: &mut Report,
    ) -> Vec<DynamicEntity> {
        if !is_own
            || !self.inner.layers.is_empty()
            || self.inner.added > 0
            || !E::DECLARED.references.is_empty()
        {
            // Rows must be opened, contributors must verify them, blobs must be looked for, or their entities are in
            // another table.
            return page.entities.into_iter().map(|stored| stored.entity).collect();
        }
        let of_type = (&Declared::of::<E>(), Inner::<E>::of());
        let decoding = Decoding { head: head_of::<E>, index_keys: index_keys_of::<E> };
        doubtful(&page, report, of_type, decoding)
    }

    async fn examine_row(
        &self,
        row: &DynamicEntity,
        walked: &Walked,
        found: Option<&Found<E>>,
        totals: &OnPage<'_>,
    ) -> Result<Report> {
        let mut report = Report::default();
        let repairs = found.is_some();
        let keys = (row.partition_key.clone(), row.row_key.clone());
        let mut kept = None;
        let mut total = None;
        for contributor in &self.inner.contributors {
            if let Some((key, address)) = contributor.target_of(row) {
                kept = Some((contributor, key, address));
                break;
            }
            if let Some(address) = contributor.total_of(row) {
                total = Some((contributor, [address]));
                break;
            }
        }
        let examined = if let Some((contributor, key, address)) = kept {
            self.examine_target(&**contributor, &key, &address, repairs, &mut report).await
        } else if let Some((contributor, address)) = total {
            totals.examine(&**contributor, &address, &keys, repairs, &mut report).await
        } else {
            let declared = Declared::of::<E>();
            let kind = Kind::of(row, &keys, &declared, Inner::<E>::of());
            match kind.filter(|kind| walked.has(*kind, &declared)) {
                Some(Kind::Head) => {
                    let repairs = found.map_or(Repairs::Nothing, Repairs::Later);
                    self.examine_head(&keys, repairs, totals, &mut report).await
                }
                Some(Kind::List(position)) => match Self::EXAMINE_LIST {
                    Some(examine) => examine(self, &keys, position, repairs, &mut report).await,
                    None => Ok(()),
                },
                Some(kind) => {
                    let demands = Demands::of::<E>(&self.inner.layers);
                    let executor = self.executor();
                    let (table, indexes) = (walked.table.clone(), E::DECLARED.indexes);
                    let orphans = found.map(|found| &found.orphans);
                    let examiner = Examiner { executor, table, demands, indexes, orphans };
                    examiner.examine(kind, row, &keys, &mut report).await
                }
                None => Ok(()),
            }
        };
        if let Err(error) = examined {
            note_failure(error, &keys, &mut report)?;
        }
        Ok(report)
    }

    /// Compiled only for types that have lists.
    const EXAMINE_LIST: Option<ExamineList<E>> = if E::DECLARED.lists.is_empty() {
        None
    } else {
        Some(|store, keys, position, repairs, report| {
            store.examine_list(keys, position, repairs, report).boxed()
        })
    };

    const EXAMINE_LISTS: Option<ExamineLists<E>> = if E::DECLARED.lists.is_empty() {
        None
    } else {
        Some(|store, keys, head, list| store.examine_lists(keys, head, list).boxed())
    };

    /// Checks all rows that an entity demands now.
    pub(super) async fn examine_head(
        &self,
        keys: &Keys,
        repairs: Repairs<'_, E>,
        totals: &OnPage<'_>,
        report: &mut Report,
    ) -> Result<()> {
        for _ in 0..ROUNDS {
            let read = match self.read_before(keys).await {
                Ok(read) => read,
                Err(error) => {
                    let Inner { deciding, layers, .. } = &*self.inner;
                    let left = remains(deciding, layers, keys, &error).boxed().await?;
                    let Some(left) = left else { return Err(error) };
                    let (part, keys) = (Some(wide::PART), (&*keys.0, &*keys.1));
                    report.problem(part, Verdict::Missing, keys, &left.error());
                    return Ok(());
                }
            };
            let Some(head) = read else { return Ok(()) };
            if head.older.is_some() {
                // Its rows are those of another version; `migrate` rewrites them.
                report.note(Some(VERSIONS), Verdict::Skipped, 1);
                return Ok(());
            }
            let mut found = Vec::new();
            for position in 0..E::DECLARED.indexes.len() {
                let name = E::DECLARED.indexes[position].name;
                let verdict = self.examine_demand(keys, &head, position).await?;
                found.push((Cow::Borrowed(name), verdict));
            }
            if let Some(examine) = Self::EXAMINE_LISTS {
                for list in 0..E::DECLARED.lists.len() {
                    let verdict = examine(self, keys, &head, list).await?;
                    found.push((Cow::Borrowed(E::DECLARED.lists[list].name), verdict));
                }
            }
            let mut added = Vec::new();
            for contributor in self.given() {
                let (verdict, targets) = self.examine_contributor(contributor, keys, &head).await?;
                found.push((Cow::Owned(contributor.name().to_owned()), verdict));
                added.push(targets);
            }
            let in_blobs = self.examine_blobs(&head).await?;
            let examined = Examined { keys: keys.clone(), head, found, in_blobs, added };
            let is_wrong = examined.is_wrong() || examined.in_blobs.iter().any(is_wrong);
            if is_wrong && self.has_changed(keys, &examined.head).await? {
                // The rows were not read at one point in time.
                continue;
            }
            let repaired = match repairs {
                Repairs::Later(later) if examined.is_wrong() => {
                    later.add(examined);
                    return Ok(());
                }
                Repairs::Now if examined.is_wrong() => {
                    self.rewrite_head(keys, &examined.head).await
                }
                _ => Ok(()),
            };
            if repaired.as_ref().is_err_and(is_race)
                && self.has_changed(keys, &examined.head).await?
            {
                continue;
            }
            let how = (!matches!(repairs, Repairs::Nothing)).then_some(Settled::Pending);
            return self.report_head(&examined, (how, repaired), totals, report).await;
        }
        // The entity keeps changing. Its writers keep its rows in step.
        report.note(None, Verdict::Skipped, 1);
        Ok(())
    }

    /// Reports an entity and its rows. If it was repaired, `how` says whether all its rows are known to agree with it:
    /// otherwise they are read.
    pub(super) async fn report_head(
        &self,
        examined: &Examined<E>,
        (how, repaired): (Option<Settled>, Result<()>),
        totals: &OnPage<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let Examined { keys, head, found, in_blobs, added } = examined;
        report.note(None, Verdict::Right, 1);
        if head.closed().is_some_and(|closed| !closed.beside.stored().is_empty()) {
            report.note(Some(wide::PART), Verdict::Right, 1);
        }
        let declared = found.iter().map(|(name, verdict)| (&**name, *verdict));
        for (name, verdict) in declared.chain(in_blobs.iter().copied()) {
            report.note(Some(name), verdict, 1);
        }
        repaired?;
        if let Some(settled) = how {
            let declared = E::DECLARED.indexes.len() + E::DECLARED.lists.len();
            for (at, (name, verdict)) in found.iter().enumerate().filter(|(_, one)| is_wrong(one)) {
                let is_known = settled == Settled::Done && at < declared;
                if is_known || self.is_repaired(keys, at).await? {
                    report.repaired(Some(name), 1);
                } else if let Some(error) = self.cause(keys, at).boxed().await? {
                    report.explain(Some(name), *verdict, (&keys.0, &keys.1), &error);
                }
            }
        }
        for (contributor, targets) in self.given().zip(added) {
            totals.examine(contributor, targets, keys, how.is_some(), report).await?;
        }
        Ok(())
    }

    /// Whether the rows of one declaration or contributor agree with the entity now.
    async fn is_repaired(&self, keys: &Keys, at: usize) -> Result<bool> {
        let declared = E::DECLARED.indexes.len() + E::DECLARED.lists.len();
        for _ in 0..ROUNDS {
            let Some(head) = self.read_before(keys).await? else { return Ok(true) };
            let contributor = at.checked_sub(declared).and_then(|at| self.given().nth(at));
            let now = match (contributor, at.checked_sub(E::DECLARED.indexes.len())) {
                (Some(one), _) => self.examine_contributor(one, keys, &head).await?.0,
                (None, None) => self.examine_demand(keys, &head, at).await?,
                (None, Some(list)) => match Self::EXAMINE_LISTS {
                    Some(examine) => examine(self, keys, &head, list).await?,
                    None => Verdict::Right,
                },
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
        let mut referred = Vec::new();
        head.entity.references(&mut |property, one| referred.push((property, one.path())));
        let fields = head.closed().filter(|_| !E::DECLARED.blobs.is_empty());
        if fields.is_none() && referred.is_empty() {
            return Ok(Vec::new());
        }
        examine_blobs(self.inner.blobs()?, (E::DECLARED.blobs, fields), referred).await
    }

    /// Checks the row that the entity demands for one of its indexes or unique values.
    pub(super) async fn examine_demand(
        &self,
        keys: &Keys,
        head: &ReadHead<E>,
        position: usize,
    ) -> Result<Verdict> {
        let index = &E::DECLARED.indexes[position];
        let Some(at) = index_keys(&head.entity, position)? else { return Ok(Verdict::Right) };
        let (head, deciding) = (&head.head, self.inner.deciding_of(index.name));
        let examined = examine_demand(deciding, keys, (index, &at), position, head).await;
        examined.map_err(|error| self.inner.named_at(index.name, error))
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
            is_over_expired: false,
            mark: head.mark.as_deref(),
            stored: head.closed(),
            unknown: &head.unknown,
            closed: head.closed(),
            older: head.older.as_ref(),
        };
        self.contribute(&mut plan, contributor, change).await?;
        Ok(plan)
    }

    /// Checks the rows and targets of one contributor for an entity. Returns the targets as well.
    async fn examine_contributor(
        &self,
        contributor: &dyn Contributor<E>,
        keys: &Keys,
        head: &ReadHead<E>,
    ) -> Result<(Verdict, Vec<String>)> {
        let plan = self.rewritten(contributor, keys, Some(head)).await?;
        let targets = || plan.targets.iter().map(|target| target.address.clone()).collect();
        for row in plan.rows.values() {
            match (&row.before, &row.after) {
                (None, Some(_)) => return Ok((Verdict::Missing, targets())),
                (Some((before, _)), after) if Some(before) != after.as_ref() => {
                    return Ok((Verdict::Stale, targets()));
                }
                _ => {}
            }
        }
        for target in &plan.targets {
            let settling = self.settling(keys);
            let verdict = contributor.verify(&settling, &target.address).await?;
            if verdict != Verdict::Right {
                return Ok((verdict, targets()));
            }
        }
        Ok((Verdict::Right, targets()))
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
        if plan.targets.iter().any(|target| contributor.includes(&target.address, address)) {
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

    pub(super) fn settling(&self, keys: &Keys) -> Settling<E> {
        let Inner { deciding, layers, .. } = &*self.inner;
        Settling::new(deciding.clone(), keys.clone(), layers.clone())
    }

    pub(super) async fn has_changed(&self, keys: &Keys, head: &ReadHead<E>) -> Result<bool> {
        let now = self.read_before(keys).await?;
        Ok(now.is_none_or(|now| now.etag != head.etag))
    }

    /// The claim of a value that an entity has already.
    pub(super) fn new_claim(&self, keys: &Keys, position: usize, at: Keys) -> NewClaim {
        let index = E::DECLARED.indexes[position].name;
        let reference = ClaimRef {
            keys: at,
            row_key: keys.1.clone(),
            of: Inner::<E>::of().to_owned(),
            name: index.to_owned(),
            before: None,
            head: None,
        };
        let demands = Demands::of::<E>(&self.inner.layers);
        NewClaim { reference, owner: keys.clone(), index, position, demands, inserts: false }
    }
}

/// Whether a row of an entity does not agree with it.
pub(super) fn is_wrong<N>((_, verdict): &(N, Verdict)) -> bool {
    *verdict != Verdict::Right
}

/// Checks a row of a list.
type ExamineList<E> =
    for<'a> fn(&'a Store<E>, &'a Keys, usize, bool, &'a mut Report) -> BoxFuture<'a, Result<()>>;

/// Checks the lists of an entity's values.
type ExamineLists<E> =
    for<'a> fn(&'a Store<E>, &'a Keys, &'a ReadHead<E>, usize) -> BoxFuture<'a, Result<Verdict>>;

/// Decodes an entity; `None` if it is not readable or of an older version.
fn head_of<E: Entity + Send + Sync + 'static>(row: &DynamicEntity) -> Option<Box<dyn Demanding>> {
    let Whole::<E>(head) = row.read_as().ok()?;
    // The rows of an older version are not those of this one.
    if head.older.is_some() { None } else { Some(Box::new(head)) }
}

/// Returns the keys of an entity's row in the index at `position`.
fn index_keys_of<E: Entity>(row: &DynamicEntity, position: usize) -> Option<Keys> {
    index_keys(&row.read_as::<E>().ok()?, position).ok()?
}
