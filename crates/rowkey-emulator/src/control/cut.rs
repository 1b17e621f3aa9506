//! Truncated responses: the head announces a longer body than is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Collected, Either};
use hyper::body::{Body, Frame, SizeHint};

use crate::front::respond::{HttpResponse, ResponseBody};

/// A whole or truncated response.
pub(crate) type SentResponse = Response<Either<ResponseBody, Cut>>;

/// The beginning of a body.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The bytes still to be handed to the connection.
    data: Bytes,
    /// The announced length of the whole body.
    announced: u64,
    paused: bool,
}

/// A whole response.
pub(crate) fn whole(answer: HttpResponse) -> SentResponse {
    answer.map(Either::Left)
}

/// Truncates a response to its head and at most `bytes` of its body, always less than the whole
/// body. `None` for a response without a body, which cannot be truncated.
pub(crate) async fn cut(answer: HttpResponse, bytes: usize) -> Option<SentResponse> {
    let (head, body) = answer.into_parts();
    let mut data = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let length = data.len();
    data.truncate(bytes.min(length.checked_sub(1)?));
    let cut = Cut { data, announced: length as u64, paused: false };
    Some(Response::from_parts(head, Either::Right(cut)))
}

/// The error that closes the connection.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "closed by an injected fault")
}

impl Body for Cut {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if !self.data.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.data)))));
        }
        if !self.paused {
            // On an error, hyper discards bytes it has not written yet. While the body is pending,
            // it writes them.
            self.paused = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(closed())))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.announced)
    }
}
