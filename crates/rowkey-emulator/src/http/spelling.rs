//! Keeps the case of metadata names, which are header names and lose it in the HTTP library. A
//! [`Connection`] reads the head of each request before the library does, and rewrites the head of
//! each response after the library.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use memchr::memmem;
use rowkey_wire::headers::METADATA_PREFIX;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::op::metadata::Spelling;

const END: &[u8] = b"\r\n\r\n";
/// What may precede the head of a response.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// The longest head that is read here. The HTTP library accepts longer ones, whose metadata names
/// are then in lower case.
const MAX_HEAD: usize = 64 * 1024;

/// The spellings that a connection and the request handlers exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The bytes received so far of the head of the next request.
    head: Vec<u8>,
    /// Whether the incoming bytes belong to a body.
    in_body: bool,
    /// The spelling of names in the next response.
    answer: Spelling,
}

impl Heads {
    /// Attaches the spelling of its metadata to a request.
    pub(crate) fn arrived<B>(&self, request: &mut Request<B>) {
        let mut state = self.state();
        state.in_body = true;
        if request.headers().keys().any(|name| name.as_str().starts_with(METADATA_PREFIX)) {
            let spelling = Spelling::of_head(&state.head);
            request.extensions_mut().insert(spelling);
        }
        state.head.clear();
    }

    /// Takes the spelling from a response that is about to be sent.
    pub(crate) fn answered<B>(&self, answer: &mut Response<B>) {
        let mut state = self.state();
        state.in_body = false;
        state.answer = answer.extensions_mut().remove().unwrap_or_default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn read(&mut self, bytes: &[u8]) {
        if self.in_body {
            return;
        }
        // The end of the head may be split between reads.
        let before = self.head.len();
        let from = before.saturating_sub(END.len() - 1);
        self.head.extend_from_slice(&bytes[..bytes.len().min(MAX_HEAD - before)]);
        if let Some(at) = memmem::find(&self.head[from..], END) {
            self.head.truncate(from + at + END.len());
            self.in_body = true;
        }
        self.in_body |= self.head.len() == MAX_HEAD;
    }

    /// The bytes to write in place of `bytes`, if they begin with a response whose names must be
    /// respelled.
    fn respell(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.answer.is_empty() {
            return None;
        }
        let begin = if bytes.starts_with(CONTINUE) { CONTINUE.len() } else { 0 };
        let end = begin + memmem::find(&bytes[begin..], END)?;
        let mut bytes = bytes.to_vec();
        std::mem::take(&mut self.answer).restore(&mut bytes[begin..end]);
        Some(bytes)
    }
}

/// A connection whose heads are read and rewritten.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: S,
    heads: Heads,
    /// Rewritten bytes that were reported as written, and how many of them really are.
    respelled: (Vec<u8>, usize),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn new(stream: S, heads: Heads) -> Self {
        Self { stream, heads, respelled: (Vec::new(), 0) }
    }

    /// Writes the rewritten bytes.
    fn poll_respelled(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (bytes, written) = &mut self.respelled;
        while *written < bytes.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &bytes[*written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *written += count,
            }
        }
        *bytes = Vec::new();
        *written = 0;
        Poll::Ready(Ok(()))
    }

    /// Replaces a write whose names must be respelled.
    fn poll_respell(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<Option<usize>>> {
        ready!(self.poll_respelled(context))?;
        let Some(respelled) = self.heads.state().respell(bytes) else {
            return Poll::Ready(Ok(None));
        };
        self.respelled = (respelled, 0);
        if let Poll::Ready(Err(error)) = self.poll_respelled(context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(Some(bytes.len())))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        this.heads.state().read(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match ready!(this.poll_respell(context, bytes))? {
            Some(count) => Poll::Ready(Ok(count)),
            None => Pin::new(&mut this.stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // The head is in the first slice.
        let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        match ready!(this.poll_respell(context, first))? {
            Some(count) => Poll::Ready(Ok(count)),
            None => Pin::new(&mut this.stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_respelled(context))?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_respelled(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    fn request() -> Request<()> {
        Request::builder().header("x-ms-meta-mixedcase", "1").body(()).unwrap()
    }

    #[tokio::test]
    async fn split_heads_are_rewritten_and_bodies_are_not() {
        let (near, mut far) = duplex(1024);
        let heads = Heads::default();
        let mut connection = Connection::new(near, heads.clone());
        let mut buffer = [0; 1024];
        for piece in
            ["PUT /q HTTP/1.1\r\nx-ms-meta-Mixed", "Case: 1\r\n\r", "\nx-ms-meta-MIXEDCASE: 2"]
        {
            far.write_all(piece.as_bytes()).await.unwrap();
            assert_eq!(connection.read(&mut buffer).await.unwrap(), piece.len());
        }
        let mut first = request();
        heads.arrived(&mut first);
        let expected = Spelling::of_head(b"x-ms-meta-MixedCase: 1");
        assert_eq!(first.extensions().get(), Some(&expected));

        // Bytes that arrive while the request is answered are skipped; the next head is read.
        let mut come = async |bytes: &[u8]| {
            far.write_all(bytes).await.unwrap();
            connection.read_exact(&mut buffer[..bytes.len()]).await.unwrap();
        };
        come(b"x-ms-meta-MIXEDCASE: 3\r\n\r\n").await;
        heads.answered(&mut Response::new(()));
        come(b"PUT /q HTTP/1.1\r\nX-Ms-Meta-mixedcase: 1\r\n\r\n").await;
        let mut second = request();
        heads.arrived(&mut second);
        let expected = Spelling::of_head(b"X-Ms-Meta-mixedcase: 1");
        assert_eq!(second.extensions().get(), Some(&expected));
    }

    #[tokio::test]
    async fn heads_are_rewritten_across_partial_writes() {
        let (near, mut far) = duplex(7);
        let heads = Heads::default();
        let mut connection = Connection::new(near, heads.clone());
        let mut answer = Response::new(());
        let spelling = Spelling::of_head(b"x-ms-meta-UP: 1");
        answer.extensions_mut().insert(spelling);
        heads.answered(&mut answer);
        let lower = "HTTP/1.1 200 OK\r\nx-ms-meta-up: x\r\n\r\nx-ms-meta-up: body\n";
        let writing = async {
            let (head, body) = lower.as_bytes().split_at(lower.len() - 3);
            let slices = [io::IoSlice::new(b""), io::IoSlice::new(head), io::IoSlice::new(body)];
            assert_eq!(connection.write_vectored(&slices).await.unwrap(), head.len());
            connection.write_all(body).await.unwrap();
            connection.write_all(lower.as_bytes()).await.unwrap();
            connection.shutdown().await.unwrap();
        };
        let mut text = String::new();
        let reading = far.read_to_string(&mut text);
        tokio::join!(writing, reading).1.unwrap();
        let spelled = lower.replacen("meta-up", "meta-UP", 1);
        // Only the response that the spelling belongs to.
        assert_eq!(text, format!("{spelled}{lower}"));
    }
}
