//! A request as a stub receives it: its method, address, headers and body, and what it is about.

use std::borrow::Cow;

use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use rowkey_entity::internals::decode;
use rowkey_wire::multipart::{self, Ending, Part};
use rowkey_wire::odata::Fields;

/// A request.
#[derive(Clone, Copy)]
pub(super) struct Exchange<'a> {
    /// The host and the port; empty if a stub server does not tell.
    pub(super) authority: &'a str,
    pub(super) method: &'a Method,
    /// The encoded path, as it is in the URL.
    pub(super) path: &'a str,
    /// The encoded query, without `?`.
    pub(super) query: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A table itself, a queue itself or a container itself.
    Whole,
    /// An entity: table, PartitionKey, RowKey.
    Row([String; 3]),
    /// A query of a table.
    Rows(String),
    /// A transaction.
    Batch,
    /// The messages of a queue, and the id of one of them.
    Messages(String, Option<String>),
    /// A blob, by its path.
    Blob(String),
    /// A batch of requests on blobs.
    Blobs,
    /// Something that a stub does not know.
    Other,
}

/// A table: where its account's tables are, and its name. Two accounts may have tables of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TableId {
    pub(super) origin: String,
    pub(super) name: String,
}

impl TableId {
    /// The host and the port.
    pub(super) fn host(&self) -> &str {
        self.origin.split('/').next().unwrap_or_default()
    }
}

/// One request of a transaction.
pub(super) struct Operation {
    origin: String,
    pub(super) method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Operation {
    pub(super) fn exchange(&self) -> Exchange<'_> {
        Exchange {
            authority: &self.origin,
            method: &self.method,
            path: &self.path,
            query: &self.query,
            headers: &self.headers,
            body: &self.body,
        }
    }
}

impl<'a> Exchange<'a> {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The decoded value of a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(own, _)| *own == name || decoded(own) == name)?;
        Some(decoded(value).into_owned())
    }

    /// Where the tables of the request's account are: the host, the port, and the path before the table.
    pub(super) fn origin(&self) -> String {
        let before = self.path.rsplit_once('/').map_or("", |(before, _)| before);
        // An operation of a transaction has that of the transaction.
        if self.path.starts_with('/') {
            format!("{}{before}", self.authority)
        } else {
            self.authority.to_owned()
        }
    }

    /// The table of this name in the request's account.
    pub(super) fn table_id(&self, name: &str) -> TableId {
        TableId { origin: self.origin(), name: name.to_owned() }
    }

    /// Whether the request changes nothing.
    pub(super) fn reads(&self) -> bool {
        matches!(*self.method, Method::GET | Method::HEAD)
    }

    pub(super) fn subject(&self) -> Subject {
        let segments: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        let Some(last) = segments.last().copied() else { return Subject::Other };
        if self.headers.contains_key("dataserviceversion") || last == "$batch" {
            return self.table(last);
        }
        match *segments {
            [.., queue, "messages"] => Subject::Messages(queue.to_owned(), None),
            [.., queue, "messages", id] => {
                Subject::Messages(queue.to_owned(), Some(decoded(id).into_owned()))
            }
            _ if self.parameter("comp").as_deref() == Some("batch") => Subject::Blobs,
            _ if self.parameter("restype").is_some() || segments.len() == 1 => Subject::Whole,
            _ => Subject::Blob(decoded(self.path).into_owned()),
        }
    }

    fn table(&self, last: &str) -> Subject {
        let last = decoded(last);
        if last == "$batch" {
            return Subject::Batch;
        }
        if last == "Tables" || last.starts_with("Tables(") {
            return Subject::Whole;
        }
        if let Some(table) = last.strip_suffix("()") {
            return Subject::Rows(table.to_owned());
        }
        if let Some((table, keys)) = last.split_once("(PartitionKey='") {
            let keys = keys.strip_suffix("')").and_then(|keys| keys.split_once("',RowKey='"));
            let Some((partition, row)) = keys else { return Subject::Other };
            let unquoted = |key: &str| key.replace("''", "'");
            return Subject::Row([table.to_owned(), unquoted(partition), unquoted(row)]);
        }
        if self.reads() {
            return Subject::Other;
        }
        // An insert has its keys in the body.
        let mut fields = Fields::default();
        if decode::entity(self.body, &mut fields).is_err() {
            return Subject::Other;
        }
        match (fields.text("PartitionKey"), fields.text("RowKey")) {
            (Some(partition), Some(row)) => {
                Subject::Row([last.into_owned(), partition.to_owned(), row.to_owned()])
            }
            _ => Subject::Other,
        }
    }

    /// Whether the request holds several.
    pub(super) fn is_batch(&self) -> bool {
        matches!(self.subject(), Subject::Batch | Subject::Blobs)
    }

    /// The requests of a transaction or of a batch; `None` if the body is neither.
    pub(super) fn operations(&self) -> Option<Vec<Operation>> {
        let content_type = self.header("content-type")?;
        let parts = multipart::parts(content_type, self.body, Ending::Closed).ok()?;
        let mut operations = Vec::new();
        for part in parts {
            let messages = match part {
                Part::Changeset { messages, .. } => messages,
                Part::Message(message) => vec![message],
            };
            for extent in messages {
                operations.push(self.operation(extent)?);
            }
        }
        Some(operations)
    }

    fn operation(&self, extent: std::ops::Range<usize>) -> Option<Operation> {
        let (line, at) = multipart::start_line(self.body, extent.clone()).ok()?;
        let mut headers = HeaderMap::new();
        let head = multipart::head(self.body, at..extent.end, |header| {
            let name = http::HeaderName::from_bytes(header.name);
            let value = http::HeaderValue::from_bytes(header.value);
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.insert(name, value);
            }
            Ok(())
        });
        let head = head.ok()?;
        let range = multipart::body(self.body, head.end..extent.end, head.content_length);
        if self.subject() == Subject::Batch {
            let version = http::HeaderValue::from_static("3.0");
            headers.entry("dataserviceversion").or_insert(version);
        }
        let line = std::str::from_utf8(self.body.get(line)?).ok()?;
        let mut words = line.split(' ');
        let method = words.next()?.parse().ok()?;
        let target = words.next()?;
        let target = target.split_once("://").map_or(target, |(_, rest)| rest);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Some(Operation {
            origin: self.origin(),
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: self.body.get(range)?.to_vec(),
        })
    }

    /// The request as one line, for messages: its method, and what it is about.
    pub(super) fn line(&self) -> String {
        let what = match self.subject() {
            subject @ (Subject::Batch | Subject::Blobs) => {
                let what = if subject == Subject::Batch { "$batch" } else { self.path };
                let operations = self.operations().unwrap_or_default();
                let lines: Vec<_> = operations.iter().map(|one| one.exchange().line()).collect();
                format!("{what} [{}]", lines.join(", "))
            }
            Subject::Row(row) => shown(&row),
            Subject::Rows(table) => {
                let filter = self.parameter("$filter").unwrap_or_default();
                format!("{table}() where {filter}")
            }
            _ => self.path.to_owned(),
        };
        format!("{} {what}", self.method)
    }
}

