//! Deleting many entities with all their rows.

use std::fmt;

use futures_util::FutureExt as _;
use rowkey_client::{
    Column, DynamicEntity, Entity, Error, ErrorKind, Key, Page, Partition, Result, Stored,
};

use rowkey_client::edm::DateTime;
use rowkey_patterns::job::{Job, PageStep, Report, Verdict, Walk, Walking};

use super::bulk::rows_of;
use super::examine::{note_failure, remains};
use super::expiry::is_expired;
use super::{ReadHead, Store, is_race, parts};
use crate::execute::Ran;
use crate::execute::settler::TypeSettler;
use crate::plan::{MAX_OPERATIONS, Plan};
use crate::row::declared::prefix;
use crate::row::op::Op;
use crate::row::{Head, Keys, keys_of};

/// How often the deletion of an entity is repeated if other writers change it in the meantime.
const ROUNDS: u32 = 8;

const PARTITION_KEY: Column<String> = Column::named("PartitionKey");

/// The page step of [`Store::delete_where`].
pub struct Deletions<E> {
    store: Store<E>,
    walk: Walk<DynamicEntity>,
    /// Deletes only entities that are expired at this time. The filter is not enough: in a row of an older version
    /// of the type, the property may have another time than the converted entity.
    expired: Option<DateTime>,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Deletes every entity of a partition or a part of one, with all its rows. Otherwise like
    /// [`delete_found`](Self::delete_found).
    pub fn delete_where(
        &self,
        partition: Partition<E>,
    ) -> Job<'static, Walking<DynamicEntity, Deletions<E>>>
    where
        Partition<E>: Clone,
    {
        self.delete_found(Walk::new(&self.inner.table, move |table| table.query(partition.clone())))
    }

