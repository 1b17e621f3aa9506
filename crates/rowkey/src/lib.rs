//! Azure Table storage for Rust: a typed client, stores that keep indexes in step, workers, encryption, and the patterns of
//! the design guide.
//!
//! ```
//! use rowkey::Match;
//! use rowkey::prelude::*;
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
//! # Modules
//!
//! The client is always there. The rest comes with features of the same names:
//!
//! | module | contents |
//! |---|---|
//! | [`store`] | a handle for a type that writes each entity with its indexes, lists, unique values, views and copies by one plan |
//! | [`worker`] | background work: tasks on queues, dead letters, an outbox and an inbox, a janitor, steps that no transaction spans |
//! | [`encryption`] | encryption of chosen fields, under keys in memory or in Azure Key Vault |
//! | [`patterns`] | patterns that need no plan: log tail, series, rollover, spreading, jobs over whole tables, parallel queries, a lock with fencing tokens, logs in blobs, .. |
//! | [`prelude`] | the names that most programs need |
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
//! - [`telemetry`]: traces and metrics, besides the spans of `tracing`; [`Receipt`]: what a call used.
//! - [`Error`]: [`ErrorKind`] says what to do, [`Outcome`] whether the operation was applied,
//!   [`ErrorDetails`] holds the rest.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `patterns` | the module |
//! | `store` | the module, and `patterns` |
//! | `worker`, `encryption` | the module, and `store` |
//! | `rustls` (default) | TLS by rustls and aws-lc-rs, the default of rustls |
//! | `rustls-no-provider` | TLS by rustls and the provider that the program installs |
//! | `native-tls` | TLS by the operating system |
//! | `azure-identity` | accept any credential of `azure_core` 1.x, such as those of `azure_identity` |
//! | `key-vault` | `encryption`, and `encryption::KeyVault`: key-encryption keys in Azure Key Vault |
//! | `tracing-subscriber` | `patterns`, and `LogWriter::layer`, which writes events of `tracing` to a log in blobs |
//! | `test-util` | `ManualClock`, a clock that tests advance; `answers` and `store::answers`, responses of the service for stubs; random bytes chosen by tests |
//! | `wiremock-0_6` | `answers` and `store::answers` as responses of wiremock 0.6 |
//!
//! In tests, the crate `rowkey-emulator` is the service, in memory.

// Links to modules whose features are off.
#![cfg_attr(
    not(all(feature = "encryption", feature = "patterns", feature = "worker")),
    allow(rustdoc::broken_intra_doc_links)
)]

#[doc(inline)]
pub use rowkey_client::*;
#[cfg(feature = "encryption")]
#[doc(inline)]
pub use rowkey_encryption as encryption;
#[cfg(feature = "patterns")]
#[doc(inline)]
pub use rowkey_patterns as patterns;
#[cfg(feature = "store")]
#[doc(inline)]
pub use rowkey_store as store;
#[cfg(feature = "worker")]
#[doc(inline)]
pub use rowkey_worker as worker;

/// The names that most programs need: `use rowkey::prelude::*;`.
///
/// Not among them are names that a program may already have, such as `Error` and `Result`. `Store` needs the feature `store`,
/// and `Outbox`, the trait that adds tasks to transactions of a store, the feature `worker`.
pub mod prelude {
    #[cfg(feature = "store")]
    #[doc(no_inline)]
    pub use crate::store::Store;
    #[cfg(feature = "worker")]
    #[doc(no_inline)]
    pub use crate::worker::outbox::Outbox;
    #[doc(no_inline)]
    pub use crate::{Entity, StorageAccount};
}
