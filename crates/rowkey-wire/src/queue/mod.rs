//! The operations of the Queue service.
//!
//! - [`name`]: which names a queue may have

pub mod name;
