//! [`Server`] and [`ServerBuilder`]: start a server, find its addresses, and end it.
//!
//! | module | contents |
//! |---|---|
//! | [`testing`] | the methods of [`Server`] that are for tests |
//! | [`requests`] | [`assert_requests`](crate::assert_requests): how many requests a piece of code sends |
//! | [`snapshot`] | [`Snapshot`]: the contents of a server at an instant |
//! | `bind` | sockets |
//! | `identities` | the token endpoint and its identities, with the feature `oauth` |
//! | [`held_back`] | [`HeldBack`]: a secondary that lags |
//! | `owner` | connections of the owner, with the feature `control` |
//! | `state` | the contents as one file, with the feature `durable` |
//! | [`loading`] | data at the start: seeds, and the data of Azurite |
//! | [`sweep`] | [`Sweep`]: runs a scenario with every fault at every request |

mod bind;
mod held_back;
#[cfg(feature = "oauth")]
mod identities;
mod loading;
#[cfg(feature = "control")]
mod owner;
mod requests;
mod snapshot;
#[cfg(feature = "durable")]
mod state;
mod sweep;
mod testing;

use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use bind::{bind, reachable};
pub use held_back::HeldBack;
#[doc(hidden)]
pub use requests::{Counted, Expected, RequestCount};
use rowkey_wire::auth::Service;
use rowkey_wire::edm::DateTime;
use rowkey_wire::shown;
pub use snapshot::{Snapshot, StoredEntity, StoredMessage, StoredQueue, StoredTable};
pub use sweep::{Sweep, SweepError, SweepFailure, SweepFault, Swept};

use crate::account::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Rules, Tokens};
use crate::clock::ServerClock;
use crate::control::{Control, Targets};
use crate::front::hosts::Hosts;
use crate::front::keep_alive::KeepAlive;
use crate::http::connection::Serves;
use crate::http::listener::{self, Listeners, Running};
use crate::load::Seed;
use crate::op::entity::Strictness;
use crate::state::State;
use crate::store::Names;
use crate::tls::Scheme;

/// The time at which a manual clock starts.
const MANUAL_START: &str = "2026-01-01T00:00:00Z";

/// A running server. Dropping it stops the server and closes its connections.
#[must_use = "the server ends when it is dropped"]
pub struct Server {
    pub(crate) state: Arc<State>,
    /// The options it was started with, including its accounts.
    pub(crate) builder: ServerBuilder,
    endpoints: Endpoints,
    connection_string: String,
    /// What was not taken over from Azurite.
    #[cfg(feature = "durable")]
    notes: Vec<String>,
    running: Mutex<Option<Running>>,
}

/// Server options: `Server::builder().….start()`.
///
/// ```
/// use std::num::NonZeroUsize;
/// use rowkey_emulator::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = Server::builder()
///     .account("shop", ["a2V5"])
///     .blob("127.0.0.1", 0)
///     .queue("127.0.0.1", 0)
///     .table("127.0.0.1", 0)
///     .allow_host("storage.test")
///     .product_style(false)
///     .loose()
///     .journal(false)
///     .threads(NonZeroUsize::MIN.saturating_add(1))
///     .start()
///     .await?;
/// assert!(server.table_endpoint().ends_with("/shop"));
/// assert!(server.connection_string().contains("AccountName=shop;AccountKey=a2V5"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing is started before `start`"]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct ServerBuilder {
    accounts: Vec<(String, Vec<String>)>,
    blob: (String, u16),
    queue: (String, u16),
    table: (String, u16),
    strict: Strictness,
    names: Names,
    clock: Option<ServerClock>,
    journal: bool,
    targets: Option<Targets>,
    scheme: Scheme,
    oauth: bool,
    #[cfg(feature = "oauth")]
    tokens: identities::Settings,
    allowed_hosts: Vec<String>,
    debug_signing: bool,
    keep_alive: KeepAlive,
    product_style: bool,
    threads: NonZeroUsize,
    seeds: Vec<Arc<Seed>>,
    /// The directory with Azurite's data.
    #[cfg(feature = "durable")]
    azurite: Option<std::path::PathBuf>,
    #[cfg(feature = "durable")]
    location: Option<(std::path::PathBuf, crate::durable::SyncPolicy)>,
    /// Files that a location may have although no server has used it.
    #[cfg(feature = "durable")]
    beside: Vec<std::path::PathBuf>,
}

#[derive(Clone, Debug)]
struct Endpoints {
    blob: String,
    queue: String,
    table: String,
}

