//! Rows of files as a stream: decoded on a thread of their own, a bounded number ahead.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use futures_util::future::{Either, select};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, stream};
use rowkey_entity::DynamicEntity;
use tokio::sync::{Notify, mpsc};

use crate::error::{Error, ErrorKind, Result};
use crate::format::Rows;
use crate::row::Row;

/// Rows that are passed on at once: a transaction of a partition has as many.
const CHUNK: usize = 100;
/// The bytes of rows, as the service counts them, at which fewer are passed on.
const CHUNK_BYTES: usize = 128 * 1024;
/// Chunks that wait, of all files together.
const CHUNKS: usize = 16;

/// The rows of one file in chunks. The last item of the last chunk may be an error.
pub(super) type Chunks = BoxStream<'static, Vec<Result<Row>>>;

/// Decodes rows on a thread of their own. `files` is how many are decoded at once.
pub(super) fn chunks_of(rows: Rows, files: usize) -> Chunks {
    let (sender, receiver) = mpsc::channel((CHUNKS / files.max(1)).clamp(1, CHUNKS / 2));
    // Not one of tokio's: a runtime does not end before they do, and stdin may never end. A chunk of no rows is the last one.
    let started = thread::Builder::new().name("rowkey-decode".to_owned()).spawn(move || {
        let mut rows = rows.fuse();
        loop {
            let chunk = chunk(&mut rows);
            let is_last = chunk.is_empty();
            if sender.blocking_send(chunk).is_err() || is_last {
                return;
            }
        }
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
    stream::iter(failed).chain(chunks).boxed()
}

/// The next rows. How many depends on them alone: a job that is resumed counts on the same order.
fn chunk(rows: &mut impl Iterator<Item = Result<Row>>) -> Vec<Result<Row>> {
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    while chunk.len() < CHUNK
        && bytes < CHUNK_BYTES
        && let Some(row) = rows.next()
    {
        let Ok(read) = &row else {
            chunk.push(row);
            break;
        };
        bytes += read.entity.size();
        chunk.push(row);
    }
    chunk
}

/// The rows of several files at once, a chunk of each in turn. A file that has ended makes room for the next one. The first error is
/// the last item.
pub(super) fn interleaved(
    files: impl Stream<Item = Result<Chunks>> + Send + 'static,
    at_once: usize,
) -> impl Stream<Item = Result<Row>> + Send + 'static {
    let state = (Some(files.boxed()), VecDeque::<Chunks>::new());
    let chunks = stream::unfold(state, move |(mut files, mut open)| async move {
        loop {
            while open.len() < at_once.max(1)
                && let Some(next) = &mut files
            {
                match next.next().await {
                    Some(Ok(chunks)) => open.push_back(chunks),
                    Some(Err(error)) => return Some((vec![Err(error)], (None, VecDeque::new()))),
                    None => files = None,
                }
            }
            let mut first = open.pop_front()?;
            let Some(chunk) = first.next().await else { continue };
            if chunk.last().is_some_and(Result::is_err) {
                return Some((chunk, (None, VecDeque::new())));
            }
            open.push_back(first);
            return Some((chunk, (files, open)));
        }
    });
    chunks.flat_map(stream::iter)
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
        Self::of_stream(chunks_of(rows, 1).flat_map(stream::iter))
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
