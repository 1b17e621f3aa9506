//! Units on their way to the disk, and the threads that write and sync them.
//!
//! Units are written in the order in which they were handed over, and all that have come while
//! others were being written go together, so that many requests share a write and a sync. When one
//! cannot be written, none after it is, and [`Progress`] says so to everybody: what is on disk is
//! always the beginning of what happened.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tracing::error;

use super::policy::SyncPolicy;
use super::progress::Progress;

/// Rows that are removed in one go of those that nobody owns any more.
const SWEPT: usize = 1000;

/// A part of the rows: each has its own order and needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    /// The bytes of blobs, in pieces.
    Bytes,
    /// What describes accounts, tables, queues and containers.
    Names,
    /// Entities, messages, blobs.
    Rows,
}

/// A row that is new, changed or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) space: Space,
    pub(super) key: Vec<u8>,
    /// `None`: it is gone.
    pub(super) value: Option<Bytes>,
}

/// Changes that are kept together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) changes: Vec<Change>,
    /// Owners that are no more: their rows are removed when there is time for it.
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

/// Where rows are kept.
pub(super) trait Keep: Debug + Send + Sync {
    /// Keeps units so that they survive the process, each whole or not at all.
    fn keep(&self, units: Vec<Unit>) -> io::Result<()>;

    /// Forces what was kept to the disk itself.
    fn sync(&self) -> io::Result<()>;

    /// The same while more is being kept, which does not wait.
    fn sync_aside(&self) -> io::Result<()>;

    /// Removes up to `most` rows of an owner; says whether none is left.
    fn sweep(&self, space: Space, owner: u64, most: usize) -> io::Result<bool>;
}

/// Units that are waiting to be written.
#[derive(Debug)]
pub(super) struct Journal {
    pending: Mutex<Pending>,
    arrived: Condvar,
    closing: Condvar,
    /// Something was written and not synced since.
    is_ahead: AtomicBool,
    progress: Arc<Progress>,
}

#[derive(Debug, Default)]
struct Pending {
    units: Vec<Unit>,
    swept: VecDeque<(Space, u64)>,
    /// The writer has nothing to do.
    is_idle: bool,
    is_closing: bool,
}

/// What the writer does next.
enum Work {
    Keep(Vec<Unit>),
    Sweep(Space, u64),
    End,
}

