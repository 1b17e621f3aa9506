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
//! | row edited by a declaration of the program | a rewrite of the entity would not change it | stale: the entity is written again |
//! | its target | the declaration confirms it | missing or stale: the entity is written again |
//! | its total, such as a summary | it is what all entities add up to | stale: computed again |
//! | its row elsewhere | its entity names the target | orphaned: the target is settled |
//! | op row | it is younger than the time for which it is kept | orphaned: resumed as a worker does |

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey_client::{DynamicEntity, Entity, Page, Result, Table};
use rowkey_patterns::job::{Job, Report, Walk, Walking};

use super::clean::Left;
use super::examine::{
    Decoding, Demanding, Examiner, Kind, Walked, doubtful, examine_all, note_failure,
};
use super::repair::{Found, Repairs};
use super::totals::{OnPage, Totals};
use super::{Step, Store};
use crate::layer::Demands;
use crate::layer::deciding::Deciding;
use crate::row::declared::prefix;
use crate::row::{Keys, Whole, index_keys};

mod entity;

pub(super) use entity::is_wrong;

/// The name of a job over the rows of a type.
fn named<E: Entity + Clone + Send + Sync + 'static>(name: &str) -> String {
    format!("{name} {}", prefix::<E>())
}

/// All rows of a table.
fn rows(table: &Table) -> Walk<DynamicEntity> {
    Walk::new(table, Table::scan::<DynamicEntity>)
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Checks every row that belongs to the type, and reports disagreements by the name of the declaration: the rows of
    /// the table, and those of the tables of declarations with `table = ".."`, in other accounts, too. Changes nothing.
    ///
    /// A page of 1,000 rows costs one request, in each table. Entities that agree with their copies on the same page and
    /// have no other rows cost nothing more. Other entities cost one read, and one for each of their rows; a
    /// copy or a claim costs two. Each group of a view is added up once, in the part `totals of` its name:
    /// two requests, and one for each 1,000 entities of the group. Committed writes that are not settled yet
    /// are reported, too. An unavailable account of another table delays the job until the
    /// [deadline](rowkey_client::pace::Pace::until) of its pace; a table that does not exist has no rows.
    pub fn verify(&self) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.examine_all_tables("verify", false)
    }

    /// Checks a table in which declarations keep rows, such as the summaries of views or copies elsewhere, and reports
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
        let without = without.map(|name| Arc::new(Left::new(prefix::<E>(), &name)));
        // In another table, only rows of declarations are checked.
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
            // Rows must be opened, declarations of the program must verify them, blobs must be looked for, or their
            // entities are in another table.
            return page.entities.into_iter().map(|stored| stored.entity).collect();
        }
        let of_type = (&E::DECLARED, prefix::<E>());
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
        for declaration in &self.inner.declarations {
            if let Some((key, address)) = declaration.target_of(row) {
                kept = Some((declaration, key, address));
                break;
            }
            if let Some(address) = declaration.total_of(row) {
                total = Some((declaration, [address]));
                break;
            }
        }
        let examined = if let Some((declaration, key, address)) = kept {
            self.examine_target(&**declaration, &key, &address, repairs, &mut report).await
        } else if let Some((declaration, address)) = total {
            totals.examine(&**declaration, &address, &keys, repairs, &mut report).await
        } else {
            let declared = E::DECLARED;
            let kind = Kind::of(row, &keys, &declared, prefix::<E>());
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
}

/// Checks a row of a list.
type ExamineList<E> =
    for<'a> fn(&'a Store<E>, &'a Keys, usize, bool, &'a mut Report) -> BoxFuture<'a, Result<()>>;

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
