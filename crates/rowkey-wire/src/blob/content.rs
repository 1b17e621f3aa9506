//! What both sides say of blobs: their kinds, headers, sums and leases.

use http::HeaderValue;
use uuid::Uuid;

use super::checksum::{Crc64Sum, Md5Sum};

/// Who may read a container without authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicAccess {
    /// Its blobs may be read.
    Blob,
    /// Its blobs may be read and listed.
    Container,
}

impl PublicAccess {
    /// The text in headers and lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Container => "container",
        }
    }
}

/// What is to become of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// It begins.
    Acquire {
        /// Seconds, 15 to 60; none: without an end.
        seconds: Option<u32>,
        /// The id that it is to have; none: the service makes one.
        proposed: Option<Uuid>,
    },
    /// It ends for any holder.
    Break {
        /// After this number of seconds, 0 to 60; none: when it would have ended, or at once if never.
        period: Option<u32>,
    },
    /// It gets another id.
    Change {
        /// The id it has.
        lease: Uuid,
        /// The id it is to have.
        proposed: Uuid,
    },
    /// Its holder gives it up; another may begin at once.
    Release(Uuid),
    /// Its time begins anew.
    Renew(Uuid),
}

/// What sort of blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobType {
    /// Grows at its end.
    Append,
    /// Made of blocks.
    Block,
}

impl BlobType {
    /// The text in headers and lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Append => "AppendBlob",
            Self::Block => "BlockBlob",
        }
    }
}

/// The headers of HTTP that a blob answers with.
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
    /// `Content-MD5`: 16 bytes, unless a client stored something else. Nothing checks a property.
    pub md5: Option<Box<[u8]>>,
    /// `Content-Type`
    pub content_type: Option<HeaderValue>,
}

/// The sums that a client sends of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// `Content-MD5`
    pub md5: Option<Md5Sum>,
    /// `x-ms-content-crc64`
    pub crc64: Option<Crc64Sum>,
}

/// What an append requires of the blob's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendLimits {
    /// How long it must be before.
    pub position: Option<u64>,
    /// How long it may be afterwards.
    pub max_size: Option<u64>,
}

/// Where the service looks for a block that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSource {
    /// Among the blocks that the blob has.
    Committed,
    /// Among the blocks that were put since, and else among those that the blob has.
    Latest,
    /// Among the blocks that were put since.
    Uncommitted,
}

impl BlockSource {
    /// The element that holds the ids of such blocks.
    pub const fn element(self) -> &'static str {
        match self {
            Self::Committed => "Committed",
            Self::Latest => "Latest",
            Self::Uncommitted => "Uncommitted",
        }
    }
}
