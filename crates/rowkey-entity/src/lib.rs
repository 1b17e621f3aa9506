//! Entities, keys, filters and index declarations of Azure Table storage, without a client.
//!
//! A type with `#[derive(Entity)]` has keys, properties and typed columns. Here they are written and
//! read; nothing is sent. [`rowkey`](https://docs.rs/rowkey) exports all of it under the same names,
//! beside the client. A program without a client can depend on this crate alone, in WebAssembly as
//! well, and names it in the derives:
//!
//! ```
//! # #![allow(dead_code)]
//! use rowkey_entity::{DynamicEntity, Entity};
//!
//! #[derive(Debug, PartialEq, Entity)]
//! #[entity(crate = "rowkey_entity", partition = "{department}", row = "id_{id:6}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     email: String,
//! }
//!
//! // A row, as another program received it from the service.
//! let json = r#"{"PartitionKey":"sales","RowKey":"id_000007","email":"ada@contoso.com"}"#;
//! let ada: Employee = DynamicEntity::from_odata_json(json)?.read_as()?;
//! assert_eq!(ada.id, 7);
//! assert_eq!(Employee::key("sales", 7).parts(), Ok(("sales", "id_000007")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Entity`] and [`Projection`]: types that are stored, and types that are read
//! - [`Key`] and [`Partition`]: typed addresses; [`key`]: how values become text
//! - [`Column`] and [`Filter`]: typed conditions
//! - [`index`]: the secondary indexes and lists that a type declares
//! - [`DynamicEntity`] and [`Properties`]: properties that are known only at run time

mod arg;
mod declaration;
pub mod entity;
mod error;
mod filter;
#[doc(hidden)]
pub mod internals;
pub mod key;
mod odata;
mod row;

pub use rowkey_derive::{Entity, EntitySet, Flatten, KeyPart, Projection, Property};
pub use rowkey_wire::edm;
pub use rowkey_wire::etag::{ETag, Match};
pub use rowkey_wire::filter::Operator;

pub use arg::Arg;
pub use declaration::index;
pub use entity::{
    blob_ref::BlobRef,
    dynamic::DynamicEntity,
    failed::FailedRow,
    flatten::Flatten,
    properties::Properties,
    property::Property,
    receipt::Receipt,
    row::DecodeError,
    stored::Stored,
    traits::{Entity, Projection, Rows},
};
pub use error::{EncodeError, FilterError};
pub use filter::{Column, Filter, TIMESTAMP};
pub use key::{
    address::{Key, Partition},
    part::KeyPart,
};
