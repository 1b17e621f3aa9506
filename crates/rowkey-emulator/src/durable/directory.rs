//! The lock, the ownership and the format of the data directory.
//!
//! A marker file identifies the directory as a server's and states its format. It is locked while
//! the server runs. Nothing is written before all of this has been checked.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::mark;

/// The name of the marker file.
const MARKER: &str = "rowkey-server";
/// The text in the marker file before the format number.
const TITLE: &str = "rowkey-server data, format ";
/// The supported format.
const FORMAT: u32 = 2;
/// The directory of the embedded store.
const STORE: &str = "store";
/// The name of that directory until it is complete.
const UNFINISHED: &str = "store.new";

/// A directory that this process has locked.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Locked until dropped.
    marker: File,
    is_marked: bool,
}

impl Directory {
    /// Opens and locks a directory that is a server's, empty or missing.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        Self::try_take(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot keep data in {}: {error}", path.display()))
        })
    }

    /// Opens and locks a server's directory even if its marker file is damaged.
    pub(super) fn take_to_repair(path: &Path) -> io::Result<Self> {
        let take = || {
            let mut options = OpenOptions::new();
            options.create(path.join(STORE).exists()).truncate(false).read(true).write(true);
            keep_private(&mut options);
            let mut marker = options.open(path.join(MARKER))?;
            lock(&marker)?;
            let is_marked = match check(&read_text(&mut marker)?) {
                Err(FormatError::Format(format)) => {
                    return Err(unknown(&FormatError::Format(format)));
                }
                checked => checked.is_ok(),
            };
            Ok(Self { path: path.to_owned(), marker, is_marked })
        };
        take().map_err(|error: io::Error| {
            io::Error::new(error.kind(), format!("cannot repair {}: {error}", path.display()))
        })
    }

    /// Whether the marker file was valid.
    pub(super) fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// Writes the marker file.
    pub(super) fn mark(&self) -> io::Result<()> {
        if self.is_marked {
            return Ok(());
        }
        let mut marker = &self.marker;
        marker.set_len(0)?;
        marker.seek(SeekFrom::Start(0))?;
        marker.write_all(format!("{TITLE}{FORMAT}\n").as_bytes())?;
        marker.sync_all()
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
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(unwritable)?;
            }
            create_private(path).map_err(unwritable)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        keep_private(&mut options);
        let mut marker = options.open(path.join(MARKER)).map_err(unwritable)?;
        lock(&marker)?;
        let text = read_text(&mut marker)?;
        let is_new = text.is_empty() && !path.join(STORE).exists();
        if !is_new {
            check(&text).map_err(|why| unknown(&why))?;
        }
        let directory = Self { path: path.to_owned(), marker, is_marked: !is_new };
        directory.mark()?;
        Ok(directory)
    }

    /// Returns the directory of the embedded store. If there is none, `make` creates one under a
    /// temporary name. If the process dies meanwhile, it never gets its final name.
    pub(super) fn store(&self, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        let store = self.store_path();
        if !store.exists() {
            if self.path.join(mark::NAME).exists() {
                return Err(refused(&format!(
                    "its data directory `{STORE}` is missing; nothing was changed; restore it, use \
                     a backup, or name another directory"
                )));
            }
            let unfinished = self.path.join(UNFINISHED);
            if unfinished.exists() {
                fs::remove_dir_all(&unfinished)?;
            }
            create_private(&unfinished)?;
            make(&unfinished)?;
            fs::rename(&unfinished, &store)?;
            sync(&self.path)?;
        }
        make_private(&store)?;
        Ok(store)
    }

    /// The path of the embedded store, if it exists.
    pub(super) fn store_path(&self) -> PathBuf {
        self.path.join(STORE)
    }
}

impl Drop for Directory {
    #[expect(clippy::incompatible_msrv, reason = "the feature needs Rust 1.90, as its store does")]
    fn drop(&mut self) {
        // Closing the file would not release the lock if a child process that is just starting has
        // inherited it.
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

/// The reason why a directory cannot be used.
enum FormatError {
    Format(u32),
    Text,
}

fn check(text: &str) -> Result<(), FormatError> {
    let format: Option<u32> =
        text.strip_prefix(TITLE).and_then(|number| number.trim_end().parse().ok());
    match format {
        Some(FORMAT) => Ok(()),
        Some(format) => Err(FormatError::Format(format)),
        None => Err(FormatError::Text),
    }
}

fn unknown(why: &FormatError) -> io::Error {
    refused(&match why {
        FormatError::Format(format) => format!(
            "its format is {format}, and this version of rowkey-server reads format {FORMAT} only; \
             nothing was changed; start the version that wrote it, or name another directory"
        ),
        FormatError::Text => format!(
            "its file `{MARKER}` does not contain a format; nothing was changed; name another \
             directory, or start with --repair if it is one of rowkey-server"
        ),
    })
}

/// Reads the marker file. Text that is not UTF-8 counts as empty.
fn read_text(marker: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    marker.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Creates a directory that only its owner can access.
pub(super) fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Restricts an existing directory to its owner.
fn make_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;

        if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
    }
    let _ = path;
    Ok(())
}

/// Restricts a file that is created to its owner.
pub(super) fn keep_private(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let _ = options;
}

/// Creates or replaces a file atomically, by renaming the file `new`.
pub(super) fn replace(new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    keep_private(&mut options);
    let mut file = options.open(new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, path)?;
    path.parent().map_or(Ok(()), sync)
}

/// Syncs a directory, on systems that support it.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory).map_or(Ok(()), |directory| directory.sync_all())
}

fn unwritable(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => io::Error::new(
            error.kind(),
            format!(
                "the directory is not writable ({error}); nothing was changed; permit writing, or \
                 name another directory"
            ),
        ),
        _ => error,
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
