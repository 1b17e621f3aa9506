//! Sends requests: dates, signs, sends, retries and traces them.
//!
//! - [`call`]: [`Call`], the description of an operation for the pipeline, and [`Reply`]
//! - [`pipeline`]: [`Pipeline::send`], the loop over attempts
//! - [`request`]: [`Request`], an operation before it is dated and signed
//! - [`policy`]: headers and hooks that a program adds to every request
//! - [`retry`]: which failures are retried, and after which wait
//! - [`sign`]: the parts that are new on every attempt: date, request id, authorization
//! - [`http`]: the connection pool, one attempt, and the meaning of its failures
//! - [`redact`]: request targets without sensitive parts
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
