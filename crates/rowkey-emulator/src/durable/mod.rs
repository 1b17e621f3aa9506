//! Keeps a server's data on disk.
//!
//! Requests are answered from memory. While a store is changed it notes its changes. Before its lock
//! is released, a [`Recorder`](crate::account::guard::Recorder) turns the notes into rows and hands
//! them over as one unit, in the order of the changes; the request keeps the unit's number as a
//! [`Receipt`](crate::account::Receipt). A thread writes units to disk, as many at a time as are
//! waiting. No response is sent before everything that it may depend on has been written: see
//! [`Progress`].
//!
//! | module | contents |
//! |---|---|
//! | [`progress`] | [`Progress`]: how many units were handed over and how many are written |
//! | `policy` | `SyncPolicy`: when written data is synced to the disk |
//! | `journal` | `Journal`: the queue of units, and the threads that write and sync them |
//! | `disk` | `Disk`: rows in the embedded store |
//! | `disk_storage` | `DiskStorage`: owns the store of a directory, and reopens it after a failed write |
//! | `directory` | the lock, the ownership and the format of the data directory |
//! | `frames` | the batches in a journal of the embedded store |
//! | `mark` | how much of the journals has been synced to the disk |
//! | `check` | checks that all files are intact, before the store opens them |
//! | `tail` | the end of the embedded store's journal after a process or machine died |
//! | `code` | encodes numbers, text and documents as bytes |
//! | `names` | the rows that describe accounts, tables, queues and containers |
//! | `recording` | records the changes of a store as rows |
//! | `tables` | tables and entities as rows |
//! | `queues` | queues and messages as rows |
//! | `contents` | the contents of blobs: where each piece is stored, and which rows reference it |
//! | `blobs` | containers and blobs as rows |
//! | `open` | fills the accounts of a server from a directory |
//! | `state_file` | the contents of all accounts as one file |

use http::Method;
use http::request::Parts;
use rowkey_wire::auth::Service;

#[cfg(feature = "durable")]
mod blobs;
#[cfg(feature = "durable")]
mod check;
#[cfg(feature = "durable")]
mod code;
#[cfg(feature = "durable")]
mod contents;
#[cfg(feature = "durable")]
mod directory;
#[cfg(feature = "durable")]
mod disk;
#[cfg(feature = "durable")]
mod disk_storage;
#[cfg(feature = "durable")]
mod frames;
#[cfg(all(feature = "durable", fuzzing))]
pub(crate) mod fuzzing;
#[cfg(feature = "durable")]
mod journal;
#[cfg(feature = "durable")]
mod mark;
#[cfg(feature = "durable")]
mod names;
#[cfg(feature = "durable")]
pub(crate) mod open;
#[cfg(feature = "durable")]
mod policy;
pub(crate) mod progress;
#[cfg(feature = "durable")]
mod queues;
#[cfg(feature = "durable")]
mod recording;
#[cfg(feature = "durable")]
pub(crate) mod state_file;
#[cfg(feature = "durable")]
mod tables;
#[cfg(feature = "durable")]
mod tail;

#[cfg(feature = "durable")]
pub use directory::is_data_file;
#[cfg(feature = "durable")]
pub use policy::SyncPolicy;
use progress::{Phase, Progress};

use crate::account::Account;
use crate::front::subject::Subject;

/// The durable store of a server. Once it is dropped, everything has been written.
#[derive(Debug)]
pub(crate) struct Durable {
    progress: std::sync::Arc<Progress>,
    #[cfg(feature = "durable")]
    writer: journal::Writer,
    #[cfg(feature = "durable")]
    recovery: open::Recovery,
    /// Whether the directory had no data when it was opened.
    #[cfg(feature = "durable")]
    is_new: bool,
    /// Released after the writer has ended.
    #[cfg(feature = "durable")]
    _directory: directory::Directory,
}

/// The reason why a request is rejected when the disk accepts no changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// Only changes are rejected.
    Full,
    /// The data on disk could not be read either, so all requests are rejected.
    Unreadable,
}

/// The state in which a request was admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// The number of failed writes before the request.
    failures: u64,
}

