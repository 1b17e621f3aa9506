//! Service error codes: an open set, because the service invents new ones.
//!
//! Source: [Table service error codes](https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes)
//! and [common ones](https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes).

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;

/// A service error code such as `EntityAlreadyExists`.
///
/// Compare it with the constants: `error.code() == Some(&ErrorCode::ENTITY_ALREADY_EXISTS)`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ErrorCode(Cow<'static, str>);

impl ErrorCode {
    /// The code with this text, known or not.
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
        /// The codes that this crate names. The constant's name is the code's.
        #[expect(missing_docs, reason = "the name is the code")]
        impl ErrorCode {
            $(pub const $name: Self = Self(Cow::Borrowed($text));)*

            /// The HTTP status that goes with a known code.
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
    ACCOUNT_IS_DISABLED = "AccountIsDisabled" 403,
    ATOM_FORMAT_NOT_SUPPORTED = "AtomFormatNotSupported" 415,
    AUTHENTICATION_FAILED = "AuthenticationFailed" 403,
    AUTHORIZATION_FAILURE = "AuthorizationFailure" 403,
    AUTHORIZATION_PERMISSION_MISMATCH = "AuthorizationPermissionMismatch" 403,
    AUTHORIZATION_PROTOCOL_MISMATCH = "AuthorizationProtocolMismatch" 403,
    AUTHORIZATION_RESOURCE_TYPE_MISMATCH = "AuthorizationResourceTypeMismatch" 403,
    AUTHORIZATION_SERVICE_MISMATCH = "AuthorizationServiceMismatch" 403,
    AUTHORIZATION_SOURCE_IP_MISMATCH = "AuthorizationSourceIPMismatch" 403,
    COMMANDS_IN_BATCH_ACT_ON_DIFFERENT_PARTITIONS = "CommandsInBatchActOnDifferentPartitions" 400,
    CONDITION_NOT_MET = "ConditionNotMet" 412,
    CORS_PREFLIGHT_FAILURE = "CorsPreflightFailure" 403,
    DUPLICATE_PROPERTIES_SPECIFIED = "DuplicatePropertiesSpecified" 400,
    ENTITY_ALREADY_EXISTS = "EntityAlreadyExists" 409,
    ENTITY_NOT_FOUND = "EntityNotFound" 404,
    ENTITY_TOO_LARGE = "EntityTooLarge" 400,
    HOST_INFORMATION_NOT_PRESENT = "HostInformationNotPresent" 400,
    INSUFFICIENT_ACCOUNT_PERMISSIONS = "InsufficientAccountPermissions" 403,
    INTERNAL_ERROR = "InternalError" 500,
    INVALID_AUTHENTICATION_INFO = "InvalidAuthenticationInfo" 400,
    INVALID_DUPLICATE_ROW = "InvalidDuplicateRow" 400,
    INVALID_HEADER_VALUE = "InvalidHeaderValue" 400,
    INVALID_INPUT = "InvalidInput" 400,
    INVALID_QUERY_PARAMETER_VALUE = "InvalidQueryParameterValue" 400,
    INVALID_RESOURCE_NAME = "InvalidResourceName" 400,
    INVALID_URI = "InvalidUri" 400,
    INVALID_VALUE_TYPE = "InvalidValueType" 400,
    INVALID_XML_DOCUMENT = "InvalidXmlDocument" 400,
    JSON_FORMAT_NOT_SUPPORTED = "JsonFormatNotSupported" 415,
    KEY_VALUE_TOO_LARGE = "KeyValueTooLarge" 400,
    MD5_MISMATCH = "Md5Mismatch" 400,
    MEDIA_TYPE_NOT_SUPPORTED = "MediaTypeNotSupported" 415,
    METHOD_NOT_ALLOWED = "MethodNotAllowed" 405,
    MISSING_CONTENT_LENGTH_HEADER = "MissingContentLengthHeader" 411,
    NOT_IMPLEMENTED = "NotImplemented" 501,
    NO_AUTHENTICATION_INFORMATION = "NoAuthenticationInformation" 401,
    OPERATION_TIMED_OUT = "OperationTimedOut" 500,
    OUT_OF_RANGE_INPUT = "OutOfRangeInput" 400,
    OUT_OF_RANGE_QUERY_PARAMETER_VALUE = "OutOfRangeQueryParameterValue" 400,
    PROPERTIES_NEED_VALUE = "PropertiesNeedValue" 400,
    PROPERTY_NAME_INVALID = "PropertyNameInvalid" 400,
    PROPERTY_NAME_TOO_LONG = "PropertyNameTooLong" 400,
    PROPERTY_VALUE_TOO_LARGE = "PropertyValueTooLarge" 400,
    REQUEST_BODY_TOO_LARGE = "RequestBodyTooLarge" 413,
    RESOURCE_NOT_FOUND = "ResourceNotFound" 404,
    SERVER_BUSY = "ServerBusy" 503,
    TABLE_ALREADY_EXISTS = "TableAlreadyExists" 409,
    TABLE_BEING_DELETED = "TableBeingDeleted" 409,
    TABLE_NOT_FOUND = "TableNotFound" 404,
    TOO_MANY_PROPERTIES = "TooManyProperties" 400,
    TOO_MANY_REQUESTS = "TooManyRequests" 429,
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
