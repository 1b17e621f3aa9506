//! The data of the server, and the rules for changing it.
//!
//! Synchronous, and independent of HTTP and the clock: the current time is an argument of every
//! call. Tests call it directly.
//!
//! | module | contents |
//! |---|---|
//! | [`account`] | [`Account`]: its tables by name; creates and deletes them |
//! | [`table`] | [`Table`](table::Table): partitions in order, single changes |
//! | [`transaction`] | several changes of one partition, applied together or not at all |
//! | [`partition`] | the rows of a partition, and [`Key`], which orders them |
//! | [`row`] | [`Row`]: one entity, packed |
//! | [`shape`] | the property names and types that rows share |
//! | [`names`] | whether names of deleted resources are blocked |
//! | [`filter`] | compiled filters |
//! | [`queue`] | queues and their messages |
//! | [`properties`] | the properties of a service |
//! | [`blob`] | containers and blobs |
//! | [`query`] | pages: which rows, how many at a time, where the next one starts |
//! | [`touched`] | changes, for the durable store |

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
mod filter_tests;
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
