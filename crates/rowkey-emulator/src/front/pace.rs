//! Limits how much is read from a connection at once until the sender of a request is
//! authenticated.
//!
//! The HTTP library reads into a buffer that grows to 128 KiB as long as each read fills it, and
//! keeps that buffer for the life of the connection. This is worth its memory for the bodies of
//! blobs. Before the request is accepted, and for a body that is only discarded, reads are small,
//! so that an unauthenticated connection holds at most two such pieces.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that are read at once before authentication. Most requests are shorter.
const SMALL: usize = 16 * 1024;

/// Whether a connection's current request has been accepted, so that its body is read at full
/// speed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<AtomicBool>);

impl Pace {
    pub(crate) fn set_full(&self, is_full: bool) {
        self.0.store(is_full, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection that is read at a [`Pace`].
#[derive(Debug)]
pub(crate) struct Paced<S> {
    stream: S,
    pace: Pace,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S, pace: Pace) -> Self {
        Self { stream, pace }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() <= SMALL || self.pace.is_full() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let mut small = ReadBuf::new(buffer.initialize_unfilled_to(SMALL));
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut small))?;
        let length = small.filled().len();
        buffer.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn reads_are_small_until_the_request_is_authorized() {
        let (near, mut far) = duplex(8 * SMALL);
        let pace = Pace::default();
        let mut paced = Paced::new(near, pace.clone());
        let sent: Vec<u8> = (0..=250).cycle().take(6 * SMALL).collect();
        far.write_all(&sent).await.unwrap();
        let mut buffer = vec![0; 6 * SMALL];
        assert_eq!(paced.read(&mut buffer).await.unwrap(), SMALL);
        pace.set_full(true);
        assert_eq!(paced.read(&mut buffer[SMALL..5 * SMALL]).await.unwrap(), 4 * SMALL);
        pace.set_full(false);
        assert_eq!(paced.read(&mut buffer[5 * SMALL..]).await.unwrap(), SMALL);
        assert_eq!(buffer, sent);
    }
}
