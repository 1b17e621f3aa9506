//! Records how much of the journals has been synced to the disk.
//!
//! A truncated journal looks the same whether the machine died while it was written or a part of it
//! was destroyed later. Synced data survives a loss of power, so the server records the length of
//! each journal after each sync. Data missing before that position is damage; data missing after it
//! may be an incomplete write.
//!
//! The file has two slots, written in turn, so that one is always valid.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::code::{Decoder, Encoder};
use super::frames::{self, Scan};
use super::tail;

/// The name of the file.
pub(super) const NAME: &str = "synced";
const SLOT: usize = 512;
/// The number of journals that fit into a slot.
const MOST: usize = 14;
/// The bytes read from a journal at a time.
const PIECE: usize = 64 * 1024;

/// The synced part of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) journal: u64,
    pub(super) scan: Scan,
}

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    sequence: u64,
    /// Whether the server shut down after writing this: the journals then have exactly these
    /// lengths.
    pub(super) is_final: bool,
    /// The journals, oldest first.
    pub(super) extents: Vec<Extent>,
}

impl Mark {
    /// Reads the file of a directory; `None` if it does not exist or has no valid slot.
    pub(super) fn read(directory: &Path) -> io::Result<Option<Self>> {
        let bytes = match std::fs::read(directory.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        let marks = bytes.chunks(SLOT).filter_map(Self::decode);
        Ok(marks.max_by_key(|mark| mark.sequence))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(SLOT);
        let from = self.extents.len().saturating_sub(MOST);
        let extents = &self.extents[from..];
        out.u64(self.sequence).byte(u8::from(self.is_final)).length(extents.len());
        for Extent { journal, scan } in extents {
            out.u64(*journal).u64(scan.end as u64).u64(scan.last).u64(scan.digest);
        }
        let mut bytes = out.finish();
        bytes.resize(SLOT - 8, 0);
        let sum = xxh3_64(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let (bytes, sum) = slot.split_last_chunk()?;
        if slot.len() != SLOT || u64::from_le_bytes(*sum) != xxh3_64(bytes) {
            return None;
        }
        let mut read = Decoder(bytes);
        let (sequence, is_final) = (read.count().ok()?, read.byte().ok()? != 0);
        let count = read.length().ok()?;
        let mut extents = Vec::with_capacity(count.min(MOST));
        for _ in 0..count {
            let journal = read.count().ok()?;
            let end = usize::try_from(read.count().ok()?).ok()?;
            let scan = Scan { end, last: read.u64().ok()?, digest: read.u64().ok()? };
            extents.push(Extent { journal, scan });
        }
        Some(Self { sequence, is_final, extents })
    }
}

/// Scans the journals as they are written, and updates the file.
#[derive(Debug)]
pub(super) struct Marker {
    file: File,
    store: PathBuf,
    mark: Mark,
    /// The newest journal, open at the end of the scanned part.
    reader: Option<File>,
    /// The bytes read beyond the last complete batch.
    ahead: Vec<u8>,
}

impl Marker {
    /// Starts from the result of a check of the journals.
    pub(super) fn start(directory: &Path, store: &Path, extents: Vec<Extent>) -> io::Result<Self> {
        let before = Mark::read(directory)?.unwrap_or_default();
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        super::disk::keep_private(&mut options);
        let file = options.open(directory.join(NAME))?;
        if file.metadata()?.len() != 2 * SLOT as u64 {
            file.set_len(2 * SLOT as u64)?;
        }
        let mark = Mark { sequence: before.sequence, is_final: false, extents };
        let store = store.to_owned();
        let mut marker = Self { file, store, mark, reader: None, ahead: Vec::new() };
        marker.write(false)?;
        Ok(marker)
    }

    /// Scans the data written since the last call.
    pub(super) fn follow(&mut self) -> io::Result<()> {
        loop {
            let Some(Extent { journal, .. }) = self.mark.extents.last().copied() else {
                let Some((first, _)) = tail::journals(&self.store)?.into_iter().next() else {
                    return Ok(());
                };
                self.begin(first);
                continue;
            };
            // Checked before the scan: once the next journal exists, this one no longer grows.
            let is_closed = self.path(journal + 1).exists();
            if self.scan(journal)? {
                if !is_closed {
                    break;
                }
                self.begin(journal + 1);
            } else {
                // This journal and all before it have moved to sorted files.
                self.mark.extents.clear();
            }
        }
        while let [first, _, ..] = self.mark.extents.as_slice() {
            if self.path(first.journal).exists() {
                break;
            }
            self.mark.extents.remove(0);
        }
        Ok(())
    }

    /// Records that everything scanned has been synced.
    pub(super) fn write(&mut self, is_final: bool) -> io::Result<()> {
        self.mark.sequence += 1;
        self.mark.is_final = is_final;
        let slot = if self.mark.sequence.is_multiple_of(2) { 0 } else { SLOT as u64 };
        self.file.seek(SeekFrom::Start(slot))?;
        self.file.write_all(&self.mark.encode())
    }

    /// Scans all journals again, because the end of one was cut off.
    pub(super) fn start_over(&mut self) -> io::Result<()> {
        (self.reader, self.ahead) = (None, Vec::new());
        self.mark.extents.clear();
        self.follow()?;
        self.write(false)
    }

    fn begin(&mut self, journal: u64) {
        (self.reader, self.ahead) = (None, Vec::new());
        self.mark.extents.push(Extent { journal, scan: Scan::default() });
    }

    fn path(&self, journal: u64) -> PathBuf {
        self.store.join(format!("{journal}.jnl"))
    }

    /// Scans to the end of the newest journal; `false` if it no longer exists.
    fn scan(&mut self, journal: u64) -> io::Result<bool> {
        let path = self.path(journal);
        let Some(Extent { scan, .. }) = self.mark.extents.last_mut() else { return Ok(false) };
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                file => {
                    let mut file = file?;
                    file.seek(SeekFrom::Start(scan.end as u64))?;
                    self.reader.insert(file)
                }
            },
        };
        loop {
            let mut ahead = Scan { end: 0, ..*scan };
            let mut more = true;
            while more {
                more = step(&mut ahead, &self.ahead);
            }
            self.ahead.drain(..ahead.end);
            *scan = Scan { end: scan.end + ahead.end, ..ahead };
            // The start of the next batch may be in the process of being written.
            if !self.ahead.is_empty() && !frames::breaks_off(&self.ahead) {
                break;
            }
            let before = self.ahead.len();
            let wanted = before.max(PIECE);
            reader.take(wanted as u64).read_to_end(&mut self.ahead)?;
            if self.ahead.len() == before {
                break;
            }
        }
        // Zeros may still be overwritten.
        let back = i64::try_from(self.ahead.len()).map_err(io::Error::other)?;
        reader.seek(SeekFrom::Current(-back))?;
        self.ahead.clear();
        Ok(true)
    }
}

/// Reads a batch without checking its number, because the store itself assigned it.
fn step(scan: &mut Scan, bytes: &[u8]) -> bool {
    let last = std::mem::take(&mut scan.last);
    let stepped = scan.step(bytes);
    if !stepped {
        scan.last = last;
    }
    stepped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_round_trips_and_any_flipped_bit_is_detected() {
        let scan = Scan { end: 3, last: 4, digest: 5 };
        let extents = vec![Extent { journal: 1, scan }, Extent { journal: 2, scan }];
        let mark = Mark { sequence: 9, is_final: true, extents };
        let slot = mark.encode();
        assert_eq!((slot.len(), Mark::decode(&slot)), (SLOT, Some(mark)));
        for bit in 0..SLOT * 8 {
            let mut wrong = slot.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::decode(&wrong), None, "bit {bit}");
        }
        assert_eq!(Mark::decode(&[0; SLOT]), None);
        let many = vec![Extent { journal: 1, scan }; MOST + 1];
        let many = Mark { extents: many, ..Mark::default() };
        assert_eq!(Mark::decode(&many.encode()).unwrap().extents.len(), MOST);
    }
}
