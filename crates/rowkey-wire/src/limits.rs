//! The documented limits of the service.
//!
//! Sources: [data model](https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model),
//! [entity group transactions](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions),
//! [querying](https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities).

/// The most properties of an entity, besides PartitionKey, RowKey and Timestamp.
pub const MAX_PROPERTIES: usize = 252;

/// The most characters in a property name (UTF-16 units).
pub const MAX_PROPERTY_NAME: usize = 255;

/// The most UTF-16 units in a PartitionKey or a RowKey: 1 KiB of UTF-16.
pub const MAX_KEY_UNITS: usize = 512;

/// The most UTF-16 units in a String property: 64 KiB of UTF-16.
pub const MAX_STRING_UNITS: usize = 32 * 1024;

/// The most bytes in a Binary property.
pub const MAX_BINARY: usize = 64 * 1024;

/// The most bytes in an entity, as the service counts them (see [`crate::edm::size`]).
pub const MAX_ENTITY: usize = 1024 * 1024;

/// The most operations in an entity group transaction.
pub const MAX_BATCH_OPERATIONS: usize = 100;

/// The most bytes in the body of an entity group transaction.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The most entities or tables on one page of results.
pub const MAX_PAGE: u32 = 1000;

/// The most comparisons in a filter.
pub const MAX_COMPARISONS: usize = 15;

/// The most stored access policies of a table, queue or container.
pub const MAX_ACCESS_POLICIES: usize = 5;

/// The most characters in the id of a stored access policy (UTF-16 units).
pub const MAX_POLICY_ID: usize = 64;

/// The most bytes in the names and values of the metadata of a queue, a container or a blob.
pub const MAX_METADATA: usize = 8 * 1024;

/// The most bytes in the text of a message, in UTF-8.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// The most messages that one request can receive or peek at.
pub const MAX_MESSAGES: u32 = 32;

/// The longest time that a message can be invisible, and its default time to live, in seconds: 7
/// days.
pub const MAX_VISIBILITY_SECONDS: u32 = 7 * 24 * 60 * 60;

/// The most queues, containers or blobs on one page of a listing.
pub const MAX_LISTING: u32 = 5000;

/// The most blocks of a blob.
pub const MAX_BLOCKS: usize = 50_000;
