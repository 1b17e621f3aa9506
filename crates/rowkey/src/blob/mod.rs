//! Containers and blobs: put at once, uploaded and downloaded in pieces, appended to, copied,
//! leased.
//!
//! - `container`: [`Container`], made, described and deleted
//! - `listing`: what is in a container
//! - `handle`: [`Blob`], read, described, copied and deleted
//! - `put`: [`Put`], a blob written at once; `upload`: [`Upload`], one written in blocks
//! - `read`: [`Read`], a blob or a part of it; [`Download`], which goes on after a lost connection
//! - `append`: [`Append`], a block at the end of an append blob
//! - `lease`: [`Lease`], the right to write alone
//! - `properties`: [`Properties`], what is known of blobs and containers
//! - `conditions`: [`Conditions`], what must hold for an operation to be done
//! - `service`: the account's containers
//!
//! Page blobs, access tiers, tags, versions and soft deletion are not here.

mod append;
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
pub use service::{ContainerItem, UserDelegationKey};
pub use upload::Upload;
pub use wire::decode::Written;
