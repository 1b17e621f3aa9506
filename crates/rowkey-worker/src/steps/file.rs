//! Moves a file: an interruption never loses it, and another run finishes the move.
//!
//! At any time the content is at the source, at the target, or, on one file system, at both as one file. A
//! copy to another file system has a temporary name until it is complete.

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};

use rowkey_client::{Error, ErrorKind, Result};
use tokio::fs;
use tokio::io::{self, AsyncReadExt as _};

#[cfg(test)]
mod tests;

const OPERATION: &str = "MoveFile";

/// How often to look again when another run moves the same file concurrently.
const MAX_LOOKS: u32 = 4;

/// Why a move stops.
enum MoveError {
    Failed(io::Error),
    /// It cannot be moved in the current state.
    Refused(Error),
    /// Another run was faster; look again.
    Raced,
}

impl From<io::Error> for MoveError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// How the content gets its new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoveMethod {
    /// By a copy, as between file systems.
    Copy,
    /// By a hard link if possible, otherwise by a copy.
    Link,
}

/// Moves the file, unless that is already done.
pub(super) async fn move_file(from: &Path, to: &Path) -> Result<()> {
    move_by(MoveMethod::Link, from, to).await
}

async fn move_by(method: MoveMethod, from: &Path, to: &Path) -> Result<()> {
    let mut looks = 1;
    let error = loop {
        match try_move(method, from, to).await {
            Ok(()) => return Ok(()),
            Err(MoveError::Raced) if looks < MAX_LOOKS => looks += 1,
            Err(MoveError::Raced) => {
                break Error::refused(ErrorKind::Conflict, "other runs are moving the same file");
            }
            Err(MoveError::Refused(error)) => break error,
            Err(MoveError::Failed(error)) => {
                // Paths may be confidential, and messages may be logged.
                let what = "the file system failed: see the source of this error";
                break Error::refused(kind(&error), what).advise("").with_source(error);
            }
        }
    };
    Err(error.of(OPERATION, ""))
}

fn kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Auth,
        io::ErrorKind::InvalidFilename | io::ErrorKind::NotADirectory => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    }
}

async fn try_move(method: MoveMethod, from: &Path, to: &Path) -> Result<(), MoveError> {
    let may_have_copied = match (length(from).await?, length(to).await?) {
        (Some(_), None) => create_target(method, from, to).await? == MoveMethod::Copy,
        (None, Some(_)) => return remove_leftovers(to).await,
        (None, None) => {
            let what = "neither the source nor the target exists";
            return Err(MoveError::Refused(Error::refused(ErrorKind::NotFound, what)));
        }
        (Some(_), Some(_)) if is_one_entry(from, to).await? => {
            let what = "the source and the target are one file";
            return Err(MoveError::Refused(Error::refused(ErrorKind::Invalid, what)));
        }
        // An earlier run stopped before it removed the source.
        (Some(a), Some(b)) if a == b && is_same(from, to).await? => true,
        (Some(_), Some(_)) => {
            let error = Error::refused(ErrorKind::AlreadyExists, "the target is another file");
            return Err(MoveError::Refused(error.advise("move it away, or choose another target")));
        }
    };
    if may_have_copied {
        remove_leftovers(to).await?;
    }
    // The target's name must be on the disk before the source's name is removed.
    sync_folder(to).await?;
    remove(from).await?;
    sync_folder(from).await?;
    Ok(())
}

async fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// The length of the file; `None` if it does not exist.
async fn length(path: &Path) -> Result<Option<u64>, MoveError> {
    match fs::symlink_metadata(path).await {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
        Ok(_) => {
            let error = Error::refused(ErrorKind::Invalid, "the path is not a regular file");
            Err(MoveError::Refused(error.advise("move files only, not folders or links")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives the content the target's name without overwriting another file; returns the method used.
async fn create_target(
    method: MoveMethod,
    from: &Path,
    to: &Path,
) -> Result<MoveMethod, MoveError> {
    if method == MoveMethod::Link {
        match fs::hard_link(from, to).await {
            Ok(()) => return Ok(MoveMethod::Link),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(MoveError::Raced);
            }
            // Another file system, or one without links. A missing file is detected below.
            Err(_) => {}
        }
    }
    let part = part(to)?;
    let copied = copy(from, &part, to).await;
    // A complete part is now linked under its final name, and an incomplete one is useless.
    remove(&part).await?;
    copied.map(|()| MoveMethod::Copy)
}

/// Copies the file under a temporary name, and renames it to the target when it is complete.
async fn copy(from: &Path, part: &Path, to: &Path) -> Result<(), MoveError> {
    let source = fs::File::open(from).await.map_err(raced)?;
    let before = source.metadata().await?;
    let mut target = fs::File::create_new(part).await?;
    io::copy_buf(&mut io::BufReader::with_capacity(1 << 20, source), &mut target).await?;
    target.sync_all().await?;
    fs::set_permissions(part, before.permissions()).await.map_err(raced)?;
    let after = fs::metadata(from).await.map_err(raced)?;
    if (before.len(), before.modified()?) != (after.len(), after.modified()?) {
        let what = "the file was changed while it was copied";
        return Err(MoveError::Refused(Error::refused(ErrorKind::Conflict, what)));
    }
    match fs::hard_link(part, to).await {
        Ok(()) => Ok(()),
        // The part was removed as a leftover, or the target's name is taken: another run may have been
        // faster.
        Err(error) if is_race(&error) => Err(MoveError::Raced),
        // Without hard links, a file that is created between this check and the renaming is replaced.
        Err(_) if fs::try_exists(to).await? => Err(MoveError::Raced),
        Err(_) => fs::rename(part, to).await.map_err(raced),
    }
}

fn is_race(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound)
}

fn raced(error: io::Error) -> MoveError {
    if error.kind() == io::ErrorKind::NotFound { MoveError::Raced } else { error.into() }
}

/// A temporary name beside the target that no other run uses.
fn part(to: &Path) -> Result<PathBuf, MoveError> {
    let random = RandomState::new().hash_one(to);
    Ok(to.with_file_name(format!("{}{random:016x}", part_head(to)?)))
}

/// The prefix of the names of incomplete copies.
fn part_head(to: &Path) -> Result<String, MoveError> {
    let Some(name) = to.file_name() else {
        let what = "the target's path does not end with a name";
        return Err(MoveError::Refused(Error::refused(ErrorKind::Invalid, what)));
    };
    Ok(format!(".{}.part-", name.to_string_lossy()))
}

/// Removes incomplete copies of interrupted runs. A run that is still copying fails to link its copy, looks
/// again and finds the move done.
async fn remove_leftovers(to: &Path) -> Result<(), MoveError> {
    let head = part_head(to)?;
    let mut entries = fs::read_dir(folder(to)).await?;
    while let Some(entry) = entries.next_entry().await? {
        let name = entry.file_name();
        let is_part = name.to_string_lossy().strip_prefix(&*head).is_some_and(|random| {
            random.len() == 16 && random.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        if is_part {
            remove(&entry.path()).await?;
        }
    }
    Ok(())
}

/// Returns whether both paths lead to the same folder entry: by links, `..` or the case of letters.
async fn is_one_entry(from: &Path, to: &Path) -> Result<bool, MoveError> {
    let from = fs::canonicalize(from).await.map_err(raced)?;
    Ok(from == fs::canonicalize(to).await.map_err(raced)?)
}

/// Returns whether two files of the same length have the same content.
async fn is_same(a: &Path, b: &Path) -> Result<bool, MoveError> {
    let mut a = fs::File::open(a).await.map_err(raced)?;
    let mut b = fs::File::open(b).await.map_err(raced)?;
    let (mut of_a, mut of_b) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        let read = a.read(&mut of_a).await?;
        if read == 0 {
            return Ok(b.read(&mut of_b).await? == 0);
        }
        match b.read_exact(&mut of_b[..read]).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            result => result?,
        };
        if of_a[..read] != of_b[..read] {
            return Ok(false);
        }
    }
}

/// Makes sure that the names in the folder are on the disk. Only Unix can open a folder for that.
async fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        fs::File::open(folder(path)).await?.sync_all().await?;
    }
    Ok(())
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
