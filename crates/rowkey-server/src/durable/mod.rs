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
//! | `directory` | whose directory it is, of which format, and that nobody else uses it |
//! | `tail` | the end of the embedded store's journal after a process or machine died |
//! | `code` | numbers, texts and documents as bytes |
//! | `names` | the rows that describe accounts, tables, queues and containers |
//! | `tables` | tables and entities: to rows and back |
//! | `queues` | queues and messages: to rows and back |
//! | `contents` | the bytes of blobs: which piece is kept where, and who needs it |
//! | `blobs` | containers and blobs: to rows and back |
//! | `open` | from a directory to the accounts of a server |

#[cfg(feature = "durable")]
mod blobs;
#[cfg(feature = "durable")]
mod code;
#[cfg(feature = "durable")]
mod contents;
#[cfg(feature = "durable")]
mod directory;
#[cfg(feature = "durable")]
mod disk;
pub(crate) mod held;
#[cfg(feature = "durable")]
mod journal;
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
mod tables;
#[cfg(feature = "durable")]
mod tail;

pub(crate) use held::{Held, Records};
#[cfg(feature = "durable")]
pub use policy::SyncPolicy;
pub(crate) use progress::Progress;

/// What a server has that keeps its data. When it is dropped, everything has been written.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) progress: std::sync::Arc<Progress>,
    #[cfg(feature = "durable")]
    writer: journal::Writer,
    /// Let go after the writer has ended.
    #[cfg(feature = "durable")]
    _directory: directory::Directory,
}

impl Durable {
    /// Waits until everything is kept that was handed over before.
    pub(crate) async fn settled(&self) -> Result<(), progress::Failed> {
        #[cfg(feature = "durable")]
        if !self.writer.is_apart() && !self.progress.is_settled() {
            // Whoever else has something to hand over does so first, and the next one to get here
            // writes for all.
            tokio::task::yield_now().await;
            self.writer.write_here();
        }
        self.progress.settled().await
    }

    /// Keeps what nobody is going to wait for.
    #[cfg(feature = "durable")]
    pub(crate) fn write_now(&self) {
        self.writer.write_here();
    }
}
