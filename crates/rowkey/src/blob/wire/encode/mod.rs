//! Intent to request, one function an operation: the client's half.
//!
//! - `blobs`: blobs as a whole, what describes them, copies, snapshots
//! - `blocks`: blobs in pieces
//! - `containers`: containers, lists, the service's documents
//! - `leases`: leases on either
//! - `parts`: what they share: [`Conditions`], [`Place`]
//!
//! Names are taken as valid; the caller checks them first, see [`rowkey_wire::blob::name`]. So are numbers.

mod blobs;
mod blocks;
mod containers;
mod leases;
mod parts;

#[cfg(test)]
mod tests;

pub(crate) use blobs::{
    Copy, DeleteSnapshots, Range, RangeSum, copy, delete, get, get_properties, put_append,
    put_block_blob, set_metadata, set_properties, snapshot,
};
pub(crate) use blocks::{append_block, block_list, put_block, put_block_list};
pub(crate) use containers::{
    ListBlobs, ListContainers, create_container, delete_container, get_container_acl,
    get_container_properties, get_service_properties, get_service_stats, get_user_delegation_key,
    list_blobs, list_containers, set_container_acl, set_container_metadata, set_service_properties,
};
pub(crate) use leases::{Target, lease};
pub(crate) use parts::{Conditions, Place};
