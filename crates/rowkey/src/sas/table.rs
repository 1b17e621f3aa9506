//! Signatures for one table, or for a range of its keys.

use std::ops::RangeBounds;

use crate::table::wire::encode::Flavor;
use rowkey_wire::auth::Resource;
use rowkey_wire::auth::Service;

use super::range::Range;
use super::terms::{Terms, place, policy, sign, signer, terms};
use super::{SasToken, TablePermissions};
use crate::account::StorageAccount;
use crate::entity::Entity;
use crate::error::{Error, Result};
use crate::key::{Key, Partition};

/// A shared access signature for a table, or for a range of its keys. It never opens the table
/// itself: creating, deleting and listing tables needs an [`AccountSas`](super::AccountSas).
///
/// Reading outside the range finds nothing, writing there is refused. Say who may do what, for how
/// long, and [`sign`](Self::sign) it. See
/// [Create a service SAS](https://learn.microsoft.com/rest/api/storageservices/create-service-sas).
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `sign`"]
pub struct TableSas {
    table: String,
    permissions: TablePermissions,
    /// Why there is no range is told when it is signed.
    range: std::result::Result<Range, String>,
    pub(super) terms: Terms,
}

impl TableSas {
    /// Begins a signature for the table of this name.
    pub fn new(table: impl Into<String>) -> Self {
        Self {
            table: table.into(),
            permissions: TablePermissions::default(),
            range: Ok(Range::default()),
            terms: Terms::default(),
        }
    }

    /// What it permits. Required, unless a [`policy`](Self::policy) says it.
    pub fn permissions(mut self, permissions: TablePermissions) -> Self {
        self.permissions = permissions;
        self
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

    policy!();
    terms!();

    /// Signs it with the key of an account. Nothing is sent.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the account has no key,
    /// when expiry or permissions are said neither here nor, presumably, by a policy, when it ends
    /// before it begins, when a name or a key cannot be, when any part has a control character or a
    /// line separator in it (the error names the part and the position), and when Azure Cosmos DB,
    /// which knows no ranges, is to grant one.
    pub fn sign(&self, account: &StorageAccount) -> Result<SasToken> {
        let table = account.table(&self.table);
        table.check_name("TableSas")?;
        let range = self.range.as_ref().map_err(|what| Error::invalid(what.clone()))?;
        if !range.is_everything() && account.flavor() == Flavor::Cosmos {
            return Err(Error::invalid(
                "Azure Cosmos DB takes no shared access signature with a range of keys",
            ));
        }
        let place = place(account, Service::Table)?;
        let signer = signer(account)?;
        let mut sas = self.terms.to_sas(account, place, &self.permissions.to_string())?;
        sas.table = Some(self.table.clone());
        range.write(&mut sas);
        sign(&mut sas, &signer.key, &signer.account, Resource::Table(&self.table))?;
        Ok(SasToken::new(sas, account, &[Service::Table], &format!("/{}", self.table)))
    }

    fn range(mut self, range: Result<Range>) -> Self {
        self.range = range.map_err(|error| error.to_string());
        self
    }
}
