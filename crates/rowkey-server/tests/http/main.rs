//! The server over real sockets, by a client that shares nothing with the real one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batch;
mod blob;
mod blob_batch;
mod blob_tags;
mod blob_tiers;
#[cfg(unix)]
mod descriptors;
#[cfg(feature = "durable")]
mod durable;
mod front;
mod logs;
mod program;
mod queue;
mod requests;
mod server;
mod support;
mod tokens;
