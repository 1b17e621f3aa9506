//! [`Plane`]: a server with its control plane, and what was made through it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rowkey_emulator::{Chaos, HeldBack, Injected, Pages, Server, Snapshot};
use rowkey_wire::edm::DateTime;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::counts::Counts;
use crate::routes;

/// How long requests may take when the server ends.
const END: std::time::Duration = std::time::Duration::from_secs(5);

/// How a control plane listens, and which requests it lets in.
#[derive(Clone)]
pub struct Options {
    /// The host to listen on. Default: `127.0.0.1`.
    pub host: String,
    /// The port; 0, which is the default, for a free one.
    pub port: u16,
    /// The token that requests must have. Required where the host is not of this machine alone.
    pub token: Option<String>,
    /// Names besides `localhost` under which the control plane is reached.
    pub allowed_hosts: Vec<String>,
    /// Whether connection strings have the keys of accounts, too. The published key of the development account is
    /// always shown.
    pub show_keys: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            token: None,
            allowed_hosts: Vec::new(),
            show_keys: false,
        }
    }
}

// Leaves out the token.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

/// A server with its control plane. Dropping it ends both.
#[must_use = "the server ends when this is dropped"]
pub struct Plane {
    shared: Shared,
    url: String,
    counting: JoinHandle<()>,
    serving: Option<JoinHandle<()>>,
    /// Its drop ends connections, and the requests that follow the journal.
    ending: Option<watch::Sender<()>>,
}

/// What all requests share.
pub(crate) type Shared = Arc<Inner>;

pub(crate) struct Inner {
    pub(crate) server: Server,
    pub(crate) token: Option<String>,
    /// The host that it listens on.
    pub(crate) host: String,
    /// The names under which it is reached.
    pub(crate) hosts: Vec<String>,
    pub(crate) show_keys: bool,
    pub(crate) counts: Counts,
    /// Told when a request asked the server to end.
    pub(crate) shutdown: Notify,
    /// Changes when the control plane ends: requests that follow the journal end then.
    pub(crate) ended: watch::Receiver<()>,
    made: Mutex<Made>,
    numbers: Mutex<u64>,
}

/// What requests made, until they remove it.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) faults: BTreeMap<u64, Arc<Injected>>,
    pub(crate) pages: Option<(Pages, Chaos)>,
    pub(crate) held_back: Option<(DateTime, HeldBack)>,
    pub(crate) snapshots: BTreeMap<u64, (DateTime, Snapshot)>,
    pub(crate) forks: BTreeMap<u64, Plane>,
}

impl Plane {
    /// Starts the control plane of a server on the current runtime, which must have I/O and time enabled.
    ///
    /// The journal of a server without one stays empty. Fails when the address cannot be listened on, and when the
    /// host is not of this machine alone and there is no token.
    pub async fn start(server: Server, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((options.host.as_str(), options.port)).await;
        let listener = listener.map_err(|error| {
            let message =
                format!("cannot listen on {}:{} for control: {error}", options.host, options.port);
            io::Error::new(error.kind(), message)
        })?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && options.token.as_deref().is_none_or(str::is_empty) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "the control plane on {} can be reached from other machines, and can read and delete everything: \
                     give it a token with --control-token or ROWKEY_CONTROL_TOKEN, or listen on 127.0.0.1",
                    options.host
                ),
            ));
        }
        let mut hosts = options.allowed_hosts;
        hosts.push(options.host.clone());
        let follower = server.follow_journal(None);
        let (ending, ended) = watch::channel(());
        let shared = Arc::new(Inner {
            server,
            token: options.token,
            host: options.host,
            hosts,
            show_keys: options.show_keys,
            counts: Counts::default(),
            shutdown: Notify::new(),
            ended,
            made: Mutex::default(),
            numbers: Mutex::default(),
        });
        let counting = spawn(Counts::follow(Arc::downgrade(&shared), follower));
        let router = routes::router(Arc::clone(&shared));
        let mut told = shared.ended.clone();
        let serving = spawn(async move {
            let end = async move {
                let _ = told.changed().await;
            };
            // Its connections are closed when the plane ends, as soon as no request is under way.
            let _ = axum::serve(listener, router).with_graceful_shutdown(end).await;
        });
        let url = format!("http://{}", reachable(address));
        Ok(Self { url, shared, counting, serving: Some(serving), ending: Some(ending) })
    }

    /// The address of the control plane, such as `http://127.0.0.1:10003`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.shared.server
    }

    /// Keeps a fault that was injected already: it is listed with those of requests, and can be removed by one.
    pub fn keep(&self, injected: Injected) {
        self.shared.made().faults.insert(injected.id(), Arc::new(injected));
    }

    /// Ends the control plane and the server, after the requests under way, for which it waits five seconds at most.
    /// When this returns, all data of a location has been synced.
    pub async fn stop(mut self) {
        self.ending = None;
        if let Some(serving) = self.serving.take() {
            let _ = tokio::time::timeout(END, serving).await;
        }
    }

    /// Waits until a request asks the server to end.
    pub async fn shutdown_requested(&self) {
        self.shared.shutdown.notified().await;
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.counting.abort();
        // Requests that wait hold the server; what they wait for ends here.
        let made = std::mem::take(&mut *self.shared.made());
        drop(made);
    }
}

impl fmt::Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Inner {
    /// What requests made. The lock is never held across an await.
    pub(crate) fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new number for a snapshot or a fork, from 1.
    pub(crate) fn number(&self) -> u64 {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        *numbers += 1;
        *numbers
    }
}

/// Starts work that ends with the plane, or with the connection that it serves.
#[expect(
    clippy::disallowed_methods,
    reason = "all of it ends when the plane does: it waits for `ended`, or is aborted"
)]
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(work)
}

/// The address at which a client on this machine reaches a listener on all addresses.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let here: std::net::IpAddr = match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(here);
    }
    address
}
