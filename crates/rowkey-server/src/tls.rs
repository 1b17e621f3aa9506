//! HTTPS: the certificate that the server shows.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// What requests that came over HTTPS carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Https;

/// A certificate, with those that vouch for it, and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Identity {
    /// A new one for these hosts, which nobody vouches for.
    pub(crate) fn self_signed<'a>(hosts: impl Iterator<Item = &'a str>) -> io::Result<Self> {
        // `*.localhost`, because hosts may begin with the account's name.
        let mut names: Vec<String> = ["localhost", "*.localhost", "127.0.0.1", "::1"]
            .into_iter()
            .chain(hosts)
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.dedup();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "rowkey-server");
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        Ok(Self {
            certificate: pem("CERTIFICATE", certificate.der()),
            key: pem("PRIVATE KEY", key.serialized_der()),
        })
    }

    /// What makes connections secure with it.
    pub(crate) fn acceptor(&self) -> io::Result<TlsAcceptor> {
        let wrong = |what: &str| {
            let message = format!("the {what} is not PEM");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|_| wrong("certificate"))?;
        if chain.is_empty() {
            return Err(wrong("certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|_| wrong("certificate's key"))?;
        let unusable = |error: rustls::Error| {
            let message = format!("the certificate cannot be used: {error}");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// The usual text form: base64 in lines of 64 characters between two that say what it is.
fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes are 64 characters.
    for line in der.chunks(48) {
        text.push_str(&BASE64_STANDARD.encode(line));
        text.push('\n');
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_its_own_can_be_used() {
        let identity = Identity::self_signed(["azurite.test", "localhost"].into_iter()).unwrap();
        assert!(identity.acceptor().is_ok());
    }

    #[test]
    fn what_is_no_pem_is_refused_without_being_quoted() {
        let own = Identity::self_signed(std::iter::empty()).unwrap();
        for (identity, named) in [
            (Identity { certificate: "secret".to_owned(), ..own.clone() }, "the certificate is"),
            (Identity { key: "secret".to_owned(), ..own }, "the certificate's key is"),
        ] {
            let Err(error) = identity.acceptor() else { panic!("it is not PEM") };
            assert!(error.to_string().starts_with(named), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
