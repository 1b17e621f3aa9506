//! The Queue service over HTTP: turns requests into operations on the store, and results into
//! responses.
//!
//! | module | contents |
//! |---|---|
//! | [`call`] | [`Call`](call::Call): one authorized request, and its dispatch to an operation |
//! | [`message`] | messages: put, get, peek, update, delete, clear |
//! | [`queues`] | the queues themselves, and the service's documents |
//! | [`permit`] | the permissions that each operation requires |

pub(crate) mod call;
mod message;
mod permit;
mod queues;
