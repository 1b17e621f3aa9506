//! What all requests share: the server, who may reach it, and what was made through its control plane.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use rowkey_emulator::{Chaos, HeldBack, Injected, Pages, Server, Snapshot};
use rowkey_wire::edm::DateTime;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

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
    /// Starts the control plane of a fork. A function, because a fork is a plane, and a plane has forks.
    pub(crate) start_fork: fn(Server, Options) -> Starting,
    /// Told when a request asked the server to end.
    pub(crate) shutdown: Arc<Notify>,
    /// Changes when the control plane ends: requests that follow the journal end then.
    pub(crate) ended: watch::Receiver<()>,
    pub(crate) made: Mutex<Made>,
    /// The number of the last snapshot or fork.
    pub(crate) last: AtomicU64,
}

/// A server that runs with a control plane of its own, until this is dropped.
pub(crate) trait Forked: Send {
    /// The server.
    fn server(&self) -> &Server;
    /// The address of its control plane.
    fn url(&self) -> &str;
    /// Told when a request to it asks it to end.
    fn shutdown(&self) -> Arc<Notify>;
}

/// The control plane of a fork, while it starts.
pub(crate) type Starting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Forked>>> + Send>>;

/// A fault, until it is removed.
pub(crate) struct Kept {
    pub(crate) injected: Injected,
    /// Tells the requests that wait for it.
    pub(crate) removed: watch::Sender<bool>,
}

impl Kept {
    pub(crate) fn new(injected: Injected) -> Arc<Self> {
        Arc::new(Self { injected, removed: watch::Sender::new(false) })
    }

    /// Removes the fault, even if a request waits for it. The requests that it holds are executed, or discarded.
    pub(crate) fn remove(&self, discards: bool) {
        // A fault that met no request is no mistake of the server's user here: its hits are shown.
        self.injected.hits();
        if discards {
            self.injected.discard();
        } else {
            self.injected.remove();
        }
        self.removed.send_replace(true);
    }
}

/// What requests made, until they remove it.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) faults: BTreeMap<u64, Arc<Kept>>,
    pub(crate) pages: Option<(Pages, Chaos)>,
    pub(crate) held_back: Option<(DateTime, HeldBack)>,
    pub(crate) snapshots: BTreeMap<u64, (DateTime, Snapshot)>,
    pub(crate) forks: BTreeMap<u64, Box<dyn Forked>>,
}

impl Inner {
    /// The connection string of a server, with the account's key only if it is shown.
    pub(crate) fn connection_string(&self, server: &Server) -> String {
        if self.show_keys {
            return server.connection_string().to_owned();
        }
        server.connection_string_without_key()
    }

    /// What requests made. The lock is never held across an await.
    pub(crate) fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new number for a snapshot or a fork, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
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
