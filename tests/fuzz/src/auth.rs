//! Decoders of credentials: SAS, `Authorization`, keys, connection strings, the string to sign.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, HeaderValue};
use rowkey::{Credential, StorageAccount};
pub use rowkey_emulator::fuzzing::{authorization, ip_range};
use rowkey_wire::auth::{
    Protocols, Sas, Scheme, Service, SigningKey, Unsigned, parse_time, string_to_sign,
};

/// A fixed time, so that the result of an input is reproducible.
static NOW: LazyLock<DateTime<Utc>> =
    LazyLock::new(|| DateTime::from_timestamp(1_735_689_600, 0).expect("a time of 2025"));

/// Runs every decoder of credentials.
pub fn all(input: &[u8]) {
    crate::text(input, |text| {
        let _ = (sas(text), time(text), ip_range(text), authorization(text), key(text));
        let _ = (Protocols::parse(text), connection_string(text));
        signed_request(text);
    });
}

/// Whether it is a SAS; asserts that it is read again as written.
pub fn sas(text: &str) -> bool {
    let _ = rowkey::sas::lint(text, *NOW);
    let Some(sas) = Sas::from_query(text) else { return false };
    assert_eq!(Sas::from_query(&sas.encode()).as_ref(), Some(&sas));
    let _ = (sas.start.as_deref().map(parse_time), sas.ip.as_deref().map(ip_range));
    let _ = sas.protocol.as_deref().map(Protocols::parse);
    true
}

/// Whether it is a time in a SAS.
pub fn time(text: &str) -> bool {
    parse_time(text).is_some()
}

/// Whether it is an account key; asserts that it verifies its own signatures.
pub fn key(text: &str) -> bool {
    let _ = Credential::shared_key("acct", text);
    let Ok(key) = SigningKey::from_base64(text) else { return false };
    assert!(key.verify("a", &key.sign("a")));
    true
}

/// Whether it is a connection string; asserts that an error does not quote the key.
pub fn connection_string(text: &str) -> bool {
    let Err(error) = StorageAccount::from_connection_string(text) else { return true };
    let said = error.to_string();
    let secrets = text.split(';').filter_map(|part| part.split_once("AccountKey="));
    for (_, secret) in secrets.filter(|(_, secret)| secret.len() > 8) {
        // A key may be a part of the message itself.
        if said.contains(secret) {
            let without = text.replace(secret, "?");
            let message = StorageAccount::from_connection_string(&without);
            let message = message.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(secret), "an error quotes the key");
        }
    }
    false
}

/// Makes the strings to sign of a request: the first line is its address, the next ones headers.
fn signed_request(text: &str) {
    let mut lines = text.lines();
    let address = lines.next().unwrap_or_default();
    let (path, query) = address.split_once('?').map_or((address, None), |(p, q)| (p, Some(q)));
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if let (Ok(name), Ok(value)) =
            (name.trim().parse::<HeaderName>(), HeaderValue::from_str(value.trim()))
        {
            headers.append(name, value);
        }
    }
    let request = Unsigned { method: "PUT", path, query, headers: &headers, content_length: 7 };
    for service in [Service::Table, Service::Queue, Service::Blob] {
        for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
            let _ = string_to_sign(service, scheme, "acct", &request);
        }
    }
}
