//! What a stub holds: entities, messages and blobs, each request on which is answered as the service would.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use http::Method;
use rowkey_entity::internals::decode;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::{DateTime, Value};
use rowkey_wire::etag::ETag;
use rowkey_wire::filter::{Comparison, Filter, parse};
use rowkey_wire::multipart::ResponseWriter;
use rowkey_wire::odata::Fields;
use rowkey_wire::{key, token};

use super::exchange::{Exchange, Subject, TableId};
use super::objects::Objects;
use super::{Answer, push_row, written_at};

/// The most entities in a page.
const PAGE: usize = 1000;

/// Entities, messages and blobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    tables: BTreeMap<TableId, Vec<Row>>,
    objects: Objects,
    /// The number of writes, which makes each ETag another.
    writes: i64,
}

/// A stored entity.
#[derive(Clone)]
struct Row {
    keys: (String, String),
    properties: Vec<(String, Value)>,
    written: DateTime,
}

impl std::fmt::Debug for Row {
    /// Shows neither keys nor properties.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("properties", &self.properties.len()).finish_non_exhaustive()
    }
}

impl Contents {
    /// Answers a request, which may change the contents. `None` if it is one that no stub answers.
    /// `table` is that of a request on a table.
    pub(super) fn answer(
        &mut self,
        request: &Exchange<'_>,
        table: Option<&TableId>,
    ) -> Option<Answer> {
        match request.subject() {
            Subject::Row([_, partition, row]) => {
                let answer = self.row(request, table?, (partition, row));
                let answer = answer.unwrap_or_else(super::error);
                Some(match request.header("prefer") {
                    Some(preference) => answer.header("Preference-Applied", preference),
                    None => answer,
                })
            }
            Subject::Rows(_) => self.page(request, table?),
            Subject::Batch => self.batch(request, table?),
            Subject::Whole if *request.method == Method::POST => Some(super::created()),
            Subject::Whole if *request.method == Method::PUT => {
                let created = super::empty(201).header("ETag", "\"0x1\"");
                Some(created.header("Last-Modified", &written_at().to_http()))
            }
            Subject::Messages(queue, id) => self.objects.message(request, &queue, id.as_deref()),
            Subject::Blob(path) => self.objects.blob(request, &path),
            Subject::Blobs => self.objects.batch(request),
            Subject::Whole | Subject::Other => None,
        }
    }

    /// Sets the Timestamp of every entity to `WRITTEN_AT`.
    pub(super) fn settle(&mut self) {
        for row in self.tables.values_mut().flatten() {
            row.written = written_at();
        }
    }

    /// Adds what others hold.
    pub(super) fn extend(&mut self, other: Self) {
        for (table, rows) in other.tables {
            let own = self.tables.entry(table).or_default();
            own.retain(|row| rows.iter().all(|other| other.keys != row.keys));
            own.extend(rows);
            sort(own);
        }
        self.objects.extend(other.objects);
        self.writes = self.writes.max(other.writes);
    }

    /// The entities that `with` chooses, without other contents.
    pub(super) fn choose(self, with: impl Fn(&TableId, &(String, String)) -> bool) -> Self {
        let mut tables = self.tables;
        for (table, rows) in &mut tables {
            rows.retain(|row| with(table, &row.keys));
        }
        Self { tables, writes: self.writes, ..Self::default() }
    }

    /// The response to Get Entity.
    pub(super) fn one(&self, table: &TableId, keys: &(String, String)) -> Answer {
        let found = self.find(table, keys);
        found.map_or_else(|| super::error(ErrorCode::RESOURCE_NOT_FOUND), Row::answer)
    }

    /// The entities of a table, as a list.
    pub(super) fn list(
        &self,
        table: &TableId,
        mut with: impl FnMut(&(String, String), &[(String, Value)]) -> bool,
    ) -> Answer {
        let rows = self.tables.get(table).into_iter().flatten();
        list(rows.filter(|row| with(&row.keys, &row.properties)))
    }

