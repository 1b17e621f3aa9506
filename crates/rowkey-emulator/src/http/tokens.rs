//! A connection to the authority, which issues tokens.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

use crate::authority;
use crate::front::pace::{Pace, Paced};
use crate::front::request_body::RequestBody;
use crate::state::State;
use crate::tls::Https;

/// Serves a connection until it ends.
pub(super) async fn requests(
    state: &Arc<State>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    is_https: bool,
) {
    let pace = Pace::default();
    let stream = Paced::new(stream, pace.clone());
    let handle = service_fn(move |mut request: Request<Incoming>| {
        if is_https {
            request.extensions_mut().insert(Https);
        }
        let (state, pace) = (Arc::clone(state), pace.clone());
        async move {
            let (parts, body) = request.into_parts();
            let mut body = RequestBody::new(body, pace);
            let text = body.read(authority::MAX_BODY).await?.ok();
            let answer = authority::answer(&state, peer.ip(), &parts, text.as_ref());
            body.discard(&parts.headers).await;
            Ok::<_, io::Error>(answer)
        }
    });
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), handle).await {
        debug!(%error, "a connection to the authority ended");
    }
}
