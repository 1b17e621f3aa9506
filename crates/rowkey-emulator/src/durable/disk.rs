//! Rows in the embedded store, fjall. Data in its journal survives the end of the process as soon as
//! the operating system has received it. Later the data moves to sorted files.

use std::collections::HashSet;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use bytes::Bytes;
use fjall::config::{CompressionPolicy, FilterPolicy};
use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable as _, Slice,
};

use super::journal::{Change, Space, Unit};

/// The most bytes kept in memory before they move to a sorted file.
const MEMORY: u64 = 16 * 1024 * 1024;
/// The most bytes in journals, which are read when the server starts.
const JOURNALS: u64 = 192 * 1024 * 1024;
/// The size of the read cache in bytes. Small, because no data is read twice.
const CACHE: u64 = 1024 * 1024;

/// The embedded store.
pub(super) struct Disk {
    database: Database,
    bytes: Keyspace,
    names: Keyspace,
    rows: Keyspace,
}

impl Disk {
    /// Opens or creates the store in its own directory.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let database = Database::builder(directory)
            .cache_size(CACHE)
            .max_journaling_size(JOURNALS)
            .worker_threads(1)
            .manual_journal_persist(true)
            .open()
            .map_err(to_io)?;
        let space = |name| {
            let options = || {
                // Rows are read once, all of them and in order, so filters would not help.
                KeyspaceCreateOptions::default()
                    .max_memtable_size(MEMORY)
                    .filter_policy(FilterPolicy::disabled())
                    .data_block_compression_policy(CompressionPolicy::disabled())
            };
            database.keyspace(name, options).map_err(to_io)
        };
        let (bytes, names, rows) = (space("bytes")?, space("names")?, space("rows")?);
        Ok(Self { database, bytes, names, rows })
    }

    /// Passes all rows of a space to `each`, in the order of their keys.
    pub(super) fn read(
        &self,
        space: Space,
        mut each: impl FnMut(&[u8], Bytes) -> io::Result<()>,
    ) -> io::Result<()> {
        for row in self.space(space).iter() {
            let (key, value) = row.into_inner().map_err(to_io)?;
            each(&key, value.into())?;
        }
        Ok(())
    }

    fn space(&self, space: Space) -> &Keyspace {
        match space {
            Space::Bytes => &self.bytes,
            Space::Names => &self.names,
            Space::Rows => &self.rows,
        }
    }
}

impl Disk {
    /// The lowest number that the next batch can have.
    pub(super) fn next_number(&self) -> u64 {
        self.database.seqno()
    }

    /// Hands units over to the operating system, each completely or not at all.
    pub(super) fn store(&self, units: Vec<Unit>) -> io::Result<()> {
        let mut changes: Vec<Change> = units.into_iter().flat_map(|unit| unit.changes).collect();
        // A batch may contain each key only once. The last change counts.
        let mut seen = HashSet::with_capacity(changes.len());
        let is_alone = changes.len() == 1;
        let mut batch = OwnedWriteBatch::with_capacity(self.database.clone(), changes.len());
        while let Some(Change { space, key, value }) = changes.pop() {
            let key = Slice::from(key);
            if !is_alone && !seen.insert((space, key.clone())) {
                continue;
            }
            let space = self.space(space);
            match value {
                Some(value) => batch.insert(space, key, value),
                None => batch.remove(space, key),
            }
        }
        batch.durability(Some(PersistMode::Buffer)).commit().map_err(to_io)
    }

    /// Syncs to the disk everything that was written.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.database.persist(PersistMode::SyncData).map_err(to_io)
    }

    /// Removes a row that does not exist, to test whether the disk accepts writes.
    pub(super) fn attempt(&self) -> io::Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
        batch.remove(&self.names, [0_u8]);
        batch.commit().map_err(to_io)
    }

    /// Removes up to `most` rows of an owner; returns whether none is left.
    pub(super) fn sweep(&self, space: Space, owner: u64, most: usize) -> io::Result<bool> {
        let keyspace = self.space(space);
        let mut batch = self.database.batch();
        for row in self.database.snapshot().prefix(keyspace, owner.to_be_bytes()).take(most) {
            batch.remove(keyspace, row.key().map_err(to_io)?);
        }
        let is_done = batch.len() < most;
        batch.durability(Some(PersistMode::Buffer)).commit().map_err(to_io)?;
        Ok(is_done)
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

fn to_io(error: fjall::Error) -> io::Error {
    match error {
        fjall::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// Restricts a file that is created to its owner.
pub(super) fn keep_private(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let _ = options;
}
