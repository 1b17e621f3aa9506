//! Repairs a damaged directory on request: first copies it, then keeps everything that is readable.
//!
//! Each batch of a journal holds whole rows, not differences, so the batches after a damaged one
//! are valid without it. Only the changes in the damaged batch are lost: rows keep their previous
//! values, and rows that it removed reappear. [`salvage`] restores or removes rows that depend on lost changes.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use super::check::{self, Found};
use super::directory::{self, Directory};
use super::disk::Disk;
use super::frames::{self, Scan};
use super::mark::{self, Mark, Marker};
use super::{salvage, tail};

/// The maximum length of a sorted file or a list in which a flipped bit is searched for.
const CORRECTED: usize = 32 * 1024;

/// The result of [`repair`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Repair {
    /// The copy of the directory before the repair; `None` if nothing was damaged.
    pub copy: Option<PathBuf>,
    /// Each damage and how it was handled, one line each.
    pub findings: Vec<String>,
    /// The size of the lost changes in bytes.
    pub lost: u64,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        match &self.copy {
            None => write!(f, "no damage found; nothing was changed"),
            Some(copy) => write!(
                f,
                "{} bytes of changes are lost; all files are in {} as they were before",
                self.lost,
                copy.display()
            ),
        }
    }
}

/// Repairs the directory of a server that does not start because its data is damaged.
///
/// All files are first copied to a directory `damaged-N` next to them, which takes as much space as
/// the data. A change with one flipped bit is corrected. An unreadable change is left out, and all
/// others are kept.
///
/// Fails, and changes nothing, when another server uses the directory, or when a damaged file
/// cannot be repaired. In that case a backup is needed.
///
/// ```
/// use rowkey_emulator::{Server, SyncPolicy, repair};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let directory = std::env::temp_dir().join(format!("rowkey-repair-{}", std::process::id()));
/// drop(Server::builder().location(&directory, SyncPolicy::default()).start().await?);
/// let repaired = repair(&directory)?;
/// assert!(repaired.findings.is_empty() && repaired.copy.is_none());
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok(()) }
/// ```
pub fn repair(location: &Path) -> io::Result<Repair> {
    let directory = Directory::take_to_repair(location)?;
    let within = |error: io::Error| {
        let message = format!("cannot repair {}: {error}", location.display());
        io::Error::new(error.kind(), message)
    };
    let store = directory.store_path();
    if !store.exists() {
        let why = "it has no data: the directory `store` is missing; use a backup";
        return Err(within(io::Error::new(io::ErrorKind::NotFound, why)));
    }
    try_repair(location, &store, directory.is_marked()).map_err(within).and_then(|repair| {
        directory.mark().map_err(within)?;
        Ok(repair)
    })
}

