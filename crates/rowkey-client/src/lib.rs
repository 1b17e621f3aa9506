//! The client of rowkey: accounts, tables, queues and blobs, and the transport that signs, sends and retries.
//!
//! Programs name the crate `rowkey`, which shows all of this under its own name; its first page has an example. Crates
//! that stand between the two, such as `rowkey-store`, depend on this one.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `rustls` (default) | TLS by rustls and aws-lc-rs, the default of rustls |
//! | `rustls-no-provider` | TLS by rustls and the provider that the program installs |
//! | `native-tls` | TLS by the operating system |
//! | `azure-identity` | accept any credential of azure_core 1.x, such as those of `azure_identity` |
//! | `test-util` | `ManualClock`, a clock that tests advance; `answers`, responses of the service for stubs |
//! | `wiremock-0_6` | `answers` as responses of wiremock 0.6 |

mod account;
#[doc(hidden)]
pub mod address;
#[cfg(feature = "test-util")]
pub mod answers;
mod backoff;
pub mod blob;
mod clock;
pub mod cost;
mod credential;
mod endpoint;
mod error;
pub mod hot_partitions;
#[doc(hidden)]
pub mod internals;
mod options;
pub mod pace;
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
    Properties, Property, Receipt, Rows, Stored, TIMESTAMP, edm, entity, index, key,
};
pub use rowkey_wire::code::ErrorCode;

#[doc(no_inline)]
pub use async_trait::async_trait;

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
pub use options::{ClientOptions, RetryOptions, ScanPolicy, connection::ConnectionOptions};
#[doc(inline)]
pub use paging::Continuation;
#[doc(inline)]
pub use queue::handle::Queue;
#[doc(inline)]
pub use table::{cost::Cost, handle::Table, pages::Page, query::Query, transaction::Transaction};
pub use transport::policy::{Attempt, AttemptResult, Policy};
