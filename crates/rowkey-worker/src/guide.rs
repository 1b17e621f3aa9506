//! Pages of the book about workers, so that `cargo test --doc` compiles what they show.

#[doc = include_str!("../../../docs/src/patterns/janitor.md")]
mod janitor {}
