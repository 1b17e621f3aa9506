//! The eight property types (the Entity Data Model's primitive types) and their values.
//!
//! - [`Value`], its borrowed form [`ValueRef`], and [`Type`]
//! - [`DateTime`]: 100 ns ticks
//! - [`double`]: text of Doubles, `3.0`, `1E+24`, `NaN`
//! - [`mod@base64`]: serializes bytes as base64 text with serde
//! - [`size`]: the size of an entity as the service counts it

pub mod base64;
mod datetime;
pub mod double;
mod forms;
pub(crate) mod json;
pub mod size;
mod value;

pub use datetime::{DateTime, DateTimeError, Iso, IsoWriter};
pub use forms::Bytes;
pub(crate) use value::Compact;
pub use value::{Type, Value, ValueRef};

/// A globally unique identifier, `Edm.Guid`: 36 lower-case characters on the wire and with serde.
pub type Guid = uuid::Uuid;
