//! Reads the data of Azurite 3.37, as it lies in the directory that its `--location` names.
//!
//! Azurite keeps its tables, and what describes queues and blobs, in databases of `LokiJS`: files of JSON, which it writes
//! some seconds after a change and when it ends. The contents of messages and blobs are ranges of files in two folders,
//! `__queuestorage__` and `__blobstorage__`. Its two databases of those files (`.._extent__.json`) say only their sizes,
//! and are not read.
//!
//! | module | contents |
//! |---|---|
//! | [`loki`] | the databases and their collections |
//! | [`extents`] | the ranges of files |
//! | [`values`] | instants, policies, service properties and leases as the databases have them |
//! | [`import`] | what has been read so far, and what cannot be taken over |
//! | [`tables`], [`queues`], [`blobs`] | the data of each service |

mod blobs;
mod extents;
mod import;
mod loki;
mod queues;
mod tables;
#[cfg(test)]
mod tests;
mod values;

use std::io;
use std::path::Path;

use rowkey_wire::edm::DateTime;

use crate::account::Rules;

use import::Import;
pub(crate) use import::Imported;

/// Reads all data in a directory, for the accounts with these names.
pub(crate) fn read(
    directory: &Path,
    names: &[&str],
    rules: Rules,
    now: DateTime,
) -> io::Result<Imported> {
    let mut import = Import::new(names, rules, now);
    let found = [
        tables::read(directory, &mut import)?,
        queues::read(directory, &mut import)?,
        blobs::read(directory, &mut import)?,
    ];
    if !found.contains(&true) {
        let message = format!(
            "{} has no data of Azurite: none of {}, {} and {} is there; name the directory that Azurite has as its \
             --location",
            directory.display(),
            tables::FILE,
            queues::FILE,
            blobs::FILE
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    import.finish(directory)
}
