//! Containers and blobs: put at once, uploaded and downloaded in pieces, appended to, copied,
//! leased.
//!
//! - [`container`]: [`Container`], made, described and deleted
//! - [`listing`]: [`Blobs`], what is in a container
//! - [`handle`]: [`Blob`], read, described, copied and deleted
//! - [`put`]: [`Put`], a blob written at once; [`upload`]: [`Upload`], one written in blocks
//! - [`read`]: [`Read`], a blob or a part of it; [`Download`], which goes on after a lost connection
//! - [`append`]: [`Append`], a block at the end of an append blob
//! - [`lease`]: [`Lease`], the right to write alone
//! - [`properties`]: [`Properties`], what is known of blobs and containers
//! - [`conditions`]: [`Conditions`], what must hold for an operation to be done
//! - [`service`]: [`BlobService`], the account's containers, properties and statistics
//!
//! Page blobs, access tiers, tags, versions and soft deletion are not here.

pub mod append;
pub mod conditions;
pub mod container;
pub mod handle;
pub mod lease;
pub mod listing;
mod part;
pub mod properties;
pub mod put;
pub mod read;
pub mod service;
pub mod upload;
pub(crate) mod wire;

pub use append::{Append, Appended};
pub use conditions::Conditions;
pub use container::Container;
pub(crate) use handle::check as check_names;
pub use handle::{Blob, Copied};
pub use lease::Lease;
pub use listing::{BlobItem, Blobs, Entry};
pub use properties::{ContainerProperties, ContentHeaders, CopyStatus, LeaseState, Properties};
pub use put::{Check, Insertion, Put};
pub use read::{Content, Download, Read};
pub use rowkey_wire::blob::{BlobType, PublicAccess};
pub use service::{BlobService, ContainerItem, Containers, UserDelegationKey};
pub use upload::Upload;
pub use wire::decode::Written;
