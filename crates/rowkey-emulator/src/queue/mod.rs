//! The Queue service over HTTP: requests to operations on the store, and back.
//!
//! | module | what is in it |
//! |---|---|
//! | [`call`] | [`Call`](call::Call): one request, authorized; which operation it is |
//! | [`message`] | messages: put, get, peek, update, delete, clear |
//! | [`queues`] | the queues themselves, and the service's documents |
//! | [`wire`] | the formats: operations, requests, answers |
//! | [`permit`] | what each operation needs of a shared access signature |

pub(crate) mod call;
mod message;
mod permit;
mod queues;
pub(crate) mod wire;
