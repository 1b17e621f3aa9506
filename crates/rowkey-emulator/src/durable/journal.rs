//! The queue of units to write, and the threads that write and sync them.
//!
//! Units are written in the order in which they were handed over. All units that are waiting are
//! written together, so that many requests share a write and a sync. If a write fails, no later
//! unit is written, and [`Progress`] reports the failure to all waiting requests, until memory has
//! been restored from disk: the disk always holds a prefix of the history.
//!
//! The policy decides which thread writes. A sync takes milliseconds, so a separate thread does it
//! while other requests are executed. Handing bytes to the operating system takes less time than
//! waking a thread and being woken by it, so the thread that answers a request does that itself.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tracing::error;

use super::policy::SyncPolicy;
use super::progress::{Phase, Progress};

/// The most rows without an owner that are removed at a time.
const SWEPT: usize = 1000;

/// A keyspace. Each has its own order and settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    /// The contents of blobs, in pieces.
    Bytes,
    /// The descriptions of accounts, tables, queues and containers.
    Names,
    /// Entities, messages, blobs.
    Rows,
}

/// A change to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) space: Space,
    pub(super) key: Vec<u8>,
    /// The new value; `None` if the row was deleted.
    pub(super) value: Option<Bytes>,
}

/// Changes that are written together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) changes: Vec<Change>,
    /// Deleted owners, whose rows are removed later.
    pub(super) swept: Vec<(Space, u64)>,
}

impl Unit {
    pub(super) fn put(&mut self, space: Space, key: Vec<u8>, value: impl Into<Bytes>) {
        self.changes.push(Change { space, key, value: Some(value.into()) });
    }

    pub(super) fn remove(&mut self, space: Space, key: Vec<u8>) {
        self.changes.push(Change { space, key, value: None });
    }
}

/// Storage for rows.
pub(super) trait RowStorage: Debug + Send + Sync {
    /// Writes units so that they survive the end of the process, each completely or not at all.
    /// With `always`, they also survive a loss of power.
    fn store(&self, units: Vec<Unit>, always: bool) -> io::Result<()>;

    /// Syncs to the disk everything that was written.
    fn sync(&self) -> io::Result<()>;

    /// The same without blocking writes meanwhile.
    fn sync_aside(&self) -> io::Result<()>;

    /// Removes up to `most` rows of an owner; returns whether none is left.
    fn sweep(&self, space: Space, owner: u64, most: usize) -> io::Result<bool>;
}

/// The units that are waiting to be written.
#[derive(Debug)]
pub(super) struct Journal {
    pending: Mutex<Pending>,
    arrived: Condvar,
    closing: Condvar,
    /// Locked while units are taken and written, so that they stay in order.
    turn: Mutex<()>,
    /// Units are left to the writer thread.
    is_apart: AtomicBool,
    /// Data was written after the last sync.
    is_ahead: AtomicBool,
    progress: Arc<Progress>,
}

#[derive(Debug, Default)]
struct Pending {
    units: Vec<Unit>,
    swept: VecDeque<(Space, u64)>,
    /// Whether the writer is idle.
    is_idle: bool,
    is_closing: bool,
}

/// The next task of the writer thread.
enum Work {
    Write,
    Sweep(Space, u64),
    End,
}

