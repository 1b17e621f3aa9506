//! The least that a server in Rust can do: hyper on one thread, no authentication, no checks,
//! bodies kept rendered. What the real server costs is measured against it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::io::{self, Write as _};
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

const ETAG: &str = "W/\"datetime'2026-11-20T12%3A34%3A56.7654321Z'\"";
const ROW_HEAD: &str = "{\"odata.etag\":\"W/\\\"datetime'2026-11-20T12%3A34%3A56.7654321Z'\\\"\",\
                        \"Timestamp\":\"2026-11-20T12:34:56.7654321Z\",";
const GET_HEAD: &str = "{\"odata.metadata\":\"http://127.0.0.1/$metadata#t/@Element\",";
const PAGE_HEAD: &str = "{\"odata.metadata\":\"http://127.0.0.1/$metadata#t\",\"value\":[";
const BATCH_HEAD: &str = "--batchresponse_1\r\n\
                          Content-Type: multipart/mixed; boundary=changesetresponse_1\r\n\r\n";
const BATCH_TAIL: &str = "--changesetresponse_1--\r\n--batchresponse_1--\r\n";
const PART: &str = "--changesetresponse_1\r\nContent-Type: application/http\r\n\
                    Content-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 204 No Content\r\n\
                    X-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\n\
                    Preference-Applied: return-no-content\r\nDataServiceVersion: 3.0;\r\n\
                    DataServiceId: http://127.0.0.1/t(PartitionKey='p00000',RowKey='0000000')\r\n\
                    ETag: W/\"datetime'2026-11-20T12%3A34%3A56.7654321Z'\"\r\n\r\n\r\n";
const BATCH_TYPE: HeaderValue =
    HeaderValue::from_static("multipart/mixed; boundary=batchresponse_1");
const JSON: HeaderValue =
    HeaderValue::from_static("application/json;odata=minimalmetadata;charset=utf-8");

const XML: HeaderValue = HeaderValue::from_static("application/xml");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const PUT_MESSAGE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList>\
                           <QueueMessage><MessageId>1</MessageId>\
                           <InsertionTime>Fri, 20 Nov 2026 12:34:56 GMT</InsertionTime>\
                           <ExpirationTime>Fri, 27 Nov 2026 12:34:56 GMT</ExpirationTime>\
                           <PopReceipt>MTIzNDU2Nzg5MA==</PopReceipt>\
                           <TimeNextVisible>Fri, 20 Nov 2026 12:34:56 GMT</TimeNextVisible>\
                           </QueueMessage></QueueMessagesList>";
const MESSAGE_HEAD: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage>";
const MESSAGE_TIMES: &str = "<InsertionTime>Fri, 20 Nov 2026 12:34:56 GMT</InsertionTime>\
                             <ExpirationTime>Fri, 27 Nov 2026 12:34:56 GMT</ExpirationTime>\
                             <PopReceipt>MTIzNDU2Nzg5MA==</PopReceipt>\
                             <TimeNextVisible>Fri, 20 Nov 2026 12:35:26 GMT</TimeNextVisible>\
                             <DequeueCount>1</DequeueCount>";

/// The headers that `azure_data_tables` 0.21 requires in every response.
const ALL_HEADERS: [(HeaderName, HeaderValue); 4] = [
    (
        HeaderName::from_static("x-ms-request-id"),
        HeaderValue::from_static("c9da6455-213d-42c9-9a79-3e9149a57833"),
    ),
    (HeaderName::from_static("x-ms-version"), HeaderValue::from_static("2019-02-02")),
    (HeaderName::from_static("preference-applied"), HeaderValue::from_static("return-no-content")),
    (header::SERVER, HeaderValue::from_static("bare")),
];

