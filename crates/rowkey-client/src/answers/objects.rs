//! The messages and blobs that a stub holds.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Method;
use rowkey_wire::blob::checksum::{self, Checksum};
use rowkey_wire::blob::headers as names;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers::{METADATA_PREFIX, POP_RECEIPT, TIME_NEXT_VISIBLE};
use rowkey_wire::shown;
use rowkey_wire::xml::{Element, Writer};

use super::exchange::{Exchange, Subject};
use super::{Answer, data_of, empty, stamped, written_at};

/// What separates the answers to a batch.
const BATCH: &str = "batchresponse_00000000-0000-0000-0000-000000000000";

/// Messages and blobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    queues: BTreeMap<String, Vec<Message>>,
    pub(super) blobs: BTreeMap<String, Stored>,
    /// Blocks that are not committed, by the path of their blob.
    blocks: BTreeMap<String, Vec<(String, Bytes)>>,
    /// The number of writes. It makes each id, pop receipt and ETag another.
    pub(super) writes: u64,
}

/// A message.
#[derive(Clone)]
struct Message {
    id: String,
    text: String,
    receipt: String,
    /// Whether it may be received. Time does not pass in a stub.
    is_visible: bool,
    dequeued: u32,
}

shown! {
    /// Does not show the text.
    Message: id
}

/// A blob.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) content: Bytes,
    /// The headers that a read returns.
    pub(super) headers: Vec<(String, String)>,
    pub(super) etag: String,
    /// The id of the lease that is held.
    pub(super) lease: Option<String>,
    /// How many blocks were appended.
    pub(super) appended: u32,
}

impl std::fmt::Debug for Stored {
    /// Shows neither the content nor the metadata.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored").field("length", &self.content.len()).finish_non_exhaustive()
    }
}

impl Objects {
    pub(super) fn extend(&mut self, other: Self) {
        for (queue, messages) in other.queues {
            self.queues.entry(queue).or_default().extend(messages);
        }
        self.blobs.extend(other.blobs);
        self.writes = self.writes.max(other.writes);
    }

    /// Answers a request on messages.
    pub(super) fn message(
        &mut self,
        request: &Exchange<'_>,
        queue: &str,
        id: Option<&str>,
    ) -> Option<Answer> {
        let messages = self.queues.entry(queue.to_owned()).or_default();
        let delay = request.parameter("visibilitytimeout");
        let is_visible = delay.as_deref().is_none_or(|delay| delay == "0");
        self.writes += 1;
        let receipt = format!("receipt-{}", self.writes);
        match (request.method, id) {
            (&Method::POST, None) => {
                let id = format!("00000000-0000-0000-0000-{:012}", self.writes);
                let text = text_of(request.body)?;
                let message = Message { id, text, receipt, is_visible, dequeued: 0 };
                let answer = list([&message], Shown::Put);
                messages.push(message);
                Some(Answer { status: 201, ..answer })
            }
            (&Method::GET, None) => {
                let count = request.parameter("numofmessages");
                let count = count.and_then(|count| count.parse().ok()).unwrap_or(1);
                let peeks = request.parameter("peekonly").is_some();
                let mut found = Vec::new();
                for message in messages.iter_mut().filter(|message| message.is_visible).take(count)
                {
                    if !peeks {
                        message.dequeued += 1;
                        message.is_visible = false;
                        message.receipt.clone_from(&receipt);
                    }
                    found.push(message.clone());
                }
                Some(list(&found, if peeks { Shown::Peeked } else { Shown::Received }))
            }
            (&Method::DELETE, None) => {
                messages.clear();
                Some(empty(204))
            }
            (method, Some(id)) => {
                let at = messages.iter().position(|message| message.id == id);
                let Some(at) = at else { return Some(error(ErrorCode::MESSAGE_NOT_FOUND)) };
                if request.parameter("popreceipt").as_deref() != Some(&*messages[at].receipt) {
                    return Some(error(ErrorCode::POP_RECEIPT_MISMATCH));
                }
                if *method == Method::DELETE {
                    messages.remove(at);
                    return Some(empty(204));
                }
                if let Some(text) = text_of(request.body) {
                    messages[at].text = text;
                }
                messages[at].is_visible = is_visible;
                messages[at].receipt.clone_from(&receipt);
                let answer = empty(204).header(POP_RECEIPT.as_str(), &receipt);
                Some(answer.header(TIME_NEXT_VISIBLE.as_str(), &written_at().to_http()))
            }
            _ => None,
        }
    }

