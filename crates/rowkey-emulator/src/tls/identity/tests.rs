//! Certificates that the server generates, and files that other tools make.

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;

/// The purpose serverAuth, 1.3.6.1.5.5.7.3.1, in DER.
const SERVER_AUTH: [u8; 10] = [0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];

/// X.509 version 1 with a key in PKCS#1, like the certificate of Azurite's tests. Made by `openssl
/// genrsa -traditional` and `openssl x509 -req -signkey`, for `localhost`.
const V1_CERTIFICATE: &str = include_str!("../../../tests/certificates/v1.cert");
const V1_KEY: &str = include_str!("../../../tests/certificates/v1.key");
/// Made by `openssl ecparam -name prime256v1 -genkey`, parameters included, and `openssl req -x509`.
const SEC1_CERTIFICATE: &str = include_str!("../../../tests/certificates/sec1.cert");
const SEC1_KEY: &str = include_str!("../../../tests/certificates/sec1.key");
/// The output of `openssl pkcs12 -nodes` for a .pfx file: attributes, a chain and the key in
/// PKCS#8.
const BAG: &str = include_str!("../../../tests/certificates/bag.pem");

fn made() -> Identity {
    Identity::self_signed(&["emulator.test".to_owned(), "192.0.2.7".to_owned()]).unwrap()
}

fn error(certificate: &str, key: &str) -> String {
    let identity = Identity { certificate: certificate.to_owned(), key: key.to_owned() };
    identity.acceptor().err().map(|error| error.to_string()).unwrap_or_default()
}

/// Whether a client that trusts `identity` accepts it for the server `name`.
async fn is_trusted(identity: &Identity, name: &str) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (client, server) = tokio::io::duplex(16 << 10);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let accepted = identity.acceptor().unwrap().accept(server);
    let connected = TlsConnector::from(Arc::new(config)).connect(name, client);
    let (_, connected) = tokio::join!(accepted, connected);
    connected.is_ok()
}

#[tokio::test]
async fn a_generated_certificate_covers_the_machine_accounts_and_hosts() {
    let identity = made();
    for name in [
        "localhost",
        "127.0.0.1",
        "::1",
        "acc.blob.localhost",
        "acc.queue.localhost",
        "acc.table.localhost",
        "acc-secondary.table.localhost",
        "emulator.test",
        "192.0.2.7",
    ] {
        assert!(is_trusted(&identity, name).await, "{name}");
    }
    assert!(!is_trusted(&identity, "other.test").await);
}

#[test]
fn a_generated_certificate_is_a_server_certificate_for_two_years() {
    let identity = made();
    let der = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    assert!(der.windows(SERVER_AUTH.len()).any(|part| part == SERVER_AUTH));
    // Two values of type UTCTime in a row, `yymmddhhmmssZ`.
    let times: Vec<i64> = der
        .windows(15)
        .filter(|part| part[..2] == [0x17, 13] && part[14] == b'Z')
        .map(|part| {
            let text = std::str::from_utf8(&part[2..8]).unwrap();
            let text = format!("20{}-{}-{}T00:00:00Z", &text[..2], &text[2..4], &text[4..]);
            text.parse::<DateTime>().unwrap().ticks()
        })
        .collect();
    let [from, until] = times[..] else { panic!("{} times", times.len()) };
    let now = ServerClock::real().now().ticks();
    assert!(from < now && now < until);
    assert_eq!((until - from) / TICKS_A_DAY, LIFETIME_DAYS);
}

#[test]
fn certificates_of_other_tools_are_accepted() {
    let made = made();
    let windows = |text: &str| text.replace('\n', "\r\n");
    for (what, certificate, key) in [
        ("PKCS#8", made.certificate.clone(), made.key.clone()),
        ("Windows line ends", windows(&made.certificate), windows(&made.key)),
        ("a chain", format!("{}{SEC1_CERTIFICATE}", made.certificate), made.key.clone()),
        (
            "both in one file",
            made.key.clone() + &made.certificate,
            made.key.clone() + &made.certificate,
        ),
        ("PKCS#1, version 1", V1_CERTIFICATE.to_owned(), V1_KEY.to_owned()),
        ("SEC1", SEC1_CERTIFICATE.to_owned(), SEC1_KEY.to_owned()),
        ("SEC1 on Windows", windows(SEC1_CERTIFICATE), windows(SEC1_KEY)),
        ("bag attributes", BAG.to_owned(), BAG.to_owned()),
    ] {
        assert_eq!(error(&certificate, &key), "", "{what}");
    }
}

#[test]
fn an_unusable_file_is_rejected_without_being_quoted() {
    let own = made();
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nc2VjcmV0\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let garbled = pem("CERTIFICATE", b"secret");
    for (certificate, key, said) in [
        ("secret", &*own.key, "the certificate is not PEM"),
        (&*own.certificate, "secret", "the certificate's key is not PEM"),
        (&own.certificate, encrypted, "is encrypted"),
        (&own.certificate, SEC1_KEY, "the key of another certificate"),
        (V1_CERTIFICATE, &own.key, "cannot be used"),
        (&garbled, &own.key, "cannot be used"),
    ] {
        let error = error(certificate, key);
        assert!(error.contains(said), "{said}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