/// Serves on a free port, which it prints, until the process is killed.
pub async fn serve(all_headers: bool) -> io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", listener.local_addr()?)?;
        out.flush()?;
    }
    let store = Rc::new(RefCell::new(Store::default()));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let store = Rc::clone(&store);
        tokio::task::spawn_local(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let store = Rc::clone(&store);
                async move {
                    let (head, body) = request.into_parts();
                    let body = match body.collect().await {
                        Ok(body) => body.to_bytes(),
                        Err(_) => Bytes::new(),
                    };
                    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
                    let mut answer = store.borrow_mut().answer(&head.method, target, &body);
                    if all_headers {
                        answer.headers_mut().extend(ALL_HEADERS);
                    }
                    Ok::<_, Infallible>(answer)
                }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

struct Row {
    level: u32,
    json: Box<[u8]>,
}

#[derive(Default)]
struct Store {
    /// Tables, partitions, rows.
    tables: HashMap<String, HashMap<String, BTreeMap<Box<str>, Row>>>,
    /// Bodies of one queue: those that wait, and those that were given out.
    messages: VecDeque<String>,
    given: HashMap<usize, String>,
    gets: usize,
    blobs: HashMap<String, Bytes>,
}

impl Store {
    fn answer(&mut self, method: &Method, target: &str, body: &Bytes) -> Response<Full<Bytes>> {
        let last = target.rsplit('/').next().unwrap_or_default();
        match *method {
            Method::POST if last.starts_with("messages?") => return self.put_message(body),
            Method::POST => return self.write(last, body),
            Method::PUT => {
                self.blobs.insert(path(target).to_owned(), body.clone());
                return answer(StatusCode::CREATED, Bytes::new(), OCTETS);
            }
            // A merge sends all properties, so that nothing of the old entity stays.
            Method::PATCH => {
                let table = last.split('(').next().unwrap_or_default();
                return self.write(table, body);
            }
            Method::DELETE if last.contains('(') => return self.delete(last),
            Method::DELETE => return self.delete_message(path(last)),
            _ => {}
        }
        match last.split_once('(') {
            Some((table, address)) if address.starts_with('P') => {
                let [partition, row] = keys(address);
                self.get(table, partition, row)
            }
            Some((table, query)) => self.query(table, &decode(query)),
            None if last.starts_with("messages?") => self.get_message(),
            None => match self.blobs.get(path(target)) {
                Some(blob) => answer(StatusCode::OK, blob.clone(), OCTETS),
                None => answer(StatusCode::NOT_FOUND, Bytes::new(), OCTETS),
            },
        }
    }

    fn put_message(&mut self, body: &[u8]) -> Response<Full<Bytes>> {
        let body = std::str::from_utf8(body).unwrap_or_default();
        self.messages.push_back(after(body, "<MessageText>", '<').to_owned());
        answer(StatusCode::CREATED, Bytes::from_static(PUT_MESSAGE.as_bytes()), XML)
    }

    fn get_message(&mut self) -> Response<Full<Bytes>> {
        let Some(text) = self.messages.pop_front() else {
            return answer(StatusCode::NOT_FOUND, Bytes::new(), XML);
        };
        self.gets += 1;
        let number = self.gets;
        let body = format!(
            "{MESSAGE_HEAD}<MessageId>{number}</MessageId>{MESSAGE_TIMES}<MessageText>{text}\
             </MessageText></QueueMessage></QueueMessagesList>"
        );
        self.given.insert(number, text);
        answer(StatusCode::OK, body.into(), XML)
    }

    fn delete_message(&mut self, id: &str) -> Response<Full<Bytes>> {
        let number = id.parse().unwrap_or_default();
        let status = match self.given.remove(&number) {
            Some(_) => StatusCode::NO_CONTENT,
            None => StatusCode::NOT_FOUND,
        };
        answer(status, Bytes::new(), XML)
    }

    fn get(&self, table: &str, partition: &str, row: &str) -> Response<Full<Bytes>> {
        let found = self.tables.get(table).and_then(|rows| rows.get(partition)?.get(row));
        let Some(row) = found else {
            return answer(StatusCode::NOT_FOUND, Bytes::new(), JSON);
        };
        let mut out = Vec::with_capacity(GET_HEAD.len() + row.json.len());
        out.extend_from_slice(GET_HEAD.as_bytes());
        out.extend_from_slice(&row.json[1..]);
        answer(StatusCode::OK, out.into(), JSON)
    }

    fn delete(&mut self, address: &str) -> Response<Full<Bytes>> {
        let (table, address) = address.split_once('(').unwrap_or_default();
        let [partition, row] = keys(address);
        let rows = self.tables.get_mut(table).and_then(|rows| rows.get_mut(partition));
        let status = match rows.and_then(|rows| rows.remove(row)) {
            Some(_) => StatusCode::NO_CONTENT,
            None => StatusCode::NOT_FOUND,
        };
        answer(status, Bytes::new(), JSON)
    }

    fn query(&self, table: &str, query: &str) -> Response<Full<Bytes>> {
        let mut literals = query.split('\'').skip(1).step_by(2);
        let partition = literals.next().unwrap_or_default();
        let level: Option<u32> =
            query.split_once("Level eq ").and_then(|(_, level)| level.parse().ok());
        let mut out = Vec::with_capacity(1300 << 10);
        out.extend_from_slice(PAGE_HEAD.as_bytes());
        if let Some(rows) = self.tables.get(table).and_then(|table| table.get(partition)) {
            let rows: &mut dyn Iterator<Item = (&Box<str>, &Row)> =
                match (literals.next(), literals.next()) {
                    (Some(from), Some(to)) => &mut rows.range::<str, _>((
                        std::ops::Bound::Included(from),
                        std::ops::Bound::Excluded(to),
                    )),
                    _ => &mut rows.iter(),
                };
            let rows = rows.filter(|(_, row)| level.is_none_or(|level| row.level == level));
            for (at, (_, row)) in rows.take(1000).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(&row.json);
            }
        }
        out.extend_from_slice(b"]}");
        answer(StatusCode::OK, out.into(), JSON)
    }

    fn write(&mut self, target: &str, body: &[u8]) -> Response<Full<Bytes>> {
        let body = std::str::from_utf8(body).unwrap_or_default();
        if target == "$batch" {
            let mut out = String::with_capacity(PART.len() * 101);
            out.push_str(BATCH_HEAD);
            let mut table = "";
            for line in body.split('\n') {
                if line.starts_with("POST ") {
                    let address = line.split(' ').nth(1).unwrap_or_default();
                    table = address.rsplit('/').next().unwrap_or_default();
                } else if line.starts_with('{') {
                    self.insert(table, line.trim_end());
                    out.push_str(PART);
                }
            }
            out.push_str(BATCH_TAIL);
            return answer(StatusCode::ACCEPTED, out.into(), BATCH_TYPE);
        }
        if target != "Tables" {
            self.insert(target, body);
        }
        answer(StatusCode::NO_CONTENT, Bytes::new(), JSON)
    }

    fn insert(&mut self, table: &str, json: &str) {
        let partition = after(json, "\"PartitionKey\":\"", '"');
        let row = after(json, "\"RowKey\":\"", '"');
        let level = after(json, "\"Level\":", ',').parse().unwrap_or_default();
        let mut stored = Vec::with_capacity(ROW_HEAD.len() + json.len() - 1);
        stored.extend_from_slice(ROW_HEAD.as_bytes());
        stored.extend_from_slice(&json.as_bytes()[1..]);
        let stored = Row { level, json: stored.into() };
        let table = match self.tables.get_mut(table) {
            Some(table) => table,
            None => self.tables.entry(table.to_owned()).or_default(),
        };
        match table.get_mut(partition) {
            Some(rows) => rows.insert(row.into(), stored),
            None => table.entry(partition.to_owned()).or_default().insert(row.into(), stored),
        };
    }
}

fn answer(status: StatusCode, body: Bytes, content_type: HeaderValue) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, content_type);
    answer.headers_mut().insert(header::ETAG, HeaderValue::from_static(ETAG));
    answer
}

/// The `PartitionKey` and the `RowKey` of an entity's address.
fn keys(address: &str) -> [&str; 2] {
    let mut literals = address.split('\'').skip(1).step_by(2);
    [literals.next().unwrap_or_default(), literals.next().unwrap_or_default()]
}

/// What stands before the query.
fn path(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

/// The text between `name` and `end`.
fn after<'a>(json: &'a str, name: &str, end: char) -> &'a str {
    let Some((_, value)) = json.split_once(name) else { return "" };
    value.split(end).next().unwrap_or_default()
}

/// A query without its escapes: those that the requests of these programs have.
fn decode(query: &str) -> String {
    query.replace("%20", " ").replace('+', " ").replace("%27", "'")
}
