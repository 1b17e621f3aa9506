//! Cleaning: a job that deletes the rows of a declaration that no program has any more.

use std::sync::Arc;

use futures_util::{FutureExt as _, TryStreamExt as _};
use rowkey_client::{DynamicEntity, ETag, Entity, Error, ErrorKind, Page, Result, Stored, Table};
use rowkey_patterns::job::{Job, Report, Verdict, Walk, Walking};

use super::examine::{claimed, note_failure};
use super::{Step, Store};
use crate::declaring::Declaration;
use crate::declaring::settling::Settled;
use crate::execute::announce::is_backlog;
use crate::execute::release::delete;
use crate::layer::deciding::{Deciding, is_lost};
use crate::layer::place::is_of;
use crate::row::declared::prefix;
use crate::row::{Claim, INDEX, Keys, op, primary_keys, text};

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Deletes the rows of an index, a unique value or a list that is [`Gone`](super::Stage::Gone): its
    /// copies, claims and lists, including lists in blobs. Pending writes no longer wait for it, so that
    /// workers end them. Entities stay unchanged.
    ///
    /// Run the job from a program that no longer declares it, at least 12 minutes after it reached the
    /// stage. No program writes such rows then. Costs one request for each page of 1,000 rows, one for
    /// each row that is deleted, and two for each pending write. [`clean_in`](Self::clean_in) deletes the
    /// rows that a declaration of a program keeps in another table. Lists in blobs require the container of
    /// [`StoreBuilder::blobs`](super::StoreBuilder::blobs).
    ///
    /// Two requests before the job. Fails with [`ErrorKind::Unavailable`](rowkey_client::ErrorKind) if it is too
    /// early, and with [`ErrorKind::Invalid`](rowkey_client::ErrorKind) if the declaration is not gone, if this
    /// program declares it, or if the store was not opened. Without a manifest, use
    /// [`repair_without`](Self::repair_without).
    pub async fn clean(&self, name: &str) -> Result<Job<'static, Walking<DynamicEntity, Step>>> {
        self.check_gone(name).await.map_err(|error| self.named("Clean", error))?;
        let (store, name) = (self.clone(), name.to_owned());
        let of = prefix::<E>();
        let title = format!("clean {of} {name}");
        let step: Step = Box::new(move |page: Page<DynamicEntity>| {
            let (store, left) = (store.clone(), Left::new(of, &name));
            async move { store.clean_page(&page, &left).await }.boxed()
        });
        let walk = Walk::new(self.inner.deciding.table(), Table::scan::<DynamicEntity>);
        Ok(Job::walk(title, walk, step))
    }

    /// Deletes the rows that an index or a list has in another table, after the declaration was removed or got
    /// another `table = ".."`. [`clean`](Self::clean), or without a manifest
    /// [`repair_without`](Self::repair_without), does so in the table of the entities, and ends pending writes.
    ///
    /// If the store was opened and does not have the declaration, its manifest must show that it is gone, as for
    /// `clean`. Otherwise run it when no program that declares it there runs any more, and 10 minutes after the last
    /// has stopped. Costs one request for each page of 1,000 rows, and one for each row that is deleted.
    ///
    /// Fails with [`ErrorKind::Invalid`](rowkey_client::ErrorKind) if this program declares it with this table.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # mod old {
    /// #     #[derive(Clone, Debug, PartialEq, rowkey::Entity)]
    /// #     #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// #     #[entity(index(name = by_customer, table = "lookups", partition = "{customer}", row = "{id:6}"))]
    /// #     pub struct Order { pub tenant: String, pub id: u32, pub customer: String }
    /// # }
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// #[entity(index(name = by_customer, table = "customers", partition = "{customer}", row = "{id:6}"))]
    /// struct Order { tenant: String, id: u32, customer: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let queue = account.queue("orders");
    /// # let before = Store::<old::Order>::builder(account.table("orders")).queue(queue.clone()).build()?;
    /// # before.create_if_missing().await?;
    /// # before.insert(&old::Order { tenant: "contoso".into(), id: 1, customer: "ada".into() }).await?;
    /// // The program before declared `by_customer` in the table `lookups`.
    /// let orders = Store::<Order>::builder(account.table("orders")).queue(queue).build()?;
    /// orders.create_if_missing().await?;
    /// assert_eq!(orders.repair().run().await?.part("by_customer").repaired, 1);
    /// let cleaned = orders.clean_rows_in("by_customer", &account.table("lookups")).await?.run().await?;
    /// assert_eq!(cleaned.part("by_customer").repaired, 1);
    /// # Ok(()) }
    /// ```
    pub async fn clean_rows_in(
        &self,
        name: &str,
        table: &Table,
    ) -> Result<Job<'static, Walking<DynamicEntity, Step>>> {
        let is_declared = self.index_table(name).is_some_and(|own| own.is_same_table(table));
        let checked = if is_declared {
            Err(declared(name))
        } else if self.inner.manifest.get().is_some() && self.index_table(name).is_none() {
            self.check_gone(name).await
        } else {
            Ok(())
        };
        checked.map_err(|error| self.named("Clean", error))?;
        let title = format!("clean {} {name} in {}", prefix::<E>(), table.name());
        let deciding = Deciding::new(table);
        let walk = Walk::new(deciding.table(), Table::scan::<DynamicEntity>);
        let left = Arc::new(Left::new(prefix::<E>(), name));
        let step: Step = Box::new(move |page: Page<DynamicEntity>| {
            let (deciding, left) = (deciding.clone(), Arc::clone(&left));
            async move {
                let mut report = Report::default();
                for Stored { entity: row, etag, .. } in page.entities {
                    if left.is(&row) {
                        clean_row(&deciding, (row, etag), &left, &mut report).await?;
                    }
                }
                Ok(report)
            }
            .boxed()
        });
        Ok(Job::walk(title, walk, step))
    }

    /// Deletes the rows that a declaration of a program, such as a view, kept in another table, when no program has it any
    /// more: contributions, summaries, and rows that [`Declaration::target_of`] recognizes. Pass the
    /// declaration as it was; the store must not have it. [`clean`](Self::clean) ends its pending writes.
    ///
    /// If the store was opened, its manifest must show that the declaration is gone, as for `clean`. A store
    /// without a manifest relies on the caller: a program that still has the declaration writes its rows
    /// again. Costs one request for each page of 1,000 rows, and one for each row that is deleted.
    ///
    /// ```
    /// # use rowkey::store::{Store, View};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, Entity)]
    /// # #[entity(store, partition = "{region}", row = "id_{id:6}")]
    /// # struct Employee { region: String, id: u32, department: String }
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{name}", row = "summary")]
    /// # struct Department { name: String, headcount: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let summaries = account.table("departments");
    /// # summaries.create_if_missing().await?;
    /// let departments = || {
    ///     View::new("departments", &summaries, |employee: &Employee| {
    ///         Some(Department::key(&employee.department))
    ///     })
    ///     .count(Department::HEADCOUNT)
    /// };
    /// # let before = Store::<Employee>::builder(account.table("staff"))
    /// #     .queue(account.queue("staff")).with(departments()).build()?;
    /// # before.create_if_missing().await?;
    /// # before.insert(&Employee { region: "west".into(), id: 7, department: "it".into() }).await?;
    /// // The program has the view no more.
    /// let staff = Store::<Employee>::builder(account.table("staff")).build()?;
    /// let report = staff.clean_in(departments(), &summaries).await?.run().await?;
    /// assert_eq!(report.part("departments").repaired, 2, "the summary and the contribution");
    /// # Ok(()) }
    /// ```
    pub async fn clean_in(
        &self,
        declaration: impl Declaration<E> + 'static,
        table: &Table,
    ) -> Result<Job<'static, Walking<DynamicEntity, Step>>> {
        let checked = match self.inner.manifest.get() {
            Some(_) => self.check_gone(declaration.name()).await,
            None => self.check_undeclared(declaration.name()),
        };
        checked.map_err(|error| self.named("Clean", error))?;
        let title = format!("clean {} {}", prefix::<E>(), declaration.name());
        let (declaration, deciding) = (Arc::new(declaration), Deciding::new(table));
        let walk = Walk::new(deciding.table(), Table::scan::<DynamicEntity>);
        let step: Step = Box::new(move |page: Page<DynamicEntity>| {
            let (declaration, deciding) = (Arc::clone(&declaration), deciding.clone());
            async move {
                let mut report = Report::default();
                for Stored { entity: row, etag, .. } in page.entities {
                    let is_kept = declaration.target_of(&row).is_some();
                    if is_kept || declaration.total_of(&row).is_some() {
                        let keys = (row.partition_key, row.row_key);
                        let part = Some(declaration.name());
                        report.note(part, Verdict::Orphaned, 1);
                        if delete(&deciding, &keys, etag).await? == Settled::Done {
                            report.repaired(part, 1);
                        }
                    }
                }
                Ok(report)
            }
            .boxed()
        });
        Ok(Job::walk(title, walk, step))
    }

    /// Refuses to delete the rows of a declaration that this program has. A declaration with another table is not
    /// the same: its rows in the table of the entities are those of another program.
    pub(super) fn check_undeclared(&self, name: &str) -> Result<()> {
        let is_declared = match self.inner.tables.get(name) {
            Some(_) => false,
            None => self.inner.declared().iter().any(|(declared, _)| declared == name),
        };
        if is_declared || self.inner.tables.iter().any(|other| other.stored() == name) {
            return Err(declared(name));
        }
        Ok(())
    }

    /// Deletes the rows of a declaration on a page, and removes it from pending writes.
    pub(super) async fn clean_page(
        &self,
        page: &Page<DynamicEntity>,
        left: &Left,
    ) -> Result<Report> {
        let mut report = Report::default();
        let part = Some(&*left.name);
        for Stored { entity: row, etag, .. } in &page.entities {
            if row.row_key.starts_with(op::HEAD) && !is_backlog(row) {
                let keys = (row.partition_key.clone(), row.row_key.clone());
                if let Err(error) = self.clean_op(&keys, left, &mut report).await {
                    note_failure(error, &keys, &mut report)?;
                }
            }
            let keys = (row.partition_key.clone(), row.row_key.clone());
            // The name of a declaration that stays may begin with this one: `by_number_2`.
            if !left.is(row) || claimed(E::DECLARED.indexes, &keys).is_some() {
                continue;
            }
            let row = (row.clone(), etag.clone());
            clean_row(&self.inner.deciding, row, left, &mut report).await?;
        }
        if let (None, Some(blobs)) = (&page.continuation, &self.inner.blobs) {
            // At the end of each range of the walk. Blobs deleted at the end of another range are gone.
            let lists = blobs.deciding().blobs().starting_with(&blobs.prefix(&left.list));
            let mut lists = lists.stream();
            while let Some(list) = lists.try_next().await? {
                if blobs.deciding().blob(&list.name).delete_if_exists().await? {
                    report.note(part, Verdict::Orphaned, 1);
                    report.repaired(part, 1);
                }
            }
        }
        Ok(report)
    }

    /// Removes the declaration from an op row, so that workers end the write.
    async fn clean_op(&self, keys: &Keys, left: &Left, report: &mut Report) -> Result<()> {
        let deciding = &self.inner.deciding;
        let Some(found) = deciding.row(keys).await? else { return Ok(()) };
        op::OpRow::read(&found.entity)?;
        let mut row = found.entity;
        // This program settles the targets in the tables that it declares.
        let own = |name: &str| self.inner.tables.iter().any(|other| other.stored() == name);
        let is_it = |name: &str| is_of(name, &left.name) && !own(name);
        if !op::remove_declaration(&mut row, left.of, &left.name, is_it)? {
            return Ok(());
        }
        report.note(Some(&left.name), Verdict::Orphaned, 1);
        match deciding.table().replace((&row, found.etag)).await {
            Ok(_) => report.repaired(Some(&left.name), 1),
            // A worker changed it. The next run finds what is left.
            Err(error) if is_lost(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn declared(name: &str) -> Error {
    let what = format!("this program declares `{name}`");
    Error::refused(ErrorKind::Invalid, what).advise("clean up from a program that does not")
}

/// Deletes a row of a declaration.
async fn clean_row(
    deciding: &Deciding,
    (row, etag): (DynamicEntity, ETag),
    left: &Left,
    report: &mut Report,
) -> Result<()> {
    let part = Some(&*left.name);
    report.note(part, Verdict::Orphaned, 1);
    // The next run finds a row that has changed since the page was read.
    if delete(deciding, &(row.partition_key, row.row_key), etag).await? == Settled::Done {
        report.repaired(part, 1);
    }
    Ok(())
}

/// Identifies the rows of a declaration that the program does not have.
pub(super) struct Left {
    of: &'static str,
    name: String,
    /// The prefix of the RowKeys of its lists, if it is a list.
    list: String,
    /// The prefix of the PartitionKeys of its claims, if it is a unique value.
    claims: String,
}

impl Left {
    pub(super) fn new(of: &'static str, name: &str) -> Self {
        let (list, claims) = (format!("list_{of}{name}_"), format!("unique_{of}{name}_"));
        Self { of, name: name.to_owned(), list, claims }
    }

    fn is(&self, row: &DynamicEntity) -> bool {
        if row.partition_key.starts_with(&self.claims) {
            return Claim::read(row).is_ok_and(|claim| claim.owner.1.starts_with(self.of));
        }
        if text(row, INDEX) != Some(&*self.name) {
            return false;
        }
        match primary_keys(row) {
            Some(owner) => owner.1.starts_with(self.of),
            None => row.row_key.starts_with(&self.list),
        }
    }
}
