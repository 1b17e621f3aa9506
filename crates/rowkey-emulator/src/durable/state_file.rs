//! The contents of all accounts as one file: the rows that a directory would have, with a checksum.
//!
//! | part | bytes |
//! |---|---|
//! | what it is | 16: `rowkey state 01\n` |
//! | accounts | their number, and the name of each |
//! | rows | their number, and each as its space (1 byte), its key and its value, space by space in the order of the keys |
//! | checksum | 8: XXH3 of all bytes before it |

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::blobs::BlobRows;
use super::code::{Decoder, Encoder, invalid};
use super::journal::{Journal, Space};
use super::names::AccountJournal;
use super::open;
use super::progress::Progress;
use super::queues::QueueRows;
use super::recording::Recording;
use super::tables::TableRows;
use crate::account::guard::Recorder as _;
use crate::account::{AccountData, Rules};

/// How every file begins. The digits are the version of the rows.
const MAGIC: &[u8; 16] = b"rowkey state 01\n";

/// The length of the checksum.
const SUM: usize = 8;

/// The order of the spaces: rows need the names of their owners, and blobs their contents.
const SPACES: [Space; 3] = [Space::Names, Space::Bytes, Space::Rows];

/// Writes accounts and their contents.
pub(crate) fn write(accounts: &[(String, AccountData)]) -> Vec<u8> {
    let journal = Arc::new(Journal::new(Arc::new(Progress::new())));
    let next_owner = Arc::new(AtomicU64::new(1));
    for (name, data) in accounts {
        let AccountData { mut tables, mut queues, mut blobs } = data.clone();
        let own = AccountJournal::new(name, &journal, &next_owner);
        Recording::new(own.clone(), TableRows::default()).replace(&mut tables);
        Recording::new(own.clone(), QueueRows::default()).replace(&mut queues);
        Recording::new(own, BlobRows::default()).replace(&mut blobs);
    }
    let mut rows: BTreeMap<(u8, Vec<u8>), Bytes> = BTreeMap::new();
    for change in journal.take_all().into_iter().flat_map(|unit| unit.changes) {
        let place = SPACES.iter().position(|space| *space == change.space).unwrap_or(0);
        let key = (u8::try_from(place).unwrap_or(0), change.key);
        match change.value {
            Some(value) => drop(rows.insert(key, value)),
            None => drop(rows.remove(&key)),
        }
    }
    let bytes: usize = rows.iter().map(|((_, key), value)| key.len() + value.len() + 12).sum();
    let mut out = Encoder::with_capacity(bytes + 1024);
    out.slice(MAGIC).length(accounts.len());
    for (name, _) in accounts {
        out.text(name);
    }
    out.length(rows.len());
    for ((space, key), value) in &rows {
        out.byte(*space).bytes(key).bytes(value);
    }
    let mut file = out.finish();
    file.extend_from_slice(&xxh3_64(&file).to_le_bytes());
    file
}

/// Reads accounts and their contents.
pub(crate) fn read(file: &[u8], rules: Rules) -> io::Result<Vec<(String, AccountData)>> {
    let other = || invalid("it is no file of a server's state, or of another version");
    if !file.starts_with(MAGIC) {
        return Err(other());
    }
    let (covered, sum) =
        file.len().checked_sub(SUM).and_then(|end| file.split_at_checked(end)).ok_or_else(other)?;
    if sum != xxh3_64(covered).to_le_bytes() {
        return Err(invalid("it is damaged: its checksum is not that of its bytes"));
    }
    let mut rest = Decoder(covered.get(MAGIC.len()..).unwrap_or_default());
    let names = counted(&mut rest, |rest| Ok(rest.text()?.to_owned()))?;
    let rows = counted(&mut rest, |rest| {
        let space = SPACES.get(usize::from(rest.byte()?)).ok_or_else(other)?;
        Ok((*space, rest.bytes()?, rest.bytes()?))
    })?;
    let data = open::read_rows(&names, rules, &rows)?;
    Ok(names.into_iter().zip(data).collect())
}

/// Reads a number, and that many of something.
fn counted<'a, T>(
    rest: &mut Decoder<'a>,
    mut read: impl FnMut(&mut Decoder<'a>) -> io::Result<T>,
) -> io::Result<Vec<T>> {
    let count = rest.length()?;
    let mut all = Vec::with_capacity(count.min(rest.0.len()));
    for _ in 0..count {
        all.push(read(rest)?);
    }
    Ok(all)
}
