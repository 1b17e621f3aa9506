//! Responses of the Table service for stubs: one call builds one response from your own entities.
//!
//! A test that runs your service against a stub server (wiremock or another) needs responses that
//! look like the real ones. The code that renders these responses also renders those of the bundled
//! server, and is checked against recordings of the live service, so no test contains handwritten
//! JSON.
//!
#![cfg_attr(feature = "wiremock-0_6", doc = "```")]
#![cfg_attr(not(feature = "wiremock-0_6"), doc = "```text")]
//! use rowkey::service::Service;
//! use rowkey::{Credential, Entity, StorageAccount, answers};
//! use wiremock::matchers::{method, path};
//! use wiremock::{Mock, MockServer};
//!
//! #[derive(Clone, Debug, PartialEq, Entity)]
//! #[entity(partition = "{department}", row = "{id:6}")]
//! struct Employee { department: String, id: u32, salary: f64 }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ada = Employee { department: "sales".into(), id: 7, salary: 1.5 };
//! let stub = MockServer::start().await;
//! Mock::given(method("GET"))
//!     .and(path("/staff(PartitionKey='sales',RowKey='000007')"))
//!     .respond_with(answers::entity(&ada)?)
//!     .mount(&stub)
//!     .await;
//!
//! let account = StorageAccount::builder()
//!     .endpoint(Service::Table, &stub.uri())?
//!     .credential(Credential::anonymous())
//!     .build()?;
//! let found = account.table("staff").get(Employee::key("sales", 7)).await?;
//! assert_eq!(found.unwrap().entity, ada);
//! # Ok(())
//! # }
//! ```

mod blob_calls;
mod contents;
mod exchange;
#[cfg(feature = "wiremock-0_6")]
mod mounted;
mod objects;
mod state;
mod stubs;

use bytes::Bytes;
use http::StatusCode;
use rowkey_entity::Entity;
use rowkey_entity::internals::{Row, decode};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::{DateTime, ValueRef};
use rowkey_wire::error::{self, Rejection};
use rowkey_wire::etag::ETag;
use rowkey_wire::multipart::ResponseWriter;
use rowkey_wire::odata::render::{self, Origin};
use rowkey_wire::odata::{Fields, Metadata};
use rowkey_wire::token;

use crate::error::{Error, Result};
use crate::queue::Body;
use crate::transport::sign::TABLE_VERSION;

pub use stubs::Stubs;

/// The Timestamp of every entity in a stub, unless a test sets another.
pub const WRITTEN_AT: &str = "2026-01-02T03:04:05.6789Z";

const ORIGIN: Origin<'static> =
    Origin { account: "stub", endpoint: "https://stub.table.core.windows.net" };
const TABLE: &str = "stub";
const VERSION: &str = "x-ms-version";

/// A response of the service: status, headers, body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// The body; may be empty.
    pub body: Bytes,
}

/// The response of Get Entity with this entity.
pub fn entity<E: Entity>(entity: &E) -> Result<Answer> {
    let mut body = Vec::with_capacity(512);
    begin_entity(&mut body);
    push_entity(&mut body, entity)?;
    Ok(data(200, body).header("ETag", etag().as_str()))
}

/// The response of Query Entities with these entities, as the only page.
pub fn entities<'a, E: Entity + 'a>(found: impl IntoIterator<Item = &'a E>) -> Result<Answer> {
    let mut body = Vec::with_capacity(4096);
    begin_list(&mut body);
    for (i, entity) in found.into_iter().enumerate() {
        body.extend_from_slice(if i == 0 { b"{" } else { b",{" });
        push_entity(&mut body, entity)?;
    }
    body.extend_from_slice(b"]}");
    Ok(data(200, body))
}

/// The response of Query Entities with these entities and a continuation at the keys `next`.
/// Without a RowKey the token has none, as at the start of a partition. `found` may be empty.
pub fn page<'a, E: Entity + 'a>(
    found: impl IntoIterator<Item = &'a E>,
    next: (&str, Option<&str>),
) -> Result<Answer> {
    Ok(entities(found)?.continued(next))
}

