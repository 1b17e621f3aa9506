//! The operations of the Blob service, as a closed set.
//!
//! As for tables, an address names a [`Target`], and the whole head of a request an [`Op`]. Bodies
//! are not parsed here: those of blobs may be very long, and arrive in pieces.

use rowkey_wire::blob::{AppendLimits, BlobType, ContentHeaders, LeaseAction, PublicAccess, Sums};
use rowkey_wire::edm::DateTime;
use uuid::Uuid;

use super::condition::Conditions;
use super::marker::Marker;
use super::metadata::Metadata;
use super::tag_filter::TagFilter;
use super::tags::Tags;
use super::tier::{AccessTier, RehydratePriority};

/// The resource that an address names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// The account.
    Account,
    /// A container.
    Container(&'a str),
    /// A blob in a container.
    Blob {
        /// The container.
        container: &'a str,
        /// The blob, including all slashes in its name.
        blob: &'a str,
    },
}

/// An operation.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "created once for each request, and short-lived")]
pub(crate) enum Op<'a> {
    /// On the account.
    Account(AccountOp),
    /// On a container.
    Container(ContainerOp),
    /// On a blob.
    Blob(BlobOp<'a>),
}

impl Op<'_> {
    /// The metadata that is set, if any.
    pub(crate) fn metadata_mut(&mut self) -> Option<&mut Metadata> {
        match self {
            Self::Container(
                ContainerOp::Create(_, metadata) | ContainerOp::SetMetadata(metadata, _),
            )
            | Self::Blob(
                BlobOp::Copy(Copy { metadata, .. }, _)
                | BlobOp::Put(Put { description: Description { metadata, .. }, .. }, _)
                | BlobOp::PutBlockList(Description { metadata, .. }, ..)
                | BlobOp::SetMetadata(metadata, _)
                | BlobOp::Snapshot(metadata, _),
            ) => Some(metadata),
            _ => None,
        }
    }
}

/// An operation on the account.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AccountOp {
    /// [Blob Batch](https://learn.microsoft.com/rest/api/storageservices/blob-batch); the body is
    /// the batch.
    Batch,
    /// [Find Blobs by Tags](https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags)
    FindByTags(FindByTags),
    /// [Get Account Information](https://learn.microsoft.com/rest/api/storageservices/get-account-information)
    GetInformation,
    /// [Get Blob Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-properties)
    GetProperties,
    /// [Get Blob Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats)
    GetStats,
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key);
    /// the body is a document.
    GetUserDelegationKey,
    /// [List Containers](https://learn.microsoft.com/rest/api/storageservices/list-containers2)
    ListContainers(ListContainers),
    /// [Set Blob Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties);
    /// the body is a document.
    SetProperties,
}

/// The options of List Containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListContainers {
    /// The prefix of the names to list.
    pub(crate) prefix: String,
    /// The name at which to continue.
    pub(crate) marker: String,
    /// The maximum number of entries on a page, as sent.
    pub(crate) max_results: Option<u32>,
    /// Whether to include metadata.
    pub(crate) metadata: bool,
}

/// An operation on a container.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ContainerOp {
    /// [Blob Batch](https://learn.microsoft.com/rest/api/storageservices/blob-batch); the body is
    /// the batch.
    Batch,
    /// [Create Container](https://learn.microsoft.com/rest/api/storageservices/create-container)
    Create(Option<PublicAccess>, Metadata),
    /// [Delete Container](https://learn.microsoft.com/rest/api/storageservices/delete-container)
    Delete(Guard),
    /// [Find Blobs by Tags in Container](https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags-container)
    FindByTags(FindByTags),
    /// [Get Container ACL](https://learn.microsoft.com/rest/api/storageservices/get-container-acl)
    GetAcl(Guard),
    /// [Get Container Metadata](https://learn.microsoft.com/rest/api/storageservices/get-container-metadata)
    GetMetadata(Guard),
    /// [Get Container Properties](https://learn.microsoft.com/rest/api/storageservices/get-container-properties)
    GetProperties(Guard),
    /// [Lease Container](https://learn.microsoft.com/rest/api/storageservices/lease-container)
    Lease(LeaseAction, Conditions),
    /// [List Blobs](https://learn.microsoft.com/rest/api/storageservices/list-blobs)
    ListBlobs(ListBlobs),
    /// [Set Container ACL](https://learn.microsoft.com/rest/api/storageservices/set-container-acl);
    /// the body is a document.
    SetAcl(Option<PublicAccess>, Guard),
    /// [Set Container Metadata](https://learn.microsoft.com/rest/api/storageservices/set-container-metadata)
    SetMetadata(Metadata, Guard),
}

