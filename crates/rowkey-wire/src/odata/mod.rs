//! Entities as the service's JSON.
//!
//! - [`meta`]: the three metadata levels
//! - [`fields`]: one JSON object read into named, typed, unconverted fields; both readers use it
//! - [`encode`]: an entity as a request body (the client's half)
//! - [`decode`]: entities and tables out of response bodies (the client's half)
//! - [`parse`]: an entity out of a request body, with the service's checks (the server's half)
//! - `scan`: the JSON in which they are
//! - [`render`]: entities as response bodies at each level (the server's half)

pub mod decode;
pub mod encode;
pub mod fields;
pub mod meta;
pub mod parse;
pub mod render;
mod scan;

pub use encode::EntityWriter;
pub use fields::{Field, FieldError, Fields, Scalar};
pub use meta::Metadata;
