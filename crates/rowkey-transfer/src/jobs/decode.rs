//! Rows of files as a stream: decoded on a thread of their own, a bounded number ahead.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use futures_util::future::{Either, select};
use futures_util::{Stream, StreamExt as _, stream};
use rowkey_entity::DynamicEntity;
use tokio::sync::{Notify, mpsc};

use crate::error::{Error, ErrorKind, Result};
use crate::format::Rows;
use crate::row::Row;

/// Rows that are passed on at once.
const CHUNK: usize = 128;
/// Chunks that wait.
const CHUNKS: usize = 8;

/// The rows as a stream.
pub(super) fn stream_of(rows: Rows) -> impl Stream<Item = Result<Row>> + Send + 'static {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    // Not one of tokio's: a runtime does not end before they do, and stdin may never end. A chunk of no rows is the last one.
    let started = thread::Builder::new().name("rowkey-decode".to_owned()).spawn(move || {
        let mut rows = rows.peekable();
        while rows.peek().is_some() {
            if sender.blocking_send(rows.by_ref().take(CHUNK).collect()).is_err() {
                return;
            }
        }
        let _ = sender.blocking_send(Vec::new());
    });
    let failed = started.err().map(|error| vec![Err(Error::from(error))]);
    let receiver = failed.is_none().then_some(receiver);
    let chunks = stream::unfold(receiver, |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(chunk) if chunk.is_empty() => None,
            Some(chunk) => Some((chunk, Some(receiver))),
            None => {
                let what = "reading the file ended with a panic; report it as a defect";
                Some((vec![Err(Error::new(ErrorKind::Malformed, what))], None))
            }
        }
    });
    stream::iter(failed).chain(chunks).flat_map(stream::iter)
}

/// Whether a stream of entities failed. The stream itself has no errors, because a job that stores it could take them for its
/// end: after an error it never ends.
#[derive(Clone, Debug, Default)]
pub struct Failure(Arc<Slot>);

#[derive(Debug, Default)]
struct Slot {
    error: Mutex<Option<Error>>,
    failed: Notify,
}

impl Failure {
    /// Runs `work`, which reads the entities, and ends it with the error if there is one.
    ///
    /// A job is dropped then, so its last checkpoint remains.
    pub async fn or<T>(self, work: impl Future<Output = T>) -> Result<T> {
        let failed = std::pin::pin!(self.0.failed.notified());
        match select(std::pin::pin!(work), failed).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => {
                let error = self.0.error.lock().unwrap_or_else(PoisonError::into_inner).take();
                let unknown = || Error::new(ErrorKind::Malformed, "the rows cannot be read");
                Err(error.unwrap_or_else(unknown))
            }
        }
    }

    /// The entities of rows, and what tells whether reading them failed.
    pub(super) fn of_stream(
        rows: impl Stream<Item = Result<Row>> + Send + 'static,
    ) -> (impl Stream<Item = DynamicEntity> + Send + 'static, Self) {
        let failure = Self::default();
        (entities(rows, Arc::clone(&failure.0)), failure)
    }

    /// The entities of rows that are read from elsewhere, such as stdin, and what tells whether reading them failed.
    pub fn of(rows: Rows) -> (impl Stream<Item = DynamicEntity> + Send + 'static, Self) {
        Self::of_stream(stream_of(rows))
    }
}

fn entities(
    rows: impl Stream<Item = Result<Row>> + Send + 'static,
    slot: Arc<Slot>,
) -> impl Stream<Item = DynamicEntity> + Send + 'static {
    rows.then(move |row| {
        let entity = row.map(|row| row.entity).map_err(|error| {
            *slot.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            slot.failed.notify_one();
        });
        async {
            match entity {
                Ok(entity) => entity,
                Err(()) => std::future::pending().await,
            }
        }
    })
}
