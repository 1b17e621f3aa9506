//! What keeps a server's data beyond its process.
//!
//! Memory is what requests are answered from. The stores note what changes while they are locked;
//! when a lock is let go, a [`Record`](held::Record) turns the notes into rows and hands them over as one unit, in
//! the order in which they happened. A thread writes units to disk, as many at a time as have come.
//! No answer leaves before everything that it could have seen is kept: see [`Progress`].
//!
//! | module | what is in it |
//! |---|---|
//! | [`held`] | [`Held`]: a store that is locked, and recorded when it is let go |
//! | [`progress`] | [`Progress`]: how much has been handed over, and how much of it is kept |
//! | `policy` | `SyncPolicy`: when what is written is forced to the disk itself |
//! | `journal` | `Journal`: units on their way, and the threads that write and sync them |
//! | `disk` | `Disk`: rows in the embedded store |
//! | `keeper` | `Keeper`: the store of a directory, opened again when the disk refused a write |
//! | `directory` | the directory's owner and format, and that no other process uses it |
//! | `frames` | the batches in a journal of the embedded store |
//! | `mark` | how far the journals are known to be on the disk itself |
//! | `check` | whether all files are as they were written, before the store sees them |
//! | `tail` | the end of the embedded store's journal after a process or machine died |
//! | `repair` | a damaged directory is repaired on request |
//! | `salvage` | rows that depend on what a repair could not keep |
//! | `code` | numbers, texts and documents as bytes |
//! | `names` | the rows that describe accounts, tables, queues and containers |
//! | `tables` | tables and entities: to rows and back |
//! | `queues` | queues and messages: to rows and back |
//! | `contents` | the bytes of blobs: which piece is kept where, and who needs it |
//! | `blobs` | containers and blobs: to rows and back |
//! | `open` | from a directory to the accounts of a server |

use std::cell::Cell;

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
mod frames;
#[cfg(all(feature = "durable", fuzzing))]
pub mod fuzzing;
pub(crate) mod held;
#[cfg(feature = "durable")]
mod journal;
#[cfg(feature = "durable")]
mod keeper;
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
mod repair;
#[cfg(feature = "durable")]
mod salvage;
#[cfg(feature = "durable")]
mod tables;
#[cfg(feature = "durable")]
mod tail;

pub(crate) use held::{Held, Records};
#[cfg(feature = "durable")]
pub use policy::SyncPolicy;
use progress::{Phase, Progress};
#[cfg(feature = "durable")]
pub use repair::{Repair, repair};

use crate::operation::Subject;
use crate::state::State;
/// What a server has that keeps its data. When it is dropped, everything has been written.
#[derive(Debug)]
pub(crate) struct Durable {
    progress: std::sync::Arc<Progress>,
    #[cfg(feature = "durable")]
    writer: journal::Writer,
    #[cfg(feature = "durable")]
    kept: open::Kept,
    /// Let go after the writer has ended.
    #[cfg(feature = "durable")]
    _directory: directory::Directory,
}

tokio::task_local! {
    /// The last unit that a request handed over, or 0.
    static HANDED: Cell<u64>;
}

/// Notes that the request that is executed has handed over a unit.
#[cfg(feature = "durable")]
fn note_handed(number: u64) {
    // What is changed by a test itself is no request.
    let _ = HANDED.try_with(|handed| handed.set(number));
}

/// The disk takes no changes, and the request's is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// All but changes is answered.
    Full,
    /// What is on disk could not be read either, so nothing is answered.
    Unreadable,
}

/// A request that is executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// How often a change could not be kept before.
    failures: u64,
}

/// Executes a request; gives its outcome, and the last unit that it handed over, or 0.
pub(crate) async fn follow<T>(execute: impl Future<Output = T>) -> (T, u64) {
    let execute = async { (execute.await, HANDED.with(Cell::get)) };
    HANDED.scope(Cell::new(0), execute).await
}

impl Durable {
    /// Refuses a request that cannot be answered.
    pub(crate) fn admit(&self, state: &State, request: &Request<'_>) -> Result<Begun, Refused> {
        if self.progress.phase() == Phase::Failed {
            self.take_back(state)?;
        }
        #[cfg(feature = "durable")]
        if self.progress.phase() == Phase::Full
            && request.is_write()
            && !self.kept.try_open(&self.progress, request.length())
        {
            return Err(Refused::Full);
        }
        #[cfg(not(feature = "durable"))]
        let _ = request;
        Ok(Begun { failures: self.progress.failures() })
    }

    /// Waits until nothing that an executed request did or saw can be lost any more. Says whether its
    /// outcome stands: a request that changes nothing is to be executed again when what it saw was
    /// taken back.
    pub(crate) async fn settle(
        &self,
        state: &State,
        request: &Request<'_>,
        begun: Begun,
        handed: u64,
    ) -> Result<bool, Refused> {
        self.wait(state, request, handed).await?;
        let stands = if handed > 0 && request.is_write() {
            !self.progress.is_lost(handed)
        } else {
            self.progress.failures() == begun.failures
        };
        if !stands && request.is_write() { Err(Refused::Full) } else { Ok(stands) }
    }

    /// Waits until everything is kept that was handed over before, or taken back.
    async fn wait(&self, state: &State, request: &Request<'_>, handed: u64) -> Result<(), Refused> {
        if self.progress.phase() == Phase::Full {
            // Changes that time brings about wait for the disk; no request waits for them.
            if handed == 0 || !request.is_write() {
                return Ok(());
            }
            // The disk was full when this was executed, and it had been let in before.
            #[cfg(feature = "durable")]
            self.progress.fail();
        }
        #[cfg(feature = "durable")]
        if !self.writer.is_apart() && !self.progress.is_settled() {
            // Another thread that has something to hand over does so first, and the next one to get here
            // writes for all.
            tokio::task::yield_now().await;
            self.writer.write_here();
        }
        match self.progress.settled().await {
            Ok(()) => Ok(()),
            Err(progress::Failed) => self.take_back(state),
        }
    }

    #[cfg(feature = "durable")]
    fn take_back(&self, state: &State) -> Result<(), Refused> {
        self.kept.take_back(state, &self.progress).map_err(|error| {
            tracing::error!("what is kept on the disk cannot be read again: {error}");
            Refused::Unreadable
        })
    }

    #[cfg(not(feature = "durable"))]
    #[expect(clippy::unused_self, reason = "nothing is kept")]
    fn take_back(&self, _: &State) -> Result<(), Refused> {
        Err(Refused::Unreadable)
    }

    /// Keeps what no request is going to wait for.
    #[cfg(feature = "durable")]
    pub(crate) fn write_now(&self) {
        self.writer.write_here();
    }
}

/// What of a request says whether it changes anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) service: Service,
    pub(crate) parts: &'a Parts,
}

impl Request<'_> {
    /// Whether it may change something. Asked only when the disk refuses changes, or when it has
    /// handed over any.
    fn is_write(&self) -> bool {
        let method = &self.parts.method;
        let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
        !reads || Subject::of(self.service, self.parts).operation.is_write()
    }

    /// How long its body says it is.
    #[cfg(feature = "durable")]
    fn length(&self) -> usize {
        let length = self.parts.headers.get(http::header::CONTENT_LENGTH);
        length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or_default()
    }
}
