//! Request targets without sensitive parts: keys, filter literals, names of blobs.
//!
//! (Shared access signatures are not in a request's target: they are added when it is sent.)

use std::borrow::Cow;

use rowkey_wire::auth::Service;

/// `target` as traces and messages may show it: without the text in parentheses, without the path
/// below a container or a queue's messages, and without the values of the query.
pub(crate) fn target(service: Service, target: &str) -> Cow<'_, str> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let shown = match service {
        // Table names have no parentheses. Keys may have some, so everything after the first one is
        // removed.
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

/// The first `segments` of a path, with a mark if there are more.
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
