//! Counts: how many entities a query has, whether it has any, and the partitions of a table.

use std::ops::Bound;

use futures_util::{StreamExt as _, stream};
use rowkey_entity::entity::RowReader;
use rowkey_entity::{DecodeError, DynamicEntity, Projection};

use super::cost::Cost;
use super::handle::Table;
use super::keyed::Keyed;
use super::pages::failed;
use super::query::Query;
use crate::endpoint::Flavor;
use crate::error::{Error, Result};
use crate::options::ScanPolicy;
use crate::paging::Stream;

/// No property of an entity: only its keys are requested.
struct KeysOnly;

impl Projection for KeysOnly {
    const COLUMNS: Option<&'static [&'static str]> = Some(&[]);

    fn decode(_: &RowReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl<P: Projection + Send + 'static> Query<P> {
    /// Counts the entities. Only their keys are requested, so an entity counts even if it would not
    /// decode.
    ///
    /// The service has no count: it reads what the query reads (see [`cost`](Self::cost)), in one
    /// request for each 1,000 entities. Other programs may write in between, so the number is that of
    /// no single moment. To know only whether there are any, use [`exists`](Self::exists).
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// let of_contoso = || orders.query(Order::partition("contoso"));
    /// assert_eq!(of_contoso().count().await?, 5);
    /// assert_eq!(of_contoso().filter(Order::CENTS.ge(400)).count().await?, 2);
    /// # Ok(()) }
    /// ```
    pub async fn count(self) -> Result<u64> {
        let mut reader = self.project::<KeysOnly>().into_reader()?;
        let mut count = 0;
        while let Some(page) = reader.next().await? {
            count += page.entities.len() as u64;
        }
        Ok(count)
    }

    /// Whether there is an entity. Stops at the first one: one request, and another one for each page
    /// of the service that is empty.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # orders.insert(&Order { tenant: "contoso".into(), id: 1, cents: 995 }).await?;
    /// assert!(orders.query(Order::partition("contoso")).exists().await?);
    /// assert!(!orders.query(Order::partition("fabrikam")).exists().await?);
    /// # Ok(()) }
    /// ```
    pub async fn exists(self) -> Result<bool> {
        Ok(self.project::<KeysOnly>().first().await?.is_some())
    }
}

impl Table {
    /// The PartitionKeys of the table, each once, in ascending order. One request for each of them,
    /// which reads one entity, and one at the end: cheaper than a scan if partitions have more than
    /// a few hundred entities.
    ///
    /// Copies in indexes and other rows of a store have PartitionKeys, too. A partition whose last
    /// entity is deleted meanwhile may be missing or included.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for Azure Cosmos DB, which does
    /// not sort entities by key.
    ///
    /// ```
    /// use futures_util::TryStreamExt as _;
    /// # use rowkey::{DynamicEntity, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # for (tenant, id) in [("contoso", "1"), ("contoso", "2"), ("fabrikam", "1")] {
    /// #     orders.insert(&DynamicEntity::new(tenant, id)).await?;
    /// # }
    /// let tenants: Vec<String> = orders.partition_keys().try_collect().await?;
    /// assert_eq!(tenants, ["contoso", "fabrikam"]);
    /// # Ok(()) }
    /// ```
    pub fn partition_keys(&self) -> Stream<String> {
        if self.account().flavor() == Flavor::Cosmos {
            let what = "Azure Cosmos DB does not sort entities by key, so its partitions cannot be \
                        skipped; scan the table";
            return failed(Error::invalid(what).of("QueryEntities", self.name()));
        }
        stream::unfold(Some((self.clone(), Bound::Unbounded)), |state| async move {
            let (table, after) = state?;
            let query = Query::<DynamicEntity>::of_partitions(table.clone(), after);
            // Each request reads one entity, though its class is that of a table scan.
            debug_assert!(query.cost().is_ok_and(|cost| cost == Cost::TableScan));
            let query = query.scan_policy(ScanPolicy::Allow).project::<KeysOnly>().keyed();
            match query.first().await {
                Ok(Some(first)) => {
                    let Keyed { partition_key, .. } = first.entity;
                    let after = Bound::Excluded(partition_key.clone());
                    Some((Ok(partition_key), Some((table, after))))
                }
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }
}
