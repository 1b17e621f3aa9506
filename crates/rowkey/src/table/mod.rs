//! Tables: single entities, queries, transactions, and what the Table service says of itself.
//!
//! - [`handle`]: [`Table`], operations on one entity and on the table itself
//! - `once`: [`Table::insert_once`], the insert that may be repeated
//! - `update`: [`Table::update`], the read-modify-write loop
//! - [`query`]: [`Query`], what to read; [`pages`]: reading it, page by page
//! - [`encoded`]: [`EncodedRow`], an entity encoded once for several transactions
//! - `entities`: reading it entity by entity; `ahead`: with the next page on its way
//! - `plan`: a query as requests: key bounds, filters, the split of long lists
//! - `azurite`: the filters of a query as Azurite understands them
//! - [`keyed`]: [`Keyed`], an entity with its keys as they are stored
//! - [`failed`]: [`FailedRow`], a row that does not decode
//! - [`cost`]: [`Cost`], what a query makes the service read
//! - [`continuation`]: [`Continuation`], where a query goes on
//! - [`explain`]: [`Explanation`], the requests of a query without sending them
//! - [`transaction`]: [`Transaction`], entity group transactions
//! - [`service_token`]: [`ServiceToken`], the continuation tokens of other libraries
//! - [`service`]: [`TableService`], the account's tables, properties and statistics
//! - [`access`]: stored access policies

pub mod access;
mod ahead;
mod azurite;
pub mod continuation;
pub mod cost;
pub mod encoded;
mod entities;
pub mod explain;
pub mod failed;
pub mod handle;
pub mod keyed;
mod once;
pub mod pages;
pub(crate) mod plan;
pub mod query;
pub mod service;
pub mod service_token;
pub mod transaction;
mod update;
pub(crate) mod wire;

pub use access::AccessPolicy;
pub use continuation::Continuation;
pub use cost::Cost;
pub use encoded::EncodedRow;
pub use explain::Explanation;
pub use failed::FailedRow;
pub use handle::Table;
pub use keyed::Keyed;
pub use pages::{Page, Stream};
pub use query::Query;
pub use service::{TableService, Tables};
pub use service_token::ServiceToken;
pub use transaction::Transaction;
