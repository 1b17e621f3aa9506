//! A request before it is dated and signed.

use bytes::Bytes;
use http::{HeaderMap, Method};
use rowkey_wire::auth::Service;

/// A request without the host, the date, the request id and the signature, which are new on every
/// attempt.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The service it is for. Each has its own endpoint, version and signature rules.
    pub(crate) service: Service,
    /// The method.
    pub(crate) method: Method,
    /// Path and query below the account's endpoint, encoded, beginning with `/`.
    pub(crate) target: String,
    /// Headers that describe the request, but none that authorize it.
    pub(crate) headers: HeaderMap,
    /// The body, empty for none.
    pub(crate) body: Bytes,
}
