//! The connection pool, one attempt, and the meaning of its failures.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, Request, StatusCode, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::headers::{ERROR_CODE, REQUEST_ID, parse_http_date};
use rowkey_wire::shown;

use super::connect::{BoxError, Connector};
use super::error_body::ErrorBody;
use crate::cost;
use crate::endpoint::Endpoint;
use crate::error::{ErrorKind, Outcome, Result};
use crate::options::connection::ConnectionOptions;

/// The longest body that is read whole. Pages have at most a thousand entities and about 4 MiB.
const MAX_BODY: usize = 64 << 20;

/// A pool of connections. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Http(Arc<Pool>);

struct Pool {
    client: Client<Connector, Whole>,
    connector: Connector,
    options: ConnectionOptions,
}

shown!(Pool: options);

/// A response with any status. The body may be truncated.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: std::result::Result<Bytes, TransportError>,
    /// The body of a success, if only the head was requested.
    pub(crate) rest: Option<Chunks>,
}

impl HttpResponse {
    /// The bytes of the body that were read, or will be, as the head says.
    pub(crate) fn length(&self) -> u64 {
        match &self.body {
            Ok(_) if self.rest.is_some() => content_length(&self.headers).unwrap_or(0),
            Ok(body) => body.len() as u64,
            Err(_) => 0,
        }
    }

    /// The service's id of the request.
    pub(crate) fn request_id(&self) -> Option<&str> {
        self.headers.get(REQUEST_ID)?.to_str().ok()
    }
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
    body: Box<Received>,
    /// The time limit for a piece.
    limit: Duration,
    /// What counts the pieces.
    received: Option<cost::Received>,
}

impl Chunks {
    /// The next piece, or `None` at the end.
    pub(crate) async fn next(&mut self) -> std::result::Result<Option<Bytes>, TransportError> {
        let chunk = match tokio::time::timeout(self.limit, self.body.chunk()).await {
            Ok(chunk) => chunk?,
            Err(_) => return Err(TransportError::timeout()),
        };
        if let (Some(received), Some(chunk)) = (&self.received, &chunk) {
            received.add(chunk.len() as u64);
        }
        Ok(chunk)
    }

    /// Counts the pieces.
    pub(crate) fn counted_by(&mut self, received: cost::Received) {
        self.received = Some(received);
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
    /// The same as one word, for metrics.
    pub(crate) class: &'static str,
    pub(crate) outcome: Outcome,
    /// Invalid and Decode are permanent; Unavailable may be transient.
    pub(crate) kind: ErrorKind,
    pub(crate) source: Option<BoxError>,
}

impl Http {
    /// A pool for these endpoints.
    pub(crate) fn new<'a>(
        options: ConnectionOptions,
        endpoints: impl IntoIterator<Item = &'a Endpoint>,
    ) -> Result<Self> {
        let connector = Connector::new(&options, endpoints)?;
        Ok(Self::with(connector, options))
    }

    /// A pool of the same kind.
    pub(crate) fn another(&self) -> Self {
        Self::with(self.0.connector.clone(), self.0.options.clone())
    }

    fn with(connector: Connector, options: ConnectionOptions) -> Self {
        // Requests are not repeated but on a connection that was closed before anything was sent: only the pipeline
        // knows what may be retried.
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_timeout)
            .build(connector.clone());
        Self(Arc::new(Pool { client, connector, options }))
    }

    /// Sends a request once and reads the whole response, or the head of a success.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
        mode: ReadMode,
    ) -> std::result::Result<HttpResponse, TransportError> {
        let (head, mut body) = self.execute(request).await?.into_parts();
        let (status, headers) = (head.status, head.headers);
        if mode == ReadMode::Head && status.is_success() {
            let rest = Chunks { body: Box::new(body), limit: Duration::MAX, received: None };
            return Ok(HttpResponse { status, headers, body: Ok(Bytes::new()), rest: Some(rest) });
        }
        let body = body.read().await;
        Ok(HttpResponse { status, headers, body, rest: None })
    }

    async fn execute(
        &self,
        mut request: Request<Bytes>,
    ) -> std::result::Result<http::Response<Received>, TransportError> {
        // Stubs learn what a write needs by answering it in memory.
        #[cfg(feature = "test-util")]
        if let Some(response) = super::stand_in::answer(&request) {
            return Ok(response.map(|body| Received::InMemory(Whole(body))));
        }
        if let Some(value) = self.0.connector.proxy_authorization(request.uri()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        let response = self.0.client.request(request.map(Whole)).await;
        response.map(|response| response.map(Received::OnTheWay)).map_err(TransportError::sending)
    }
}

/// A body in memory, which is sent as one piece.
struct Whole(Bytes);

impl Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        let piece = std::mem::take(&mut self.0);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// The body of a response.
enum Received {
    OnTheWay(Incoming),
    /// From stubs.
    #[cfg(feature = "test-util")]
    InMemory(Whole),
}

impl Received {
    /// The next piece, or `None` at the end. Trailers are skipped: no service sends any.
    async fn chunk(&mut self) -> std::result::Result<Option<Bytes>, TransportError> {
        loop {
            let frame = match self {
                Self::OnTheWay(body) => poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))
                    .await
                    .transpose()
                    .map_err(TransportError::reading)?,
                #[cfg(feature = "test-util")]
                Self::InMemory(whole) => {
                    return Ok(Some(std::mem::take(&mut whole.0)).filter(|body| !body.is_empty()));
                }
            };
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => return Ok(Some(data)),
                Some(Err(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// The number of announced bytes that are still missing.
    fn announced(&self) -> Option<usize> {
        match self {
            Self::OnTheWay(body) => usize::try_from(body.size_hint().exact()?).ok(),
            #[cfg(feature = "test-util")]
            Self::InMemory(_) => None,
        }
    }

    /// Reads the body. Most responses are one chunk, which is returned without a copy.
    async fn read(&mut self) -> std::result::Result<Bytes, TransportError> {
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.chunk().await? else { return Ok(first) };
        let so_far = first.len() + second.len();
        let length = self.announced().map_or(2 * so_far, |rest| so_far.saturating_add(rest));
        let mut body = BytesMut::with_capacity(length.min(MAX_BODY));
        body.extend_from_slice(&first);
        body.extend_from_slice(&second);
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(TransportError::too_long());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }
}

impl TransportError {
    /// A timeout: how far the request got is unknown.
    #[cold]
    pub(crate) fn timeout() -> Self {
        Self::unknown("timed out before the response was complete", "timeout", None)
    }

    #[cold]
    fn sending(error: hyper_util::client::legacy::Error) -> Self {
        if error.is_connect() {
            return Self {
                what: "the service could not be reached",
                class: "unreachable",
                outcome: Outcome::NotSent,
                kind: ErrorKind::Unavailable,
                source: Some(error.into()),
            };
        }
        Self::unknown(
            "the connection was lost before the response",
            "disconnected",
            Some(error.into()),
        )
    }

    #[cold]
    fn reading(error: hyper::Error) -> Self {
        Self::unknown("the answer was cut off", "truncated", Some(error.into()))
    }

    #[cold]
    fn too_long() -> Self {
        let unknown = Self::unknown("the answer is over 64 MiB", "too_long", None);
        Self { kind: ErrorKind::Decode, ..unknown }
    }

    fn unknown(what: &'static str, class: &'static str, source: Option<BoxError>) -> Self {
        Self { what, class, outcome: Outcome::Unknown, kind: ErrorKind::Unavailable, source }
    }
}

/// The length of a response's body, as its head says.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
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
