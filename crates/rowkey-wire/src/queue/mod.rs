//! Formats of the Queue service that client and server share.
//!
//! - [`name`]: rules for names of queues

pub mod name;