    fn find(&self, table: &TableId, keys: &(String, String)) -> Option<&Row> {
        self.tables.get(table)?.iter().find(|row| row.keys == *keys)
    }

    fn row(
        &mut self,
        request: &Exchange<'_>,
        table: &TableId,
        keys: (String, String),
    ) -> Result<Answer, ErrorCode> {
        let found = self.find(table, &keys);
        let condition = request.header("if-match");
        match condition {
            Some("*") if found.is_none() => return Err(ErrorCode::RESOURCE_NOT_FOUND),
            None | Some("*") => {}
            Some(tag) => {
                let Some(found) = found else { return Err(ErrorCode::RESOURCE_NOT_FOUND) };
                if found.etag().as_str() != tag {
                    return Err(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED);
                }
            }
        }
        match *request.method {
            Method::GET => found.map(Row::answer).ok_or(ErrorCode::RESOURCE_NOT_FOUND),
            Method::DELETE => {
                let rows = self.tables.entry(table.clone()).or_default();
                rows.retain(|row| row.keys != keys);
                Ok(super::deleted())
            }
            Method::POST if found.is_some() => Err(ErrorCode::ENTITY_ALREADY_EXISTS),
            Method::POST | Method::PUT | Method::PATCH => {
                let mut properties = match found {
                    Some(found) if *request.method == Method::PATCH => found.properties.clone(),
                    _ => Vec::new(),
                };
                for (name, value) in properties_of(request.body)? {
                    match properties.iter_mut().find(|(own, _)| *own == name) {
                        Some((_, own)) => *own = value,
                        None => properties.push((name, value)),
                    }
                }
                self.writes += 1;
                // A second for each write, so that no two ETags of an entity are the same.
                let ticks = written_at().ticks() + self.writes * 10_000_000;
                let written = DateTime::from_ticks(ticks).unwrap_or(DateTime::MAX);
                let row = Row { keys, properties, written };
                let answer = super::empty(204).header("ETag", row.etag().as_str());
                let rows = self.tables.entry(table.clone()).or_default();
                rows.retain(|other| other.keys != row.keys);
                rows.push(row);
                sort(rows);
                Ok(answer)
            }
            _ => Err(ErrorCode::UNSUPPORTED_HTTP_VERB),
        }
    }

    /// A transaction changes all or nothing.
    fn batch(&mut self, request: &Exchange<'_>, table: &TableId) -> Option<Answer> {
        let operations = request.operations()?;
        let mut after = self.clone();
        let mut answers = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            let exchange = operation.exchange();
            let Subject::Row([_, partition, row]) = exchange.subject() else { return None };
            match after.row(&exchange, table, (partition, row)) {
                Ok(answer) => answers.push(answer),
                Err(code) => return Some(super::refused_transaction(index, code)),
            }
        }
        *self = after;
        if let ([operation], [answer]) = (&*operations, &*answers)
            && operation.exchange().reads()
        {
            let mut out = ResponseWriter::query("00000000-0000-0000-0000-000000000000");
            let headers = answer.headers.iter().map(|(name, value)| (&**name, &**value));
            out.part(answer.status, "OK", &headers.collect::<Vec<_>>(), &answer.body);
            let (content_type, body) = out.finish();
            let answer = Answer { body, ..super::empty(202) };
            return Some(answer.header("Content-Type", &content_type));
        }
        Some(super::committed(answers))
    }

    fn page(&self, request: &Exchange<'_>, table: &TableId) -> Option<Answer> {
        let filter = match request.parameter("$filter") {
            Some(filter) => Some(parse(&filter).ok()?),
            None => None,
        };
        let top = request.parameter("$top").and_then(|top| top.parse().ok()).unwrap_or(PAGE);
        let next = request.parameter("NextPartitionKey");
        let next_row = request.parameter("NextRowKey");
        let mut found: Vec<_> = self.tables.get(table).into_iter().flatten().collect();
        if let Some(next) = next {
            let is_next = |row: &&Row| {
                token::encode(&row.keys.0) == next
                    && next_row.as_ref().is_none_or(|next| token::encode(&row.keys.1) == *next)
            };
            let start = found.iter().position(is_next).unwrap_or(found.len());
            found.drain(..start);
        }
        found.retain(|row| filter.as_ref().is_none_or(|filter| row.holds(filter)));
        let more = found.get(top).map(|row| row.keys.clone());
        found.truncate(top);
        let answer = list(found.into_iter());
        Some(match more {
            Some((partition, row)) => answer.continued((&partition, Some(&row))),
            None => answer,
        })
    }
}

