//! What is stored: entities, their properties, and how both are read and written.
//!
//! - [`traits`]: [`Entity`] and [`Projection`], which the derives implement
//! - [`row`]: [`RowWriter`] and [`RowReader`], what those implementations write to and read from
//! - [`property`]: [`Property`], a value of one of the eight EDM types
//! - [`stored`]: [`Stored`], an entity with the ETag and Timestamp it was read with
//! - `set`: what an `EntitySet` tells its types apart by
//! - [`dynamic`]: [`DynamicEntity`], a bag of any properties

pub mod dynamic;
mod older;
pub mod property;
pub mod row;
#[doc(hidden)]
pub mod set;
pub mod stored;
pub mod traits;

pub use dynamic::DynamicEntity;
pub use older::{Older, OlderRows};
pub use property::{Property, PropertyError};
pub use row::{DecodeError, RowReader, RowWriter};
pub(crate) use row::{KIND, VERSION};
pub use stored::{Stored, Write};
pub use traits::{Entity, Projection, Rows};
