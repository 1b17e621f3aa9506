//! [`Plane`]: a server with its control plane.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::{fmt, io};

use rowkey_emulator::{Injected, Server};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::routes;
use crate::shared::{Forked, Inner, Kept, Options, Shared, Starting, spawn};

/// How long requests may take when the server ends.
const END: std::time::Duration = std::time::Duration::from_secs(5);

/// A server with its control plane. Dropping it ends both.
#[must_use = "the server ends when this is dropped"]
pub struct Plane {
    shared: Shared,
    url: String,
    serving: Option<JoinHandle<()>>,
    /// Its drop ends connections, and the requests that follow the journal.
    ending: Option<watch::Sender<()>>,
}

impl Plane {
    /// Starts the control plane of a server on the current runtime, which must have I/O and time enabled.
    ///
    /// The journal of a server without one stays empty. Fails when the address cannot be listened on, and when the
    /// host is not of this machine alone and there is no token.
    pub async fn start(server: Server, options: Options) -> io::Result<Self> {
        let token = options.token.filter(|token| !token.is_empty());
        if token.as_deref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            let message = "the token of the control plane has a character that no header carries: use letters, digits \
                           and punctuation of ASCII";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let listener = TcpListener::bind((options.host.as_str(), options.port)).await;
        let listener = listener.map_err(|error| {
            let message =
                format!("cannot listen on {}:{} for control: {error}", options.host, options.port);
            io::Error::new(error.kind(), message)
        })?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && token.is_none() {
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
        let (ending, ended) = watch::channel(());
        let shared = Arc::new(Inner {
            server,
            token,
            host: options.host,
            hosts,
            show_keys: options.show_keys,
            start_fork,
            shutdown: Arc::default(),
            ended,
            made: Mutex::default(),
            last: AtomicU64::new(0),
        });
        let router = routes::router(Arc::clone(&shared));
        let mut told = shared.ended.clone();
        let serving = spawn(async move {
            let end = async move {
                let _ = told.changed().await;
            };
            // Its connections are closed when the plane ends, as soon as no request is under way.
            let _ =
                axum::serve(listener, router.into_make_service()).with_graceful_shutdown(end).await;
        });
        let url = format!("http://{}", reachable(address));
        Ok(Self { url, shared, serving: Some(serving), ending: Some(ending) })
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
        self.shared.made().faults.insert(injected.id(), Kept::new(injected));
    }

    /// Ends the control plane and the server, after the requests under way, for which it waits five seconds at most.
    /// All data of a location has been synced when this returns, or, if a request took longer, when that has ended.
    pub async fn stop(mut self) {
        self.ending = None;
        let faults = std::mem::take(&mut self.shared.made().faults);
        for kept in faults.values() {
            kept.remove(true);
        }
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
        // Requests that wait hold the server; what they wait for ends here, and no held request is executed at the end.
        let made = std::mem::take(&mut *self.shared.made());
        for kept in made.faults.values() {
            kept.remove(true);
        }
        drop(made);
        // Connections to the control plane may hold the server for a while: its ports are free from here on.
        self.shared.server.stop();
    }
}

impl Forked for Plane {
    fn server(&self) -> &Server {
        Self::server(self)
    }

    fn url(&self) -> &str {
        Self::url(self)
    }

    fn shutdown(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.shutdown)
    }
}

impl fmt::Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Starts the control plane of a fork.
fn start_fork(server: Server, options: Options) -> Starting {
    Box::pin(async { Ok(Box::new(Plane::start(server, options).await?) as Box<dyn Forked>) })
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