impl Row {
    fn etag(&self) -> ETag {
        ETag::from_timestamp(self.written)
    }

    fn answer(&self) -> Answer {
        let mut body = Vec::with_capacity(512);
        super::begin_entity(&mut body);
        self.push(&mut body);
        super::data(200, body).header("ETag", self.etag().as_str())
    }

    fn push(&self, out: &mut Vec<u8>) {
        let properties = self.properties.iter().map(|(name, value)| (&**name, value.as_ref()));
        push_row(out, (&self.keys.0, &self.keys.1), self.written, properties);
    }

    fn holds(&self, filter: &Filter) -> bool {
        match filter {
            Filter::And(all) => all.iter().all(|one| self.holds(one)),
            Filter::Or(all) => all.iter().any(|one| self.holds(one)),
            Filter::Not(one) => !self.holds(one),
            Filter::Constant(value) => *value,
            Filter::Property(name) => self.value(name) == Some(Value::Boolean(true)),
            Filter::Compare(Comparison { property, operator, value }) => {
                let order = self.value(property).and_then(|own| compare(&own, value));
                order.is_some_and(|order| operator.holds(order))
            }
        }
    }

    fn value(&self, name: &str) -> Option<Value> {
        match name {
            "PartitionKey" => Some(Value::String(self.keys.0.clone())),
            "RowKey" => Some(Value::String(self.keys.1.clone())),
            "Timestamp" => Some(Value::DateTime(self.written)),
            _ => {
                let found = self.properties.iter().find(|(own, _)| own == name);
                found.map(|(_, value)| value.clone())
            }
        }
    }
}

fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| {
        key::compare(&a.keys.0, &b.keys.0).then_with(|| key::compare(&a.keys.1, &b.keys.1))
    });
}

fn list<'a>(rows: impl Iterator<Item = &'a Row>) -> Answer {
    let mut body = Vec::with_capacity(4096);
    super::begin_list(&mut body);
    for (i, row) in rows.enumerate() {
        body.extend_from_slice(if i == 0 { b"{" } else { b",{" });
        row.push(&mut body);
    }
    body.extend_from_slice(b"]}");
    super::data(200, body)
}

/// Compares two values of one type, or a number with an Int32 constant.
fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Int64(a), Value::Int32(b)) => Some(a.cmp(&i64::from(*b))),
        (Value::Double(a), Value::Int32(b)) => a.partial_cmp(&f64::from(*b)),
        (a, b) => a.as_ref().compare(&b.as_ref()),
    }
}

/// The properties in the body of a write, without the keys. Nulls are left out.
fn properties_of(body: &[u8]) -> Result<Vec<(String, Value)>, ErrorCode> {
    let mut fields = Fields::default();
    decode::entity(body, &mut fields).map_err(|_| ErrorCode::INVALID_INPUT)?;
    let mut properties = Vec::new();
    for field in &fields {
        if matches!(&*field.name, "PartitionKey" | "RowKey" | "Timestamp") {
            continue;
        }
        if let Some(value) = field.value().map_err(|_| ErrorCode::INVALID_INPUT)? {
            properties.push((field.name.to_string(), value.into_owned()));
        }
    }
    Ok(properties)
}
