//! Options of connections: proxy, trusted certificates, time limits.

use std::fmt;
use std::time::Duration;

use super::proxy::ProxyAddress;
use crate::error::{Error, Result};

/// The longest time for which unused connections are kept. No service keeps them as long.
const MAX_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// Connections get this time, however short attempts are: TCP repeats a lost first packet after one second.
const LEAST: Duration = Duration::from_secs(2);

/// How an account connects to the service: proxy, trusted certificates, time limits.
///
/// Without them, connections take the proxy of the environment and trust the certificates of the operating system.
/// Requests follow no redirect: a signature is for one address.
///
/// The proxy of the environment is that in `HTTPS_PROXY` or `HTTP_PROXY`, by the scheme of the endpoint, or else in `ALL_PROXY`;
/// hosts in `NO_PROXY` and this machine have none, and neither has plain http to a host that
/// [`allow_http_to`](crate::StorageAccountBuilder::allow_http_to) names. The names may be in lower case.
/// [`build`](crate::StorageAccountBuilder::build) fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the
/// variable of an endpoint names a SOCKS proxy or has no address of a proxy.
///
/// ```
/// use std::time::Duration;
///
/// use rowkey::{ConnectionOptions, Credential, StorageAccount};
///
/// let connections = ConnectionOptions::new()
///     .proxy("http://proxy.contoso.com:3128")?
///     .connect_timeout(Duration::from_secs(2));
/// let account = StorageAccount::builder()
///     .credential(Credential::shared_key("contoso", "YmFy")?)
///     .connections(connections)
///     .build()?;
/// # Ok::<(), rowkey::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "give them to `StorageAccountBuilder::connections`"]
pub struct ConnectionOptions {
    pub(crate) proxy: Proxy,
    /// The certificates to trust, as PEM, instead of those of the operating system.
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
}

/// The proxy of connections.
#[derive(Clone)]
pub(crate) enum Proxy {
    /// The one that environment variables name.
    Environment,
    /// The one at this address.
    At(ProxyAddress),
    None,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            proxy: Proxy::Environment,
            roots: None,
            // Shorter than the time limit of an attempt, so that if a host does not respond, it is certain that it
            // has not received the request.
            connect_timeout: Duration::from_secs(10),
            // Shorter than at the service, so that few requests use a connection that is being closed.
            idle_timeout: Duration::from_secs(60),
        }
    }
}