/// The options of List Blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub(crate) struct ListBlobs {
    /// The prefix of the names to list.
    pub(crate) prefix: String,
    /// The delimiter, `/`, after which names are collapsed into prefixes; `None` lists whole names.
    pub(crate) delimiter: Option<String>,
    /// The entry at which to continue.
    pub(crate) marker: Option<Marker>,
    /// The first name to list, `startFrom`; empty for the beginning.
    pub(crate) start_from: String,
    /// The first name after the listing, `endBefore`.
    pub(crate) end_before: Option<String>,
    /// The maximum number of entries on a page, as sent.
    pub(crate) max_results: Option<u32>,
    /// Whether to include the properties of copies.
    pub(crate) copy: bool,
    /// Whether to include metadata.
    pub(crate) metadata: bool,
    /// Whether to include snapshots.
    pub(crate) snapshots: bool,
    /// Whether to include tags.
    pub(crate) tags: bool,
    /// Whether to include blobs that have only uncommitted blocks.
    pub(crate) uncommitted: bool,
}

/// The options of Find Blobs by Tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FindByTags {
    /// The expression as sent.
    pub(crate) text: String,
    /// The expression.
    pub(crate) filter: TagFilter,
    /// The entry at which to continue: a container and a blob, separated by a slash.
    pub(crate) marker: Option<Marker>,
    /// The maximum number of entries on a page, as sent.
    pub(crate) max_results: Option<u32>,
}

/// The lease and the conditions that an operation requires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guard {
    /// The lease id that the client sent.
    pub(crate) lease: Option<Uuid>,
    /// The conditions.
    pub(crate) conditions: Conditions,
}

/// An operation on a blob.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BlobOp<'a> {
    /// [Abort Copy Blob](https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob)
    AbortCopy(Guard),
    /// [Append Block](https://learn.microsoft.com/rest/api/storageservices/append-block); the body
    /// is the block.
    AppendBlock(AppendLimits, Sums, Guard),
    /// [Copy Blob](https://learn.microsoft.com/rest/api/storageservices/copy-blob) and
    /// [Copy Blob From URL](https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url)
    Copy(Copy<'a>, Guard),
    /// [Delete Blob](https://learn.microsoft.com/rest/api/storageservices/delete-blob)
    Delete(Delete, Guard),
    /// [Get Account Information](https://learn.microsoft.com/rest/api/storageservices/get-account-information)
    GetAccountInformation,
    /// [Get Blob Tags](https://learn.microsoft.com/rest/api/storageservices/get-blob-tags)
    GetTags(Option<DateTime>, Guard),
    /// [Get Block List](https://learn.microsoft.com/rest/api/storageservices/get-block-list)
    GetBlockList(BlockLists, Option<DateTime>, Guard),
    /// [Get Blob Metadata](https://learn.microsoft.com/rest/api/storageservices/get-blob-metadata)
    GetMetadata(Option<DateTime>, Guard),
    /// [Lease Blob](https://learn.microsoft.com/rest/api/storageservices/lease-blob)
    Lease(LeaseAction, Conditions),
    /// [Put Blob](https://learn.microsoft.com/rest/api/storageservices/put-blob); the body is the
    /// blob.
    Put(Put, Guard),
    /// [Put Block](https://learn.microsoft.com/rest/api/storageservices/put-block); the body is
    /// the block.
    PutBlock(String, Sums, Guard),
    /// [Put Block List](https://learn.microsoft.com/rest/api/storageservices/put-block-list); the
    /// body is a document.
    PutBlockList(Description, Sums, Guard),
    /// [Get Blob](https://learn.microsoft.com/rest/api/storageservices/get-blob) and
    /// [Get Blob Properties](https://learn.microsoft.com/rest/api/storageservices/get-blob-properties)
    Read(Read, Guard),
    /// [Append Blob Seal](https://learn.microsoft.com/rest/api/storageservices/append-blob-seal)
    Seal(AppendLimits, Guard),
    /// [Set Blob Metadata](https://learn.microsoft.com/rest/api/storageservices/set-blob-metadata)
    SetMetadata(Metadata, Guard),
    /// [Set Blob Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-properties)
    SetProperties(ContentHeaders, Guard),
    /// [Set Blob Tags](https://learn.microsoft.com/rest/api/storageservices/set-blob-tags); the
    /// body is a document.
    SetTags(Sums, Guard),
    /// [Set Blob Tier](https://learn.microsoft.com/rest/api/storageservices/set-blob-tier)
    SetTier(SetTier, Guard),
    /// [Snapshot Blob](https://learn.microsoft.com/rest/api/storageservices/snapshot-blob)
    Snapshot(Metadata, Guard),
}

