//! The eight types a property may have (the Entity Data Model's primitive types) and their values.
//!
//! - [`Value`], its borrowed twin [`ValueRef`], and [`Type`]
//! - [`DateTime`]: 100 ns ticks
//! - [`double`]: how a Double is written, `3.0`, `1E+24`, `NaN`
//! - [`mod@base64`]: bytes of a field as text in the formats of serde
//! - [`size`]: how many bytes the service counts for an entity

pub mod base64;
mod datetime;
pub mod double;
pub mod size;
mod value;

pub use datetime::{DateTime, DateTimeError, Iso, IsoWriter};
pub use value::{Type, Value, ValueRef};

/// A globally unique identifier, `Edm.Guid` on the wire: 36 lower-case characters, by serde, too.
pub type Guid = uuid::Uuid;
