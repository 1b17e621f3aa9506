//! The requests in a body: each is dated and authorized like a request of its own, again for every attempt.
//!
//! The service checks the signature of each. Their version is that of the whole request, so they have no
//! `x-ms-version`, and their signatures do not cover one.

use std::io::Write as _;

use bytes::BytesMut;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue};
use rowkey_wire::headers::MS_DATE;

use super::sign::{self, Signer};
use crate::credential::Authority;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::transport::Request;

/// The most bytes in the body of a batch.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The requests in a body, none of which has a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    /// What separates them. It must not occur in them.
    pub(crate) boundary: &'a str,
    pub(crate) requests: &'a [Request],
}

impl Signer {
    /// Returns the whole request with its body, authorized for an attempt that begins now.
    pub(super) fn compose(
        &self,
        endpoint: &Endpoint,
        whole: &Request,
        parts: Parts<'_>,
        authority: &Authority,
    ) -> Result<Request> {
        let mut body = Vec::with_capacity(parts.requests.len().saturating_mul(512));
        let date = self.date();
        for (number, request) in parts.requests.iter().enumerate() {
            let url = sign::address(endpoint, &request.target, authority)?;
            let mut headers = HeaderMap::with_capacity(request.headers.len() + 2);
            headers.insert(MS_DATE, date.clone());
            for (name, value) in &request.headers {
                headers.insert(name, value.clone());
            }
            match authority {
                Authority::Bearer(token) => {
                    headers.insert(AUTHORIZATION, token.clone());
                }
                Authority::SharedKey(key) => {
                    let value = sign::sign(key, &url, &headers, request, &mut BytesMut::new())?;
                    headers.insert(AUTHORIZATION, value);
                }
                Authority::Nothing | Authority::Sas(_) => {}
            }
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            // Writing to memory does not fail. Neither a URL nor a header has a line break.
            let _ = write!(
                body,
                "--{}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
                 Content-ID: {number}\r\n\r\n{} {}",
                parts.boundary,
                request.method,
                url.path()
            );
            if let Some(query) = url.query() {
                let _ = write!(body, "?{query}");
            }
            body.extend_from_slice(b" HTTP/1.1\r\n");
            for (name, value) in &headers {
                let _ = write!(body, "{name}: ");
                body.extend_from_slice(value.as_bytes());
                body.extend_from_slice(b"\r\n");
            }
            // The end of the head, and the line break that belongs to the next delimiter.
            body.extend_from_slice(b"\r\n\r\n");
        }
        let _ = write!(body, "--{}--\r\n", parts.boundary);
        if body.len() > MAX_BYTES {
            let what = format!("the batch has {} bytes, and {MAX_BYTES} are the most", body.len());
            return Err(Error::too_large(what));
        }
        Ok(Request { body: body.into(), ..whole.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http::{HeaderName, Method};
    use rowkey_wire::auth::Service;
    use rowkey_wire::headers::parse_http_date;

    use super::*;
    use crate::clock::ManualClock;
    use crate::credential::Credential;
    use crate::error::{ErrorKind, Outcome};
    use crate::transport::retry::Jitter;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    /// The body of a batch that `azure-storage-blob` 12.31.1 for Python sent, except for its boundary.
    const PYTHON: &str = "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\
        Content-Transfer-Encoding: binary\r\n\r\n\
        DELETE /devstoreaccount1/photos/a%20b/%C3%BC.txt? HTTP/1.1\r\n\
        x-ms-date: Thu, 26 Nov 2026 18:36:28 GMT\r\n\
        x-ms-client-request-id: 4b1e2ada-e9c8-11f1-a28e-02fc00000001\r\n\
        Authorization: SharedKey devstoreaccount1:R4deMmWjXWH0K+Mk/FJwwBOMK55S5qQ7wUDYZ9sBSx4=\r\n\
        Content-Length: 0\r\n\r\n\r\n\
        --b\r\nContent-Type: application/http\r\nContent-ID: 1\r\n\
        Content-Transfer-Encoding: binary\r\n\r\n\
        DELETE /devstoreaccount1/photos/x? HTTP/1.1\r\nIf-Match: \"0x1\"\r\n\
        x-ms-date: Thu, 26 Nov 2026 18:36:28 GMT\r\n\
        x-ms-client-request-id: 4b1e37f0-e9c8-11f1-a28e-02fc00000001\r\n\
        Authorization: SharedKey devstoreaccount1:Ns1DYvcQI7S0laypQLZy7PC/GarViuYl99RLPZmibDg=\r\n\
        Content-Length: 0\r\n\r\n\r\n--b--\r\n";

    fn deletion(target: &str, headers: &[(&'static str, &'static str)]) -> Request {
        let named = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Request {
            service: Service::Blob,
            method: Method::DELETE,
            target: target.to_owned(),
            headers: headers.iter().map(named).collect(),
            body: Bytes::new(),
        }
    }

    fn body(credential: Credential, url: &str, requests: &[Request]) -> Result<String> {
        let now = parse_http_date("Thu, 26 Nov 2026 18:36:28 GMT").unwrap();
        let ids = Arc::new(Jitter::seeded(1));
        let signer = Signer::new(credential, Arc::new(ManualClock::new(now)), ids);
        let endpoint = Endpoint::parse("the endpoint", url).unwrap();
        let authority = signer.credential().settled();
        let whole = deletion("/photos?restype=container&comp=batch", &[]);
        let parts = Parts { boundary: "b", requests };
        let composed = signer.compose(&endpoint, &whole, parts, &authority)?;
        Ok(String::from_utf8(composed.body.to_vec()).unwrap())
    }

    /// The requests in a body: for each the number, the request line without an empty query, and the headers, all in
    /// lower case and sorted.
    fn requests(body: &str) -> Vec<Vec<String>> {
        let parts = body.split("--b\r\n").skip(1);
        let lines = |part: &str| {
            let lines = part.split("\r\n").filter(|line| !line.is_empty() && *line != "--b--");
            let mut lines: Vec<_> =
                lines.map(|line| line.replace("? HTTP", " HTTP").to_lowercase()).collect();
            lines.sort();
            lines
        };
        parts.map(lines).collect()
    }

    #[test]
    fn bodies_are_those_of_the_official_library() {
        let id = "x-ms-client-request-id";
        let first = [(id, "4b1e2ada-e9c8-11f1-a28e-02fc00000001")];
        let second = [(id, "4b1e37f0-e9c8-11f1-a28e-02fc00000001"), ("if-match", "\"0x1\"")];
        let parts = [deletion("/photos/a%20b/%C3%BC.txt", &first), deletion("/photos/x", &second)];
        let key = Credential::shared_key("devstoreaccount1", KEY).unwrap();
        let url = "http://127.0.0.1:10000/devstoreaccount1";
        let own = body(key, url, &parts).unwrap();
        assert_eq!(requests(&own), requests(PYTHON));
        // The lines that end a part are the same, too.
        let ends = |body: &str| body.matches("\r\n\r\n\r\n--b").count();
        assert_eq!((ends(&own), own.lines().count()), (2, PYTHON.lines().count()));
    }

    #[test]
    fn a_shared_access_signature_is_in_each_address() {
        let sas = Credential::sas("sv=2022-11-02&sig=secret").unwrap();
        let url = "https://a.blob.core.windows.net";
        let parts = [deletion("/photos/x", &[]), deletion("/photos/x?snapshot=1", &[])];
        let body = body(sas, url, &parts).unwrap();
        assert!(body.contains("DELETE /photos/x?sv=2022-11-02&sig=secret HTTP/1.1\r\n"));
        assert!(body.contains("DELETE /photos/x?snapshot=1&sv=2022-11-02&sig=secret HTTP/1.1\r\n"));
        assert!(!body.contains("authorization") && !body.contains("x-ms-version"), "{body}");
    }

    #[test]
    fn a_batch_of_more_than_four_mebibytes_is_refused() {
        let long = deletion(&format!("/photos/{}", "%F0%9F%98%80".repeat(1024)), &[]);
        let url = "https://a.blob.core.windows.net";
        let refused = |count: usize| {
            let error = body(Credential::anonymous(), url, &vec![long.clone(); count]).err()?;
            Some((error.kind(), error.outcome()))
        };
        assert_eq!(refused(256), None);
        let too_large = Some((ErrorKind::TooLarge, Outcome::NotSent));
        assert_eq!(refused(400), too_large);
    }
}
