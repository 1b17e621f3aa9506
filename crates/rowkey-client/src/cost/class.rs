//! Billing classes: which one a REST operation has, and which requests are billed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The billing class of a transaction, as Azure's price lists name them for general-purpose v2 accounts.
///
/// Sources: [the operations of blobs](https://learn.microsoft.com/azure/storage/blobs/map-rest-apis-transaction-categories)
/// and the price lists of [tables](https://azure.microsoft.com/pricing/details/storage/tables/) and
/// [queues](https://azure.microsoft.com/pricing/details/storage/queues/). For tables, Microsoft publishes the names of
/// the classes, not the class of each operation; the assignment here follows the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// A write of one entity; creating a table, and setting its policies or the properties of the service.
    TableWrite,
    /// An entity group transaction, which counts once for all its operations.
    TableBatchWrite,
    /// A get of one entity; reading the policies of a table, the properties or the statistics of the service.
    TableRead,
    /// A page of a query, also of one that reads a single entity.
    TableScan,
    /// A page of the names of tables.
    TableList,
    /// A deletion of one entity or of a table.
    TableDelete,
    /// Putting, updating, deleting and clearing messages; receiving that returns messages; creating, deleting, listing and
    /// changing queues.
    QueueClass1,
    /// Peeking; receiving that returns nothing; reading metadata, policies, properties and statistics.
    QueueClass2,
    /// Putting a blob, a block or a list of blocks; appending; copying.
    BlobWrite,
    /// Listing blobs or containers; creating a container.
    BlobList,
    /// A get of a blob or of a range of it.
    BlobRead,
    /// Leases, snapshots, metadata, properties, policies and the envelope of a batch.
    BlobOther,
    /// A deletion of a blob or a container. Free, but for accounts of general-purpose v1.
    BlobDelete,
}

impl Class {
    /// All classes, in the order of the services.
    pub const ALL: &'static [Self] = &[
        Self::TableWrite,
        Self::TableBatchWrite,
        Self::TableRead,
        Self::TableScan,
        Self::TableList,
        Self::TableDelete,
        Self::QueueClass1,
        Self::QueueClass2,
        Self::BlobWrite,
        Self::BlobList,
        Self::BlobRead,
        Self::BlobOther,
        Self::BlobDelete,
    ];

    /// The service: `table`, `queue` or `blob`.
    ///
    /// ```
    /// use rowkey::cost::Class;
    ///
    /// assert_eq!((Class::TableBatchWrite.service(), Class::TableBatchWrite.name()), ("table", "batch write"));
    /// assert_eq!(Class::QueueClass1.to_string(), "queue class 1");
    /// ```
    pub const fn service(self) -> &'static str {
        match self {
            Self::TableWrite
            | Self::TableBatchWrite
            | Self::TableRead
            | Self::TableScan
            | Self::TableList
            | Self::TableDelete => "table",
            Self::QueueClass1 | Self::QueueClass2 => "queue",
            Self::BlobWrite
            | Self::BlobList
            | Self::BlobRead
            | Self::BlobOther
            | Self::BlobDelete => "blob",
        }
    }

    /// The name of the class in its service.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TableWrite | Self::BlobWrite => "write",
            Self::TableBatchWrite => "batch write",
            Self::TableRead | Self::BlobRead => "read",
            Self::TableScan => "scan",
            Self::TableList => "list",
            Self::BlobList => "list and create container",
            Self::TableDelete | Self::BlobDelete => "delete",
            Self::QueueClass1 => "class 1",
            Self::QueueClass2 => "class 2",
            Self::BlobOther => "other",
        }
    }

    /// The position in [`ALL`](Self::ALL).
    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// The class of a REST operation, by the name that the client gives it; `None` for names that are no requests.
    ///
    /// `returns_messages` is about `GetMessages` alone.
    pub(super) fn of(operation: &str, returns_messages: bool) -> Option<Self> {
        Some(match operation {
            "InsertEntity"
            | "UpdateEntity"
            | "MergeEntity"
            | "InsertOrMergeEntity"
            | "InsertOrReplaceEntity"
            | "CreateTable"
            | "SetTableAcl"
            | "SetTableServiceProperties" => Self::TableWrite,
            "EntityGroupTransaction" => Self::TableBatchWrite,
            "GetEntity" | "GetTableAcl" | "GetTableServiceProperties" | "GetTableServiceStats" => {
                Self::TableRead
            }
            "QueryEntities" => Self::TableScan,
            "QueryTables" => Self::TableList,
            "DeleteEntity" | "DeleteTable" => Self::TableDelete,
            "GetMessages" if !returns_messages => Self::QueueClass2,
            "GetMessages"
            | "PutMessage"
            | "UpdateMessage"
            | "DeleteMessage"
            | "ClearMessages"
            | "CreateQueue"
            | "DeleteQueue"
            | "ListQueues"
            | "SetQueueMetadata"
            | "SetQueueAcl"
            | "SetQueueServiceProperties" => Self::QueueClass1,
            "PeekMessages"
            | "GetQueueMetadata"
            | "GetQueueAcl"
            | "GetQueueServiceProperties"
            | "GetQueueServiceStats" => Self::QueueClass2,
            "PutBlob" | "PutBlock" | "PutBlockList" | "AppendBlock" | "CopyBlob" => Self::BlobWrite,
            "ListBlobs" | "ListContainers" | "CreateContainer" => Self::BlobList,
            "GetBlob" => Self::BlobRead,
            "DeleteBlob" | "DeleteContainer" => Self::BlobDelete,
            "AbortCopyBlob"
            | "AcquireLease"
            | "BlobBatch"
            | "BreakLease"
            | "ChangeLease"
            | "GetBlobProperties"
            | "GetBlobServiceProperties"
            | "GetBlobServiceStats"
            | "GetContainerAcl"
            | "GetContainerProperties"
            | "GetUserDelegationKey"
            | "ReleaseLease"
            | "RenewLease"
            | "SetBlobMetadata"
            | "SetBlobProperties"
            | "SetBlobServiceProperties"
            | "SetContainerAcl"
            | "SetContainerMetadata"
            | "SnapshotBlob" => Self::BlobOther,
            _ => return None,
        })
    }
}

