//! The HTTP status with which a web service answers its own client after an [`Error`].

use rowkey_wire::code::ErrorCode;

use super::{Error, ErrorDetails, ErrorKind, Outcome};

impl Error {
    /// The HTTP status with which a web service should answer its own client after this error.
    ///
    /// It is not the status of the storage service, which is
    /// [`ErrorDetails::status`](super::ErrorDetails::status).
    ///
    /// | status | error |
    /// |---|---|
    /// | 304 Not Modified | [`NotModified`](ErrorKind::NotModified) |
    /// | 400 Bad Request | [`Invalid`](ErrorKind::Invalid) |
    /// | 404 Not Found | [`NotFound`](ErrorKind::NotFound) of an entity, a message or a blob |
    /// | 409 Conflict | [`AlreadyExists`](ErrorKind::AlreadyExists), [`Leased`](ErrorKind::Leased) |
    /// | 412 Precondition Failed | [`Conflict`](ErrorKind::Conflict) |
    /// | 413 Content Too Large | [`TooLarge`](ErrorKind::TooLarge) |
    /// | 500 Internal Server Error | `NotFound` of a table, a queue or a container, because then no id of the client is wrong; [`Auth`](ErrorKind::Auth), [`Decode`](ErrorKind::Decode), [`Unexpected`](ErrorKind::Unexpected); an `Invalid` request that the service or a proxy refuses for its address, method or headers, which the settings of the program make |
    /// | 503 Service Unavailable | an error that [`is_retryable`](Self::is_retryable). Send [`ErrorDetails::retry_after`](super::ErrorDetails::retry_after) as `Retry-After` |
    /// | 504 Gateway Timeout | any error of a write with [`Outcome::Unknown`]: the change may have been made, so the client should read before it repeats the request |
    ///
    /// ```
    /// use rowkey::{Error, ErrorKind};
    ///
    /// let error = Error::refused(ErrorKind::TooLarge, "the list has 9 rows; 8 are allowed");
    /// assert_eq!(error.http_status(), 413);
    /// // With axum and other frameworks on the crate `http`: `StatusCode::from_u16(error.http_status())`.
    /// ```
    pub fn http_status(&self) -> u16 {
        if self.0.changes && self.outcome() == Outcome::Unknown {
            return 504;
        }
        match self.kind() {
            ErrorKind::NotModified => 304,
            ErrorKind::Invalid if !self.is_of_program() => 400,
            ErrorKind::NotFound if !self.is_of_resource() => 404,
            ErrorKind::AlreadyExists | ErrorKind::Leased => 409,
            ErrorKind::Conflict => 412,
            ErrorKind::TooLarge => 413,
            _ if self.is_retryable() => 503,
            _ => 500,
        }
    }

    /// Whether a table, a queue or a container is missing, which the program should have created.
    fn is_of_resource(&self) -> bool {
        const MISSING: [ErrorCode; 3] = [
            ErrorCode::TABLE_NOT_FOUND,
            ErrorCode::QUEUE_NOT_FOUND,
            ErrorCode::CONTAINER_NOT_FOUND,
        ];
        self.code().is_some_and(|code| MISSING.contains(code))
    }

    /// Whether a request was refused for what the program or its settings make, and not its data.
    fn is_of_program(&self) -> bool {
        let is_of_settings = |code: &ErrorCode| {
            matches!(
                code.as_str(),
                "AccountRequiresHttps"
                    | "FeatureNotSupportedByEmulator"
                    | "InvalidHeaderValue"
                    | "InvalidHttpVerb"
                    | "InvalidResourceName"
                    | "InvalidUri"
                    | "MissingRequiredHeader"
                    | "UnsupportedHeader"
                    | "UnsupportedQueryParameter"
            )
        };
        let ErrorDetails { status, .. } = self.details();
        // Without an error code of the service, the response comes from another server, such as a proxy.
        self.code().map_or(status.is_some(), is_of_settings) || matches!(status, Some(405 | 501))
    }
}
