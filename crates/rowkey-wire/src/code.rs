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
    ($($name:ident = $text:literal $status:literal $($message:literal)?),* $(,)?) => {
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

            /// The message: the service's own if it is always the same, otherwise the
            /// documentation's.
            pub(crate) fn message(&self) -> &'static str {
                match self.as_str() {
                    $($($text => $message,)?)*
                    _ => "The server encountered an internal error. Please retry the request.",
                }
            }
        }
    };
}

codes! {
    ACCESS_TIER_NOT_SUPPORTED_FOR_BLOB_TYPE = "AccessTierNotSupportedForBlobType" 400
        "The access tier is not supported for this blob type.",
    ACCOUNT_IS_DISABLED = "AccountIsDisabled" 403
        "The specified account is disabled.",
    ALL_BATCH_SUB_REQUESTS_SHOULD_BE_SAME_API = "AllBatchSubRequestsShouldBeSameApi" 400
        "All batch subrequests should be the same api.",
    APPEND_POSITION_CONDITION_NOT_MET = "AppendPositionConditionNotMet" 412
        "The append position condition specified was not met.",
    ATOM_FORMAT_NOT_SUPPORTED = "AtomFormatNotSupported" 415
        "Atom format is not supported.",
    AUTHENTICATION_FAILED = "AuthenticationFailed" 403
        "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
    AUTHORIZATION_FAILURE = "AuthorizationFailure" 403
        "This request is not authorized to perform this operation.",
    AUTHORIZATION_PERMISSION_MISMATCH = "AuthorizationPermissionMismatch" 403
        "This request is not authorized to perform this operation using this permission.",
    AUTHORIZATION_PROTOCOL_MISMATCH = "AuthorizationProtocolMismatch" 403
        "This request is not authorized to perform this operation using this protocol.",
    AUTHORIZATION_RESOURCE_TYPE_MISMATCH = "AuthorizationResourceTypeMismatch" 403
        "This request is not authorized to perform this operation using this resource type.",
    AUTHORIZATION_SERVICE_MISMATCH = "AuthorizationServiceMismatch" 403
        "This request is not authorized to perform this operation using this service.",
    AUTHORIZATION_SOURCE_IP_MISMATCH = "AuthorizationSourceIPMismatch" 403
        "This request is not authorized to perform this operation using this source IP.",
    BLOB_ALREADY_EXISTS = "BlobAlreadyExists" 409
        "The specified blob already exists.",
    BLOB_ARCHIVED = "BlobArchived" 409
        "This operation is not permitted on an archived blob.",
    BLOB_BEING_REHYDRATED = "BlobBeingRehydrated" 409
        "This operation is not permitted because the blob is being rehydrated.",
    BLOB_IS_SEALED = "BlobIsSealed" 409
        "The blob is sealed and its contents cannot be modified.",
    BLOB_NOT_FOUND = "BlobNotFound" 404
        "The specified blob does not exist.",
    BLOCK_COUNT_EXCEEDS_LIMIT = "BlockCountExceedsLimit" 409
        "The committed block count cannot exceed the maximum limit of 50,000 blocks.",
    BLOCK_LIST_TOO_LONG = "BlockListTooLong" 400
        "The block list may not contain more than 50,000 blocks.",
    BOTH_CRC64_AND_MD5_HEADER_PRESENT = "BothCrc64AndMd5HeaderPresent" 400
        "Both x-ms-content-crc64 header and Content-MD5 header are present.",
    BOTH_CRC64_AND_MD5_RANGE_HEADER_PRESENT = "BothCrc64AndMd5RangeHeaderPresent" 400
        "Both x-ms-range-get-content-crc64 header and x-ms-range-get-content-md5 header are present.",
    CANNOT_VERIFY_COPY_SOURCE = "CannotVerifyCopySource" 404
        "The specified blob does not exist.",
    COMMANDS_IN_BATCH_ACT_ON_DIFFERENT_PARTITIONS = "CommandsInBatchActOnDifferentPartitions" 400
        "All commands in a batch must operate on same entity group.",
    CONDITION_NOT_MET = "ConditionNotMet" 412
        "The condition specified using HTTP conditional header(s) is not met.",
    CONTAINER_ALREADY_EXISTS = "ContainerAlreadyExists" 409
        "The specified container already exists.",
    CONTAINER_BEING_DELETED = "ContainerBeingDeleted" 409
        "The specified container is being deleted. Try operation later.",
    CONTAINER_NOT_FOUND = "ContainerNotFound" 404
        "The specified container does not exist.",
    COPY_ACROSS_ACCOUNTS_NOT_SUPPORTED = "CopyAcrossAccountsNotSupported" 400
        "The copy source account and destination account must be the same.",
    CORS_PREFLIGHT_FAILURE = "CorsPreflightFailure" 403
        "CORS not enabled or no matching rule found for this request.",
    CRC64_MISMATCH = "Crc64Mismatch" 400
        "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server.",
    DUPLICATE_PROPERTIES_SPECIFIED = "DuplicatePropertiesSpecified" 400
        "A property is specified more than one time.",
    DUPLICATE_TAG_NAMES = "DuplicateTagNames" 400
        "The tags specified contain duplicate names.",
    EMPTY_METADATA_KEY = "EmptyMetadataKey" 400
        "The key for one of the metadata key-value pairs is empty.",
    EMPTY_TAG_NAME = "EmptyTagName" 400
        "The name of one of the tag key-value pairs is empty.",
    ENTITY_ALREADY_EXISTS = "EntityAlreadyExists" 409
        "The specified entity already exists.",
    ENTITY_NOT_FOUND = "EntityNotFound" 404
        "The specified entity does not exist.",
    ENTITY_TOO_LARGE = "EntityTooLarge" 400
        "The entity is larger than the maximum allowed size (1MB).",
    EXCEEDS_MAX_BATCH_REQUEST_COUNT = "ExceedsMaxBatchRequestCount" 400
        "The batch operation exceeds maximum number of allowed subrequests.",
    FEATURE_NOT_SUPPORTED_BY_EMULATOR = "FeatureNotSupportedByEmulator" 400
        "This server does not have the feature.",
    HOST_INFORMATION_NOT_PRESENT = "HostInformationNotPresent" 400
        "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line.",
    INFINITE_LEASE_DURATION_REQUIRED = "InfiniteLeaseDurationRequired" 412
        "The lease ID matched, but the specified lease must be an infinite-duration lease.",
    INSUFFICIENT_ACCOUNT_PERMISSIONS = "InsufficientAccountPermissions" 403
        "The account being accessed does not have sufficient permissions to execute this operation.",
    INSUFFICIENT_STORAGE = "InsufficientStorage" 507,
    INTERNAL_ERROR = "InternalError" 500,
    INVALID_AUTHENTICATION_INFO = "InvalidAuthenticationInfo" 400
        "Authentication information is not given in the correct format. Check the value of Authorization header.",
    INVALID_BLOB_OR_BLOCK = "InvalidBlobOrBlock" 400
        "The specified blob or block content is invalid.",
    INVALID_BLOB_TYPE = "InvalidBlobType" 409
        "The blob type is invalid for this operation.",
    INVALID_BLOCK_ID = "InvalidBlockId" 400
        "The specified block ID is invalid. The block ID must be Base64-encoded.",
    INVALID_BLOCK_LIST = "InvalidBlockList" 400
        "The specified block list is invalid.",
    INVALID_DUPLICATE_ROW = "InvalidDuplicateRow" 400
        "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
    INVALID_HEADER_VALUE = "InvalidHeaderValue" 400
        "The value for one of the HTTP headers is not in the correct format.",
    INVALID_HTTP_VERB = "InvalidHttpVerb" 400
        "The HTTP verb specified was not recognized by the server.",
    INVALID_INPUT = "InvalidInput" 400
        "One of the request inputs is not valid.",
    INVALID_MARKER = "InvalidMarker" 400
        "The specified marker is invalid.",
    INVALID_MD5 = "InvalidMd5" 400
        "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded.",
    INVALID_METADATA = "InvalidMetadata" 400
        "The metadata specified is invalid. It has characters that are not permitted.",
    INVALID_QUERY_PARAMETER_VALUE = "InvalidQueryParameterValue" 400
        "Value for one of the query parameters specified in the request URI is invalid.",
    INVALID_RANGE = "InvalidRange" 416
        "The range specified is invalid for the current size of the resource.",
    // The service misspells it.
    INVALID_RESOURCE_NAME = "InvalidResourceName" 400
        "The specifed resource name contains invalid characters.",
    INVALID_TAGS = "InvalidTags" 400
        "The tags specified are invalid. It contains characters that are not permitted.",
    INVALID_URI = "InvalidUri" 400
        "The requested URI does not represent any resource on the server.",
    INVALID_VALUE_TYPE = "InvalidValueType" 400
        "The value specified is invalid.",
    INVALID_XML_DOCUMENT = "InvalidXmlDocument" 400
        "XML specified is not syntactically valid.",
    INVALID_XML_NODE_VALUE = "InvalidXmlNodeValue" 400
        "The value for one of the XML nodes is not in the correct format.",
    JSON_FORMAT_NOT_SUPPORTED = "JsonFormatNotSupported" 415
        "JSON format is not supported.",
    KEY_VALUE_TOO_LARGE = "KeyValueTooLarge" 400
        "The key value exceeds the maximum allowed size (1KB).",
    LEASE_ALREADY_PRESENT = "LeaseAlreadyPresent" 409
        "There is already a lease present.",
    LEASE_ID_MISMATCH_WITH_BLOB_OPERATION = "LeaseIdMismatchWithBlobOperation" 412
        "The lease ID specified did not match the lease ID for the blob.",
    LEASE_ID_MISMATCH_WITH_CONTAINER_OPERATION = "LeaseIdMismatchWithContainerOperation" 412
        "The lease ID specified did not match the lease ID for the container.",
    LEASE_ID_MISMATCH_WITH_LEASE_OPERATION = "LeaseIdMismatchWithLeaseOperation" 409
        "The lease ID specified did not match the lease ID for the blob.",
    LEASE_ID_MISSING = "LeaseIdMissing" 412
        "There is currently a lease on the blob and no lease ID was specified in the request.",
    LEASE_IS_BREAKING_AND_CANNOT_BE_ACQUIRED = "LeaseIsBreakingAndCannotBeAcquired" 409
        "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.",
    LEASE_IS_BREAKING_AND_CANNOT_BE_CHANGED = "LeaseIsBreakingAndCannotBeChanged" 409
        "The lease ID matched, but the lease is currently in breaking state and cannot be changed.",
    LEASE_IS_BROKEN_AND_CANNOT_BE_RENEWED = "LeaseIsBrokenAndCannotBeRenewed" 409
        "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.",
    LEASE_LOST = "LeaseLost" 412
        "A lease ID was specified, but the lease for the blob has expired.",
    LEASE_NOT_PRESENT_WITH_BLOB_OPERATION = "LeaseNotPresentWithBlobOperation" 412
        "There is currently no lease on the blob.",
    LEASE_NOT_PRESENT_WITH_CONTAINER_OPERATION = "LeaseNotPresentWithContainerOperation" 412
        "There is currently no lease on the container.",
    LEASE_NOT_PRESENT_WITH_LEASE_OPERATION = "LeaseNotPresentWithLeaseOperation" 409
        "There is currently no lease on the blob.",
    MAX_BLOB_SIZE_CONDITION_NOT_MET = "MaxBlobSizeConditionNotMet" 412
        "The max blob size condition specified was not met.",
    MD5_MISMATCH = "Md5Mismatch" 400
        "The MD5 value specified in the request did not match with the MD5 value calculated by the server.",
    MEDIA_TYPE_NOT_SUPPORTED = "MediaTypeNotSupported" 415
        "None of the provided media types are supported",
    MESSAGE_NOT_FOUND = "MessageNotFound" 404
        "The specified message does not exist.",
    MESSAGE_TOO_LARGE = "MessageTooLarge" 400
        "The message exceeds the maximum allowed size.",
    METADATA_TOO_LARGE = "MetadataTooLarge" 400
        "The metadata specified exceeds the maximum permissible limit (8KB).",
    METHOD_NOT_ALLOWED = "MethodNotAllowed" 405
        "The requested method is not allowed on the specified resource.",
    MISSING_CONTENT_LENGTH_HEADER = "MissingContentLengthHeader" 411
        "Content-Length HTTP header is missing.",
    MISSING_REQUIRED_HEADER = "MissingRequiredHeader" 400
        "An HTTP header that's mandatory for this request is not specified.",
    MISSING_REQUIRED_QUERY_PARAMETER = "MissingRequiredQueryParameter" 400
        "A query parameter that's mandatory for this request is not specified.",
    MISSING_REQUIRED_XML_NODE = "MissingRequiredXmlNode" 400
        "The specified XML node is missing.",
    MULTIPLE_CONDITION_HEADERS_NOT_SUPPORTED = "MultipleConditionHeadersNotSupported" 400
        "Multiple condition headers are not supported.",
    NOT_IMPLEMENTED = "NotImplemented" 501
        "The requested operation is not implemented on the specified resource.",
    NO_AUTHENTICATION_INFORMATION = "NoAuthenticationInformation" 401
        "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
    NO_PENDING_COPY_OPERATION = "NoPendingCopyOperation" 409
        "There is currently no pending copy operation.",
    OPERATION_TIMED_OUT = "OperationTimedOut" 500
        "Operation could not be completed within the specified time.",
    OUT_OF_RANGE_INPUT = "OutOfRangeInput" 400
        "One of the request inputs is out of range.",
    OUT_OF_RANGE_QUERY_PARAMETER_VALUE = "OutOfRangeQueryParameterValue" 400
        "One of the query parameters specified in the request URI is outside the permissible range.",
    POP_RECEIPT_MISMATCH = "PopReceiptMismatch" 400
        "The specified pop receipt did not match the pop receipt for a dequeued message.",
    PROPERTIES_NEED_VALUE = "PropertiesNeedValue" 400
        "The values are not specified for all properties in the entity.",
    PROPERTY_NAME_INVALID = "PropertyNameInvalid" 400
        "The property name is invalid.",
    PROPERTY_NAME_TOO_LONG = "PropertyNameTooLong" 400
        "The property name exceeds the maximum allowed length (255).",
    PROPERTY_VALUE_TOO_LARGE = "PropertyValueTooLarge" 400
        "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.",
    QUEUE_ALREADY_EXISTS = "QueueAlreadyExists" 409
        "The specified queue already exists.",
    QUEUE_BEING_DELETED = "QueueBeingDeleted" 409
        "The specified queue is being deleted.",
    QUEUE_DISABLED = "QueueDisabled" 409
        "The specified queue has been disabled by the administrator.",
    QUEUE_NOT_EMPTY = "QueueNotEmpty" 409
        "The specified queue is not empty.",
    QUEUE_NOT_FOUND = "QueueNotFound" 404
        "The specified queue does not exist.",
    REQUEST_BODY_TOO_LARGE = "RequestBodyTooLarge" 413
        "The request body is too large and exceeds the maximum permissible limit.",
    RESOURCE_NOT_FOUND = "ResourceNotFound" 404
        "The specified resource does not exist.",
    SERVER_BUSY = "ServerBusy" 503
        "The server is busy.",
    SNAPSHOTS_PRESENT = "SnapshotsPresent" 409
        "This operation is not permitted because the blob has snapshots.",
    SOURCE_CONDITION_NOT_MET = "SourceConditionNotMet" 412
        "The source condition specified using HTTP conditional header(s) is not met.",
    TABLE_ALREADY_EXISTS = "TableAlreadyExists" 409
        "The table specified already exists.",
    TABLE_BEING_DELETED = "TableBeingDeleted" 409
        "The specified table is being deleted. Try operation later.",
    TABLE_NOT_FOUND = "TableNotFound" 404
        "The table specified does not exist.",
    TAGS_TOO_LARGE = "TagsTooLarge" 400
        "The tags specified exceed the maximum permissible limit.",
    TARGET_CONDITION_NOT_MET = "TargetConditionNotMet" 412
        "The target condition specified using HTTP conditional header(s) is not met.",
    TOO_MANY_PROPERTIES = "TooManyProperties" 400
        "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.",
    TOO_MANY_REQUESTS = "TooManyRequests" 429
        "The request rate is too large. Please retry after sometime.",
    UNSATISFIABLE_CONDITION = "UnsatisfiableCondition" 400
        "The request includes an unsatisfiable condition for this operation.",
    UNSUPPORTED_HEADER = "UnsupportedHeader" 400
        "One of the HTTP headers specified in the request is not supported.",
    UNSUPPORTED_HTTP_VERB = "UnsupportedHttpVerb" 405
        "The resource doesn't support specified Http Verb.",
    UNSUPPORTED_QUERY_PARAMETER = "UnsupportedQueryParameter" 400
        "One of the query parameters specified in the request URI is not supported.",
    UPDATE_CONDITION_NOT_SATISFIED = "UpdateConditionNotSatisfied" 412
        "The update condition specified in the request was not satisfied.",
    X_METHOD_INCORRECT_COUNT = "XMethodIncorrectCount" 400
        "More than one X-HTTP-Method is specified.",
    X_METHOD_INCORRECT_VALUE = "XMethodIncorrectValue" 400
        "The specified X-HTTP-Method is invalid.",
    X_METHOD_NOT_USING_POST = "XMethodNotUsingPost" 400
        "The request uses X-HTTP-Method with an HTTP verb other than POST.",
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
