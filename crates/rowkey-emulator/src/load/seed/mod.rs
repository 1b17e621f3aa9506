//! Seeds: tables, queues and blobs that a server has at its start, or gets while it runs.
//!
//! | module | contents |
//! |---|---|
//! | [`contents`] | [`Seed`] and [`SeedError`] |
//! | [`json`] | reads a seed from JSON |
//! | [`apply`] | puts a seed into the stores of an account |

pub(crate) mod apply;
mod contents;
mod json;

pub use apply::Seeded;
pub use contents::{Seed, SeedError};
