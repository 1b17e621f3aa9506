//! Jobs that rewrite entities whose rows differ from what this program writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Key, Page, Result, Stored};
use rowkey_patterns::internals::all_until;
use rowkey_patterns::job::{Job, Report, Verdict, Walk, Walking};

use super::manifest::STEP;
use super::{ReadHead, Step, Store, is_race};
use crate::execute::Ran;
use crate::layer::blob_field::BlobFields;
use crate::plan::{MAX_OPERATIONS, Plan};
use crate::row::declared::prefix;
use crate::row::op::Op;
use crate::row::{Keys, keys_of, version_of};

/// Rows of a page that are opened in parallel.
const AT_A_TIME: usize = 16;

/// The part of a report that counts sealed rows.
const SEALED: &str = "encryption";

/// The part of a report that counts entities of older versions.
pub(super) const VERSIONS: &str = "versions";

/// The condition under which a row is left unchanged.
#[derive(Clone, Copy)]
enum Current {
    /// Sealed under the newest key.
    Sealed,
    /// Written by the type version of this program.
    Version,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Rewrites every entity that is not sealed under the current key, with its copies. Run it after a
    /// key was added to [`StoreBuilder::keys`](crate::StoreBuilder::keys), or after a field was marked
    /// `encrypt`.
    ///
    /// It reads the primary, and programs may write in the meantime: an entity that another writer
    /// changed is read again. Entities under an older key are counted as [`Verdict::Stale`] and, once
    /// written, as repaired. An entity that cannot be opened stays unchanged, and the report names its
    /// keys as [`Verdict::Unreadable`]. An older key may be removed when a whole run was clean, no
    /// program writes with it any more, and [`run`](Self::run) has settled all pending writes.
    ///
    /// Costs one request for each 1,000 entities, and one transaction for as many entities of a
    /// partition as fit with their rows.
    ///
    /// Without encrypted fields the job does nothing.
    pub fn reencrypt(&self) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.rewriting("reencrypt", SEALED, Current::Sealed)
    }

    /// Rewrites every entity that an older version of the type wrote: converts it, adds all rows that the
    /// type declares now, and removes the rows that the older version declared. Run it after all programs
    /// know the new version.
    ///
    /// Until then, older entities are converted when they are read, and by each write. They are in
    /// indexes that both versions declare with the same name and template, but not in new ones.
    ///
    /// Entities of an older version are counted as [`Verdict::Stale`] and, once written, as repaired. An
    /// entity that cannot be read, for example because a newer program wrote it, stays unchanged, and the
    /// report names it as [`Verdict::Unreadable`]. Costs the same as [`reencrypt`](Self::reencrypt).
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # struct OrderV1 { tenant: String, id: u32, euros: i64 }
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, version = 2, from = OrderV1, partition = "{tenant}", row = "order_{id:6}")]
    /// struct Order { tenant: String, id: u32, cents: i64 }
    ///
    /// impl From<OrderV1> for Order {
    ///     fn from(OrderV1 { tenant, id, euros }: OrderV1) -> Self {
    ///         Self { tenant, id, cents: euros * 100 }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let before = Store::<OrderV1>::builder(account.table("orders")).build()?;
    /// # before.create_if_missing().await?;
    /// # before.insert(&OrderV1 { tenant: "contoso".into(), id: 1, euros: 5 }).await?;
    /// let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// assert_eq!(orders.migrate().run().await?.total.repaired, 1);
    /// assert_eq!(orders.migrate().run().await?.total.right, 1);
    /// # Ok(()) }
    /// ```
    pub fn migrate(&self) -> Job<'static, Walking<DynamicEntity, Step>> {
        self.rewriting("migrate", VERSIONS, Current::Version)
    }

    fn rewriting(
        &self,
        name: &str,
        part: &'static str,
        current: Current,
    ) -> Job<'static, Walking<DynamicEntity, Step>> {
        let store = self.clone();
        let step: Step = Box::new(move |page| {
            let store = store.clone();
            async move {
                let rewritten = store.rewrite_page(page, part, current);
                store.executor().sharing(rewritten).await
            }
            .boxed()
        });
        let walk =
            Walk::new(&self.inner.table, |table| table.scan::<E>().project::<DynamicEntity>());
        Job::walk(format!("{name} {}", prefix::<E>()), walk, step)
    }

    /// Whether an entity is as this program writes it. Its sealed values may be in further rows.
    async fn is_current(&self, current: Current, stored: &Stored<DynamicEntity>) -> Result<bool> {
        let sealer = match (current, &self.inner.sealer) {
            (Current::Version, _) => return Ok(version_of(&stored.entity) == E::VERSION),
            (Current::Sealed, None) => return Ok(true),
            (Current::Sealed, Some(sealer)) => sealer,
        };
        let table = self.inner.deciding.table();
        if BlobFields::is_in_plain::<E>(&stored.entity) {
            return Ok(false);
        }
        if !self.inner.layers.is_wide() {
            return sealer.is_current(table, E::DECLARED.encrypted, &stored.entity).await;
        }
        match self.inner.layers.whole(table, stored.clone()).await? {
            Some((whole, _)) => {
                sealer.is_current(table, E::DECLARED.encrypted, &whole.entity).await
            }
            // It was deleted.
            None => Ok(true),
        }
    }

    /// Counts entities by the key that they are sealed under, and writes no entity. This proves that
    /// [`reencrypt`](Self::reencrypt) left none under an older key.
    ///
    /// Entities under the newest key are counted as [`Verdict::Right`]; entities under an older key, and
    /// those that are not sealed, as [`Verdict::Stale`]. An older key may be removed from the ring when
    /// the report [is clean](Report::is_clean); otherwise run `reencrypt` again.
    ///
    /// Fails with [`ErrorKind::Conflict`] until 12 minutes after the newest key was made, because until
    /// then a program may write under an older one. The clock of the service measures them. Costs one
    /// request for each 1,000 entities and three more, one of which writes a row without content, whose
    /// `Timestamp` gives the time of the service.
    pub fn verify_keys(&self) -> Job<'static, Walking<DynamicEntity, Step>> {
        let store = self.clone();
        let is_old = Arc::new(AtomicBool::new(false));
        let step: Step = Box::new(move |page| {
            let (store, is_old) = (store.clone(), Arc::clone(&is_old));
            async move {
                if !is_old.load(Ordering::Relaxed) {
                    store.check_age().await?;
                    is_old.store(true, Ordering::Relaxed);
                }
                store.verify_page(page).await
            }
            .boxed()
        });
        let walk =
            Walk::new(&self.inner.table, |table| table.scan::<E>().project::<DynamicEntity>());
        Job::walk(format!("verify_keys {}", prefix::<E>()), walk, step)
    }

    /// Refuses to verify keys while a program may write under an older one.
    async fn check_age(&self) -> Result<()> {
        let Some(sealer) = &self.inner.sealer else { return Ok(()) };
        let table = self.inner.deciding.table();
        sealer.renew(table).await?;
        let age = sealer.age(table).await?;
        if let Some(left) = STEP.checked_sub(age).filter(|left| !left.is_zero()) {
            let left = left.as_secs() + 1;
            let what = format!("programs may still write under an older key: {left} s are left");
            return Err(Error::refused(ErrorKind::Conflict, what).advise("try again then"));
        }
        Ok(())
    }

    async fn verify_page(&self, page: Page<DynamicEntity>) -> Result<Report> {
        let mut report = Report::default();
        for stored in &page.entities {
            let is_current = match self.is_current(Current::Sealed, stored).await {
                Ok(is_current) => is_current,
                Err(error) => {
                    let keys = (stored.entity.partition_key.clone(), stored.entity.row_key.clone());
                    failed(&mut report, SEALED, &keys, error)?;
                    continue;
                }
            };
            if is_current {
                report.note(Some(SEALED), Verdict::Right, 1);
            } else {
                let keys = (&*stored.entity.partition_key, &*stored.entity.row_key);
                let what = "the entity is not sealed under the newest key";
                let error = Error::refused(ErrorKind::Conflict, what);
                report.problem(Some(SEALED), Verdict::Stale, keys, &error);
            }
        }
        Ok(report)
    }

    async fn rewrite_page(
        &self,
        page: Page<DynamicEntity>,
        part: &'static str,
        current: Current,
    ) -> Result<Report> {
        let mut report = Report::default();
        if let (Current::Sealed, Some(sealer)) = (current, &self.inner.sealer) {
            // Even if no entity is rewritten, all programs switch to the current key.
            sealer.renew(self.inner.deciding.table()).await?;
        }
        let mut stale = Vec::new();
        for stored in page.entities {
            match self.is_current(current, &stored).await {
                Ok(true) => report.note(Some(part), Verdict::Right, 1),
                Ok(false) => stale.push(stored),
                Err(error) => {
                    let keys = (stored.entity.partition_key, stored.entity.row_key);
                    failed(&mut report, part, &keys, error)?;
                }
            }
        }
        let rows = stale.into_iter().map(|stored| async move {
            let keys = (stored.entity.partition_key.clone(), stored.entity.row_key.clone());
            let opened = self.open_row(&keys, stored).await;
            let keyed = |head| (keys.clone(), head);
            opened.map(|head| head.map(keyed)).map_err(|error| (keys.clone(), error))
        });
        let mut heads: Vec<(Keys, ReadHead<E>)> = Vec::new();
        for one in all_until(rows, AT_A_TIME, is_last).await {
            match one {
                // It was deleted in the meantime.
                Ok(None) => report.note(Some(part), Verdict::Skipped, 1),
                Ok(Some(head)) => heads.push(head),
                Err((keys, error)) => failed(&mut report, part, &keys, error)?,
            }
        }
        let most = ((MAX_OPERATIONS - 1) / self.inner.operations()).max(1);
        let groups = heads.chunk_by(|(one, _), (other, _)| one.0 == other.0);
        for group in groups.flat_map(|partition| partition.chunks(most)) {
            match self.rewrite_group(group).await {
                Ok(()) => {
                    report.note(Some(part), Verdict::Stale, group.len() as u64);
                    report.repaired(Some(part), group.len() as u64);
                }
                Err(error) if error.is_retryable() => return Err(error),
                // One by one, because others of the group can be written.
                Err(_) => {
                    for (keys, _) in group {
                        match self.rewrite(Key::new(&*keys.0, &*keys.1)).await {
                            Ok(true) => {
                                report.note(Some(part), Verdict::Stale, 1);
                                report.repaired(Some(part), 1);
                            }
                            // It was deleted.
                            Ok(false) => report.note(Some(part), Verdict::Skipped, 1),
                            Err(error) => failed(&mut report, part, keys, error)?,
                        }
                    }
                }
            }
        }
        Ok(report)
    }

    /// Opens a row; `None` if it was deleted.
    async fn open_row(
        &self,
        keys: &Keys,
        stored: Stored<DynamicEntity>,
    ) -> Result<Option<ReadHead<E>>> {
        let table = self.inner.deciding.table();
        let opened = self.inner.deciding_layers().open::<E>(table, stored).await?;
        let Some(head) = opened.map(ReadHead::of) else { return Ok(None) };
        if keys_of(&head.entity)? != *keys {
            let what = "the entity's keys differ from those at which it is stored";
            return Err(Error::refused(ErrorKind::Decode, what));
        }
        Ok(Some(head))
    }

    async fn rewrite_group(&self, group: &[(Keys, ReadHead<E>)]) -> Result<()> {
        let Some((first, _)) = group.first() else { return Ok(()) };
        let op = Op::random(self.inner.deciding.clock().now())?;
        let mut plan = Plan::new(first.0.clone(), op);
        plan.rewrites = true;
        for (keys, head) in group {
            self.add(&mut plan, keys, Some(head), Some(&head.entity)).await?;
        }
        match self.executor().run(plan).await? {
            Ran::Done { .. } => Ok(()),
            Ran::Stale(error) => Err(error),
        }
    }
}

/// Whether an error concerns more than one entity.
fn ends(error: &Error) -> bool {
    error.is_retryable() || error.kind() == ErrorKind::Auth || is_race(error)
}

/// Whether the remaining rows need not be opened.
fn is_last<T>(opened: &std::result::Result<T, (Keys, Error)>) -> bool {
    opened.as_ref().is_err_and(|(_, error)| ends(error))
}

/// Counts an entity that stays unchanged, unless the job will try again.
fn failed(report: &mut Report, part: &str, keys: &Keys, error: Error) -> Result<()> {
    if ends(&error) {
        return Err(error);
    }
    let verdict = match error.kind() {
        ErrorKind::Decode => Verdict::Unreadable,
        _ => Verdict::Failed,
    };
    report.problem(Some(part), verdict, (&keys.0, &keys.1), &error);
    Ok(())
}
