//! Signatures for services of an account.

use rowkey_wire::auth::Resource;
use rowkey_wire::auth::Service;

use super::terms::{Terms, place, sign, signer, terms};
use super::{AccountPermissions, ResourceTypes, SasToken, Services};
use crate::account::StorageAccount;
use crate::error::{Error, Result};

/// A shared access signature for services of an account: for everything of the kinds that it names.
///
/// It can be revoked only by regenerating the account key that signed it, so prefer
/// [`TableSas`](super::TableSas) and its like where they are enough. See
/// [Create an account SAS](https://learn.microsoft.com/rest/api/storageservices/create-account-sas).
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `sign`"]
pub struct AccountSas {
    services: Services,
    resource_types: ResourceTypes,
    permissions: AccountPermissions,
    pub(super) terms: Terms,
}

impl AccountSas {
    /// Begins a signature for these services and these kinds of resources of them.
    pub fn new(services: Services, resource_types: ResourceTypes) -> Self {
        let (permissions, terms) = (AccountPermissions::default(), Terms::default());
        Self { services, resource_types, permissions, terms }
    }

    /// What it permits. Required.
    pub fn permissions(mut self, permissions: AccountPermissions) -> Self {
        self.permissions = permissions;
        self
    }

    terms!();

    /// Signs it with the key of an account. Nothing is sent.
    ///
    /// Fails as [`TableSas::sign`](super::TableSas::sign) does, and when there are no services or
    /// resource types.
    pub fn sign(&self, account: &StorageAccount) -> Result<SasToken> {
        if self.services.is_empty() || self.resource_types.is_empty() {
            return Err(Error::invalid("the shared access signature is for no service")
                .advise("name services and resource types"));
        }
        let services: Vec<Service> = [
            (Services::TABLE, Service::Table),
            (Services::QUEUE, Service::Queue),
            (Services::BLOB, Service::Blob),
        ]
        .into_iter()
        .filter_map(|(member, service)| self.services.contains(member).then_some(service))
        // A service that the account is not known to have may be meant for another account.
        .filter(|service| account.pipeline().endpoints().of(*service).is_some())
        .collect();
        let first = services.first().copied().unwrap_or(Service::Table);
        let place = place(account, first)?;
        let signer = signer(account)?;
        let mut sas = self.terms.to_sas(account, place, &self.permissions.to_string())?;
        sas.services = Some(self.services.to_string());
        sas.resource_types = Some(self.resource_types.to_string());
        sign(&mut sas, &signer.key, &signer.account, Resource::Table(""))?;
        Ok(SasToken::new(sas, account, &services, "/"))
    }
}
