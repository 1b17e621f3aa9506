//! Redacts sensitive parts of request targets: keys, filter literals, names of blobs.
//!
//! A target contains no shared access signature: the transport adds it when it sends the request.

use std::borrow::Cow;

use rowkey_wire::auth::Service;

/// Redacts a target for traces and messages: removes the text in parentheses, the path below a
/// container or a queue's messages, and the values of the query.
pub(crate) fn target(service: Service, target: &str) -> Cow<'_, str> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let shown = match service {
        // Table names have no parentheses, but keys may, so everything after the first parenthesis
        // is removed.
        Service::Table => match path.find(['(', '%']) {
            Some(at) => Cow::Owned(format!("{}(..)", &path[..at])),
            None => Cow::Borrowed(path),
        },
        Service::Blob => below(path, 1),
        Service::Queue => below(path, 2),
    };
    let Some(query) = query else { return shown };
    let mut shown = shown.into_owned();
    for (i, pair) in query.split('&').enumerate() {
        shown.push(if i == 0 { '?' } else { '&' });
        shown.push_str(pair.split_once('=').map_or(pair, |(name, _)| name));
        shown.push_str("=..");
    }
    shown.into()
}

/// The first `segments` of a path, followed by `..` if there are more.
fn below(path: &str, segments: usize) -> Cow<'_, str> {
    match path.match_indices('/').nth(segments) {
        Some((at, _)) => Cow::Owned(format!("{}/..", &path[..at])),
        None => Cow::Borrowed(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_query_values_are_redacted() {
        for (whole, shown) in [
            ("/orders(PartitionKey='emea',RowKey='a(b)')", "/orders(..)"),
            ("/orders%28PartitionKey=%27emea%27%29", "/orders(..)"),
            ("/Tables('orders')", "/Tables(..)"),
            ("/orders()?$filter=A%20eq%20'x'&$top=5", "/orders(..)?$filter=..&$top=.."),
            ("/orders?NextPartitionKey=1!8!emea", "/orders?NextPartitionKey=.."),
            ("/$batch", "/$batch"),
            ("/orders?x", "/orders?x=.."),
        ] {
            assert_eq!(target(Service::Table, whole), shown);
        }
        for (service, whole, shown) in [
            (Service::Blob, "/logs/2026/secret.log?comp=block", "/logs/..?comp=.."),
            (Service::Blob, "/logs?restype=container", "/logs?restype=.."),
            (Service::Queue, "/jobs/messages/id?popreceipt=x", "/jobs/messages/..?popreceipt=.."),
            (Service::Queue, "/jobs/messages", "/jobs/messages"),
            (Service::Queue, "/?comp=list", "/?comp=.."),
        ] {
            assert_eq!(target(service, whole), shown);
        }
    }
}
