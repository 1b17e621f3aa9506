//! The embedded store of a directory, which is closed and opened again when the disk refuses a
//! write.
//!
//! After a write that failed the store takes no other: what it wrote of the batch may be there in
//! part. So it is closed, what the batch left is cut off, and it is opened again. What was kept
//! before stays.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::directory;
use super::disk::Disk;
use super::journal::{Keep, Space, Unit};
use super::mark::{Extent, Marker};
use super::tail;

/// Bytes that there must be room for before changes are taken again.
const ROOM: usize = 1024 * 1024;
/// A file that is written to see whether there is room.
const PROBE: &str = "probe";

/// The embedded store of a directory.
#[derive(Debug)]
pub(super) struct Keeper {
    location: PathBuf,
    store: PathBuf,
    disk: Mutex<Slot>,
    marker: Mutex<Marker>,
}

/// The store, if it could be opened.
#[derive(Debug)]
struct Slot {
    disk: Option<Disk>,
    /// The least number of the batch that was begun last, unless it is kept.
    unkept: Option<u64>,
}

impl Slot {
    /// Does something that writes a batch, or none at all.
    fn write<T>(&mut self, write: impl FnOnce(&Disk) -> io::Result<T>) -> io::Result<T> {
        let disk = self.disk.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let number = disk.next_number();
        self.unkept.get_or_insert(number);
        let written = write(disk)?;
        self.unkept = None;
        Ok(written)
    }
}

impl Keeper {
    /// Opens a store whose journals reach as far as `extents` say.
    pub(super) fn open(location: &Path, store: PathBuf, extents: Vec<Extent>) -> io::Result<Self> {
        let marker = Mutex::new(Marker::start(location, &store, extents)?);
        let slot = Slot { disk: Some(Disk::open(&store)?), unkept: None };
        Ok(Self { location: location.to_owned(), store, disk: Mutex::new(slot), marker })
    }

    /// Reads from the store, if it is open.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Disk) -> io::Result<T>) -> io::Result<T> {
        read(self.slot().disk.as_ref().ok_or(io::ErrorKind::NotConnected)?)
    }

    /// Closes the store, takes back what was not kept, and opens it again.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let mut slot = self.slot();
        self.close(&mut slot)?;
        slot.disk = Some(Disk::open(&self.store)?);
        Ok(())
    }

    /// Closes the store. What it still had to write of a batch that failed is cut off with it.
    fn close(&self, slot: &mut Slot) -> io::Result<()> {
        // Nothing is followed meanwhile that is cut off.
        let mut marker = self.marker();
        drop(slot.disk.take());
        if let Some(number) = slot.unkept {
            tail::take_back(&self.store, number)?;
            slot.unkept = None;
            marker.start_over()?;
        }
        Ok(())
    }

    /// Whether the disk takes as many bytes and some more, and the store takes changes.
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
        directory::keep_private(&mut options);
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

impl Keep for Keeper {
    fn keep(&self, units: Vec<Unit>, always: bool) -> io::Result<()> {
        self.slot().write(|disk| {
            disk.keep(units)?;
            if always { disk.sync() } else { Ok(()) }
        })?;
        if always {
            let mut marker = self.marker();
            // It says less than it could until the next time, and nothing wrong.
            let _ = marker.follow().and_then(|()| marker.write(false));
        }
        Ok(())
    }

    fn sync_aside(&self) -> io::Result<()> {
        // The store would keep its journal locked. Journals before the newest were synced when they
        // were closed; what comes into one that is made meanwhile is synced the next time.
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

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut slot = self.slot();
        let is_whole = slot.disk.is_some() && slot.unkept.is_none();
        if self.close(&mut slot).is_ok() && is_whole {
            let mut marker = self.marker();
            // Without it, the next start takes less for certain.
            let _ = marker.follow().and_then(|()| marker.write(true));
        }
    }
}
