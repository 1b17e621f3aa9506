//! The Table service over HTTP: turns requests into operations on the store, and results into
//! responses.
//!
//! | module | contents |
//! |---|---|
//! | [`answer`] | parses and authorizes a request, and calls its operation |
//! | [`call`] | [`Call`](call::Call): one authorized request |
//! | [`entity`] | one entity: get, insert, update, delete |
//! | [`page`] | entity queries, in steps |
//! | [`batch`] | entity group transactions |
//! | [`tables`] | operations on tables |
//! | [`permit`] | the permissions that each operation requires |
//! | [`policies`] | access policies |

pub(crate) mod answer;
mod batch;
mod call;
mod entity;
mod page;
pub(crate) mod permit;
mod policies;
mod tables;
