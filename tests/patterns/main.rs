//! The patterns of `rowkey-patterns` against servers: what they promise, what they cost in requests,
//! and the sweep over every request of each.

mod bulk;
mod index_entity;
