//! The pages of the book about stores, so that `cargo test --doc` compiles and runs what they show.

#[doc = include_str!("../../../docs/src/concepts/store.md")]
mod store {}

#[doc = include_str!("../../../docs/src/concepts/contributors.md")]
mod contributors {}
