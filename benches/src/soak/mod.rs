//! A server under all kinds of load for ten minutes, and during long queries.
//!
//! - [`run`]: a thousand idle connections, busy and misbehaving ones; the measurements, and the verdict
//! - [`work`]: the busy ones; [`odd`]: slow, half-closed, short-lived ones
//! - [`beside`]: point gets beside a client that reads a million entities
//! - [`service`]: a service on our client, and its dashboard
//! - [`requests`], [`socket`], [`figures`]: the requests, the connections, and the counters

pub mod beside;
pub(crate) mod figures;
pub(crate) mod odd;
pub(crate) mod requests;
pub mod run;
pub mod service;
pub(crate) mod socket;
pub(crate) mod work;
