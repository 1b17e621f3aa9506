//! New connections: directly or through a proxy, with or without TLS.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use rowkey_wire::shown;
use tower_service::Service;

use super::proxies::{Proxies, Target};
use super::tls::Tls;
use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::options::connection::ConnectionOptions;
use crate::options::proxy::ProxyAddress;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// How often an idle connection is probed, so that firewalls keep it and a dead one is noticed.
const PROBE: Duration = Duration::from_secs(15);

/// How long sent bytes may stay unacknowledged.
#[cfg(any(target_os = "android", target_os = "linux"))]
const ACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Makes connections for the pool.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    tls: Option<Tls>,
    proxies: Proxies,
    limit: Duration,
}

shown!(Connector: limit);

impl Connector {
    /// Connections for these endpoints.
    pub(crate) fn new<'a>(
        options: &ConnectionOptions,
        endpoints: impl IntoIterator<Item = &'a Endpoint>,
    ) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(options.connect_timeout));
        tcp.set_keepalive(Some(PROBE));
        tcp.set_keepalive_interval(Some(PROBE));
        tcp.set_keepalive_retries(Some(3));
        #[cfg(any(target_os = "android", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(ACKNOWLEDGED));
        let targets = endpoints.into_iter().map(Target::new).collect::<Result<Vec<_>>>()?;
        let proxies = Proxies::new(&options.proxy, &targets, |name| std::env::var_os(name))?;
        // Loading the system's root certificates takes longer than a whole test against a local server.
        let is_needed = targets.iter().map(Target::uri).any(|uri| {
            uri.scheme() == Some(&Scheme::HTTPS)
                || proxies.of(uri).is_some_and(ProxyAddress::is_secure)
        });
        let tls = is_needed.then(|| Tls::new(options.roots.as_deref())).transpose()?;
        Ok(Self { tcp, tls, proxies, limit: options.connect_timeout })
    }

    /// The credentials for the proxy in a request over plain http. Over https, the tunnel has them.
    pub(crate) fn proxy_authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        if uri.scheme() != Some(&Scheme::HTTP) {
            return None;
        }
        self.proxies.of(uri)?.authorization().cloned()
    }

    async fn connect(self, uri: Uri) -> std::result::Result<Stream, BoxError> {
        let Some(proxy) = self.proxies.of(&uri) else {
            let stream = self.tcp(uri.clone()).await?;
            return self.secured(stream, &uri).await;
        };
        let to_proxy = Self { proxies: Proxies::None, ..self.clone() };
        if uri.scheme() == Some(&Scheme::HTTPS) {
            let mut tunnel = Tunnel::new(proxy.uri().clone(), to_proxy);
            if let Some(authorization) = proxy.authorization() {
                tunnel = tunnel.with_auth(authorization.clone());
            }
            let stream = tunnel.call(uri.clone()).await?;
            return self.secured(stream, &uri).await;
        }
        let stream = Box::pin(to_proxy.connect(proxy.uri().clone())).await?;
        Ok(Stream { is_proxied: true, ..stream })
    }

    async fn tcp(&self, uri: Uri) -> std::result::Result<Stream, BoxError> {
        let stream = self.tcp.clone().call(uri).await?;
        Ok(Stream { io: Box::new(stream), is_proxied: false })
    }

    /// The stream itself for http, and with TLS for https.
    async fn secured(&self, stream: Stream, uri: &Uri) -> std::result::Result<Stream, BoxError> {
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Ok(stream);
        }
        let tls = self.tls.as_ref().ok_or("this connection needs TLS, which was not set up")?;
        Ok(tls.connect(uri.host().unwrap_or_default(), stream).await?)
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, std::result::Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.limit, self.clone().connect(uri));
        // Names, proxies and handshakes count, too.
        Box::pin(async move { connecting.await.unwrap_or_else(|_| Err(too_slow())) })
    }
}

fn too_slow() -> BoxError {
    io::Error::new(io::ErrorKind::TimedOut, "connecting took too long").into()
}

/// What a connection reads and writes.
trait Io: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Io for T {}

/// A connection. Boxed, so that the code above it is compiled once for all kinds.
pub(crate) struct Stream {
    io: Box<dyn Io>,
    /// Whether a proxy reads the requests, which therefore name the whole address.
    is_proxied: bool,
}

impl Stream {
    /// With TLS, to the service or to a proxy.
    #[cfg(any(feature = "native-tls", feature = "rustls", feature = "rustls-no-provider"))]
    pub(super) fn secured(io: impl Read + Write + Send + Unpin + 'static) -> Self {
        Self { io: Box::new(io), is_proxied: false }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io).poll_write_vectored(cx, buffers)
    }
}
