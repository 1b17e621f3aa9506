//! Rejections, and the JSON in which a server sends them.

use std::borrow::Cow;
use std::fmt::Write;

use http::StatusCode;

use crate::code::ErrorCode;

/// The error for a rejected request, independent of the body's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The HTTP status.
    pub status: StatusCode,
    /// The code.
    pub code: ErrorCode,
    /// The human-readable message, without request id and time.
    pub message: Cow<'static, str>,
    /// Elements that the Queue and Blob services add to the body, such as `Reason`.
    pub details: Vec<(&'static str, String)>,
    /// The rule that rejected the request, for the server's log; empty if the code is sufficient.
    /// It never quotes the request.
    pub rule: &'static str,
}

impl Rejection {
    /// A rejection with the code's usual status and message.
    ///
    /// A code that this crate does not know gets 500 and the message of `InternalError`.
    pub fn new(code: ErrorCode) -> Self {
        let message = message(&code);
        Self::with_message(code, message)
    }

    /// A rejection with the code's usual status and a different message.
    pub fn with_message(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        let status = code.status().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, code, message: message.into(), details: Vec::new(), rule: "" }
    }

    /// Sets the rule that rejected the request, for the server's log.
    #[must_use]
    pub fn because(mut self, rule: &'static str) -> Self {
        self.rule = rule;
        self
    }

    /// Adds an element to the error body of the Queue and Blob services.
    #[must_use]
    pub fn detail(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.details.push((name, text.into()));
        self
    }
}

