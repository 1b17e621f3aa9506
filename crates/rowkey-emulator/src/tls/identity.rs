//! A certificate and its key: generated at the start, or given in PEM and checked.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rowkey_wire::edm::DateTime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{self, InconsistentKeys, ServerConfig};

use super::certificate;
use crate::clock::ServerClock;

/// How long a generated certificate is valid: the maximum that the strictest clients, Apple's,
/// accept.
const LIFETIME_DAYS: i64 = 825;
const TICKS_A_DAY: i64 = 86_400 * 10_000_000;

/// A certificate, its chain and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Identity {
    /// Generates a self-signed certificate for these hosts and for `localhost`.
    pub(super) fn self_signed(hosts: &[String]) -> io::Result<Self> {
        // Hosts may begin with the account's name, and a `*` matches only one label.
        let usual = [
            "localhost",
            "*.localhost",
            "*.blob.localhost",
            "*.queue.localhost",
            "*.table.localhost",
            "127.0.0.1",
            "::1",
        ];
        let mut names: Vec<String> =
            usual.into_iter().map(str::to_owned).chain(hosts.iter().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        if let Some(name) = names.iter().find(|name| !name.is_ascii()) {
            return Err(wrong(&format!("the host `{name}` is not ASCII: give it as `xn--..`")));
        }
        // Clients compare with real time, even when the server's clock is manual.
        let now = ServerClock::real().now();
        let day = |days: i64| -> io::Result<_> {
            let ticks = now.ticks() + days * TICKS_A_DAY;
            let text = DateTime::from_ticks(ticks).map_err(io::Error::other)?.to_string();
            let mut parts = text.split(['-', 'T']);
            let mut next =
                || parts.next().unwrap_or_default().parse::<u32>().map_err(io::Error::other);
            Ok([next()?, next()?, next()?])
        };
        let made = certificate::make(&names, day(-1)?, day(LIFETIME_DAYS - 1)?)?;
        Ok(Self {
            certificate: pem("CERTIFICATE", &made.certificate),
            key: pem("PRIVATE KEY", &made.key),
        })
    }

    /// The TLS acceptor with this certificate.
    pub(super) fn acceptor(&self) -> io::Result<TlsAcceptor> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain: Vec<_> = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|_| wrong("the certificate is not PEM"))?;
        if chain.is_empty() {
            return Err(wrong(
                "the certificate is not PEM: it has no `-----BEGIN CERTIFICATE-----`",
            ));
        }
        let key = provider
            .key_provider
            .load_private_key(self.private_key()?)
            .map_err(|error| unusable(&error))?;
        let identity = CertifiedKey::new(chain, key);
        check_match(&identity)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn private_key(&self) -> io::Result<PrivateKeyDer<'static>> {
        let marks = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];
        if marks.iter().any(|mark| self.key.contains(mark)) {
            return Err(wrong(
                "the certificate's key is encrypted: decrypt it with `openssl pkey -in key.pem \
                 -out plain.pem`",
            ));
        }
        PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|_| wrong("the certificate's key is not PEM"))
    }
}

/// Rejects a key that does not belong to the certificate. The TLS library does not parse
/// certificates of version 1, such as the one in Azurite's tests, and a server does not need to.
/// For those, this only checks that the certificate contains the public key.
fn check_match(identity: &CertifiedKey) -> io::Result<()> {
    let mismatch = || wrong("the certificate's key is the key of another certificate");
    match identity.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err(mismatch()),
        Err(error @ rustls::Error::InvalidCertificate(_)) => {
            let certificate = identity.end_entity_cert().map_err(|error| unusable(&error))?;
            let Some(key) = identity.key.public_key() else { return Err(unusable(&error)) };
            let has_key = certificate.windows(key.len()).any(|part| part == key.as_ref());
            if has_key { Ok(()) } else { Err(unusable(&error)) }
        }
        Err(error) => Err(unusable(&error)),
    }
}

fn wrong(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn unusable(error: &rustls::Error) -> io::Error {
    wrong(&format!("the certificate cannot be used: {error}"))
}

/// The PEM form: base64 in lines of 64 characters between two lines with the label.
fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes are 64 characters in base64.
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
mod tests;