impl Server {
    /// Starts a server with the development account on free ports of 127.0.0.1.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// Returns the options of a server, to be changed before it starts.
    pub fn builder() -> ServerBuilder {
        let any = ("127.0.0.1".to_owned(), 0);
        ServerBuilder {
            accounts: Vec::new(),
            blob: any.clone(),
            queue: any.clone(),
            table: any,
            strict: Strictness::Strict,
            names: Names::Blocked,
            clock: None,
            journal: true,
            targets: None,
            scheme: Scheme::default(),
            oauth: false,
            #[cfg(feature = "oauth")]
            tokens: identities::Settings::default(),
            allowed_hosts: Vec::new(),
            debug_signing: false,
            keep_alive: KeepAlive::default(),
            product_style: true,
            threads: NonZeroUsize::MIN,
            seeds: Vec::new(),
            #[cfg(feature = "durable")]
            azurite: None,
            #[cfg(feature = "durable")]
            location: None,
            #[cfg(feature = "durable")]
            beside: Vec::new(),
        }
    }

    /// The connection string of the first account, for any client of Azure storage.
    pub fn connection_string(&self) -> &str {
        &self.connection_string
    }

    /// The same without the account's key, unless that is the published one. Logs may have it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::Server;
    ///
    /// let server = Server::builder().account("shop", ["a2V5"]).start().await?;
    /// let shown = server.connection_string_without_key();
    /// assert!(shown.contains("AccountName=shop;") && !shown.contains("a2V5"));
    /// # Ok(()) }
    /// ```
    pub fn connection_string_without_key(&self) -> String {
        let is_secret =
            |part: &str| part.strip_prefix("AccountKey=").is_some_and(|key| key != DEVELOPMENT_KEY);
        let parts = self.connection_string.split_inclusive(';');
        parts.filter(|part| !is_secret(part.trim_end_matches(';'))).collect()
    }

    /// The address of the Table service for the first account,
    /// `http://127.0.0.1:10002/devstoreaccount1`.
    pub fn table_endpoint(&self) -> &str {
        &self.endpoints.table
    }

    /// The address of the Queue service for the first account,
    /// `http://127.0.0.1:10001/devstoreaccount1`.
    pub fn queue_endpoint(&self) -> &str {
        &self.endpoints.queue
    }

    /// The address of the Blob service for the first account.
    pub fn blob_endpoint(&self) -> &str {
        &self.endpoints.blob
    }

    /// The server's certificate in PEM, if it speaks HTTPS. A certificate generated at the start is
    /// trusted by no system, so clients must be configured to trust it.
    #[cfg(feature = "tls")]
    pub fn certificate(&self) -> Option<&str> {
        self.builder.scheme.certificate()
    }

    /// The server's clock.
    pub fn clock(&self) -> &ServerClock {
        &self.state.clock
    }

    /// Closes the ports and all connections of the services. Dropping the server does the same, and lets go of its
    /// data.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = rowkey_emulator::Server::start().await?;
    /// server.stop();
    /// assert_eq!(server.connections(), 0);
    /// # Ok(()) }
    /// ```
    pub fn stop(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        drop(running.take());
    }

    /// Waits until the server ends, which happens only when its sockets fail.
    pub fn wait(self) {
        let running = self.running.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running {
            running.wait();
        }
    }
}

impl ServerBuilder {
    /// Adds an account with one or two keys in base64. Without a call, the server has the
    /// development account.
    pub fn account(
        mut self,
        name: impl Into<String>,
        keys: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.accounts.push((name.into(), keys.into_iter().map(Into::into).collect()));
        self
    }

    /// Sets the address of the Blob service. Port 0 is a free port.
    pub fn blob(mut self, host: impl Into<String>, port: u16) -> Self {
        self.blob = (host.into(), port);
        self
    }

    /// Sets the address of the Queue service. Port 0 is a free port.
    pub fn queue(mut self, host: impl Into<String>, port: u16) -> Self {
        self.queue = (host.into(), port);
        self
    }

    /// Sets the address of the Table service. Port 0 is a free port.
    pub fn table(mut self, host: impl Into<String>, port: u16) -> Self {
        self.table = (host.into(), port);
        self
    }

    /// Whether names of deleted tables, queues and containers can be reused at once. Default: no.
    /// As in the service, creating a table is then rejected for 40 s after a table with its name
    /// was deleted (409 `TableBeingDeleted`), a queue or container for 30 s (409
    /// `QueueBeingDeleted`, `ContainerBeingDeleted`), by [`Server::clock`].
    ///
    /// Test suites written for other emulators delete and recreate the same name; code that will
    /// run against the service must wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = rowkey_emulator::Server::builder().reuse_names(true).start().await?;
    /// # Ok(()) }
    /// ```
    pub fn reuse_names(mut self, reuse_names: bool) -> Self {
        self.names = if reuse_names { Names::Reused } else { Names::Blocked };
        self
    }

