//! Intent to request, one function an operation: the client's half.
//!
//! - `blobs`: blobs as a whole, what describes them, copies, snapshots
//! - `blocks`: blobs in pieces
//! - `containers`: containers, lists, the service's documents
//! - `leases`: leases on either
//! - `parts`: what they share: [`Conditions`], [`Place`]
//!
//! Names are taken as valid; the caller checks them first, see [`super::name`]. So are numbers.

mod blobs;
mod blocks;
mod containers;
mod leases;
mod parts;

#[cfg(test)]
mod tests;

pub use blobs::{
    Copy, DeleteSnapshots, Range, RangeSum, abort_copy, copy, delete, get, get_metadata,
    get_properties, put_append, put_block_blob, set_metadata, set_properties, snapshot,
};
pub use blocks::{append_block, get_block_list, put_block, put_block_list, seal};
pub use containers::{
    ListBlobs, ListContainers, create_container, delete_container, get_account_information,
    get_container_acl, get_container_metadata, get_container_properties, get_service_properties,
    get_service_stats, get_user_delegation_key, list_blobs, list_containers, set_container_acl,
    set_container_metadata, set_service_properties,
};
pub use leases::{Lease, Target, lease};
pub use parts::{Conditions, Place};
