//! The contents of blobs on disk: where each piece is stored, and which rows reference it.
//!
//! A *content* is a numbered list of pieces, to which pieces are only ever appended. A row
//! references *segments* of contents. So a block list, a copy or a snapshot references existing
//! pieces, and an appended block adds one piece; nothing is written twice. A content is deleted
//! when no row references it any more.
//!
//! A piece is identified by its address in memory. As long as a row references it, the store in
//! memory holds it as well, so its memory cannot be reused.

use std::collections::{BTreeSet, HashMap};
use std::io;

use bytes::Bytes;

use super::code::{Decoder, Encoder, invalid};
use super::journal::{Space, Unit};
use super::names::{AccountJournal, split_owner};
use crate::store::blob::Content;

/// Consecutive pieces of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    content: u64,
    first: u32,
    end: u32,
}

/// The address of a piece in memory, and its length.
type PieceAddress = (usize, usize);

/// The stored contents of an account.
#[derive(Debug, Default)]
pub(super) struct Contents {
    by_number: HashMap<u64, StoredContent>,
    places: HashMap<PieceAddress, (u64, u32)>,
    /// The segments that each row references.
    rows: HashMap<Vec<u8>, Vec<Segment>>,
    /// Segments that rows have dropped. They are freed when the unit is complete, because other
    /// rows of the unit may reference them.
    released: Vec<Segment>,
}

#[derive(Debug, Default)]
struct StoredContent {
    /// The address of each piece, and the number of rows that reference it. The address is invalid
    /// if that number is 0, because the memory may have been reused.
    pieces: Vec<(PieceAddress, usize)>,
    /// The number of pieces that are referenced.
    named: usize,
}

impl Contents {
    /// Stores the content that a row references; returns its segments.
    pub(super) fn name(
        &mut self,
        account_journal: &AccountJournal,
        row: &[u8],
        content: &Content,
        unit: &mut Unit,
    ) -> Vec<Segment> {
        self.keep(account_journal, row, Vec::new(), content, unit)
    }

    /// The same for a row whose content has only been appended to.
    pub(super) fn extend(
        &mut self,
        account_journal: &AccountJournal,
        row: &[u8],
        content: &Content,
        unit: &mut Unit,
    ) -> Vec<Segment> {
        let known = self.rows.get(row).cloned().unwrap_or_default();
        self.keep(account_journal, row, known, content, unit)
    }

    /// Stores the pieces after these segments.
    fn keep(
        &mut self,
        account_journal: &AccountJournal,
        row: &[u8],
        mut segments: Vec<Segment>,
        content: &Content,
        unit: &mut Unit,
    ) -> Vec<Segment> {
        let known: u32 = segments.iter().map(|segment| segment.end - segment.first).sum();
        for piece in content.pieces_after(known as usize) {
            self.add(account_journal, &mut segments, piece, unit);
        }
        self.set(row, segments.clone());
        segments
    }

    /// Records that a row was deleted.
    pub(super) fn forget(&mut self, row: &[u8]) {
        self.released.extend(self.rows.remove(row).unwrap_or_default());
    }

    /// Records that all rows of an owner were deleted.
    pub(super) fn forget_all(&mut self, owner: u64) {
        let released = &mut self.released;
        self.rows.retain(|row, segments| {
            let stays = !row.starts_with(&owner.to_be_bytes());
            if !stays {
                released.append(segments);
            }
            stays
        });
    }

    /// Frees the contents that no row references any more. Called when the unit is complete.
    pub(super) fn settle(&mut self, unit: &mut Unit) {
        for segment in std::mem::take(&mut self.released) {
            let Some(kept) = self.by_number.get_mut(&segment.content) else { continue };
            for (address, uses) in &mut kept.pieces[segment.first as usize..segment.end as usize] {
                *uses -= 1;
                if *uses == 0 {
                    kept.named -= 1;
                    self.places.remove(address);
                }
            }
            if kept.named == 0 {
                unit.swept.push((Space::Bytes, segment.content));
                self.by_number.remove(&segment.content);
            }
        }
    }

    fn add(
        &mut self,
        account_journal: &AccountJournal,
        segments: &mut Vec<Segment>,
        piece: Bytes,
        unit: &mut Unit,
    ) {
        let address = (piece.as_ptr().addr(), piece.len());
        let (content, place) = self.places.get(&address).copied().unwrap_or_else(|| {
            // Continue the content of the last segment, unless another row has already appended to
            // it.
            let open = segments.last().filter(|last| {
                let kept = self.by_number.get(&last.content);
                kept.is_some_and(|kept| kept.pieces.len() == last.end as usize)
            });
            let content = open.map_or_else(|| account_journal.new_owner(), |last| last.content);
            let kept = self.by_number.entry(content).or_default();
            let place = u32::try_from(kept.pieces.len()).unwrap_or(u32::MAX);
            kept.pieces.push((address, 0));
            self.places.insert(address, (content, place));
            let mut key = Vec::with_capacity(12);
            key.extend_from_slice(&content.to_be_bytes());
            key.extend_from_slice(&place.to_be_bytes());
            unit.put(Space::Bytes, key, piece);
            (content, place)
        });
        match segments.last_mut() {
            Some(last) if (last.content, last.end) == (content, place) => last.end += 1,
            _ => segments.push(Segment { content, first: place, end: place + 1 }),
        }
    }

