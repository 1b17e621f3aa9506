//! The header `If-Match` (RFC 9110, section 13.1.1): `*`, or a list of entity tags.

use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};
use rowkey_store::Version;

use crate::problem::Problem;

/// What a client demands of the stored version.
pub(crate) enum IfMatch {
    /// `*`: any version, but the entity must exist.
    Any,
    /// One of these versions.
    OneOf(Vec<Version>),
}

/// Each version costs a read, so a client may name this many.
const MAX_TAGS: usize = 8;

impl IfMatch {
    /// A change without the header is refused with 428, and an invalid header with 400.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut tags = Vec::new();
        for header in headers.get_all(IF_MATCH) {
            let header = header.to_str().map_err(|_| StatusCode::BAD_REQUEST)?.trim();
            if header == "*" {
                return Ok(Self::Any);
            }
            tags.extend(entity_tags(header).ok_or(StatusCode::BAD_REQUEST)?);
        }
        match tags.len() {
            0 if headers.contains_key(IF_MATCH) => Err(StatusCode::BAD_REQUEST.into()),
            0 => Err(StatusCode::PRECONDITION_REQUIRED.into()),
            1..=MAX_TAGS => Ok(Self::OneOf(tags.iter().filter_map(|tag| version(tag)).collect())),
            _ => Err(StatusCode::BAD_REQUEST.into()),
        }
    }
}

/// The opaque part of each tag, with its quotes and without `W/`. Commas separate tags, and may be in one.
fn entity_tags(mut list: &str) -> Option<Vec<&str>> {
    let mut tags = Vec::new();
    loop {
        list = list.trim_start_matches([' ', '\t', ',']);
        if list.is_empty() {
            return Some(tags);
        }
        let tag = list.strip_prefix("W/").unwrap_or(list);
        let end = tag.strip_prefix('"')?.find('"')? + 2;
        tags.push(&tag[..end]);
        list = tag[end..].trim_start();
        if !list.is_empty() && !list.starts_with(',') {
            return None;
        }
    }
}

/// The version that a tag names; `None` if it names none, so that it matches nothing. Tags of the Table service are
/// weak, those of a store's marks are strong, and a proxy that compresses may have changed that.
fn version(tag: &str) -> Option<Version> {
    if tag.starts_with("\"op-") { tag.parse().ok() } else { format!("W/{tag}").parse().ok() }
}
