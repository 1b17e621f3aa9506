//! The patterns of the Azure Table storage design guide that need tables alone.
//!
//! Each module is one pattern: a helper over [`rowkey::Table`] that keeps what the pattern promises
//! whichever of its requests fails, and that says what it costs.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
//! | [`local_index`] | intra-partition secondary index | an entity and its copies in every index change together |
//! | [`verify`] | (keeping indexes right) | what is missing, stale or left over in an index is found, and mended while writers go on |
//! | [`index_entity`] | index entities, in the same partition | an entity and the lists of keys that name it change together |
//! | [`log_tail`] | log tail | newest first without a scan, no collision, no entry twice; a consumer misses none that settled in time |
//! | [`rollover`] | high-volume delete | a table a period, made when it is written to, read as one in key order, dropped at once |
//! | [`series`] | data series | a slot is set without reading; what depends on the old value happens exactly once |
//! | [`wide`] | wide entities | thousands of properties written as one, read as one version, merged a row at a time |
//! | [`spread`] | prepend/append anti-pattern | inserts spread over buckets by a stable hash or in turn, and come back in order; hot partitions are reported |
//! | [`lookup`] | relationships: joins in the client | a small reference table, all of one time, read once in its time to live |
//! | [`parallel`] | (many partitions at once) | many queries as one stream, in order, in bounded memory, resumable |
//! | [`vending`] | access by shared access signatures | each user's token opens the user's rows alone, for a short time |
//!
//! [`index_row`] is what the patterns about indexes have in common: how a copy is written and read;
//! [`rounds`] how what lost against another writer is tried again, [`pace`] how jobs keep to a rate.

mod checkpoint;
mod hash;
pub mod index_entity;
pub mod index_row;
pub mod local_index;
pub mod log_tail;
pub mod lookup;
pub mod pace;
pub mod parallel;
pub mod rollover;
pub mod rounds;
pub mod series;
pub mod spread;
mod unique;
pub mod vending;
pub mod verify;
pub mod wide;