impl Journal {
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        Self {
            pending: Mutex::default(),
            arrived: Condvar::new(),
            closing: Condvar::new(),
            is_ahead: AtomicBool::new(false),
            progress,
        }
    }

    /// Hands a unit over.
    pub(super) fn append(&self, unit: Unit) {
        if unit == Unit::default() {
            return;
        }
        let mut pending = self.pending();
        self.progress.issue();
        pending.swept.extend(&unit.swept);
        // Nobody takes it any more, and nobody is told that it was kept.
        if !self.progress.has_failed() {
            pending.units.push(unit);
        }
        let is_idle = std::mem::take(&mut pending.is_idle);
        drop(pending);
        if is_idle {
            self.arrived.notify_one();
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Work {
        let mut pending = self.pending();
        loop {
            if !pending.units.is_empty() {
                return Work::Keep(std::mem::take(&mut pending.units));
            }
            if pending.is_closing {
                return Work::End;
            }
            if let Some((space, owner)) = pending.swept.front() {
                return Work::Sweep(*space, *owner);
            }
            pending.is_idle = true;
            pending = self.arrived.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes what comes until it is told to end, or cannot.
    fn write(&self, disk: &dyn Keep, always: bool) -> io::Result<()> {
        loop {
            match self.next() {
                Work::Keep(units) => {
                    let count = units.len() as u64;
                    disk.keep(units)?;
                    if always {
                        disk.sync()?;
                    } else {
                        self.is_ahead.store(true, Ordering::Release);
                    }
                    self.progress.keep(count);
                }
                Work::Sweep(space, owner) => {
                    if disk.sweep(space, owner, SWEPT)? {
                        self.pending().swept.pop_front();
                    }
                }
                Work::End => return disk.sync(),
            }
        }
    }

    /// Syncs what was written, every so often.
    fn sync(&self, disk: &dyn Keep, every: Duration) -> io::Result<()> {
        loop {
            let pending = self.pending();
            let waited = self.closing.wait_timeout_while(pending, every, |now| !now.is_closing);
            if waited.is_ok_and(|(pending, _)| pending.is_closing) {
                return Ok(());
            }
            if self.is_ahead.swap(false, Ordering::AcqRel) {
                disk.sync_aside()?;
            }
        }
    }
}

/// The threads that write and sync. When this is dropped, all that was handed over is synced.
#[derive(Debug)]
pub(super) struct Writer {
    journal: Arc<Journal>,
    threads: Vec<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        journal: &Arc<Journal>,
        disk: &Arc<dyn Keep>,
        policy: SyncPolicy,
    ) -> io::Result<Self> {
        let mut writer = Self { journal: Arc::clone(journal), threads: Vec::new() };
        let always = policy == SyncPolicy::Always;
        writer.spawn(disk, move |journal, disk| journal.write(disk, always))?;
        if let SyncPolicy::Interval(every) = policy {
            writer.spawn(disk, move |journal, disk| journal.sync(disk, every))?;
        }
        Ok(writer)
    }

    fn spawn(
        &mut self,
        disk: &Arc<dyn Keep>,
        work: impl Fn(&Journal, &dyn Keep) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (journal, disk) = (Arc::clone(&self.journal), Arc::clone(disk));
        let thread = thread::Builder::new().name("rowkey-durable".to_owned()).spawn(move || {
            let watch = FailUnlessDone(&journal.progress);
            match work(&journal, &*disk) {
                Ok(()) => std::mem::forget(watch),
                Err(error) => error!(
                    "the disk refuses what is to be kept; nothing is answered any more: {error}"
                ),
            }
        })?;
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

/// Whoever waits is told when the thread ends that they wait for, even if it panics.
struct FailUnlessDone<'a>(&'a Progress);

impl Drop for FailUnlessDone<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers what it is to keep, until it breaks.
    #[derive(Debug, Default)]
    struct Remembered {
        kept: Mutex<Vec<Unit>>,
        synced: Mutex<usize>,
        is_broken: AtomicBool,
    }

    impl Keep for Remembered {
        fn keep(&self, units: Vec<Unit>) -> io::Result<()> {
            if self.is_broken.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.kept.lock().unwrap().extend(units);
            Ok(())
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
            self.keep(vec![unit])?;
            Ok(true)
        }
    }

    fn unit(number: u8) -> Unit {
        let mut unit = Unit::default();
        unit.put(Space::Rows, vec![number], vec![number]);
        unit
    }

    fn started(policy: SyncPolicy) -> (Arc<Remembered>, Arc<Journal>, Writer) {
        let disk = Arc::<Remembered>::default();
        let journal = Arc::new(Journal::new(Arc::new(Progress::new())));
        let keep: Arc<dyn Keep> = disk.clone();
        let writer = Writer::start(&journal, &keep, policy).unwrap();
        (disk, journal, writer)
    }

    #[tokio::test]
    async fn units_are_kept_in_order_and_all_of_them_when_the_writer_ends() {
        let hour = SyncPolicy::Interval(Duration::from_secs(3600));
        let (disk, journal, writer) = started(hour);
        for number in 0..100 {
            journal.append(unit(number));
        }
        journal.progress.settled().await.unwrap();
        assert_eq!(*disk.kept.lock().unwrap(), (0..100).map(unit).collect::<Vec<_>>());
        assert_eq!(*disk.synced.lock().unwrap(), 0, "the hour is not over");
        journal.append(unit(100));
        drop(writer);
        assert_eq!(*disk.synced.lock().unwrap(), 101);
    }

    #[tokio::test]
    async fn what_is_acknowledged_is_synced_if_it_always_is_to_be() {
        let (disk, journal, _writer) = started(SyncPolicy::Always);
        for number in 0..3 {
            journal.append(unit(number));
            journal.progress.settled().await.unwrap();
            assert_eq!(*disk.synced.lock().unwrap(), usize::from(number) + 1);
        }
    }

    #[tokio::test]
    async fn after_a_write_that_fails_none_is_made_and_everybody_is_told() {
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
    }

    #[tokio::test]
    async fn rows_without_an_owner_are_swept_after_what_is_to_be_kept() {
        let (disk, journal, writer) = started(SyncPolicy::Always);
        let mut gone = unit(0);
        gone.swept.push((Space::Rows, 7));
        journal.append(gone.clone());
        // The sweep follows by itself, or never if the writer ends before.
        while disk.kept.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        drop(writer);
        let mut swept = Unit::default();
        swept.swept.push((Space::Rows, 7));
        assert_eq!(*disk.kept.lock().unwrap(), [gone, swept]);
    }
}
