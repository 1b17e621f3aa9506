//! New connections: directly or through a proxy, with or without TLS.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use rowkey_wire::shown;
use tower_service::Service;

use super::tls::Tls;
use crate::address::is_loopback;
use crate::error::Result;
use crate::options::connection::{ConnectionOptions, Proxy};
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

/// The proxies of requests.
#[derive(Clone)]
enum Proxies {
    Environment(Arc<Matcher>),
    At(ProxyAddress),
    None,
}

impl Connector {
    /// Connections for these endpoints: `secure` if one of them uses https, `direct` if none may be reached through
    /// a proxy of the environment.
    pub(crate) fn new(options: &ConnectionOptions, secure: bool, direct: bool) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(options.connect_timeout));
        tcp.set_keepalive(Some(PROBE));
        tcp.set_keepalive_interval(Some(PROBE));
        tcp.set_keepalive_retries(Some(3));
        #[cfg(any(target_os = "android", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(ACKNOWLEDGED));
        let proxies = match &options.proxy {
            Proxy::Environment if direct => Proxies::None,
            Proxy::Environment => Proxies::Environment(Arc::new(Matcher::from_system())),
            Proxy::None => Proxies::None,
            Proxy::At(address) => Proxies::At(address.clone()),
        };
        // Loading the system's root certificates takes longer than a whole test against a local server.
        let is_needed = secure || matches!(&options.proxy, Proxy::At(at) if at.is_secure());
        let tls = is_needed.then(|| Tls::new(options.roots.as_deref())).transpose()?;
        Ok(Self { tcp, tls, proxies, limit: options.connect_timeout })
    }

    /// The proxy that a request passes.
    ///
    /// What is sent over plain http to this machine may have secrets in it, because it does not leave the machine. A proxy
    /// elsewhere would read them, and could not reach the server either.
    fn proxy(&self, uri: &Uri) -> Option<ProxyAddress> {
        let proxy = match &self.proxies {
            Proxies::Environment(matcher) => matcher.intercept(uri).map(ProxyAddress::from),
            Proxies::At(address) => Some(address.clone()),
            Proxies::None => None,
        }?;
        let is_here = |uri: &Uri| is_loopback(uri.host().unwrap_or_default());
        let would_leave =
            uri.scheme() == Some(&Scheme::HTTP) && is_here(uri) && !is_here(proxy.uri());
        (!would_leave).then_some(proxy)
    }

    /// The credentials for the proxy in a request over plain http. Over https, the tunnel has them.
    pub(crate) fn proxy_authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        if uri.scheme() != Some(&Scheme::HTTP) {
            return None;
        }
        self.proxy(uri)?.authorization().cloned()
    }

    async fn connect(self, uri: Uri) -> std::result::Result<Stream, BoxError> {
        let Some(proxy) = self.proxy(&uri) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_to_this_machine_stays_on_it() -> Result<()> {
        for (proxy, uri, passes) in [
            ("http://anna:secret@proxy.example:3128", "http://127.0.0.1:10002/acct/Tables", false),
            ("http://anna:secret@proxy.example:3128", "http://localhost:10002/acct/Tables", false),
            ("http://anna:secret@proxy.example:3128", "http://[::1]:10002/acct/Tables", false),
            ("http://anna:secret@proxy.example:3128", "http://rowkey:10002/acct/Tables", true),
            ("http://anna:secret@127.0.0.1:3128", "http://127.0.0.1:10002/acct/Tables", true),
        ] {
            let options = ConnectionOptions::new().proxy(proxy)?;
            let connector = Connector::new(&options, false, true)?;
            let uri = Uri::from_static(uri);
            assert_eq!(connector.proxy(&uri).is_some(), passes, "{proxy} {uri}");
            assert_eq!(connector.proxy_authorization(&uri).is_some(), passes, "{proxy} {uri}");
        }
        Ok(())
    }

    #[test]
    fn https_to_this_machine_is_a_tunnel_that_needs_no_header() -> Result<()> {
        let options = ConnectionOptions::new().proxy("http://anna:secret@proxy.example:3128")?;
        let connector = Connector::new(&options, false, true)?;
        let uri = Uri::from_static("https://127.0.0.1:10002/acct/Tables");
        assert!(connector.proxy(&uri).is_some() && connector.proxy_authorization(&uri).is_none());
        Ok(())
    }
}
