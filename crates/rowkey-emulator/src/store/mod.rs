//! What the server keeps: accounts of tables of entities, and the rules for changing them.
//!
//! Synchronous, and free of HTTP and of time: an instant comes with every call. Tests drive it
//! directly.
//!
//! | module | what is in it |
//! |---|---|
//! | [`account`] | [`Account`]: its tables by name, their life and death, its properties |
//! | [`table`] | [`Table`](table::Table): partitions in order, single changes |
//! | [`transaction`] | several changes of one partition, all or none |
//! | [`partition`] | the rows of a partition, and [`Key`], which orders them |
//! | [`row`] | [`Row`]: one entity, packed |
//! | [`shape`] | the names and types that rows share |
//! | [`names`] | whether names of what was deleted are blocked |
//! | [`filter`] | a filter made ready to be asked of many rows |
//! | [`queue`] | queues and their messages |
//! | [`properties`] | the properties of a service |
//! | [`blob`] | containers and blobs |
//! | [`query`] | pages: which rows, how many at a time, where the next one begins |
//! | [`touched`] | keys of what has changed, for a store that keeps it elsewhere |

pub(crate) mod account;
pub(crate) mod blob;
pub(crate) mod filter;
pub(crate) mod names;
pub(crate) mod partition;
pub(crate) mod properties;
pub(crate) mod query;
pub(crate) mod queue;
pub(crate) mod row;
pub(crate) mod shape;
pub(crate) mod table;
pub(crate) mod touched;
pub(crate) mod transaction;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod scan_tests;
#[cfg(test)]
mod tests;

pub(crate) use account::Account;
pub(crate) use names::Names;
pub(crate) use partition::Key;
pub(crate) use row::Row;
