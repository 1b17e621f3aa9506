//! Adds the parts that are new on every attempt: the date, the request id, the authorization.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, InvalidHeaderValue, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Uri};
use rowkey_wire::auth::{SIGNATURE_LEN, Service, Unsigned, authorization, string_to_sign};
use rowkey_wire::headers::{self, CLIENT_REQUEST_ID, MS_DATE, VERSION};
use rowkey_wire::shown;

use super::policy::{Additions, Attempt};
use super::retry::Jitter;
use crate::clock::Clock;
use crate::credential::{Authority, Credential, SharedKey};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::transport::Request;

/// Adds date, request id and authorization to requests.
#[derive(Debug)]
pub(crate) struct Signer {
    credential: Credential,
    clock: Arc<dyn Clock>,
    ids: Arc<Jitter>,
    /// The last second for which a date was formatted, and that date. Formatting costs more than
    /// signing.
    date: Mutex<(i64, HeaderValue)>,
}

/// A request that is ready to be sent once.
pub(crate) struct Signed {
    pub(crate) request: http::Request<Bytes>,
    /// `x-ms-client-request-id`.
    pub(crate) id: HeaderValue,
}

impl Signer {
    pub(crate) fn new(credential: Credential, clock: Arc<dyn Clock>, ids: Arc<Jitter>) -> Self {
        let date = Mutex::new((i64::MIN, HeaderValue::from_static("")));
        Self { credential, clock, ids, date }
    }

    /// Signs `request` for `endpoint` at the current time.
    pub(crate) fn sign(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        authority: &Authority,
        additions: &Additions,
        attempt: &mut Attempt<'_>,
    ) -> Result<Signed> {
        let url = address(endpoint, &request.target, authority)?;
        let mut values = BytesMut::with_capacity(ID + authorization_len(authority));
        let id = self.id(&mut values);
        // Capacity for the six that follow and the one that a body adds.
        let mut headers = HeaderMap::with_capacity(request.headers.len() + 7);
        // Otherwise the HTTP client would format it for every request.
        headers.insert(HOST, endpoint.authority().clone());
        headers.insert(MS_DATE, self.date());
        headers.insert(VERSION, version(request.service, authority));
        headers.insert(CLIENT_REQUEST_ID, id.clone());
        let agent = additions.user_agent.clone();
        headers.insert(USER_AGENT, agent.unwrap_or(const { HeaderValue::from_static(AGENT) }));
        if request.body.is_empty() && matches!(request.method, Method::POST | Method::PUT) {
            // The service refuses requests without a length, and the HTTP client sends none for an empty
            // body.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        for (name, value) in &request.headers {
            headers.insert(name, value.clone());
        }
        attempt.is_named(&id);
        additions.add(attempt, &mut headers)?;
        match authority {
            Authority::Bearer(token) => {
                headers.insert(AUTHORIZATION, token.clone());
            }
            Authority::SharedKey(key) => {
                let value = sign(key, &url, &headers, request, &mut values)?;
                headers.insert(AUTHORIZATION, value);
            }
            Authority::Nothing | Authority::Sas(_) => {}
        }
        let mut signed = http::Request::new(request.body.clone());
        *signed.method_mut() = request.method.clone();
        *signed.uri_mut() = url;
        *signed.headers_mut() = headers;
        Ok(Signed { request: signed, id })
    }

    /// The complete URL of a target, with the shared access signature if there is one. Fails if it is too long.
    pub(crate) fn address(&self, endpoint: &Endpoint, target: &str) -> Result<Uri> {
        address(endpoint, target, &self.credential.settled())
    }

    /// The credential.
    pub(crate) fn credential(&self) -> &Credential {
        &self.credential
    }

    pub(super) fn date(&self) -> HeaderValue {
        let now = self.clock.now();
        let mut cached = self.date.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.0 != now.timestamp() {
            // Years beyond 9999 do not fit the format; the service refuses a missing date.
            let date = HeaderValue::try_from(headers::http_date(now));
            *cached = (now.timestamp(), date.unwrap_or_else(|_| HeaderValue::from_static("")));
        }
        cached.1.clone()
    }

