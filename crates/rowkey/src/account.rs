//! A storage account: where it is, and what authorizes requests to it.

use std::fmt;
use std::sync::Arc;

use crate::clock::Clock;
use crate::error::Result;
use crate::options::ClientOptions;
use crate::table::wire::encode::Flavor;
use crate::telemetry::Telemetry;
use crate::transport::Pipeline;

pub(crate) mod builder;
mod connection_string;
mod endpoint;
mod environment;
mod sas_url;

#[cfg(test)]
mod tests;

use builder::StorageAccountBuilder;
pub(crate) use endpoint::{Endpoint, Endpoints, Place};

/// An account: the way to its tables, queues and blobs.
///
/// Clones share connections and credential.
///
/// ```
/// use rowkey::StorageAccount;
///
/// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
/// assert_eq!(account.name(), "devstoreaccount1");
/// # Ok::<(), rowkey::Error>(())
/// ```
#[derive(Clone)]
pub struct StorageAccount(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    name: String,
    pipeline: Pipeline,
}

impl StorageAccount {
    /// The account that a connection string describes.
    ///
    /// Takes what the portal, the emulators and Azure Cosmos DB for Table give: an account key or a
    /// shared access signature, endpoints or their suffix, or `UseDevelopmentStorage=true`. Nothing
    /// is sent.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the part that is
    /// missing, doubled or wrong. See
    /// [Configure connection strings](https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string).
    pub fn from_connection_string(text: &str) -> Result<Self> {
        Self::builder().connection_string(text)?.build()
    }

    /// The account that environment variables describe, by the first of these that is set and not empty:
    ///
    /// | variables | as set by |
    /// |---|---|
    /// | `AZURE_STORAGE_CONNECTION_STRING` | the command line, and programs of Azure's libraries |
    /// | `AZURE_STORAGE_ACCOUNT` with `AZURE_STORAGE_KEY` or `AZURE_STORAGE_SAS_TOKEN` | the command line |
    /// | `AzureWebJobsStorage` | Azure Functions |
    /// | `AzureWebJobsStorage__accountName`, `AzureWebJobsStorage__tableServiceUri` and so on | Azure Functions with a managed identity |
    ///
    /// `AZURE_STORAGE_ACCOUNT_NAME` and `AZURE_STORAGE_ACCOUNT_KEY` are other names for the second row's.
    /// Where the variables hold no secret, as in the last row, the credential is given beside them:
    ///
    /// ```no_run
    /// use rowkey::{Credential, StorageAccount};
    ///
    /// # fn example(token: Credential) -> rowkey::Result<()> {
    /// let account = StorageAccount::builder().env()?.credential(token).build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when none is set, or when one is
    /// wrong, and names the variable and not its value.
    pub fn from_env() -> Result<Self> {
        Self::builder().env()?.build()
    }

    /// An account from its parts.
    pub fn builder() -> StorageAccountBuilder {
        StorageAccountBuilder::default()
    }

    /// The account's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How operations on this account behave.
    pub fn options(&self) -> &ClientOptions {
        self.0.pipeline.options()
    }

    /// The same account and connections, behaving differently.
    #[must_use = "the account itself does not change"]
    pub fn with_options(&self, options: ClientOptions) -> Self {
        let pipeline = self.0.pipeline.with_options(options);
        Self(Arc::new(Inner { name: self.0.name.clone(), pipeline }))
    }

    /// The same account with connections of its own, which belong to the runtime that makes requests on
    /// them: for requests that must not wait for the threads of another runtime. Reading the system's
    /// certificates makes it as expensive as [`build`](StorageAccountBuilder::build).
    ///
    /// An account with an HTTP client of the program's own keeps that client and its connections.
    pub fn with_own_connections(&self) -> Result<Self> {
        let pipeline = self.0.pipeline.with_own_connections()?;
        Ok(Self(Arc::new(Inner { name: self.0.name.clone(), pipeline })))
    }

    /// Where the account takes the time from, and how it waits. Everything built on the account
    /// takes them from here, too, so that one [`Clock`] moves all of it in tests.
    pub fn clock(&self) -> &dyn Clock {
        self.0.pipeline.clock()
    }

    /// What the account was given for traces, counters and gauges, for libraries that are built on it.
    pub fn telemetry(&self) -> &dyn Telemetry {
        self.0.pipeline.telemetry()
    }

    fn new(name: String, pipeline: Pipeline) -> Self {
        Self(Arc::new(Inner { name, pipeline }))
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.0.pipeline
    }

    pub(crate) fn flavor(&self) -> Flavor {
        self.0.pipeline.endpoints().flavor()
    }
}

impl fmt::Debug for StorageAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageAccount")
            .field("name", &self.0.name)
            .field("endpoints", self.0.pipeline.endpoints())
            .finish_non_exhaustive()
    }
}
