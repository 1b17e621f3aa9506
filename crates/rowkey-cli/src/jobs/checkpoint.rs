//! The position of a job in a file that only its user can read.
//!
//! The file is replaced at once, so that a program that is killed leaves the old or the new one.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rowkey::patterns::job::Checkpoint;
use tempfile::NamedTempFile;

use crate::error::{Error, Exit, Result};

/// Where a checkpoint is stored.
pub(super) struct CheckpointFile(PathBuf);

impl CheckpointFile {
    /// Reads the checkpoint if the file exists. Otherwise checks that it can be written.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<Checkpoint>)> {
        let file = Self(path.to_owned());
        match fs::read_to_string(path) {
            Ok(text) => match text.parse() {
                Ok(checkpoint) => Ok((file, Some(checkpoint))),
                Err(error) => Err(file.refused(error).into()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                file.temporary().map_err(|error| file.failed("written", &error))?;
                Ok((file, None))
            }
            Err(error) => Err(file.failed("read", &error)),
        }
    }

    /// The path, for messages.
    pub(super) fn shown(&self) -> impl std::fmt::Display {
        self.0.display()
    }

    /// Says that a job goes on.
    pub(super) fn tell_resumed(&self, checkpoint: &Checkpoint) {
        let entities = checkpoint.report().total.examined;
        let text = format!("rowkey: goes on from {}, after {entities} entities", self.shown());
        // The job does not depend on who reads it.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// The error of a checkpoint that this command cannot go on from.
    pub(super) fn refused(&self, error: rowkey::Error) -> rowkey::Error {
        let advice =
            "run the command that wrote it with the same flags, or remove the file to begin again";
        error.advise(advice).during(self.shown().to_string())
    }

    pub(super) fn store(&self, checkpoint: &Checkpoint) -> Result<()> {
        let cannot = |error: &io::Error| self.failed("written", error);
        let mut file = self.temporary().map_err(|error| cannot(&error))?;
        file.write_all(checkpoint.to_string().as_bytes()).map_err(|error| cannot(&error))?;
        // Otherwise a machine that loses its power may keep the name of the new file without its content.
        file.as_file().sync_all().map_err(|error| cannot(&error))?;
        file.persist(&self.0).map_err(|error| cannot(&error.error))?;
        Ok(())
    }

    /// Removes the file, if one was stored.
    pub(super) fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failed("removed", &error))
            }
            _ => Ok(()),
        }
    }

    /// A file beside it, whose mode is 0600 from the start.
    fn temporary(&self) -> io::Result<NamedTempFile> {
        let folder = self.0.parent().filter(|folder| !folder.as_os_str().is_empty());
        NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
    }

    fn failed(&self, what: &str, error: &io::Error) -> Error {
        let path = self.shown();
        Error::new(Exit::Failed, format!("the checkpoint {path} cannot be {what}: {error}"))
    }
}
