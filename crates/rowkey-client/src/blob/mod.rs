//! Containers and blobs: writes in one request, uploads and downloads in pieces, appends, copies,
//! leases.
//!
//! - `container`: [`Container`], to create, describe and delete it
//! - `batch`: several blobs of a container deleted by one request
//! - `listing`: the blobs of a container
//! - `handle`: [`Blob`], to read, describe, copy and delete it
//! - `put`: [`Put`], a write in one request; `upload`: [`Upload`], a write in blocks
//! - `read`: [`Read`], a blob or a part of it; [`Download`], which continues after a lost
//!   connection
//! - `append`: [`Append`], a block at the end of an append blob
//! - `lease`: [`Lease`], the exclusive right to write
//! - `properties`: [`Properties`] of blobs, and those of containers
//! - `conditions`: [`Conditions`], the preconditions of an operation
//! - `service`: the account's containers
//!
//! Page blobs, access tiers, tags, versions and soft deletion are not supported.

mod append;
pub(crate) mod batch;
mod conditions;
pub(crate) mod container;
pub(crate) mod handle;
mod lease;
mod listing;
mod part;
mod properties;
mod put;
mod read;
mod service;
mod upload;
pub(crate) mod wire;

pub use append::{Append, Appended};
pub use conditions::Conditions;
pub(crate) use container::Container;
pub(crate) use handle::Blob;
pub use handle::Copied;
pub(crate) use handle::check as check_names;
pub use lease::Lease;
pub use listing::{BlobItem, Entry};
pub use properties::{ContainerProperties, ContentHeaders, CopyStatus, LeaseState, Properties};
pub use put::{Check, Insertion, Put};
pub use read::{Content, Download, Read};
pub use rowkey_wire::blob::{BlobType, PublicAccess};
pub use service::ContainerItem;
pub use upload::Upload;
pub use wire::decode::Written;
