//! Copying entities to another table, page by page.

use std::fmt;
use std::sync::Arc;

use rowkey_client::{DynamicEntity, Page, Result, Table};

use super::load::store_group;
use super::pack::Merge as _;
use super::rows::{OnRejected, Rows};
use super::walk::PageStep;
use super::{Batch as _, Job, Rejected, Report, Walk, Walking};
use crate::together::try_all;

/// Transactions of a page that are sent at once.
const TRANSACTIONS: usize = 4;

/// The page step of [`Job::copy`].
pub struct Copying {
    to: Table,
    on_rejected: Option<OnRejected>,
}

impl Job<'static, Walking<DynamicEntity, Copying>> {
    /// Writes the entities that a walk finds to another table, which may be in another account, service or cloud: each is
    /// inserted there, or replaces the entity with its keys. The walk may have a filter, and can be
    /// [split](Walk::split_automatically) while it runs.
    ///
    /// All properties are copied with their types. The Timestamp and the ETag are those of the copy, and entities that only
    /// the destination has are left. A copy is no snapshot: an entity that is written meanwhile is copied as it was or as it
    /// is, or not at all if it is new and behind the current position; nothing is copied twice.
    ///
    /// A checkpoint is tied to the destination. An entity that the destination refuses is in the report, and is passed to
    /// [`rejected`](Self::rejected); the others continue.
    ///
    /// Costs one request for each page of up to 1,000 entities, and one for each 100 entities of a partition on it, in 4 MiB.
    ///
    /// ```
    /// use rowkey::patterns::job::{Job, Walk};
    /// use rowkey::{DynamicEntity, StorageAccount};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let other = account.clone();
    /// let (events, archive) = (account.table("events"), other.table("archive"));
    /// # events.create().await?;
    /// archive.create_if_missing().await?;
    /// # for number in 0..20 { events.insert(&DynamicEntity::new("device-7", format!("{number:02}"))).await?; }
    /// let all = Walk::new(&events, |events| events.scan::<DynamicEntity>()).split_automatically();
    /// let report = Job::copy(all, &archive).run().await?;
    /// assert_eq!(report.total.right, 20);
    /// # Ok(()) }
    /// ```
    pub fn copy(walk: Walk<DynamicEntity>, to: &Table) -> Self {
        let (from, place) = (walk.table().place(), to.place());
        let step = Copying { to: to.clone(), on_rejected: None };
        Self::stepping("copy", walk, step).parameter("from", from).parameter("to", place)
    }

    /// Passes each entity that the destination refuses to `rejected`, with the reason, as
    /// [`rejected`](Job::<Loading<Packs<Rows<DynamicEntity>>>>::rejected) of a load does.
    pub fn rejected(mut self, rejected: impl Fn(Rejected<'_>) + Send + Sync + 'static) -> Self {
        self.work.step.on_rejected = Some(Arc::new(rejected));
        self
    }
}

impl PageStep<DynamicEntity> for Copying {
    async fn step(&self, page: Page<DynamicEntity>) -> Result<Report> {
        let clock = self.to.account().clock();
        let stores = self.groups(page).into_iter().map(async |group| {
            let group = group.on_rejected(self.on_rejected.clone());
            store_group(clock, &group).await
        });
        let mut all = Report::default();
        for report in try_all(stores, TRANSACTIONS).await? {
            all.merge(report);
        }
        Ok(all)
    }
}

impl Copying {
    /// The entities of a page, in transactions. A page is sorted by keys. If it were not, there would merely be more of them.
    fn groups(&self, page: Page<DynamicEntity>) -> Vec<Rows<DynamicEntity>> {
        let mut groups: Vec<Rows<DynamicEntity>> = Vec::new();
        for stored in page.entities {
            let one = Rows::upsert(&self.to, stored.entity);
            let last = groups.last_mut().filter(|last| last.keys().0 == one.keys().0);
            let left = match last {
                Some(last) => last.merge(one),
                None => Some(one),
            };
            groups.extend(left);
        }
        groups
    }
}

impl fmt::Debug for Copying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copying").field("to", &self.to.name()).finish_non_exhaustive()
    }
}
