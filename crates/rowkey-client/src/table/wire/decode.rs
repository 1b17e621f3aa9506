//! Decodes the headers of responses. Bodies are decoded by [`super::page`], [`crate::transport::batch`] and
//! [`rowkey_wire::xml`].

use http::header::ETAG;
use http::{HeaderMap, HeaderName};
use rowkey_wire::etag::ETag;
use rowkey_wire::headers::{NEXT_PARTITION_KEY, NEXT_ROW_KEY, NEXT_TABLE_NAME};

use crate::paging::Token;

/// The continuation of the query, or `None` at its end. An empty page may have one, too.
pub(crate) fn continuation(headers: &HeaderMap) -> Option<Token> {
    let partition_key = text(headers, &NEXT_PARTITION_KEY)?;
    Some(Token { partition_key, row_key: text(headers, &NEXT_ROW_KEY) })
}

/// The continuation of the list of tables, or `None` at its end.
pub(crate) fn next_table(headers: &HeaderMap) -> Option<String> {
    text(headers, &NEXT_TABLE_NAME)
}

/// The `ETag` of the entity that was written or read.
pub(crate) fn etag(headers: &HeaderMap) -> Option<ETag> {
    etag_text(headers).map(ETag::new)
}

/// The ETag as text.
pub(crate) fn etag_text(headers: &HeaderMap) -> Option<&str> {
    headers.get(ETAG)?.to_str().ok()
}

/// A header's text; `None` if it is empty.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_may_have_no_row_key() {
        // Header of a recorded page, sdk-js.
        let mut headers = HeaderMap::new();
        assert_eq!(continuation(&headers), None);
        headers.insert(NEXT_PARTITION_KEY, HeaderValue::from_static("1!8!cGtleQ--"));
        let token = continuation(&headers).unwrap();
        assert_eq!(
            (token.partition_key.as_str(), token.row_key.as_deref()),
            ("1!8!cGtleQ--", None)
        );
        headers.insert(NEXT_ROW_KEY, HeaderValue::from_static("1!4!cms-"));
        assert_eq!(continuation(&headers).unwrap().row_key.as_deref(), Some("1!4!cms-"));
    }
}
