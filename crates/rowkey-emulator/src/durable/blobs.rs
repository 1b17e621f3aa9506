//! Encodes containers and blobs as rows, and restores them from rows.

use std::io;

use http::HeaderValue;
use rowkey_wire::blob::{ContentHeaders, PublicAccess};
use uuid::Uuid;

use super::code::{Decoder, Encoder, invalid};
use super::contents::{self, Contents, Segment, Stored};
use super::journal::{Space, Unit};
use super::names::{self, AccountJournal, Kind, Registry};
use super::recording::Rows;
use crate::op::condition::Tag;
use crate::op::tags::Tags;
use crate::op::tier::{AccessTier, RehydratePriority};
use crate::store::blob::account::Touch;
use crate::store::blob::container::Touch as ContainerTouch;
use crate::store::blob::entry::Copied;
use crate::store::blob::lease::Lease;
use crate::store::blob::tier::{Rehydration, Tier};
use crate::store::blob::{Blob, Blobs as Store, Container, Content, Kind as BlobKind, Version};

/// The kind of row, which follows the owner in a key.
const BLOB: u8 = b'b';
const SNAPSHOT: u8 = b's';
const STAGED: u8 = b't';

/// The rows of containers, and the contents that they reference.
#[derive(Debug, Default)]
pub(super) struct BlobRows {
    pub(super) containers: Registry,
    contents: Contents,
}

impl Rows for BlobRows {
    type Store = Store;
    type Touch = Touch;

    fn watch(store: &mut Store) {
        store.watch();
    }

    fn take(store: &mut Store) -> Vec<Touch> {
        store.touched.take()
    }

    fn touch_all(store: &mut Store) {
        store.touch_all();
    }

    fn note(&mut self, journal: &AccountJournal, touch: Touch, store: &mut Store, unit: &mut Unit) {
        let name = match &touch {
            Touch::Properties => {
                let key = journal.key(Kind::BlobProperties, "");
                return unit.put(Space::Names, key, names::properties(store.properties()));
            }
            Touch::Container(name) => name,
        };
        if let Some(container) = store.touched_at(name) {
            self.note_container(journal, name, container, unit);
        } else if let Some(owner) = self.containers.remove(journal, Kind::Container, name, unit) {
            self.contents.forget_all(owner);
        }
        let name = (&**name, store.blocked_until(name));
        self.containers.note_blocked(journal, Kind::ContainerBlocked, name, unit);
    }

    fn clear(&mut self, journal: &AccountJournal, unit: &mut Unit) {
        let kinds = [Kind::Container, Kind::ContainerBlocked];
        for owner in self.containers.clear(journal, kinds, unit) {
            self.contents.forget_all(owner);
        }
        // The memory of a dropped piece may already be in use by another.
        self.contents.settle(unit);
    }

    fn finish(&mut self, journal: &AccountJournal, store: &Store, unit: &mut Unit) {
        self.contents.settle(unit);
        let key = journal.key(Kind::LastTag, "");
        unit.put(Space::Names, key, Encoder::default().u64(store.last()).finish());
    }
}

impl BlobRows {
    fn note_container(
        &mut self,
        journal: &AccountJournal,
        name: &str,
        container: &mut Container,
        unit: &mut Unit,
    ) {
        let mut touched = container.touched.take();
        let owner = self.containers.owner(name).unwrap_or_else(|| {
            container.touched.watch();
            touched.insert(0, ContainerTouch::Description);
            let owner = journal.new_owner();
            self.containers.set_owner(name, owner);
            owner
        });
        for touch in &touched {
            self.note_part(journal, owner, touch, (name, container), unit);
        }
    }

