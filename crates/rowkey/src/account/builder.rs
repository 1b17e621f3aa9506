//! An account from its parts.

use std::sync::Arc;

use rowkey_wire::auth::Service;

use super::StorageAccount;
use super::connection_string::{Parts, missing, pattern};
use super::endpoint::{Endpoint, Endpoints, Given, SERVICES};
use crate::clock::{Clock, SystemClock};
use crate::credential::{Credential, Scope};
use crate::error::{Error, Result};
use crate::options::ClientOptions;
use crate::telemetry::{Hook, Telemetry};
use crate::transport::http::Http;
use crate::transport::policy::{Additions, Policy, header, user_agent};
use crate::transport::retry::Jitter;
use crate::transport::sign::Signer;
use crate::transport::{Pipeline, Shared};

/// Collects what makes a [`StorageAccount`].
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
    given: Given,
    cosmos: bool,
    /// What follows the service in hosts, if it is not `core.windows.net`.
    suffix: Option<String>,
    audience: Option<String>,
    additions: Additions,
    /// Whether a connection string was given, for what an error says.
    is_from_text: bool,
    options: ClientOptions,
    clock: Option<Arc<dyn Clock>>,
    telemetry: Hook,
    http: Option<Http>,
    /// The hosts that secrets may be sent to over plain http.
    http_hosts: Vec<String>,
    seed: Option<u64>,
}

