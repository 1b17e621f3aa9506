//! A server that follows a script, one connection after the other.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use rowkey_wire::auth::Service;

use crate::account::StorageAccount;
use crate::account::builder::StorageAccountBuilder;
use crate::clock::ManualClock;
use crate::credential::Credential;
use crate::options::ClientOptions;
use crate::transport::Request;

/// The behavior for the next connection.
pub(super) enum Act {
    /// Read the request, write these bytes, close.
    Answer(String),
    /// Read the request and close.
    Close,
    /// Read the request and do nothing.
    Hang,
    /// Break the connection in the middle of the request.
    Reset,
    /// Read the request, write these bytes and do nothing more.
    Stall(String),
}

pub(super) struct Script {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    requests: Vec<String>,
    /// Connections that stay open until the test ends.
    silent: Vec<TcpStream>,
}

impl Script {
    /// Serves one connection for each act, then refuses more.
    pub(super) fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let script = Self { address, seen: Arc::clone(&seen) };
        let acts: Vec<Act> = acts.into_iter().collect();
        thread::spawn(move || {
            for act in acts {
                let (stream, _) = listener.accept().unwrap();
                perform(act, stream, &seen);
            }
        });
        script
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/contoso", self.address)
    }

    /// The requests so far, with head and body as received.
    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }

    /// An account at this server whose waits are only recorded.
    pub(super) fn account(&self, options: ClientOptions) -> (StorageAccount, ManualClock) {
        account(&self.url(), options)
    }
}

fn perform(act: Act, mut stream: TcpStream, seen: &Mutex<Seen>) {
    if let Act::Reset = act {
        // Closing with unread bytes resets the connection.
        stream.read_exact(&mut [0]).unwrap();
        seen.lock().unwrap().requests.push(String::new());
        return;
    }
    let request = read_request(&mut stream);
    let mut seen = seen.lock().unwrap();
    seen.requests.push(request);
    match act {
        Act::Answer(bytes) => stream.write_all(bytes.as_bytes()).unwrap(),
        Act::Hang => seen.silent.push(stream),
        Act::Stall(bytes) => {
            stream.write_all(bytes.as_bytes()).unwrap();
            seen.silent.push(stream);
        }
        Act::Close | Act::Reset => {}
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the client went away");
        request.extend_from_slice(&buffer[..read]);
        let text = std::str::from_utf8(&request).unwrap();
        if let Some(end) = text.find("\r\n\r\n") {
            let length = header(text, "content-length").map_or(0, |text| text.parse().unwrap());
            if request.len() == end + 4 + length {
                return text.to_owned();
            }
        }
    }
}

/// The value of a header of a recorded request.
pub(super) fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let (head, _) = request.split_once("\r\n\r\n")?;
    head.lines().skip(1).find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Base64 of `account-key`.
pub(super) const KEY: &str = "YWNjb3VudC1rZXk=";

pub(super) fn builder(url: &str) -> StorageAccountBuilder {
    StorageAccount::builder()
        .credential(Credential::shared_key("contoso", KEY).unwrap())
        .endpoint(Service::Table, url)
        .unwrap()
        .seed(1)
}

pub(super) fn account(url: &str, options: ClientOptions) -> (StorageAccount, ManualClock) {
    let clock = ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap());
    let account = builder(url).clock(clock.clone()).options(options).build().unwrap();
    (account, clock)
}

/// Default options with short socket timeouts.
pub(super) fn options() -> ClientOptions {
    ClientOptions { attempt_timeout: Duration::from_secs(20), ..ClientOptions::default() }
}

pub(super) fn get() -> Request {
    let target = "/orders(PartitionKey='private',RowKey='1')".to_owned();
    let (service, method) = (Service::Table, Method::GET);
    Request { service, method, target, headers: HeaderMap::new(), body: Bytes::new() }
}

pub(super) fn post() -> Request {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    let body = r#"{"PartitionKey":"private","RowKey":"1"}"#.into();
    let (service, method) = (Service::Table, Method::POST);
    Request { service, method, target: "/orders".to_owned(), headers, body }
}

/// A response with these header lines and a body.
pub(super) fn answer(status: &str, headers: &str, body: &str) -> Act {
    let length = body.len();
    Act::Answer(format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\
         x-ms-request-id: 8a1b6e3f-0002-0011-5f5c-b1d2c3000000\r\n{headers}\r\n{body}"
    ))
}

/// An error response in the format of the service.
pub(super) fn refusal(status: &str, code: &str) -> Act {
    let body = format!(
        r#"{{"odata.error":{{"code":"{code}","message":{{"lang":"en-US","value":"No.\nRequestId:8a1b6e3f-0002-0011-5f5c-b1d2c3000000\nTime:2026-03-01T12:00:00.0000000Z"}}}}}}"#
    );
    let kind = "Content-Type: application/json;odata=nometadata;streaming=true;charset=utf-8\r\n";
    answer(status, kind, &body)
}
