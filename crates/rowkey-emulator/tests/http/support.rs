//! A minimal client: it signs requests, sends bytes over a socket and reads the response. It shares
//! no code with the real client.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use http::{HeaderMap, HeaderName, HeaderValue};
use rowkey_emulator::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Server, ServerClock};
use rowkey_wire::auth::{Scheme, Service, SigningKey, Unsigned, authorization, string_to_sign};
use rowkey_wire::headers::http_date;

/// A connection to a service.
pub(crate) struct Client {
    service: Service,
    stream: BufReader<TcpStream>,
    date: String,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    /// The headers' names as received.
    pub(crate) spelled: Vec<String>,
    pub(crate) body: String,
}

impl Answer {
    /// The error code, in any format.
    pub(crate) fn code(&self) -> &str {
        let after = |start: &str| self.body.split_once(start).map(|(_, rest)| rest);
        after("\"code\":\"")
            .and_then(|rest| rest.split_once('"'))
            .or_else(|| after("code>").and_then(|rest| rest.split_once('<')))
            .or_else(|| after("<Code>").and_then(|rest| rest.split_once('<')))
            .map_or("", |(code, _)| code)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

impl Client {
    /// A connection to the Table service.
    pub(crate) fn of(server: &Server) -> Self {
        Self::to(server, Service::Table)
    }

    /// A connection to any service.
    pub(crate) fn to(server: &Server, service: Service) -> Self {
        let endpoint = match service {
            Service::Blob => server.blob_endpoint(),
            Service::Queue => server.queue_endpoint(),
            Service::Table => server.table_endpoint(),
        };
        Self::at(service, endpoint, server.clock()).unwrap()
    }

    /// A connection to a service at an address, which dates requests by a clock.
    pub(crate) fn at(service: Service, endpoint: &str, clock: &ServerClock) -> io::Result<Self> {
        let address = endpoint.split('/').nth(2).unwrap();
        let date = http_date(clock.now().to_chrono());
        Ok(Self { service, stream: BufReader::new(TcpStream::connect(address)?), date })
    }

    /// Dates the next requests by the server's clock.
    pub(crate) fn set_date(&mut self, server: &Server) {
        self.date = http_date(server.clock().now().to_chrono());
    }

    /// Sends a signed request; `target` is below the account.
    pub(crate) fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.send_at(DEVELOPMENT_ACCOUNT, method, target, headers, body)
    }

    /// The same, with a different first segment of the path.
    pub(crate) fn send_at(
        &mut self,
        account: &str,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.try_send_at(account, method, target, headers, body).unwrap()
    }

    /// The same, but returns an error if the connection breaks.
    pub(crate) fn try_send_at(
        &mut self,
        account: &str,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Answer> {
        self.try_send_to(method, &format!("/{account}{target}"), headers, body)
    }

    /// The same with the whole path, for hosts that name the account.
    pub(crate) fn try_send_to(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Answer> {
        let request = self.signed_at(method, target, headers, body);
        self.raw(&request)
    }

    /// The head and the body of a signed request, for modification.
    pub(crate) fn signed(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> String {
        let target = format!("/{DEVELOPMENT_ACCOUNT}{target}");
        String::from_utf8(self.signed_at(method, &target, headers, body)).unwrap()
    }

    fn signed_at(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Vec<u8> {
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        let mut all = HeaderMap::new();
        let json = "application/json;odata=minimalmetadata";
        let usual = [
            ("host", "localhost"),
            ("x-ms-version", "2019-02-02"),
            ("x-ms-date", self.date.as_str()),
            ("accept", json),
            ("content-type", "application/json"),
        ];
        for (name, value) in usual.iter().chain(headers) {
            let name: HeaderName = name.parse().unwrap();
            all.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let mut sent = all.clone();
        for (name, value) in &all {
            // An empty value removes the header.
            if value.is_empty() {
                sent.remove(name);
            }
        }
        let content_length = body.len() as u64;
        let unsigned = Unsigned { method, path, query, headers: &sent, content_length };
        let text = string_to_sign(self.service, Scheme::SharedKey, DEVELOPMENT_ACCOUNT, &unsigned);
        let signature = SigningKey::from_base64(DEVELOPMENT_KEY).unwrap().sign(&text);
        if !all.contains_key("authorization") {
            let value = authorization(Scheme::SharedKey, DEVELOPMENT_ACCOUNT, &signature).concat();
            all.insert("authorization", value.parse().unwrap());
        }
        let mut request = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
        for (name, value) in &all {
            // An empty value removes the header.
            if !value.is_empty() {
                let written = headers.iter().find(|(written, _)| name == written);
                let name = written.map_or(name.as_str(), |(written, _)| written);
                request.extend_from_slice(name.as_bytes());
                request.extend_from_slice(b": ");
                request.extend_from_slice(value.as_bytes());
                request.extend_from_slice(b"\r\n");
            }
        }
        if !body.is_empty() || method != "GET" {
            request.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body.as_bytes());
        request
    }

    /// Sends raw bytes, and reads one response.
    pub(crate) fn raw(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.get_mut().write_all(request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
        let (mut headers, mut spelled) = (HashMap::new(), Vec::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
            spelled.push(name.to_owned());
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok());
        // Responses to HEAD state the length that the body would have.
        let length = length.filter(|_| !request.starts_with(b"HEAD ") && status != 304);
        let mut body = vec![0; length.unwrap_or(0)];
        self.stream.read_exact(&mut body)?;
        Ok(Answer { status, headers, spelled, body: String::from_utf8(body).unwrap() })
    }

    /// Everything received until the server closes the connection.
    pub(crate) fn until_closed(&mut self) -> String {
        let mut rest = String::new();
        self.stream.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Sends the start of a request, and waits until the server has given up on it.
    pub(crate) fn break_off(mut self, request: &[u8]) {
        self.stream.get_mut().write_all(request).unwrap();
        self.stream.get_mut().shutdown(Shutdown::Write).unwrap();
        let _ = self.stream.read_to_end(&mut Vec::new());
    }

    /// Creates a table.
    pub(crate) fn create(&mut self, name: &str) {
        let answer = self.send("POST", "/Tables", &[], &format!("{{\"TableName\":\"{name}\"}}"));
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Inserts an entity; `more` contains its other properties, each after a comma.
    pub(crate) fn insert(&mut self, table: &str, keys: (&str, &str), more: &str) -> Answer {
        let (partition_key, row_key) = keys;
        let body = format!(r#"{{"PartitionKey":"{partition_key}","RowKey":"{row_key}"{more}}}"#);
        self.send("POST", &format!("/{table}"), &[], &body)
    }
}