    /// Answers a request on a blob; `None` for operations that no stub answers, such as snapshots.
    pub(super) fn blob(&mut self, request: &Exchange<'_>, path: &str) -> Option<Answer> {
        let found = self.blobs.get(path);
        let tag = found.map(|blob| blob.etag.as_str());
        if let Some(condition) = request.header("if-match")
            && tag.is_none_or(|tag| condition != "*" && condition != tag)
        {
            return Some(error(match tag {
                Some(_) => ErrorCode::CONDITION_NOT_MET,
                None => ErrorCode::BLOB_NOT_FOUND,
            }));
        }
        if let (Some(condition), Some(tag)) = (request.header("if-none-match"), tag)
            && (condition == "*" || condition == tag)
        {
            return Some(match *request.method {
                Method::GET | Method::HEAD => empty(304),
                _ => error(ErrorCode::BLOB_ALREADY_EXISTS),
            });
        }
        let comp = request.parameter("comp");
        if comp.as_deref() != Some("lease")
            && let Some(code) = self.guard(request, path)
        {
            return Some(error(code));
        }
        match (request.method, comp.as_deref()) {
            (&Method::PUT, Some("lease")) => self.lease(request, path),
            (&Method::PUT, Some("appendblock")) => Some(self.append(request, path)),
            (&Method::PUT, Some("metadata")) => Some(self.set_metadata(request, path)),
            (&Method::PUT, Some("copy")) => Some(error(match found {
                Some(_) => ErrorCode::NO_PENDING_COPY_OPERATION,
                None => ErrorCode::BLOB_NOT_FOUND,
            })),
            (&Method::GET | &Method::HEAD, None) => {
                let Some(found) = found else { return Some(error(ErrorCode::BLOB_NOT_FOUND)) };
                Some(found.read(request))
            }
            (&Method::DELETE, None) => {
                let was = self.blobs.remove(path);
                Some(was.map_or_else(|| error(ErrorCode::BLOB_NOT_FOUND), |_| empty(202)))
            }
            (&Method::PUT, None) if request.header(names::COPY_SOURCE.as_str()).is_some() => {
                Some(self.copy(path, request.header(names::COPY_SOURCE.as_str())?))
            }
            (&Method::PUT, None) => {
                let content = Bytes::copy_from_slice(request.body);
                Some(self.put(request, path, content))
            }
            (&Method::PUT, Some("block")) => {
                let block = (request.parameter("blockid")?, Bytes::copy_from_slice(request.body));
                self.blocks.entry(path.to_owned()).or_default().push(block);
                Some(summed(empty(201), request.body))
            }
            (&Method::PUT, Some("blocklist")) => {
                let list = Element::read_root(request.body, "BlockList").ok()?;
                let blocks = self.blocks.remove(path).unwrap_or_default();
                let mut content = Vec::new();
                for id in &list.children {
                    let (_, block) = blocks.iter().find(|(own, _)| *own == id.text)?;
                    content.extend_from_slice(block);
                }
                Some(self.put(request, path, content.into()))
            }
            _ => None,
        }
    }

    /// Answers a batch of requests on blobs, in their order.
    pub(super) fn batch(&mut self, request: &Exchange<'_>) -> Option<Answer> {
        let mut body = String::new();
        for (number, operation) in request.operations()?.iter().enumerate() {
            let one = operation.exchange();
            let Subject::Blob(path) = one.subject() else { return None };
            let Answer { status, headers, body: text } = self.blob(&one, &path)?;
            let head = format!(
                "--{BATCH}\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status} \r\n"
            );
            body.push_str(&head);
            for (name, value) in headers {
                body.extend([&*name, ": ", &*value, "\r\n"]);
            }
            body.extend(["\r\n", &*String::from_utf8_lossy(&text), "\r\n"]);
        }
        body.extend(["--", BATCH, "--"]);
        let content_type = format!("multipart/mixed; boundary={BATCH}");
        Some(data_of(202, body.into_bytes().into(), &content_type))
    }

    fn put(&mut self, request: &Exchange<'_>, path: &str, content: Bytes) -> Answer {
        self.writes += 1;
        let etag = format!("\"0x{:X}\"", self.writes);
        let kept = |name: &str| name.starts_with(METADATA_PREFIX) || name == names::BLOB_TYPE;
        let headers = request.headers.iter().filter_map(|(name, value)| {
            let value = value.to_str().ok()?.to_owned();
            match name.as_str() {
                "x-ms-blob-content-type" => Some(("Content-Type".to_owned(), value)),
                "x-ms-blob-content-encoding" => Some(("Content-Encoding".to_owned(), value)),
                name if kept(name) => Some((name.to_owned(), value)),
                _ => None,
            }
        });
        let mut headers: Vec<_> = headers.collect();
        if !headers.iter().any(|(name, _)| name == names::BLOB_TYPE.as_str()) {
            headers.push((names::BLOB_TYPE.to_string(), "BlockBlob".to_owned()));
        }
        // A lease outlives what it protects.
        let lease = self.blobs.get(path).and_then(|before| before.lease.clone());
        let blob = Stored { content, headers, etag, lease, appended: 0 };
        let answer = blob.versioned(summed(empty(201), request.body));
        self.blobs.insert(path.to_owned(), blob);
        answer
    }
}

