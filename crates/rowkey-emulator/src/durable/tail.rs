//! Handles the end of the embedded store's journal after a process or a machine died.
//!
//! The last batch may then be incomplete. It was not acknowledged, or not yet synced, and must be
//! removed. The store itself drops a truncated batch, but silently, and refuses to open with a
//! batch that is complete but garbled, which is normal after a loss of power. So the end is cut off
//! before the store is opened, the bytes are saved to a file, and both are logged. Everything else
//! is damage: see [`check`](super::check).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tracing::warn;

use super::disk;
use super::frames::{self, Scan};

/// The incomplete bytes at the end of the newest journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Torn {
    pub(super) path: PathBuf,
    pub(super) at: usize,
    pub(super) bytes: Vec<u8>,
}

impl Torn {
    /// Saves the bytes to a file, cuts them off, and logs it.
    pub(super) fn cut(&self) -> io::Result<()> {
        let Self { path, at, bytes } = self;
        let aside = aside(path, bytes);
        cut(path, *at)?;
        let aside = match aside {
            Ok(aside) => format!("kept in {}", aside.display()),
            // The bytes were not acknowledged or not yet synced; a full disk must not keep the
            // server from starting.
            Err(error) => format!("not kept elsewhere: {error}"),
        };
        warn!(
            "the end of the journal was torn, as a process or a machine leaves it that dies while \
             it writes: {} bytes of changes that were not written whole are cut from {} at byte \
             {at}, and {aside}",
            bytes.len(),
            path.display(),
        );
        Ok(())
    }
}

fn cut(path: &Path, at: usize) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(at as u64)?;
    file.sync_all()
}

/// Truncates the remains of a failed write: batches from `number` on, and an incomplete one.
pub(super) fn take_back(store: &Path, number: u64) -> io::Result<()> {
    let Some((_, path)) = journals(store)?.pop() else { return Ok(()) };
    let bytes = fs::read(&path)?;
    let mut scan = Scan::default();
    loop {
        let before = scan;
        if !scan.step(&bytes) {
            break;
        }
        if scan.last >= number {
            scan = before;
            break;
        }
    }
    if frames::used(&bytes) > scan.end { cut(&path, scan.end) } else { Ok(()) }
}

/// Writes bytes to a new file next to the journal.
fn aside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    disk::keep_private(&mut options);
    for number in 1_u32.. {
        let aside = path.with_extension(format!("jnl.torn-{number}"));
        match options.open(&aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => {
                let mut file = file?;
                let written = file.write_all(bytes).and_then(|()| file.sync_all());
                if written.is_err() {
                    fs::remove_file(&aside)?;
                }
                return written.map(|()| aside);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The journals and their numbers. Each was closed before the next was created.
pub(super) fn journals(store: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl"));
        if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Syncs the newest journal to the disk; `false` if it moved to sorted files meanwhile.
pub(super) fn sync_newest(store: &Path) -> io::Result<bool> {
    let Some((_, path)) = journals(store)?.pop() else { return Ok(false) };
    match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        journal => File::sync_data(&journal?).map(|()| true),
    }
}
