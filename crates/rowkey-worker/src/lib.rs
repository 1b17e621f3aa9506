//! Work that follows: tasks on queues, the workers that do them, and steps over what no transaction spans.
//!
//! | module | the guide's name | what is guaranteed |
//! |---|---|---|
//! | [`worker`] | eventually consistent transactions | every task is done at least once, and what cannot be done is kept |
//! | [`steps`] | eventually consistent transactions | every step happens in the end, and no change made meanwhile is lost |
//! | [`dead_letters`] | (dead letter queue) | what could not be done is kept, and can be listed, redriven and purged |
//! | [`inbox`] | (idempotent consumer) | a task that is delivered again has its effect once |
//! | [`janitor`] | (leader election, scheduler) | one of any number of programs runs the chores that are due, and another takes over |
//! | [`outbox`] | (the beginning of one) | entities and their tasks are written together; each task is put at least once |
//!
//! [`Task`] is what is to be done, [`Tasks`] a queue of them.

pub mod dead_letters;
pub mod inbox;
pub mod janitor;
mod keeper;
pub mod outbox;
pub mod steps;
mod task;
pub mod worker;

pub use task::{SealedTask, Task, Tasks};