impl StorageAccountBuilder {
    /// Takes name, credential and endpoints from a connection string, see
    /// [`StorageAccount::from_connection_string`]. One without a key and a signature leaves the
    /// credential as it is: give it apart, a token for example.
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
        self.name = Some(name);
        self.credential = credential.or(self.credential);
        self.given = given;
        self.is_from_text = true;
        Ok(self)
    }

    /// Takes name, credential and endpoints from environment variables, see
    /// [`StorageAccount::from_env`]. Those that describe an account without a key and a signature leave
    /// the credential as it is: give it apart.
    pub fn env(self) -> Result<Self> {
        super::environment::read(self, &std::env::vars_os().collect::<Vec<_>>())
    }

    /// The account's name, when neither credential nor endpoint says it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What authorizes requests. Required.
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = Some(credential);
        self
    }

    /// Where a service of the account is, when that is not `https://{name}.table.core.windows.net` or its like.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) unless it is an http or https
    /// address without a query.
    pub fn endpoint(self, service: Service, url: &str) -> Result<Self> {
        let what = match service {
            Service::Blob => "the blob endpoint",
            Service::Queue => "the queue endpoint",
            Service::Table => "the table endpoint",
        };
        self.primary(service, what, url)
    }

    /// Where a service can be read when its primary fails, when that is not the primary's address
    /// with `-secondary` after the account's name.
    pub fn secondary_endpoint(self, service: Service, url: &str) -> Result<Self> {
        let what = match service {
            Service::Blob => "the secondary blob endpoint",
            Service::Queue => "the secondary queue endpoint",
            Service::Table => "the secondary table endpoint",
        };
        self.secondary(service, what, url)
    }

    /// Says that the endpoint is one of Azure Cosmos DB for Table, which differs in verbs and
    /// limits. Needed only for addresses that do not tell, such as those of private endpoints.
    pub fn cosmos(mut self) -> Self {
        self.cosmos = true;
        self
    }

    /// What hosts end with in another cloud than Azure's public one: `core.usgovcloudapi.net` for Azure
    /// Government, `core.chinacloudapi.cn` for Azure in China. Default: `core.windows.net`. It counts for
    /// services whose endpoint neither is given nor follows from another one.
    pub fn endpoint_suffix(mut self, suffix: impl Into<String>) -> Self {
        self.suffix = Some(suffix.into());
        self
    }

    /// Whom tokens are for, `https://contoso.table.core.windows.net` for example, where it is another
    /// than `https://storage.azure.com`, which holds in all clouds, or that of Azure Cosmos DB, which
    /// follows from the endpoint. The scope that providers are asked for is this with `/.default`.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Adds a header to every request. Call it again for another.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when name or value cannot be a
    /// header's, or when the client itself sends a header of this name; one that it sends with some
    /// operations alone, as `If-Match`, makes those operations fail in the same way.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self> {
        let (name, value) = header(name, value)?;
        self.additions.headers.insert(name, value);
        Ok(self)
    }

    /// Says in the `User-Agent` of every request which program sends it: `contoso-shop/1.4` in front of
    /// the library's own name.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) unless the id has 1 to 24 visible
    /// ASCII characters.
    pub fn application_id(mut self, id: &str) -> Result<Self> {
        self.additions.user_agent = Some(user_agent(id)?);
        Ok(self)
    }

    /// Has every attempt seen by `policy`, which may add headers to it.
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.additions.policy = Some(policy);
        self
    }

    /// How operations behave.
    pub fn options(mut self, options: ClientOptions) -> Self {
        self.options = options;
        self
    }

    /// Where the time comes from. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// What is told of traces, counted and measured on this account. Default: nothing; tasks and writes
    /// carry the trace of [`TraceParent::scope`](crate::telemetry::TraceParent::scope) all the same.
    pub fn telemetry(mut self, telemetry: Arc<dyn Telemetry>) -> Self {
        self.telemetry = Hook::new(telemetry);
        self
    }

    /// An HTTP client of your own, with your proxy, certificates or pool.
    ///
    /// It is built here, always without redirects, retries, a `Referer` and decompression; its own
    /// settings of these have no effect. Requests are signed for one address, a redirect would show
    /// a shared access signature and the body to another, and only this crate knows what may be
    /// repeated.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it cannot be built.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rowkey::{Credential, StorageAccount};
    ///
    /// let client = reqwest::Client::builder().connect_timeout(Duration::from_secs(2)).no_proxy();
    /// let account = StorageAccount::builder()
    ///     .credential(Credential::shared_key("contoso", "YmFy")?)
    ///     .http_client(client)?
    ///     .build()?;
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    #[cfg(feature = "reqwest-0_13")]
    pub fn http_client(mut self, client: reqwest::ClientBuilder) -> Result<Self> {
        self.http = Some(Http::build(client)?);
        Ok(self)
    }

    /// Lets shared access signatures and bearer tokens be sent over plain http to this host, which
    /// everybody on the way can then read and use: for a container of one's own network,
    /// `http://rowkey:10002`. The host alone is named, without scheme and port; call it again for
    /// another.
    ///
    /// Without, [`build`](Self::build) refuses plain http for what bears a secret, unless the host is
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

    /// Makes waits and request ids the same in every run.
    #[cfg(test)]
    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Makes the account. Nothing is sent.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the credential is missing,
    /// when nothing says the account's name, when secondary reads are asked for and nothing says
    /// where the secondary is, or when a shared access signature or a bearer token would be sent over
    /// plain http to a host that is neither this machine nor [named](Self::allow_http_to).
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
        let suffix = self.suffix.as_deref().unwrap_or("core.windows.net");
        given.complete(|service| Some(pattern(service, "https", known?, suffix)))?;
        if SERVICES.iter().all(|service| given.primary.get(*service).is_none()) {
            return Err(Error::invalid("nothing says the account's name")
                .advise("give its name or an endpoint"));
        }
        let name = known.or_else(|| given.account()).unwrap_or_default().to_owned();
        let endpoints = Endpoints::new(given, &name).trusting(&self.http_hosts);
        let endpoints = if self.cosmos { endpoints.of_cosmos() } else { endpoints };
        if self.options.read_from_secondary && !endpoints.has_secondaries() {
            return Err(Error::invalid("nothing says where the account's secondary is")
                .advise("give the secondary endpoint, or do not read from it"));
        }
        endpoints.all().try_for_each(|endpoint| credential.check(endpoint))?;
        let http = match self.http {
            Some(http) => http,
            None => Http::new(endpoints.is_secure(), endpoints.is_direct())?,
        };
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let jitter = self.seed.map_or_else(Jitter::random, Jitter::seeded);
        let jitter = Arc::new(jitter);
        let shared = Shared {
            scope: scope(self.audience.as_deref().unwrap_or(endpoints.audience())),
            signer: Signer::new(credential, Arc::clone(&clock), Arc::clone(&jitter)),
            endpoints,
            clock,
            telemetry: self.telemetry,
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

/// What a provider is asked for, so that its token is for this audience.
fn scope(audience: &str) -> Scope {
    let audience = audience.strip_suffix("/.default").unwrap_or(audience);
    format!("{}/.default", audience.trim_end_matches('/')).into()
}
