//! From a request to an answer: dating, signing, sending, retrying, tracing.
//!
//! - [`call`]: [`Call`], what the pipeline must know about an operation, and [`Reply`]
//! - [`pipeline`]: [`Pipeline::send`], the loop over attempts
//! - [`request`]: [`Request`], an operation before it is dated and signed
//! - [`policy`]: what a program adds to every request
//! - [`retry`]: which failures are repeated, and after which wait
//! - [`sign`]: what is new on every attempt: date, request id, authorization
//! - [`http`]: the connection pool, one attempt, and what its failures mean
//! - [`redact`]: addresses without what must not be shown
//! - [`trace`]: spans and events

pub(crate) mod call;
pub(crate) mod http;
pub(crate) mod pipeline;
pub(crate) mod policy;
pub(crate) mod redact;
mod request;
pub(crate) mod retry;
pub(crate) mod sign;
pub(crate) mod trace;

#[cfg(test)]
mod tests;

pub(crate) use call::{Call, Host, Reply, Safety};
pub(crate) use pipeline::{Pipeline, Shared};
pub(crate) use request::Request;
