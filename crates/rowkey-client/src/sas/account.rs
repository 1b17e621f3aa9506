//! Signatures for services of an account.

use rowkey_wire::auth::Resource as Signed;
use rowkey_wire::auth::Service;

use super::builder::{Resource, Sas};
use super::terms::{Signing, Terms, endpoints, sign};
use super::{AccountPermissions, ResourceTypes, SasToken, Services};
use crate::account::StorageAccount;
use crate::error::{Error, Result};

impl Sas<AccountPermissions> {
    /// Begins a signature for services of an account: for all their resources of these types.
    ///
    /// It can be revoked only by regenerating the account key that signed it, so prefer
    /// [`Sas::table`] and its equivalents where they are sufficient. See
    /// [Create an account SAS](https://learn.microsoft.com/rest/api/storageservices/create-account-sas).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use rowkey::sas::{AccountPermissions, ResourceTypes, Sas, Services};
    ///
    /// # use rowkey::{ErrorKind, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # account.table("orders").create().await?;
    /// # account.queue("orders").create().await?;
    /// // A list of tables is of the type container, a list of queues or containers of the type service.
    /// let types = ResourceTypes::CONTAINER | ResourceTypes::SERVICE;
    /// let lists = Sas::account(Services::TABLE | Services::QUEUE, types)
    ///     .permissions(AccountPermissions::LIST)
    ///     .valid_for(Duration::from_secs(600))
    ///     .sign(&account)?;
    /// let monitor = StorageAccount::from_connection_string(&lists.connection_string())?;
    /// assert_eq!(monitor.tables().all().await?, ["orders"]);
    /// # assert_eq!(monitor.queues().all().await?.len(), 1);
    /// # let service = Sas::account(Services::TABLE | Services::QUEUE, ResourceTypes::SERVICE);
    /// # let service = service.permissions(AccountPermissions::LIST).valid_for(Duration::from_secs(600)).sign(&account)?;
    /// # let service = StorageAccount::from_connection_string(&service.connection_string())?;
    /// # assert_eq!(service.tables().all().await.unwrap_err().kind(), ErrorKind::Auth);
    /// # Ok(()) }
    /// ```
    pub fn account(services: Services, types: ResourceTypes) -> Self {
        Self::of(Resource::Account { services, types })
    }
}

pub(super) fn sign_account(
    account: &StorageAccount,
    (of_services, types): (Services, ResourceTypes),
    terms: &Terms,
    permissions: &str,
    signing: &Signing<'_>,
) -> Result<SasToken> {
    if of_services.is_empty() || types.is_empty() {
        return Err(Error::invalid("the shared access signature is for no service")
            .advise("name services and resource types"));
    }
    if terms.policy.is_some() {
        let what = "a shared access signature for an account has no stored access policy";
        return Err(Error::invalid(what).advise("say its permissions and its expiry"));
    }
    let services: Vec<Service> = [
        (Services::TABLE, Service::Table),
        (Services::QUEUE, Service::Queue),
        (Services::BLOB, Service::Blob),
    ]
    .into_iter()
    .filter_map(|(member, service)| of_services.contains(member).then_some(service))
    // The token may be for a service whose endpoint this account does not know; then only that
    // endpoint is omitted.
    .filter(|service| account.pipeline().endpoints().of(*service).is_some())
    .collect();
    let first = services.first().copied().unwrap_or(Service::Table);
    let endpoints = endpoints(account, first)?;
    let mut sas = terms.to_sas(account, endpoints, permissions)?;
    sas.services = Some(of_services.to_string());
    sas.resource_types = Some(types.to_string());
    sign(&mut sas, signing, Signed::Table(""))?;
    Ok(SasToken::new(sas, account, &services, "/"))
}