    /// Does not enforce the service's limits on entities and filters:
    ///
    /// - 252 properties of an entity;
    /// - 64 KiB in a property's value, 1 MiB in an entity;
    /// - 15 comparisons in a filter.
    ///
    /// Names of deleted resources stay blocked; see [`reuse_names`](Self::reuse_names).
    pub fn loose(mut self) -> Self {
        self.strict = Strictness::Loose;
        self
    }

    /// Uses a manual clock that starts at the beginning of 2026 and is moved by [`ServerClock::advance`].
    ///
    /// Requests must then be dated by that clock, too: the service rejects dates that are more than
    /// 15 minutes from its own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rowkey_emulator::Server;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = Server::builder().manual_clock().start().await?;
    /// server.clock().advance(Duration::from_secs(3600));
    /// assert_eq!(server.clock().now().to_string(), "2026-01-01T01:00:00Z");
    /// # Ok(()) }
    /// ```
    pub fn manual_clock(self) -> Self {
        self.clock(ServerClock::manual(MANUAL_START.parse().unwrap_or(DateTime::MIN)))
    }

    /// Sets the clock, which several servers can share. Default: [`ServerClock::real`].
    pub fn clock(mut self, clock: ServerClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Whether requests are recorded for [`Server::journal`]. Default: yes.
    pub fn journal(mut self, journal: bool) -> Self {
        self.journal = journal;
        self
    }

    /// Answers 503 `ServerBusy` with `Retry-After` to requests above these targets. Without this,
    /// no request is throttled.
    ///
    /// ```
    /// use rowkey_emulator::{Server, Targets};
    ///
    /// # use std::io::{Read as _, Write as _};
    /// # /// Lists the tables without a signature.
    /// # fn tables(endpoint: &str) -> std::io::Result<String> {
    /// #     let (host, account) = endpoint.trim_start_matches("http://").split_once('/').unwrap();
    /// #     let mut connection = std::net::TcpStream::connect(host)?;
    /// #     let head = format!("GET /{account}/Tables HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    /// #     connection.write_all(head.as_bytes())?;
    /// #     let mut response = String::new();
    /// #     connection.read_to_string(&mut response)?;
    /// #     Ok(response)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let targets = Targets { requests_per_account: 1, ..Targets::default() };
    /// let server = Server::builder().throttle(targets).manual_clock().start().await?;
    /// let first = tables(server.table_endpoint())?;
    /// let second = tables(server.table_endpoint())?;
    /// assert!(!first.contains("ServerBusy") && second.contains("ServerBusy"), "{first}{second}");
    /// # Ok(()) }
    /// ```
    pub fn throttle(mut self, targets: Targets) -> Self {
        self.targets = Some(targets);
        self
    }

    /// Speaks HTTPS instead of HTTP, with a certificate that is generated at the start for
    /// `localhost` and for the hosts that the services listen on. See [`Server::certificate`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = rowkey_emulator::Server::builder().https().start().await?;
    /// assert!(server.table_endpoint().starts_with("https://"));
    /// let certificate = server.certificate().unwrap_or_default(); // for the client to trust
    /// assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"));
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn https(mut self) -> Self {
        self.scheme = Scheme::Made;
        self
    }

    /// Speaks HTTPS instead of HTTP, with this certificate and its key, both in PEM.
    #[cfg(feature = "tls")]
    pub fn certificate(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        self.scheme = Scheme::given(certificate.into(), key.into());
        self
    }

    /// Accepts bearer tokens, over HTTPS and from the same machine. Their format, times, issuer and
    /// audience are checked. Their signature is not, so anyone can make one. With the feature `oauth`,
    /// `issue_tokens` makes the server issue tokens itself.
    pub fn oauth(mut self) -> Self {
        self.oauth = true;
        self
    }

    /// Adds a host name, such as `storage.test`, under which pages of other origins reach the server.
    ///
    /// A request with an `Origin` is rejected with 403 `AuthorizationFailure` unless its `Host` is
    /// an IP address, `localhost` or below it, `account.table.core.windows.net`, the host that a
    /// service listens on, or a name that is allowed here. This keeps pages from reaching the
    /// server through a domain of their own (DNS rebinding). Programs send no `Origin` and may use
    /// any name.
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.allowed_hosts.push(name.into());
        self
    }

