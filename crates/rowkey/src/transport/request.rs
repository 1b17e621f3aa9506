//! A request before it is dated and signed.

use bytes::Bytes;
use http::{HeaderMap, Method};
use rowkey_wire::auth::Service;

/// What goes over the wire, but for the host, the date, the request id and the signature: those
/// are new on every attempt.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The service it is for: each has an endpoint, a version and rules for signatures of its own.
    pub(crate) service: Service,
    /// The method.
    pub(crate) method: Method,
    /// Path and query below the account's endpoint, encoded, beginning with `/`.
    pub(crate) target: String,
    /// Headers that describe the request; none that authorise it.
    pub(crate) headers: HeaderMap,
    /// The body, empty for none.
    pub(crate) body: Bytes,
}