    fn note_part(
        &mut self,
        journal: &AccountJournal,
        owner: u64,
        touch: &ContainerTouch,
        (container_name, container): (&str, &Container),
        unit: &mut Unit,
    ) {
        let contents = &mut self.contents;
        let (key, row) = match touch {
            ContainerTouch::Appended(name) => {
                let key = key(owner, BLOB, name);
                let row = container.blob(name, None).ok().map(|blob| {
                    let segments = contents.extend(journal, &key, &blob.content, unit);
                    write_blob(blob, &segments)
                });
                (key, row)
            }
            ContainerTouch::Blob(name) => {
                let key = key(owner, BLOB, name);
                let blob = container.blob(name, None).ok();
                (key.clone(), blob.map(|blob| whole(journal, contents, &key, blob, unit)))
            }
            ContainerTouch::Description => {
                let key = journal.key(Kind::Container, container_name);
                return unit.put(Space::Names, key, write_container(owner, container));
            }
            ContainerTouch::Snapshot(name, instant) => {
                let mut key = key(owner, SNAPSHOT, name);
                key.extend_from_slice(&instant.ticks().to_be_bytes());
                let blob = container.blob(name, Some(*instant)).ok();
                (key.clone(), blob.map(|blob| whole(journal, contents, &key, blob, unit)))
            }
            ContainerTouch::Staged(name, id) => {
                let mut key = key(owner, STAGED, name);
                key.extend_from_slice(id.as_bytes());
                let row = container.entry(name).and_then(|entry| {
                    let content = entry.staged.get(id)?;
                    let segments = contents.name(journal, &key, content, unit);
                    let mut out = Encoder::default();
                    contents::write_segments(&mut out, &segments);
                    Some(out.instant(entry.staged_at?).finish())
                });
                (key, row)
            }
        };
        if let Some(row) = row {
            unit.put(Space::Rows, key, row);
        } else {
            contents.forget(&key);
            unit.remove(Space::Rows, key);
        }
    }
}

/// Records the content of a blob; returns its row.
fn whole(
    journal: &AccountJournal,
    contents: &mut Contents,
    key: &[u8],
    blob: &Blob,
    unit: &mut Unit,
) -> Vec<u8> {
    let segments = contents.name(journal, key, &blob.content, unit);
    write_blob(blob, &segments)
}

fn key(owner: u64, sort: u8, name: &str) -> Vec<u8> {
    let mut out = Encoder::with_capacity(name.len() + 24);
    out.fixed(owner.to_be_bytes()).byte(sort).text(name).finish()
}

/// Restores a container from its row; returns its number.
pub(super) fn read_container(store: &mut Store, name: &str, value: &[u8]) -> io::Result<u64> {
    let mut read = Decoder(value);
    let owner = read.count()?;
    let version = read_version(&mut read)?;
    let access = match read.byte()? {
        0 => None,
        1 => Some(PublicAccess::Blob),
        _ => Some(PublicAccess::Container),
    };
    let mut container = Container::new(version, access, names::read_metadata(&mut read)?);
    container.policies = names::read_policies(&mut read)?;
    container.lease = read_lease(&mut read)?;
    store.resume_after(version.tag.0);
    store.restore(name, container);
    Ok(owner)
}

fn write_container(owner: u64, container: &Container) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u64(owner);
    write_version(&mut out, container.version);
    out.byte(match container.access {
        None => 0,
        Some(PublicAccess::Blob) => 1,
        Some(PublicAccess::Container) => 2,
    });
    names::metadata(&mut out, &container.metadata);
    names::policies(&mut out, &container.policies);
    write_lease(&mut out, container.lease);
    out.finish()
}

/// Reads the segments at the start of a row of a container.
pub(super) fn read_segments(value: &[u8]) -> io::Result<Vec<Segment>> {
    contents::read_segments(&mut Decoder(value))
}

/// Restores a blob, a snapshot or a block. `key` is without the owner.
pub(super) fn read_row(
    store: &mut Store,
    known: &mut BlobRows,
    container: &str,
    (row, key): (&[u8], &[u8]),
    value: &[u8],
    stored: &mut Stored,
) -> io::Result<()> {
    let mut key = Decoder(key);
    let (sort, name) = (key.byte()?, key.text()?);
    let mut read = Decoder(value);
    let segments = contents::read_segments(&mut read)?;
    let content = stored.content(&mut known.contents, row, segments)?;
    let mut tag = 0;
    let Some(container) = store.touched_at(container) else { return Ok(()) };
    let entry = container.restoring(name);
    match sort {
        BLOB => {
            let blob = read_blob(content, &mut read)?;
            tag = blob.version.tag.0;
            entry.blob = Some(blob);
        }
        SNAPSHOT => {
            let instant = rowkey_wire::edm::DateTime::from_ticks(i64::from_be_bytes(key.fixed()?));
            entry.snapshots.insert(instant.map_err(invalid)?, read_blob(content, &mut read)?);
        }
        STAGED => {
            let id = std::str::from_utf8(key.0).map_err(invalid)?;
            entry.staged.insert(id.into(), content);
            entry.staged_at = entry.staged_at.max(Some(read.instant()?));
        }
        _ => return Err(invalid("a row of a container is of an unknown sort")),
    }
    store.resume_after(tag);
    Ok(())
}

