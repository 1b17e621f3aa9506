//! The connection pool, one attempt, and the meaning of its failures.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use http::{HeaderMap, StatusCode, header};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::headers::{ERROR_CODE, parse_http_date};
use rowkey_wire::shown;

use super::error_body::ErrorBody;
use crate::error::{Error, ErrorKind, Outcome, Result};

/// The longest body that is read whole. Pages have at most a thousand entities and about 4 MiB.
const MAX_BODY: usize = 64 << 20;

/// The time limit for connecting. Shorter than that of an attempt, so that if a host does not
/// respond, it is certain that it has not received the request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long idle connections are kept. Shorter than at the service, so that few requests use a
/// connection that is being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A pool of connections.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: reqwest::Client,
    /// Whether the program provided the client's builder, which cannot be cloned.
    is_given: bool,
}

/// A response with any status. The body may be truncated.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: std::result::Result<Bytes, TransportError>,
    /// The body of a success, if only the head was requested.
    pub(crate) rest: Option<Chunks>,
}

/// How much of a successful response is read before it is returned. (Others are always read whole.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// Status and headers.
    Head,
    /// The whole response.
    Whole,
}

/// A body that is read piece by piece.
pub(crate) struct Chunks {
    response: Box<reqwest::Response>,
    /// The time limit for a piece.
    limit: Duration,
}

impl Chunks {
    /// The next piece, or `None` at the end.
    pub(crate) async fn next(&mut self) -> std::result::Result<Option<Bytes>, TransportError> {
        match tokio::time::timeout(self.limit, self.response.chunk()).await {
            Ok(chunk) => chunk.map_err(TransportError::reading),
            Err(_) => Err(TransportError::timeout()),
        }
    }

    /// The time limit for a piece.
    pub(crate) fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }
}

shown!(Chunks: limit);

/// An attempt without a complete response.
#[derive(Debug)]
pub(crate) struct TransportError {
    pub(crate) what: &'static str,
    pub(crate) outcome: Outcome,
    /// Invalid and Decode are permanent; Unavailable may be transient.
    pub(crate) kind: ErrorKind,
    pub(crate) source: Option<reqwest::Error>,
}

impl Http {
    /// A pool for these endpoints: `secure` if one of them uses https, `direct` if none may be reached
    /// through a proxy.
    pub(crate) fn new(secure: bool, direct: bool) -> Result<Self> {
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tcp_nodelay(true)
            // Storage supports only HTTP/1.1. Another crate of the program may have enabled HTTP/2.
            .http1_only();
        if direct {
            builder = builder.no_proxy();
        }
        Ok(Self { is_given: false, ..Self::build(tls(builder, secure)?)? })
    }

    /// A pool of the same kind, or this one if the program provided it.
    pub(crate) fn another(&self, secure: bool, direct: bool) -> Result<Self> {
        if self.is_given { Ok(self.clone()) } else { Self::new(secure, direct) }
    }

    /// A pool from the caller's builder, with the settings that only this crate may decide. It is built here
    /// because a finished client does not show whether it follows redirects.
    pub(crate) fn build(builder: reqwest::ClientBuilder) -> Result<Self> {
        let client = builder
            // A signature is for one URL and must not be sent to another.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            // Only the pipeline knows what may be retried. Without the limit of 0, requests would
            // be cloned even so.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            // Blobs are read as they are stored. Another crate of the program may have enabled the
            // features that decompress them.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .build()
            .map_err(|error| {
                Error::invalid("the HTTP client cannot be built").with_source(error.without_url())
            })?;
        Ok(Self { client, is_given: true })
    }

    /// Sends a request once and reads the whole response, or the head of a success.
    pub(crate) async fn send(
        &self,
        request: reqwest::Request,
        mode: ReadMode,
    ) -> std::result::Result<HttpResponse, TransportError> {
        let mut response = self.execute(request).await?;
        let status = response.status();
        if mode == ReadMode::Head && status.is_success() {
            let headers = std::mem::take(response.headers_mut());
            let rest = Chunks { response: Box::new(response), limit: Duration::MAX };
            return Ok(HttpResponse { status, headers, body: Ok(Bytes::new()), rest: Some(rest) });
        }
        let body = read(&mut response).await;
        let headers = std::mem::take(response.headers_mut());
        Ok(HttpResponse { status, headers, body, rest: None })
    }
}

impl Http {
    async fn execute(
        &self,
        request: reqwest::Request,
    ) -> std::result::Result<reqwest::Response, TransportError> {
        // Stubs learn what a write needs by answering it in memory.
        #[cfg(feature = "test-util")]
        if let Some(response) = super::stand_in::answer(&request) {
            return Ok(response);
        }
        self.client.execute(request).await.map_err(TransportError::sending)
    }
}