/// An entity in messages.
pub(super) fn shown([table, partition, row]: &[String; 3]) -> String {
    format!("{table}(PartitionKey='{partition}',RowKey='{row}')")
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// Replaces what is random or a time in a name: runs of 16 and more hexadecimal digits, which
/// may have hyphens, become `*`.
pub(super) fn pattern(name: &str) -> String {
    const LEAST: usize = 16;
    let mut out = String::with_capacity(name.len());
    let mut run = String::new();
    let flush = |run: &mut String, out: &mut String| {
        let digits = run.bytes().filter(u8::is_ascii_hexdigit).count();
        out.push_str(if digits >= LEAST { "*" } else { run });
        run.clear();
    };
    for c in name.chars() {
        if c.is_ascii_hexdigit() || (c == '-' && !run.is_empty()) {
            run.push(c);
        } else {
            flush(&mut run, &mut out);
            out.push(c);
        }
    }
    flush(&mut run, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_parts_of_names_are_left_out_of_patterns() {
        for (name, expected) in [
            ("op_0638999999999999999_00000000000000ff", "op_*_*"),
            ("order_00000007", "order_00000007"),
            ("2026-11-26", "2026-11-26"),
            ("6f1d3c1e-8a55-4f8e-9a3e-0d7a1f6f0b11", "*"),
            ("facade", "facade"),
        ] {
            assert_eq!(pattern(name), expected);
        }
    }

    #[test]
    fn the_address_of_an_entity_is_read_with_its_quotes() {
        let mut headers = HeaderMap::new();
        headers.insert("dataserviceversion", http::HeaderValue::from_static("3.0"));
        let path = "/acct/staff(PartitionKey='O%27%27Neil%20%26%20co',RowKey='7')";
        let exchange = Exchange {
            authority: "",
            method: &Method::GET,
            path,
            query: "",
            headers: &headers,
            body: b"",
        };
        let row = ["staff", "O'Neil & co", "7"].map(str::to_owned);
        assert_eq!(exchange.subject(), Subject::Row(row));
    }
}
