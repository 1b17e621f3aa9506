//! The bytes of blobs: which piece is kept where, and who needs it.
//!
//! A *content* is a list of pieces under a number, to which pieces are only ever added. A row names
//! *segments* of contents. So a list of blocks, a copy or a snapshot names what is there already,
//! and an appended block adds one piece; nothing is written twice. A content goes when no row names
//! it any more.
//!
//! A piece is known by where it lies in memory. As long as a row names it, the store in memory
//! holds it as well, so nothing else can lie there.

use std::collections::{BTreeSet, HashMap};
use std::io;

use bytes::Bytes;

use super::code::{In, Out, invalid};
use super::journal::{Space, Unit};
use super::names::{Desk, split_owner};
use crate::store::blob::Content;

/// Pieces of a content, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    content: u64,
    first: u32,
    end: u32,
}

/// Where a piece lies in memory, and how long it is.
type Lies = (usize, usize);

/// The contents that are kept for an account.
#[derive(Debug, Default)]
pub(super) struct Contents {
    by_number: HashMap<u64, Kept>,
    places: HashMap<Lies, (u64, u32)>,
    /// The segments that each row names.
    rows: HashMap<Vec<u8>, Vec<Segment>>,
    /// What rows do not name any more, until their unit is complete: others may.
    released: Vec<Segment>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Where each piece lies, and how many rows name it. One that no row names lies nowhere any
    /// more: something else may lie there.
    pieces: Vec<(Lies, usize)>,
    /// How many of them are named.
    named: usize,
}

impl Contents {
    /// Keeps what a row is to name; gives the segments.
    pub(super) fn name(
        &mut self,
        desk: &Desk,
        row: &[u8],
        content: &Content,
        unit: &mut Unit,
    ) -> Vec<Segment> {
        self.keep(desk, row, Vec::new(), content, unit)
    }

    /// The same for a row whose content has got longer at its end and is otherwise as it was.
    pub(super) fn extend(
        &mut self,
        desk: &Desk,
        row: &[u8],
        content: &Content,
        unit: &mut Unit,
    ) -> Vec<Segment> {
        let known = self.rows.get(row).cloned().unwrap_or_default();
        self.keep(desk, row, known, content, unit)
    }

    /// Keeps the pieces that come after these segments.
    fn keep(
        &mut self,
        desk: &Desk,
        row: &[u8],
        mut segments: Vec<Segment>,
        content: &Content,
        unit: &mut Unit,
    ) -> Vec<Segment> {
        let known: u32 = segments.iter().map(|segment| segment.end - segment.first).sum();
        for piece in content.pieces_after(known as usize) {
            self.add(desk, &mut segments, piece, unit);
        }
        self.set(row, segments.clone());
        segments
    }

    /// A row is gone.
    pub(super) fn forget(&mut self, row: &[u8]) {
        self.released.extend(self.rows.remove(row).unwrap_or_default());
    }

    /// All rows that begin so are gone.
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

    /// The unit is complete: what no blob names is swept.
    pub(super) fn settle(&mut self, unit: &mut Unit) {
        for segment in std::mem::take(&mut self.released) {
            let Some(kept) = self.by_number.get_mut(&segment.content) else { continue };
            for (lies, uses) in &mut kept.pieces[segment.first as usize..segment.end as usize] {
                *uses -= 1;
                if *uses == 0 {
                    kept.named -= 1;
                    self.places.remove(lies);
                }
            }
            if kept.named == 0 {
                unit.swept.push((Space::Bytes, segment.content));
                self.by_number.remove(&segment.content);
            }
        }
    }

    fn add(&mut self, desk: &Desk, segments: &mut Vec<Segment>, piece: Bytes, unit: &mut Unit) {
        let lies = (piece.as_ptr().addr(), piece.len());
        let (content, place) = self.places.get(&lies).copied().unwrap_or_else(|| {
            // It goes on where the last one ends, unless another one went on there.
            let open = segments.last().filter(|last| {
                let kept = self.by_number.get(&last.content);
                kept.is_some_and(|kept| kept.pieces.len() == last.end as usize)
            });
            let content = open.map_or_else(|| desk.new_owner(), |last| last.content);
            let kept = self.by_number.entry(content).or_default();
            let place = u32::try_from(kept.pieces.len()).unwrap_or(u32::MAX);
            kept.pieces.push((lies, 0));
            self.places.insert(lies, (content, place));
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
            for (place, (lies, uses)) in range.clone().zip(&mut kept.pieces[range.start as usize..])
            {
                if *uses == 0 {
                    kept.named += 1;
                    self.places.insert(*lies, (segment.content, place));
                }
                *uses += 1;
            }
        }
        let before = self.rows.insert(row.to_vec(), segments);
        self.released.extend(before.unwrap_or_default());
    }
}

pub(super) fn write_segments(out: &mut Out, segments: &[Segment]) {
    out.length(segments.len());
    for Segment { content, first, end } in segments {
        out.u64(*content).length(*first as usize).length(*end as usize);
    }
}

pub(super) fn read_segments(read: &mut In<'_>) -> io::Result<Vec<Segment>> {
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

/// The contents that segments name, and the places of their pieces.
pub(super) fn places(segments: &[Segment]) -> impl Iterator<Item = (u64, u32)> {
    let places = |segment: &Segment| {
        let content = segment.content;
        (segment.first..segment.end).map(move |place| (content, place))
    };
    segments.iter().flat_map(places)
}

/// The pieces that were kept, while what names them is read.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pieces: HashMap<u64, (Vec<Bytes>, bool)>,
    /// Contents that no blob names, and that were being swept when the process ended.
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
        // A copy: the value shares memory with all that was read with it.
        pieces.push(Bytes::copy_from_slice(value));
        Ok(())
    }

