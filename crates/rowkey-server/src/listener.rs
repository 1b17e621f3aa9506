//! The accept loop: one thread, one runtime, no hand-over of a request to another thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::service::{self, Service};
use crate::spelling::{Connection, Heads};
use crate::state::State;
use crate::tls::Https;

/// How long to wait when the system has no descriptor for another connection.
const BREATHER: Duration = Duration::from_millis(50);

/// Sockets that are bound, and what is served on each.
pub(crate) type Listeners = Vec<(TcpListener, Service)>;

/// A running server: its thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves on `listeners` until the result is dropped.
pub(crate) fn start(
    state: Arc<State>,
    listeners: Listeners,
    tls: Option<TlsAcceptor>,
) -> io::Result<Running> {
    for (listener, _) in &listeners {
        listener.set_nonblocking(true)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("rowkey-server".to_owned())
        .spawn(move || runtime.block_on(run(state, listeners, tls, stopped)))?;
    Ok(Running { stop: Some(stop), thread: Some(thread) })
}

impl Running {
    /// Waits for the server to end, which it does by itself only when it fails.
    pub(crate) fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The loop waits for nothing but sockets and this signal, so it ends at once.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts on every listener until told to stop. Open connections are cut off then.
async fn run(
    state: Arc<State>,
    listeners: Listeners,
    tls: Option<TlsAcceptor>,
    stopped: oneshot::Receiver<()>,
) {
    let mut loops = JoinSet::new();
    for (listener, service) in listeners {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                loops.spawn(accept(Arc::clone(&state), listener, tls.clone(), service));
            }
            Err(error) => warn!(%error, "cannot listen"),
        }
    }
    let _ = stopped.await;
}

async fn accept(
    state: Arc<State>,
    listener: tokio::net::TcpListener,
    tls: Option<TlsAcceptor>,
    service: Service,
) {
    let mut connections = JoinSet::new();
    let mut is_full = false;
    loop {
        // Connections that ended are forgotten at once, however long no new one comes.
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_the_peer(&error) => continue,
            Err(error) => {
                // Those that come wait in the socket's queue meanwhile.
                if !is_full {
                    warn!(%error, "no more connections can be accepted before others end");
                }
                is_full = true;
                breathe().await;
                continue;
            }
        };
        is_full = false;
        // Answers are small, and clients wait for them.
        let _ = stream.set_nodelay(true);
        let state = Arc::clone(&state);
        if let Some(tls) = tls.clone() {
            connections.spawn(async move {
                let _open = state.connections.enter();
                match tls.accept(stream).await {
                    Ok(stream) => serve(&state, stream, peer, service, true).await,
                    Err(error) => debug!(%error, "a connection is not made secure"),
                }
            });
        } else {
            connections.spawn(async move {
                let _open = state.connections.enter();
                serve(&state, stream, peer, service, false).await;
            });
        }
    }
}

/// Whether a connection was over before it was accepted, which says nothing of others.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Waits a moment on another thread: a runtime that keeps time itself would ask for it whenever it
/// goes to sleep.
async fn breathe() {
    #[expect(clippy::disallowed_methods, reason = "not a wait for something, but for the system")]
    let _ = tokio::task::spawn_blocking(|| thread::sleep(BREATHER)).await;
}

async fn serve(
    state: &Arc<State>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    service: Service,
    is_https: bool,
) {
    // Tables have no metadata, whose names are all that is lost of heads.
    let heads = (service != Service::Table).then(Heads::default);
    let spelled = heads.clone();
    let shared = Arc::clone(state);
    let handle = service_fn(move |mut request: Request<Incoming>| {
        if is_https {
            request.extensions_mut().insert(Https);
        }
        if let Some(heads) = &heads {
            heads.arrived(&mut request);
        }
        let (state, heads) = (Arc::clone(&shared), heads.clone());
        async move {
            let mut answer = service::answer(&state, service, peer.ip(), request).await?;
            if let Some(heads) = &heads {
                heads.answered(&mut answer);
            }
            Ok::<_, io::Error>(answer)
        }
    });
    let mut http = http1::Builder::new();
    // A client that has said all it has to say may end its half of the connection, and still waits
    // for its answer. A test that gives up a request looks just the same, and means that it is gone.
    http.half_close(state.control.is_idle());
    let ended = match spelled {
        Some(heads) => {
            let connection = TokioIo::new(Connection::new(stream, heads));
            http.serve_connection(connection, handle).await
        }
        None => http.serve_connection(TokioIo::new(stream), handle).await,
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended");
    }
}
