//! One connection: from bytes to requests and back.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use crate::pace::{Pace, Paced};
use crate::service::{self, Service};
use crate::spelling::{Connection, Heads};
use crate::state::State;
use crate::tls::Https;

/// The most bytes that a connection buffers, and the longest head of a request: twice what an
/// address may have.
const MAX_BUFFER: usize = 128 * 1024;

/// Serves a connection until it ends.
pub(crate) async fn serve(
    state: Arc<State>,
    tls: Option<TlsAcceptor>,
    stream: TcpStream,
    peer: SocketAddr,
    service: Service,
) {
    let _open = state.connections.enter();
    let Some(tls) = tls else { return requests(&state, stream, peer, service, false).await };
    match tls.accept(stream).await {
        Ok(stream) => requests(&state, stream, peer, service, true).await,
        Err(error) => debug!(%error, "a connection is not made secure"),
    }
}

async fn requests(
    state: &Arc<State>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    service: Service,
    is_https: bool,
) {
    // Tables have no metadata, whose names are all that is lost of heads.
    let heads = (service != Service::Table).then(Heads::default);
    let spelled = heads.clone();
    let pace = Pace::default();
    let stream = Paced::new(stream, pace.clone());
    let shared = Arc::clone(state);
    let handle = service_fn(move |mut request: Request<Incoming>| {
        if is_https {
            request.extensions_mut().insert(Https);
        }
        if let Some(heads) = &heads {
            heads.arrived(&mut request);
        }
        let (state, heads, pace) = (Arc::clone(&shared), heads.clone(), pace.clone());
        async move {
            let mut answer = service::answer(&state, service, peer.ip(), request, pace).await?;
            if let Some(heads) = &heads {
                heads.answered(&mut answer);
            }
            Ok::<_, io::Error>(answer)
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(MAX_BUFFER);
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