impl Stored {
    fn read(&self, request: &Exchange<'_>) -> Answer {
        let length = self.content.len();
        let range = request.header(names::RANGE.as_str()).or_else(|| request.header("range"));
        let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let (status, body) = match range {
            Some((first, last)) => {
                let first = first.parse().unwrap_or(0);
                let last = last.parse::<usize>().map_or(length, |last| (last + 1).min(length));
                if first >= last {
                    return error(ErrorCode::INVALID_RANGE);
                }
                (206, self.content.slice(first..last))
            }
            None => (200, self.content.clone()),
        };
        let mut answer = data_of(status, body.clone(), "application/octet-stream");
        if let Some((first, _)) = range {
            let first: usize = first.parse().unwrap_or(0);
            let range = format!("bytes {first}-{}/{length}", first + body.len() - 1);
            answer = answer.header("Content-Range", &range);
        }
        for (name, value) in &self.headers {
            answer.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
            answer = answer.header(name, value);
        }
        if *request.method == Method::HEAD {
            answer.body = Bytes::new();
            let answer = answer.header("Content-Length", &length.to_string());
            return self.versioned(self.stated(answer));
        }
        let answer = if range.is_some() { summed(answer, &body) } else { answer };
        self.versioned(self.stated(answer))
    }
}

/// Adds the checksums of the bytes.
pub(super) fn summed(answer: Answer, bytes: &[u8]) -> Answer {
    let mut sum = Checksum::new(true, true);
    sum.update(bytes);
    let (md5, crc64) = sum.finish();
    let answer = match md5 {
        Some(md5) => answer.header("Content-MD5", &checksum::encode(&md5)),
        None => answer,
    };
    match crc64 {
        Some(crc64) => answer.header(names::CONTENT_CRC64.as_str(), &checksum::encode(&crc64)),
        None => answer,
    }
}

/// The response to a refused request on a queue or a blob, which is XML, unlike that of a table.
pub(super) fn error(code: ErrorCode) -> Answer {
    let Rejection { status, code, message, .. } = Rejection::new(code);
    let mut writer = Writer::response();
    writer.start("Error");
    writer.leaf("Code", code.as_str());
    writer.leaf("Message", &stamped(&message));
    writer.end("Error");
    let answer = data_of(status.as_u16(), writer.finish().into_bytes().into(), "application/xml");
    answer.header("x-ms-error-code", code.as_str())
}

/// The path of the container of a blob.
pub(super) fn container(blob: &str) -> Option<String> {
    let first = blob.split('/').find(|part| !part.is_empty())?;
    Some(format!("/{first}/"))
}

/// What a list of messages shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Put,
    Peeked,
    Received,
}

fn list<'a>(messages: impl IntoIterator<Item = &'a Message>, shown: Shown) -> Answer {
    let now = written_at().to_http();
    let mut writer = Writer::response();
    writer.start("QueueMessagesList");
    for message in messages {
        writer.start("QueueMessage");
        writer.leaf("MessageId", &message.id);
        writer.leaf("InsertionTime", &now);
        writer.leaf("ExpirationTime", "Fri, 31 Dec 9999 23:59:59 GMT");
        if shown != Shown::Peeked {
            writer.leaf("PopReceipt", &message.receipt);
            writer.leaf("TimeNextVisible", &now);
        }
        if shown != Shown::Put {
            writer.leaf("DequeueCount", &message.dequeued.to_string());
            writer.leaf("MessageText", &message.text);
        }
        writer.end("QueueMessage");
    }
    writer.end("QueueMessagesList");
    data_of(200, writer.finish().into_bytes().into(), "application/xml")
}

/// The response to Get Messages with these texts, received for the first time.
pub(super) fn received<'a>(texts: impl IntoIterator<Item = &'a str>) -> Answer {
    let texts = texts.into_iter().enumerate();
    let messages: Vec<_> = texts
        .map(|(n, text)| Message {
            id: format!("00000000-0000-0000-0000-{:012}", n + 1),
            text: text.to_owned(),
            receipt: format!("receipt-{}", n + 1),
            is_visible: false,
            dequeued: 1,
        })
        .collect();
    list(&messages, Shown::Received)
}

/// The response to Get Blob with this content.
pub(super) fn content(content: Bytes) -> Answer {
    data_of(200, content, "application/octet-stream")
        .header(names::BLOB_TYPE.as_str(), "BlockBlob")
        .header("ETag", "\"0x1\"")
        .header("Last-Modified", &written_at().to_http())
}

/// The text in the body of Put Message or Update Message; `None` without one.
fn text_of(body: &[u8]) -> Option<String> {
    let root = Element::read_root(body, "QueueMessage").ok()?;
    root.text_of("MessageText").map(str::to_owned)
}