/// The response to a successful write of one entity.
pub fn written() -> Answer {
    empty(204).header("ETag", etag().as_str())
}

/// The response to a successful delete.
pub fn deleted() -> Answer {
    empty(204)
}

/// The response to the creation of a table.
pub fn created() -> Answer {
    empty(204).header("Preference-Applied", "return-no-content")
}

/// The response to a successful transaction, made of the responses that its operations would have
/// one by one: `committed([written(), written(), deleted()])`.
pub fn committed(operations: impl IntoIterator<Item = Answer>) -> Answer {
    batch(|out| {
        for Answer { status, headers, body } in operations {
            let own = headers.iter().filter(|(name, _)| name != VERSION);
            let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
            let headers: Vec<_> = [("DataServiceVersion", "1.0;")].into_iter().chain(own).collect();
            let reason = StatusCode::from_u16(status).ok();
            let reason = reason.and_then(|status| status.canonical_reason()).unwrap_or_default();
            out.part(status, reason, &headers, &body);
        }
    })
}

/// The response to a transaction that was refused because of its operation `index`, counted from 0.
pub fn refused_transaction(index: usize, code: ErrorCode) -> Answer {
    let Rejection { status, code, message, .. } = Rejection::new(code);
    batch(|out| {
        let headers = [("Content-Type", Metadata::Minimal.content_type())];
        let body = error::render_json(&code, &stamped(&format!("{index}:{message}")));
        let reason = status.canonical_reason().unwrap_or_default();
        out.part(status.as_u16(), reason, &headers, body.as_bytes());
    })
}

/// The response of Get Messages with these messages, each received for the first time; also without any.
///
/// ```
/// use rowkey::answers;
/// use rowkey::queue::Body;
///
/// let answer = answers::messages(&[Body::text("order 7"), Body::base64("order 8")]);
/// assert_eq!(answer.status, 200);
/// assert!(String::from_utf8_lossy(&answer.body).contains("order 7"));
/// ```
pub fn messages(bodies: &[Body]) -> Answer {
    objects::received(bodies.iter().map(Body::as_str))
}

/// The response of Get Blob with this content.
///
/// ```
/// use rowkey::answers;
///
/// let answer = answers::blob("a long text").header("x-ms-meta-author", "ada");
/// assert_eq!((answer.status, &*answer.body), (200, b"a long text".as_slice()));
/// ```
pub fn blob(content: impl Into<Bytes>) -> Answer {
    objects::content(content.into())
}

/// An error response with this code; the code determines the status.
pub fn error(code: ErrorCode) -> Answer {
    let Rejection { status, code, message, .. } = Rejection::new(code);
    let body = error::render_json(&code, &stamped(&message));
    data(status.as_u16(), body.into_bytes()).header("x-ms-error-code", code.as_str())
}

