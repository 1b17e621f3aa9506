//! Eventually consistent transactions, and the patterns of the Azure Table storage design guide that
//! are kept in step by them.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
//! | [`worker`] | eventually consistent transactions | every task is done at least once, and what cannot be done is kept |
//! | [`steps`] | eventually consistent transactions | every step happens in the end, and no change made meanwhile is lost |
//!
//! [`task`] is what they share: typed tasks as messages of a queue.

pub mod steps;
pub mod task;
pub mod worker;

pub use task::{Task, Tasks};
pub use worker::Worker;
