//! The content of a blob, in the pieces in which it was received. Reading a part, appending, taking
//! a snapshot and committing blocks do not copy any bytes.

use bytes::Bytes;

/// Bytes in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// Each piece, after the offset of its end. No piece is empty.
    pieces: Vec<(u64, Bytes)>,
}

impl Content {
    /// The length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.pieces.last().map_or(0, |(end, _)| *end)
    }

    /// Appends a piece.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            let end = self.len() + piece.len() as u64;
            self.pieces.push((end, piece));
        }
    }

    /// Appends several pieces.
    pub(crate) fn extend(&mut self, other: impl IntoIterator<Item = Bytes>) {
        for piece in other {
            self.push(piece);
        }
    }

    /// The bytes from `first` up to `end`, in pieces.
    pub(crate) fn range(&self, first: u64, end: u64) -> impl Iterator<Item = Bytes> {
        let from = self.pieces.partition_point(|(piece_end, _)| *piece_end <= first);
        self.pieces[from..].iter().map_while(move |(piece_end, piece)| {
            let begin = piece_end - piece.len() as u64;
            if begin >= end {
                return None;
            }
            // Both offsets are within the piece, whose length fits into `usize`.
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
            let cut = at(first.saturating_sub(begin))..at(end.min(*piece_end) - begin);
            Some(piece.slice(cut))
        })
    }

    /// The pieces after the first `count`.
    #[cfg(feature = "durable")]
    pub(crate) fn pieces_after(&self, count: usize) -> impl Iterator<Item = Bytes> {
        self.pieces.iter().skip(count).map(|(_, piece)| piece.clone())
    }

    /// All pieces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Bytes> {
        self.pieces.iter().map(|(_, piece)| piece.clone())
    }
}

impl From<Bytes> for Content {
    fn from(piece: Bytes) -> Self {
        if piece.is_empty() {
            return Self::default();
        }
        Self { pieces: vec![(piece.len() as u64, piece)] }
    }
}

impl FromIterator<Bytes> for Content {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut content = Self::default();
        content.extend(pieces);
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_chunks_equals_the_range_of_the_whole_content() {
        let whole = b"0123456789";
        let pieces =
            ["", "012", "3", "", "45678", "9"].map(|text| Bytes::from_static(text.as_bytes()));
        let content: Content = pieces.into_iter().collect();
        assert_eq!(content.len(), 10);
        for first in 0..=10 {
            for end in first..=10 {
                let part: Vec<u8> = content.range(first, end).flatten().collect();
                let expected =
                    &whole[usize::try_from(first).unwrap()..usize::try_from(end).unwrap()];
                assert_eq!(part, expected, "{first}..{end}");
            }
        }
        assert_eq!(Content::default().range(0, 0).count(), 0);
        assert_eq!(content.pieces().count(), 4);
    }

    #[test]
    fn a_range_shares_the_memory_of_its_chunks() {
        let piece = Bytes::from(vec![1; 100]);
        let content = Content::from(piece.clone());
        let part = content.range(10, 20).next().unwrap();
        assert_eq!(part.as_ptr(), piece[10..].as_ptr());
    }
}