    /// Whether the string to sign is logged, at the level `info`, when a request is rejected for
    /// its signature. It contains the keys of entities, the names of blobs and the parameters of
    /// requests. Default: no.
    pub fn debug_signing(mut self, debug_signing: bool) -> Self {
        self.debug_signing = debug_signing;
        self
    }

    /// How long connections to a service may be idle, from a response to the next request. Default:
    /// unlimited, because a client that reuses a connection while it is being closed gets an
    /// avoidable error.
    ///
    /// Responses then state the limit in the header `Keep-Alive: timeout=`, in whole seconds.
    pub fn keep_alive_timeout(mut self, service: Service, limit: Duration) -> Self {
        self.keep_alive.set(service, limit);
        self
    }

    /// Whether the host of a request may name the account, as in
    /// `http://account.table.localhost:10002/things`. Default: yes, for hosts whose first label is an
    /// account of this server, or whose second one is `blob`, `queue` or `table`. Without it, the
    /// account is always the first segment of the path.
    pub fn product_style(mut self, product_style: bool) -> Self {
        self.product_style = product_style;
        self
    }

    /// The number of threads that answer requests. Default: 1, which costs the least processor time
    /// per request. More threads answer more requests per second if cores are idle. A connection
    /// stays with one thread.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Keeps the data in a directory. Acknowledged changes survive the end of the process, however
    /// it ends, and are there when a server is next started with the directory.
    ///
    /// The directory is created if it does not exist. [`start`](Self::start) fails, and leaves the
    /// directory unchanged, if it is neither empty nor a server's, if another server uses it, or if
    /// another version wrote it in a different format. Accounts are identified by their names.
    ///
    /// When the data is damaged, the server does not start, and changes nothing. The error says what
    /// is damaged, and how to start with the changes before it. While the disk accepts no changes,
    /// requests to change data fail with `InsufficientStorage`; reads still work.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::{Server, SyncPolicy};
    ///
    /// # let directory = std::env::temp_dir().join(format!("rowkey-doc-{}", std::process::id()));
    /// let server = Server::builder().location(&directory, SyncPolicy::default()).start().await?;
    /// // … acknowledged writes …
    /// drop(server);
    /// let server = Server::builder().location(&directory, SyncPolicy::Always).start().await?;
    /// // … is there.
    /// # drop(server);
    /// # std::fs::remove_dir_all(&directory)
    /// # }
    /// ```
    #[cfg(feature = "durable")]
    pub fn location(
        mut self,
        directory: impl Into<std::path::PathBuf>,
        sync: crate::durable::SyncPolicy,
    ) -> Self {
        self.location = Some((directory.into(), sync));
        self
    }

    /// Allows this file in a [`location`](Self::location) that no server has used yet, such as a log that the
    /// program has begun there. By default the location must be empty, except for logs (`*.log`) and the files
    /// that file systems, desktops and Git put into directories. Can be called repeatedly.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::{Server, SyncPolicy};
    ///
    /// # let directory = std::env::temp_dir().join(format!("rowkey-beside-{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory)?;
    /// std::fs::write(directory.join("trace.txt"), "started")?;
    /// let server = Server::builder()
    ///     .location(&directory, SyncPolicy::default())
    ///     .allow_in_location(directory.join("trace.txt"))
    ///     .start()
    ///     .await?;
    /// # drop(server);
    /// # std::fs::remove_dir_all(&directory)
    /// # }
    /// ```
    #[cfg(feature = "durable")]
    pub fn allow_in_location(mut self, file: impl Into<std::path::PathBuf>) -> Self {
        self.beside.push(file.into());
        self
    }

    /// Starts the server.
    ///
    /// Fails when it cannot listen on an address, when a key is not base64, or when a certificate
    /// or its key cannot be used.
    #[expect(clippy::unused_async, reason = "async in anticipation of waiting")]
    pub async fn start(self) -> io::Result<Server> {
        self.start_now()
    }

    /// Not `async`, so that it is compiled here, and not again in each program.
    fn start_now(mut self) -> io::Result<Server> {
        if self.accounts.is_empty() {
            let keys = vec![DEVELOPMENT_KEY.to_owned()];
            self.accounts.push((DEVELOPMENT_ACCOUNT.to_owned(), keys));
        }
        let clock = self.clock.take().unwrap_or_else(ServerClock::real);
        self.serve(clock, |_| {})
    }

