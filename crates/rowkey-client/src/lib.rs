//! A typed client for Azure Table storage.
//!
//! ```
//! use rowkey::{Entity, Match, StorageAccount};
//!
//! #[derive(Clone, Debug, Entity)]
//! #[entity(partition = "{department}", row = "id_{id:6}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     email: String,
//!     salary: f64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_emulator::Server::start().await?;
//! # let connection_string = server.connection_string();
//! let account = StorageAccount::from_connection_string(connection_string)?;
//! let staff = account.table("staff");
//! staff.create_if_missing().await?;
//!
//! let ada = Employee {
//!     department: "sales".into(),
//!     id: 7,
//!     email: "ada@contoso.com".into(),
//!     salary: 100_000.0,
//! };
//! staff.insert(&ada).await?;
//!
//! // A point get: absence is not an error.
//! let stored = staff.get(Employee::key("sales", 7)).await?.ok_or("not there")?;
//!
//! // A replace carries the ETag that was read: no change is lost.
//! staff.replace(&stored.map(|e| e.salary += 5_000.0)).await?;
//!
//! // A query of one partition, read page by page.
//! let well_paid = staff
//!     .query(Employee::partition("sales"))
//!     .filter(Employee::SALARY.ge(100_000.0))
//!     .all()
//!     .await?;
//! assert_eq!(well_paid.len(), 1);
//!
//! staff.delete(Employee::key("sales", 7), Match::Any).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The nouns
//!
//! - [`StorageAccount`]: endpoints and a credential. [`StorageAccount::table`] gives a [`Table`].
//! - [`Entity`]: a type that is stored. The derive takes the templates of its keys. [`Key`] and
//!   [`Partition`] are typed addresses, [`Stored`] is an entity with its [`ETag`].
//!   `#[derive(EntitySet)]` combines several types that share a table into one.
//! - [`DynamicEntity`] and [`Properties`]: properties that are known only at run time, with typed
//!   getters. Both, and [`Stored`], [`edm::Value`] and [`edm::DateTime`], serialize as JSON with
//!   serde and round-trip exactly; [`DynamicEntity::to_odata_json`] writes the JSON of the service.
//! - [`Index`](index::Index): a secondary index, to look up entities by other values than their
//!   keys; [`IndexKey`](index::IndexKey) and [`IndexRange`](index::IndexRange) are the addresses of
//!   its rows.
//! - [`Query`]: a partition, a part of one, or a scan; with [`Filter`]s made of typed [`Column`]s,
//!   a [`Cost`] known before it is sent, and [`Continuation`]s that resume in another process.
//! - [`Transaction`]: up to 100 operations on one partition, all or nothing.
//! - [`Queue`]: messages, received with a pop receipt; [`queue::Body`] sets how their text is
//!   encoded.
//! - [`Container`] and [`Blob`]: written at once or in pieces, under conditions and leases.
//! - [`telemetry`]: traces, counters and gauges, besides the spans of `tracing`.
//! - [`Error`]: [`ErrorKind`] says what to do, [`Outcome`] whether the operation was applied,
//!   [`ErrorDetails`] holds the rest.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `rustls` (default) | TLS by rustls and aws-lc-rs, the default of reqwest |
//! | `rustls-no-provider` | TLS by rustls and the provider that the program installs |
//! | `native-tls` | TLS by the operating system |
//! | `azure-identity` | accept any credential of azure_core 1.x, such as those of `azure_identity` |
//! | `reqwest-0_13` | bring your own `reqwest::ClientBuilder` |
//! | `test-util` | `ManualClock`, a clock that tests advance; `answers`, responses of the service for stubs |
//! | `wiremock-0_6` | `answers` as responses of wiremock 0.6 |

mod account;
#[cfg(feature = "test-util")]
pub mod answers;
mod backoff;
pub mod blob;
mod clock;
mod credential;
mod endpoint;
mod error;
#[doc(hidden)]
pub mod internals;
mod options;
mod paging;
pub mod queue;
pub mod rounds;
pub mod sas;
pub mod service;
pub mod table;
pub mod telemetry;
#[cfg(test)]
mod tests;
mod transport;

#[doc(inline)]
pub use rowkey_entity::{
    Arg, BlobRef, Column, DecodeError, DynamicEntity, ETag, EncodeError, Entity, EntitySet,
    FailedRow, Filter, FilterError, Flatten, Key, KeyPart, Match, Operator, Partition, Projection,
    Properties, Property, Rows, Stored, TIMESTAMP, edm, entity, index, key,
};
pub use rowkey_wire::code::ErrorCode;

pub use account::{StorageAccount, builder::StorageAccountBuilder};
#[doc(inline)]
pub use blob::{container::Container, handle::Blob};
#[cfg(any(test, feature = "test-util"))]
pub use clock::manual::ManualClock;
pub use clock::{Clock, SystemClock};
pub use credential::{
    Credential,
    slot::CredentialSlot,
    token::{AccessToken, TokenError, TokenProvider},
};
pub use error::{Error, ErrorDetails, ErrorKind, Outcome, Result};
pub use options::{ClientOptions, RetryOptions, ScanPolicy};
#[doc(inline)]
pub use paging::Continuation;
#[doc(inline)]
pub use queue::handle::Queue;
#[doc(inline)]
pub use table::{cost::Cost, handle::Table, pages::Page, query::Query, transaction::Transaction};
pub use transport::policy::{Attempt, AttemptResult, Policy};
