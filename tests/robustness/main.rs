//! What nobody should do: send requests that were recorded and then damaged, garbage for every
//! decoder, and a request or its half over a connection that is then left alone.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `ROWKEY_MUTATIONS` | how many damaged requests are sent | 5,000 |
//! | `ROWKEY_GARBAGE` | how many damaged inputs every decoder gets | 500 |
//! | `ROWKEY_SEED` | another run than the usual one | 1 |
//! | `ROWKEY_RECORDINGS` | a folder with more recordings, `*.jsonl.gz` | none |
//!
//! A run is the same each time, so a failure is repeated by what it prints.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

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
