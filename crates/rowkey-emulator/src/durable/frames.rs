//! The batches in a journal of the embedded store.
//!
//! The format is that of fjall 3, which promises not to change it: a batch is a start (tag 1, the
//! number of items, the batch's number), items (tag 2) or clearings (tag 4), and an end (tag 3, the
//! checksum of the bytes between, a magic number). Zeros follow the last batch. No checksum covers
//! the start, so numbers are checked to ascend, and the digest of a [`Scan`] covers them.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The last bytes of each batch.
const MAGIC: [u8; 4] = *b"FJL\x03";
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// The length of a start: tag, count, number.
const HEAD: usize = 1 + 4 + 8;
/// The length of an item between its tag and its key: type, compression, keyspace, three lengths.
const ITEM_HEAD: usize = 2 + 8 + 2 + 4 + 4;

/// A complete batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) number: u64,
    pub(super) len: usize,
    checksum: u64,
}

/// The complete batches at the start of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// The end of the last complete batch.
    pub(super) end: usize,
    /// The number of the last batch.
    pub(super) last: u64,
    /// A digest of the starts and checksums of all batches, in order.
    pub(super) digest: u64,
}

impl Scan {
    /// Reads the batch at the end, if it is complete and its number is greater than the last one.
    pub(super) fn step(&mut self, bytes: &[u8]) -> bool {
        let Some(rest) = bytes.get(self.end..) else { return false };
        let Some(frame) = frame(rest).filter(|frame| frame.number > self.last || self.end == 0)
        else {
            return false;
        };
        self.take(rest, frame);
        true
    }

    /// Adds the batch at the start of `rest`.
    fn take(&mut self, rest: &[u8], frame: Frame) {
        let mut covered = [0; 8 + HEAD + 8];
        covered[..8].copy_from_slice(&self.digest.to_le_bytes());
        covered[8..8 + HEAD].copy_from_slice(&rest[..HEAD]);
        covered[8 + HEAD..].copy_from_slice(&frame.checksum.to_le_bytes());
        self.digest = xxh3_64(&covered);
        self.last = frame.number;
        self.end += frame.len;
    }
}

/// The number of bytes before the trailing zeros.
pub(super) fn used(bytes: &[u8]) -> usize {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut end = bytes.len();
    // Compare whole blocks: a new journal is 64 MiB of zeros.
    while let Some(block) = end.checked_sub(ZEROS.len())
        && bytes[block..end] == ZEROS
    {
        end = block;
    }
    bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// The batch at the start of the bytes, if it is complete.
pub(super) fn frame(bytes: &[u8]) -> Option<Frame> {
    let body = body(bytes).ok()?;
    let end = HEAD + body;
    let checksum = u64::from_le_bytes(*bytes.get(end + 1..)?.first_chunk()?);
    let is_whole = bytes[end] == END && *bytes.get(end + 9..)?.first_chunk()? == MAGIC;
    let is_right = is_whole && checksum == digest(&bytes[HEAD..end]);
    let number = u64::from_le_bytes(*bytes[5..].first_chunk()?);
    is_right.then_some(Frame { number, len: end + 13, checksum })
}

fn digest(body: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(body);
    sum.digest()
}

/// Whether the bytes may be the start of an incomplete batch.
pub(super) fn breaks_off(bytes: &[u8]) -> bool {
    match body(bytes) {
        Ok(body) => bytes.len() < HEAD + body + 13,
        Err(broken) => broken == FrameError::Short,
    }
}

/// The reason why bytes do not start with the items of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameError {
    Short,
    Wrong,
}

/// The length of the items of a batch.
fn body(bytes: &[u8]) -> Result<usize, FrameError> {
    let tag = |at: usize| bytes.get(at).copied().ok_or(FrameError::Short);
    if tag(0)? != START {
        return Err(FrameError::Wrong);
    }
    let head: &[u8; HEAD] = bytes.first_chunk().ok_or(FrameError::Short)?;
    let count = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let mut at = HEAD;
    for _ in 0..count {
        at += match tag(at)? {
            ITEM => {
                let head: Option<&[u8; ITEM_HEAD]> = bytes[at + 1..].first_chunk();
                let head = head.ok_or(FrameError::Short)?;
                let key = usize::from(u16::from_le_bytes([head[10], head[11]]));
                let value = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
                1 + ITEM_HEAD + key + usize::try_from(value).map_err(|_| FrameError::Wrong)?
            }
            CLEAR => 1 + 8,
            _ => return Err(FrameError::Wrong),
        };
    }
    tag(at)?;
    Ok(at - HEAD)
}

/// The position of the first complete batch at or after `from` whose number is greater than `last`.
pub(super) fn next(bytes: &[u8], from: usize, last: u64) -> Option<usize> {
    let starts = memchr::memchr_iter(START, bytes.get(from..)?).map(|at| from + at);
    // Most bytes that could be a start are not followed by an item.
    let mut starts =
        starts.filter(|at| bytes.get(at + HEAD).is_some_and(|tag| matches!(*tag, ITEM | CLEAR)));
    starts.find(|at| frame(&bytes[*at..]).is_some_and(|frame| frame.number > last))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A batch with one item.
    pub(crate) fn batch(number: u64, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut body = vec![ITEM, 0, 0];
        body.extend_from_slice(&2_u64.to_le_bytes());
        body.extend_from_slice(&u16::try_from(key.len()).unwrap().to_le_bytes());
        let len = u32::try_from(value.len()).unwrap().to_le_bytes();
        body.extend_from_slice(&[len, len].concat());
        body.extend_from_slice(&[key, value].concat());
        let mut bytes = vec![START];
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes.push(END);
        bytes.extend_from_slice(&digest(&body).to_le_bytes());
        bytes.extend_from_slice(&MAGIC);
        bytes
    }

    /// Changes the number in the start of a batch.
    fn renumber(frame: &mut [u8], number: u64) {
        frame[5..HEAD].copy_from_slice(&number.to_le_bytes());
    }

    #[test]
    fn complete_batches_are_scanned_and_the_digest_covers_their_numbers() {
        let journal = [batch(3, b"a", b"1"), batch(5, b"b", b"22"), vec![0; 9000]].concat();
        let mut scan = Scan::default();
        assert!(scan.step(&journal) && scan.step(&journal) && !scan.step(&journal));
        assert_eq!((scan.end, scan.last), (used(&journal), 5));
        let mut other = journal;
        renumber(&mut other, 4);
        let mut found = Scan::default();
        while found.step(&other) {}
        assert_eq!((found.end, found.last), (scan.end, scan.last));
        assert_ne!(found.digest, scan.digest);
        renumber(&mut other, 5);
        let mut found = Scan::default();
        while found.step(&other) {}
        assert_eq!(found.last, 5, "the second does not come after the first");
        assert!(found.end < scan.end);
    }

    #[test]
    fn any_flipped_bit_outside_the_number_is_detected() {
        let whole = batch(7, b"key", b"value");
        let all = [batch(6, b"", b""), whole.clone(), batch(8, b"x", b"")].concat();
        let begin = all.len() - whole.len() - batch(8, b"x", b"").len();
        for bit in (0..whole.len() * 8).filter(|bit| !(40..104).contains(bit)) {
            let mut bytes = all.clone();
            bytes[begin + bit / 8] ^= 1 << (bit % 8);
            let mut scan = Scan::default();
            while scan.step(&bytes) {}
            assert_eq!(scan.end, begin, "bit {bit}");
            let end = next(&bytes, begin + 1, 6).unwrap();
            assert_eq!(end, begin + whole.len(), "bit {bit}");
        }
    }
}
