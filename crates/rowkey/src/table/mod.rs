//! Tables: single entities, queries and transactions.
//!
//! - `handle`: [`Table`], operations on one entity and on the table itself
//! - `requests`: the requests of those operations; `row`: entities, encoded and decoded
//! - `once`: [`Table::insert_once`](crate::Table::insert_once), the insert that may be repeated
//! - `update`: [`Table::update`](crate::Table::update), the read-modify-write loop
//! - `query`: [`Query`](crate::Query), which entities to read; `pages`: reading them page by page
//! - `encoded`: [`EncodedRow`], an entity encoded once for several transactions
//! - `entities`: reading a query entity by entity; `prefetch`: prefetching the next page
//! - `plan`: a query as requests: key bounds, filters, the split of long lists
//! - `azurite`: the filters of a query, rewritten for Azurite
//! - `keyed`: [`Keyed`], an entity with its keys as they are stored
//! - `failed`: [`FailedRow`], a row that does not decode
//! - `cost`: [`Cost`](crate::Cost), how much the service reads for a query
//! - `continuation`: [`Continuation`], the place where a query resumes
//! - `explain`: [`Explanation`], the requests of a query without sending them
//! - `transaction`: [`Transaction`](crate::Transaction), entity group transactions
//! - `service_token`: [`ServiceToken`], the continuation tokens of other libraries
//! - `service`: the account's tables; `name`: the rules for their names
//! - `access`: stored access policies

mod access;
mod azurite;
pub(crate) mod continuation;
pub(crate) mod cost;
mod encoded;
mod entities;
mod explain;
pub(crate) mod failed;
pub(crate) mod handle;
mod keyed;
mod name;
mod once;
pub(crate) mod pages;
pub(crate) mod plan;
mod prefetch;
pub(crate) mod query;
mod requests;
pub(crate) mod row;
mod service;
mod service_token;
pub(crate) mod transaction;
mod update;
pub(crate) mod wire;

pub(crate) use continuation::Continuation;
pub use encoded::{EncodedRow, RowWrite};
pub use explain::{ExplainedRequest, Explanation};
pub(crate) use failed::FailedRow;
pub(crate) use handle::Table;
pub use keyed::Keyed;
pub use pages::Stream;
pub use service_token::ServiceToken;
