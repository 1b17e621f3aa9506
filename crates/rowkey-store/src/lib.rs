//! Stores: a handle for an entity type that writes each entity with its indexes, lists and unique values.
//!
//! A type declares its indexes (in its partition and in others), lists and unique values. A [`Store`] is
//! the one handle that writes the type, and each write keeps all of them in step:
//!
//! | phase | what happens | declarations |
//! |---|---|---|
//! | prepare | announced before the commit, harmless without one | unique values |
//! | commit | one entity group transaction | the entity, indexes and lists of its partition |
//! | settle | rows elsewhere are made to agree with the entity | indexes in other partitions, views |
//!
//! # Modules
//!
//! - [`Store`], [`StoreBuilder`], [`Transaction`]: writing and reading
//! - [`Version`], [`IfMatch`]: the condition of a conditional write, and the `If-Match` header of a request
//! - [`History`]: a row that is inserted with each change of an entity
//! - [`Copies`], [`RemoteCopies`]: properties of an entity copied into other entities, of its partition or
//!   elsewhere
//! - [`View`]: summaries of groups of entities, kept in step with them
//! - [`Declaration`]: an extension point for programs, with [`Change`], [`Contribution`],
//!   [`Settling`]
//! - [`Sealer`]: encryption of fields
//! - [`Deciding`]: reads on the primary, for decisions
//! - [`Explanation`]: a plan as text
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `test-util` | `answers`, responses of the service to stores, for stubs |
//! | `wiremock-0_6` | `answers` as responses of wiremock 0.6 |

// A program compiles the body of each `async fn` that it awaits, even if the function is not generic. So what generic
// code awaits and what names no type of an entity returns a boxed future: it is compiled here, once.

#[cfg(feature = "test-util")]
pub mod answers;
mod declarations;
mod declaring;
mod execute;
mod layer;
mod plan;
#[doc(hidden)]
pub mod reread;
mod row;
mod store;

pub use declarations::{copies::Copies, history::History, remote_copies::RemoteCopies, view::View};
#[doc(hidden)]
pub use declaring::StoredType;
pub use declaring::settling::{Settled, Settling};
pub use declaring::{Change, Contribution, Declaration};
pub use layer::{deciding::Deciding, seal::Sealer};
pub use plan::explain::Explanation;
#[doc(hidden)]
pub use row::long_text;
pub use row::op::{Op, Target};
pub use store::{
    Content, ContentReader, Deletions, Download, Explain, Group, IfMatch, IfMatchError, Page,
    Patch, Query, Refusing, Selection, Stage, Step, Store, StoreBuilder, Submitted, Sweeping,
    Transaction, Upload, Version, Versioned, Worked, Written,
};