/// The response of Query Tables with these names.
pub fn tables<'a>(names: impl IntoIterator<Item = &'a str>) -> Answer {
    let mut body = b"{\"value\":[".to_vec();
    for (index, name) in names.into_iter().enumerate() {
        body.extend_from_slice(if index == 0 { b"" } else { b"," });
        body.extend_from_slice(b"{\"TableName\":");
        render::string(&mut body, name);
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
    data(200, body)
}

impl Answer {
    /// Adds a header to the response.
    #[must_use = "the answer itself does not change"]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a continuation token at these keys to the response to a query, as [`page`] has it.
    ///
    /// ```
    /// # use rowkey::{DynamicEntity, answers};
    /// # fn main() -> rowkey::Result<()> {
    /// let found = [DynamicEntity::new("ada", "order_00000007")];
    /// let next = ("ada", Some("order_00000008"));
    /// assert_eq!(answers::entities(&found)?.continued(next), answers::page(&found, next)?);
    /// # Ok(()) }
    /// ```
    #[must_use = "the answer itself does not change"]
    pub fn continued(self, (partition, row): (&str, Option<&str>)) -> Self {
        let answer = self.header("x-ms-continuation-NextPartitionKey", &token::encode(partition));
        match row {
            Some(row) => answer.header("x-ms-continuation-NextRowKey", &token::encode(row)),
            None => answer,
        }
    }
}

/// Writes an entity's members and the closing brace.
fn push_entity<E: Entity>(out: &mut Vec<u8>, entity: &E) -> Result<()> {
    // The encoded entity has the properties with their types, in order.
    let row = Row::unguarded(entity)?;
    let mut fields = Fields::default();
    decode::entity(&row.body, &mut fields)?;
    let mut properties = Vec::with_capacity(16);
    for field in &fields {
        if matches!(&*field.name, "PartitionKey" | "RowKey") {
            continue;
        }
        let value = field.value().map_err(|error| Error::decode(error.to_string()))?;
        properties.extend(value.map(|value| (&*field.name, value)));
    }
    push_row(out, row.keys(), written_at(), properties);
    Ok(())
}

fn begin_entity(out: &mut Vec<u8>) {
    render::begin_entity(out, Metadata::Minimal, ORIGIN, TABLE, None);
}

fn begin_list(out: &mut Vec<u8>) {
    render::begin_list(out, Metadata::Minimal, ORIGIN, TABLE, None);
}

/// Writes the members of a stored entity and the closing brace.
fn push_row<'a>(
    out: &mut Vec<u8>,
    keys: (&str, &str),
    written: DateTime,
    properties: impl IntoIterator<Item = (&'a str, ValueRef<'a>)>,
) {
    let written = written.iso();
    render::entity_head(out, Metadata::Minimal, ORIGIN, TABLE, keys, &written);
    out.extend_from_slice(b"\"PartitionKey\":");
    render::string(out, keys.0);
    out.extend_from_slice(b",\"RowKey\":");
    render::string(out, keys.1);
    out.push(b',');
    render::timestamp(out, Metadata::Minimal, &written);
    for (name, value) in properties {
        render::property(out, name, &value);
    }
    out.push(b'}');
}

fn written_at() -> DateTime {
    WRITTEN_AT.parse().unwrap_or(DateTime::MIN)
}

/// The ETag of every entity in a stub.
fn etag() -> ETag {
    ETag::from_timestamp(written_at())
}

fn stamped(message: &str) -> String {
    format!("{message}\nRequestId:00000000-0000-0000-0000-000000000000\nTime:{WRITTEN_AT}")
}

fn batch(write: impl FnOnce(&mut ResponseWriter)) -> Answer {
    let id = "00000000-0000-0000-0000-000000000000";
    let mut out = ResponseWriter::new(id, id);
    write(&mut out);
    let (content_type, body) = out.finish();
    Answer { body, ..empty(202) }.header("Content-Type", &content_type)
}

fn data(status: u16, body: Vec<u8>) -> Answer {
    data_of(status, body.into(), Metadata::Minimal.content_type())
}

fn data_of(status: u16, body: Bytes, content_type: &str) -> Answer {
    Answer { body, ..empty(status) }.header("Content-Type", content_type)
}

fn empty(status: u16) -> Answer {
    let version = (VERSION.to_owned(), TABLE_VERSION.to_owned());
    Answer { status, headers: vec![version], body: Bytes::new() }
}

#[cfg(feature = "wiremock-0_6")]
impl From<Answer> for wiremock::ResponseTemplate {
    fn from(answer: Answer) -> Self {
        let mut template = Self::new(answer.status).set_body_bytes(answer.body.to_vec());
        for (name, value) in &answer.headers {
            template = template.insert_header(name.as_str(), value.as_str());
        }
        template
    }
}

#[cfg(feature = "wiremock-0_6")]
impl wiremock::Respond for Answer {
    fn respond(&self, _request: &wiremock::Request) -> wiremock::ResponseTemplate {
        self.clone().into()
    }
}
