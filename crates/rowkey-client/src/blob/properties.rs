//! The properties of blobs and containers.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderValue};
use rowkey_wire::blob::{self as wire, BlobType, PublicAccess, checksum};
use rowkey_wire::etag::ETag;

use crate::blob::wire::decode;
use crate::error::{Error, Result};

/// The HTTP headers that the service returns with a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentHeaders {
    /// `Cache-Control`
    pub cache_control: Option<String>,
    /// `Content-Disposition`
    pub content_disposition: Option<String>,
    /// `Content-Encoding`
    pub content_encoding: Option<String>,
    /// `Content-Language`
    pub content_language: Option<String>,
    /// `Content-MD5`: of the whole content.
    pub content_md5: Option<checksum::Md5Sum>,
    /// `Content-Type`
    pub content_type: Option<String>,
}

/// The properties of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The `ETag`.
    pub etag: ETag,
    /// When it was last written. All times here are whole seconds.
    pub modified: DateTime<Utc>,
    /// When it was first written.
    pub created: Option<DateTime<Utc>>,
    /// The length of the whole blob in bytes.
    pub length: u64,
    /// The type; `None`: one that this client does not write, such as a page blob.
    pub kind: Option<BlobType>,
    /// The content headers.
    pub headers: ContentHeaders,
    /// The metadata. Names are in lower case, except in listings.
    pub metadata: BTreeMap<String, String>,
    /// The state of the lease.
    pub lease: LeaseState,
    /// The number of blocks of an append blob; not in listings.
    pub blocks: Option<u32>,
    /// Whether an append blob is sealed: nothing more can be appended.
    pub sealed: bool,
    /// The status of the copy that created the blob.
    pub copy: Option<CopyStatus>,
    /// The id of that copy, for [`Blob::abort_copy`](crate::Blob::abort_copy).
    pub copy_id: Option<String>,
}

/// The properties of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerProperties {
    /// The `ETag`.
    pub etag: ETag,
    /// When its metadata or policies were last set. Whole seconds.
    pub modified: DateTime<Utc>,
    /// The metadata. Names are in lower case, except in listings.
    pub metadata: BTreeMap<String, String>,
    /// The state of the lease.
    pub lease: LeaseState,
    /// What can be read without authorization.
    pub public_access: Option<PublicAccess>,
}

/// The state of the lease on a container or a blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseState {
    /// There is none.
    #[default]
    Available,
    /// It was broken and has not ended yet.
    Breaking,
    /// It was broken and has ended.
    Broken,
    /// It ended and was not renewed.
    Expired,
    /// A client holds it.
    Leased,
}

/// The status of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyStatus {
    /// It was aborted.
    Aborted,
    /// It failed.
    Failed,
    /// It is in progress.
    Pending,
    /// It is complete.
    Success,
}

impl ContentHeaders {
    /// The headers as they are written to requests.
    pub(super) fn wire(&self) -> Result<wire::ContentHeaders> {
        let value = |name: &str, text: &Option<String>| -> Result<Option<HeaderValue>> {
            text.as_deref().map(HeaderValue::from_str).transpose().map_err(|_| {
                Error::invalid(format!("{name} has characters that no header can have"))
            })
        };
        Ok(wire::ContentHeaders {
            cache_control: value("Cache-Control", &self.cache_control)?,
            disposition: value("Content-Disposition", &self.content_disposition)?,
            encoding: value("Content-Encoding", &self.content_encoding)?,
            language: value("Content-Language", &self.content_language)?,
            md5: self.content_md5.map(Into::into),
            content_type: value("Content-Type", &self.content_type)?,
        })
    }
}

impl Properties {
    /// The properties in the headers of a response; `None` if the `ETag` or the time is missing.
    pub(super) fn of_answer(headers: &HeaderMap) -> Option<Self> {
        Self::of(decode::properties(headers))
    }

    pub(super) fn of(wire: decode::Properties) -> Option<Self> {
        Some(Self {
            etag: wire.etag?,
            modified: wire.modified?,
            created: wire.created,
            length: wire.length,
            kind: wire.blob_type,
            headers: ContentHeaders {
                cache_control: wire.cache_control,
                content_disposition: wire.disposition,
                content_encoding: wire.encoding,
                content_language: wire.language,
                content_md5: wire.md5,
                content_type: wire.content_type,
            },
            metadata: wire.metadata.into_iter().collect(),
            lease: wire.lease.unwrap_or_default(),
            blocks: wire.blocks,
            sealed: wire.sealed,
            copy: wire.copy.as_ref().and_then(CopyStatus::of),
            copy_id: wire.copy.map(|copy| copy.id),
        })
    }
}

impl ContainerProperties {
    pub(super) fn of(wire: decode::Container) -> Option<Self> {
        Some(Self {
            etag: wire.etag?,
            modified: wire.modified?,
            metadata: wire.metadata.into_iter().collect(),
            lease: wire.lease.unwrap_or_default(),
            public_access: wire.access,
        })
    }
}

impl CopyStatus {
    pub(super) fn of(wire: &decode::Copied) -> Option<Self> {
        match wire.status.as_str() {
            "aborted" => Some(Self::Aborted),
            "failed" => Some(Self::Failed),
            "pending" => Some(Self::Pending),
            "success" => Some(Self::Success),
            _ => None,
        }
    }
}
