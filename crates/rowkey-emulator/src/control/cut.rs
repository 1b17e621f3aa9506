//! Truncated responses: the head announces a longer body than is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame, SizeHint};

use crate::front::respond::{HttpResponse, ResponseBody};

/// A whole or truncated response.
pub(crate) type SentResponse = Response<SentBody>;

/// A whole or truncated body.
#[derive(Debug)]
pub(crate) enum SentBody {
    Whole(ResponseBody),
    Cut(Cut),
}

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
    answer.map(SentBody::Whole)
}

/// Truncates a response to its head and at most `bytes` of its body, always less than the whole
/// body. `None` for a response without a body, which cannot be truncated.
pub(crate) fn cut(answer: HttpResponse, bytes: usize) -> Option<SentResponse> {
    let (head, body) = answer.into_parts();
    let mut data = body.into_bytes();
    let length = data.len();
    data.truncate(bytes.min(length.checked_sub(1)?));
    let cut = Cut { data, announced: length as u64, paused: false };
    Some(Response::from_parts(head, SentBody::Cut(cut)))
}

/// The error that closes the connection.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "closed by an injected fault")
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Self::Cut(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Cut(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Cut(body) => body.size_hint(),
        }
    }
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
