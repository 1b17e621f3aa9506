//! What requests cost: the sizes of entities, and what meters and explanations say beside what the server counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod explained;
mod foreign;
mod meters;
mod server;
mod sizes;
