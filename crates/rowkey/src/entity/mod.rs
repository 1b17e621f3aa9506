//! What is stored: entities, their properties, and how both are read and written.
//!
//! - [`traits`]: [`Entity`] and [`Projection`], which the derives implement
//! - [`row`]: [`RowWriter`] and [`RowReader`], what those implementations write to and read from
//! - [`property`]: [`Property`], a value of one of the eight EDM types · `number`: those that are numbers
//! - `convert`: values that are stored as another type than their own
//! - [`stored`]: [`Stored`], an entity with the ETag and Timestamp it was read with
//! - `set`: what an `EntitySet` tells its types apart by
//! - [`dynamic`]: [`DynamicEntity`], an entity of any properties
//! - [`properties`]: [`Properties`], properties by name
//! - [`flatten`]: [`Flatten`], structs whose fields are properties of an entity
//! - `serial`: entities in the formats of serde · `odata`: entities as the JSON of the service
//! - `unknown`: the stored properties that a type does not know

pub(crate) mod convert;
pub mod dynamic;
pub mod flatten;
mod number;
mod odata;
#[cfg(test)]
mod odata_tests;
mod older;
pub mod properties;
pub mod property;
pub mod row;
mod serial;
#[cfg(test)]
mod serial_tests;
#[doc(hidden)]
pub mod set;
mod shapes;
pub mod stored;
pub mod traits;
pub(crate) mod unknown;

#[doc(hidden)]
pub use convert::{Compat, is_storable_as};
pub use dynamic::DynamicEntity;
pub use flatten::Flatten;
#[doc(hidden)]
pub use flatten::names_apart;
pub use older::{Older, OlderRows};
pub use properties::{Properties, Rest};
pub use property::{Property, PropertyError};
#[doc(hidden)]
pub use row::Json;
pub use row::{DecodeError, RowReader, RowWriter};
pub(crate) use row::{KIND, VERSION};
pub use stored::{Stored, Write};
pub use traits::{Entity, Projection, Rows};
