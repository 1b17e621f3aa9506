//! Response bodies: one piece, or several pieces that are sent without being copied together.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// A body whose bytes are all in memory.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug, Default)]
pub(crate) struct Body {
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// The bytes left to send, over all pieces.
    length: u64,
}

impl Body {
    /// All bytes, copied together if they are several pieces.
    pub(crate) fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        let mut whole = BytesMut::with_capacity(usize::try_from(self.length).unwrap_or_default());
        whole.extend_from_slice(&self.first);
        self.rest.iter().for_each(|piece| whole.extend_from_slice(piece));
        whole.freeze()
    }
}

impl From<Bytes> for Body {
    fn from(first: Bytes) -> Self {
        let length = first.len() as u64;
        Self { first, rest: VecDeque::new(), length }
    }
}

impl FromIterator<Bytes> for Body {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut pieces = pieces.into_iter();
        let first = pieces.next().unwrap_or_default();
        let rest: VecDeque<Bytes> = pieces.collect();
        let length = first.len() as u64 + rest.iter().map(|piece| piece.len() as u64).sum::<u64>();
        Self { first, rest, length }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.length == 0 {
            return Poll::Ready(None);
        }
        let next = self.rest.pop_front().unwrap_or_default();
        let piece = std::mem::replace(&mut self.first, next);
        self.length -= piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.length == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn chunks_are_sent_in_order_with_a_known_total_length() {
        for pieces in [&["ab", "cde", "f"][..], &["abc"], &[]] {
            let body: Body =
                pieces.iter().map(|text| Bytes::from_static(text.as_bytes())).collect();
            let whole = pieces.concat();
            assert_eq!(body.size_hint().exact(), Some(whole.len() as u64));
            assert_eq!(body.is_end_stream(), whole.is_empty());
            assert_eq!(body.clone().into_bytes(), whole);
            assert_eq!(BodyExt::collect(body).await.unwrap().to_bytes(), whole);
        }
    }
}