fn try_repair(location: &Path, store: &Path, is_marked: bool) -> io::Result<Repair> {
    let mark = Mark::read(location)?;
    let found = check::check(store, mark.as_ref())?;
    if found.damages.is_empty() && is_marked {
        return Ok(Repair { copy: None, findings: Vec::new(), lost: 0 });
    }
    let mut plan = Plan::default();
    if !is_marked {
        plan.findings.push("the file that identifies the directory: written again".to_owned());
    }
    plan.files(store, &found);
    for tree in 0..check::TREES {
        plan.tree(&store.join("keyspaces").join(tree.to_string()))?;
    }
    plan.journals(store, mark.as_ref(), &found)?;

    let copy = copy_aside(location)?;
    for (path, bytes) in &plan.files {
        directory::replace(&location.join("repair"), path, bytes)?;
    }
    match fs::remove_file(location.join(mark::NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let left = check::check(store, None)?;
    if let Some(damage) = left.damages.first() {
        let message = format!("{} is still damaged: {}", damage.path.display(), damage.what);
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    if let Some(torn) = &left.torn {
        torn.cut()?;
    }
    if plan.lost > 0 {
        let disk = Disk::open(store)?;
        let found = salvage::salvage(&disk)?;
        plan.findings.extend(found.findings);
        disk.store(vec![found.unit])?;
        disk.sync()?;
    }
    let left = check::check(store, None)?;
    Marker::start(location, store, left.extents)?;
    Ok(Repair { copy: Some(copy), findings: plan.findings, lost: plan.lost })
}

/// Files to write, with their new contents.
#[derive(Debug, Default)]
struct Plan {
    files: Vec<(PathBuf, Vec<u8>)>,
    findings: Vec<String>,
    lost: u64,
}

impl Plan {
    fn write(&mut self, path: &Path, bytes: Vec<u8>, what: &str) {
        self.findings.push(format!("{}: {what}", path.display()));
        self.files.push((path.to_owned(), bytes));
    }

    /// Plans the repair of files with fixed contents.
    fn files(&mut self, store: &Path, found: &Found) {
        for (name, bytes) in [("version", check::VERSION), ("lock", b"")] {
            let path = store.join(name);
            if found.damages.iter().any(|damage| damage.path == path) {
                self.write(&path, bytes.to_vec(), "written again");
            }
        }
    }

    /// Plans the repair of a tree: of its list of files, and of its sorted files.
    fn tree(&mut self, tree: &Path) -> io::Result<()> {
        let path = tree.join("current");
        let current = check::read(&path)?.unwrap_or_default();
        let parsed = check::parse_current(&current);
        let mut list = None;
        if let Some((name, sum)) = &parsed
            && let Some(mut bytes) = check::read(&tree.join(name))?
        {
            if xxh3_128(&bytes) == *sum {
                list = Some(bytes);
            } else if correct(&mut bytes, *sum) {
                self.write(&tree.join(name), bytes.clone(), "one bit is corrected");
                list = Some(bytes);
            }
        }
        let list = if let Some(list) = list {
            list
        } else {
            // The file itself is damaged, or names the wrong list.
            let (number, bytes) = whole_list(tree, parsed.map(|(_, sum)| sum))?;
            let sum = xxh3_128(&bytes).to_le_bytes();
            let current = [&number.to_le_bytes()[..], &sum, &[0]].concat();
            self.write(&path, current, "written again");
            bytes
        };
        for (path, sum) in check::sorted(tree, &list)? {
            if check::checksum(&path)? == Some(sum) {
                continue;
            }
            let mut bytes = check::read(&path)?.unwrap_or_default();
            if !correct(&mut bytes, sum) {
                return Err(unrepairable(&path));
            }
            self.write(&path, bytes, "one bit is corrected");
        }
        Ok(())
    }

    fn journals(&mut self, store: &Path, mark: Option<&Mark>, found: &Found) -> io::Result<()> {
        let journals = tail::journals(store)?;
        for damage in &found.damages {
            let is_journal = damage.path.extension().is_some_and(|extension| extension == "jnl");
            if is_journal && !journals.iter().any(|(_, path)| *path == damage.path) {
                // The original length is known only if it was synced.
                let known = mark.iter().flat_map(|mark| &mark.extents);
                let known = known
                    .filter(|known| damage.path == store.join(format!("{}.jnl", known.journal)));
                self.lost += known.map(|known| known.scan.end as u64).sum::<u64>();
                self.write(
                    &damage.path,
                    Vec::new(),
                    "the file is missing, so all its changes are lost",
                );
            }
        }
        let mut last = None;
        for (journal, path) in journals {
            let bytes = fs::read(&path)?;
            let mut known = mark.iter().flat_map(|mark| &mark.extents);
            let known = known.find(|known| known.journal == journal).map(|known| known.scan);
            let mut readable = ReadableBatches::of(&bytes);
            if found.damages.iter().any(|damage| damage.path == path) {
                readable.order(last, known);
                self.findings
                    .extend(readable.findings.iter().map(|f| format!("{}: {f}", path.display())));
                self.lost += readable.lost;
                self.files.push((path, readable.batches.concat()));
            }
            last = readable.numbers.last().copied().or(last);
        }
        Ok(())
    }
}

/// The readable part of a journal.
#[derive(Debug, Default)]
struct ReadableBatches {
    batches: Vec<Vec<u8>>,
    numbers: Vec<u64>,
    findings: Vec<String>,
    lost: u64,
    end: usize,
}

impl ReadableBatches {
    fn of(bytes: &[u8]) -> Self {
        let bytes = &bytes[..frames::used(bytes)];
        let mut readable = Self { end: bytes.len(), ..Self::default() };
        let mut at = 0;
        while at < bytes.len() {
            if let Some(frame) = frames::frame(&bytes[at..]) {
                readable.take(&bytes[at..at + frame.len], frame.number);
                at += frame.len;
                continue;
            }
            let end = frames::next(bytes, at + 1, 0).unwrap_or(bytes.len());
            let mut damaged = bytes[at..end].to_vec();
            if frames::correct(&mut damaged)
                && let Some(frame) = frames::frame(&damaged)
            {
                readable.findings.push(format!("one bit of the change at byte {at} is corrected"));
                readable.take(&damaged, frame.number);
            } else {
                let lost = end - at;
                readable.findings.push(format!(
                    "{lost} bytes of changes at byte {at} are unreadable and removed"
                ));
                readable.lost += lost as u64;
            }
            at = end;
        }
        readable
    }

    fn take(&mut self, batch: &[u8], number: u64) {
        self.batches.push(batch.to_vec());
        self.numbers.push(number);
    }

    /// Corrects batch numbers that are out of order. The contents of such a batch are valid,
    /// because they have their own checksum.
    fn order(&mut self, before: Option<u64>, known: Option<Scan>) {
        let is_as_known = known.is_some_and(|known| self.scan() == known);
        if self.lost == 0 && is_as_known {
            return;
        }
        let has_all = self.lost == 0 && known.is_some();
        if let Some(known) = known {
            if known.end > self.end {
                let lost = known.end - self.end;
                self.lost += lost as u64;
                let at = self.end;
                self.findings.push(format!("{lost} bytes of changes after byte {at} are missing"));
            } else if known.end == self.end
                && self.lost == 0
                && let Some(last) = self.numbers.len().checked_sub(1)
            {
                self.set(last, known.last);
            }
        }
        let numbers = self.numbers.clone();
        for (index, number) in numbers.iter().copied().enumerate() {
            let previous = index.checked_sub(1).map(|index| self.numbers[index]).or(before);
            // If no batch is missing but the numbers differ from those written, and the first
            // number does not directly precede the second, the first is most likely the wrong one.
            let follows = previous.is_none_or(|previous| previous < number);
            let next = numbers[index + 1..].iter().copied().find(|next| previous < Some(*next));
            let is_apart = has_all && previous.is_none() && next.is_some_and(|n| n != number + 1);
            if follows && next.is_none_or(|next| number < next) && !is_apart {
                continue;
            }
            let fitting = match (previous, next) {
                (Some(previous), _) => previous + 1,
                (None, Some(next)) => next.saturating_sub(1),
                (None, None) => continue,
            };
            if next.is_none_or(|next| fitting < next) {
                self.set(index, fitting);
            }
        }
    }

    /// Scans the batches that are kept.
    fn scan(&self) -> Scan {
        let bytes = self.batches.concat();
        let mut scan = Scan::default();
        while scan.step(&bytes) {}
        scan
    }

    fn set(&mut self, index: usize, number: u64) {
        if self.numbers[index] != number {
            frames::renumber(&mut self.batches[index], number);
            self.numbers[index] = number;
            self.findings.push(format!("the number of change {index} is corrected"));
        }
    }
}

/// Flips the one bit that makes the bytes match a checksum.
fn correct(bytes: &mut [u8], sum: u128) -> bool {
    if bytes.len() > CORRECTED {
        return false;
    }
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        if xxh3_128(bytes) == sum {
            return true;
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    false
}

/// The newest list that matches the checksum, or otherwise the newest whose sorted files are all
/// intact.
fn whole_list(tree: &Path, sum: Option<u128>) -> io::Result<(u64, Vec<u8>)> {
    let mut lists = Vec::new();
    for entry in fs::read_dir(tree)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix('v'));
        if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
            lists.push((number, fs::read(path)?));
        }
    }
    lists.sort_unstable();
    if let Some(list) = lists.iter().find(|(_, bytes)| Some(xxh3_128(bytes)) == sum) {
        return Ok(list.clone());
    }
    for (number, bytes) in lists.into_iter().rev() {
        let Ok(files) = check::sorted(tree, &bytes) else { continue };
        let is_whole = |(path, sum): &(PathBuf, u128)| {
            check::checksum(path).is_ok_and(|found| found == Some(*sum))
        };
        if files.iter().all(is_whole) {
            return Ok((number, bytes));
        }
    }
    Err(unrepairable(&tree.join("current")))
}

fn unrepairable(path: &Path) -> io::Error {
    let message = format!(
        "{} is damaged and cannot be restored from other files; nothing was changed; use a backup",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Copies all files to a new directory next to them.
fn copy_aside(location: &Path) -> io::Result<PathBuf> {
    for number in 1_u32.. {
        let copy = location.join(format!("damaged-{number}"));
        match directory::create_private(&copy) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        for entry in fs::read_dir(location)? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with("damaged-") {
                copy_all(&entry.path(), &copy.join(name))?;
            }
        }
        return Ok(copy);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        // A new journal is 64 MiB of zeros, so only the used part is copied.
        let bytes = fs::read(from)?;
        fs::write(to, &bytes[..frames::used(&bytes)])?;
        let file = fs::OpenOptions::new().write(true).open(to)?;
        file.set_len(bytes.len() as u64)?;
        return file.sync_all();
    }
    directory::create_private(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
