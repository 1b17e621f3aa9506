//! Stores: entities with all that belongs to them, written by one plan.
//!
//! A type declares what it brings with it: indexes in its partition and in others, lists, unique values. A
//! [`Store`] is the one handle that writes it, and each write keeps all of it in step:
//!
//! | phase | what happens | declarations |
//! |---|---|---|
//! | prepare | announced before the commit, harmless if it never comes | unique values |
//! | commit | one entity group transaction | the entity, indexes and lists of its partition |
//! | settle | rows elsewhere are made to agree with what is | indexes in other partitions, views |
//!
//! # Modules
//!
//! - [`Store`], [`StoreBuilder`], [`Transaction`]: writing and reading
//! - [`Version`]: what a conditional write compares
//! - [`Copies`]: properties of an entity in others of its partition
//! - [`View`]: summaries of groups of entities, kept in step with them
//! - [`Contributor`]: what a program adds of its own, with [`Change`], [`Contribution`], [`Settling`]
//! - [`job`]: jobs over whole tables, paced, resumable, with one report
//! - [`Sealer`]: what encrypts fields
//! - [`Deciding`]: reads that decide are made on the primary
//! - [`Explanation`]: a plan as text
//! - [`Waits`]: how long receivers wait that find nothing

mod blobs;
mod deciding;
mod execute;
pub mod job;
mod layer;
#[doc(hidden)]
pub mod long_text;
mod plan;
#[doc(hidden)]
pub mod reread;
mod row;
mod seal;
mod store;
mod together;
mod version;
mod waits;
mod wide;

pub use deciding::Deciding;
pub use execute::settle::{Settled, Settling};
pub use plan::{Change, Contribution, Contributor, Copies, Explanation, Op, Target, View};
pub use seal::Sealer;
pub use store::{
    Deletions, Explain, Group, Page, Patch, Query, Selection, Stage, Step, Store, StoreBuilder,
    Submitted, Sweeping, Transaction, Worked, Written,
};
pub use version::{Version, Versioned};
pub use waits::Waits;
