//! Signatures for one table, or for a range of its keys.

use std::ops::RangeBounds;

use rowkey_wire::auth::Resource as Signed;
use rowkey_wire::auth::Service;

use super::builder::{Resource, Sas};
use super::range::Range;
use super::terms::{Terms, place, sign, signer};
use super::{SasToken, TablePermissions};
use crate::account::StorageAccount;
use crate::entity::Entity;
use crate::error::{Error, Result};
use crate::key::{Key, Partition};
use crate::table::wire::encode::Flavor;

impl Sas<TablePermissions> {
    /// Begins a signature for a table, or for a range of its keys. It never opens the table
    /// itself: creating, deleting and listing tables needs one for an [`account`](Sas::account).
    ///
    /// Reading outside the range finds nothing, writing there is refused. See
    /// [Create a service SAS](https://learn.microsoft.com/rest/api/storageservices/create-service-sas).
    pub fn table(name: impl Into<String>) -> Self {
        Self::of(Resource::Table(name.into()))
    }

    /// Opens this partition alone, or the part of it that holds the rows of type `E`.
    pub fn partition<E: Entity>(self, partition: Partition<E>) -> Self {
        self.range(Range::of_partition(partition))
    }

    /// Opens these keys alone. The order is that of the table: by PartitionKey, then by RowKey, so
    /// a range over several partitions has all rows of those in the middle.
    ///
    /// Keys of a type with a `desc` part, or with text before another part, mean
    /// [values](Partition::range). Signing fails unless these lie side by side in one partition.
    pub fn keys<E: Entity>(self, range: impl RangeBounds<Key<E>>) -> Self {
        self.range(Range::of_keys(&range))
    }

    /// Opens these partitions alone, by their keys as they are stored: `.partitions("a"..="m")`.
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
) -> Result<SasToken> {
    let table = account.table(name);
    table.check_name("TableSas")?;
    let range = range.as_ref().map_err(|what| Error::invalid(what.clone()))?;
    if !range.is_everything() && account.flavor() == Flavor::Cosmos {
        return Err(Error::invalid(
            "Azure Cosmos DB takes no shared access signature with a range of keys",
        ));
    }
    let place = place(account, Service::Table)?;
    let signer = signer(account)?;
    let mut sas = terms.to_sas(account, place, permissions)?;
    sas.table = Some(name.to_owned());
    range.write(&mut sas);
    sign(&mut sas, &signer.key, &signer.account, Signed::Table(name))?;
    Ok(SasToken::new(sas, account, &[Service::Table], &format!("/{name}")))
}
