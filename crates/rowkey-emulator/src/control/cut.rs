//! An answer that breaks off: its head announces more than comes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Collected, Either};
use hyper::body::{Body, Frame, SizeHint};

use crate::respond::{Answer, AnswerBody};

/// What is sent: an answer, or a part of one.
pub(crate) type Sent = Response<Either<AnswerBody, Cut>>;

/// The beginning of a body.
#[derive(Debug)]
pub(crate) struct Cut {
    /// What is still to be given to the connection.
    data: Bytes,
    /// How long the whole body is.
    announced: u64,
    paused: bool,
}

/// All of an answer.
pub(crate) fn whole(answer: Answer) -> Sent {
    answer.map(Either::Left)
}

/// The head of an answer and at most `bytes` of its body, at least one fewer than it has. `None`
/// for an answer without a body, of which nothing can be cut off.
pub(crate) async fn cut(answer: Answer, bytes: usize) -> Option<Sent> {
    let (head, body) = answer.into_parts();
    let mut data = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let length = data.len();
    data.truncate(bytes.min(length.checked_sub(1)?));
    let cut = Cut { data, announced: length as u64, paused: false };
    Some(Response::from_parts(head, Either::Right(cut)))
}

/// The error that makes the connection end.
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
            // An error makes hyper forget what it has not written yet; while nothing comes, it
            // writes.
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
