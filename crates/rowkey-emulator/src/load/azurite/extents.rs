//! The contents of messages and blobs: ranges of files.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;

use super::loki::damaged;

/// A range of a file.
#[derive(Clone, Deserialize)]
pub(super) struct Chunk {
    id: String,
    offset: u64,
    pub(super) count: u64,
}

/// A folder of such files.
pub(super) struct Extents {
    folder: PathBuf,
    /// The file that was read last, its path and its length.
    open: Option<(String, File, u64)>,
}

impl Extents {
    pub(super) fn new(directory: &Path, folder: &str) -> Self {
        Self { folder: directory.join(folder), open: None }
    }

    /// The bytes of a range.
    pub(super) fn read(&mut self, chunk: &Chunk) -> io::Result<Bytes> {
        if chunk.count == 0 {
            return Ok(Bytes::new());
        }
        let path = self.folder.join(&chunk.id);
        let length =
            usize::try_from(chunk.count).map_err(|_| damaged(&path, "a range is too long"))?;
        // A name that leads out of the folder is not of Azurite.
        if !chunk.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(damaged(&self.folder, "a range names a file that Azurite does not make"));
        }
        let (file, end) = self.file(&chunk.id, &path)?;
        if chunk.offset.checked_add(chunk.count).is_none_or(|needed| needed > end) {
            return Err(damaged(&path, "it is shorter than the ranges that are read from it"));
        }
        let mut bytes = vec![0; length];
        let read =
            file.seek(SeekFrom::Start(chunk.offset)).and_then(|_| file.read_exact(&mut bytes));
        read.map_err(|error| unreadable(&path, &error))?;
        Ok(bytes.into())
    }

    fn file(&mut self, id: &str, path: &Path) -> io::Result<(&mut File, u64)> {
        let known = self.open.take().filter(|(open, ..)| open == id);
        let open = || -> io::Result<_> {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            Ok((id.to_owned(), file, length))
        };
        let (_, file, length) = self.open.insert(match known {
            Some(known) => known,
            None => open().map_err(|error| unreadable(path, &error))?,
        });
        Ok((file, *length))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> io::Error {
    damaged(path, &format!("cannot read it, which the databases refer to: {error}"))
}
