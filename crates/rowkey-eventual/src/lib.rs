//! Eventually consistent transactions, and the patterns of the Azure Table storage design guide that
//! are kept in step by them.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
//! | [`worker`] | eventually consistent transactions | every task is done at least once, and what cannot be done is kept |
//! | [`steps`] | eventually consistent transactions | every step happens in the end, and no change made meanwhile is lost |
//! | [`outbox`] | (the beginning of one) | a change and what it intends are written together; what is intended is done at least once |
//! | [`remote_index`] | inter-partition secondary index | copies elsewhere follow their entities; what is looked up is verified, or said to be stale |
//! | [`remote_index_entity`] | index entities, in another partition or table | a list names every entity with its value once all changes are settled; a lookup returns none without it |
//! | [`view`] | materialised view | a summary of a group is what its entities add up to once all changes are settled, however often and in whatever order |
//! | [`unique`] | (unique constraint) | no two entities have the same value, in whatever partitions they are |
//!
//! [`task`] and [`source`] are what they share: typed tasks as messages of a queue, and entities whose
//! changes are carried on elsewhere. [`repair`] compares lists and views with the entities they are of.

pub mod outbox;
pub mod remote_index;
pub mod remote_index_entity;
pub mod repair;
mod settling;
pub mod source;
pub mod steps;
pub mod task;
pub mod unique;
pub mod view;
pub mod worker;

pub use task::{Task, Tasks};
pub use worker::Worker;
