//! What a test asks of the server besides answering: faults, cut pages, throttling, a journal.
//!
//! A server that is asked for none of it pays one load of an atomic number a request.
//!
//! | module | what is in it |
//! |---|---|
//! | [`hub`] | [`Control`]: what is asked for, and the way of a request through it |
//! | [`fault`] | [`Fault`]: which requests, and what happens to them |
//! | [`injected`] | [`Injected`]: the guard of a fault; the ordered list of all |
//! | [`journal`] | [`Journal`]: the requests that came |
//! | [`pages`] | [`Pages`]: pages of queries that end early |
//! | [`throttle`] | [`Targets`]: how much the server takes in a second |
//! | [`cut`] | an answer that breaks off |

pub(crate) mod cut;
pub(crate) mod fault;
pub(crate) mod hub;
pub(crate) mod injected;
pub(crate) mod journal;
pub(crate) mod pages;
pub(crate) mod throttle;

pub use fault::{Fault, Matching};
pub use injected::Injected;
pub use journal::{Journal, JournalEntry};
pub use pages::{Chaos, Pages};
pub use throttle::Targets;

pub(crate) use hub::Control;