    fn id(&self, out: &mut BytesMut) -> HeaderValue {
        let text = &mut [0; ID];
        out.extend_from_slice(self.ids.guid().hyphenated().encode_lower(text).as_bytes());
        take(out).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

shown! {
    /// Shows neither the URL, which may contain a signature, nor the headers, which do.
    Signed: id
}

pub(super) fn address(endpoint: &Endpoint, target: &str, authority: &Authority) -> Result<Uri> {
    let sas = if let Authority::Sas(sas) = authority { &**sas } else { "" };
    endpoint.address(target, sas)
}

/// The version of the Table service that requests send.
///
/// The official table libraries send the same one. For tables, newer versions change only bearer
/// tokens, see [`TABLE_VERSION_BEARER`](headers::TABLE_VERSION_BEARER).
pub(crate) const TABLE_VERSION: &str = "2019-02-02";

/// The version of the Queue service that requests send.
///
/// The first version with everything that the client uses is 2017-07-29 (messages that never
/// expire). This one is sent by the first Rust libraries, and emulators and Azure Stack have
/// supported it for years. Later versions add only tokens for other tenants, which are not used
/// here.
const QUEUE_VERSION: &str = "2022-11-02";

/// The version of the Blob service that requests send: the first in which an appended block may
/// have 100 MiB. See [`QUEUE_VERSION`].
const BLOB_VERSION: &str = "2022-11-02";

pub(super) fn version(service: Service, authority: &Authority) -> HeaderValue {
    HeaderValue::from_static(match service {
        Service::Table if matches!(authority, Authority::Bearer(_)) => {
            headers::TABLE_VERSION_BEARER
        }
        Service::Blob => BLOB_VERSION,
        Service::Queue => QUEUE_VERSION,
        Service::Table => TABLE_VERSION,
    })
}

pub(super) const AGENT: &str = concat!("rowkey/", env!("CARGO_PKG_VERSION"));

/// The length of a request id.
const ID: usize = uuid::fmt::Hyphenated::LENGTH;

/// The length of the `Authorization` header, if it has to be built.
fn authorization_len(authority: &Authority) -> usize {
    match authority {
        Authority::SharedKey(key) => {
            let pieces = authorization(key.scheme, &key.account, "");
            pieces.iter().map(|piece| piece.len()).sum::<usize>() + SIGNATURE_LEN
        }
        Authority::Bearer(_) | Authority::Nothing | Authority::Sas(_) => 0,
    }
}

/// Builds the `Authorization` header in `out` and takes it from there.
pub(super) fn sign(
    key: &SharedKey,
    url: &Uri,
    headers: &HeaderMap,
    request: &Request,
    out: &mut BytesMut,
) -> Result<HeaderValue> {
    let unsigned = Unsigned {
        method: request.method.as_str(),
        path: url.path(),
        query: url.query(),
        headers,
        content_length: request.body.len() as u64,
    };
    let SharedKey { scheme, account, key } = key;
    let text = string_to_sign(request.service, *scheme, account, &unsigned);
    let signature = &mut [0; SIGNATURE_LEN];
    let signature = key.sign_into(&text, signature);
    for piece in authorization(*scheme, account, signature) {
        out.extend_from_slice(piece.as_bytes());
    }
    let mut value =
        take(out).map_err(|_| Error::invalid("the account name is invalid in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Takes what was written to `out` without a copy. Header values are cloned several times before
/// they are sent, which is cheap if they already share memory.
fn take(out: &mut BytesMut) -> std::result::Result<HeaderValue, InvalidHeaderValue> {
    HeaderValue::from_maybe_shared(out.split().freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::transport::{Call, Safety};

    fn signer(credential: Credential, date: &str) -> Signer {
        let clock = ManualClock::new(headers::parse_http_date(date).unwrap());
        Signer::new(credential, Arc::new(clock), Arc::new(Jitter::seeded(1)))
    }

    fn signed(signer: &Signer, endpoint: &Endpoint, target: &str) -> Signed {
        let authority = signer.credential.settled();
        let call = Call::new("GetEntity", "t", Safety::Read);
        let (method, additions) = (Method::GET, Additions::default());
        let mut attempt = Attempt::new(&call, &method, 1, false);
        signer.sign(endpoint, &get(target), &authority, &additions, &mut attempt).unwrap()
    }

    fn get(target: &str) -> Request {
        let headers = HeaderMap::new();
        let (service, method) = (Service::Table, Method::GET);
        Request { service, method, target: target.to_owned(), headers, body: Bytes::new() }
    }

    #[test]
    fn signatures_match_other_libraries() {
        // From the tests of Azure's Go and JS libraries.
        for (account, key, url, target, date, authorization) in [
            (
                "golangrocksonazure",
                "YmFy",
                "https://golangrocksonazure.table.core.windows.net",
                "/tquery()",
                "Wed, 23 Sep 2015 16:40:05 GMT",
                "SharedKeyLite golangrocksonazure:NusXSFXAvHqr6EQNXnZZ50CvU1sX0iP/FFDHehnixLc=",
            ),
            (
                "accountName",
                // `accountKey`, decoded with lenient base64.
                "accountKew==",
                "https://testaccount.table.core.windows.net",
                "/tablename(PartitionKey='p1',RowKey='r1')",
                "Thu, 03 Sep 2020 18:50:45 GMT",
                "SharedKeyLite accountName:mzKy4ZjXbTEueNQp2cxou+kKrfCnWpdau5I6kJIO58g=",
            ),
        ] {
            let credential = Credential::shared_key_lite(account, key).unwrap();
            let endpoint = Endpoint::parse("the endpoint", url).unwrap();
            let signed = signed(&signer(credential, date), &endpoint, target).request;
            assert_eq!(signed.uri().to_string(), format!("{url}{target}"));
            assert_eq!(signed.headers()[MS_DATE], date);
            assert_eq!(signed.headers()[AUTHORIZATION].to_str().unwrap(), authorization);
            assert!(signed.headers()[AUTHORIZATION].is_sensitive());
        }
    }

    #[test]
    fn the_signature_covers_the_url_as_sent() {
        let credential = Credential::shared_key("a", "YmFy").unwrap();
        let endpoint = Endpoint::parse("the endpoint", "http://127.0.0.1:10002/a").unwrap();
        // All characters of keys, as encoded in URLs: the target is not changed.
        let target = "/t(PartitionKey='%25%2B%20%C3%B4..',RowKey='it''s~!*(x)')";
        let signed = signed(&signer(credential, DATE), &endpoint, target).request;
        assert_eq!(signed.uri().to_string(), format!("http://127.0.0.1:10002/a{target}"));
    }

    const DATE: &str = "Wed, 23 Sep 2015 16:40:05 GMT";

    #[test]
    fn the_date_follows_the_clock() {
        let clock = ManualClock::new(headers::parse_http_date(DATE).unwrap());
        let ids = Arc::new(Jitter::seeded(1));
        let signer = Signer::new(Credential::anonymous(), Arc::new(clock.clone()), ids);
        assert_eq!(signer.date(), DATE);
        clock.advance(std::time::Duration::from_millis(999));
        assert_eq!(signer.date(), DATE);
        clock.advance(std::time::Duration::from_millis(1));
        assert_eq!(signer.date(), "Wed, 23 Sep 2015 16:40:06 GMT");
    }

    #[test]
    fn debug_output_contains_no_url() {
        let credential = Credential::sas("sv=1&sig=secret").unwrap();
        let endpoint = Endpoint::parse("the endpoint", "https://a.table.core.windows.net").unwrap();
        let signed = signed(&signer(credential, DATE), &endpoint, "/t");
        assert!(signed.request.uri().to_string().ends_with("/t?sv=1&sig=secret"));
        assert!(!format!("{signed:?}").contains("secret"));
    }
}
