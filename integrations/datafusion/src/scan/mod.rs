//! Scans: from a query's conditions to requests, and from their answers to record batches.
//!
//! - `open`: a table is opened · `source`: the table that DataFusion plans with · `ranges`: a scan's ranges of keys, as the "files" of a file scan ·
//!   `entities`: what DataFusion executes · `reader`: reads a range · `joins`: scans wait for what joins tell them ·
//!   `whole`: copies leave no property out

mod entities;
mod joins;
mod open;
mod ranges;
mod reader;
mod source;
mod whole;

pub(crate) use entities::EntitySource;
#[cfg(feature = "cluster")]
pub(crate) use entities::Read;
pub use joins::JoinPruning;
pub use open::{Open, Schema};
pub(crate) use ranges::{Range, file_groups, object_store_url};
pub use source::TableSource;
pub(crate) use whole::{WholeFiles, whole};