impl Durable {
    /// Rejects a request that cannot be executed.
    pub(crate) fn admit(
        &self,
        accounts: &[Account],
        request: &Request<'_>,
    ) -> Result<Admission, Unavailable> {
        if self.progress.phase() == Phase::Failed {
            self.take_back(accounts)?;
        }
        #[cfg(feature = "durable")]
        if self.progress.phase() == Phase::Full
            && request.is_write()
            && !self.recovery.try_open(&self.progress, request.length())
        {
            return Err(Unavailable::Full);
        }
        #[cfg(not(feature = "durable"))]
        let _ = request;
        Ok(Admission { failures: self.progress.failures() })
    }

    /// Waits until everything that the request changed or read has been written. Returns whether
    /// its result stands: a request without changes must be executed again if data that it read was
    /// taken back.
    pub(crate) async fn settle(
        &self,
        accounts: &[Account],
        request: &Request<'_>,
        admission: Admission,
        handed: u64,
    ) -> Result<bool, Unavailable> {
        self.wait(accounts, request, handed).await?;
        let stands = if handed > 0 && request.is_write() {
            !self.progress.is_lost(handed)
        } else {
            self.progress.failures() == admission.failures
        };
        if !stands && request.is_write() { Err(Unavailable::Full) } else { Ok(stands) }
    }

    /// Waits until all units issued before have been written or rolled back.
    async fn wait(
        &self,
        accounts: &[Account],
        request: &Request<'_>,
        handed: u64,
    ) -> Result<(), Unavailable> {
        if self.progress.phase() == Phase::Full {
            // Changes caused by the passage of time wait for the disk; no request waits for them.
            if handed == 0 || !request.is_write() {
                return Ok(());
            }
            // The disk became full after this request was admitted.
            #[cfg(feature = "durable")]
            self.progress.fail();
        }
        #[cfg(feature = "durable")]
        if !self.writer.is_apart() && !self.progress.is_settled() {
            // Yield, so that other threads can hand over their units first. The next thread to get
            // here writes them all.
            tokio::task::yield_now().await;
            self.writer.write_here();
        }
        match self.progress.settled().await {
            Ok(()) => Ok(()),
            Err(progress::Failed) => self.take_back(accounts),
        }
    }

    #[cfg(feature = "durable")]
    fn take_back(&self, accounts: &[Account]) -> Result<(), Unavailable> {
        self.recovery.take_back(accounts, &self.progress).map_err(|error| {
            tracing::error!("cannot reload the data from disk: {error}");
            Unavailable::Unreadable
        })
    }

    #[cfg(not(feature = "durable"))]
    #[expect(clippy::unused_self, reason = "nothing is kept")]
    fn take_back(&self, _: &[Account]) -> Result<(), Unavailable> {
        Err(Unavailable::Unreadable)
    }

    /// Whether the directory had no data when it was opened.
    #[cfg(feature = "durable")]
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether the disk accepts changes, as far as is known.
    #[cfg(feature = "durable")]
    pub(crate) fn accepts_changes(&self) -> bool {
        self.progress.phase() == Phase::Open
    }

    /// Writes what was loaded without a request, and waits until that is done.
    #[cfg(feature = "durable")]
    pub(crate) fn write_loaded(&self) -> std::io::Result<()> {
        self.writer.write_here();
        self.progress.settle_here().map_err(|progress::Failed| {
            let message = "the location does not take the data, as the log says; make room, delete the location, which has \
                           a part of it, and start again";
            std::io::Error::other(message)
        })
    }

    /// Writes changes for which no request will wait.
    #[cfg(feature = "durable")]
    pub(crate) fn write_now(&self) {
        self.writer.write_here();
    }
}

/// The parts of a request that tell whether it changes data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) service: Service,
    pub(crate) parts: &'a Parts,
}

impl Request<'_> {
    /// Whether it may change data. Called only when the disk accepts no changes, or when the
    /// request has handed over a unit.
    fn is_write(&self) -> bool {
        let method = &self.parts.method;
        let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
        !reads || Subject::of(self.service, self.parts).operation.is_write()
    }

    /// The length of its body according to `Content-Length`.
    #[cfg(feature = "durable")]
    fn length(&self) -> usize {
        let length = self.parts.headers.get(http::header::CONTENT_LENGTH);
        length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or_default()
    }
}
