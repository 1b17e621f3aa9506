//! Renders lists of containers and of blobs as the service writes them.

use std::fmt::Write as _;

use http::HeaderValue;
use rowkey_wire::blob::checksum;
use rowkey_wire::blob::{BlobType, ContentHeaders, PublicAccess};
use rowkey_wire::edm::DateTime;
use rowkey_wire::headers::http_date;
use rowkey_wire::xml::{Writer, push_escaped};

use crate::op::blob::{FindByTags, ListBlobs, ListContainers};
use crate::op::condition::Tag;
use crate::op::metadata::Metadata;
use crate::op::tags::{self, Tags};
use crate::op::tier::{AccessTier, TierView};
use crate::op::views::{FoundView, LeaseView};

/// The first version in which listings contain the creation time of a blob.
const CREATION_TIME: &str = "2017-11-09";
/// The first version in which listings tell whether a blob is encrypted.
const ENCRYPTED: &str = "2016-05-31";
/// The first version in which listings contain a CRC64, which is always empty.
const CRC64: &str = "2019-02-02";
/// The first version with access tiers.
pub(crate) const TIERS: &str = "2017-04-17";
/// The first version with tags.
pub(crate) const TAGS: &str = "2019-12-12";
/// The first version in which a search returns all tags that were searched for.
const FOUND_TAGS: &str = "2020-04-08";

/// A container in a listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainerView<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// When it was last modified.
    pub(crate) modified: DateTime,
    /// Its ETag.
    pub(crate) tag: Tag,
    /// Its lease.
    pub(crate) lease: LeaseView,
    /// Its public access level.
    pub(crate) access: Option<PublicAccess>,
    /// Its metadata, if requested.
    pub(crate) metadata: Option<&'a Metadata>,
}

/// The copy operation that created a blob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyView<'a> {
    /// The copy's id.
    pub(crate) id: &'a str,
    /// The address of the source.
    pub(crate) source: &'a str,
    /// The length in bytes.
    pub(crate) length: u64,
    /// When the copy was completed.
    pub(crate) completed: DateTime,
}

/// An entry in a listing of blobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item<'a> {
    /// A blob or a snapshot.
    Blob(BlobView<'a>),
    /// The common prefix of names, up to the delimiter.
    Prefix(&'a str),
    /// The name of a blob that has only uncommitted blocks.
    Uncommitted(&'a str),
}

/// A blob in a listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlobView<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The snapshot, if it is one.
    pub(crate) snapshot: Option<DateTime>,
    /// When it was created.
    pub(crate) created: DateTime,
    /// When it was last modified.
    pub(crate) modified: DateTime,
    /// Its ETag.
    pub(crate) tag: Tag,
    /// The length in bytes.
    pub(crate) length: u64,
    /// Its HTTP headers.
    pub(crate) headers: &'a ContentHeaders,
    /// Its type.
    pub(crate) kind: BlobType,
    /// Its lease; snapshots have none.
    pub(crate) lease: Option<LeaseView>,
    /// Whether it is sealed.
    pub(crate) sealed: bool,
    /// The copy that created it, if requested.
    pub(crate) copy: Option<CopyView<'a>>,
    /// Its access tier, if it is a block blob.
    pub(crate) tier: Option<TierView<DateTime>>,
    /// Its tags.
    pub(crate) tags: &'a Tags,
    /// Its metadata, if requested.
    pub(crate) metadata: Option<&'a Metadata>,
}

/// The response to List Containers. `next` is the name at which the next page starts.
pub(crate) fn containers<'a>(
    endpoint: &str,
    account: &str,
    options: &ListContainers,
    containers: impl Iterator<Item = ContainerView<'a>>,
    next: Option<&str>,
) -> String {
    let mut writer = results(endpoint, None);
    optional(&mut writer, "Prefix", &options.prefix);
    optional(&mut writer, "Marker", &options.marker);
    if let Some(max) = options.max_results {
        writer.leaf("MaxResults", &max.to_string());
    }
    let mut containers = containers.peekable();
    list(&mut writer, "Containers", containers.peek().is_none(), |writer| {
        for container in containers {
            write_container(writer, &container);
        }
    });
    let next = next.map(|name| format!("/{account}/{name}")).unwrap_or_default();
    writer.leaf("NextMarker", &next);
    writer.end("EnumerationResults");
    writer.finish()
}

