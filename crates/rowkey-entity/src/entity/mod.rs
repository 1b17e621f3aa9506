//! Entities and their properties, and how they are read and written.
//!
//! - `traits`: [`Entity`] and [`Projection`], which the derives implement
//! - `row`: [`RowWriter`] and [`RowReader`], which those implementations write to and read from
//! - `property`: [`Property`], a value of one of the eight EDM types · `number`: those that are numbers
//! - `convert`: values that are stored as another type than their own
//! - `receipt`: [`Receipt`](crate::Receipt), what a successful call used
//! - `stored`: [`Stored`], an entity with the ETag and Timestamp it was read with
//! - `derive`: what the code of derives calls, such as how an `EntitySet` distinguishes its types
//! - `stored_types`: joins the properties and types of flattened fields at compile time
//! - `blob_ref`: [`BlobRef`](crate::BlobRef), a field whose content is in a blob
//! - `dynamic`: [`DynamicEntity`](crate::DynamicEntity), an entity with arbitrary properties
//! - `properties`: [`Properties`](crate::Properties), properties by name
//! - `failed`: [`FailedRow`](crate::FailedRow), a row that does not decode
//! - `flatten`: [`Flatten`](crate::Flatten), structs whose fields are properties of an entity
//! - `serial`: entities in the formats of serde · `odata`: entities as the JSON of the service
//! - `unknown`: the stored properties that a type does not know

pub(crate) mod blob_ref;
pub(crate) mod convert;
#[doc(hidden)]
pub mod derive;
pub(crate) mod dynamic;
pub(crate) mod failed;
pub(crate) mod flatten;
mod number;
mod odata;
#[cfg(test)]
mod odata_tests;
pub(crate) mod properties;
pub(crate) mod property;
pub(crate) mod receipt;
pub(crate) mod row;
mod serial;
#[cfg(test)]
mod serial_tests;
mod shapes;
pub(crate) mod stored;
mod stored_types;
pub(crate) mod traits;
pub(crate) mod unknown;

pub use crate::declaration::fields::*;
#[doc(hidden)]
pub use blob_ref::Unusable;
pub use properties::Rest;
pub(crate) use property::Property;
pub use property::PropertyError;
pub(crate) use row::DecodeError;
pub(crate) use row::{KIND, VERSION};
pub use row::{RowReader, RowWriter};
pub(crate) use stored::Stored;
pub use stored::Write;
pub(crate) use traits::{Entity, Projection};
