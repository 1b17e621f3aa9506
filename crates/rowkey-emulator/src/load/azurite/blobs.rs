//! Containers, blobs, snapshots and uncommitted blocks.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use http::HeaderValue;
use rowkey_wire::blob::{ContentHeaders, PublicAccess};
use rowkey_wire::edm::DateTime;
use serde::Deserialize;

use super::extents::{Chunk, Extents};
use super::import::Import;
use super::loki::{Database, File, Meta};
use super::values::{Instant, Octets, Policy, WrittenLease, from_milliseconds, policies};
use crate::load::metadata;
use crate::op::condition::Tag;
use crate::op::tags::Tags;
use crate::op::tier::AccessTier;
use crate::store::blob::entry::Copied;
use crate::store::blob::lease::Lease;
use crate::store::blob::tier::Tier;
use crate::store::blob::{Blob, Container, Content, Kind, Version};

pub(super) const FILE: &str = "__azurite_db_blob__.json";
const FOLDER: &str = "__blobstorage__";
const CONTAINERS: &str = "$CONTAINERS_COLLECTION$";
const BLOBS: &str = "$BLOBS_COLLECTION$";
const BLOCKS: &str = "$BLOCKS_COLLECTION$";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerRow {
    account_name: String,
    name: String,
    metadata: Option<BTreeMap<String, String>>,
    container_acl: Option<Vec<Policy>>,
    properties: Described,
    #[serde(flatten)]
    lease: LeaseRow,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlobRow {
    account_name: String,
    container_name: String,
    name: String,
    snapshot: Option<String>,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    is_committed: bool,
    metadata: Option<BTreeMap<String, String>>,
    blob_tags: Option<WrittenTags>,
    persistency: Option<Chunk>,
    committed_blocks_in_order: Option<Vec<BlockRow>>,
    properties: Described,
    #[serde(flatten)]
    lease: LeaseRow,
}

#[derive(Deserialize)]
struct LeaseRow {
    #[serde(rename = "leaseId")]
    id: Option<String>,
    /// -1 for an infinite lease.
    #[serde(rename = "leaseDurationSeconds")]
    seconds: Option<i64>,
    #[serde(rename = "leaseExpireTime")]
    expires: Option<Instant>,
    #[serde(rename = "leaseBreakTime")]
    breaks: Option<Instant>,
}

/// The properties of a container or a blob.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    etag: Option<String>,
    last_modified: Option<Instant>,
    creation_time: Option<Instant>,
    lease_state: Option<String>,
    public_access: Option<String>,
    has_legal_hold: Option<bool>,
    has_immutability_policy: Option<bool>,
    content_length: Option<u64>,
    content_type: Option<String>,
    content_encoding: Option<String>,
    content_language: Option<String>,
    content_disposition: Option<String>,
    cache_control: Option<String>,
    #[serde(rename = "contentMD5")]
    content_md5: Option<Octets>,
    blob_type: Option<String>,
    access_tier: Option<String>,
    access_tier_inferred: Option<bool>,
    access_tier_change_time: Option<Instant>,
    is_sealed: Option<bool>,
    copy_id: Option<String>,
    copy_status: Option<String>,
    copy_source: Option<String>,
    copy_completion_time: Option<Instant>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenTags {
    blob_tag_set: Vec<WrittenTag>,
}

#[derive(Deserialize)]
struct WrittenTag {
    key: String,
    value: String,
}

#[derive(Deserialize)]
struct BlockRow {
    name: String,
    persistency: Chunk,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StagedRow {
    account_name: String,
    container_name: String,
    blob_name: String,
    #[serde(default)]
    meta: Meta,
    #[serde(flatten)]
    block: BlockRow,
}

/// Reads the containers; returns whether there is a database of blobs.
pub(super) fn read(directory: &Path, import: &mut Import<'_>) -> io::Result<bool> {
    let Some(file) = File::read(directory, FILE)? else { return Ok(false) };
    let database = file.database(CONTAINERS)?;
    import.services(&database, |account| account.blobs.properties_mut())?;
    for row in database.rows::<ContainerRow>(CONTAINERS) {
        read_container(row?, import);
    }
    let mut extents = Extents::new(directory, FOLDER);
    for row in database.rows::<BlobRow>(BLOBS) {
        read_blob(&database, &row?, &mut extents, import)?;
    }
    for row in database.rows::<StagedRow>(BLOCKS) {
        read_block(row?, &mut extents, import)?;
    }
    Ok(true)
}

fn read_container(row: ContainerRow, import: &mut Import<'_>) {
    let Described { public_access, has_legal_hold, has_immutability_policy, .. } = &row.properties;
    let access = match public_access.as_deref() {
        Some("container") => Some(PublicAccess::Container),
        Some("blob") => Some(PublicAccess::Blob),
        _ => None,
    };
    let is_immutable = [has_legal_hold, has_immutability_policy].contains(&&Some(true));
    import.note_several(
        "legal holds and immutability policies of containers, which this server does not have",
        is_immutable.into(),
    );
    let metadata = read_metadata(row.metadata.as_ref(), import);
    let (policies, unread) = policies(row.container_acl);
    import.note_several(
        "stored access policies of containers with instants that are not of Azure",
        unread,
    );
    let lease = row.lease.read(&row.properties, import);
    let version = version(&row.properties, import);
    let Some(account) = import.account(&row.account_name) else { return };
    let mut container = Container::new(version, access, metadata);
    (container.policies, container.lease) = (policies, lease);
    account.blobs.resume_after(version.tag.0);
    account.blobs.restore(&row.name, container);
    import.counts.containers += 1;
}

fn read_blob(
    database: &Database<'_>,
    row: &BlobRow,
    extents: &mut Extents,
    import: &mut Import<'_>,
) -> io::Result<()> {
    // A blob that has only uncommitted blocks is a row without content; its blocks are rows of their own.
    if row.deleted || !row.is_committed {
        import.note_several("blobs that are marked as deleted", row.deleted.into());
        return Ok(());
    }
    let kind = row.properties.blob_type.as_deref().unwrap_or("BlockBlob");
    if kind == "PageBlob" {
        import.note("page blobs and their snapshots, which this server does not have");
        return Ok(());
    }
    let instant = match row.snapshot.as_deref() {
        None | Some("") => None,
        Some(text) => Some(
            text.parse::<DateTime>()
                .map_err(|_| database.damaged("a snapshot has an instant that is not of Azure"))?,
        ),
    };
    let blob = blob(database, row, kind, extents, import)?;
    let tag = blob.version.tag.0;
    let Some(account) = import.account(&row.account_name) else { return Ok(()) };
    account.blobs.resume_after(tag);
    let Some(container) = account.blobs.touched_at(&row.container_name) else {
        import.note("blobs of containers that were deleted");
        return Ok(());
    };
    let entry = container.restoring(&row.name);
    match instant {
        None => entry.blob = Some(blob),
        Some(instant) => drop(entry.snapshots.insert(instant, blob)),
    }
    import.counts.blobs += 1;
    Ok(())
}

fn blob(
    database: &Database<'_>,
    row: &BlobRow,
    kind: &str,
    extents: &mut Extents,
    import: &mut Import<'_>,
) -> io::Result<Blob> {
    let mut content = Content::default();
    let blocks = row.committed_blocks_in_order.as_deref().unwrap_or_default();
    for block in blocks {
        content.push(extents.read(&block.persistency)?);
    }
    if let Some(chunk) = row.persistency.as_ref().filter(|_| blocks.is_empty()) {
        content.push(extents.read(chunk)?);
    }
    let described = &row.properties;
    if described.content_length.is_some_and(|length| length != content.len()) {
        return Err(database.damaged("the ranges of a blob do not have the length of the blob"));
    }
    let kind = if kind == "AppendBlob" {
        let sealed = described.is_sealed.unwrap_or_default();
        Kind::Append { blocks: u32::try_from(blocks.len()).unwrap_or(u32::MAX), sealed }
    } else {
        let block = |block: &BlockRow| (block.name.as_str().into(), block.persistency.count);
        Kind::Block(blocks.iter().map(block).collect())
    };
    let version = version(described, import);
    let instant = |found: &Option<Instant>| found.as_ref().and_then(Instant::get);
    let lease = row.lease.read(described, import);
    Ok(Blob {
        copy: copied(described, content.len()),
        tier: tier(described, &kind, version.modified),
        kind,
        content,
        created: instant(&described.creation_time).unwrap_or(version.modified),
        version,
        headers: headers(described, import),
        metadata: read_metadata(row.metadata.as_ref(), import),
        // A snapshot has none.
        lease: if row.snapshot.as_deref().unwrap_or_default().is_empty() {
            lease
        } else {
            Lease::None
        },
        tags: tags(row.blob_tags.as_ref(), import),
    })
}

/// Reads an uncommitted block.
fn read_block(row: StagedRow, extents: &mut Extents, import: &mut Import<'_>) -> io::Result<()> {
    let content = Content::from(extents.read(&row.block.persistency)?);
    let now = import.now;
    let Some(account) = import.account(&row.account_name) else { return Ok(()) };
    let Some(container) = account.blobs.touched_at(&row.container_name) else {
        import.note("uncommitted blocks of containers that were deleted");
        return Ok(());
    };
    let at = row.meta.created.and_then(from_milliseconds).unwrap_or(now);
    let entry = container.restoring(&row.blob_name);
    entry.staged.insert(row.block.name.into(), content);
    entry.staged_at = entry.staged_at.max(Some(at));
    Ok(())
}

fn read_metadata(
    found: Option<&BTreeMap<String, String>>,
    import: &mut Import<'_>,
) -> crate::op::metadata::Metadata {
    let pairs = found.into_iter().flatten().map(|(name, value)| (&**name, &**value));
    let metadata = metadata::metadata(pairs, metadata::received);
    let what = "metadata of containers and blobs that Azure does not allow";
    import.note_several(what, metadata.is_err().into());
    metadata.unwrap_or_default()
}

fn version(described: &Described, import: &mut Import<'_>) -> Version {
    let modified = described.last_modified.as_ref().and_then(Instant::get).unwrap_or(import.now);
    let tag = described.etag.as_deref().and_then(Tag::parse);
    import.note_several("ETags that are not of Azure; new ones were made", tag.is_none().into());
    Version { tag: tag.unwrap_or(Tag(modified.ticks().cast_unsigned())), modified }
}

fn headers(described: &Described, import: &mut Import<'_>) -> ContentHeaders {
    let mut header = |text: Option<&String>| -> Option<HeaderValue> {
        let text = text.filter(|text| !text.is_empty())?;
        let value = metadata::received(text);
        import.note_several("properties of blobs that no header can have", value.is_none().into());
        value
    };
    ContentHeaders {
        cache_control: header(described.cache_control.as_ref()),
        disposition: header(described.content_disposition.as_ref()),
        encoding: header(described.content_encoding.as_ref()),
        language: header(described.content_language.as_ref()),
        content_type: header(described.content_type.as_ref()),
        md5: described.content_md5.as_ref().and_then(Octets::read),
    }
}

fn copied(described: &Described, length: u64) -> Option<Box<Copied>> {
    if described.copy_status.as_deref() != Some("success") {
        return None;
    }
    Some(Box::new(Copied {
        id: described.copy_id.clone()?,
        source: described.copy_source.clone()?,
        completed: described.copy_completion_time.as_ref()?.get()?,
        length,
    }))
}

/// The tier, if it was set.
fn tier(described: &Described, kind: &Kind, modified: DateTime) -> Option<Box<Tier>> {
    if described.access_tier_inferred == Some(true) || matches!(kind, Kind::Append { .. }) {
        return None;
    }
    let level = AccessTier::parse(described.access_tier.as_deref()?)?;
    let changed = described.access_tier_change_time.as_ref().and_then(Instant::get);
    Some(Box::new(Tier { level, changed: changed.unwrap_or(modified), rehydration: None }))
}

fn tags(found: Option<&WrittenTags>, import: &mut Import<'_>) -> Tags {
    let pairs = found.into_iter().flat_map(|tags| &tags.blob_tag_set);
    let pairs: BTreeMap<_, _> = pairs.map(|tag| (&*tag.key, &*tag.value)).collect();
    let pairs = pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    Tags::new(pairs.collect()).unwrap_or_else(|_| {
        import.note("tags of blobs that Azure does not allow");
        Tags::default()
    })
}

impl LeaseRow {
    fn read(&self, described: &Described, import: &mut Import<'_>) -> Lease {
        let lease = WrittenLease {
            id: self.id.as_deref(),
            state: described.lease_state.as_deref(),
            seconds: self.seconds,
            expires: self.expires.as_ref(),
            breaks: self.breaks.as_ref(),
        }
        .read();
        import.note_several("leases that are not of Azure", lease.is_none().into());
        lease.unwrap_or_default()
    }
}
