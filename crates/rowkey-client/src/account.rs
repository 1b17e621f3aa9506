//! A storage account: its endpoints and its credential.

use std::fmt;
use std::sync::Arc;

use crate::clock::Clock;
use crate::cost::Meter;
use crate::endpoint::Flavor;
use crate::error::Result;
use crate::hot_partitions::HotPartitions;
use crate::options::ClientOptions;
use crate::telemetry::Telemetry;
use crate::transport::Pipeline;

pub(crate) mod builder;
mod connection_string;
mod consistency;
mod environment;

#[cfg(test)]
mod tests;

use builder::StorageAccountBuilder;

/// A storage account. It creates handles for tables, queues and blobs.
///
/// Clones share connections and the credential.
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
    /// Creates an account from a connection string.
    ///
    /// Accepts connection strings from the portal, the emulators and Azure Cosmos DB for Table:
    /// with an account key or a shared access signature, with endpoints or their suffix, or
    /// `UseDevelopmentStorage=true`. Nothing is sent.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the text is not valid, if a part would
    /// have no effect, or if two parts contradict each other; the error names the part that is missing,
    /// repeated or wrong, never its value. Endpoints of services that this crate does not have
    /// (`FileEndpoint`) are ignored. See
    /// [Configure connection strings](https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string).
    ///
    /// ```
    /// use rowkey::StorageAccount;
    ///
    /// let text = "AccountName=contoso;AccountKey=YmFy;EndpointSuffix=core.windows.net";
    /// assert_eq!(StorageAccount::from_connection_string(text)?.name(), "contoso");
    /// let incomplete = StorageAccount::from_connection_string("AccountKey=YmFy").unwrap_err();
    /// assert!(incomplete.to_string().contains("AccountName"), "{incomplete}");
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn from_connection_string(text: &str) -> Result<Self> {
        Self::builder().connection_string(text)?.build()
    }

    /// Creates an account from environment variables: from the first row that is set and not empty.
    ///
    /// | variables | set by |
    /// |---|---|
    /// | `AZURE_STORAGE_CONNECTION_STRING` | the command line, and programs of Azure's libraries |
    /// | `AZURE_STORAGE_ACCOUNT` with `AZURE_STORAGE_KEY` or `AZURE_STORAGE_SAS_TOKEN` | the command line |
    /// | `AzureWebJobsStorage` | Azure Functions |
    /// | `AzureWebJobsStorage__accountName`, `AzureWebJobsStorage__tableServiceUri` and so on | Azure Functions with a managed identity |
    ///
    /// `AZURE_STORAGE_ACCOUNT_NAME` and `AZURE_STORAGE_ACCOUNT_KEY` are other names for those in the second
    /// row. Variables of the first two rows may be set together if they agree; a key or a signature
    /// completes a connection string without one. If the variables contain no secret, as in the last row, set
    /// the credential on the builder:
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
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if none is set, if one is not valid, and if
    /// two contradict each other. The error names the variables, never their values.
    pub fn from_env() -> Result<Self> {
        Self::builder().env()?.build()
    }

    /// Returns a builder, which creates an account from its parts.
    pub fn builder() -> StorageAccountBuilder {
        StorageAccountBuilder::default()
    }

    /// Returns the account's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the options of operations on this account.
    pub fn options(&self) -> &ClientOptions {
        self.0.pipeline.options()
    }

    /// Returns the same account, with the same connections and other options.
    ///
    /// ```
    /// use rowkey::{ClientOptions, RetryOptions, StorageAccount};
    ///
    /// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    /// let once = account.with_options(ClientOptions { retry, ..account.options().clone() });
    /// assert_eq!(once.table("orders").account().options().retry.max_attempts, 1);
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    #[must_use = "the account itself does not change"]
    pub fn with_options(&self, options: ClientOptions) -> Self {
        let pipeline = self.0.pipeline.with_options(options);
        Self(Arc::new(Inner { name: self.0.name.clone(), pipeline }))
    }

    /// Returns the same account, with the same connections and one more meter: it counts the requests of all handles
    /// that are made from the returned account.
    ///
    /// Stores, workers and jobs use the handles they are given, so build them from this account.
    ///
    /// ```
    /// use rowkey::StorageAccount;
    /// use rowkey::cost::Meter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let meter = Meter::new();
    /// let account = account.with_meter(&meter);
    /// account.table("orders").create().await?;
    /// account.queue("jobs").create().await?;
    /// assert_eq!(meter.usage().requests(), 2);
    /// # Ok(()) }
    /// ```
    #[must_use = "the account itself does not change"]
    pub fn with_meter(&self, meter: &Meter) -> Self {
        let pipeline = self.0.pipeline.with_meter(meter);
        Self(Arc::new(Inner { name: self.0.name.clone(), pipeline }))
    }

    /// Returns the same account with separate connections.
    ///
    /// The connections belong to the runtime that first uses them, so requests on them do not wait for the
    /// threads of another runtime. Proxy, certificates and time limits are the same.
    pub fn with_own_connections(&self) -> Result<Self> {
        let pipeline = self.0.pipeline.with_own_connections();
        Ok(Self(Arc::new(Inner { name: self.0.name.clone(), pipeline })))
    }

    /// Returns the clock, which tells the time and waits. Everything built on the account uses the
    /// same [`Clock`], so a test can control all of it with one.
    pub fn clock(&self) -> &dyn Clock {
        self.0.pipeline.clock()
    }

    /// Returns the receiver of traces and metrics, for libraries that are built on the account.
    pub fn telemetry(&self) -> &dyn Telemetry {
        self.0.pipeline.telemetry()
    }

    /// Returns which partitions get most of the requests of this account and its clones, since it was built or
    /// [cleared](Self::clear_hot_partitions). Sends nothing. Empty unless
    /// [`StorageAccountBuilder::hot_partitions`] switched it on.
    ///
    /// Other programs are not counted: if several write, a partition is hotter than each of them reports. The
    /// report has PartitionKeys: treat it as you treat the data. See [`HotPartitions`] for an example.
    pub fn hot_partitions(&self) -> HotPartitions {
        self.0.pipeline.hot().report()
    }

    /// Resets the counts of [`hot_partitions`](Self::hot_partitions), to report an hour instead of all time.
    pub fn clear_hot_partitions(&self) {
        self.0.pipeline.hot().clear();
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
