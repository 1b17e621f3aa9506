//! Addresses without what must not be shown: keys and filter literals.
//!
//! (Shared access signatures are not in a request's target: they are added when it is sent.)

use std::borrow::Cow;

/// `target` as traces and messages may show it: without what stands in parentheses and without
/// the values of the query.
pub(crate) fn target(target: &str) -> Cow<'_, str> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    // Table names have no parentheses. Keys may, so everything after the first one goes.
    let shown = match path.find(['(', '%']) {
        Some(at) => Cow::Owned(format!("{}(..)", &path[..at])),
        None => Cow::Borrowed(path),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_left_out() {
        for (whole, shown) in [
            ("/orders(PartitionKey='emea',RowKey='a(b)')", "/orders(..)"),
            ("/orders%28PartitionKey=%27emea%27%29", "/orders(..)"),
            ("/Tables('orders')", "/Tables(..)"),
            ("/orders()?$filter=A%20eq%20'x'&$top=5", "/orders(..)?$filter=..&$top=.."),
            ("/orders?NextPartitionKey=1!8!emea", "/orders?NextPartitionKey=.."),
            ("/$batch", "/$batch"),
            ("/orders?x", "/orders?x=.."),
        ] {
            assert_eq!(target(whole), shown);
        }
    }
}
