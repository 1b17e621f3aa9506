//! The body of a request. It is not read until the head has been accepted, so that nothing an
//! unauthenticated sender writes is buffered.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use hyper::body::{Body as _, Frame, Incoming};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use super::pace::Pace;

/// How much of a rejected request's body is still read. Many clients write the whole body before
/// they read the response, and would otherwise not see the error. This is the most that the
/// official libraries upload in one request.
const MAX_UNWANTED: u64 = 256 * 1024 * 1024;

/// The body of a request, read at most once.
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: Incoming,
    pace: Pace,
    /// The whole body, once it has been read.
    whole: Option<Result<Bytes, TooLong>>,
}

/// The error for a body that is longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl RequestBody {
    /// The body of a request on a connection with this pace.
    pub(crate) fn new(incoming: Incoming, pace: Pace) -> Self {
        Self { incoming, pace, whole: None }
    }

    /// Reads the whole body, unless it is longer than `max` bytes. Later calls return the same
    /// result.
    ///
    /// Returns an I/O error if the connection broke.
    pub(crate) async fn read(&mut self, max: usize) -> io::Result<Result<Bytes, TooLong>> {
        if let Some(whole) = &self.whole {
            return Ok(whole.clone());
        }
        self.pace.set_full(true);
        let whole = self.receive(max).await?;
        self.whole = Some(whole.clone());
        Ok(whole)
    }

    /// The incoming body, for callers that read it in pieces.
    pub(crate) fn incoming(&mut self) -> &mut Incoming {
        self.pace.set_full(true);
        &mut self.incoming
    }

    /// Reads and drops the rest of the body, unless the client waits for `100 Continue`.
    pub(crate) async fn discard(&mut self, headers: &HeaderMap) {
        if awaits_continue(headers) {
            return;
        }
        self.pace.set_full(false);
        let mut length = 0;
        while let Some(Ok(frame)) = frame(&mut self.incoming).await {
            length += frame.data_ref().map_or(0, |data| data.len() as u64);
            if length > MAX_UNWANTED {
                return;
            }
        }
    }

    async fn receive(&mut self, max: usize) -> io::Result<Result<Bytes, TooLong>> {
        let body = &mut self.incoming;
        if body.is_end_stream() {
            return Ok(Ok(Bytes::new()));
        }
        if body.size_hint().lower() > max as u64 {
            return Ok(Err(TooLong));
        }
        let mut first = Bytes::new();
        let mut all: Option<BytesMut> = None;
        let mut length = 0;
        while let Some(received) = frame(body).await {
            let Ok(data) = received.map_err(io::Error::other)?.into_data() else { continue };
            length += data.len();
            if length > max {
                return Ok(Err(TooLong));
            }
            if first.is_empty() {
                // Most bodies arrive in one piece, which is not copied.
                first = data;
            } else {
                let expected = usize::try_from(body.size_hint().lower()).unwrap_or_default();
                let all = all.get_or_insert_with(|| {
                    let mut all = BytesMut::with_capacity(expected.min(max) + length);
                    all.extend_from_slice(&first);
                    all
                });
                all.extend_from_slice(&data);
            }
        }
        Ok(Ok(all.map_or(first, BytesMut::freeze)))
    }
}

/// The next frame, or `None` at the end.
pub(crate) async fn frame(body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

impl Drop for RequestBody {
    /// The sender of the next request is not authenticated yet.
    fn drop(&mut self) {
        self.pace.set_full(false);
    }
}

/// The error for a body that is longer than the limit for bodies read into memory.
pub(crate) fn too_large(max: usize) -> Rejection {
    Rejection::new(ErrorCode::REQUEST_BODY_TOO_LARGE).detail("MaxLimit", max.to_string())
}

/// Whether the client sends the body only after `100 Continue`.
fn awaits_continue(headers: &HeaderMap) -> bool {
    headers
        .get(header::EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}
