//! The control plane over HTTP, by a client that knows nothing of it: what its requests do to the services is seen by
//! signed requests to these.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod contents;
mod data;
mod document;
mod faults;
mod identities;
mod journal;
mod limits;
#[path = "../../../rowkey-emulator/tests/http/support.rs"]
#[expect(dead_code, reason = "the emulator's tests need all of it")]
mod support;

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::net::TcpStream;

use rowkey_control::{Options, Plane};
use rowkey_emulator::{Server, Service};
use serde_json::Value;

use crate::support::Client;

/// A server with its control plane.
pub(crate) struct Control {
    pub(crate) plane: Plane,
}

/// What the control plane answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The detail of a problem.
    pub(crate) fn detail(&self) -> String {
        assert!(self.head.contains("application/problem+json"), "{self:?}");
        assert_eq!(self.json()["status"], self.status);
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}

impl Control {
    pub(crate) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let server = Server::builder().reuse_names(true).start().await.unwrap();
        Self { plane: Plane::start(server, options).await.unwrap() }
    }

    /// A signed connection to a service.
    pub(crate) fn client(&self, service: Service) -> Client {
        Client::to(self.plane.server(), service)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, body)
    }

    /// Sends a request, and checks that it succeeds.
    pub(crate) fn done(&self, method: &str, path: &str, body: &str) -> Reply {
        let reply = self.send(method, path, body);
        assert!((200..300).contains(&reply.status), "{method} {path}: {reply:?}");
        reply
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        self.send_with(method, path, &[], body.as_bytes())
    }

    pub(crate) fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        send(self.plane.url(), method, path, headers, body)
    }
}

/// Sends a request to an address, on a connection of its own.
pub(crate) fn send(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        let _ = write!(request, "Host: {address}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(request, "{name}: {value}\r\n");
    }
    let _ = write!(request, "Content-Length: {}\r\n\r\n", body.len());
    io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    io::Write::write_all(&mut stream, body).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(all[..end].to_vec()).unwrap().to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = all.split_off(end);
    let body = if head.contains("transfer-encoding: chunked") { unchunked(&body) } else { body };
    Reply { status, head, body }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
}
