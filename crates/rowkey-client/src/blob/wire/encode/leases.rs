//! Leases on blobs and containers.

use http::{HeaderValue, Method};
use rowkey_wire::blob::LeaseAction;
use rowkey_wire::blob::headers as names;

use super::parts::{BlobPath, Conditions, bare, blob, container, set};
use crate::transport::Request;

/// The target of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// A blob.
    Blob(BlobPath<'a>),
    /// A container: the lease protects only against its deletion.
    Container(&'a str),
}

/// [Lease Blob](https://learn.microsoft.com/rest/api/storageservices/lease-blob) and
/// [Lease Container](https://learn.microsoft.com/rest/api/storageservices/lease-container). The
/// lease in the conditions is ignored.
pub(crate) fn lease(target: Target<'_>, action: LeaseAction, conditions: &Conditions) -> Request {
    let target = match target {
        Target::Blob(path) => blob(path, "?comp=lease"),
        Target::Container(name) => container(name, "&comp=lease"),
    };
    let mut request = bare(Method::PUT, target);
    let headers = &mut request.headers;
    conditions.write(headers);
    headers.remove(names::LEASE_ID);
    let (action, id, proposed) = match action {
        LeaseAction::Acquire { seconds, proposed } => {
            let seconds = seconds.map_or(-1, i64::from);
            headers.insert(names::LEASE_DURATION, HeaderValue::from(seconds));
            ("acquire", None, proposed)
        }
        LeaseAction::Break { period } => {
            let period = period.map(|period| period.to_string());
            set(headers, names::LEASE_BREAK_PERIOD, period);
            ("break", None, None)
        }
        LeaseAction::Change { lease, proposed } => ("change", Some(lease), Some(proposed)),
        LeaseAction::Release(lease) => ("release", Some(lease), None),
        LeaseAction::Renew(lease) => ("renew", Some(lease), None),
    };
    headers.insert(names::LEASE_ACTION, HeaderValue::from_static(action));
    set(headers, names::LEASE_ID, id.map(|id| id.to_string()));
    set(headers, names::PROPOSED_LEASE_ID, proposed.map(|id| id.to_string()));
    request
}
