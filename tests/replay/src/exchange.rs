//! A recorded exchange, and the files that hold them: JSON lines, with or without gzip.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use crate::operation::{self, Operation};
use crate::text;

/// Headers by lower-case name.
pub type Headers = BTreeMap<String, String>;

/// The service that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Table storage.
    Table,
    /// Queue storage.
    Queue,
    /// Blob storage.
    Blob,
}

impl Service {
    /// The name in endpoints and in signatures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Queue => "queue",
            Self::Blob => "blob",
        }
    }
}

/// How a request is authorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// Shared Key.
    Key,
    /// Shared Key Lite.
    Lite,
    /// Shared Key with a key that is not the account's.
    WrongKey,
    /// Not at all.
    Anonymous,
    /// A shared access signature.
    Sas,
}

#[derive(Deserialize)]
struct Line {
    source_path: String,
    test: String,
    seq: u64,
    service: Service,
    request: RequestLine,
    response: ResponseLine,
    extra: Extra,
}

#[derive(Deserialize)]
struct RequestLine {
    method: String,
    path_and_query: String,
    #[serde(default)]
    headers: Headers,
    body: Option<String>,
}

#[derive(Deserialize)]
struct ResponseLine {
    status: u16,
    headers: Headers,
    body: Option<String>,
}

#[derive(Deserialize)]
struct Extra {
    run: u64,
    auth: Auth,
    #[serde(default)]
    setup: bool,
    #[serde(default)]
    host: String,
    req_body_encoding: Option<String>,
    resp_body_encoding: Option<String>,
}

/// A request as it was recorded, and the answer that the live service gave.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the package is not published")]
pub struct Exchange {
    /// The file that it was read from.
    pub file: String,
    /// The recording's path in its repository.
    pub source: String,
    /// The test that sent it.
    pub test: String,
    /// Its number in the test.
    pub seq: u64,
    /// Which run of the test.
    pub run: u64,
    /// The service that answered.
    pub service: Service,
    /// The request's method.
    pub method: String,
    /// The request's path and query, without the account.
    pub target: String,
    /// The request's headers.
    pub headers: Headers,
    /// The request's body.
    pub body: Option<Vec<u8>>,
    /// The answer's status.
    pub status: u16,
    /// The answer's headers.
    pub answer_headers: Headers,
    /// The answer's body.
    pub answer: Vec<u8>,
    /// How the request is authorized.
    pub auth: Auth,
    /// Whether it is sent for its effect, and not judged.
    pub setup: bool,
    /// Whether the recorder wrote JSON anew, which loses the difference of `1` and `1.0`.
    pub loose_numbers: bool,
    /// Whether the secondary answered.
    pub secondary: bool,
    /// The operation and its resource.
    pub operation: Operation,
    /// The parameters of the query; of repeated ones the first.
    pub query: BTreeMap<String, String>,
}

impl Exchange {
    /// Reads a line of a file.
    pub fn parse(line: &str, file: &str) -> Result<Self, String> {
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let (request, response, extra) = (line.request, line.response, line.extra);
        let body = decode(request.body, extra.req_body_encoding.as_deref())?;
        let answer = decode(response.body, extra.resp_body_encoding.as_deref())?;
        let mut query = BTreeMap::new();
        for (name, value) in text::query_items(text::query(&request.path_and_query)) {
            query.entry(text::unquote(name)).or_insert_with(|| text::unquote_plus(value));
        }
        let mut exchange = Self {
            file: file.to_owned(),
            source: line.source_path,
            test: line.test,
            seq: line.seq,
            run: extra.run,
            service: line.service,
            method: request.method,
            target: request.path_and_query,
            headers: request
                .headers
                .into_iter()
                .filter(|(name, _)| !name.starts_with(':'))
                .collect(),
            body,
            status: response.status,
            answer_headers: response.headers,
            answer: answer.unwrap_or_default(),
            auth: extra.auth,
            setup: extra.setup,
            loose_numbers: extra.resp_body_encoding.as_deref() == Some("json-reserialized"),
            secondary: extra.host.contains("-secondary."),
            operation: Operation::default(),
            query,
        };
        exchange.operation = operation::of(&exchange);
        exchange.secondary |= exchange.op() == "GetServiceStats" && exchange.status == 200;
        Ok(exchange)
    }

    /// The operation's name.
    pub fn op(&self) -> &str {
        &self.operation.name
    }

    /// The table, queue or container, then the part of it. Empty for the account.
    pub fn resource(&self) -> &[String] {
        &self.operation.resource
    }

    /// The request's body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.body.as_deref().unwrap_or_default()).into_owned()
    }

    /// The recorded answer's body as text.
    pub fn answer_text(&self) -> String {
        String::from_utf8_lossy(&self.answer).into_owned()
    }

    /// The recorded answer's error code.
    pub fn code(&self) -> Option<String> {
        text::error_code(&self.answer_headers, &self.answer)
    }

    /// Whether the recorded answer is a success.
    pub const fn ok(&self) -> bool {
        self.status < 300
    }

    /// Whether the request changes something.
    pub fn writes(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// The version of the protocol.
    pub fn version(&self) -> &str {
        let version =
            |headers: &'_ Headers| headers.get("x-ms-version").is_some_and(|it| !it.is_empty());
        let headers = if version(&self.headers) { &self.headers } else { &self.answer_headers };
        headers.get("x-ms-version").map_or("", String::as_str)
    }

    /// When it was recorded, in seconds since 1970.
    pub fn when(&self) -> Option<i64> {
        self.answer_headers.get("date").and_then(|date| text::http_date(date))
    }
}

fn decode(body: Option<String>, encoding: Option<&str>) -> Result<Option<Vec<u8>>, String> {
    let Some(body) = body else { return Ok(None) };
    match encoding {
        Some("base64") => STANDARD.decode(body).map(Some).map_err(|error| error.to_string()),
        Some("hex") => (0..body.len() / 2)
            .map(|at| body.get(2 * at..2 * at + 2).and_then(|it| u8::from_str_radix(it, 16).ok()))
            .collect::<Option<_>>()
            .map(Some)
            .ok_or_else(|| "a body is not hexadecimal".to_owned()),
        _ => Ok(Some(body.into_bytes())),
    }
}

/// Reads a file.
pub fn load(path: &Path) -> Result<Vec<Exchange>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let bytes: Box<dyn Read> = if path.extension().is_some_and(|it| it == "gz") {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let lines = BufReader::new(bytes).lines().enumerate();
    let exchanges = lines.map(|(number, line)| {
        let at = |error: String| format!("{}, line {}: {error}", path.display(), number + 1);
        Exchange::parse(&line.map_err(|error| at(error.to_string()))?, &name).map_err(at)
    });
    exchanges.collect()
}

/// Puts the exchanges of one run of one test together, in their order.
pub fn runs(exchanges: Vec<Exchange>) -> Vec<Vec<Exchange>> {
    let mut found = BTreeMap::new();
    let mut result: Vec<Vec<Exchange>> = Vec::new();
    for exchange in exchanges {
        let key =
            (exchange.file.clone(), exchange.source.clone(), exchange.test.clone(), exchange.run);
        let at = *found.entry(key).or_insert(result.len());
        match result.get_mut(at) {
            Some(run) => run.push(exchange),
            None => result.push(vec![exchange]),
        }
    }
    for run in &mut result {
        run.sort_by_key(|exchange| exchange.seq);
    }
    result
}
