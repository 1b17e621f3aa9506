//! The patterns of the Azure Table storage design guide that need no write plan.
//!
//! Each module is one pattern: a helper over [`rowkey::Table`](rowkey_client::Table) or [`rowkey::Container`](rowkey_client::Container) that keeps its guarantee even if requests
//! fail, and whose page states the cost.
//!
//! | module | name in the guide | guarantee |
//! |---|---|---|
//! | [`inspect`] | (rows of other programs) | reports the contents of a table as types and a struct, and checks whether a type preserves the rows that it reads |
//! | [`log_tail`] | log tail | newest first without a scan, no collision, no entry twice; a consumer misses no entry that settled in time |
//! | [`rollover`] | high-volume delete | one table per period, created on the first write, read as one in key order, dropped with one request |
//! | [`series`] | data series | a slot is set without reading; a change that depends on the old value happens exactly once |
//! | [`spread`] | prepend/append anti-pattern | inserts are spread over buckets by a stable hash or in turn, and read back in order; hot partitions are reported |
//! | [`lookup`] | relationships: joins in the client | a small reference table, read as one snapshot, once per time to live |
//! | [`parallel`] | (many partitions at once) | many queries as one stream, in order, in bounded memory, resumable |
//! | [`ranges`] | (a table in parts) | each row is in exactly one of the ranges, which have about as many rows each |
//! | [`lease_lock`] | pessimistic concurrency | one holder at a time; work stops when the lease is lost, and late writes are detected by their fencing token |
//! | [`log_blob`] | log data anti-pattern, inverted | every flushed line is in a blob exactly once, despite failures; a read of a time range opens only the blobs it needs |
//! | [`vending`] | access by shared access signatures | each user's token gives access only to the user's rows, for a short time |
//!
//! [`job`] runs jobs over whole tables, paced and resumable, with one report. [`Waits`] says how long receivers wait when a queue
//! is empty.
//!
//! The feature `tracing-subscriber` adds `LogWriter::layer`, which writes events of `tracing` to a log in blobs.
//!
//! Indexes, lists, unique values, views, copies and wide entities, which keep several rows of one type
//! consistent, are in `rowkey::store`. [`rowkey::rounds`](rowkey_client::rounds) retries an operation that
//! lost against another writer.

pub mod inspect;
#[doc(hidden)]
pub mod internals;
pub mod job;
mod keys;
pub mod lease_lock;
pub mod log_blob;
pub mod log_tail;
pub mod lookup;
pub mod parallel;
mod probe;
pub mod ranges;
pub mod rollover;
pub mod series;
pub mod spread;
mod together;
mod unique;
pub mod vending;
mod waits;

pub use waits::Waits;