fn write_blob(blob: &Blob, segments: &[Segment]) -> Vec<u8> {
    let mut out = Encoder::default();
    contents::write_segments(&mut out, segments);
    match &blob.kind {
        BlobKind::Append { blocks, sealed } => {
            out.byte(0).fixed(blocks.to_le_bytes()).byte(u8::from(*sealed));
        }
        BlobKind::Block(blocks) => {
            out.byte(1).length(blocks.len());
            for (id, size) in blocks {
                out.text(id).u64(*size);
            }
        }
    }
    out.instant(blob.created);
    write_version(&mut out, blob.version);
    let ContentHeaders { cache_control, disposition, encoding, language, md5, content_type } =
        &blob.headers;
    for header in [cache_control, disposition, encoding, language, content_type] {
        option(&mut out, header.as_ref(), |out, value| out.bytes(value.as_bytes()));
    }
    write_md5(&mut out, md5.as_deref());
    names::metadata(&mut out, &blob.metadata);
    write_lease(&mut out, blob.lease);
    option(&mut out, blob.copy.as_deref(), |out, copy| {
        out.text(&copy.id).text(&copy.source).instant(copy.completed).u64(copy.length)
    });
    out.length(blob.tags.iter().len());
    for (key, value) in blob.tags.iter() {
        out.text(key).text(value);
    }
    option(&mut out, blob.tier.as_deref(), write_tier);
    out.finish()
}

/// A `Content-MD5` nearly always has 16 bytes; others are preceded by their length.
fn write_md5(out: &mut Encoder, md5: Option<&[u8]>) {
    match md5.map(|md5| (md5, <[u8; 16]>::try_from(md5))) {
        None => out.byte(0),
        Some((_, Ok(md5))) => out.byte(1).fixed(md5),
        Some((md5, Err(_))) => out.byte(2).bytes(md5),
    };
}

fn read_md5(read: &mut Decoder<'_>) -> io::Result<Option<Box<[u8]>>> {
    Ok(match read.byte()? {
        0 => None,
        1 => Some(read.fixed::<16>()?.into()),
        _ => Some(read.bytes()?.into()),
    })
}

fn read_blob(content: Content, read: &mut Decoder<'_>) -> io::Result<Blob> {
    let kind = if read.byte()? == 0 {
        let blocks = u32::from_le_bytes(read.fixed()?);
        BlobKind::Append { blocks, sealed: read.byte()? != 0 }
    } else {
        let count = read.length()?;
        let mut blocks = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            blocks.push((read.text()?.into(), read.u64()?));
        }
        // A blob that was written as a whole has no blocks.
        let sum = blocks.iter().try_fold(0_u64, |sum, (_, size)| sum.checked_add(*size));
        if !blocks.is_empty() && sum != Some(content.len()) {
            return Err(invalid("the blocks of a blob do not have the length of its bytes"));
        }
        BlobKind::Block(blocks)
    };
    let created = read.instant()?;
    let version = read_version(read)?;
    let mut header =
        || read_option(read, |read| HeaderValue::from_bytes(read.bytes()?).map_err(invalid));
    let [cache_control, disposition, encoding, language, content_type] =
        [header()?, header()?, header()?, header()?, header()?];
    let md5 = read_md5(read)?;
    let headers =
        ContentHeaders { cache_control, disposition, encoding, language, md5, content_type };
    let metadata = names::read_metadata(read)?;
    let lease = read_lease(read)?;
    let copy = read_option(read, |read| {
        Ok(Box::new(Copied {
            id: read.text()?.to_owned(),
            source: read.text()?.to_owned(),
            completed: read.instant()?,
            length: read.u64()?,
        }))
    })?;
    let mut tags = Vec::new();
    for _ in 0..read.length()? {
        tags.push((read.text()?.into(), read.text()?.into()));
    }
    let tags = Tags::restore(tags);
    let tier = read_option(read, |read| read_tier(read).map(Box::new))?;
    Ok(Blob { kind, content, created, version, headers, metadata, lease, tags, tier, copy })
}

