//! Signatures for one queue.

use rowkey_wire::auth::Resource as Signed;
use rowkey_wire::auth::Service;

use super::builder::{Resource, Sas};
use super::terms::{Signing, Terms, endpoints, sign};
use super::{QueuePermissions, SasToken};
use crate::account::StorageAccount;
use crate::error::Result;

impl Sas<QueuePermissions> {
    /// Begins a signature for a queue and its messages. It cannot create or delete the queue; this
    /// needs a signature for an [`account`](Sas::account). See
    /// [Create a service SAS](https://learn.microsoft.com/rest/api/storageservices/create-service-sas).
    pub fn queue(name: impl Into<String>) -> Self {
        Self::of(Resource::Queue(name.into()))
    }
}

pub(super) fn sign_queue(
    account: &StorageAccount,
    queue: &str,
    terms: &Terms,
    permissions: &str,
    signing: &Signing<'_>,
) -> Result<SasToken> {
    account.queue(queue).check_name("QueueSas")?;
    let endpoints = endpoints(account, Service::Queue)?;
    let mut sas = terms.to_sas(account, endpoints, permissions)?;
    sign(&mut sas, signing, Signed::Queue(queue))?;
    Ok(SasToken::new(sas, account, &[Service::Queue], &format!("/{queue}")))
}