impl ConnectionOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends all requests through this proxy, and not through that of the environment. Default: the proxy of the environment.
    ///
    /// `address` is `http://host:port` or `https://host:port`, with `user:password@` before the host if the proxy asks
    /// for them; characters in them that have a meaning in addresses are percent-encoded, such as `@` as `%40`. Requests
    /// over https pass through a tunnel (`CONNECT`) that the proxy cannot read. Requests over plain http to this machine
    /// go directly, unless the proxy is on this machine, too.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for any other address.
    ///
    /// ```
    /// use rowkey::ConnectionOptions;
    ///
    /// assert!(ConnectionOptions::new().proxy("http://proxy.contoso.com:3128").is_ok());
    /// assert!(ConnectionOptions::new().proxy("http://anna:p%40ss@proxy.contoso.com:3128").is_ok());
    /// assert!(ConnectionOptions::new().proxy("http://anna:p@ss@proxy.contoso.com:3128").is_err());
    /// assert!(ConnectionOptions::new().proxy("proxy.contoso.com").is_err());
    /// ```
    pub fn proxy(mut self, address: &str) -> Result<Self> {
        let Some(proxy) = ProxyAddress::parse(address) else {
            return Err(Error::invalid("the proxy has no address such as http://host:port").advise(
                "give scheme, host and port, with user and password before an @ if it asks for them, and percent-encode \
                 in them what is neither a letter nor a digit",
            ));
        };
        self.proxy = Proxy::At(proxy);
        Ok(self)
    }

    /// Connects without a proxy, even if the environment names one.
    pub fn without_proxy(mut self) -> Self {
        self.proxy = Proxy::None;
        self
    }

    /// Trusts these certificates as roots, and no other: the operating system's are not trusted. For a server whose
    /// certificate no public authority signed, such as `rowkey-server --cert`.
    ///
    /// A server, or a proxy that is reached by https, is accepted if its certificate leads to one of `pem`, is for the host
    /// that is connected to, and is valid at the time. Revocation is not checked with rustls. What is not connected to by
    /// this account is not affected: endpoints of tokens, and key vaults. Requests over plain http are still sent.
    ///
    /// `pem` has one or more certificates. [`build`](crate::StorageAccountBuilder::build) fails with
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it has none, or one that cannot be read, and an endpoint or
    /// the proxy has https; without https, `pem` is not read.
    ///
    /// ```
    /// use rowkey::{ConnectionOptions, Credential, ErrorKind, StorageAccount};
    ///
    /// let builder =
    ///     StorageAccount::builder().credential(Credential::shared_key("contoso", "YmFy")?);
    /// let refused = builder.connections(ConnectionOptions::new().trust_only("no certificate")).build();
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn trust_only(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots = Some(pem.into());
        self
    }

    /// Sets the longest time for a connection, with the name's resolution, the proxy and TLS. Default: 10 seconds.
    ///
    /// If a name has several addresses, they are tried in turn: each may take an equal part of this time. IPv4 addresses are
    /// tried beside those of IPv6 if these do not answer at once.
    ///
    /// A connection takes at most half of [`attempt_timeout`](crate::ClientOptions::attempt_timeout) in the options that the
    /// account is built with, but not less than 2 seconds. So the last address is tried within the attempt, and the error of
    /// a host that does not respond says that nothing was sent ([`Outcome::NotSent`](crate::Outcome::NotSent)). An attempt
    /// that ends earlier, also by the `attempt_timeout` of a handle, which shares the connections of its account, has
    /// [`Outcome::Unknown`](crate::Outcome::Unknown).
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets how long unused connections are kept, at most a day. Default: 60 seconds.
    ///
    /// A request on a connection that the service is closing fails, and a write may then have been applied or not, so stay
    /// below the time after which the service, or a load balancer on the way, closes connections.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rowkey::ConnectionOptions;
    ///
    /// let options = ConnectionOptions::new().idle_timeout(Duration::from_secs(20));
    /// # let _ = options;
    /// ```
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        // The pool adds it to the time of the clock, which fails for values such as `Duration::MAX`.
        self.idle_timeout = limit.min(MAX_IDLE);
        self
    }

    /// For attempts that take at most `limit`.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.connect_timeout = self.connect_timeout.min((limit / 2).max(LEAST));
        self
    }
}

/// Shows no address of a proxy: it may contain a password.
impl fmt::Debug for ConnectionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy = match self.proxy {
            Proxy::Environment => "environment",
            Proxy::At(_) => "given",
            Proxy::None => "none",
        };
        f.debug_struct("ConnectionOptions")
            .field("proxy", &proxy)
            .field("trusts_only", &self.roots.is_some())
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_at_most_half_of_an_attempt() {
        let seconds = Duration::from_secs;
        for (limit, attempt, expected) in [
            (seconds(10), seconds(30), seconds(10)),
            (seconds(10), seconds(6), seconds(3)),
            (seconds(10), seconds(1), seconds(2)),
            (seconds(1), seconds(1), seconds(1)),
            (Duration::MAX, seconds(30), seconds(15)),
            (seconds(2), Duration::MAX, seconds(2)),
        ] {
            let options = ConnectionOptions::new().connect_timeout(limit).within(attempt);
            assert_eq!(options.connect_timeout, expected, "{limit:?} {attempt:?}");
        }
    }

    #[test]
    fn unused_connections_are_kept_for_a_day_at_most() {
        let options = ConnectionOptions::new().idle_timeout(Duration::MAX);
        assert_eq!(options.idle_timeout, Duration::from_secs(86_400));
    }
}
