//! The builder of storage accounts.

use std::sync::Arc;

use rowkey_wire::auth::Service;

use super::StorageAccount;
use super::connection_string::{Parts, missing};
use super::consistency::{Defaults, SETTERS, contradiction};
use crate::clock::{Clock, SystemClock};
use crate::credential::{Credential, Scope};
use crate::endpoint::{ConfiguredEndpoints, Endpoint, Endpoints, Flavor, SERVICES};
use crate::error::{Error, Result};
use crate::hot_partitions::tracker::Tracker;
use crate::options::ClientOptions;
use crate::options::connection::ConnectionOptions;
use crate::pace::Targets;
use crate::pace::budget::{Budget, RETRIES};
use crate::pace::governor::Governor;
use crate::pace::hedge::Hedging;
use crate::telemetry::{Hook, Telemetry};
use crate::transport::http::Http;
use crate::transport::policy::{Additions, Policy, header, user_agent};
use crate::transport::retry::Jitter;
use crate::transport::sign::Signer;
use crate::transport::{Pipeline, Shared};

/// Builds a [`StorageAccount`].
///
/// ```
/// use rowkey::service::Service;
/// use rowkey::{Credential, StorageAccount};
///
/// let account = StorageAccount::builder()
///     .credential(Credential::shared_key("contoso", "YmFy")?)
///     .endpoint(Service::Table, "https://contoso.table.core.windows.net")?
///     .build()?;
/// # Ok::<(), rowkey::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is made before `build`"]
pub struct StorageAccountBuilder {
    name: Option<String>,
    credential: Option<Credential>,
    given: ConfiguredEndpoints,
    cosmos: bool,
    /// The part of host names after the service, if it is not `core.windows.net`.
    suffix: Option<String>,
    audience: Option<String>,
    additions: Additions,
    /// Whether a connection string was given, which changes the text of an error.
    is_from_text: bool,
    options: ClientOptions,
    clock: Option<Arc<dyn Clock>>,
    telemetry: Hook,
    /// How many partitions are counted.
    hot_partitions: usize,
    connections: ConnectionOptions,
    /// The hosts that secrets may be sent to over plain http.
    http_hosts: Vec<String>,
    seed: Option<u64>,
    targets: Option<Targets>,
    retries: Option<u32>,
}

impl StorageAccountBuilder {
    /// Sets name, credential and endpoints from a connection string, see
    /// [`StorageAccount::from_connection_string`]. If it has neither a key nor a signature, the
    /// credential does not change: set it separately, for example to a token.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the text is not valid, and if a name, an
    /// endpoint or a suffix was set before: it would be lost. Later setters replace what the text contains.
    ///
    /// ```
    /// use rowkey::{Credential, StorageAccount};
    ///
    /// let account = StorageAccount::builder()
    ///     .connection_string("AccountName=contoso;EndpointSuffix=core.usgovcloudapi.net")?
    ///     .credential(Credential::shared_key("contoso", "YmFy")?)
    ///     .build()?;
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn connection_string(mut self, text: &str) -> Result<Self> {
        let Parts { name, credential, given } = Parts::parse(text)?;
        let before = (&self.name, &self.suffix, &self.given);
        if before != (&None, &None, &ConfiguredEndpoints::default()) {
            let what = "the connection string would replace the account name or the endpoints that \
                        were set before it";
            return Err(Error::invalid(what).advise("give it first, and once"));
        }
        self.name = name;
        self.credential = credential.or(self.credential);
        self.given = given;
        self.is_from_text = true;
        Ok(self)
    }

    /// Sets name, credential and endpoints from environment variables, see [`StorageAccount::from_env`]. If
    /// they have neither a key nor a signature, the credential does not change: set it separately.
    pub fn env(self) -> Result<Self> {
        super::environment::read(self, &std::env::vars_os().collect::<Vec<_>>())
    }

