//! Eventually consistent transactions, and the patterns of the Azure Table storage design guide that
//! are kept in step by them.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
//!
//! [`task`] is what they share: typed tasks as messages of a queue.

pub mod task;

pub use task::{Task, Tasks};
