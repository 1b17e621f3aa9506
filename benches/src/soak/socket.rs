//! A connection for threads that block: what it sends is written beforehand, what it gets is read
//! whole.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::load::{find, length};

/// A server without a response for this time hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open connection.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

/// A received response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Socket {
    pub(crate) fn open(host: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: vec![0; 8 << 10] })
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.stream.write_all(request)?;
        self.receive()
    }

    /// Reads an answer.
    pub(crate) fn receive(&mut self) -> io::Result<Answer<'_>> {
        let mut filled = 0;
        let head = loop {
            filled += self.more(filled)?;
            if let Some(at) = find(&self.buffer[..filled], b"\r\n\r\n") {
                break at + 4;
            }
        };
        let end = head + length(&self.buffer[..head]).ok_or(io::ErrorKind::InvalidData)?;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        while filled < end {
            filled += self.more(filled)?;
        }
        Ok(Answer { head: &self.buffer[..head], body: &self.buffer[head..end] })
    }

    fn more(&mut self, filled: usize) -> io::Result<usize> {
        match self.stream.read(&mut self.buffer[filled..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

impl<'a> Answer<'a> {
    /// Its status.
    pub(crate) fn status(&self) -> u16 {
        let status = self.head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        status.and_then(|digits| digits.parse().ok()).unwrap_or_default()
    }

    /// Refuses any other status.
    pub(crate) fn expect(self, status: u16) -> io::Result<Self> {
        if self.status() == status {
            return Ok(self);
        }
        let (head, body) = (self.head.escape_ascii(), self.body.escape_ascii());
        Err(io::Error::other(format!("not {status}: {head}{body}")))
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        let head = std::str::from_utf8(self.head).ok()?;
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Where the next page begins.
    pub(crate) fn next(&self) -> Option<(&'a str, &'a str)> {
        let partition = self.header("x-ms-continuation-NextPartitionKey")?;
        Some((partition, self.header("x-ms-continuation-NextRowKey").unwrap_or_default()))
    }

    /// Whether its body contains `part`.
    pub(crate) fn contains(&self, part: &[u8]) -> bool {
        find(self.body, part).is_some()
    }
}