    fn set(&mut self, row: &[u8], segments: Vec<Segment>) {
        for segment in &segments {
            let Some(kept) = self.by_number.get_mut(&segment.content) else { continue };
            let range = segment.first..segment.end;
            for (place, (address, uses)) in
                range.clone().zip(&mut kept.pieces[range.start as usize..])
            {
                if *uses == 0 {
                    kept.named += 1;
                    self.places.insert(*address, (segment.content, place));
                }
                *uses += 1;
            }
        }
        let before = self.rows.insert(row.to_vec(), segments);
        self.released.extend(before.unwrap_or_default());
    }
}

pub(super) fn write_segments(out: &mut Encoder, segments: &[Segment]) {
    out.length(segments.len());
    for Segment { content, first, end } in segments {
        out.u64(*content).length(*first as usize).length(*end as usize);
    }
}

pub(super) fn read_segments(read: &mut Decoder<'_>) -> io::Result<Vec<Segment>> {
    let count = read.length()?;
    let mut segments = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        let content = read.u64()?;
        let first = u32::try_from(read.length()?).map_err(invalid)?;
        let end = u32::try_from(read.length()?).map_err(invalid)?;
        segments.push(Segment { content, first, end });
    }
    Ok(segments)
}

/// The stored pieces, while the rows that reference them are read.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pieces: HashMap<u64, (Vec<Bytes>, bool)>,
    /// Contents without references, whose deletion was interrupted by the end of the process.
    half_swept: BTreeSet<u64>,
    last: u64,
}

impl Stored {
    pub(super) fn read(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let (content, place) = split_owner(key)?;
        self.last = self.last.max(content);
        if place != [0; 4] && !self.pieces.contains_key(&content) {
            self.half_swept.insert(content);
            return Ok(());
        }
        let (pieces, _) = self.pieces.entry(content).or_default();
        if place != u32::try_from(pieces.len()).map_err(invalid)?.to_be_bytes() {
            return Err(invalid("a piece of a blob is missing"));
        }
        // A copy, because the value shares its memory with everything read with it.
        pieces.push(Bytes::copy_from_slice(value));
        Ok(())
    }

    /// The content that a row references. It is marked as used.
    pub(super) fn content(
        &mut self,
        contents: &mut Contents,
        row: &[u8],
        segments: Vec<Segment>,
    ) -> io::Result<Content> {
        let mut content = Content::default();
        for segment in &segments {
            let pieces = self.pieces.get_mut(&segment.content);
            let (pieces, is_used) =
                pieces.ok_or_else(|| invalid("the bytes of a blob are missing"))?;
            *is_used = true;
            let range = pieces.get(segment.first as usize..segment.end as usize);
            let range = range.ok_or_else(|| invalid("some of the bytes of a blob are missing"))?;
            content.extend(range.iter().cloned());
            contents.by_number.entry(segment.content).or_insert_with(|| {
                let lie = |piece: &Bytes| ((piece.as_ptr().addr(), piece.len()), 0);
                StoredContent { pieces: pieces.iter().map(lie).collect(), named: 0 }
            });
        }
        contents.set(row, segments);
        Ok(content)
    }

    /// Marks as used the segments that another account's blob references.
    pub(super) fn spare(&mut self, segments: &[Segment]) {
        for segment in segments {
            if let Some((_, is_used)) = self.pieces.get_mut(&segment.content) {
                *is_used = true;
            }
        }
    }

    /// The contents that no row references.
    pub(super) fn unused(&self) -> impl Iterator<Item = u64> {
        let unused = self.pieces.iter().filter(|(_, (_, is_used))| !is_used);
        unused.map(|(content, _)| content).chain(&self.half_swept).copied()
    }

    /// The highest number of a content.
    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::durable::Progress;
    use crate::durable::journal::Journal;

    fn account_journal() -> AccountJournal {
        let journal = Arc::new(Journal::new(Arc::new(Progress::new())));
        AccountJournal::new("account", &journal, &Arc::new(AtomicU64::new(1)))
    }

    fn content(pieces: &[&str]) -> Content {
        pieces.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()
    }

    /// The pieces that a unit writes.
    fn kept(unit: &Unit) -> Vec<&[u8]> {
        unit.changes.iter().filter_map(|change| change.value.as_deref()).collect()
    }

