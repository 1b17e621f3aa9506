//! The patterns of the Azure Table storage design guide that put bytes, logs and locks in blobs.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
//! | [`large_entity`] | large entities | no row names a blob that is not there; what no row names is swept |
//! | [`lease_lock`] | pessimistic concurrency | one holder at a time; work stops when the lease is lost, and late writes can be told by their fencing token |

pub mod large_entity;
pub mod lease_lock;
mod rounds;

pub use large_entity::Large;
pub use lease_lock::LeaseLock;