impl Journal {
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        Self {
            pending: Mutex::default(),
            arrived: Condvar::new(),
            closing: Condvar::new(),
            turn: Mutex::default(),
            is_apart: AtomicBool::new(true),
            is_ahead: AtomicBool::new(false),
            progress,
        }
    }

    /// Appends a unit; returns its number, or `None` if the unit is empty.
    pub(super) fn append(&self, unit: Unit) -> Option<u64> {
        if unit == Unit::default() {
            return None;
        }
        let mut pending = self.pending();
        let number = self.progress.issue();
        let wakes = self.is_apart.load(Ordering::Relaxed) || !unit.swept.is_empty();
        pending.swept.extend(&unit.swept);
        // After a failure, units are discarded until memory has been restored from disk.
        if self.progress.phase() != Phase::Failed {
            pending.units.push(unit);
        }
        let is_woken = wakes && std::mem::take(&mut pending.is_idle);
        drop(pending);
        if is_woken {
            self.arrived.notify_one();
        }
        Some(number)
    }

    /// Takes all units that were appended, where nothing writes them.
    pub(super) fn take_all(&self) -> Vec<Unit> {
        std::mem::take(&mut self.pending().units)
    }

    /// Discards the units that were not written, because memory has been restored from disk. The
    /// caller holds the locks of all stores, so that no unit is appended meanwhile.
    pub(super) fn take_back(&self, swept: Vec<(Space, u64)>) {
        let mut pending = self.pending();
        pending.units.clear();
        pending.swept = swept.into();
        self.progress.take_back();
    }

    /// Resumes after a failure: the disk accepts changes again.
    pub(super) fn open(&self) {
        // Under the lock, so that no thread that is about to wait misses it.
        let mut pending = self.pending();
        self.progress.open();
        pending.is_idle = false;
        drop(pending);
        self.arrived.notify_all();
    }

    /// Blocks writes while the guard is held.
    pub(super) fn pause(&self) -> MutexGuard<'_, ()> {
        self.turn()
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Work {
        let mut pending = self.pending();
        loop {
            let is_open = self.progress.phase() == Phase::Open;
            if is_open && !pending.units.is_empty() {
                return Work::Write;
            }
            if pending.is_closing {
                return Work::End;
            }
            if let Some((space, owner)) = pending.swept.front().filter(|_| is_open) {
                return Work::Sweep(*space, *owner);
            }
            pending.is_idle = true;
            pending = self.arrived.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes all units that have been appended.
    fn write_pending(&self, disk: &dyn RowStorage, always: bool) -> io::Result<()> {
        let _turn = self.turn();
        if self.progress.phase() != Phase::Open {
            return Ok(());
        }
        let units = std::mem::take(&mut self.pending().units);
        let count = units.len() as u64;
        if count == 0 {
            return Ok(());
        }
        disk.store(units, always)?;
        if !always {
            self.is_ahead.store(true, Ordering::Release);
        }
        self.progress.note_written(count);
        Ok(())
    }

    fn sweep(&self, disk: &dyn RowStorage, space: Space, owner: u64) -> io::Result<()> {
        let _turn = self.turn();
        // The deletion of an owner is written before its rows are removed.
        let is_due = self.progress.phase() == Phase::Open && self.pending().units.is_empty();
        if is_due && disk.sweep(space, owner, SWEPT)? {
            self.pending().swept.pop_front();
        }
        Ok(())
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the writer thread: writes new units, or those left to it, until the stop signal.
    fn write(&self, disk: &dyn RowStorage, always: bool) {
        loop {
            match self.next() {
                Work::Write => self.attempt(|| self.write_pending(disk, always)),
                Work::Sweep(space, owner) => self.attempt(|| self.sweep(disk, space, owner)),
                Work::End if self.progress.phase() == Phase::Open => {
                    return self.attempt(|| disk.sync());
                }
                Work::End => return,
            }
        }
    }

    /// Syncs at regular intervals.
    fn sync(&self, disk: &dyn RowStorage, every: Duration) {
        loop {
            let pending = self.pending();
            let waited = self.closing.wait_timeout_while(pending, every, |now| !now.is_closing);
            if waited.is_ok_and(|(pending, _)| pending.is_closing) {
                return;
            }
            self.attempt(|| {
                // A change without a waiting request, such as one whose connection was closed.
                self.write_pending(disk, false)?;
                if self.is_ahead.swap(false, Ordering::AcqRel) {
                    disk.sync_aside()?;
                }
                Ok(())
            });
        }
    }

    /// Runs a task. If it fails, nothing is written until memory has been restored from disk.
    fn attempt(&self, work: impl FnOnce() -> io::Result<()>) {
        let done = panic::catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|_| Err(io::Error::other("the embedded store panicked")));
        if let Err(error) = done
            && self.progress.fail()
        {
            error!(
                "the disk refuses a change: {error}; changes are refused until it takes them \
                 again, and all else is answered"
            );
        }
    }
}

/// The threads that write and sync. Dropping it syncs all units.
#[derive(Debug)]
pub(super) struct Writer {
    journal: Arc<Journal>,
    disk: Arc<dyn RowStorage>,
    policy: SyncPolicy,
    threads: Vec<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        journal: &Arc<Journal>,
        disk: &Arc<dyn RowStorage>,
        policy: SyncPolicy,
    ) -> io::Result<Self> {
        let (journal, disk) = (Arc::clone(journal), Arc::clone(disk));
        let mut writer = Self { journal, disk, policy, threads: Vec::new() };
        let always = policy == SyncPolicy::Always;
        writer.journal.is_apart.store(always, Ordering::Relaxed);
        writer.spawn(move |journal, disk| journal.write(disk, always))?;
        if let SyncPolicy::Interval(every) = policy {
            writer.spawn(move |journal, disk| journal.sync(disk, every))?;
        }
        Ok(writer)
    }

    /// Whether a separate thread writes the units, rather than the thread that waits for them.
    pub(super) fn is_apart(&self) -> bool {
        self.policy == SyncPolicy::Always
    }

    /// Writes the waiting units on this thread.
    pub(super) fn write_here(&self) {
        let always = self.policy == SyncPolicy::Always;
        self.journal.attempt(|| self.journal.write_pending(&*self.disk, always));
    }

    fn spawn(
        &mut self,
        work: impl Fn(&Journal, &dyn RowStorage) + Send + 'static,
    ) -> io::Result<()> {
        let (journal, disk) = (Arc::clone(&self.journal), Arc::clone(&self.disk));
        let thread = thread::Builder::new()
            .name("rowkey-durable".to_owned())
            .spawn(move || work(&journal, &*disk))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.journal.pending().is_closing = true;
        self.journal.arrived.notify_all();
        self.journal.closing.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps rows in memory. Tests can make it fail.
    #[derive(Debug, Default)]
    struct MemoryStorage {
        kept: Mutex<Vec<Unit>>,
        synced: Mutex<usize>,
        is_broken: AtomicBool,
    }

    impl RowStorage for MemoryStorage {
        fn store(&self, units: Vec<Unit>, always: bool) -> io::Result<()> {
            if self.is_broken.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.kept.lock().unwrap().extend(units);
            if always { self.sync() } else { Ok(()) }
        }

        fn sync(&self) -> io::Result<()> {
            *self.synced.lock().unwrap() = self.kept.lock().unwrap().len();
            Ok(())
        }

        fn sync_aside(&self) -> io::Result<()> {
            self.sync()
        }

        fn sweep(&self, space: Space, owner: u64, _: usize) -> io::Result<bool> {
            let mut unit = Unit::default();
            unit.swept.push((space, owner));
            self.store(vec![unit], false)?;
            Ok(true)
        }
    }

    fn unit(number: u8) -> Unit {
        let mut unit = Unit::default();
        unit.put(Space::Rows, vec![number], vec![number]);
        unit
    }

    fn started(policy: SyncPolicy) -> (Arc<MemoryStorage>, Arc<Journal>, Writer) {
        let disk = Arc::<MemoryStorage>::default();
        let journal = Arc::new(Journal::new(Arc::new(Progress::new())));
        let storage: Arc<dyn RowStorage> = disk.clone();
        let writer = Writer::start(&journal, &storage, policy).unwrap();
        (disk, journal, writer)
    }

    #[tokio::test]
    async fn all_units_are_written_in_order_before_the_writer_ends() {
        let hour = SyncPolicy::Interval(Duration::from_secs(3600));
        let (disk, journal, writer) = started(hour);
        // A writer that has not started yet would find the units and write them.
        while !journal.pending().is_idle {
            thread::yield_now();
        }
        for number in 0..100 {
            journal.append(unit(number));
        }
        assert!(disk.kept.lock().unwrap().is_empty(), "no request waits for them");
        writer.write_here();
        journal.progress.settled().await.unwrap();
        assert_eq!(*disk.kept.lock().unwrap(), (0..100).map(unit).collect::<Vec<_>>());
        assert_eq!(*disk.synced.lock().unwrap(), 0, "the hour is not over");
        journal.append(unit(100));
        drop(writer);
        assert_eq!(*disk.synced.lock().unwrap(), 101);
    }

    #[tokio::test]
    async fn acknowledged_units_are_synced_under_the_always_policy() {
        let (disk, journal, _writer) = started(SyncPolicy::Always);
        for number in 0..3 {
            journal.append(unit(number));
            journal.progress.settled().await.unwrap();
            assert_eq!(*disk.synced.lock().unwrap(), usize::from(number) + 1);
        }
    }

    #[tokio::test]
    async fn after_a_failed_write_none_follows_until_memory_matches_the_disk() {
        let (disk, journal, _writer) = started(SyncPolicy::Always);
        journal.append(unit(0));
        journal.progress.settled().await.unwrap();
        disk.is_broken.store(true, Ordering::Relaxed);
        journal.append(unit(1));
        assert!(journal.progress.settled().await.is_err());
        disk.is_broken.store(false, Ordering::Relaxed);
        journal.append(unit(2));
        assert!(journal.progress.settled().await.is_err());
        assert_eq!(*disk.kept.lock().unwrap(), [unit(0)]);
        assert!(journal.pending().units.is_empty(), "nothing piles up");
        journal.take_back(Vec::new());
        assert!(journal.progress.settled().await.is_ok());
        // Changes caused by the passage of time wait.
        journal.append(unit(3));
        journal.open();
        assert!(journal.progress.settled().await.is_ok());
        assert_eq!(*disk.kept.lock().unwrap(), [unit(0), unit(3)]);
    }

    #[tokio::test]
    async fn a_panic_of_the_store_is_a_failed_write() {
        #[derive(Debug)]
        struct Panics;

        impl RowStorage for Panics {
            fn store(&self, _: Vec<Unit>, _: bool) -> io::Result<()> {
                panic!("on purpose");
            }
            fn sync(&self) -> io::Result<()> {
                Ok(())
            }
            fn sync_aside(&self) -> io::Result<()> {
                Ok(())
            }
            fn sweep(&self, _: Space, _: u64, _: usize) -> io::Result<bool> {
                Ok(true)
            }
        }

        let journal = Arc::new(Journal::new(Arc::new(Progress::new())));
        let storage: Arc<dyn RowStorage> = Arc::new(Panics);
        let _writer = Writer::start(&journal, &storage, SyncPolicy::Always).unwrap();
        journal.append(unit(0));
        assert!(journal.progress.settled().await.is_err());
    }

    #[tokio::test]
    async fn unawaited_units_are_written_with_the_next_sync() {
        let (disk, journal, _writer) = started(SyncPolicy::Interval(Duration::from_millis(1)));
        journal.append(unit(0));
        journal.progress.settled().await.unwrap();
        assert_eq!(*disk.kept.lock().unwrap(), [unit(0)]);
    }

    #[tokio::test]
    async fn a_failed_synchronous_write_stops_later_writes() {
        let (disk, journal, writer) = started(SyncPolicy::Interval(Duration::from_secs(3600)));
        disk.is_broken.store(true, Ordering::Relaxed);
        journal.append(unit(0));
        writer.write_here();
        assert!(journal.progress.settled().await.is_err());
        disk.is_broken.store(false, Ordering::Relaxed);
        journal.append(unit(1));
        writer.write_here();
        drop(writer);
        assert!(disk.kept.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn orphaned_rows_are_swept_after_pending_writes() {
        let (disk, journal, writer) = started(SyncPolicy::Always);
        let mut gone = unit(0);
        gone.swept.push((Space::Rows, 7));
        journal.append(gone.clone());
        // The sweep follows on its own, or never if the writer ends first.
        while disk.kept.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        drop(writer);
        let mut swept = Unit::default();
        swept.swept.push((Space::Rows, 7));
        assert_eq!(*disk.kept.lock().unwrap(), [gone, swept]);
    }
}