    fn segment(content: u64, first: u32, end: u32) -> Segment {
        Segment { content, first, end }
    }

    #[test]
    fn stored_content_is_referenced_again_and_not_rewritten() {
        let (account_journal, mut contents) = (account_journal(), Contents::default());
        let mut log = content(&["a", "b"]);
        let mut unit = Unit::default();
        assert_eq!(contents.name(&account_journal, b"log", &log, &mut unit), [segment(1, 0, 2)]);
        assert_eq!(kept(&unit), [b"a", b"b"]);
        let mut copy = log.clone();
        let mut unit = Unit::default();
        assert_eq!(contents.name(&account_journal, b"copy", &copy, &mut unit), [segment(1, 0, 2)]);
        assert_eq!(unit, Unit::default());
        // The first append continues the content; the other starts a new one.
        log.push(Bytes::copy_from_slice(b"c"));
        assert_eq!(contents.extend(&account_journal, b"log", &log, &mut unit), [segment(1, 0, 3)]);
        copy.push(Bytes::copy_from_slice(b"d"));
        let segments = contents.extend(&account_journal, b"copy", &copy, &mut unit);
        assert_eq!(segments, [segment(1, 0, 2), segment(2, 0, 1)]);
        assert_eq!(kept(&unit), [b"c", b"d"]);
        contents.settle(&mut unit);
        assert_eq!(unit.swept, []);
    }

    #[test]
    fn an_unreferenced_chunk_is_forgotten_while_others_of_its_content_remain() {
        let (account_journal, mut contents) = (account_journal(), Contents::default());
        let (mut log, mut unit) = (content(&["a"]), Unit::default());
        contents.name(&account_journal, b"snapshot", &log, &mut unit);
        log.push(Bytes::copy_from_slice(b"b"));
        contents.name(&account_journal, b"log", &log, &mut unit);
        contents.forget(b"log");
        contents.settle(&mut unit);
        assert_eq!((contents.places.len(), &*unit.swept), (1, &[][..]));
        // Another piece at the same address is written.
        let (next, mut unit) = (log.pieces_after(1).collect::<Content>(), Unit::default());
        assert_eq!(contents.name(&account_journal, b"next", &next, &mut unit), [segment(2, 0, 1)]);
        assert_eq!(kept(&unit), [b"b"]);
    }

    #[test]
    fn an_interrupted_sweep_is_completed_and_other_gaps_are_errors() {
        let mut stored = Stored::default();
        let key = |content: u64, place: u32| {
            [&content.to_be_bytes()[..], &place.to_be_bytes()[..]].concat()
        };
        for (content, place) in [(1, 0), (1, 1), (2, 1000), (2, 1001)] {
            stored.read(&key(content, place), b"a").unwrap();
        }
        assert!(stored.read(&key(1, 3), b"a").is_err(), "one between is missing");
        let mut contents = Contents::default();
        stored.content(&mut contents, b"row", vec![segment(1, 0, 2)]).unwrap();
        assert!(stored.content(&mut contents, b"other", vec![segment(2, 1000, 1001)]).is_err());
        assert_eq!((stored.unused().collect::<Vec<_>>(), stored.last()), (vec![2], 2));
    }

    #[test]
    fn bytes_are_swept_when_their_last_reference_is_removed() {
        let (account_journal, mut contents) = (account_journal(), Contents::default());
        let (block, mut unit) = (content(&["a"]), Unit::default());
        contents.name(&account_journal, b"staged", &block, &mut unit);
        contents.settle(&mut unit);
        // A block list commits the block in the unit that deletes its row.
        let mut unit = Unit::default();
        contents.forget(b"staged");
        contents.name(&account_journal, b"blob", &block, &mut unit);
        contents.settle(&mut unit);
        assert_eq!(unit, Unit::default());
        let (other, mut unit) = (content(&["b"]), Unit::default());
        contents.name(&account_journal, b"blob", &other, &mut unit);
        contents.settle(&mut unit);
        assert_eq!(unit.swept, [(Space::Bytes, 1)]);
        // A deleted piece is written again when it is stored again.
        let mut unit = Unit::default();
        contents.name(&account_journal, b"blob", &block, &mut unit);
        contents.settle(&mut unit);
        assert_eq!((kept(&unit), &*unit.swept), (vec![b"a".as_slice()], &[(Space::Bytes, 2)][..]));
        contents.forget_all(u64::from_be_bytes(*b"blobrows"));
        contents.forget(b"blob");
        let mut unit = Unit::default();
        contents.settle(&mut unit);
        assert_eq!(unit.swept, [(Space::Bytes, 3)]);
        assert!(contents.by_number.is_empty() && contents.places.is_empty());
        assert!(contents.rows.is_empty());
    }
}
