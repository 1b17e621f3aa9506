//! Tables: single entities, queries and transactions.
//!
//! - `handle`: [`Table`], operations on one entity and on the table itself
//! - `requests`: the requests of those operations; `row`: the response to a point get
//! - `once`: [`Table::insert_once`](crate::Table::insert_once), the insert that may be repeated
//! - `update`: [`Table::update`](crate::Table::update), the read-modify-write loop; `unknown`: its rows
//! - `query`: [`Query`](crate::Query), which entities to read; `pages`: reading them page by page
//! - `encoded`: [`EncodedRow`], an entity encoded once for several transactions
//! - `entities`: reading a query entity by entity; `prefetch`: prefetching the next page
//! - `plan`: the requests of a query: key bounds, filters, and lists split into several requests
//! - `azurite`: the filters of a query, rewritten for Azurite
//! - `count`: how many entities a query has, and the partitions of a table
//! - `changes`: the entities that were written since a watermark
//! - `keyed`: [`Keyed`], an entity with its keys as they are stored
//! - `copies`: whether the copies in an index have the properties that a query needs
//! - `cost`: [`Cost`](crate::Cost), how much the service reads for a query
//! - `explain`: [`Explanation`], the requests of a query without sending them
//! - `transaction`: [`Transaction`](crate::Transaction), entity group transactions
//! - `service`: the account's tables; `name`: the rules for their names
//! - `access`: stored access policies

mod access;
mod azurite;
mod changes;
mod copies;
pub(crate) mod cost;
mod count;
mod encoded;
mod entities;
mod explain;
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
pub(crate) mod transaction;
mod unknown;
mod update;
pub(crate) mod wire;

pub use changes::{Changes, Watermark};
pub use encoded::{EncodedRow, RowWrite};
pub use explain::{ExplainedRequest, Explanation};
pub(crate) use handle::Table;
pub use keyed::Keyed;

pub use crate::paging::{ServiceToken, Stream};
