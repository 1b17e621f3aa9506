//! Whose directory it is, of which format, and that nobody else uses it.
//!
//! A file says that the directory is a server's, and of which format; it is locked as long as the
//! server runs. Nothing is written before all of that is known to be right.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The file that says what the directory is.
const MARKER: &str = "rowkey-server";
/// What it says before the number of the format.
const TITLE: &str = "rowkey-server data, format ";
/// The format that is written and read.
const FORMAT: u32 = 2;
/// The directory of the embedded store.
const STORE: &str = "store";
/// What it is called while it is being made.
const UNFINISHED: &str = "store.new";

/// A directory that nobody else uses.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Locked until this is dropped.
    marker: File,
}

impl Directory {
    /// Takes a directory that is a server's, or that is empty or not there.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        Self::try_take(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot keep data in {}: {error}", path.display()))
        })
    }

    fn try_take(path: &Path) -> io::Result<Self> {
        if path.exists() {
            if !path.is_dir() {
                return Err(refused("it is not a directory; name one"));
            }
            if !path.join(MARKER).exists()
                && let Some(entry) = fs::read_dir(path)?.next()
            {
                let name = entry?.file_name();
                return Err(refused(&format!(
                    "it is not a directory of rowkey-server, and not empty: it has `{}`; \
                     nothing was changed; name another directory",
                    name.display()
                )));
            }
        } else {
            fs::create_dir_all(path).map_err(unwritable)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let mut marker = options.open(path.join(MARKER)).map_err(unwritable)?;
        lock(&marker)?;
        let mut text = String::new();
        marker.read_to_string(&mut text)?;
        let store = path.join(STORE);
        if text.is_empty() && !store.exists() {
            marker.write_all(format!("{TITLE}{FORMAT}\n").as_bytes())?;
            marker.sync_all()?;
        } else {
            check(&text)?;
        }
        Ok(Self { path: path.to_owned(), marker })
    }

    /// Where the embedded store is. If there is none, `make` is told where to make one; one whose
    /// maker dies never gets its name.
    pub(super) fn store(&self, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        let store = self.path.join(STORE);
        if !store.exists() {
            let unfinished = self.path.join(UNFINISHED);
            if unfinished.exists() {
                fs::remove_dir_all(&unfinished)?;
            }
            make(&unfinished)?;
            fs::rename(&unfinished, &store)?;
            // Not all systems can sync a directory; those that can must.
            if let Ok(directory) = File::open(&self.path) {
                directory.sync_all()?;
            }
        }
        Ok(store)
    }
}

impl Drop for Directory {
    #[expect(clippy::incompatible_msrv, reason = "the feature needs Rust 1.90, as its store does")]
    fn drop(&mut self) {
        // Closing it would not do while a process that is just being started has it, too.
        let _ = self.marker.unlock();
    }
}

#[expect(clippy::incompatible_msrv, reason = "the feature needs Rust 1.90, as its store does")]
fn lock(marker: &File) -> io::Result<()> {
    marker.try_lock().map_err(|error| match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another server is using it; stop that one, or name another directory",
        ),
    })
}

fn check(text: &str) -> io::Result<()> {
    let format: Option<u32> =
        text.strip_prefix(TITLE).and_then(|number| number.trim_end().parse().ok());
    match format {
        Some(FORMAT) => Ok(()),
        Some(format) => Err(refused(&format!(
            "its format is {format}, and this version of rowkey-server reads format {FORMAT} only; \
             nothing was changed; start the version that wrote it, or name another directory"
        ))),
        None => Err(refused(&format!(
            "its file `{MARKER}` does not say which format it has; nothing was changed; name \
             another directory"
        ))),
    }
}

fn unwritable(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => io::Error::new(
            error.kind(),
            format!(
                "the server may not write there ({error}); nothing was changed; let it, or name \
                 another directory"
            ),
        ),
        _ => error,
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
