//! [`Server`]: starts, says where it is, ends when it is dropped.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::sync::Arc;

use rowkey_wire::edm::DateTime;
use rowkey_wire::odata::parse::Strictness;

use crate::clock::ServerClock;
use crate::listener::{self, Listeners, Running};
use crate::service::Service;
use crate::state::State;

/// The name of the account that emulators have.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// The published key of [`DEVELOPMENT_ACCOUNT`]. It protects nothing.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Where a manual clock begins.
const MANUAL_START: &str = "2026-01-01T00:00:00Z";

/// A running server. Dropping it ends it and cuts its connections off.
#[derive(Debug)]
#[must_use = "the server ends when it is dropped"]
pub struct Server {
    state: Arc<State>,
    endpoints: Endpoints,
    connection_string: String,
    running: Running,
}

/// How a server is to be. `Server::builder().….start()`.
#[derive(Clone, Debug)]
#[must_use = "nothing is started before `start`"]
pub struct ServerBuilder {
    accounts: Vec<(String, Vec<String>)>,
    blob: (String, u16),
    queue: (String, u16),
    table: (String, u16),
    strict: Strictness,
    manual_clock: bool,
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

    /// A server that is different in something.
    pub fn builder() -> ServerBuilder {
        let any = ("127.0.0.1".to_owned(), 0);
        ServerBuilder {
            accounts: Vec::new(),
            blob: any.clone(),
            queue: any.clone(),
            table: any,
            strict: Strictness::Strict,
            manual_clock: false,
        }
    }

    /// The connection string of the first account, for any client of Azure storage.
    pub fn connection_string(&self) -> &str {
        &self.connection_string
    }

    /// The address of the Table service for the first account,
    /// `http://127.0.0.1:10002/devstoreaccount1`.
    pub fn table_endpoint(&self) -> &str {
        &self.endpoints.table
    }

    /// The address of the Queue service for the first account. It answers 501 for now.
    pub fn queue_endpoint(&self) -> &str {
        &self.endpoints.queue
    }

    /// The address of the Blob service for the first account. It answers 501 for now.
    pub fn blob_endpoint(&self) -> &str {
        &self.endpoints.blob
    }

    /// The server's clock.
    pub fn clock(&self) -> &ServerClock {
        &self.state.clock
    }

    /// Waits until the server ends, which it does only when its sockets fail.
    pub fn wait(self) {
        self.running.wait();
    }
}

impl ServerBuilder {
    /// Adds an account with one key or two, in base64. Without any, it is the development account.
    pub fn account(
        mut self,
        name: impl Into<String>,
        keys: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.accounts.push((name.into(), keys.into_iter().map(Into::into).collect()));
        self
    }

    /// Where the Blob service listens. Port 0 is a free one.
    pub fn blob(mut self, host: impl Into<String>, port: u16) -> Self {
        self.blob = (host.into(), port);
        self
    }

    /// Where the Queue service listens. Port 0 is a free one.
    pub fn queue(mut self, host: impl Into<String>, port: u16) -> Self {
        self.queue = (host.into(), port);
        self
    }

    /// Where the Table service listens. Port 0 is a free one.
    pub fn table(mut self, host: impl Into<String>, port: u16) -> Self {
        self.table = (host.into(), port);
        self
    }

    /// Lets pass what the service would refuse: more or larger properties, more comparisons in a
    /// filter, the name of a table that was just deleted.
    pub fn loose(mut self) -> Self {
        self.strict = Strictness::Loose;
        self
    }

    /// A clock that stands at the beginning of 2026 until [`ServerClock::advance`] moves it.
    ///
    /// Requests must then be dated by that clock, too: the service refuses dates that are more
    /// than 15 minutes from its own.
    pub fn manual_clock(mut self) -> Self {
        self.manual_clock = true;
        self
    }

    /// Starts the server.
    ///
    /// Fails when an address cannot be listened on, or when a key is not base64.
    #[expect(clippy::unused_async, reason = "starting may come to wait, and callers are async")]
    pub async fn start(self) -> io::Result<Server> {
        let Self { mut accounts, blob, queue, table, strict, manual_clock } = self;
        if accounts.is_empty() {
            accounts.push((DEVELOPMENT_ACCOUNT.to_owned(), vec![DEVELOPMENT_KEY.to_owned()]));
        }
        let clock = if manual_clock {
            ServerClock::manual(MANUAL_START.parse().unwrap_or(DateTime::MIN))
        } else {
            ServerClock::real()
        };
        let state = State::new(&accounts, clock, strict)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let (name, keys) = &accounts[0];
        let mut listeners = Listeners::new();
        let mut listen = |(host, port): (String, u16), service| -> io::Result<String> {
            let listener = bind(&host, port)?;
            let address = listener.local_addr()?;
            listeners.push((listener, service));
            Ok(format!("http://{address}/{name}"))
        };
        let endpoints = Endpoints {
            blob: listen(blob, Service::Blob)?,
            queue: listen(queue, Service::Queue)?,
            table: listen(table, Service::Table)?,
        };
        let key = keys.first().map(String::as_str).unwrap_or_default();
        let connection_string = format!(
            "DefaultEndpointsProtocol=http;AccountName={name};AccountKey={key};\
             BlobEndpoint={};QueueEndpoint={};TableEndpoint={};",
            endpoints.blob, endpoints.queue, endpoints.table
        );
        let state = Arc::new(state);
        let running = listener::start(Arc::clone(&state), listeners)?;
        Ok(Server { state, endpoints, connection_string, running })
    }
}

fn bind(host: &str, port: u16) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot resolve {host}: {error}")))?
        .collect();
    TcpListener::bind(addresses.as_slice()).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {host}:{port}: {error}"))
    })
}