    /// Deletes every entity whose PartitionKey begins with `prefix`, with all its rows: for example, all
    /// partitions of a tenant. [`Jobs`](rowkey_patterns::job::Jobs) does it for several types as one job.
    ///
    /// The prefix is compared with the PartitionKeys as they are stored. End it with the separator that follows
    /// the value, such as `contoso_`; otherwise `contoso2_` is deleted as well. If the value is the whole
    /// PartitionKey, use [`delete_where`](Self::delete_where). Otherwise like
    /// [`delete_found`](Self::delete_found). The service reads the rows of these partitions.
    ///
    /// Fails with [`ErrorKind::Invalid`] if the prefix is empty.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// #[derive(Clone, Debug, Entity)]
    /// #[entity(store, partition = "{tenant}_{region}", row = "order_{id:6}")]
    /// struct Order { tenant: String, region: String, id: u32 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// orders.create_if_missing().await?;
    /// for (tenant, region) in [("contoso", "eu"), ("contoso", "us"), ("contoso2", "eu")] {
    ///     orders.insert(&Order { tenant: tenant.into(), region: region.into(), id: 1 }).await?;
    /// }
    /// assert_eq!(orders.delete_under("contoso_")?.run().await?.total.right, 2);
    /// assert!(orders.exists(Order::key("contoso2", "eu", 1)).await?);
    /// # Ok(()) }
    /// ```
    pub fn delete_under(
        &self,
        prefix: &str,
    ) -> Result<Job<'static, Walking<DynamicEntity, Deletions<E>>>> {
        if prefix.is_empty() {
            let what = "an empty prefix would delete every entity of the type";
            let error = Error::refused(ErrorKind::Invalid, what);
            return Err(self.named("DeleteUnder", error));
        }
        let under = prefix.to_owned();
        let walk = Walk::new(&self.inner.table, move |table| {
            table.scan::<E>().filter(PARTITION_KEY.starts_with(&under))
        });
        Ok(self.delete_found(walk).parameter("prefix", prefix))
    }

    /// Deletes the entities that a walk finds, with all their rows. A transaction takes as many entities
    /// of a partition as fit with their rows.
    ///
    /// An entity that another writer changed since it was found is looked up again: it is deleted if the
    /// walk still finds it, and counts as [`Verdict::Skipped`] otherwise. An entity that does not decode stays,
    /// and the report names it as [`Verdict::Unreadable`]. The report counts entities. Run the job again to
    /// delete entities that began to match after it had passed them. [`Job::count`] counts the entities in
    /// advance.
    ///
    /// A filter of the walk compares the properties in the entity's own row. Do not filter by properties
    /// of a wide entity, which may be in further rows.
    ///
    /// ```
    /// use rowkey::patterns::job::Walk;
    /// use rowkey::store::Store;
    /// use rowkey::{Entity, StorageAccount};
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// #[entity(index(name = by_customer, row = "customer_{customer}", many))]
    /// struct Order { tenant: String, id: u32, customer: String, year: i32 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// orders.create_if_missing().await?;
    /// for id in 0..6 {
    ///     let tenant = ["contoso", "fabrikam"][id as usize % 2].into();
    ///     let year = 2020 + id as i32;
    ///     orders.insert(&Order { tenant, id, customer: "ada".into(), year }).await?;
    /// }
    /// let old = Walk::new(orders.table(), |table| table.scan::<Order>().filter(Order::YEAR.lt(2024)));
    /// assert_eq!(orders.delete_found(old).run().await?.total.right, 4);
    /// assert_eq!(orders.count(Order::by_customer("contoso", "ada")).await?, 1);
    ///
    /// assert_eq!(orders.delete_where(Order::partition("contoso")).run().await?.total.right, 1);
    /// # Ok(()) }
    /// ```
    pub fn delete_found(
        &self,
        walk: Walk<E>,
    ) -> Job<'static, Walking<DynamicEntity, Deletions<E>>> {
        let walk = walk.project();
        let step = Deletions { store: self.clone(), walk: walk.clone(), expired: None };
        Job::stepping(format!("delete {}", prefix::<E>()), walk, step)
    }

    /// Deletes what is left of a wide entity that cannot be read, because further rows of it are gone or come
    /// from another write; returns whether it existed. [`verify`](Self::verify) reports such entities as
    /// missing `further rows`. Nothing can restore their data: read the remaining rows as [`DynamicEntity`]
    /// first if you need them.
    ///
    /// Its rows in indexes and its unique values become orphans, which [`repair`](Self::repair) removes. Costs
    /// four requests. Fails with [`ErrorKind::Invalid`] if the entity can be read, and with
    /// [`ErrorKind::Conflict`] if a writer changed it in the meantime.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{DynamicEntity, Entity, Key, Match, StorageAccount};
    /// # use std::collections::BTreeMap;
    /// # #[derive(Clone, Debug, Entity)]
    /// # #[entity(store, wide = 9, partition = "{city}", row = "year_{year:4}")]
    /// # struct Year { city: String, year: u16, #[entity(rest)] hours: BTreeMap<String, f64> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let years = Store::<Year>::builder(account.table("years")).build()?;
    /// # years.create_if_missing().await?;
    /// # let hours = (0..600).map(|hour| (format!("H{hour}"), 1.5)).collect();
    /// # years.insert(&Year { city: "leeds".into(), year: 2026, hours }).await?;
    /// // Another program deletes a further row.
    /// let further = Key::<DynamicEntity>::new("leeds", "wide_year_2026_01");
    /// years.table().delete(further, Match::Any).await?;
    /// assert!(years.get(Year::key("leeds", 2026)).await.is_err());
    ///
    /// assert!(years.delete_remains(Year::key("leeds", 2026)).await?);
    /// assert!(years.get(Year::key("leeds", 2026)).await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn delete_remains(&self, key: Key<E>) -> Result<bool> {
        let delete = async {
            let keys = parts(&key)?;
            let TypeSettler { deciding, layers, .. } = &**self.inner;
            let error = match self.read_before(&keys).await {
                Ok(None) => return Ok(false),
                Ok(Some(_)) => {
                    let what = "the entity is complete";
                    return Err(
                        Error::refused(ErrorKind::Invalid, what).advise("use `Store::delete`")
                    );
                }
                Err(error) => error,
            };
            let Some(left) = remains(deciding, layers, &keys, &error).boxed().await? else {
                return Err(error);
            };
            left.delete(deciding.table()).await.map(|()| true)
        };
        delete.await.map_err(|error| self.named("DeleteRemains", error))
    }

    async fn delete_group(&self, group: &[(Keys, ReadHead<E>)]) -> Result<()> {
        let Some((first, _)) = group.first() else { return Ok(()) };
        let op = Op::random(self.inner.deciding.clock().now())?;
        let mut plan = Plan::new(first.0.clone(), op);
        for (keys, head) in group {
            self.add(&mut plan, keys, Some(head), None).await?;
        }
        match self.executor().run(plan).await? {
            Ran::Done { .. } => Ok(()),
            Ran::Stale(error) => Err(error),
        }
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> PageStep<DynamicEntity> for Deletions<E> {
    async fn step(&self, page: Page<DynamicEntity>) -> Result<Report> {
        self.store.executor().sharing(self.delete_page(page)).await
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> Deletions<E> {
    /// Deletes the entities that the walk finds and that are expired at this time.
    pub(super) fn of_expired(
        store: &Store<E>,
        walk: Walk<DynamicEntity>,
        expired: DateTime,
    ) -> Self {
        Self { store: store.clone(), walk, expired: Some(expired) }
    }

    fn is_meant(&self, head: &ReadHead<E>) -> bool {
        self.expired.is_none_or(|now| is_expired(&head.entity, now))
    }

    async fn delete_page(&self, page: Page<DynamicEntity>) -> Result<Report> {
        let mut report = Report::default();
        let mut heads = Vec::with_capacity(page.entities.len());
        for stored in page.entities {
            let keys = (stored.entity.partition_key.clone(), stored.entity.row_key.clone());
            match self.open(stored).await {
                Ok(Some((_, head))) if !self.is_meant(&head) => {
                    report.note(None, Verdict::Skipped, 1);
                }
                Ok(head) => heads.extend(head),
                // It stays unchanged, and does not end the job.
                Err(error) => note_failure(error, &keys, &mut report)?,
            }
        }
        let added = self.store.inner.added_operations();
        for partition in heads.chunk_by(|one, other| one.0.0 == other.0.0) {
            for group in groups(partition, added) {
                match self.store.delete_group(group).await {
                    Ok(()) => report.note(None, Verdict::Right, group.len() as u64),
                    // One by one, because others of the group can be deleted.
                    Err(error) if is_race(&error) || is_of_one(&error) => {
                        for (keys, _) in group {
                            match self.delete_one(keys).await {
                                Ok(verdict) => report.note(None, verdict, 1),
                                Err(error) => note_failure(error, keys, &mut report)?,
                            }
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(report)
    }

    /// Opens a row; `None` if it was deleted.
    async fn open(&self, stored: Stored<DynamicEntity>) -> Result<Option<(Keys, ReadHead<E>)>> {
        let inner = &self.store.inner;
        let layers = inner.deciding_layers();
        let opened = layers.open::<E>(inner.deciding.table(), stored).await?;
        let keyed =
            |stored: Stored<Head<E>>| Ok((keys_of(&stored.entity.entity)?, ReadHead::of(stored)));
        opened.map(keyed).transpose()
    }

    /// Deletes an entity in its present state, if the walk still finds it.
    async fn delete_one(&self, keys: &Keys) -> Result<Verdict> {
        for _ in 0..ROUNDS {
            let Some(found) = self.walk.again((&keys.0, &keys.1)).await? else {
                let is_gone = self.store.inner.deciding.row(keys).await?.is_none();
                return Ok(if is_gone { Verdict::Right } else { Verdict::Skipped });
            };
            let Some(head) = self.open(found).await? else { return Ok(Verdict::Right) };
            if !self.is_meant(&head.1) {
                return Ok(Verdict::Skipped);
            }
            match self.store.delete_group(&[head]).await {
                Ok(()) => return Ok(Verdict::Right),
                Err(error) if is_race(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Verdict::Skipped)
    }
}

/// Whether an error concerns one entity of a group, because of a row of it that cannot be read or written.
fn is_of_one(error: &Error) -> bool {
    let is_of_row = matches!(error.kind(), ErrorKind::Decode | ErrorKind::TooLarge);
    is_of_row || error.details().index.is_some()
}

/// Groups as many entities as fit into a transaction with their rows. `added`: the most operations of each entity
/// that declarations of the program add.
fn groups<E: Entity>(
    mut heads: &[(Keys, ReadHead<E>)],
    added: usize,
) -> Vec<&[(Keys, ReadHead<E>)]> {
    let mut groups = Vec::new();
    while !heads.is_empty() {
        // The op row.
        let mut operations = 1;
        let fit = heads.iter().take_while(|(_, head)| {
            let beside = head.closed().map_or(0, |closed| closed.beside.stored().len());
            // Rows that an older version of the type declared.
            let older = if head.older.is_some() { E::DECLARED.older.beside } else { 0 };
            operations += rows_of(&head.entity) + added + beside + older;
            operations <= MAX_OPERATIONS
        });
        let (group, others) = heads.split_at(fit.count().max(1));
        groups.push(group);
        heads = others;
    }
    groups
}

impl<E> fmt::Debug for Deletions<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deletions").finish_non_exhaustive()
    }
}