/// Whether an operation has a class, or is the name of no request: every [`Call`](crate::transport::Call) is checked in builds
/// with debug assertions, so an operation without a class fails each test that uses it.
pub(crate) fn has_class(operation: &str) -> bool {
    Class::of(operation, true).is_some() || operation == "BlobSas"
}

impl fmt::Display for Class {
    /// The service and the name, such as `table batch write`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", self.service(), self.name()))
    }
}

/// Whether the service bills a request with this response.
///
/// [Logged status messages](https://learn.microsoft.com/rest/api/storageservices/storage-analytics-logged-operations-and-status-messages):
/// successes, refusals of an authorized request (`ClientOtherError`, such as 404, 409 or 412) and broken connections
/// (`NetworkError`) are billed; throttling (503) and errors of the server (500) are not; and requests without a valid
/// signature or token [are not](https://learn.microsoft.com/azure/storage/blobs/map-rest-apis-transaction-categories).
/// A request without a response is counted as billed, because the service may have carried it out.
pub(super) fn is_billed(status: Option<u16>, is_unauthenticated: bool) -> bool {
    match status {
        None => true,
        Some(status) => status < 500 && status != 401 && status != 429 && !is_unauthenticated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_classes_are_in_the_order_of_their_indexes() {
        for (at, class) in Class::ALL.iter().copied().enumerate() {
            assert_eq!(class.index(), at);
            let text = serde_json::to_string(&class).unwrap();
            assert_eq!(serde_json::from_str::<Class>(&text).unwrap(), class);
        }
    }

    #[test]
    fn what_the_service_bills_is_what_storage_analytics_says() {
        for (status, is_it) in [
            (Some(200), true),
            (Some(204), true),
            (Some(304), true),
            (Some(404), true),
            (Some(409), true),
            (Some(412), true),
            (Some(403), true),
            (Some(401), false),
            (Some(429), false),
            (Some(500), false),
            (Some(503), false),
            (None, true),
        ] {
            assert_eq!(is_billed(status, false), is_it, "{status:?}");
        }
        assert!(!is_billed(Some(403), true), "the signature is wrong");
    }

    /// The whole name decides, and nothing else of a request: keys, names of blobs and filters are not looked at.
    #[test]
    fn names_of_operations_are_compared_whole() {
        assert_eq!(Class::of("PutBlob", false), Some(Class::BlobWrite));
        for name in ["", "PutBlobs", "aPutBlob", "putblob", "PutBlob/GetBlob", "PutBlob "] {
            assert_eq!(Class::of(name, true), None, "{name:?}");
        }
        assert!(has_class("BlobSas") && !has_class("PutBlobs"));
    }
}