/// The response to List Blobs. `next` is the marker of the next page. The elements depend on the
/// version.
pub(crate) fn blobs<'a>(
    endpoint: &str,
    container: &str,
    options: &ListBlobs,
    version: &str,
    items: impl Iterator<Item = Item<'a>>,
    next: Option<&str>,
) -> String {
    let mut writer = results(endpoint, Some(container));
    optional(&mut writer, "Prefix", &options.prefix);
    if let Some(marker) = &options.marker {
        writer.leaf("Marker", &marker.name);
    }
    if let Some(max) = options.max_results {
        writer.leaf("MaxResults", &max.to_string());
    }
    optional(&mut writer, "Delimiter", options.delimiter.as_deref().unwrap_or_default());
    let mut items = items.peekable();
    list(&mut writer, "Blobs", items.peek().is_none(), |writer| {
        for item in items {
            match item {
                Item::Blob(blob) => write_blob(writer, &blob, options, version),
                Item::Prefix(name) => {
                    writer.start("BlobPrefix");
                    writer.name_leaf("Name", name);
                    writer.end("BlobPrefix");
                }
                Item::Uncommitted(name) => write_uncommitted(writer, name, version),
            }
        }
    });
    writer.leaf("NextMarker", next.unwrap_or_default());
    writer.end("EnumerationResults");
    writer.finish()
}

/// The response to Find Blobs by Tags. `next` is the marker of the next page.
pub(crate) fn found<'a>(
    endpoint: &str,
    container: Option<&str>,
    options: &FindByTags,
    version: &str,
    blobs: impl Iterator<Item = FoundView<'a>>,
    next: Option<&str>,
) -> String {
    let mut writer = results(endpoint, container);
    if let Some(marker) = &options.marker {
        writer.leaf("Marker", &marker.encode());
    }
    writer.leaf("Where", &options.text);
    if let Some(max) = options.max_results {
        writer.leaf("MaxResults", &max.to_string());
    }
    let mut blobs = blobs.peekable();
    list(&mut writer, "Blobs", blobs.peek().is_none(), |writer| {
        for blob in blobs {
            writer.start("Blob");
            writer.name_leaf("Name", blob.name);
            writer.leaf("ContainerName", blob.container);
            let mut searched = blob.tags.iter().filter(|(key, _)| options.filter.names(key));
            if version >= FOUND_TAGS {
                tags::write(writer, searched);
            } else if let Some((_, value)) = searched.next() {
                writer.leaf("TagValue", value);
            }
            writer.end("Blob");
        }
    });
    writer.leaf("NextMarker", next.unwrap_or_default());
    writer.end("EnumerationResults");
    writer.finish()
}

fn write_container(writer: &mut Writer, container: &ContainerView<'_>) {
    writer.start("Container");
    writer.leaf("Name", container.name);
    writer.start("Properties");
    writer.leaf("Last-Modified", &http_date(container.modified.to_chrono()));
    writer.leaf("Etag", &container.tag.to_string());
    write_lease(writer, container.lease);
    if let Some(access) = container.access {
        writer.leaf("PublicAccess", access.as_str());
    }
    writer.leaf("HasImmutabilityPolicy", "false");
    writer.leaf("HasLegalHold", "false");
    writer.end("Properties");
    write_metadata(writer, container.metadata);
    writer.end("Container");
}

fn write_blob(writer: &mut Writer, blob: &BlobView<'_>, options: &ListBlobs, version: &str) {
    writer.start("Blob");
    writer.name_leaf("Name", blob.name);
    if let Some(snapshot) = blob.snapshot {
        writer.leaf("Snapshot", &snapshot.to_iso7());
    }
    writer.start("Properties");
    if version >= CREATION_TIME {
        writer.leaf("Creation-Time", &http_date(blob.created.to_chrono()));
    }
    writer.leaf("Last-Modified", &http_date(blob.modified.to_chrono()));
    writer.leaf("Etag", &blob.tag.unquoted());
    writer.leaf("Content-Length", &blob.length.to_string());
    let headers = blob.headers;
    let mut header = |name: &str, value: &Option<HeaderValue>| {
        let text = value.as_ref().map(HeaderValue::as_bytes).unwrap_or_default();
        writer.leaf(name, &String::from_utf8_lossy(text));
    };
    header("Content-Type", &headers.content_type);
    header("Content-Encoding", &headers.encoding);
    header("Content-Language", &headers.language);
    if version >= CRC64 {
        writer.empty("Content-CRC64");
    }
    writer.leaf("Content-MD5", &headers.md5.as_deref().map(checksum::encode).unwrap_or_default());
    let mut header = |name: &str, value: &Option<HeaderValue>| {
        let text = value.as_ref().map(HeaderValue::as_bytes).unwrap_or_default();
        writer.leaf(name, &String::from_utf8_lossy(text));
    };
    header("Cache-Control", &headers.cache_control);
    header("Content-Disposition", &headers.disposition);
    writer.leaf("BlobType", blob.kind.as_str());
    // Recorded: for snapshots only in later versions.
    let since = if blob.snapshot.is_some() { CRC64 } else { TIERS };
    if let Some(tier) = blob.tier.filter(|_| version >= since) {
        write_tier(writer, &tier);
    }
    if let Some(lease) = blob.lease {
        write_lease(writer, lease);
    }
    if let Some(copy) = blob.copy {
        writer.leaf("CopyId", copy.id);
        writer.leaf("CopySource", copy.source);
        writer.leaf("CopyStatus", "success");
        writer.leaf("CopyProgress", &format!("{0}/{0}", copy.length));
        writer.leaf("CopyCompletionTime", &http_date(copy.completed.to_chrono()));
    }
    if blob.sealed {
        writer.leaf("Sealed", "true");
    }
    if version >= ENCRYPTED {
        writer.leaf("ServerEncrypted", "true");
    }
    let tags = Some(blob.tags).filter(|tags| !tags.is_empty() && version >= TAGS);
    if let Some(tags) = tags {
        writer.leaf("TagCount", &tags.iter().len().to_string());
    }
    writer.end("Properties");
    // A blob without metadata has no element, while a container and a queue have an empty one.
    // Libraries turn both into an empty map.
    write_metadata(writer, blob.metadata.filter(|metadata| !metadata.is_empty()));
    if let Some(tags) = tags.filter(|_| options.tags) {
        tags::write(writer, tags.iter());
    }
    writer.end("Blob");
}