/// The properties of a blob that are set when it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Description {
    /// The HTTP headers.
    pub(crate) headers: ContentHeaders,
    /// The metadata.
    pub(crate) metadata: Metadata,
    /// The tags.
    pub(crate) tags: Tags,
    /// The access tier; `None` keeps that of an overwritten blob, or uses the default.
    pub(crate) tier: Option<AccessTier>,
}

/// A new access tier for a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetTier {
    /// The tier.
    pub(crate) tier: AccessTier,
    /// The priority of rehydrating an archived blob.
    pub(crate) priority: RehydratePriority,
    /// The snapshot; `None` for the blob itself.
    pub(crate) snapshot: Option<DateTime>,
}

/// A blob that is written in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    /// The blob's type.
    pub(crate) kind: BlobType,
    /// Its headers, metadata, tags and tier.
    pub(crate) description: Description,
    /// The checksums of the body.
    pub(crate) sums: Sums,
}

/// What Delete Blob deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delete {
    /// The blob, if it has no snapshots.
    Blob,
    /// The blob and its snapshots.
    BlobAndSnapshots,
    /// One snapshot.
    Snapshot(DateTime),
    /// All snapshots.
    Snapshots,
}

/// Which blocks Get Block List returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockLists {
    /// Both.
    All,
    /// The blocks that the blob consists of.
    Committed,
    /// The blocks that are not committed.
    Uncommitted,
}

/// What Get Blob or Get Blob Properties reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// The snapshot; `None` for the blob itself.
    pub(crate) snapshot: Option<DateTime>,
    /// Whether the content is returned, not only the properties.
    pub(crate) content: bool,
    /// The requested range.
    pub(crate) range: Option<Range>,
    /// Whether the MD5 of the range is requested.
    pub(crate) range_md5: bool,
    /// Whether the CRC64 of the range is requested.
    pub(crate) range_crc64: bool,
}

/// `bytes=first-last`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first byte, counted from 0.
    pub(crate) first: u64,
    /// The last byte; `None` for the end.
    pub(crate) last: Option<u64>,
}

/// A copy of another blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy<'a> {
    /// The address of the source.
    pub(crate) source: &'a str,
    /// The lease and conditions on the source.
    pub(crate) source_guard: Guard,
    /// The metadata; if empty, that of the source.
    pub(crate) metadata: Metadata,
    /// The tags; `None` keeps those of the source.
    pub(crate) tags: Option<Tags>,
    /// The access tier; `None` keeps that of an overwritten blob, or uses the default.
    pub(crate) tier: Option<AccessTier>,
    /// The priority of rehydrating an archived source.
    pub(crate) priority: RehydratePriority,
    /// Whether the copy of an append blob is sealed.
    pub(crate) seal: bool,
    /// Whether the copy must be complete when the response is sent.
    pub(crate) sync: bool,
}
