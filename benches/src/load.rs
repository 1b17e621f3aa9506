//! The load generator: connections that send bytes as they are and read answers as little as
//! possible.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Open connections to a server.
#[derive(Debug)]
pub struct Load {
    connections: Vec<Connection>,
}

impl Load {
    pub async fn open(host: &str, connections: usize) -> io::Result<Self> {
        let opening = (0..connections).map(|_| Connection::open(host));
        Ok(Self { connections: try_join_all(opening).await? })
    }

    /// Performs `operations` over all connections, one at a time over each; returns how long each
    /// took.
    pub async fn run(&mut self, operations: &[Operation]) -> io::Result<Vec<Duration>> {
        let next = Cell::new(0);
        let next = &next;
        let each = self.connections.iter_mut().map(|connection| async move {
            let mut took = Vec::with_capacity(operations.len());
            loop {
                let at = next.replace(next.get() + 1);
                let Some(operation) = operations.get(at) else { break Ok::<_, io::Error>(took) };
                let start = Instant::now();
                connection.perform(operation, None).await?;
                took.push(start.elapsed());
            }
        });
        Ok(try_join_all(each).await?.concat())
    }

    /// Sends one request and returns the body of the answer.
    pub async fn ask(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        let connection = self.connections.first_mut().ok_or(io::ErrorKind::NotConnected)?;
        let in_chunks = connection.exchange(request, Some(&mut answer)).await?;
        Ok(if in_chunks { joined(&answer) } else { answer })
    }

    /// Performs one operation and returns the bodies of its answers.
    pub async fn perform(&mut self, operation: &Operation) -> io::Result<Vec<u8>> {
        let mut answers = Vec::new();
        let connection = self.connections.first_mut().ok_or(io::ErrorKind::NotConnected)?;
        connection.perform(operation, Some(&mut answers)).await?;
        Ok(answers)
    }
}

/// Requests that are measured together, one after the other over the same connection.
pub struct Operation(pub Vec<Step>);

/// A request of an operation.
pub enum Step {
    Ready(Vec<u8>),
    /// A request that is written when the answer before it is there.
    After(Rc<Next>),
}

/// Writes a request from the body of the answer before it.
pub type Next = dyn Fn(&[u8]) -> Vec<u8>;

impl From<Vec<u8>> for Operation {
    fn from(request: Vec<u8>) -> Self {
        Self(vec![Step::Ready(request)])
    }
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Box<[u8]>,
}

impl Connection {
    pub(crate) async fn open(host: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; 256 << 10].into() })
    }

    async fn perform(
        &mut self,
        operation: &Operation,
        mut answers: Option<&mut Vec<u8>>,
    ) -> io::Result<()> {
        let mut answer = Vec::new();
        for (at, step) in operation.0.iter().enumerate() {
            let written;
            let request = match step {
                Step::Ready(request) => request,
                Step::After(write) => {
                    written = write(&answer);
                    &written
                }
            };
            answer.clear();
            if answers.is_none() && !matches!(operation.0.get(at + 1), Some(Step::After(_))) {
                self.exchange(request, None).await?;
                continue;
            }
            if self.exchange(request, Some(&mut answer)).await? {
                answer = joined(&answer);
            }
            if let Some(answers) = &mut answers {
                answers.extend_from_slice(&answer);
            }
        }
        Ok(())
    }

    /// Sends a request and reads its answer, which must be a success; returns whether its body was
    /// in chunks.
    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        mut kept: Option<&mut Vec<u8>>,
    ) -> io::Result<bool> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        let head = loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
            if let Some(at) = find(&self.buffer[..filled], b"\r\n\r\n") {
                break at + 4;
            }
        };
        let (text, rest) = self.buffer[..filled].split_at(head);
        if text.get(9) != Some(&b'2') {
            let answer = String::from_utf8_lossy(&self.buffer[..filled]).into_owned();
            return Err(io::Error::other(answer));
        }
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(rest);
        }
        let length = length(text);
        let mut read = rest.len();
        let mut tail = Tail::default();
        tail.push(rest);
        while length.map_or(!tail.is_last_chunk(), |length| read < length) {
            let more = self.stream.read(&mut self.buffer).await?;
            if more == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            read += more;
            let more = &self.buffer[..more];
            tail.push(more);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(more);
            }
        }
        Ok(length.is_none())
    }
}

/// The last bytes of a response, which show the end of a chunked body.
#[derive(Default)]
struct Tail([u8; 5]);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        for &byte in &bytes[bytes.len().saturating_sub(5)..] {
            self.0.rotate_left(1);
            self.0[4] = byte;
        }
    }

    fn is_last_chunk(&self) -> bool {
        &self.0 == b"0\r\n\r\n"
    }
}

/// The length of the body; `None` for one in chunks.
pub(crate) fn length(head: &[u8]) -> Option<usize> {
    for line in head.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let value = value[1..].trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            return std::str::from_utf8(value).ok()?.parse().ok();
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            return None;
        }
    }
    Some(0)
}

pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Decodes a chunked body.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(chunks.len());
    while let Some(end) = find(chunks, b"\r\n") {
        let size = std::str::from_utf8(&chunks[..end]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok()).unwrap_or_default();
        let chunk = chunks.get(end + 2..end + 2 + size).unwrap_or_default();
        if chunk.is_empty() {
            break;
        }
        body.extend_from_slice(chunk);
        chunks = chunks.get(end + 4 + size..).unwrap_or_default();
    }
    body
}

/// The number of occurrences of `marker` in a response.
pub fn count(answer: &[u8], marker: &str) -> usize {
    answer.windows(marker.len()).filter(|window| *window == marker.as_bytes()).count()
}

/// The value that a share of all, in percent, is below.
pub fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_decoded() {
        // From RFC 9112, 7.1, as servers write it.
        assert_eq!(joined(b"4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n"), b"Wikipedia");
        assert_eq!(joined(b"0\r\n\r\n"), b"");
    }
}
