//! The lock, the ownership and the format of the data directory.
//!
//! A marker file identifies the directory as a server's and states its format. It is locked while
//! the server runs. Nothing is written before all of this has been checked.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Component, Path, PathBuf};

use super::disk::keep_private;
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

/// How the names of Azurite's files begin.
const AZURITE: [&str; 4] =
    ["__azurite_db_", "__blobstorage__", "__queuestorage__", "AzuriteConfig"];
/// Names of files that are no data, in lower case.
const HARMLESS: [&str; 6] =
    [".ds_store", ".gitignore", ".gitkeep", "desktop.ini", "lost+found", "thumbs.db"];

/// A directory that this process has locked.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Locked until dropped.
    marker: File,
}

impl Directory {
    /// Opens and locks a directory that is a server's or missing, or that has nothing but files that are no data,
    /// such as those `beside`.
    pub(super) fn take(path: &Path, beside: &[PathBuf]) -> io::Result<Self> {
        Self::try_take(path, beside).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot keep data in {}: {error}", path.display()))
        })
    }

    fn try_take(path: &Path, beside: &[PathBuf]) -> io::Result<Self> {
        if path.exists() {
            if !path.is_dir() {
                return Err(refused("it is not a directory; name one"));
            }
            if !path.join(MARKER).exists() {
                check_foreign(path, beside)?;
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
        if text.is_empty() && !path.join(STORE).exists() {
            marker.set_len(0)?;
            marker.seek(SeekFrom::Start(0))?;
            marker.write_all(format!("{TITLE}{FORMAT}\n").as_bytes())?;
            marker.sync_all()?;
        } else {
            check(&text)?;
        }
        Ok(Self { path: path.to_owned(), marker })
    }

    /// Returns the directory of the embedded store. If there is none, `make` creates one under a
    /// temporary name. If the process dies meanwhile, it never gets its final name.
    pub(super) fn store(&self, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        let store = self.path.join(STORE);
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
}

impl Drop for Directory {
    #[expect(clippy::incompatible_msrv, reason = "the feature needs Rust 1.90, as its store does")]
    fn drop(&mut self) {
        // Closing the file would not release the lock if a child process that is just starting has
        // inherited it.
        let _ = self.marker.unlock();
    }
}

/// Refuses a directory that has the data of another program.
fn check_foreign(path: &Path, beside: &[PathBuf]) -> io::Result<()> {
    if path.join(STORE).join("keyspaces").is_dir() {
        return Err(refused(&format!(
            "it is not a directory of rowkey-server: its file `{MARKER}` is missing; nothing was changed; \
             name another directory, or write the line `{TITLE}{FORMAT}` to this file if it is one of \
             rowkey-server"
        )));
    }
    let mut foreign = None;
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if AZURITE.iter().any(|start| text.starts_with(start)) {
            return Err(refused(&format!(
                "it is not a directory of rowkey-server: it has data of Azurite (`{text}`); nothing was changed; \
                 name another directory, and to take over the data name this one with --import-azurite \
                 (ServerBuilder::import_azurite) once"
            )));
        }
        let holds = resolved(&path.join(&name));
        let is_beside = || beside.iter().any(|file| resolved(file).starts_with(&holds));
        if is_own(&text) || !(is_harmless(&text) || is_beside()) {
            foreign = Some(text.into_owned());
        }
    }
    match foreign {
        None => Ok(()),
        Some(name) => Err(refused(&format!(
            "it is not a directory of rowkey-server, and not empty: it has `{name}`; nothing was changed; \
             name another directory"
        ))),
    }
}

/// Whether a file would be among the data of a server that keeps its data in `location`, where nothing else may
/// be written. Neither has to exist.
pub fn is_data_file(location: &Path, file: &Path) -> bool {
    let (location, file) = (resolved(location), resolved(file));
    let Ok(below) = file.strip_prefix(&location) else { return false };
    below.components().next().is_some_and(|name| is_own(&name.as_os_str().to_string_lossy()))
}

/// Whether the server uses this name in its directory.
fn is_own(name: &str) -> bool {
    name == MARKER || [STORE, mark::NAME].iter().any(|own| name.starts_with(own))
}

/// Whether a name is one of files that are no data: of file systems, desktops, version control, and logs, with
/// the endings that rotation gives them.
fn is_harmless(name: &str) -> bool {
    let lower = name.to_lowercase();
    let is_log = lower
        .split_once(".log")
        .is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with(['.', '-', '_']));
    is_log || HARMLESS.contains(&&*lower)
}

/// An absolute path without links, `.` and `..`, as far as the path exists.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut missing = Vec::new();
    let mut known = path.as_path();
    loop {
        if let Ok(known) = known.canonicalize() {
            let rest = missing.into_iter().rev();
            return rest.fold(known, |path: PathBuf, name| match name {
                Component::ParentDir => path.parent().map_or_else(|| path.clone(), Path::to_owned),
                name => path.join(name),
            });
        }
        let Some(last) = known.components().next_back() else { return path };
        missing.push(last);
        let Some(parent) = known.parent() else { return path };
        known = parent;
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

/// Refuses a directory of another format.
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
            "its file `{MARKER}` does not contain a format; nothing was changed; name another \
             directory, or write the line `{TITLE}{FORMAT}` to the file if it is one of rowkey-server"
        ))),
    }
}

/// Reads the marker file. Text that is not UTF-8 counts as empty.
fn read_text(marker: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    marker.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Creates a directory that only its owner can access.
fn create_private(path: &Path) -> io::Result<()> {
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
