//! A connection of the barest kind: requests are signed, written as bytes, and answers read.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use rowkey_emulator::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Server, Service};
use rowkey_wire::auth::Resource;
use rowkey_wire::auth::{Sas, Scheme, SigningKey, Unsigned, authorization, string_to_sign};
use rowkey_wire::headers::http_date;

use crate::corpus::Request;

/// A server without a response for this time hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// A longer head need not be answered: the server may end the connection while it is sent.
const MAX_HEAD: usize = 64 * 1024;
/// Nor need one with more headers.
const MAX_HEADERS: usize = 90;

/// How a request is authorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Key,
    /// A signature for the whole account, which does not cover the request.
    Sas,
    None,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// Writes requests for a server.
pub(crate) struct Signer {
    key: SigningKey,
    date: String,
    sas: String,
}

/// A service, and a connection to it that is used again while it lasts.
pub(crate) struct Connection {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Signer {
    pub(crate) fn new(server: &Server) -> Self {
        let key = SigningKey::from_base64(DEVELOPMENT_KEY).unwrap();
        let granted = "sv=2019-02-02&ss=bqt&srt=sco&sp=rwdlacup&se=2099-01-01T00:00:00Z&sig=";
        let mut sas = Sas::from_query(granted).unwrap();
        sas.sign(&key, DEVELOPMENT_ACCOUNT, Resource::Table("")).unwrap();
        let date = http_date(server.clock().now().to_chrono());
        Self { key, date, sas: sas.encode() }
    }

    /// The request's bytes up to its body, without what frames it and without the empty line.
    pub(crate) fn head(&self, request: &Request, access: Access) -> Vec<u8> {
        let mut target = format!("/{DEVELOPMENT_ACCOUNT}").into_bytes();
        target.extend_from_slice(&request.target);
        if access == Access::Sas {
            target.push(if target.contains(&b'?') { b'&' } else { b'?' });
            target.extend_from_slice(self.sas.as_bytes());
        }
        let mut headers = request.headers.clone();
        if request.header("x-ms-date").is_none() {
            headers.push(("x-ms-date".to_owned(), self.date.clone().into_bytes()));
        }
        if access == Access::Key
            && request.header("authorization").is_none()
            && let Some(value) = self.authorization(request, &target, &headers)
        {
            headers.push(("authorization".to_owned(), value.into_bytes()));
        }
        let mut head = request.method.clone().into_bytes();
        head.push(b' ');
        head.extend_from_slice(&target);
        head.extend_from_slice(b" HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in &headers {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        head
    }

    /// `None` for what cannot be signed, because it is no HTTP.
    fn authorization(
        &self,
        request: &Request,
        target: &[u8],
        headers: &[(String, Vec<u8>)],
    ) -> Option<String> {
        let target = std::str::from_utf8(target).ok()?;
        // What follows a `#` is not part of an address.
        let target = target.split('#').next().unwrap_or_default();
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(
                name.parse::<HeaderName>().ok()?,
                HeaderValue::from_bytes(value.trim_ascii()).ok()?,
            );
        }
        let content_length = request.body.len() as u64;
        let unsigned =
            Unsigned { method: &request.method, path, query, headers: &all, content_length };
        let (service, scheme) = (request.service, Scheme::SharedKey);
        let text = string_to_sign(service, scheme, DEVELOPMENT_ACCOUNT, &unsigned);
        Some(authorization(scheme, DEVELOPMENT_ACCOUNT, &self.key.sign(&text)).concat())
    }
}

/// Whether it is HTTP, as far as a server must answer it.
pub(crate) fn is_whole(request: &Request) -> bool {
    let size: usize =
        request.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    request.headers.len() <= MAX_HEADERS
        && size + request.target.len() <= MAX_HEAD
        && request.target.iter().all(|byte| !byte.is_ascii_control() && *byte != b' ')
        && request.headers.iter().all(|(name, value)| {
            HeaderName::from_bytes(name.as_bytes()).is_ok()
                && HeaderValue::from_bytes(value).is_ok()
        })
}

impl Connection {
    pub(crate) fn to(server: &Server, service: Service) -> Self {
        let endpoint = match service {
            Service::Blob => server.blob_endpoint(),
            Service::Queue => server.queue_endpoint(),
            Service::Table => server.table_endpoint(),
        };
        Self { address: endpoint.split('/').nth(2).unwrap().to_owned(), stream: None }
    }

    /// Sends a whole request and reads its answer.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<Answer> {
        if let Some(stream) = self.stream.take()
            && let Ok(answer) = self.exchange(stream, bytes)
        {
            return Ok(answer);
        }
        // The server may have ended a connection that was used before.
        let stream = self.connect()?;
        self.exchange(stream, bytes)
    }

    /// The socket, to use as no client should.
    pub(crate) fn stream(&mut self) -> io::Result<&mut TcpStream> {
        if self.stream.is_none() {
            self.stream = Some(self.connect()?);
        }
        let stream = self.stream.as_mut().map(BufReader::get_mut);
        stream.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Whether the server has not ended the connection.
    pub(crate) fn is_open(&mut self) -> bool {
        let Some(stream) = self.stream.as_mut().map(BufReader::get_mut) else { return false };
        let nothing = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        let is_open = matches!(nothing, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false).is_ok() && is_open
    }

    /// Reads the response to the bytes written to the socket.
    pub(crate) fn receive(&mut self) -> io::Result<Answer> {
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        self.answer(stream, true)
    }

    /// Sends something that may be no request, and reads what comes until the server ends the
    /// connection.
    pub(crate) fn send_broken(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = self.connect()?;
        let mut answers = Vec::new();
        // The server may have heard enough at any time, and reset the connection then.
        if stream.get_mut().write_all(bytes).is_ok()
            && stream.get_mut().shutdown(Shutdown::Write).is_ok()
            && let Err(error) = stream.read_to_end(&mut answers)
            && matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
        {
            return Err(error);
        }
        Ok(answers)
    }

    fn connect(&self) -> io::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(BufReader::new(stream))
    }

    fn exchange(&mut self, mut stream: BufReader<TcpStream>, request: &[u8]) -> io::Result<Answer> {
        stream.get_mut().write_all(request)?;
        self.answer(stream, !request.starts_with(b"HEAD "))
    }

    fn answer(&mut self, mut stream: BufReader<TcpStream>, has_body: bool) -> io::Result<Answer> {
        let (status, headers) = loop {
            let line = read_line(&mut stream)?;
            let status =
                line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
            let Some(status) = status else {
                return Err(io::Error::other(format!("the answer begins with {line:?}")));
            };
            let mut headers = HashMap::new();
            loop {
                let line = read_line(&mut stream)?;
                let Some((name, value)) = line.trim_end().split_once(':') else { break };
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            if status != 100 {
                break (status, headers);
            }
        };
        let has_body = has_body && !matches!(status, 204 | 304);
        let length = match headers.get("content-length").map(|length| length.parse()) {
            _ if !has_body => 0,
            Some(Ok(length)) => length,
            _ => return Err(io::Error::other("the answer does not say how long it is")),
        };
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        if headers.get("connection").is_none_or(|value| !value.eq_ignore_ascii_case("close")) {
            self.stream = Some(stream);
        }
        Ok(Answer { status, headers, body })
    }
}

/// A line, which need not be UTF-8: the client's request id is echoed unchanged.
fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}
