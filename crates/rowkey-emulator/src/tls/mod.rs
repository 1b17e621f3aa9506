//! HTTPS and the server's certificate. Without the feature `tls`, servers speak HTTP.

#[cfg(feature = "tls")]
mod certificate;
#[cfg(feature = "tls")]
mod identity;

use std::io;

#[cfg(feature = "tls")]
use identity::Identity;
/// Accepts TLS connections.
#[cfg(feature = "tls")]
pub(crate) use tokio_rustls::TlsAcceptor as Acceptor;

/// Accepts TLS connections. Without the feature `tls` there is no acceptor.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(crate) enum Acceptor {}

#[cfg(not(feature = "tls"))]
impl Acceptor {
    #[expect(clippy::unused_async, reason = "the same call as with the feature")]
    pub(crate) async fn accept(
        &self,
        _: tokio::net::TcpStream,
    ) -> io::Result<tokio::net::TcpStream> {
        match *self {}
    }
}

/// Marks requests that came over HTTPS, in their extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Https;

/// The scheme that a server speaks.
#[derive(Clone, Default)]
pub(crate) enum Scheme {
    #[default]
    Http,
    /// HTTPS, with a certificate that is generated at the start.
    #[cfg(feature = "tls")]
    Made,
    /// HTTPS, with this certificate.
    #[cfg(feature = "tls")]
    Given(Identity),
}

impl Scheme {
    /// HTTPS, with a certificate and its key in PEM.
    #[cfg(feature = "tls")]
    pub(crate) fn given(certificate: String, key: String) -> Self {
        Self::Given(Identity { certificate, key })
    }

    /// The certificate in PEM, if there is one.
    #[cfg(feature = "tls")]
    pub(crate) fn certificate(&self) -> Option<&str> {
        match self {
            Self::Given(identity) => Some(&identity.certificate),
            Self::Http | Self::Made => None,
        }
    }

    /// Generates the certificate, if one is to be generated, for these hosts.
    #[cfg_attr(not(feature = "tls"), expect(clippy::unnecessary_wraps, reason = "as with `tls`"))]
    pub(crate) fn make(
        &mut self,
        hosts: impl FnOnce() -> io::Result<Vec<String>>,
    ) -> io::Result<()> {
        match self {
            #[cfg(feature = "tls")]
            Self::Made => *self = Self::Given(Identity::self_signed(&hosts()?)?),
            #[cfg(feature = "tls")]
            Self::Given(_) => {}
            Self::Http => drop(hosts),
        }
        Ok(())
    }

    /// The TLS acceptor, if there is a certificate.
    #[cfg_attr(not(feature = "tls"), expect(clippy::unnecessary_wraps, reason = "as with `tls`"))]
    pub(crate) fn acceptor(&self) -> io::Result<Option<Acceptor>> {
        match self {
            #[cfg(feature = "tls")]
            Self::Given(identity) => identity.acceptor().map(Some),
            #[cfg(feature = "tls")]
            Self::Made => Ok(None),
            Self::Http => Ok(None),
        }
    }
}
