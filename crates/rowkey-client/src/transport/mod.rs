//! Sends requests: dates, signs, sends, retries and traces them.
//!
//! - [`call`]: [`Call`], the description of an operation for the pipeline, and [`Reply`]
//! - [`pipeline`]: [`Pipeline::send`], the way of an operation from its request to its reply
//! - [`attempts`]: the loop over its attempts, and what follows from the result of each
//! - [`route`]: which endpoint each attempt goes to
//! - [`request`]: [`Request`], an operation before it is dated and signed
//! - [`parts`]: the requests in the body of a batch of blobs, each of which is authorized
//! - [`policy`]: headers and hooks that a program adds to every request
//! - [`pacing`]: when an attempt may be sent, and what its result says about the rate
//! - [`hedging`]: the second request of a slow read
//! - [`retry`]: which failures are retried, and after which wait
//! - [`sign`]: the parts that are new on every attempt: date, request id, authorization
//! - [`http`]: the connection pool, one attempt, and the meaning of its failures
//! - [`connect`]: new connections; [`proxies`]: which proxy a request passes; [`tls`]: their TLS
//! - [`failure`]: errors from unsuccessful responses; [`error_body`]: the bodies of those
//! - [`batch`]: the response to a batch, which may have failed with a successful status
//! - [`redact`]: request targets without sensitive parts
//! - [`trace`]: spans and events
//! - [`measure`]: metrics of operations and attempts
//! - [`report`]: what an attempt used, for those that count · [`metered`]: what meters make of it
//! - [`slow`]: the log of slow calls
//! - `stand_in`: answers in memory instead of the service, for stubs

mod attempts;
pub(crate) mod batch;
pub(crate) mod call;
mod connect;
pub(crate) mod error_body;
pub(crate) mod failure;
mod hedging;
pub(crate) mod http;
pub(crate) mod measure;
mod metered;
mod pacing;
pub(crate) mod parts;
pub(crate) mod pipeline;
pub(crate) mod policy;
mod proxies;
pub(crate) mod redact;
pub(crate) mod report;
mod request;
pub(crate) mod retry;
mod route;
pub(crate) mod sign;
mod slow;
#[cfg(feature = "test-util")]
pub(crate) mod stand_in;
mod tls;
pub(crate) mod trace;

pub(crate) use call::{Call, Host, Reply, Safety};
pub(crate) use pipeline::{Pipeline, Shared};
pub(crate) use request::Request;