/// Reads the body. Most responses are one chunk, which is returned without a copy.
async fn read(response: &mut reqwest::Response) -> std::result::Result<Bytes, TransportError> {
    let Some(first) = response.chunk().await.map_err(TransportError::reading)? else {
        return Ok(Bytes::new());
    };
    let Some(second) = response.chunk().await.map_err(TransportError::reading)? else {
        return Ok(first);
    };
    // The number of announced bytes that are still missing.
    let rest = response.content_length().and_then(|length| usize::try_from(length).ok());
    let so_far = first.len() + second.len();
    let length = rest.map_or(2 * so_far, |rest| so_far.saturating_add(rest));
    let mut body = BytesMut::with_capacity(length.min(MAX_BODY));
    body.extend_from_slice(&first);
    body.extend_from_slice(&second);
    while let Some(chunk) = response.chunk().await.map_err(TransportError::reading)? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(TransportError::too_long());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

impl TransportError {
    /// A timeout: how far the request got is unknown.
    #[cold]
    pub(crate) fn timeout() -> Self {
        Self::unknown("timed out before the response was complete", None)
    }

    #[cold]
    fn sending(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_connect() {
            Self {
                what: "the service could not be reached",
                outcome: Outcome::NotSent,
                kind: ErrorKind::Unavailable,
                source: Some(error),
            }
        } else if error.is_builder() {
            Self {
                what: "the request could not be built",
                outcome: Outcome::NotSent,
                kind: ErrorKind::Invalid,
                source: Some(error),
            }
        } else {
            Self::unknown("the connection was lost before the response", Some(error))
        }
    }

    #[cold]
    fn reading(error: reqwest::Error) -> Self {
        Self::unknown("the answer was cut off", Some(error.without_url()))
    }

    #[cold]
    fn too_long() -> Self {
        Self { kind: ErrorKind::Decode, ..Self::unknown("the answer is over 64 MiB", None) }
    }

    fn unknown(what: &'static str, source: Option<reqwest::Error>) -> Self {
        Self { what, outcome: Outcome::Unknown, kind: ErrorKind::Unavailable, source }
    }
}

/// The content type of a response's body.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// The parts of an error response, as far as they are present.
#[derive(Debug, Default)]
pub(crate) struct ErrorText {
    pub(crate) code: Option<ErrorCode>,
    pub(crate) message: Option<String>,
    /// The index of the failed operation in a batch.
    pub(crate) operation: Option<usize>,
}

impl ErrorText {
    #[cold]
    pub(crate) fn of(headers: &HeaderMap, body: &[u8]) -> Self {
        if let Some(body) = ErrorBody::decode(body) {
            let operation = body.batch_index();
            return Self { code: Some(body.code), message: Some(body.message), operation };
        }
        let header = headers.get(ERROR_CODE).and_then(|code| code.to_str().ok());
        Self { code: header.map(|code| ErrorCode::new(code.to_owned())), ..Self::default() }
    }
}

/// Advice for an error response whose code does not show the reason.
#[cold]
pub(crate) fn advice(
    status: u16,
    headers: &HeaderMap,
    now: DateTime<Utc>,
) -> Option<Cow<'static, str>> {
    match status {
        300..=303 | 305..=399 => Some(
            "redirects are not followed, because requests are signed for one address; check the \
             endpoint"
                .into(),
        ),
        403 => {
            let theirs = parse_http_date(headers.get(header::DATE)?.to_str().ok()?)?;
            let minutes = (now - theirs).num_minutes();
            // The service tolerates a clock difference of 15 minutes.
            (minutes.abs() >= 10).then(|| {
                let way = if minutes > 0 { "ahead of" } else { "behind" };
                let minutes = minutes.abs();
                format!("this machine's clock is {minutes} minutes {way} the service's; correct it")
                    .into()
            })
        }
        _ => None,
    }
}

/// Configures rustls with the operating system's root certificates.
#[cfg(any(feature = "rustls", feature = "rustls-no-provider"))]
#[cfg_attr(
    feature = "rustls",
    expect(clippy::unnecessary_wraps, reason = "it fails where there is no provider")
)]
fn tls(builder: reqwest::ClientBuilder, secure: bool) -> Result<reqwest::ClientBuilder> {
    // Without a provider, reqwest would panic.
    #[cfg(not(feature = "rustls"))]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(Error::invalid("no cryptography provider of rustls is installed").advise(
            "install one when the program begins, or use the feature `rustls` of this crate",
        ));
    }
    // Another crate of the program may have enabled native-tls.
    let builder = builder.tls_backend_rustls();
    // Reading the system's root certificates takes longer than a whole test against a local server.
    Ok(if secure { builder } else { builder.tls_certs_only([]) })
}

/// Configures the operating system's TLS, or none.
#[cfg(not(any(feature = "rustls", feature = "rustls-no-provider")))]
fn tls(builder: reqwest::ClientBuilder, secure: bool) -> Result<reqwest::ClientBuilder> {
    if secure && !cfg!(feature = "native-tls") {
        return Err(Error::invalid(
            "an https endpoint needs the feature `rustls` or `native-tls` of this crate",
        ));
    }
    Ok(builder)
}
