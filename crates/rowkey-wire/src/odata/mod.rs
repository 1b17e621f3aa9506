//! The service's JSON format of entities.
//!
//! - [`Metadata`]: the three metadata levels
//! - [`Fields`]: one JSON object as named fields that are converted on demand; both sides use it
//! - [`Scanner`]: the JSON reader
//! - [`render`]: values, which both sides write, and response bodies at each level

mod fields;
mod meta;
pub mod render;
mod scan;

pub use fields::{Field, FieldError, Fields, Scalar};
pub use meta::Metadata;
pub use scan::{Malformed, Scanner};
