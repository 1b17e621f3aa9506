//! TLS of connections: rustls, the operating system's library, or none, by the features of this crate.

#[cfg(any(feature = "rustls", feature = "rustls-no-provider"))]
pub(crate) use with_rustls::Tls;

#[cfg(all(
    feature = "native-tls",
    not(any(feature = "rustls", feature = "rustls-no-provider"))
))]
pub(crate) use with_native_tls::Tls;

#[cfg(not(any(feature = "native-tls", feature = "rustls", feature = "rustls-no-provider")))]
pub(crate) use without::Tls;

/// The certificates that a program gave cannot be used.
#[cfg(any(feature = "native-tls", feature = "rustls", feature = "rustls-no-provider"))]
fn unusable() -> crate::error::Error {
    crate::error::Error::invalid("the trusted certificates cannot be read")
        .advise("give at least one certificate as PEM, from BEGIN CERTIFICATE to END CERTIFICATE")
}

#[cfg(any(feature = "rustls", feature = "rustls-no-provider"))]
mod with_rustls {
    use std::io;
    use std::sync::Arc;

    use hyper_util::rt::TokioIo;
    use rustls::crypto::CryptoProvider;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use rustls_platform_verifier::BuilderVerifierExt as _;

    use super::super::connect::Stream;
    use crate::error::{Error, Result};

    /// TLS by rustls.
    #[derive(Clone)]
    pub(crate) struct Tls(tokio_rustls::TlsConnector);

    impl Tls {
        /// TLS with these trusted certificates, as PEM, or with the operating system's. Nothing is installed for the
        /// process.
        pub(crate) fn new(roots: Option<&[u8]>) -> Result<Self> {
            let failed =
                |error: rustls::Error| Error::invalid("TLS cannot be set up").with_source(error);
            let config = ClientConfig::builder_with_provider(provider()?)
                .with_safe_default_protocol_versions()
                .map_err(failed)?;
            let config = match roots {
                Some(pem) => config.with_root_certificates(store(pem)?),
                None => config.with_platform_verifier().map_err(failed)?,
            };
            let mut config = config.with_no_client_auth();
            // The only protocol of the service.
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(Self(Arc::new(config).into()))
        }

        pub(in super::super) async fn connect(
            &self,
            host: &str,
            stream: Stream,
        ) -> io::Result<Stream> {
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let stream = self.0.connect(name, TokioIo::new(stream)).await?;
            Ok(Stream::secured(TokioIo::new(stream)))
        }
    }

    fn store(pem: &[u8]) -> Result<RootCertStore> {
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| super::unusable())?;
            store.add(certificate).map_err(|error| super::unusable().with_source(error))?;
        }
        if store.is_empty() { Err(super::unusable()) } else { Ok(store) }
    }

    /// The provider that the program installed, or else that of the feature `rustls`.
    #[cfg_attr(
        feature = "rustls",
        expect(clippy::unnecessary_wraps, reason = "it fails where there is no provider")
    )]
    fn provider() -> Result<Arc<CryptoProvider>> {
        if let Some(installed) = CryptoProvider::get_default() {
            return Ok(Arc::clone(installed));
        }
        #[cfg(feature = "rustls")]
        return Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        #[cfg(not(feature = "rustls"))]
        Err(Error::invalid("no cryptography provider of rustls is installed").advise(
            "install one when the program begins, or use the feature `rustls` of this crate",
        ))
    }
}

#[cfg(all(feature = "native-tls", not(any(feature = "rustls", feature = "rustls-no-provider"))))]
mod with_native_tls {
    use std::io;

    use hyper_util::rt::TokioIo;
    use native_tls::{Certificate, TlsConnector};

    use super::super::connect::Stream;
    use crate::error::{Error, Result};

    /// TLS by the operating system's library.
    #[derive(Clone)]
    pub(crate) struct Tls(tokio_native_tls::TlsConnector);

    impl Tls {
        /// TLS with these trusted certificates, as PEM, or with the operating system's.
        pub(crate) fn new(roots: Option<&[u8]>) -> Result<Self> {
            let mut builder = TlsConnector::builder();
            if let Some(pem) = roots {
                builder.disable_built_in_roots(true);
                for certificate in certificates(pem)? {
                    builder.add_root_certificate(certificate);
                }
            }
            let connector = builder.build();
            let connector = connector
                .map_err(|error| Error::invalid("TLS cannot be set up").with_source(error))?;
            Ok(Self(connector.into()))
        }

        pub(in super::super) async fn connect(
            &self,
            host: &str,
            stream: Stream,
        ) -> io::Result<Stream> {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = self.0.connect(host, TokioIo::new(stream)).await;
            Ok(Stream::secured(TokioIo::new(stream.map_err(io::Error::other)?)))
        }
    }

    fn certificates(pem: &[u8]) -> Result<Vec<Certificate>> {
        const END: &str = "-----END CERTIFICATE-----";
        let pem = std::str::from_utf8(pem).map_err(|_| super::unusable())?;
        let blocks = pem.split_inclusive(END).filter(|block| block.ends_with(END));
        let read = |block: &str| Certificate::from_pem(block.as_bytes());
        let read: std::result::Result<Vec<_>, _> = blocks.map(read).collect();
        let read = read.map_err(|error| super::unusable().with_source(error))?;
        if read.is_empty() { Err(super::unusable()) } else { Ok(read) }
    }
}

#[cfg(not(any(feature = "native-tls", feature = "rustls", feature = "rustls-no-provider")))]
mod without {
    use std::io;

    use super::super::connect::Stream;
    use crate::error::{Error, Result};

    /// No TLS: there is no value of this type.
    #[derive(Clone)]
    pub(crate) enum Tls {}

    impl Tls {
        pub(crate) fn new(_: Option<&[u8]>) -> Result<Self> {
            Err(Error::invalid(
                "an https endpoint needs the feature `rustls` or `native-tls` of this crate",
            ))
        }

        #[expect(clippy::unused_async, reason = "the form that it has with TLS")]
        pub(in super::super) async fn connect(&self, _: &str, _: Stream) -> io::Result<Stream> {
            match *self {}
        }
    }
}
