//! Models of what several programs do to one table at once, checked in every order of events.
//!
//! | module | model of |
//! |---|---|
//! | [`groups`] | plans of several entities, whose claims share a transaction |
//! | [`letters`] | a dead letter, while messages of its task come again and it is redriven and purged |
//! | [`parts`] | a wide entity in parts, which are patched, written and read at once |
//! | [`plan`] | a write that prepares, commits and settles, with requests that land late and programs that stop |
//! | [`references`] | references to blobs that are uploaded before the write of their entity |
//! | [`rollout`] | a declaration that a new program adds while an old one still writes |
//! | [`tasks`] | a task that is put, delivered at least once, applied once, poisoned and redriven |
//! | [`turns`] | copies in many rows elsewhere, which are settled in turns |
//!
//! Each model has rules. With all of them it holds at the size that its tests state; for each rule there is a
//! test that it does not hold without it.

pub mod groups;
pub mod letters;
pub mod parts;
pub mod plan;
pub mod references;
pub mod rollout;
pub mod tasks;
pub mod turns;

/// How much of the larger models tests check.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// A part, the same each time: the workspace's tests.
    Brief,
    /// A part that this number selects: CI, by `ROWKEY_SWEEP`.
    Sampled(usize),
    /// All states: the nightly command, by `ROWKEY_MODEL_LARGE`, and where `ROWKEY_SWEEP` is `all`. The write plan
    /// takes more than seven minutes of two processors, and 4 GiB of memory.
    All,
}

#[cfg(test)]
impl Extent {
    fn of_environment() -> Self {
        if std::env::var_os("ROWKEY_MODEL_LARGE").is_some() {
            return Self::All;
        }
        match std::env::var("ROWKEY_SWEEP").as_deref() {
            Ok("all") => Self::All,
            Ok(number) => Self::Sampled(number.parse().expect("a number, or `all`")),
            Err(_) => Self::Brief,
        }
    }

    /// The number of states of one check of a larger model, which it visits depth first: runs to their ends.
    /// `None` if it visits all.
    fn states(self) -> Option<usize> {
        match self {
            Self::Brief => Some(60_000),
            Self::Sampled(_) => Some(300_000),
            Self::All => None,
        }
    }
}
