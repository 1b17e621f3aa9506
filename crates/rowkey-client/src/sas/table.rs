//! Signatures for one table or a range of its keys.

use std::ops::RangeBounds;

use rowkey_entity::{Entity, Key, Partition};
use rowkey_wire::auth::Resource as Signed;
use rowkey_wire::auth::Service;

use super::builder::{Resource, Sas};
use super::range::Range;
use super::terms::{Signing, Terms, endpoints, sign};
use super::{SasToken, TablePermissions};
use crate::account::StorageAccount;
use crate::endpoint::Flavor;
use crate::error::{Error, Result};

impl Sas<TablePermissions> {
    /// Begins a signature for a table or a range of its keys. It cannot create, delete or list
    /// tables; this needs a signature for an [`account`](Sas::account).
    ///
    /// Reads outside the range find nothing, writes there are refused. See
    /// [Create a service SAS](https://learn.microsoft.com/rest/api/storageservices/create-service-sas).
    pub fn table(name: impl Into<String>) -> Self {
        Self::of(Resource::Table(name.into()))
    }

    /// Limits access to this partition, or to the part of it with the rows of type `E`.
    pub fn partition<E: Entity>(self, partition: Partition<E>) -> Self {
        self.range(Range::of_partition(partition))
    }

    /// Limits access to these keys. The order is that of the table: by PartitionKey, then by
    /// RowKey. A range over several partitions includes all rows of the partitions in between.
    ///
    /// For a type with a `desc` part, or with text before another part, the range is one of
    /// [values](Partition::range). Signing fails unless these are contiguous in one partition.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rowkey::Entity;
    /// use rowkey::sas::{Sas, TablePermissions};
    ///
    /// # #[derive(Entity)]
    /// # #[entity(partition = "{customer}", row = "{id:8}")]
    /// # struct Order { customer: String, id: u32 }
    /// # use rowkey::StorageAccount;
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let token = Sas::table("orders")
    ///     .permissions(TablePermissions::QUERY)
    ///     .keys(Order::key("ada", 100)..=Order::key("ada", 199))
    ///     .valid_for(Duration::from_secs(600))
    ///     .sign(&account)?;
    /// assert!(token.query().contains("spk=ada&srk=00000100&epk=ada&erk=00000199"));
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn keys<E: Entity>(self, range: impl RangeBounds<Key<E>>) -> Self {
        self.range(Range::of_keys(&range))
    }

    /// Limits access to these partitions, by their stored keys: `.partitions("a"..="m")`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use rowkey::sas::{Sas, TablePermissions};
    ///
    /// # use rowkey::StorageAccount;
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let token = Sas::table("orders")
    ///     .permissions(TablePermissions::QUERY)
    ///     .partitions("a"..="m")
    ///     .valid_for(Duration::from_secs(600))
    ///     .sign(&account)?;
    /// assert!(token.query().contains("spk=a&epk=m"), "{}", token.query());
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn partitions<'a>(self, range: impl RangeBounds<&'a str>) -> Self {
        self.range(Range::of_partitions(&range))
    }

    fn range(mut self, range: Result<Range>) -> Self {
        self.range = range.map_err(|error| error.to_string());
        self
    }
}

pub(super) fn sign_table(
    account: &StorageAccount,
    name: &str,
    range: &std::result::Result<Range, String>,
    terms: &Terms,
    permissions: &str,
    signing: &Signing<'_>,
) -> Result<SasToken> {
    let table = account.table(name);
    table.check_name("TableSas")?;
    let range = range.as_ref().map_err(|what| Error::invalid(what.clone()))?;
    if !range.is_everything() && account.flavor() == Flavor::Cosmos {
        return Err(Error::invalid(
            "Azure Cosmos DB takes no shared access signature with a range of keys",
        ));
    }
    let endpoints = endpoints(account, Service::Table)?;
    let mut sas = terms.to_sas(account, endpoints, permissions)?;
    sas.table = Some(name.to_owned());
    range.write(&mut sas);
    sign(&mut sas, signing, Signed::Table(name))?;
    Ok(SasToken::new(sas, account, &[Service::Table], &format!("/{name}")))
}