fn write_tier(writer: &mut Writer, view: &TierView<DateTime>) {
    writer.leaf("AccessTier", view.tier.as_str());
    match view.changed {
        None => writer.leaf("AccessTierInferred", "true"),
        Some(changed) => {
            writer.leaf("AccessTierChangeTime", &http_date(changed.to_chrono()));
        }
    }
    if let Some((target, priority)) = view.rehydrating {
        writer.leaf("ArchiveStatus", target.archive_status());
        writer.leaf("RehydratePriority", priority.as_str());
    }
}

fn write_uncommitted(writer: &mut Writer, name: &str, version: &str) {
    writer.start("Blob");
    writer.name_leaf("Name", name);
    writer.start("Properties");
    writer.leaf("Content-Length", "0");
    writer.leaf("BlobType", BlobType::Block.as_str());
    if version >= TIERS {
        write_tier(writer, &TierView { tier: AccessTier::Hot, changed: None, rehydrating: None });
    }
    write_lease(writer, LeaseView { status: "unlocked", state: "available", duration: None });
    if version >= ENCRYPTED {
        writer.leaf("ServerEncrypted", "false");
    }
    writer.end("Properties");
    writer.end("Blob");
}

fn write_lease(writer: &mut Writer, lease: LeaseView) {
    writer.leaf("LeaseStatus", lease.status);
    writer.leaf("LeaseState", lease.state);
    if let Some(duration) = lease.duration {
        writer.leaf("LeaseDuration", duration);
    }
}

fn write_metadata(writer: &mut Writer, metadata: Option<&Metadata>) {
    let Some(metadata) = metadata else { return };
    list(writer, "Metadata", metadata.is_empty(), |writer| {
        for (name, value) in metadata.iter() {
            writer.leaf(name, &value);
        }
    });
}

/// Writes the start of the document. Only the root element has attributes.
fn results(endpoint: &str, container: Option<&str>) -> Writer {
    let mut root = "EnumerationResults ServiceEndpoint=\"".to_owned();
    push_attribute(endpoint, &mut root);
    root.push_str("/\"");
    if let Some(container) = container {
        root.push_str(" ContainerName=\"");
        push_attribute(container, &mut root);
        root.push('"');
    }
    let mut writer = Writer::response();
    writer.start(&root);
    writer
}

/// Escapes an attribute. It is quoted, and the `Host` header, which is part of one, may contain
/// quotes.
fn push_attribute(text: &str, out: &mut String) {
    let mut escaped = String::with_capacity(text.len());
    push_escaped(text, &mut escaped);
    // Writing to a `String` cannot fail.
    let _ = out.write_str(&escaped.replace('"', "&quot;"));
}

fn optional(writer: &mut Writer, name: &str, text: &str) {
    if !text.is_empty() {
        writer.leaf(name, text);
    }
}

fn list(writer: &mut Writer, name: &str, empty: bool, write: impl FnOnce(&mut Writer)) {
    if empty {
        writer.empty(name);
    } else {
        writer.start(name);
        write(writer);
        writer.end(name);
    }
}
