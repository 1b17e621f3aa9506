//! Owns the embedded store of a directory, and reopens it after a failed write.
//!
//! After a failed write the store accepts no more, because part of the batch may have been written.
//! So the store is closed, the incomplete batch is cut off, and the store is opened again. Earlier
//! batches are kept.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk::{self, Disk};
use super::journal::{RowStorage, Space, Unit};
use super::mark::{Extent, Marker};
use super::tail;

/// The minimum free space, in bytes, for accepting changes again.
const ROOM: usize = 1024 * 1024;
/// A file that is written to test for free space.
const PROBE: &str = "probe";

/// The embedded store of a directory.
#[derive(Debug)]
pub(super) struct DiskStorage {
    location: PathBuf,
    store: PathBuf,
    disk: Mutex<Slot>,
    marker: Mutex<Marker>,
}

/// The store, if it is open.
#[derive(Debug)]
struct Slot {
    disk: Option<Disk>,
    /// The lowest possible number of the batch that was started last, unless it was completed.
    unkept: Option<u64>,
}

impl Slot {
    /// Runs `write`, which writes one batch or none.
    fn write<T>(&mut self, write: impl FnOnce(&Disk) -> io::Result<T>) -> io::Result<T> {
        let disk = self.disk.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let number = disk.next_number();
        self.unkept.get_or_insert(number);
        let written = write(disk)?;
        self.unkept = None;
        Ok(written)
    }
}

impl DiskStorage {
    /// Opens a store whose journals have these lengths.
    pub(super) fn open(location: &Path, store: PathBuf, extents: Vec<Extent>) -> io::Result<Self> {
        let marker = Mutex::new(Marker::start(location, &store, extents)?);
        let slot = Slot { disk: Some(Disk::open(&store)?), unkept: None };
        Ok(Self { location: location.to_owned(), store, disk: Mutex::new(slot), marker })
    }

    /// Reads from the store, if it is open.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Disk) -> io::Result<T>) -> io::Result<T> {
        read(self.slot().disk.as_ref().ok_or(io::ErrorKind::NotConnected)?)
    }

    /// Closes the store, cuts off an incomplete batch, and opens the store again.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let mut slot = self.slot();
        self.close(&mut slot)?;
        slot.disk = Some(Disk::open(&self.store)?);
        Ok(())
    }

    /// Closes the store, and cuts off the batch that failed.
    fn close(&self, slot: &mut Slot) -> io::Result<()> {
        // Held so that the marker does not scan a truncated part.
        let mut marker = self.marker();
        drop(slot.disk.take());
        if let Some(number) = slot.unkept {
            tail::take_back(&self.store, number)?;
            slot.unkept = None;
            marker.start_over()?;
        }
        Ok(())
    }

    /// Whether the disk has room for `bytes` and a margin, and the store accepts changes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        if self.probe(bytes).is_err() {
            return false;
        }
        let attempt = || self.slot().write(Disk::attempt);
        attempt().or_else(|_| self.reopen().and_then(|()| attempt())).is_ok()
    }

    fn probe(&self, bytes: usize) -> io::Result<()> {
        let path = self.location.join(PROBE);
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(true).write(true);
        disk::keep_private(&mut options);
        let piece = vec![0x55; ROOM];
        let written = options.open(&path).and_then(|mut file| {
            for _ in 0..=bytes / ROOM {
                file.write_all(&piece)?;
            }
            Ok(())
        });
        fs::remove_file(path).and(written)
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marker(&self) -> MutexGuard<'_, Marker> {
        self.marker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RowStorage for DiskStorage {
    fn store(&self, units: Vec<Unit>, always: bool) -> io::Result<()> {
        self.slot().write(|disk| {
            disk.store(units)?;
            if always { disk.sync() } else { Ok(()) }
        })?;
        if always {
            let mut marker = self.marker();
            // If this fails, the mark covers less until the next time, but is still correct.
            let _ = marker.follow().and_then(|()| marker.write(false));
        }
        Ok(())
    }

    fn sync_aside(&self) -> io::Result<()> {
        // A sync by the store would lock its journal. Older journals were synced when they were
        // closed; data in a journal created meanwhile is synced the next time.
        let mut marker = self.marker();
        let followed = marker.follow();
        if !tail::sync_newest(&self.store)? {
            // All of it has moved to sorted files meanwhile.
            drop(marker);
            self.sync()?;
            marker = self.marker();
        }
        let _ = followed.and_then(|()| marker.write(false));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.slot().write(Disk::sync)
    }

    fn sweep(&self, space: Space, owner: u64, most: usize) -> io::Result<bool> {
        self.slot().write(|disk| disk.sweep(space, owner, most))
    }
}

impl Drop for DiskStorage {
    fn drop(&mut self) {
        let mut slot = self.slot();
        let is_whole = slot.disk.is_some() && slot.unkept.is_none();
        if self.close(&mut slot).is_ok() && is_whole {
            let mut marker = self.marker();
            // Without it, the next start can detect less damage.
            let _ = marker.follow().and_then(|()| marker.write(true));
        }
    }
}