    /// The content that a row names, noted as used.
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
                Kept { pieces: pieces.iter().map(lie).collect(), named: 0 }
            });
        }
        contents.set(row, segments);
        Ok(content)
    }

    /// Notes as used what another blob names.
    pub(super) fn spare(&mut self, segments: &[Segment]) {
        for segment in segments {
            if let Some((_, is_used)) = self.pieces.get_mut(&segment.content) {
                *is_used = true;
            }
        }
    }

    /// The contents that no blob names.
    pub(super) fn unused(&self) -> impl Iterator<Item = u64> {
        let unused = self.pieces.iter().filter(|(_, (_, is_used))| !is_used);
        unused.map(|(content, _)| content).chain(&self.half_swept).copied()
    }

    /// The greatest number of a content.
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

    fn desk() -> Desk {
        let journal = Arc::new(Journal::new(Arc::new(Progress::new())));
        Desk::new("account", &journal, &Arc::new(AtomicU64::new(1)))
    }

    fn content(pieces: &[&str]) -> Content {
        pieces.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()
    }

    /// The pieces that a unit keeps.
    fn kept(unit: &Unit) -> Vec<&[u8]> {
        unit.changes.iter().filter_map(|change| change.value.as_deref()).collect()
    }

    fn segment(content: u64, first: u32, end: u32) -> Segment {
        Segment { content, first, end }
    }

    #[test]
    fn what_is_kept_already_is_named_again_and_not_written() {
        let (desk, mut contents) = (desk(), Contents::default());
        let mut log = content(&["a", "b"]);
        let mut unit = Unit::default();
        assert_eq!(contents.name(&desk, b"log", &log, &mut unit), [segment(1, 0, 2)]);
        assert_eq!(kept(&unit), [b"a", b"b"]);
        let mut copy = log.clone();
        let mut unit = Unit::default();
        assert_eq!(contents.name(&desk, b"copy", &copy, &mut unit), [segment(1, 0, 2)]);
        assert_eq!(unit, Unit::default());
        // The first that is appended to goes on where the content ends, the other apart.
        log.push(Bytes::copy_from_slice(b"c"));
        assert_eq!(contents.extend(&desk, b"log", &log, &mut unit), [segment(1, 0, 3)]);
        copy.push(Bytes::copy_from_slice(b"d"));
        let segments = contents.extend(&desk, b"copy", &copy, &mut unit);
        assert_eq!(segments, [segment(1, 0, 2), segment(2, 0, 1)]);
        assert_eq!(kept(&unit), [b"c", b"d"]);
        contents.settle(&mut unit);
        assert_eq!(unit.swept, []);
    }

    #[test]
    fn a_piece_that_no_row_names_is_known_no_more_although_others_of_its_content_are_named() {
        let (desk, mut contents) = (desk(), Contents::default());
        let (mut log, mut unit) = (content(&["a"]), Unit::default());
        contents.name(&desk, b"snapshot", &log, &mut unit);
        log.push(Bytes::copy_from_slice(b"b"));
        contents.name(&desk, b"log", &log, &mut unit);
        contents.forget(b"log");
        contents.settle(&mut unit);
        assert_eq!((contents.places.len(), &*unit.swept), (1, &[][..]));
        // What lies where it lay is another piece, and is written.
        let (next, mut unit) = (log.pieces_after(1).collect::<Content>(), Unit::default());
        assert_eq!(contents.name(&desk, b"next", &next, &mut unit), [segment(2, 0, 1)]);
        assert_eq!(kept(&unit), [b"b"]);
    }

    #[test]
    fn what_was_swept_in_part_is_swept_on_and_nothing_else_may_be_missing() {
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
    fn bytes_are_swept_when_the_last_row_that_names_them_is_gone() {
        let (desk, mut contents) = (desk(), Contents::default());
        let (block, mut unit) = (content(&["a"]), Unit::default());
        contents.name(&desk, b"staged", &block, &mut unit);
        contents.settle(&mut unit);
        // A list takes the block up, in one unit with its going.
        let mut unit = Unit::default();
        contents.forget(b"staged");
        contents.name(&desk, b"blob", &block, &mut unit);
        contents.settle(&mut unit);
        assert_eq!(unit, Unit::default());
        let (other, mut unit) = (content(&["b"]), Unit::default());
        contents.name(&desk, b"blob", &other, &mut unit);
        contents.settle(&mut unit);
        assert_eq!(unit.swept, [(Space::Bytes, 1)]);
        // What was swept is written again if it comes again.
        let mut unit = Unit::default();
        contents.name(&desk, b"blob", &block, &mut unit);
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
