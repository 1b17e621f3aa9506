//! What jobs use for a number of entities, before they run.

use rowkey_client::Entity;
use rowkey_client::cost::{Class, Usage};

use super::Job;
use super::delete::Deletion;
use super::load::Loading;
use super::pack::Packs;
use super::rows::Rows;
use super::walk::{CountPage, Keys, Walking};

/// The most entities on a page.
const PAGE: u64 = 1000;

/// The most operations of a transaction.
const OPERATIONS: u64 = 100;

/// Each range has a page, even if it has no entities.
fn pages(entities: u64, ranges: usize) -> Usage {
    Usage::of(Class::TableScan, entities.div_ceil(PAGE).max(ranges as u64))
}

fn transactions(entities: u64) -> Usage {
    Usage::of(Class::TableBatchWrite, entities.div_ceil(OPERATIONS))
}

impl<P> Job<'_, Walking<P, CountPage<P>>> {
    /// What the job uses at least for a table of this many entities: a page for each 1,000 of them, and one for each range
    /// of the walk. A filter does not make it less, and the service may end a page earlier.
    ///
    /// ```
    /// use rowkey::StorageAccount;
    /// use rowkey::cost::Class;
    /// use rowkey::patterns::job::{Job, Walk};
    ///
    /// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let count = Job::count(Walk::keys(&account.table("events")));
    /// assert_eq!(count.usage(1_000_000).transactions(Class::TableScan), 1000);
    ///
    /// let walk = Walk::keys(&account.table("events")).split_partitions(["h", "p"]);
    /// assert_eq!(Job::count(walk).usage(10).transactions(Class::TableScan), 3);
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn usage(&self, entities: u64) -> Usage {
        pages(entities, self.work.ranges())
    }
}

impl Job<'static, Walking<Keys, Deletion>> {
    /// What the job uses at least to find and delete this many entities: a page for each 1,000 and a transaction for each
    /// 100 of them, and a page for each range of the walk. Each partition takes at least one transaction.
    ///
    /// ```
    /// use rowkey::cost::Class;
    /// use rowkey::patterns::job::{Job, Walk};
    /// use rowkey::{DynamicEntity, StorageAccount};
    ///
    /// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let delete = Job::delete(Walk::new(&account.table("events"), |events| events.scan::<DynamicEntity>()));
    /// assert_eq!(delete.usage(5_000).transactions(Class::TableBatchWrite), 50);
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn usage(&self, entities: u64) -> Usage {
        pages(entities, self.work.ranges()) + transactions(entities)
    }
}

impl<E: Entity> Job<'static, Loading<Packs<Rows<E>>>> {
    /// What the job uses at least to write this many entities: a transaction for each 100 of them. Each partition takes
    /// at least one transaction.
    ///
    /// ```
    /// use futures_util::stream;
    /// use rowkey::cost::Class;
    /// use rowkey::patterns::job::Job;
    /// use rowkey::{DynamicEntity, StorageAccount};
    ///
    /// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let load = Job::insert(&account.table("events"), stream::empty::<DynamicEntity>());
    /// assert_eq!(load.usage(250).transactions(Class::TableBatchWrite), 3);
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn usage(&self, entities: u64) -> Usage {
        transactions(entities)
    }
}
