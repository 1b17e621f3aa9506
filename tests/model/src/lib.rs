//! Models of what several programs do to one table at once, checked in every order of events.
//!
//! | module | model of |
//! |---|---|
//! | [`letters`] | a dead letter, while messages of its task come again and it is redriven and purged |
//! | [`plan`] | a write that prepares, commits and settles, with requests that land late and programs that stop |
//! | [`references`] | references to blobs that are uploaded before the write of their entity |
//! | [`rollout`] | a declaration that a new program adds while an old one still writes |
//! | [`tasks`] | a task that is put, delivered at least once, applied once, poisoned and redriven |
//!
//! Each model has rules. With all of them it holds at the size that its tests state; for each rule there is a
//! test that it does not hold without it.

pub mod letters;
pub mod plan;
pub mod references;
pub mod rollout;
pub mod tasks;

/// Whether tests check a part of the larger models: where `ROWKEY_SWEEP` is not set, which CI does, nor
/// `ROWKEY_MODEL_LARGE`, which the nightly command does. All states take three minutes of a processor.
#[cfg(test)]
fn is_brief() -> bool {
    ["ROWKEY_SWEEP", "ROWKEY_MODEL_LARGE"].iter().all(|name| std::env::var_os(name).is_none())
}

/// The number of states that a brief check of a larger model visits, depth first: runs to their ends.
#[cfg(test)]
const BRIEF: usize = 60_000;
