//! The patterns of the Azure Table storage design guide that store logs and locks in blobs.
//!
//! | module | name in the guide | guarantee |
//! |---|---|---|
//! | [`lease_lock`] | pessimistic concurrency | one holder at a time; work stops when the lease is lost, and late writes are detected by their fencing token |
//! | [`log_blob`] | log data anti-pattern, inverted | every flushed line is in a blob exactly once, despite failures; a read of a time range opens only the blobs it needs |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tracing-subscriber` | `LogWriter::layer`: events of `tracing` as lines of a log |

pub mod lease_lock;
pub mod log_blob;

pub use lease_lock::LeaseLock;
pub use log_blob::BlobLog;
