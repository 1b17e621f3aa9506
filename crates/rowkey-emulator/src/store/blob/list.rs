//! Pages of blobs: by prefix, with names cut at a delimiter, and snapshots before their blob.

use std::ops::Bound;

use rowkey_wire::edm::DateTime;

use super::container::Container;
use super::entry::{Blob, Entry};
use crate::op::blob::ListBlobs;
use crate::op::marker::Marker;

/// The most entries on one page.
pub(crate) const MAX_PAGE: u32 = 5000;

/// One entry of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listed<'a> {
    Blob {
        name: &'a str,
        snapshot: Option<DateTime>,
        blob: &'a Blob,
    },
    /// The common prefix of names, up to the delimiter.
    Prefix(&'a str),
    /// The name of an entry that has only uncommitted blocks.
    Uncommitted(&'a str),
}

impl Container {
    /// A page of at most `room` entries, and where the next one starts.
    pub(crate) fn list(
        &self,
        options: &ListBlobs,
        room: usize,
    ) -> (Vec<Listed<'_>>, Option<Marker>) {
        let start = options.marker.as_ref().map_or("", |marker| marker.name.as_str());
        let start = start.max(options.start_from.as_str());
        let mut from = Bound::Included(start.max(options.prefix.as_str()));
        let end = options.end_before.as_deref();
        let mut page = Vec::new();
        let mut after_prefix;
        loop {
            let Some((name, entry)) = self.entries_from(from).next() else { return (page, None) };
            if !name.starts_with(&options.prefix) || end.is_some_and(|end| name >= end) {
                return (page, None);
            }
            if let Some(prefix) = common_prefix(name, options) {
                if has_listed(self, prefix, options) {
                    if page.len() == room {
                        return (page, Some(marker(prefix, None)));
                    }
                    page.push(Listed::Prefix(prefix));
                }
                // The first name after all names with this prefix.
                after_prefix = successor(prefix);
                match &after_prefix {
                    Some(next) => from = Bound::Included(next),
                    None => return (page, None),
                }
                continue;
            }
            for listed in listed(name, entry, options) {
                if page.len() == room {
                    let snapshot = match listed {
                        Listed::Blob { snapshot, .. } => snapshot,
                        _ => None,
                    };
                    return (page, Some(marker(name, snapshot)));
                }
                page.push(listed);
            }
            from = Bound::Excluded(name);
        }
    }
}

/// The listed items of one name from the marker on: snapshots, oldest first, then the blob.
fn listed<'a>(
    name: &'a str,
    entry: &'a Entry,
    options: &ListBlobs,
) -> impl Iterator<Item = Listed<'a>> {
    let from = options.marker.as_ref().filter(|marker| marker.name == name);
    let from = from.map(|marker| marker.snapshot.unwrap_or(DateTime::MAX));
    let snapshots = entry
        .snapshots
        .range(from.unwrap_or(DateTime::MIN)..)
        .filter(|_| options.snapshots)
        .map(move |(instant, blob)| Listed::Blob { name, snapshot: Some(*instant), blob });
    let uncommitted = options.uncommitted && !entry.staged.is_empty();
    let own = match &entry.blob {
        Some(blob) => Some(Listed::Blob { name, snapshot: None, blob }),
        None => uncommitted.then_some(Listed::Uncommitted(name)),
    };
    snapshots.chain(own)
}

/// Whether any entry with this prefix is listed.
fn has_listed(container: &Container, prefix: &str, options: &ListBlobs) -> bool {
    container
        .entries_from(Bound::Included(prefix.max(&options.start_from)))
        .take_while(|(name, _)| name.starts_with(prefix))
        .take_while(|(name, _)| options.end_before.as_deref().is_none_or(|end| *name < end))
        .any(|(name, entry)| listed(name, entry, options).next().is_some())
}

/// The name up to the first delimiter after the prefix.
fn common_prefix<'a>(name: &'a str, options: &ListBlobs) -> Option<&'a str> {
    let delimiter = options.delimiter.as_deref()?;
    let rest = &name[options.prefix.len()..];
    let at = rest.find(delimiter)?;
    Some(&name[..options.prefix.len() + at + delimiter.len()])
}

/// The smallest text that is greater than all texts with this prefix.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = match last {
            char::MAX => continue,
            '\u{D7FF}' => '\u{E000}',
            other => char::from_u32(u32::from(other) + 1)?,
        };
        text.push(next);
        return Some(text);
    }
    None
}

fn marker(name: &str, snapshot: Option<DateTime>) -> Marker {
    Marker { name: name.to_owned(), snapshot }
}
