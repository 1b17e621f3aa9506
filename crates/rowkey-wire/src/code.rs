//! Service error codes: an open set, because the service adds new ones.
//!
//! Source: [Table service error codes](https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes)
//! and [common error
//! codes](https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes).

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;

/// A service error code such as `EntityAlreadyExists`.
///
/// Compare it with the constants: `error.code() == Some(&ErrorCode::ENTITY_ALREADY_EXISTS)`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ErrorCode(Cow<'static, str>);

impl ErrorCode {
    /// Creates a code from its text, known or not.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }

    /// The text, as the service writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! codes {
    ($($name:ident = $text:literal $status:literal),* $(,)?) => {
        /// The codes that this crate knows. Each constant is named after its code.
        #[expect(missing_docs, reason = "the name is the code")]
        impl ErrorCode {
            $(pub const $name: Self = Self(Cow::Borrowed($text));)*

            /// The HTTP status of a known code.
            pub fn status(&self) -> Option<StatusCode> {
                let status: u16 = match self.as_str() {
                    $($text => $status,)*
                    _ => return None,
                };
                StatusCode::from_u16(status).ok()
            }
        }
    };
}

codes! {
    ACCESS_TIER_NOT_SUPPORTED_FOR_BLOB_TYPE = "AccessTierNotSupportedForBlobType" 400,
    ACCOUNT_IS_DISABLED = "AccountIsDisabled" 403,
    ALL_BATCH_SUB_REQUESTS_SHOULD_BE_SAME_API = "AllBatchSubRequestsShouldBeSameApi" 400,
    APPEND_POSITION_CONDITION_NOT_MET = "AppendPositionConditionNotMet" 412,
    ATOM_FORMAT_NOT_SUPPORTED = "AtomFormatNotSupported" 415,
    AUTHENTICATION_FAILED = "AuthenticationFailed" 403,
    AUTHORIZATION_FAILURE = "AuthorizationFailure" 403,
    AUTHORIZATION_PERMISSION_MISMATCH = "AuthorizationPermissionMismatch" 403,
    AUTHORIZATION_PROTOCOL_MISMATCH = "AuthorizationProtocolMismatch" 403,
    AUTHORIZATION_RESOURCE_TYPE_MISMATCH = "AuthorizationResourceTypeMismatch" 403,
    AUTHORIZATION_SERVICE_MISMATCH = "AuthorizationServiceMismatch" 403,
    AUTHORIZATION_SOURCE_IP_MISMATCH = "AuthorizationSourceIPMismatch" 403,
    BLOB_ALREADY_EXISTS = "BlobAlreadyExists" 409,
    BLOB_ARCHIVED = "BlobArchived" 409,
    BLOB_BEING_REHYDRATED = "BlobBeingRehydrated" 409,
    BLOB_IS_SEALED = "BlobIsSealed" 409,
    BLOB_NOT_FOUND = "BlobNotFound" 404,
    BLOCK_COUNT_EXCEEDS_LIMIT = "BlockCountExceedsLimit" 409,
    BLOCK_LIST_TOO_LONG = "BlockListTooLong" 400,
    BOTH_CRC64_AND_MD5_HEADER_PRESENT = "BothCrc64AndMd5HeaderPresent" 400,
    BOTH_CRC64_AND_MD5_RANGE_HEADER_PRESENT = "BothCrc64AndMd5RangeHeaderPresent" 400,
    CANNOT_VERIFY_COPY_SOURCE = "CannotVerifyCopySource" 404,
    COMMANDS_IN_BATCH_ACT_ON_DIFFERENT_PARTITIONS = "CommandsInBatchActOnDifferentPartitions" 400,
    CONDITION_NOT_MET = "ConditionNotMet" 412,
    CONTAINER_ALREADY_EXISTS = "ContainerAlreadyExists" 409,
    CONTAINER_BEING_DELETED = "ContainerBeingDeleted" 409,
    CONTAINER_NOT_FOUND = "ContainerNotFound" 404,
    COPY_ACROSS_ACCOUNTS_NOT_SUPPORTED = "CopyAcrossAccountsNotSupported" 400,
    CORS_PREFLIGHT_FAILURE = "CorsPreflightFailure" 403,
    CRC64_MISMATCH = "Crc64Mismatch" 400,
    DUPLICATE_PROPERTIES_SPECIFIED = "DuplicatePropertiesSpecified" 400,
    DUPLICATE_TAG_NAMES = "DuplicateTagNames" 400,
    EMPTY_METADATA_KEY = "EmptyMetadataKey" 400,
    EMPTY_TAG_NAME = "EmptyTagName" 400,
    ENTITY_ALREADY_EXISTS = "EntityAlreadyExists" 409,
    ENTITY_NOT_FOUND = "EntityNotFound" 404,
    ENTITY_TOO_LARGE = "EntityTooLarge" 400,
    EXCEEDS_MAX_BATCH_REQUEST_COUNT = "ExceedsMaxBatchRequestCount" 400,
    FEATURE_NOT_SUPPORTED_BY_EMULATOR = "FeatureNotSupportedByEmulator" 400,
    HOST_INFORMATION_NOT_PRESENT = "HostInformationNotPresent" 400,
    INFINITE_LEASE_DURATION_REQUIRED = "InfiniteLeaseDurationRequired" 412,
    INSUFFICIENT_ACCOUNT_PERMISSIONS = "InsufficientAccountPermissions" 403,
    INSUFFICIENT_STORAGE = "InsufficientStorage" 507,
    INTERNAL_ERROR = "InternalError" 500,
    INVALID_AUTHENTICATION_INFO = "InvalidAuthenticationInfo" 400,
    INVALID_BLOB_OR_BLOCK = "InvalidBlobOrBlock" 400,
    INVALID_BLOB_TYPE = "InvalidBlobType" 409,
    INVALID_BLOCK_ID = "InvalidBlockId" 400,
    INVALID_BLOCK_LIST = "InvalidBlockList" 400,
    INVALID_DUPLICATE_ROW = "InvalidDuplicateRow" 400,
    INVALID_HEADER_VALUE = "InvalidHeaderValue" 400,
    INVALID_HTTP_VERB = "InvalidHttpVerb" 400,
    INVALID_INPUT = "InvalidInput" 400,
    INVALID_MARKER = "InvalidMarker" 400,
    INVALID_MD5 = "InvalidMd5" 400,
    INVALID_METADATA = "InvalidMetadata" 400,
    INVALID_QUERY_PARAMETER_VALUE = "InvalidQueryParameterValue" 400,
    INVALID_RANGE = "InvalidRange" 416,
    INVALID_RESOURCE_NAME = "InvalidResourceName" 400,
    INVALID_TAGS = "InvalidTags" 400,
    INVALID_URI = "InvalidUri" 400,
    INVALID_VALUE_TYPE = "InvalidValueType" 400,
    INVALID_XML_DOCUMENT = "InvalidXmlDocument" 400,
    INVALID_XML_NODE_VALUE = "InvalidXmlNodeValue" 400,
    JSON_FORMAT_NOT_SUPPORTED = "JsonFormatNotSupported" 415,
    KEY_VALUE_TOO_LARGE = "KeyValueTooLarge" 400,
    LEASE_ALREADY_PRESENT = "LeaseAlreadyPresent" 409,
    LEASE_ID_MISMATCH_WITH_BLOB_OPERATION = "LeaseIdMismatchWithBlobOperation" 412,
    LEASE_ID_MISMATCH_WITH_CONTAINER_OPERATION = "LeaseIdMismatchWithContainerOperation" 412,
    LEASE_ID_MISMATCH_WITH_LEASE_OPERATION = "LeaseIdMismatchWithLeaseOperation" 409,
    LEASE_ID_MISSING = "LeaseIdMissing" 412,
    LEASE_IS_BREAKING_AND_CANNOT_BE_ACQUIRED = "LeaseIsBreakingAndCannotBeAcquired" 409,
    LEASE_IS_BREAKING_AND_CANNOT_BE_CHANGED = "LeaseIsBreakingAndCannotBeChanged" 409,
    LEASE_IS_BROKEN_AND_CANNOT_BE_RENEWED = "LeaseIsBrokenAndCannotBeRenewed" 409,
    LEASE_LOST = "LeaseLost" 412,
    LEASE_NOT_PRESENT_WITH_BLOB_OPERATION = "LeaseNotPresentWithBlobOperation" 412,
    LEASE_NOT_PRESENT_WITH_CONTAINER_OPERATION = "LeaseNotPresentWithContainerOperation" 412,
    LEASE_NOT_PRESENT_WITH_LEASE_OPERATION = "LeaseNotPresentWithLeaseOperation" 409,
    MAX_BLOB_SIZE_CONDITION_NOT_MET = "MaxBlobSizeConditionNotMet" 412,
    MD5_MISMATCH = "Md5Mismatch" 400,
    MEDIA_TYPE_NOT_SUPPORTED = "MediaTypeNotSupported" 415,
    MESSAGE_NOT_FOUND = "MessageNotFound" 404,
    MESSAGE_TOO_LARGE = "MessageTooLarge" 400,
    METADATA_TOO_LARGE = "MetadataTooLarge" 400,
    METHOD_NOT_ALLOWED = "MethodNotAllowed" 405,
    MISSING_CONTENT_LENGTH_HEADER = "MissingContentLengthHeader" 411,
    MISSING_REQUIRED_HEADER = "MissingRequiredHeader" 400,
    MISSING_REQUIRED_QUERY_PARAMETER = "MissingRequiredQueryParameter" 400,
    MISSING_REQUIRED_XML_NODE = "MissingRequiredXmlNode" 400,
    MULTIPLE_CONDITION_HEADERS_NOT_SUPPORTED = "MultipleConditionHeadersNotSupported" 400,
    NOT_IMPLEMENTED = "NotImplemented" 501,
    NO_AUTHENTICATION_INFORMATION = "NoAuthenticationInformation" 401,
    NO_PENDING_COPY_OPERATION = "NoPendingCopyOperation" 409,
    OPERATION_TIMED_OUT = "OperationTimedOut" 500,
    OUT_OF_RANGE_INPUT = "OutOfRangeInput" 400,
    OUT_OF_RANGE_QUERY_PARAMETER_VALUE = "OutOfRangeQueryParameterValue" 400,
    POP_RECEIPT_MISMATCH = "PopReceiptMismatch" 400,
    PROPERTIES_NEED_VALUE = "PropertiesNeedValue" 400,
    PROPERTY_NAME_INVALID = "PropertyNameInvalid" 400,
    PROPERTY_NAME_TOO_LONG = "PropertyNameTooLong" 400,
    PROPERTY_VALUE_TOO_LARGE = "PropertyValueTooLarge" 400,
    QUEUE_ALREADY_EXISTS = "QueueAlreadyExists" 409,
    QUEUE_BEING_DELETED = "QueueBeingDeleted" 409,
    QUEUE_DISABLED = "QueueDisabled" 409,
    QUEUE_NOT_EMPTY = "QueueNotEmpty" 409,
    QUEUE_NOT_FOUND = "QueueNotFound" 404,
    REQUEST_BODY_TOO_LARGE = "RequestBodyTooLarge" 413,
    RESOURCE_NOT_FOUND = "ResourceNotFound" 404,
    SERVER_BUSY = "ServerBusy" 503,
    SNAPSHOTS_PRESENT = "SnapshotsPresent" 409,
    SOURCE_CONDITION_NOT_MET = "SourceConditionNotMet" 412,
    TABLE_ALREADY_EXISTS = "TableAlreadyExists" 409,
    TABLE_BEING_DELETED = "TableBeingDeleted" 409,
    TABLE_NOT_FOUND = "TableNotFound" 404,
    TAGS_TOO_LARGE = "TagsTooLarge" 400,
    TARGET_CONDITION_NOT_MET = "TargetConditionNotMet" 412,
    TOO_MANY_PROPERTIES = "TooManyProperties" 400,
    TOO_MANY_REQUESTS = "TooManyRequests" 429,
    UNSATISFIABLE_CONDITION = "UnsatisfiableCondition" 400,
    UNSUPPORTED_HEADER = "UnsupportedHeader" 400,
    UNSUPPORTED_HTTP_VERB = "UnsupportedHttpVerb" 405,
    UNSUPPORTED_QUERY_PARAMETER = "UnsupportedQueryParameter" 400,
    UPDATE_CONDITION_NOT_SATISFIED = "UpdateConditionNotSatisfied" 412,
    X_METHOD_INCORRECT_COUNT = "XMethodIncorrectCount" 400,
    X_METHOD_INCORRECT_VALUE = "XMethodIncorrectValue" 400,
    X_METHOD_NOT_USING_POST = "XMethodNotUsingPost" 400,
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
