//! The end of the embedded store's journal after a process or a machine died.
//!
//! A batch that was being written then may be there in part. It was never acknowledged, and it must
//! go: the store itself drops one that breaks off, but silently, and takes one that is complete and
//! garbled for damage that it refuses to go on with. After a loss of power that is an ordinary end.
//! So the journal is checked before the store sees it, and what is dropped is said.
//!
//! The format is that of fjall 3, which promises not to change it: batches of a start (tag 1, how
//! many items, a number), items (tag 2) or clearings (tag 4), and an end (tag 3, the checksum of
//! what is between, a magic number). Zeros follow the last one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use tracing::warn;
use xxhash_rust::xxh3::Xxh3;

const MAGIC: [u8; 4] = *b"FJL\x03";
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// Bytes of an item between its tag and its key: type, compression, keyspace, three lengths.
const ITEM_HEAD: usize = 2 + 8 + 2 + 4 + 4;

/// Drops what was not written whole at the end of the newest journal, and says so.
pub(super) fn mend(store: &Path) -> io::Result<()> {
    let Some(path) = newest(store)? else { return Ok(()) };
    let mut reader = Counted { inner: BufReader::new(File::open(&path)?), at: 0 };
    let (mut end, mut last) = (0, None);
    // Numbers ascend, and no checksum covers them.
    while let Some(number) = batch(&mut reader)?.filter(|number| last.is_none_or(|l| l < *number)) {
        (end, last) = (reader.at, Some(number));
    }
    let lost = written_after(&path, end)?;
    if lost > 0 {
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(end)?;
        file.sync_all()?;
        warn!(
            "the end of the journal was torn, as a process or a machine leaves it that dies while \
             it writes: {lost} bytes of changes that were not written whole are dropped from {}",
            path.display()
        );
    }
    Ok(())
}

/// The journal that was written last: those before it were closed in order.
pub(super) fn newest(store: &Path) -> io::Result<Option<PathBuf>> {
    if !store.exists() {
        return Ok(None);
    }
    let mut newest = None;
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl"));
        if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
            newest = newest.max(Some((number, path)));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Reads a batch; gives its number, if it was whole.
fn batch(reader: &mut Counted<impl Read>) -> io::Result<Option<u64>> {
    match try_batch(reader) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        other => other,
    }
}

fn try_batch(reader: &mut Counted<impl Read>) -> io::Result<Option<u64>> {
    if reader.array::<1>()? != [START] {
        return Ok(None);
    }
    let count = u32::from_le_bytes(reader.array()?);
    let number = u64::from_le_bytes(reader.array()?);
    let mut sum = Xxh3::new();
    for _ in 0..count {
        let tag = reader.array::<1>()?;
        sum.update(&tag);
        match tag[0] {
            ITEM => {
                let head = reader.array::<ITEM_HEAD>()?;
                sum.update(&head);
                let key = u64::from(u16::from_le_bytes([head[10], head[11]]));
                let value = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
                reader.skim(key + u64::from(value), |bytes| sum.update(bytes))?;
            }
            CLEAR => sum.update(&reader.array::<8>()?),
            _ => return Ok(None),
        }
    }
    let is_whole = reader.array::<1>()? == [END]
        && u64::from_le_bytes(reader.array()?) == sum.digest()
        && reader.array()? == MAGIC;
    Ok(is_whole.then_some(number))
}

/// How many bytes from `end` on are not the zeros that a journal is made of.
fn written_after(path: &Path, end: u64) -> io::Result<u64> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(end))?;
    let zeros = vec![0; 64 * 1024];
    let mut reader = BufReader::with_capacity(zeros.len(), file);
    let (mut at, mut last) = (0, 0);
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(last);
        }
        // All at once: most of a journal is zeros, and there are many of them.
        if !zeros.starts_with(bytes)
            && let Some(place) = bytes.iter().rposition(|byte| *byte != 0)
        {
            last = at + place as u64 + 1;
        }
        let count = bytes.len();
        at += count as u64;
        reader.consume(count);
    }
}

/// Counts what is read.
struct Counted<R> {
    inner: R,
    at: u64,
}

impl<R: Read> Counted<R> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// Shows so many bytes to `each`, a piece at a time.
    fn skim(&mut self, count: u64, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = [0; 8192];
        let mut left = count;
        while left > 0 {
            let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
            self.inner.read_exact(&mut buffer[..most])?;
            each(&buffer[..most]);
            left -= most as u64;
        }
        self.at += count;
        Ok(())
    }
}
