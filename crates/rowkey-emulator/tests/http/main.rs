//! Tests of the server over real sockets, with a client that shares no code with the real one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batch;
mod blob;
mod blob_batch;
mod blob_tags;
mod blob_tiers;
mod front;
#[cfg(feature = "oauth")]
mod issued;
mod logs;
mod queue;
mod requests;
mod seeds;
mod server;
mod support;
mod tokens;
mod versions;
