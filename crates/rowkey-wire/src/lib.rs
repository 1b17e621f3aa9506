//! What goes over the wire between a client and the Azure Table, Queue and Blob services.
//!
//! This crate turns intent into bytes and bytes into intent. It knows nothing of sockets, clocks
//! or randomness, so the client (`rowkey`) and the in-memory server (`rowkey-emulator`) share it
//! without sharing any behaviour: *formats* live here, *semantics* (what a merge does, when a 412
//! is due) live in the server alone.
//!
//! What only one side speaks is in that side: `rowkey` writes requests and reads responses, `rowkey-emulator`
//! reads requests and writes responses. Each half is pinned to bytes from outside the project (`vectors/`,
//! each file naming its source), because two halves that only agree with each other may both be wrong.
//!
//! | module | what is in it |
//! |---|---|
//! | [`limits`] | the documented limits of the service |
//! | [`edm`] | the eight property types and their values |
//! | [`key`] | PartitionKey and RowKey: validity, quoting, order |
//! | [`etag`] | entity tags and the `If-Match` condition |
//! | [`code`] | service error codes |
//! | [`filter`] | the `$filter` language: tree, printer, parser |
//! | [`odata`] | entities as JSON |
//! | [`multipart`] | the messages in the body of an entity group transaction |
//! | [`xml`] | ACL, service properties, statistics |
//! | [`error`] | the three shapes of an error body |
//! | [`auth`] | strings to sign, signatures, shared access signatures |
//! | [`table`] | names of tables, lists of tables, continuation tokens |
//! | [`blob`] | names of containers and blobs, checksums, headers |
//! | [`queue`] | names of queues |
//! | [`metadata`] | the names and values that queues, containers and blobs are described with |
//! | [`serial`] | values in the formats of serde, such as the JSON of an API |
//! | [`headers`] | header names, versions, dates |

// Decoders read numbers, dates and lengths that anyone sent. Arithmetic on them is checked or saturates;
// where it cannot overflow, the exception says why.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod auth;
pub mod blob;
pub mod code;
pub mod edm;
pub mod error;
pub mod etag;
pub mod filter;
pub mod headers;
pub mod key;
pub mod limits;
pub mod metadata;
pub mod multipart;
pub mod odata;
pub mod queue;
pub mod serial;
pub mod table;
pub mod xml;
