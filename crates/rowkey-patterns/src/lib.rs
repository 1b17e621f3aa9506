//! The patterns of the Azure Table storage design guide that need tables alone.
//!
//! Each module is one pattern: a helper over [`rowkey::Table`] that keeps what the pattern promises
//! if any of its requests fails, and whose page says what it costs.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
//! | [`inspect`] | (rows of other programs) | what a table holds, as types and a struct, and whether a type writes back what it reads |
//! | [`log_tail`] | log tail | newest first without a scan, no collision, no entry twice; a consumer misses none that settled in time |
//! | [`rollover`] | high-volume delete | a table a period, made when it is written to, read as one in key order, dropped at once |
//! | [`series`] | data series | a slot is set without reading; what depends on the old value happens exactly once |
//! | [`spread`] | prepend/append anti-pattern | inserts spread over buckets by a stable hash or in turn, and come back in order; hot partitions are reported |
//! | [`lookup`] | relationships: joins in the client | a small reference table, all of one time, read once in its time to live |
//! | [`parallel`] | (many partitions at once) | many queries as one stream, in order, in bounded memory, resumable |
//! | [`vending`] | access by shared access signatures | each user's token opens the user's rows alone, for a short time |
//!
//! What keeps several rows of one type in step (indexes, lists, unique values, views, copies, wide entities), and jobs over many
//! entities, are in `rowkey-store`. [`rounds`] is how what lost against another writer is tried again.

mod hash;
pub mod inspect;
pub mod log_tail;
pub mod lookup;
pub mod parallel;
pub mod rollover;
pub mod rounds;
pub mod series;
pub mod spread;
mod unique;
pub mod vending;