/// Renders OData errors in JSON. The caller has appended `\nRequestId:…\nTime:…` to the message.
pub fn render_json(code: &ErrorCode, message: &str) -> String {
    let mut out = String::with_capacity(message.len().saturating_add(96));
    out.push_str(r#"{"odata.error":{"code":""#);
    push_json(code.as_str(), &mut out);
    out.push_str(r#"","message":{"lang":"en-US","value":""#);
    push_json(message, &mut out);
    out.push_str(r#""}}}"#);
    out
}

/// Appends text with the service's JSON escapes: non-ASCII characters as UTF-16 units in lower-case
/// hexadecimal.
fn push_json(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='\u{7f}' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}

/// The message of a code: the service's own if it is always the same, otherwise the
/// documentation's.
fn message(code: &ErrorCode) -> &'static str {
    match code.as_str() {
        "AccountIsDisabled" => "The specified account is disabled.",
        "AtomFormatNotSupported" => "Atom format is not supported.",
        "AuthenticationFailed" => {
            "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature."
        }
        "AuthorizationFailure" => "This request is not authorized to perform this operation.",
        "AuthorizationPermissionMismatch" => {
            "This request is not authorized to perform this operation using this permission."
        }
        "AuthorizationProtocolMismatch" => {
            "This request is not authorized to perform this operation using this protocol."
        }
        "AuthorizationResourceTypeMismatch" => {
            "This request is not authorized to perform this operation using this resource type."
        }
        "AuthorizationServiceMismatch" => {
            "This request is not authorized to perform this operation using this service."
        }
        "AuthorizationSourceIPMismatch" => {
            "This request is not authorized to perform this operation using this source IP."
        }
        "CommandsInBatchActOnDifferentPartitions" => {
            "All commands in a batch must operate on same entity group."
        }
        "ConditionNotMet" => "The condition specified using HTTP conditional header(s) is not met.",
        "CorsPreflightFailure" => "CORS not enabled or no matching rule found for this request.",
        "DuplicatePropertiesSpecified" => "A property is specified more than one time.",
        "EntityAlreadyExists" => "The specified entity already exists.",
        "EntityNotFound" => "The specified entity does not exist.",
        "EntityTooLarge" => "The entity is larger than the maximum allowed size (1MB).",
        "HostInformationNotPresent" => {
            "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line."
        }
        "InsufficientAccountPermissions" => {
            "The account being accessed does not have sufficient permissions to execute this operation."
        }
        "InvalidAuthenticationInfo" => {
            "Authentication information is not given in the correct format. Check the value of Authorization header."
        }
        "InvalidDuplicateRow" => {
            "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request."
        }
        "InvalidHeaderValue" => {
            "The value for one of the HTTP headers is not in the correct format."
        }
        "InvalidInput" => "One of the request inputs is not valid.",
        "InvalidQueryParameterValue" => {
            "Value for one of the query parameters specified in the request URI is invalid."
        }
        // The service misspells it.
        "InvalidResourceName" => "The specifed resource name contains invalid characters.",
        "InvalidUri" => "The requested URI does not represent any resource on the server.",
        "InvalidValueType" => "The value specified is invalid.",
        "InvalidXmlDocument" => "XML specified is not syntactically valid.",
        "JsonFormatNotSupported" => "JSON format is not supported.",
        "KeyValueTooLarge" => "The key value exceeds the maximum allowed size (1KB).",
        "Md5Mismatch" => {
            "The MD5 value specified in the request did not match with the MD5 value calculated by the server."
        }
        "MediaTypeNotSupported" => "None of the provided media types are supported",
        "MethodNotAllowed" => "The requested method is not allowed on the specified resource.",
        "MissingContentLengthHeader" => "Content-Length HTTP header is missing.",
        "NotImplemented" => "The requested operation is not implemented on the specified resource.",
        "NoAuthenticationInformation" => {
            "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."
        }
        "OperationTimedOut" => "Operation could not be completed within the specified time.",
        "OutOfRangeInput" => "One of the request inputs is out of range.",
        "OutOfRangeQueryParameterValue" => {
            "One of the query parameters specified in the request URI is outside the permissible range."
        }
        "PropertiesNeedValue" => "The values are not specified for all properties in the entity.",
        "PropertyNameInvalid" => "The property name is invalid.",
        "PropertyNameTooLong" => "The property name exceeds the maximum allowed length (255).",
        "PropertyValueTooLarge" => {
            "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less."
        }
        "RequestBodyTooLarge" => {
            "The request body is too large and exceeds the maximum permissible limit."
        }
        "ResourceNotFound" => "The specified resource does not exist.",
        "ServerBusy" => "The server is busy.",
        "TableAlreadyExists" => "The table specified already exists.",
        "TableBeingDeleted" => "The specified table is being deleted. Try operation later.",
        "TableNotFound" => "The table specified does not exist.",
        "TooManyProperties" => {
            "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties."
        }
        "TooManyRequests" => "The request rate is too large. Please retry after sometime.",
        "UpdateConditionNotSatisfied" => {
            "The update condition specified in the request was not satisfied."
        }
        "XMethodIncorrectCount" => "More than one X-HTTP-Method is specified.",
        "XMethodIncorrectValue" => "The specified X-HTTP-Method is invalid.",
        "XMethodNotUsingPost" => {
            "The request uses X-HTTP-Method with an HTTP verb other than POST."
        }
        "EmptyMetadataKey" => "The key for one of the metadata key-value pairs is empty.",
        "InvalidMetadata" => {
            "The metadata specified is invalid. It has characters that are not permitted."
        }
        "MetadataTooLarge" => "The metadata specified exceeds the maximum permissible limit (8KB).",
        "InvalidMarker" => "The specified marker is invalid.",
        "InvalidXmlNodeValue" => "The value for one of the XML nodes is not in the correct format.",
        "MessageNotFound" => "The specified message does not exist.",
        "MessageTooLarge" => "The message exceeds the maximum allowed size.",
        "MissingRequiredHeader" => {
            "An HTTP header that's mandatory for this request is not specified."
        }
        "MissingRequiredQueryParameter" => {
            "A query parameter that's mandatory for this request is not specified."
        }
        "MissingRequiredXmlNode" => "The specified XML node is missing.",
        "PopReceiptMismatch" => {
            "The specified pop receipt did not match the pop receipt for a dequeued message."
        }
        "QueueAlreadyExists" => "The specified queue already exists.",
        "QueueBeingDeleted" => "The specified queue is being deleted.",
        "QueueDisabled" => "The specified queue has been disabled by the administrator.",
        "QueueNotEmpty" => "The specified queue is not empty.",
        "QueueNotFound" => "The specified queue does not exist.",
        "UnsupportedHeader" => "One of the HTTP headers specified in the request is not supported.",
        "UnsupportedHttpVerb" => "The resource doesn't support specified Http Verb.",
        "UnsupportedQueryParameter" => {
            "One of the query parameters specified in the request URI is not supported."
        }
        "InvalidHttpVerb" => "The HTTP verb specified was not recognized by the server.",
        "AccessTierNotSupportedForBlobType" => {
            "The access tier is not supported for this blob type."
        }
        "AllBatchSubRequestsShouldBeSameApi" => "All batch subrequests should be the same api.",
        "AppendPositionConditionNotMet" => "The append position condition specified was not met.",
        "BlobAlreadyExists" => "The specified blob already exists.",
        "BlobArchived" => "This operation is not permitted on an archived blob.",
        "BlobBeingRehydrated" => {
            "This operation is not permitted because the blob is being rehydrated."
        }
        "BlobIsSealed" => "The blob is sealed and its contents cannot be modified.",
        "BlobNotFound" | "CannotVerifyCopySource" => "The specified blob does not exist.",
        "BlockCountExceedsLimit" => {
            "The committed block count cannot exceed the maximum limit of 50,000 blocks."
        }
        "BlockListTooLong" => "The block list may not contain more than 50,000 blocks.",
        "BothCrc64AndMd5HeaderPresent" => {
            "Both x-ms-content-crc64 header and Content-MD5 header are present."
        }
        "BothCrc64AndMd5RangeHeaderPresent" => {
            "Both x-ms-range-get-content-crc64 header and x-ms-range-get-content-md5 header are present."
        }
        "ContainerAlreadyExists" => "The specified container already exists.",
        "ContainerBeingDeleted" => "The specified container is being deleted. Try operation later.",
        "ContainerNotFound" => "The specified container does not exist.",
        "CopyAcrossAccountsNotSupported" => {
            "The copy source account and destination account must be the same."
        }
        "Crc64Mismatch" => {
            "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server."
        }
        "InfiniteLeaseDurationRequired" => {
            "The lease ID matched, but the specified lease must be an infinite-duration lease."
        }
        "DuplicateTagNames" => "The tags specified contain duplicate names.",
        "EmptyTagName" => "The name of one of the tag key-value pairs is empty.",
        "ExceedsMaxBatchRequestCount" => {
            "The batch operation exceeds maximum number of allowed subrequests."
        }
        "FeatureNotSupportedByEmulator" => "This server does not have the feature.",
        "InvalidTags" => {
            "The tags specified are invalid. It contains characters that are not permitted."
        }
        "TagsTooLarge" => "The tags specified exceed the maximum permissible limit.",
        "InvalidBlobOrBlock" => "The specified blob or block content is invalid.",
        "InvalidBlobType" => "The blob type is invalid for this operation.",
        "InvalidBlockId" => {
            "The specified block ID is invalid. The block ID must be Base64-encoded."
        }
        "InvalidBlockList" => "The specified block list is invalid.",
        "InvalidMd5" => {
            "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded."
        }
        "InvalidRange" => "The range specified is invalid for the current size of the resource.",
        "LeaseAlreadyPresent" => "There is already a lease present.",
        "LeaseIdMismatchWithBlobOperation" | "LeaseIdMismatchWithLeaseOperation" => {
            "The lease ID specified did not match the lease ID for the blob."
        }
        "LeaseIdMismatchWithContainerOperation" => {
            "The lease ID specified did not match the lease ID for the container."
        }
        "LeaseIdMissing" => {
            "There is currently a lease on the blob and no lease ID was specified in the request."
        }
        "LeaseIsBreakingAndCannotBeAcquired" => {
            "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken."
        }
        "LeaseIsBreakingAndCannotBeChanged" => {
            "The lease ID matched, but the lease is currently in breaking state and cannot be changed."
        }
        "LeaseIsBrokenAndCannotBeRenewed" => {
            "The lease ID matched, but the lease has been broken explicitly and cannot be renewed."
        }
        "LeaseLost" => "A lease ID was specified, but the lease for the blob has expired.",
        "LeaseNotPresentWithBlobOperation" | "LeaseNotPresentWithLeaseOperation" => {
            "There is currently no lease on the blob."
        }
        "LeaseNotPresentWithContainerOperation" => "There is currently no lease on the container.",
        "MaxBlobSizeConditionNotMet" => "The max blob size condition specified was not met.",
        "MultipleConditionHeadersNotSupported" => "Multiple condition headers are not supported.",
        "NoPendingCopyOperation" => "There is currently no pending copy operation.",
        "SnapshotsPresent" => "This operation is not permitted because the blob has snapshots.",
        "SourceConditionNotMet" => {
            "The source condition specified using HTTP conditional header(s) is not met."
        }
        "TargetConditionNotMet" => {
            "The target condition specified using HTTP conditional header(s) is not met."
        }
        "UnsatisfiableCondition" => {
            "The request includes an unsatisfiable condition for this operation."
        }
        _ => "The server encountered an internal error. Please retry the request.",
    }
}

#[cfg(test)]
mod tests;
