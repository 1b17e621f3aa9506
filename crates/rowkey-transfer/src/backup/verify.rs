//! Whether a backup is whole.

use std::io;

use super::file::FileDecoder;
use super::manifest::{BackupFile, Manifest};
use crate::error::{Error, Result};

impl Manifest {
    /// Reads all files, and returns the first error of each that is not as the manifest says: missing, shorter or longer, with
    /// other bytes, or with rows that cannot be read. Empty if the backup is whole. `open` opens a file by its name.
    ///
    /// ```
    /// use std::io;
    ///
    /// use rowkey::edm::DateTime;
    /// use rowkey_transfer::Compression;
    /// use rowkey_transfer::backup::{FileEncoder, Manifest};
    ///
    /// let file = FileEncoder::new(Vec::new(), "staff-00000.jsonl", Compression::None)?;
    /// let (listed, bytes) = file.finish()?;
    /// let now: DateTime = "2026-11-20T12:34:56Z".parse()?;
    /// let manifest = Manifest::new("staff", now, now, vec![listed])?;
    /// assert!(manifest.verify(|_| Ok(&bytes[..])).is_empty());
    ///
    /// let lost = manifest.verify(|_| Err::<&[u8], _>(io::ErrorKind::NotFound.into()));
    /// assert_eq!(lost[0].file(), Some("staff-00000.jsonl"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify<R: io::Read>(&self, mut open: impl FnMut(&str) -> io::Result<R>) -> Vec<Error> {
        let mut verify = |file: &BackupFile| -> Result<()> {
            let input =
                open(&file.name).map_err(|error| Error::from(error).in_file(&*file.name))?;
            FileDecoder::new(input, file)?.try_for_each(|row| row.map(drop))
        };
        self.files.iter().filter_map(|file| verify(file).err()).collect()
    }
}
