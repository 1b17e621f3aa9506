//! Background work: task queues, their workers, and multi-step operations that no transaction spans.
//!
//! | module | name in the guide | guarantee |
//! |---|---|---|
//! | [`Worker`] | eventually consistent transactions | every task is processed at least once, and failed tasks are kept |
//! | [`steps`] | eventually consistent transactions | every step happens eventually, and no concurrent change is lost |
//! | [`dead_letters`] | (dead letter queue) | failed tasks are kept, and can be listed, redriven and purged |
//! | [`inbox`] | (idempotent consumer) | a task that is delivered again has its effect once |
//! | [`janitor`] | (leader election, scheduler) | one of any number of programs runs the chores that are due, and another takes over |
//! | [`partitions`] | (sharding, competing consumers) | each partition of a set is owned by one of any number of programs, and moves when they come and go |
//! | [`outbox`] | (transactional outbox) | entities and their tasks are written together; each task is put at least once |
//!
//! A [`Task`] is a unit of work, and [`Tasks`] a queue of them. [`AnyTask`] is one whose type the program does not know.

pub mod dead_letters;
mod errors;
pub mod inbox;
pub mod janitor;
pub mod outbox;
mod panics;
pub mod partitions;
#[cfg(test)]
mod random;
mod renewal_thread;
pub mod steps;
mod task;
mod worker;

pub use task::{AnyTask, SealedTask, Task, Tasks};
pub use worker::{Attempt, Counts, Done, Handler, QueueCounts, Step, Worker, Workers};
