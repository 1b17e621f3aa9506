//! What no client should do: send requests that were recorded and then damaged, garbage for every
//! decoder, and a request or its half over a connection that is then left alone.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `ROWKEY_MUTATIONS` | how many damaged requests are sent | 5,000, or 1,000 without `ROWKEY_SWEEP` |
//! | `ROWKEY_GARBAGE` | how many damaged inputs every decoder gets | 500 |
//! | `ROWKEY_SEED` | the seed of the run, or `random` | 1 |
//! | `ROWKEY_RECORDINGS` | a folder with more recordings, `*.jsonl.gz` | none |
//!
//! Equal seeds make equal runs. The seed is printed and named by each failure. `ROWKEY_SEED=random` searches: it
//! draws another seed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io::Write as _;
use std::sync::LazyLock;

mod batches;
mod corpus;
mod decoders;
mod exchange;
mod garbage;
mod growth;
mod mutate;
mod requests;
mod slow;
mod threads;

/// A number that the environment may set.
fn setting(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")),
        Err(_) => usual,
    }
}

/// The seed of this run, printed to the terminal once.
fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        let seed = match std::env::var("ROWKEY_SEED").as_deref() {
            Ok("random") => RandomState::new().hash_one(std::process::id()),
            _ => setting("ROWKEY_SEED", 1),
        };
        // Not by `eprintln!`, whose text is shown of failed tests alone.
        let _ = writeln!(std::io::stderr(), "ROWKEY_SEED={seed}");
        seed
    });
    *SEED
}
