//! Server features for tests: faults, cut pages, throttling and a journal.
//!
//! Without any of them, a request costs one load of an atomic number.
//!
//! | module | contents |
//! |---|---|
//! | [`active`] | how many features affect every request |
//! | [`hub`] | [`Control`]: the enabled features, and their hooks around each request |
//! | [`fault`] | [`Fault`]: which requests, and what happens to them |
//! | [`injected`] | [`Injected`]: the guard of a fault; the ordered list of all |
//! | [`journal`] | [`Journal`]: the requests received |
//! | [`pages`] | [`Pages`]: pages of queries that end early |
//! | [`throttle`] | [`Targets`]: request rates above which the server throttles |
//! | [`cut`] | truncated responses |

pub(crate) mod active;
pub(crate) mod cut;
pub(crate) mod fault;
pub(crate) mod hub;
pub(crate) mod injected;
pub(crate) mod journal;
pub(crate) mod pages;
pub(crate) mod throttle;

pub use fault::{Fault, Matching};
pub use injected::Injected;
pub use journal::{Journal, JournalEntry, JournalFollower, RequestKind};
pub use pages::{Chaos, Pages};
pub use throttle::Targets;

pub(crate) use hub::Control;
