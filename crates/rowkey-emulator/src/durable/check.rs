//! Checks that the files of the embedded store are intact, before the store opens them.
//!
//! The store itself deletes what it considers unfinished: the rest of a journal after a batch that
//! it cannot read, or all rows of a keyspace whose description is missing. So every byte is checked
//! first, without changing anything. Checksums in a list cover the sorted files, a checksum in the
//! file `current` covers the list, and each batch of a journal has its own checksum. The [`Mark`]
//! covers what the batches do not, and where journals end.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::code::{Decoder, invalid};
use super::frames::{self, Scan};
use super::mark::{Extent, Mark};
use super::tail::{self, Torn};

/// The contents of the store's file `version`.
const VERSION: &[u8] = b"FJL\x03";
/// The command that writes it, before its path.
const VERSION_COMMAND: &str = r"printf 'FJL\003' >";
/// The number of trees: the store's own, and one for each [`Space`](super::journal::Space).
const TREES: usize = 4;

/// A damaged part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) path: PathBuf,
    /// The position, if known.
    pub(super) at: Option<usize>,
    pub(super) what: String,
    pub(super) left: Left,
}

/// What a damage leaves of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Everything: the file is the same in all directories, and this command writes it.
    All(String),
    /// Of a journal, the bytes before the damage, with which the server would start.
    Before(usize),
    Nothing,
}

impl Damage {
    fn new(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), at: None, what: what.into(), left: Left::Nothing }
    }

    /// A missing journal.
    fn missing(path: &Path, what: &str) -> Self {
        Self { left: Left::Before(0), ..Self::new(path, what) }
    }

    /// A file that is the same in all directories.
    fn same(path: &Path, what: &str, command: &str) -> Self {
        let command = format!("{command} {}", in_shell(path));
        Self { left: Left::All(command), ..Self::new(path, what) }
    }
}

/// The result of a check.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) damages: Vec<Damage>,
    /// An incomplete end, which is not damage and is to be cut off.
    pub(super) torn: Option<Torn>,
    /// The length of each journal.
    pub(super) extents: Vec<Extent>,
}

/// A path as a word of a command: in quotes if it has more than letters, digits and `/._-`.
pub(super) fn in_shell(path: &Path) -> String {
    let path = path.to_string_lossy();
    let is_word = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    if path.chars().all(is_word) {
        return path.into_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

/// Checks all files of a store, without changing anything.
pub(super) fn check(store: &Path, mark: Option<&Mark>) -> io::Result<Found> {
    let mut found = Found::default();
    let path = store.join("version");
    match read(&path)? {
        Some(bytes) if bytes == VERSION => {}
        bytes => {
            let what = match bytes {
                Some(_) => "it does not contain the store's format",
                None => "it is missing",
            };
            found.damages.push(Damage::same(&path, what, VERSION_COMMAND));
        }
    }
    let path = store.join("lock");
    if !path.exists() {
        found.damages.push(Damage::same(&path, "it is missing", "touch"));
    }
    for tree in 0..TREES {
        check_tree(&store.join("keyspaces").join(tree.to_string()), &mut found.damages)?;
    }
    check_journals(store, mark, &mut found)?;
    Ok(found)
}

/// A sorted file and its checksum.
type Sorted = (PathBuf, u128);

/// Checks the description of a tree, and all of its sorted files.
fn check_tree(tree: &Path, damages: &mut Vec<Damage>) -> io::Result<()> {
    let path = tree.join("current");
    let Some(current) = read(&path)? else {
        damages.push(Damage::new(&path, "it is missing"));
        return Ok(());
    };
    let Some((list, sum)) = parse_current(&current) else {
        damages.push(Damage::new(&path, "it does not name the current list of files"));
        return Ok(());
    };
    let path = tree.join(list);
    let Some(bytes) = read(&path)? else {
        damages.push(Damage::new(&path, "it is missing, or the file `current` is wrong"));
        return Ok(());
    };
    if xxh3_128(&bytes) != sum {
        let what = "its checksum differs from the one in the file `current`";
        damages.push(Damage::new(&path, what));
        return Ok(());
    }
    for (path, sum) in sorted(tree, &bytes)? {
        match checksum(&path)? {
            Some(found) if found == sum => {}
            Some(_) => damages.push(Damage::new(&path, "its checksum is wrong")),
            None => damages.push(Damage::new(&path, "it is missing")),
        }
    }
    Ok(())
}

/// Parses the name and the checksum of the valid list.
pub(super) fn parse_current(bytes: &[u8]) -> Option<(String, u128)> {
    let mut read = Decoder(bytes);
    let list = format!("v{}", read.u64().ok()?);
    let sum = u128::from_le_bytes(read.fixed().ok()?);
    // The last byte is the type of the checksum.
    (read.0 == [0]).then_some((list, sum))
}

/// Parses a list of sorted files: an archive of named sections with a table of contents.
pub(super) fn sorted(tree: &Path, bytes: &[u8]) -> io::Result<Vec<Sorted>> {
    const TRAILER: usize = 4 + 1 + 1 + 16 + 8 + 8;
    let section = |at: u64, length: u64| {
        let at = usize::try_from(at).map_err(invalid)?;
        let rest = bytes.get(at..).ok_or_else(|| invalid("a section of a list is missing"))?;
        Decoder(rest).take(usize::try_from(length).map_err(invalid)?)
    };
    let trailer = bytes.len().checked_sub(TRAILER).ok_or_else(|| invalid("a list is too short"))?;
    let mut trailer = Decoder(&bytes[trailer + 22..]);
    let mut contents = Decoder(section(trailer.u64()?, trailer.u64()?)?);
    contents.take(4)?;
    let count = u32::from_le_bytes(contents.fixed()?);
    let mut tables = None;
    for _ in 0..count {
        let (at, length) = (contents.u64()?, contents.u64()?);
        let name = u16::from_le_bytes(contents.fixed()?);
        if contents.take(usize::from(name))? == b"tables" {
            tables = Some(section(at, length)?);
        }
    }
    let mut read = Decoder(tables.ok_or_else(|| invalid("a list does not name files"))?);
    let mut found = Vec::new();
    for _level in 0..read.byte()? {
        for _run in 0..read.byte()? {
            for _table in 0..u32::from_le_bytes(read.fixed()?) {
                let path = tree.join("tables").join(read.u64()?.to_string());
                read.byte()?;
                let sum = u128::from_le_bytes(read.fixed()?);
                read.u64()?;
                found.push((path, sum));
            }
        }
    }
    Ok(found)
}

/// The checksum of a file; `None` if it does not exist.
fn checksum(path: &Path) -> io::Result<Option<u128>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let (mut sum, mut piece) = (Xxh3::new(), vec![0; 256 * 1024]);
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(Some(sum.digest128()));
        }
        sum.update(&piece[..read]);
    }
}

