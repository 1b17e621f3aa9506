//! Recorded requests: a few that come with the tests, and more where there are recordings.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rowkey_emulator::Service;
use serde_json::Value;

/// The name of the table, the queue and the container that requests are for, instead of the
/// recorded ones.
pub(crate) const NAME: &str = "robust";
/// The longest body that is taken from recordings.
const MAX_BODY: usize = 64 * 1024;

/// A request without what dates and authorizes it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) service: Service,
    pub(crate) method: String,
    /// Path and query below the account.
    pub(crate) target: Vec<u8>,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(service: Service, method: &str, target: &str, body: &str) -> Self {
        let headers = [
            ("x-ms-version", "2019-02-02"),
            ("accept", "application/json;odata=minimalmetadata"),
            ("content-type", "application/json"),
        ];
        Self {
            service,
            method: method.to_owned(),
            target: target.as_bytes().to_vec(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.into())).to_vec(),
            body: body.as_bytes().to_vec(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_slice())
    }
}

/// The requests that come with the tests.
pub(crate) fn own() -> Vec<Request> {
    read(include_str!("corpus/requests.jsonl"))
}

/// Those in the folder that `ROWKEY_RECORDINGS` names.
pub(crate) fn recorded() -> Vec<Request> {
    let Some(folder) = std::env::var_os("ROWKEY_RECORDINGS") else { return Vec::new() };
    let mut files: Vec<_> = Path::new(&folder)
        .read_dir()
        .expect("ROWKEY_RECORDINGS is a folder")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    files.sort();
    let mut requests = Vec::new();
    for file in files {
        let output = Command::new("gzip").arg("-dc").arg(&file).output().expect("gzip runs");
        assert!(output.status.success(), "{} is damaged", file.display());
        requests.extend(read(&String::from_utf8(output.stdout).unwrap()));
    }
    requests
}

fn read(lines: &str) -> Vec<Request> {
    lines.lines().filter(|line| !line.is_empty()).filter_map(request).collect()
}

/// A recorded request with our names; `None` for one that was not signed with the account's key.
fn request(line: &str) -> Option<Request> {
    let line: Value = serde_json::from_str(line).expect("a line is JSON");
    let (recorded, extra) = (&line["request"], &line["extra"]);
    if extra["auth"].as_str().is_some_and(|auth| auth != "key") {
        return None;
    }
    let service = match line["service"].as_str()? {
        "blob" => Service::Blob,
        "queue" => Service::Queue,
        _ => Service::Table,
    };
    let text = recorded["body"].as_str().unwrap_or_default();
    let body = match extra["req_body_encoding"].as_str() {
        Some("base64") => BASE64_STANDARD.decode(text).expect("a body is base64"),
        _ => text.as_bytes().to_vec(),
    };
    if body.len() > MAX_BODY {
        return None;
    }
    let headers = recorded["headers"].as_object()?.iter();
    let request = Request {
        service,
        method: recorded["method"].as_str()?.to_owned(),
        target: recorded["path_and_query"].as_str()?.as_bytes().to_vec(),
        headers: headers
            .filter(|(name, _)| !matches!(name.as_str(), "content-length" | "host"))
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().into()))
            .collect(),
        body,
    };
    Some(rename(request))
}

/// Puts our names where the recorded ones were.
fn rename(mut request: Request) -> Request {
    let Ok(target) = String::from_utf8(request.target.clone()) else { return request };
    let (path, query) = target.split_once('?').map_or((&*target, None), |(p, q)| (p, Some(q)));
    let segments: Vec<&str> = path.trim_start_matches('/').splitn(2, '/').collect();
    let name = match (request.service, segments[0]) {
        (Service::Table, "$batch") => table_in(&request.body),
        (Service::Table, first) => first.split('(').next().unwrap_or(first).to_owned(),
        (Service::Blob, "$root" | "$logs") => String::new(),
        // A blob in the root container has no container before it.
        (Service::Blob, first)
            if segments.len() == 1 && !query.is_some_and(|q| q.contains("restype")) =>
        {
            return Request { target: target.replacen(first, NAME, 1).into_bytes(), ..request };
        }
        (_, first) => first.to_owned(),
    };
    if name.is_empty() || name == "Tables" {
        return request;
    }
    let mut target = target.replacen(&name, NAME, 1);
    if let (Service::Blob, [_, blob]) = (request.service, segments.as_slice()) {
        // Two blobs, so that most requests find one of the right kind.
        let appends = target.contains("comp=appendblock")
            || target.contains("comp=seal")
            || request.header("x-ms-blob-type") == Some(b"AppendBlob");
        let ours = if appends { "append" } else { "block" };
        target = target.replacen(&format!("/{blob}"), &format!("/{ours}"), 1);
    }
    request.target = target.into_bytes();
    if let Ok(body) = std::str::from_utf8(&request.body) {
        request.body = body.replace(&name, NAME).into_bytes();
    }
    request
}

/// The table that the first operation of a batch is for.
fn table_in(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let line = body.lines().find(|line| line.contains(" http") && line.contains(" HTTP/1.1"));
    let target = line.and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let name = target.splitn(4, '/').nth(3).unwrap_or_default();
    name.split(['(', '?']).next().unwrap_or_default().to_owned()
}
