//! Sends requests, one after the other, on connections that are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::exchange::{Auth, Headers, Service};
use crate::sign;
use crate::text;

/// The response of a server. The status is 0 without a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the package is not published")]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers by lower-case name; values of a repeated one are joined.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
}

/// A request as it will be sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) service: Service,
    pub(crate) method: String,
    /// The path and query, without the account.
    pub(crate) target: String,
    pub(crate) headers: Headers,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) auth: Auth,
    pub(crate) secondary: bool,
}

/// What answers requests: a server, or in tests the recording.
pub(crate) trait Transport {
    /// Sends a request.
    fn send(&mut self, request: Sent) -> Answer;
    /// The endpoint of a service, with the account.
    fn endpoint(&self, service: Service) -> &str;
}

/// Connections to a server.
pub(crate) struct Client {
    endpoints: BTreeMap<Service, String>,
    runtime: Runtime,
    open: BTreeMap<Service, SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(crate) fn new(endpoints: &BTreeMap<Service, String>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { endpoints: endpoints.clone(), runtime, open: BTreeMap::new() })
    }

    fn exchange(
        &mut self,
        service: Service,
        request: &Request<Full<Bytes>>,
    ) -> Result<Answer, String> {
        let host = self.endpoint(service).trim_start_matches("http://");
        let host = host.split('/').next().unwrap_or_default().to_owned();
        let Self { runtime, open, .. } = self;
        runtime.block_on(async {
            let mut sender = open.remove(&service);
            if let Some(kept) = &mut sender
                && kept.ready().await.is_err()
            {
                sender = None;
            }
            let mut sender = if let Some(sender) = sender {
                sender
            } else {
                let stream = TcpStream::connect(&host).await.map_err(|error| error.to_string())?;
                let (sender, connection) = http1::handshake(TokioIo::new(stream))
                    .await
                    .map_err(|error| error.to_string())?;
                runtime.spawn(connection);
                sender
            };
            let response =
                sender.send_request(request.clone()).await.map_err(|error| error.to_string())?;
            let status = response.status().as_u16();
            let mut headers = Headers::new();
            for (name, value) in response.headers() {
                let value: String = value.as_bytes().iter().copied().map(char::from).collect();
                let entry = headers.entry(name.as_str().to_owned());
                entry.and_modify(|all| *all = format!("{all}, {value}")).or_insert(value);
            }
            let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
            open.insert(service, sender);
            Ok(Answer { status, headers, body: body.to_bytes().to_vec() })
        })
    }
}

impl Transport for Client {
    fn send(&mut self, sent: Sent) -> Answer {
        let failed =
            |error: String| Answer { status: 0, headers: Headers::new(), body: error.into_bytes() };
        let endpoint = self.endpoint(sent.service).to_owned();
        let account = text::path(&endpoint).to_owned();
        let suffix = if sent.secondary { "-secondary" } else { "" };
        let target = format!("{account}{suffix}{}", sent.target);
        let mut headers = sent.headers;
        let body = sent.body.unwrap_or_default();
        if !body.is_empty()
            || matches!(sent.method.as_str(), "PUT" | "POST" | "MERGE" | "PATCH" | "DELETE")
        {
            headers.insert("content-length".to_owned(), body.len().to_string());
        }
        if !matches!(sent.auth, Auth::Anonymous | Auth::Sas) {
            headers.insert("x-ms-date".to_owned(), text::format_http_date(text::now()));
            let value =
                sign::authorization(sent.service, &sent.method, &target, &headers, sent.auth);
            headers.insert("authorization".to_owned(), value);
        }
        let host = endpoint.trim_start_matches("http://").split('/').next().unwrap_or_default();
        let Ok(method) = Method::from_bytes(sent.method.as_bytes()) else {
            return failed(format!("invalid method: {}", sent.method));
        };
        let request =
            Request::builder().method(method).uri(&target).body(Full::new(Bytes::from(body)));
        let mut request = match request {
            Ok(request) => request,
            Err(error) => return failed(format!("{error}: {target}")),
        };
        headers.insert("host".to_owned(), host.to_owned());
        for (name, value) in &headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) else {
                return failed(format!("invalid header: {value}"));
            };
            request.headers_mut().insert(name, value);
        }
        let reused = self.open.contains_key(&sent.service);
        let mut answer = self.exchange(sent.service, &request);
        if answer.is_err() && reused {
            // The server had closed the idle connection.
            answer = self.exchange(sent.service, &request);
        }
        answer.unwrap_or_else(failed)
    }

    fn endpoint(&self, service: Service) -> &str {
        self.endpoints.get(&service).map_or("", String::as_str)
    }
}

/// Waits, as the recorded test did.
#[expect(clippy::disallowed_methods, reason = "leases and messages expire by the server's clock")]
pub(crate) fn pause(seconds: i64) {
    std::thread::sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
}
