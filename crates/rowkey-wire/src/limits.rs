//! The documented limits of the service, named once.
//!
//! Sources: [data model](https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model),
//! [entity group transactions](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions),
//! [querying](https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities).

/// Properties an entity may have besides PartitionKey, RowKey and Timestamp.
pub const MAX_PROPERTIES: usize = 252;

/// Characters in a property name (UTF-16 units).
pub const MAX_PROPERTY_NAME: usize = 255;

/// UTF-16 units in a PartitionKey or a RowKey: 1 KiB of UTF-16.
pub const MAX_KEY_UNITS: usize = 512;

/// UTF-16 units in a String property: 64 KiB of UTF-16.
pub const MAX_STRING_UNITS: usize = 32 * 1024;

/// Bytes in a Binary property.
pub const MAX_BINARY: usize = 64 * 1024;

/// Bytes in an entity, counted as the service counts them (see [`crate::edm::size`]).
pub const MAX_ENTITY: usize = 1024 * 1024;

/// Operations in an entity group transaction.
pub const MAX_BATCH_OPERATIONS: usize = 100;

/// Bytes in the body of an entity group transaction.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Entities or tables in one page of results.
pub const MAX_PAGE: u32 = 1000;

/// Comparisons in a filter.
pub const MAX_COMPARISONS: usize = 15;

/// Bytes of the address of a request, the query and a shared access signature included: what HTTP
/// libraries take. How much the service takes is not documented; 32 KiB are said to be safe.
pub const MAX_URL: usize = 65_534;

/// Stored access policies of a table, queue or container.
pub const MAX_ACCESS_POLICIES: usize = 5;

/// Characters of the id of a stored access policy.
pub const MAX_POLICY_ID: usize = 64;

/// CORS rules of a service.
pub const MAX_CORS_RULES: usize = 5;

/// Characters in the `x-ms-client-request-id` header: 1 KiB.
pub const MAX_CLIENT_REQUEST_ID: usize = 1024;

/// Names in `$select`.
pub const MAX_SELECT: usize = 252;

/// Seconds between a request's date and the service's clock before it is refused.
pub const MAX_CLOCK_SKEW_SECONDS: i64 = 15 * 60;

/// Bytes in the names and values of the metadata of a queue, a container or a blob.
pub const MAX_METADATA: usize = 8 * 1024;

/// Bytes in the text of a message, in UTF-8.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Messages that one request can get or peek at.
pub const MAX_MESSAGES: u32 = 32;

/// Seconds that a message can be invisible, and that it lives unless it is told otherwise: 7 days.
pub const MAX_VISIBILITY_SECONDS: u32 = 7 * 24 * 60 * 60;

/// Queues, containers or blobs in one page of a listing.
pub const MAX_LISTING: u32 = 5000;

/// Blocks that a blob may have.
pub const MAX_BLOCKS: usize = 50_000;
