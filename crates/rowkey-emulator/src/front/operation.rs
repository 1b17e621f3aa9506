//! The REST operations of the three services.

use rowkey_wire::auth::Service;
use serde::{Deserialize, Serialize};

macro_rules! operations {
    ($($(#[doc = $doc:literal])* $name:ident $service:ident $kind:ident,)*) => {
        /// An operation of one of the services, named as in their REST reference.
        ///
        /// It includes operations that the server does not implement, so that faults and the
        /// journal can name them.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[non_exhaustive]
        pub enum Operation {
            $($(#[doc = $doc])* $name,)*
            /// A request that is not an operation of the Blob service.
            UnknownBlob,
            /// A request that is not an operation of the Queue service.
            UnknownQueue,
            /// A request that is not an operation of the Table service.
            UnknownTable,
        }

        impl Operation {
            /// All operations, in the order of their names.
            pub const ALL: &[Self] = &[
                $(Self::$name,)*
                Self::UnknownBlob,
                Self::UnknownQueue,
                Self::UnknownTable,
            ];

            /// The service it belongs to.
            pub const fn service(self) -> Service {
                match self {
                    $(Self::$name => Service::$service,)*
                    Self::UnknownBlob => Service::Blob,
                    Self::UnknownQueue => Service::Queue,
                    Self::UnknownTable => Service::Table,
                }
            }

            /// Whether it changes something when it succeeds. Get Messages does: it hides the
            /// messages.
            pub const fn is_write(self) -> bool {
                match self {
                    $(Self::$name => operations!(@ $kind),)*
                    Self::UnknownBlob | Self::UnknownQueue | Self::UnknownTable => false,
                }
            }
        }
    };
    (@ write) => { true };
    (@ read) => { false };
}

operations! {
    /// [Abort Copy Blob](https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob)
    AbortCopyBlob Blob write,
    /// [Append Block](https://learn.microsoft.com/rest/api/storageservices/append-block)
    AppendBlock Blob write,
    /// [Append Block From URL](https://learn.microsoft.com/rest/api/storageservices/append-block-from-url)
    AppendBlockFromUrl Blob write,
    /// [Blob Batch](https://learn.microsoft.com/rest/api/storageservices/blob-batch)
    BlobBatch Blob write,
    /// [Clear Messages](https://learn.microsoft.com/rest/api/storageservices/clear-messages)
    ClearMessages Queue write,
    /// [Copy Blob](https://learn.microsoft.com/rest/api/storageservices/copy-blob)
    CopyBlob Blob write,
    /// [Copy Blob From URL](https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url)
    CopyBlobFromUrl Blob write,
    /// [Create Container](https://learn.microsoft.com/rest/api/storageservices/create-container)
    CreateContainer Blob write,
    /// [Create Queue](https://learn.microsoft.com/rest/api/storageservices/create-queue4)
    CreateQueue Queue write,
    /// [Create Table](https://learn.microsoft.com/rest/api/storageservices/create-table)
    CreateTable Table write,
    /// [Delete Blob](https://learn.microsoft.com/rest/api/storageservices/delete-blob)
    DeleteBlob Blob write,
    /// [Delete Container](https://learn.microsoft.com/rest/api/storageservices/delete-container)
    DeleteContainer Blob write,
    /// [Delete Entity](https://learn.microsoft.com/rest/api/storageservices/delete-entity1)
    DeleteEntity Table write,
    /// [Delete Message](https://learn.microsoft.com/rest/api/storageservices/delete-message2)
    DeleteMessage Queue write,
    /// [Delete Queue](https://learn.microsoft.com/rest/api/storageservices/delete-queue3)
    DeleteQueue Queue write,
    /// [Delete Table](https://learn.microsoft.com/rest/api/storageservices/delete-table)
    DeleteTable Table write,
    /// [Find Blobs by Tags](https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags)
    FindBlobsByTags Blob read,
    /// [Get Account Information](https://learn.microsoft.com/rest/api/storageservices/get-account-information)
    GetAccountInformation Blob read,
    /// [Get Blob](https://learn.microsoft.com/rest/api/storageservices/get-blob)
    GetBlob Blob read,
    /// [Get Blob Metadata](https://learn.microsoft.com/rest/api/storageservices/get-blob-metadata)
    GetBlobMetadata Blob read,
    /// [Get Blob Properties](https://learn.microsoft.com/rest/api/storageservices/get-blob-properties)
    GetBlobProperties Blob read,
    /// [Get Blob Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-properties)
    GetBlobServiceProperties Blob read,
    /// [Get Blob Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats)
    GetBlobServiceStats Blob read,
    /// [Get Blob Tags](https://learn.microsoft.com/rest/api/storageservices/get-blob-tags)
    GetBlobTags Blob read,
    /// [Get Block List](https://learn.microsoft.com/rest/api/storageservices/get-block-list)
    GetBlockList Blob read,
    /// [Get Container ACL](https://learn.microsoft.com/rest/api/storageservices/get-container-acl)
    GetContainerAcl Blob read,
    /// [Get Container Metadata](https://learn.microsoft.com/rest/api/storageservices/get-container-metadata)
    GetContainerMetadata Blob read,
    /// [Get Container Properties](https://learn.microsoft.com/rest/api/storageservices/get-container-properties)
    GetContainerProperties Blob read,
    /// Gets one entity by its keys: [Query
    /// Entities](https://learn.microsoft.com/rest/api/storageservices/query-entities) with keys in
    /// the address.
    GetEntity Table read,
    /// [Get Messages](https://learn.microsoft.com/rest/api/storageservices/get-messages)
    GetMessages Queue write,
    /// [Get Page Ranges](https://learn.microsoft.com/rest/api/storageservices/get-page-ranges)
    GetPageRanges Blob read,
    /// [Get Queue ACL](https://learn.microsoft.com/rest/api/storageservices/get-queue-acl)
    GetQueueAcl Queue read,
    /// [Get Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata)
    GetQueueMetadata Queue read,
    /// [Get Queue Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-queue-service-properties)
    GetQueueServiceProperties Queue read,
    /// [Get Queue Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-queue-service-stats)
    GetQueueServiceStats Queue read,
    /// Gets one table by its name: [Query
    /// Tables](https://learn.microsoft.com/rest/api/storageservices/query-tables) with a name in
    /// the address.
    GetTable Table read,
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key)
    /// of the Queue service
    GetQueueUserDelegationKey Queue read,
    /// [Get Table ACL](https://learn.microsoft.com/rest/api/storageservices/get-table-acl)
    GetTableAcl Table read,
    /// [Get Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-table-service-properties)
    GetTableServiceProperties Table read,
    /// [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats)
    GetTableServiceStats Table read,
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key)
    /// of the Table service
    GetTableUserDelegationKey Table read,
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key)
    /// of the Blob service
    GetUserDelegationKey Blob read,
    /// [Insert Entity](https://learn.microsoft.com/rest/api/storageservices/insert-entity)
    InsertEntity Table write,
    /// [Insert Or Merge Entity](https://learn.microsoft.com/rest/api/storageservices/insert-or-merge-entity)
    InsertOrMergeEntity Table write,
    /// [Insert Or Replace Entity](https://learn.microsoft.com/rest/api/storageservices/insert-or-replace-entity)
    InsertOrReplaceEntity Table write,
    /// [Lease Blob](https://learn.microsoft.com/rest/api/storageservices/lease-blob)
    LeaseBlob Blob write,
    /// [Lease Container](https://learn.microsoft.com/rest/api/storageservices/lease-container)
    LeaseContainer Blob write,
    /// [List Blobs](https://learn.microsoft.com/rest/api/storageservices/list-blobs)
    ListBlobs Blob read,
    /// [List Containers](https://learn.microsoft.com/rest/api/storageservices/list-containers2)
    ListContainers Blob read,
    /// [List Queues](https://learn.microsoft.com/rest/api/storageservices/list-queues1)
    ListQueues Queue read,
    /// [Merge Entity](https://learn.microsoft.com/rest/api/storageservices/merge-entity)
    MergeEntity Table write,
    /// [Peek Messages](https://learn.microsoft.com/rest/api/storageservices/peek-messages)
    PeekMessages Queue read,
    /// Sent by browsers before a cross-origin request: [Preflight Blob
    /// Request](https://learn.microsoft.com/rest/api/storageservices/preflight-blob-request)
    PreflightBlobRequest Blob read,
    /// [Preflight Queue Request](https://learn.microsoft.com/rest/api/storageservices/preflight-queue-request)
    PreflightQueueRequest Queue read,
    /// [Preflight Table Request](https://learn.microsoft.com/rest/api/storageservices/preflight-table-request)
    PreflightTableRequest Table read,
    /// [Put Blob](https://learn.microsoft.com/rest/api/storageservices/put-blob)
    PutBlob Blob write,
    /// [Put Blob From URL](https://learn.microsoft.com/rest/api/storageservices/put-blob-from-url)
    PutBlobFromUrl Blob write,
    /// [Put Block](https://learn.microsoft.com/rest/api/storageservices/put-block)
    PutBlock Blob write,
    /// [Put Block From URL](https://learn.microsoft.com/rest/api/storageservices/put-block-from-url)
    PutBlockFromUrl Blob write,
    /// [Put Block List](https://learn.microsoft.com/rest/api/storageservices/put-block-list)
    PutBlockList Blob write,
    /// [Put Message](https://learn.microsoft.com/rest/api/storageservices/put-message)
    PutMessage Queue write,
    /// [Put Page](https://learn.microsoft.com/rest/api/storageservices/put-page)
    PutPage Blob write,
    /// [Query Blob Contents](https://learn.microsoft.com/rest/api/storageservices/query-blob-contents)
    QueryBlobContents Blob read,
    /// [Query Entities](https://learn.microsoft.com/rest/api/storageservices/query-entities)
    QueryEntities Table read,
    /// [Query Tables](https://learn.microsoft.com/rest/api/storageservices/query-tables)
    QueryTables Table read,
    /// [Restore Container](https://learn.microsoft.com/rest/api/storageservices/restore-container)
    RestoreContainer Blob write,
    /// [Append Blob Seal](https://learn.microsoft.com/rest/api/storageservices/append-blob-seal)
    SealAppendBlob Blob write,
    /// [Set Blob Expiry](https://learn.microsoft.com/rest/api/storageservices/set-blob-expiry)
    SetBlobExpiry Blob write,
    /// [Set Blob Metadata](https://learn.microsoft.com/rest/api/storageservices/set-blob-metadata)
    SetBlobMetadata Blob write,
    /// [Set Blob Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-properties)
    SetBlobProperties Blob write,
    /// [Set Blob Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties)
    SetBlobServiceProperties Blob write,
    /// [Set Blob Tags](https://learn.microsoft.com/rest/api/storageservices/set-blob-tags)
    SetBlobTags Blob write,
    /// [Set Blob Tier](https://learn.microsoft.com/rest/api/storageservices/set-blob-tier)
    SetBlobTier Blob write,
    /// [Set Container ACL](https://learn.microsoft.com/rest/api/storageservices/set-container-acl)
    SetContainerAcl Blob write,
    /// [Set Container Metadata](https://learn.microsoft.com/rest/api/storageservices/set-container-metadata)
    SetContainerMetadata Blob write,
    /// [Set Blob Immutability
    /// Policy](https://learn.microsoft.com/rest/api/storageservices/set-blob-immutability-policy),
    /// deleting the policy, and legal holds.
    SetImmutability Blob write,
    /// [Set Queue ACL](https://learn.microsoft.com/rest/api/storageservices/set-queue-acl)
    SetQueueAcl Queue write,
    /// [Set Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/set-queue-metadata)
    SetQueueMetadata Queue write,
    /// [Set Queue Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-queue-service-properties)
    SetQueueServiceProperties Queue write,
    /// [Set Table ACL](https://learn.microsoft.com/rest/api/storageservices/set-table-acl)
    SetTableAcl Table write,
    /// [Set Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties)
    SetTableServiceProperties Table write,
    /// [Snapshot Blob](https://learn.microsoft.com/rest/api/storageservices/snapshot-blob)
    SnapshotBlob Blob write,
    /// An entity group transaction:
    /// [Perform Entity Group Transaction](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).
    /// It is one request, with any number of operations.
    Transaction Table write,
    /// [Undelete Blob](https://learn.microsoft.com/rest/api/storageservices/undelete-blob)
    UndeleteBlob Blob write,
    /// [Update Entity](https://learn.microsoft.com/rest/api/storageservices/update-entity2)
    UpdateEntity Table write,
    /// [Update Message](https://learn.microsoft.com/rest/api/storageservices/update-message)
    UpdateMessage Queue write,
}