    /// Starts a server; `prepare` receives its state before any request does.
    pub(crate) fn serve(
        mut self,
        clock: ServerClock,
        prepare: impl FnOnce(&State),
    ) -> io::Result<Server> {
        let rules = Rules { strict: self.strict, names: self.names };
        let mut state = State::new(&self.accounts, clock, rules)?;
        state.control = Control::new(self.journal, self.targets);
        state.debug_signing = self.debug_signing;
        state.keep_alive = self.keep_alive;
        state.product_style = self.product_style;
        let listening = [&self.blob.0, &self.queue.0, &self.table.0];
        let hosts = listening.into_iter().chain(&self.allowed_hosts);
        state.hosts = Hosts::new(hosts.map(String::as_str));
        for account in &mut state.accounts {
            account.tokens = if self.oauth { Tokens::Unsigned } else { Tokens::Refused };
        }
        #[cfg(feature = "oauth")]
        self.tokens.prepare(&mut state)?;
        // Report an unusable certificate before anything is opened.
        let mut tls = self.scheme.acceptor()?;
        #[cfg(feature = "durable")]
        let imported = self.read_azurite(&state)?;
        #[cfg(feature = "durable")]
        if let Some((location, sync)) = &self.location {
            let accounts = &mut state.accounts;
            state.durable =
                Some(crate::durable::open::attach(accounts, rules, location, &self.beside, *sync)?);
        }
        #[cfg(feature = "durable")]
        let notes = self.put_azurite(&state, imported)?;
        self.put_seeds(&state)?;
        prepare(&state);
        let bound = [&self.blob, &self.queue, &self.table].map(|(host, port)| bind(host, *port));
        let [blob, queue, table] = bound;
        let bound = [(blob?, Service::Blob), (queue?, Service::Queue), (table?, Service::Table)];
        let hosts = || {
            let mut hosts = vec![self.blob.0.clone(), self.queue.0.clone(), self.table.0.clone()];
            // Most clients accept a `*` only before at least two labels.
            for (name, _) in &self.accounts {
                hosts.extend(["", "-secondary"].map(|suffix| format!("{name}{suffix}.localhost")));
            }
            for (listener, _) in &bound {
                hosts.push(reachable(listener.local_addr()?).ip().to_string());
            }
            Ok(hosts)
        };
        if tls.is_none() {
            self.scheme.make(hosts)?;
            tls = self.scheme.acceptor()?;
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (name, keys) = &self.accounts[0];
        let endpoint = |listener: &TcpListener| -> io::Result<String> {
            Ok(format!("{scheme}://{}/{name}", reachable(listener.local_addr()?)))
        };
        let [(blob, _), (queue, _), (table, _)] = &bound;
        let endpoints =
            Endpoints { blob: endpoint(blob)?, queue: endpoint(queue)?, table: endpoint(table)? };
        let bound = bound.map(|(listener, service)| (listener, Serves::Storage(service)));
        #[cfg_attr(not(feature = "oauth"), expect(unused_mut, reason = "nothing is added"))]
        let mut listeners = Listeners::from(bound);
        #[cfg(feature = "oauth")]
        listeners.extend(self.tokens.listen(&state, scheme, &self.table.0)?);
        let key = keys.first().map(String::as_str).unwrap_or_default();
        let connection_string = format!(
            "DefaultEndpointsProtocol={scheme};AccountName={name};AccountKey={key};\
             BlobEndpoint={};QueueEndpoint={};TableEndpoint={};",
            endpoints.blob, endpoints.queue, endpoints.table
        );
        let state = Arc::new(state);
        let running = listener::start(Arc::clone(&state), listeners, tls, self.threads)?;
        Ok(Server {
            state,
            builder: self,
            endpoints,
            connection_string,
            #[cfg(feature = "durable")]
            notes,
            running: Mutex::new(Some(running)),
        })
    }

    /// The same options with free ports, and without data of its own.
    pub(crate) fn apart(mut self) -> Self {
        self.seeds.clear();
        #[cfg(feature = "durable")]
        {
            self.location = None;
            self.azurite = None;
        }
        #[cfg(feature = "oauth")]
        self.tokens.on_free_port();
        for (_, port) in [&mut self.blob, &mut self.queue, &mut self.table] {
            *port = 0;
        }
        self
    }
}

// Leaves out the accounts' keys, the connection string and the data.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("blob_endpoint", &self.endpoints.blob)
            .field("queue_endpoint", &self.endpoints.queue)
            .field("table_endpoint", &self.endpoints.table)
            .finish_non_exhaustive()
    }
}

// Leaves out the accounts' keys.
shown!(ServerBuilder: blob, queue, table, strict, names);