    /// Sets the account's name. Needed if neither the credential nor an endpoint contains it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the credential that authorizes requests. Required.
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = Some(credential);
        self
    }

    /// Sets the endpoint of a service. Default: `https://{name}.table.core.windows.net`, and the same for
    /// queues and blobs.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) unless `url` is an http or
    /// https address without a query.
    ///
    /// ```
    /// use rowkey::service::Service;
    /// use rowkey::{Credential, StorageAccount};
    ///
    /// let account = StorageAccount::builder()
    ///     .name("contoso")
    ///     .credential(Credential::shared_key("contoso", "YmFy")?)
    ///     .endpoint(Service::Table, "https://tables.contoso.com")?
    ///     .secondary_endpoint(Service::Table, "https://tables-2.contoso.com")?
    ///     .build()?;
    /// let query = account.table("orders").scan::<rowkey::DynamicEntity>().explain()?;
    /// assert!(query.requests[0].url.starts_with("https://tables.contoso.com/orders"));
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn endpoint(self, service: Service, url: &str) -> Result<Self> {
        self.primary(service, (SETTERS.endpoints)(service)[0], url)
    }

    /// Sets the secondary endpoint of a service, from which reads are served if the primary fails.
    /// Default: the primary's address with `-secondary` after the account's name.
    pub fn secondary_endpoint(self, service: Service, url: &str) -> Result<Self> {
        self.secondary(service, (SETTERS.endpoints)(service)[1], url)
    }

    /// Treats the endpoint as Azure Cosmos DB for Table, which has other verbs and limits. Needed
    /// only if the address does not show it, such as that of a private endpoint.
    pub fn cosmos(mut self) -> Self {
        self.cosmos = true;
        self
    }

    /// Sets the suffix of host names, for clouds other than Azure's public one: `core.usgovcloudapi.net` for
    /// Azure Government, `core.chinacloudapi.cn` for Azure in China. Default: `core.windows.net`. Applies to
    /// services whose endpoint is not set; [`build`](Self::build) fails if there is none, or if an endpoint has
    /// another suffix.
    ///
    /// ```
    /// use rowkey::{Credential, StorageAccount};
    ///
    /// let account = StorageAccount::builder()
    ///     .credential(Credential::shared_key("contoso", "YmFy")?)
    ///     .endpoint_suffix("core.usgovcloudapi.net")
    ///     .build()?;
    /// let query = account.table("orders").scan::<rowkey::DynamicEntity>().explain()?;
    /// assert!(query.requests[0].url.starts_with("https://contoso.table.core.usgovcloudapi.net/"));
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn endpoint_suffix(mut self, suffix: impl Into<String>) -> Self {
        self.suffix = Some(suffix.into());
        self
    }

    /// Sets the audience of tokens, for example `https://contoso.table.core.windows.net`. Default:
    /// `https://storage.azure.com`, which is valid in all clouds, or for a Cosmos DB endpoint the audience of
    /// Azure Cosmos DB. Token providers are asked for the scope `{audience}/.default`.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Adds a header to every request. Can be called repeatedly.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the name or the value is not
    /// valid in a header, or if the client itself sends a header with this name. If the client
    /// sends it only with some operations, such as `If-Match`, those operations fail in the same
    /// way.
    ///
    /// ```
    /// use rowkey::{Credential, StorageAccount};
    ///
    /// let builder = || {
    ///     let key = Credential::shared_key("contoso", "YmFy")?;
    ///     StorageAccount::builder().credential(key).application_id("contoso-shop/1.4")
    /// };
    /// assert!(builder()?.header("x-tenant", "7")?.build().is_ok());
    /// assert!(builder()?.header("authorization", "mine").is_err(), "the client sends it");
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn header(mut self, name: &str, value: &str) -> Result<Self> {
        let (name, value) = header(name, value)?;
        self.additions.headers.insert(name, value);
        Ok(self)
    }

    /// Adds the program's id, such as `contoso-shop/1.4`, to the `User-Agent` of every request, before the
    /// library's own name.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) unless the id has 1 to 24 visible
    /// ASCII characters.
    pub fn application_id(mut self, id: &str) -> Result<Self> {
        self.additions.user_agent = Some(user_agent(id)?);
        Ok(self)
    }

    /// Sets a policy, which sees every attempt and may add headers to it.
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.additions.policy = Some(policy);
        self
    }

    /// Sets the options of operations.
    pub fn options(mut self, options: ClientOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the clock. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Sets the receiver of this account's traces and metrics. Default: none; tasks and writes carry
    /// the trace of [`TraceParent::scope`](crate::telemetry::TraceParent::scope) even then.
    pub fn telemetry(mut self, telemetry: Arc<dyn Telemetry>) -> Self {
        self.telemetry = Hook::new(telemetry);
        self
    }

    /// Counts the requests to tables by partition, for [`StorageAccount::hot_partitions`]. Keeps the counters of this
    /// many partitions, with their keys: those with more than one entity in `most` are among them. 128 is enough
    /// for most programs. Default: 0, which counts nothing.
    ///
    /// A request then costs a lock and a lookup more; a request to a partition that has no counter looks at all of
    /// them.
    pub fn hot_partitions(mut self, most: usize) -> Self {
        self.hot_partitions = most;
        self
    }

    /// Sets how the account connects: proxy, trusted certificates, time limits.
    ///
    /// Redirects are never followed: requests are signed for one address, and a redirect would send a shared access
    /// signature and the body to another.
    ///
    /// ```
    /// use rowkey::{ConnectionOptions, Credential, StorageAccount};
    ///
    /// let account = StorageAccount::builder()
    ///     .credential(Credential::shared_key("contoso", "YmFy")?)
    ///     .connections(ConnectionOptions::new().without_proxy())
    ///     .build()?;
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn connections(mut self, options: ConnectionOptions) -> Self {
        self.connections = options;
        self
    }

    /// Allows shared access signatures and bearer tokens over plain http to this host, for example
    /// to `http://rowkey:10002` in a private container network. Anyone on the network path can read
    /// and use them. `host` has no scheme and no port. Can be called repeatedly.
    ///
    /// Without this, [`build`](Self::build) refuses to send such secrets over plain http unless the host is
    /// this machine (a loopback address, `localhost` or `*.localhost`).
    ///
    /// ```
    /// use rowkey::StorageAccount;
    ///
    /// let text = "TableEndpoint=http://rowkey:10002/acct;SharedAccessSignature=sv=2019-02-02&sig=x";
    /// assert!(StorageAccount::from_connection_string(text).is_err());
    /// let account =
    ///     StorageAccount::builder().connection_string(text)?.allow_http_to("rowkey").build()?;
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn allow_http_to(mut self, host: impl Into<String>) -> Self {
        self.http_hosts.push(host.into());
        self
    }

    /// Sets the highest rates of paced requests. Default: the documented [`Targets`] of Azure Storage, and
    /// none for Azure Cosmos DB. Applies to requests with a [`Pace`](crate::pace::Pace), which includes jobs.
    pub fn targets(mut self, targets: Targets) -> Self {
        self.targets = Some(targets);
        self
    }

    /// Sets how many retries in a row may fail before the account sends no more. Default: 100. 0 means that
    /// nothing is retried, and [`u32::MAX`] that there is no limit.
    ///
    /// The account and its clones share a token bucket, as in the SDKs of AWS: a retry takes 5 tokens, and gets
    /// them back if its operation succeeds; an operation that succeeds at once adds one. When it is empty, an
    /// operation fails with the error of its last attempt, which says so. Background requests
    /// ([`Pace::background`](crate::pace::Pace::background)) are repeated at the rate that the service accepts,
    /// and need no budget for what it refuses.
    ///
    /// ```
    /// use rowkey::StorageAccount;
    ///
    /// let account = StorageAccount::builder()
    ///     .connection_string("UseDevelopmentStorage=true")?
    ///     .retry_budget(20)
    ///     .build()?;
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn retry_budget(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// Makes waits and request ids the same in every run.
    ///
    /// ```
    /// use rowkey::StorageAccount;
    ///
    /// let account = StorageAccount::builder()
    ///     .connection_string("UseDevelopmentStorage=true")?
    ///     .seed(7)
    ///     .build()?;
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    #[cfg(any(test, feature = "test-util"))]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds the account. Nothing is sent.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the credential is missing, if the
    /// account's name is unknown, if name, key, endpoints and suffix contradict each other or one of them would
    /// have no effect, if secondary reads are enabled and the secondary endpoint is unknown, or if a shared
    /// access signature or a bearer token would be sent over plain http to a host that is neither this machine
    /// nor [named](Self::allow_http_to).
    pub fn build(self) -> Result<StorageAccount> {
        let Some(credential) = self.credential else {
            return Err(if self.is_from_text {
                missing("AccountKey or SharedAccessSignature")
                    .advise("give a credential to `StorageAccount::builder()`")
            } else {
                Error::invalid("the account has no credential")
                    .advise("give one, or `Credential::anonymous()`")
            });
        };
        let mut given = self.given;
        let known = self.name.as_deref().or_else(|| credential.account());
        if let (Some(name), Some(signing)) = (&self.name, credential.account())
            && name != signing
        {
            return Err(contradiction(SETTERS.account, "the account key"));
        }
        let defaults = Defaults { name: known, protocol: None, suffix: self.suffix.as_deref() };
        given.resolve(defaults, &SETTERS)?;
        if SERVICES.iter().all(|service| given.primary.get(*service).is_none()) {
            return Err(
                Error::invalid("no account name configured").advise("give its name or an endpoint")
            );
        }
        let name = known.or_else(|| given.account()).unwrap_or_default().to_owned();
        let endpoints = Endpoints::new(given, &name).trusting(&self.http_hosts);
        let endpoints = if self.cosmos { endpoints.of_cosmos() } else { endpoints };
        if self.options.read_from_secondary && !endpoints.has_secondaries() {
            return Err(Error::invalid("no secondary endpoint configured")
                .advise("give the secondary endpoint, or do not read from it"));
        }
        endpoints.all().try_for_each(|endpoint| credential.check(endpoint))?;
        let connections = self.connections.within(self.options.attempt_timeout);
        let http = Http::new(connections, endpoints.all())?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let jitter = self.seed.map_or_else(Jitter::random, Jitter::seeded);
        let jitter = Arc::new(jitter);
        let targets = self.targets.unwrap_or_else(|| match endpoints.flavor() {
            Flavor::Cosmos => Targets::UNLIMITED,
            Flavor::Storage => Targets::default(),
        });
        let shared = Shared {
            governor: Governor::new(Arc::clone(&clock), self.telemetry.clone(), targets),
            retries: Budget::new(self.retries.unwrap_or(RETRIES)),
            hedging: Hedging::default(),
            scope: scope(self.audience.as_deref().unwrap_or(endpoints.audience())),
            signer: Signer::new(credential, Arc::clone(&clock), Arc::clone(&jitter)),
            endpoints,
            clock,
            telemetry: self.telemetry,
            hot: Tracker::of(self.hot_partitions),
            additions: self.additions,
            jitter,
            azurite: false.into(),
        };
        Ok(StorageAccount::new(name, Pipeline::new(http, self.options, shared)))
    }

    fn primary(mut self, service: Service, part: &str, url: &str) -> Result<Self> {
        self.given.primary.set(service, Some(Endpoint::parse(part, url)?));
        Ok(self)
    }

    fn secondary(mut self, service: Service, part: &str, url: &str) -> Result<Self> {
        self.given.secondary.set(service, Some(Endpoint::parse(part, url)?));
        Ok(self)
    }
}

/// The scope to request so that the token is for this audience.
fn scope(audience: &str) -> Scope {
    let audience = audience.strip_suffix("/.default").unwrap_or(audience);
    format!("{}/.default", audience.trim_end_matches('/')).into()
}