fn check_journals(store: &Path, mark: Option<&Mark>, found: &mut Found) -> io::Result<()> {
    let journals = tail::journals(store)?;
    let known = mark.map_or(&[][..], |mark| &mark.extents);
    let is_there = |journal: u64| journals.iter().any(|(there, _)| *there == journal);
    let newest = journals.last().map(|(journal, _)| *journal);
    for extent in known {
        // The oldest journals are deleted once their contents have moved to sorted files.
        let may_be_gone = mark.is_some_and(|mark| !mark.is_final)
            && newest.is_some_and(|newest| newest > extent.journal)
            && !is_there(extent.journal.saturating_sub(1));
        if !is_there(extent.journal) && !may_be_gone {
            let path = store.join(format!("{}.jnl", extent.journal));
            found.damages.push(Damage::missing(&path, "it is missing"));
        }
    }
    if journals.is_empty() && known.is_empty() {
        found.damages.push(Damage::missing(&store.join("0.jnl"), "there is no journal"));
    }
    let mut last = None;
    for (index, (journal, path)) in journals.iter().enumerate() {
        if index > 0 && journals[index - 1].0 + 1 != *journal {
            let missing = store.join(format!("{}.jnl", journal - 1));
            found.damages.push(Damage::missing(&missing, "it is missing"));
        }
        let bytes = fs::read(path)?;
        let known = known.iter().find(|extent| extent.journal == *journal).map(|known| known.scan);
        let is_newest = index + 1 == journals.len();
        let scan = check_journal(path, &bytes, (last, known, is_newest), found);
        last = last.max((scan.end > 0).then_some(scan.last));
        found.extents.push(Extent { journal: *journal, scan });
    }
    Ok(())
}

/// Checks a journal, given the last batch number before it, its known length, and whether it is the
/// newest.
fn check_journal(
    path: &Path,
    bytes: &[u8],
    (last, known, is_newest): (Option<u64>, Option<Scan>, bool),
    found: &mut Found,
) -> Scan {
    let mut scan = Scan::default();
    let mut is_as_known = known.is_none_or(|known| known == scan);
    while scan.step(bytes) {
        is_as_known |= known == Some(scan);
    }
    let mut damage = |at: Option<usize>, what: String| {
        let left = Left::Before(at.unwrap_or(scan.end));
        found.damages.push(Damage { path: path.to_owned(), at, what, left });
    };
    if let (Some(last), Some(first)) = (last, frames::frame(bytes))
        && first.number <= last
    {
        damage(Some(0), "its first change does not follow those of the previous file".to_owned());
        return scan;
    }
    let used = frames::used(bytes);
    if used <= scan.end {
        match known {
            Some(known) if known.end > scan.end => {
                let what = format!("it ends there, and {} bytes were written", known.end);
                damage(Some(scan.end), what);
            }
            Some(_) if !is_as_known => {
                damage(None, "the order of its changes is not the one that was written".to_owned());
            }
            _ => {}
        }
        return scan;
    }
    let later = frames::next(&bytes[..used], scan.end + 1, scan.last);
    let is_synced = known.is_some_and(|known| known.end > scan.end);
    if is_newest && later.is_none() && !is_synced {
        if is_as_known {
            let torn = bytes[scan.end..used].to_vec();
            found.torn = Some(Torn { path: path.to_owned(), at: scan.end, bytes: torn });
        } else {
            damage(None, "the order of its changes is not the one that was written".to_owned());
        }
        return scan;
    }
    let what = match later {
        Some(later) => {
            let after = used - later;
            let lost = later - scan.end;
            format!("{lost} bytes of changes cannot be read, and {after} bytes of later ones can")
        }
        None if is_synced => format!(
            "{} bytes of changes cannot be read that were on the disk",
            used.max(known.map_or(0, |known| known.end)) - scan.end
        ),
        None => format!("{} bytes of changes cannot be read", used - scan.end),
    };
    damage(Some(scan.end), what);
    scan
}

/// Reads a small file; `None` if it does not exist.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some),
    }
}
