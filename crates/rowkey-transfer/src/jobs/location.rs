//! Where files are: a folder, or blobs of a container.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use rowkey_client::Container;
use tokio::sync::RwLock;
use tokio::task::spawn_blocking;

use crate::error::{Error, ErrorKind, Result};

/// A folder, or the blobs of a container whose names begin with a prefix.
///
/// ```
/// use rowkey_transfer::jobs::Location;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let location = Location::folder(folder.path());
/// location.write("notes.txt", "whole").await?;
/// assert_eq!(location.read("notes.txt").await?.as_deref(), Some(&b"whole"[..]));
/// location.remove("notes.txt").await?;
/// assert!(location.names().await?.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Location(Place);

#[derive(Clone)]
enum Place {
    /// Each write that runs holds the lock as a reader, even if the future of the write is dropped.
    Folder(PathBuf, Arc<RwLock<()>>),
    Blobs(Container, String),
}

impl Location {
    /// A folder. It is created, with those above it, when a file is written.
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self(Place::Folder(path.into(), Arc::default()))
    }

    /// The blobs of a container whose names begin with `prefix`, such as `backups/orders/`; the container must exist.
    pub fn container(container: &Container, prefix: impl Into<String>) -> Self {
        Self(Place::Blobs(container.clone(), prefix.into()))
    }

    /// Writes a file, or replaces it. A reader sees it whole or not at all.
    ///
    /// Blobs: costs one request.
    pub async fn write(&self, name: &str, content: impl Into<Bytes>) -> Result<()> {
        let content = content.into();
        let written = match &self.0 {
            Place::Folder(path, writes) => {
                let (folder, file) = (path.clone(), name.to_owned());
                let writes = Arc::clone(writes).read_owned().await;
                let write = move || {
                    let _writes = writes;
                    replace(&folder, &file, &content)
                };
                blocking(write).await
            }
            Place::Blobs(container, prefix) => {
                let put = container.blob(&format!("{prefix}{name}")).put(content);
                put.send().await.map(drop).map_err(Error::from)
            }
        };
        written.map_err(|error| self.about(name, error))
    }

    /// Reads a whole file; `None` if there is none.
    ///
    /// Blobs: costs one request.
    pub async fn read(&self, name: &str) -> Result<Option<Bytes>> {
        let read = match &self.0 {
            Place::Folder(path, _) => {
                let path = path.join(name);
                blocking(move || found(fs::read(path))).await.map(|read| read.map(Bytes::from))
            }
            Place::Blobs(container, prefix) => {
                let read = container.blob(&format!("{prefix}{name}")).get().await;
                read.map(|read| read.map(|read| read.bytes)).map_err(Error::from)
            }
        };
        read.map_err(|error| self.about(name, error))
    }

    /// Opens a file to read it in pieces. A blob is downloaded to a file without a name first.
    ///
    /// Fails if there is no such file. Blobs: costs one request, and one for each further 4 MiB.
    pub async fn open(&self, name: &str) -> Result<File> {
        let opened = match &self.0 {
            Place::Folder(path, _) => {
                let path = path.join(name);
                blocking(move || found(File::open(path))).await
            }
            Place::Blobs(container, prefix) => {
                download(container, &format!("{prefix}{name}")).await
            }
        };
        let opened = opened.map_err(|error| self.about(name, error))?;
        let missing = || Error::new(ErrorKind::Mismatch, "the file is missing; copy it there");
        opened.ok_or_else(|| self.about(name, missing()))
    }

    /// The names of all files, sorted; those in folders below are left out. None if the folder does not exist.
    ///
    /// Blobs: costs one request for each 5,000.
    pub async fn names(&self) -> Result<Vec<String>> {
        let mut names = match &self.0 {
            Place::Folder(path, _) => {
                let path = path.clone();
                blocking(move || files(&path))
                    .await
                    .map_err(|error| error.in_file(self.to_string()))?
            }
            Place::Blobs(container, prefix) => {
                let blobs = container.blobs().starting_with(prefix).stream();
                let names = blobs.map_ok(|blob| blob.name).try_collect().await;
                let names: Vec<_> =
                    names.map_err(|error| Error::from(error).in_file(self.to_string()))?;
                let inner = names.into_iter().filter_map(|name| {
                    let name = name.strip_prefix(prefix)?;
                    (!name.contains('/')).then(|| name.to_owned())
                });
                inner.collect()
            }
        };
        names.sort();
        Ok(names)
    }

    /// Names the file and the place of an error.
    pub(super) fn about(&self, name: &str, error: Error) -> Error {
        let place = match &self.0 {
            // With the separator at its end, unless it has no name.
            Place::Folder(path, _) => path.join("").display().to_string(),
            Place::Blobs(container, prefix) => format!("{}/{prefix}", container.name()),
        };
        error.in_file(name).in_place(place)
    }

    /// Removes a file, if there is one. Blobs: costs one request.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let removed = match &self.0 {
            Place::Folder(path, _) => {
                let path = path.join(name);
                blocking(move || found(fs::remove_file(path))).await.map(drop)
            }
            Place::Blobs(container, prefix) => {
                let blob = container.blob(&format!("{prefix}{name}"));
                blob.delete_if_exists().await.map(drop).map_err(Error::from)
            }
        };
        removed.map_err(|error| self.about(name, error))
    }
}

impl Location {
    /// Waits for writes whose futures were dropped, so that none adds a file afterwards.
    pub(super) async fn settle(&self) {
        if let Place::Folder(_, writes) = &self.0 {
            drop(writes.write().await);
        }
    }

    /// Removes a folder in which nothing is.
    pub(super) async fn remove_if_empty(&self) -> Result<()> {
        let Place::Folder(path, _) = &self.0 else { return Ok(()) };
        let path = path.clone();
        let remove = move || match fs::remove_dir(path) {
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        };
        blocking(remove).await.map_err(|error| error.in_file(self.to_string()))
    }
}

/// Runs what waits for the disk where it holds up no requests.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    // A panic is passed on.
    match spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(io::Error::from(io::ErrorKind::Interrupted).into()),
        },
    }
}

/// `None` if there is no such file.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Writes a file beside its place, and moves it there when it is on the disk. Other users cannot read it.
fn replace(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // An export removes what a program that was killed left by this name.
    let mut file = tempfile::Builder::new().prefix(&format!(".{name}.")).tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_data()?;
    file.persist(folder.join(name))?;
    Ok(())
}

fn files(folder: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = found(fs::read_dir(folder))? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        // A name that is no text is none of a backup.
        if !entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// Downloads a blob to a file without a name.
async fn download(container: &Container, name: &str) -> Result<Option<File>> {
    let Some(download) = container.blob(name).read().open().await? else { return Ok(None) };
    let mut blocks = download.stream();
    let mut file = blocking(tempfile::tempfile).await?;
    while let Some(block) = blocks.try_next().await? {
        file = blocking(move || file.write_all(&block).map(|()| file)).await?;
    }
    blocking(move || file.rewind().map(|()| Some(file))).await
}

impl fmt::Display for Location {
    /// The path of the folder, or the container and the prefix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Folder(path, _) => write!(f, "{}", path.display()),
            Place::Blobs(container, prefix) => write!(f, "{}/{prefix}", container.name()),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}
