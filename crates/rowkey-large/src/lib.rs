//! The patterns of the Azure Table storage design guide that put logs and locks in blobs.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
//! | [`lease_lock`] | pessimistic concurrency | one holder at a time; work stops when the lease is lost, and late writes can be told by their fencing token |
//! | [`log_blob`] | log data anti-pattern, turned round | every line that was flushed is in a blob once, through every failure; ranges of time open only the blobs they need |
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing-subscriber` | `LogWriter::layer`: events of `tracing` as lines of a log |

pub mod lease_lock;
pub mod log_blob;

pub use lease_lock::LeaseLock;
pub use log_blob::BlobLog;
