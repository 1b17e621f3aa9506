//! One connection: from bytes to requests and back.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use http::{HeaderValue, Request};
use hyper::body::{Body, Incoming};
use hyper::rt;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use rowkey_wire::auth::Service;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::debug;

use super::answer;
use super::spelling::{Connection, Heads};
use crate::front::pace::{Pace, Paced};
#[cfg(feature = "control")]
use crate::front::respond::Owner;
use crate::front::route;
use crate::state::State;
use crate::tls::{Acceptor, Https};

/// The state of a connection whose idle time is limited.
#[derive(Clone)]
struct IdleTimeout {
    limit: Duration,
    /// Whether the last request has been answered and the next has not arrived.
    is_idle: watch::Sender<bool>,
    /// The `Keep-Alive` header, which keeps clients from reusing a connection that is about to
    /// close.
    header: HeaderValue,
}

impl IdleTimeout {
    fn new(limit: Duration) -> Self {
        let header = HeaderValue::from_str(&format!("timeout={}", limit.as_secs()));
        let header = header.unwrap_or(HeaderValue::from_static("timeout=0"));
        // Before the first request a connection is new, not idle.
        Self { limit, is_idle: watch::Sender::new(false), header }
    }

    /// Waits until the connection has been idle for its limit.
    async fn expired(&self) {
        let mut is_idle = self.is_idle.subscribe();
        loop {
            let until_changed = is_idle.changed();
            if *self.is_idle.borrow() {
                if tokio::time::timeout(self.limit, until_changed).await.is_err() {
                    return;
                }
            } else {
                let _ = until_changed.await;
            }
        }
    }
}
/// The most bytes that a connection buffers, and the longest head of a request: twice the limit on
/// the length of an address.
const MAX_BUFFER: usize = 128 * 1024;

/// What a socket serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Serves {
    /// A service of storage.
    Storage(Service),
    /// Tokens.
    #[cfg(feature = "oauth")]
    Tokens,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(
    state: Arc<State>,
    tls: Option<Acceptor>,
    stream: TcpStream,
    peer: SocketAddr,
    serves: Serves,
) {
    let _open = state.connections.enter();
    let Some(tls) = tls else { return dispatch(&state, stream, peer, serves, Way::Http).await };
    match tls.accept(stream).await {
        Ok(stream) => dispatch(&state, stream, peer, serves, Way::Https).await,
        Err(error) => debug!(%error, "TLS handshake failed"),
    }
}

/// Serves a connection of the owner of the server, within this process.
#[cfg(feature = "control")]
pub(crate) async fn serve_owner(
    state: Arc<State>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: Service,
) {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    requests(&state, stream, here, service, Way::Owner).await;
}

/// How requests come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Http,
    Https,
    /// From the owner of the server.
    #[cfg(feature = "control")]
    Owner,
}

async fn dispatch(
    state: &Arc<State>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    serves: Serves,
    way: Way,
) {
    match serves {
        Serves::Storage(service) => requests(state, stream, peer, service, way).await,
        #[cfg(feature = "oauth")]
        Serves::Tokens => super::tokens::requests(state, stream, peer, way == Way::Https).await,
    }
}

async fn requests(
    state: &Arc<State>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    service: Service,
    way: Way,
) {
    // Only the names of metadata lose their case, and tables have no metadata.
    let heads = (service != Service::Table).then(Heads::default);
    let spelled = heads.clone();
    let pace = Pace::default();
    let stream = Paced::new(stream, pace.clone());
    let shared = Arc::clone(state);
    let idle_timeout = state.keep_alive.of(service).map(IdleTimeout::new);
    let watched = idle_timeout.clone();
    let handle = service_fn(move |mut request: Request<Incoming>| {
        match way {
            Way::Http => {}
            Way::Https => drop(request.extensions_mut().insert(Https)),
            #[cfg(feature = "control")]
            Way::Owner => drop(request.extensions_mut().insert(Owner)),
        }
        if let Some(heads) = &heads {
            heads.arrived(&mut request);
        }
        let (state, heads, pace) = (Arc::clone(&shared), heads.clone(), pace.clone());
        let watched = watched.clone();
        route::settle(&state.accounts, state.product_style, &mut request);
        async move {
            if let Some(IdleTimeout { is_idle, .. }) = &watched {
                is_idle.send_replace(false);
            }
            let mut answer = answer::answer(&state, service, peer.ip(), request, pace).await?;
            if let Some(IdleTimeout { is_idle, header, .. }) = watched {
                answer.headers_mut().insert("keep-alive", header);
                is_idle.send_replace(true);
            }
            if let Some(heads) = &heads {
                heads.answered(&mut answer);
            }
            Ok::<_, io::Error>(answer)
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(MAX_BUFFER);
    // A client that has sent everything may close its half of the connection and still wait for the
    // response. A test that drops a request looks the same, but there it means that the client is
    // gone.
    http.half_close(state.control.is_idle());
    let ended = match spelled {
        Some(heads) => {
            let connection = TokioIo::new(Connection::new(stream, heads));
            drive(http.serve_connection(connection, handle), idle_timeout).await
        }
        None => drive(http.serve_connection(TokioIo::new(stream), handle), idle_timeout).await,
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended");
    }
}

/// Serves a connection until it ends or has been idle for its limit. A response that is being sent
/// at that time is completed.
async fn drive<I, S, B>(
    connection: http1::Connection<I, S>,
    idle_timeout: Option<IdleTimeout>,
) -> hyper::Result<()>
where
    I: rt::Read + rt::Write + Unpin,
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let Some(idle_timeout) = idle_timeout else { return connection.await };
    let mut connection = pin!(connection);
    if let Either::Left((ended, _)) =
        select(connection.as_mut(), pin!(idle_timeout.expired())).await
    {
        return ended;
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}
