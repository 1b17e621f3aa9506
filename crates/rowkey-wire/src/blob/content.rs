//! Blob types, content headers, checksums and lease actions that both sides share.

use http::HeaderValue;
use uuid::Uuid;

use super::checksum::{Crc64Sum, Md5Sum};

/// The public access level of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicAccess {
    /// Anyone may read its blobs.
    Blob,
    /// Anyone may read and list its blobs.
    Container,
}

impl PublicAccess {
    /// The text in headers and listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Container => "container",
        }
    }
}

/// An action on a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// Acquires a lease.
    Acquire {
        /// The duration in seconds, 15 to 60; `None` for an infinite lease.
        seconds: Option<u32>,
        /// The proposed id; `None` lets the service choose one.
        proposed: Option<Uuid>,
    },
    /// Breaks a lease of any holder.
    Break {
        /// The break period in seconds, 0 to 60; `None` for the remaining time, or 0 for an
        /// infinite lease.
        period: Option<u32>,
    },
    /// Changes the id of a lease.
    Change {
        /// The current id.
        lease: Uuid,
        /// The new id.
        proposed: Uuid,
    },
    /// Releases a lease, so that another can be acquired at once.
    Release(Uuid),
    /// Renews a lease for its full duration.
    Renew(Uuid),
}

/// The type of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobType {
    /// Can be appended to.
    Append,
    /// Consists of blocks.
    Block,
}

impl BlobType {
    /// The text in headers and listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Append => "AppendBlob",
            Self::Block => "BlockBlob",
        }
    }
}

/// The HTTP headers of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentHeaders {
    /// `Cache-Control`
    pub cache_control: Option<HeaderValue>,
    /// `Content-Disposition`
    pub disposition: Option<HeaderValue>,
    /// `Content-Encoding`
    pub encoding: Option<HeaderValue>,
    /// `Content-Language`
    pub language: Option<HeaderValue>,
    /// `Content-MD5`: 16 bytes, unless a client stored something else. The service does not check
    /// the property.
    pub md5: Option<Box<[u8]>>,
    /// `Content-Type`
    pub content_type: Option<HeaderValue>,
}

/// The checksums of a body in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// `Content-MD5`
    pub md5: Option<Md5Sum>,
    /// `x-ms-content-crc64`
    pub crc64: Option<Crc64Sum>,
}

/// Conditions of an append on the blob's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendLimits {
    /// The required length before the append.
    pub position: Option<u64>,
    /// The maximum length after the append.
    pub max_size: Option<u64>,
}

/// The list in which a block is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSource {
    /// The committed blocks.
    Committed,
    /// The uncommitted blocks first, then the committed ones.
    Latest,
    /// The uncommitted blocks.
    Uncommitted,
}

impl BlockSource {
    /// The element that contains the ids of such blocks.
    pub const fn element(self) -> &'static str {
        match self {
            Self::Committed => "Committed",
            Self::Latest => "Latest",
            Self::Uncommitted => "Uncommitted",
        }
    }
}
