//! Entities as the service's JSON.
//!
//! - [`Metadata`]: the three metadata levels
//! - [`Fields`]: one JSON object read into named, typed, unconverted fields; both readers use it
//! - [`Scanner`]: the JSON in which they are
//! - [`render`]: values, which both halves write, and response bodies at each level (the server's half)

mod fields;
mod meta;
pub mod render;
mod scan;

pub use fields::{Field, FieldError, Fields, Scalar};
pub use meta::Metadata;
pub use scan::{Malformed, Scanner};
