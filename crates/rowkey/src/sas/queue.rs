//! Signatures for one queue.

use rowkey_wire::auth::Resource;
use rowkey_wire::auth::Service;

use super::terms::{Terms, place, policy, sign, signer, terms};
use super::{QueuePermissions, SasToken};
use crate::account::StorageAccount;
use crate::error::Result;

/// A shared access signature for a queue and its messages. It never opens the queue's creation or
/// deletion: that needs an [`AccountSas`](super::AccountSas). See
/// [Create a service SAS](https://learn.microsoft.com/rest/api/storageservices/create-service-sas).
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `sign`"]
pub struct QueueSas {
    queue: String,
    permissions: QueuePermissions,
    pub(super) terms: Terms,
}

impl QueueSas {
    /// Begins a signature for the queue of this name.
    pub fn new(queue: impl Into<String>) -> Self {
        let (permissions, terms) = (QueuePermissions::default(), Terms::default());
        Self { queue: queue.into(), permissions, terms }
    }

    /// What it permits. Required, unless a [`policy`](Self::policy) says it.
    pub fn permissions(mut self, permissions: QueuePermissions) -> Self {
        self.permissions = permissions;
        self
    }

    policy!();
    terms!();

    /// Signs it with the key of an account. Nothing is sent.
    ///
    /// Fails as [`TableSas::sign`](super::TableSas::sign) does.
    pub fn sign(&self, account: &StorageAccount) -> Result<SasToken> {
        account.queue(&self.queue).check_name("QueueSas")?;
        let place = place(account, Service::Queue)?;
        let signer = signer(account)?;
        let mut sas = self.terms.to_sas(account, place, &self.permissions.to_string())?;
        sign(&mut sas, &signer.key, &signer.account, Resource::Queue(&self.queue))?;
        Ok(SasToken::new(sas, account, &[Service::Queue], &format!("/{}", self.queue)))
    }
}
