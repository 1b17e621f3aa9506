//! The patterns of the Azure Table storage design guide that put bytes, logs and locks in blobs.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
//! | [`lease_lock`] | pessimistic concurrency | one holder at a time; work stops when the lease is lost, and late writes can be told by their fencing token |

pub mod lease_lock;

pub use lease_lock::LeaseLock;
