//! The client against a server over HTTP: user operations, end to end.
//!
//! Every test has a table of its own, and a server of its own where the server is ours.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod adopted;
mod blob_batches;
mod blobs;
mod connections;
mod counts;
mod entities;
mod metadata;
mod model;
mod numbers;
mod other_rows;
mod paging;
mod programs;
mod queries;
mod queues;
mod ranges;
mod scans;
mod service;
mod setup;
mod tables;
mod tokens;
mod transactions;
mod unknown;
