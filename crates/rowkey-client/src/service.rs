//! Features that the Table, Queue and Blob services share: properties, statistics and listings.

pub(crate) mod policies;
pub(crate) mod wire;

use std::time::Duration;

pub use crate::paging::{Listing, ListingContinuation, ListingPage};
pub use rowkey_wire::auth::Service;
use rowkey_wire::xml;
pub use rowkey_wire::xml::{
    CorsRule, GeoStatus, Logging, Metrics, ServiceProperties, ServiceStats,
    SignedIdentifier as AccessPolicy,
};

use crate::account::StorageAccount;
use crate::backoff::doubled;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::transport::failure::is_being_deleted;
use crate::transport::{Call, Host, Reply, Safety};
use wire::documents;

impl StorageAccount {
    /// Returns the logging, metrics and CORS rules of a service. Cosmos DB has none.
    ///
    /// [Get Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-table-service-properties)
    /// and its equivalents
    ///
    /// ```
    /// use rowkey::service::{Service, ServiceProperties};
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let rules = account.service_properties(Service::Table).await?.cors.unwrap_or_default();
    /// assert!(rules.is_empty());
    /// // Sections that are `None` do not change.
    /// let properties = ServiceProperties { cors: Some(rules), ..ServiceProperties::default() };
    /// account.set_service_properties(Service::Table, &properties).await?;
    /// # Ok(()) }
    /// ```
    pub async fn service_properties(&self, service: Service) -> Result<ServiceProperties> {
        let operation = match service {
            Service::Blob => "GetBlobServiceProperties",
            Service::Queue => "GetQueueServiceProperties",
            Service::Table => "GetTableServiceProperties",
        };
        let call = Call::new(operation, "", Safety::Read);
        let reply = self.pipeline().send(documents::get_properties(service), call).await?;
        xml::decode_properties(&reply.body).map_err(|error| unreadable(error, &call, &reply))
    }

    /// Sets the logging, metrics and CORS rules of a service. Sections that are `None` do not change.
    ///
    /// [Set Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties)
    /// and its equivalents
    pub async fn set_service_properties(
        &self,
        service: Service,
        properties: &ServiceProperties,
    ) -> Result<()> {
        let document = xml::encode_properties(properties);
        let operation = match service {
            Service::Blob => "SetBlobServiceProperties",
            Service::Queue => "SetQueueServiceProperties",
            Service::Table => "SetTableServiceProperties",
        };
        let call = Call::new(operation, "", Safety::Conditional);
        self.pipeline().send(documents::set_properties(service, document), call).await?;
        Ok(())
    }

    /// Returns the replication status of a service's secondary. The request goes to the secondary
    /// endpoint.
    ///
    /// [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats)
    /// and its equivalents
    pub async fn service_statistics(&self, service: Service) -> Result<ServiceStats> {
        let operation = match service {
            Service::Blob => "GetBlobServiceStats",
            Service::Queue => "GetQueueServiceStats",
            Service::Table => "GetTableServiceStats",
        };
        // Only the secondary endpoint serves this.
        let call = Call::new(operation, "", Safety::Read).at(Host::Secondary);
        let reply = self.pipeline().send(documents::get_stats(service), call).await?;
        xml::decode_stats(&reply.body).map_err(|error| unreadable(error, &call, &reply))
    }
}

/// The first and the longest wait for a blocked name. Each wait is twice the previous one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Retries a creation while the name is blocked after a deletion, with waits of `longest` in total.
pub(crate) async fn create_within<F>(
    account: &StorageAccount,
    longest: Duration,
    create: impl Fn() -> F,
) -> Result<bool>
where
    F: Future<Output = Result<bool>>,
{
    let (mut left, mut doublings) = (longest, 0);
    loop {
        let result = create().await;
        let blocked = |error: &Error| error.code().is_some_and(is_being_deleted);
        if left.is_zero() || !result.as_ref().is_err_and(blocked) {
            return result;
        }
        let pause = doubled(FIRST_WAIT, doublings, LONGEST_WAIT).min(left);
        account.clock().sleep(pause).await;
        left -= pause;
        doublings += 1;
    }
}

/// Whether a call made the change, given the kind of error that says that there was nothing to do: then an earlier,
/// unanswered attempt of the same call may have made it.
pub(crate) fn unless<T>(done: ErrorKind, result: Result<T>) -> Result<bool> {
    match result {
        Err(error) if error.kind() == done => Ok(error.outcome() == Outcome::Unknown),
        result => result.map(|_| true),
    }
}

#[cold]
pub(crate) fn unreadable(error: xml::XmlError, call: &Call<'_>, reply: &Reply) -> Error {
    Error::decode("the response contains invalid XML").with_source(error).of_answer(call, reply)
}
