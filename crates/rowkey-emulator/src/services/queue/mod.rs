//! The Queue service over HTTP: turns requests into operations on the store, and results into
//! responses.
//!
//! | module | contents |
//! |---|---|
//! | [`answer`] | parses and authorizes a request, and calls its operation |
//! | [`call`] | [`Call`](call::Call): one authorized request |
//! | [`message`] | messages: put, get, peek, update, delete, clear |
//! | [`queues`] | the queues themselves, and the service's documents |
//! | [`permit`] | the permissions that each operation requires |

pub(crate) mod answer;
mod call;
mod message;
mod permit;
mod queues;