fn write_tier<'a>(out: &'a mut Encoder, tier: &Tier) -> &'a mut Encoder {
    out.text(tier.level.as_str()).instant(tier.changed);
    option(out, tier.rehydration.as_ref(), |out, going| {
        out.text(going.target.as_str()).text(going.priority.as_str()).instant(going.until)
    });
    out
}

fn read_tier(read: &mut Decoder<'_>) -> io::Result<Tier> {
    fn tier(read: &mut Decoder<'_>) -> io::Result<AccessTier> {
        AccessTier::parse(read.text()?).ok_or_else(|| invalid("unknown access tier"))
    }
    let (level, changed) = (tier(read)?, read.instant()?);
    let rehydration = read_option(read, |read| {
        let (target, priority) = (tier(read)?, RehydratePriority::parse(read.text()?));
        let priority = priority.ok_or_else(|| invalid("unknown rehydration priority"))?;
        Ok(Rehydration { target, priority, until: read.instant()? })
    })?;
    Ok(Tier { level, changed, rehydration })
}

fn write_version(out: &mut Encoder, version: Version) {
    out.u64(version.tag.0).instant(version.modified);
}

fn read_version(read: &mut Decoder<'_>) -> io::Result<Version> {
    Ok(Version { tag: Tag(read.count()?), modified: read.instant()? })
}

fn write_lease(out: &mut Encoder, lease: Lease) {
    match lease {
        Lease::None => out.byte(0),
        Lease::Held { id, seconds, until } => {
            out.byte(1).fixed(*id.as_bytes());
            option(out, seconds.as_ref(), |out, seconds| out.fixed(seconds.to_le_bytes()));
            out.instant(until)
        }
        Lease::Breaking { id, until } => out.byte(2).fixed(*id.as_bytes()).instant(until),
    };
}

fn read_lease(read: &mut Decoder<'_>) -> io::Result<Lease> {
    let state = read.byte()?;
    if state == 0 {
        return Ok(Lease::None);
    }
    let id = Uuid::from_bytes(read.fixed()?);
    if state == 2 {
        return Ok(Lease::Breaking { id, until: read.instant()? });
    }
    let seconds = read_option(read, |read| Ok(u32::from_le_bytes(read.fixed()?)))?;
    Ok(Lease::Held { id, seconds, until: read.instant()? })
}

fn option<T>(
    out: &mut Encoder,
    value: Option<T>,
    write: impl FnOnce(&mut Encoder, T) -> &mut Encoder,
) {
    out.byte(u8::from(value.is_some()));
    if let Some(value) = value {
        write(out, value);
    }
}

fn read_option<'a, T>(
    read: &mut Decoder<'a>,
    value: impl FnOnce(&mut Decoder<'a>) -> io::Result<T>,
) -> io::Result<Option<T>> {
    Ok(if read.byte()? == 0 { None } else { Some(value(read)?) })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn blocks_whose_sizes_are_not_the_length_of_the_blob_are_damage() {
        for sizes in [&[u64::MAX, 1][..], &[u64::MAX, 3], &[1]] {
            let mut row = Encoder::default();
            row.byte(1).length(sizes.len());
            for size in sizes {
                row.text("id").u64(*size);
            }
            let content = Content::from(Bytes::from_static(b"ab"));
            let row = row.finish();
            let error = read_blob(content, &mut Decoder(&row)).unwrap_err();
            let expected = "the blocks of a blob do not have the length of its bytes";
            assert_eq!(error.to_string(), expected);
        }
    }
}
