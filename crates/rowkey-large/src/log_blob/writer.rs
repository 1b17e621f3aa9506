//! The writer: a bounded buffer, and what empties it.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use chrono::{DateTime, Utc};
use futures_util::future::{Either, select};
use futures_util::lock::Mutex as AsyncMutex;
use futures_util::task::AtomicWaker;
use rowkey::{Clock, Result};

use super::BlobLog;
use super::buffer::Buffer;
use super::quiet::quietly;
use super::sink::Sink;

/// Writes lines to blobs of its own, from [`BlobLog::writer`]. Clones are the same writer.
///
/// Lines wait in a buffer until they are flushed: by [`run_until`](Self::run_until), which a task
/// has to await, by calling [`flush`](Self::flush), or by [`log`](Self::log) when the buffer is full.
/// What waits is lost when the program ends without [`close`](Self::close), and nothing else is: at
/// most [`capacity`](BlobLog::capacity) bytes, and while `run_until` runs and the service answers, no
/// more than was logged within [`flush_every`](BlobLog::flush_every).
///
/// A flush that failed, or that was dropped, has lost nothing and doubles nothing: the next one
/// goes on where it stopped.
#[derive(Clone)]
pub struct LogWriter {
    shared: Arc<Shared>,
}

struct Shared {
    log: BlobLog,
    buffer: Mutex<Buffer>,
    sink: AsyncMutex<Sink>,
    /// Who runs, and sleeps until there is enough to write.
    filled: AtomicWaker,
}

/// What waits to be written, from [`LogWriter::waiting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Lines that are not known to be in a blob.
    pub lines: u64,
    /// Their bytes.
    pub bytes: usize,
}

impl LogWriter {
    pub(super) fn new(log: BlobLog) -> Self {
        let buffer = Mutex::new(Buffer::new(log.capacity, log.period_delta()));
        let (sink, filled) = (AsyncMutex::default(), AtomicWaker::new());
        Self { shared: Arc::new(Shared { log, buffer, sink, filled }) }
    }

    /// Logs a line now, and waits while the buffer is full: then it flushes it, and fails if that
    /// fails. After an error the line is not in the buffer.
    ///
    /// Fails with [`ErrorKind::Invalid`](rowkey::ErrorKind::Invalid) for a text with a line break,
    /// and with [`ErrorKind::TooLarge`](rowkey::ErrorKind::TooLarge) for one over 1 MiB.
    pub async fn log(&self, text: &str) -> Result<()> {
        self.log_at(self.now(), text).await
    }

    /// Logs a line of another time, for lines that come from elsewhere. One that is earlier than the
    /// line before it gets the time of that one: times never go back within a blob.
    ///
    /// A line of more than a minute ahead of the clock is left in its blob by the next line that is not,
    /// which begins another one and keeps its own time.
    pub async fn log_at(&self, time: DateTime<Utc>, text: &str) -> Result<()> {
        while !self.push(time, text)? {
            self.flush().await?;
        }
        Ok(())
    }

    /// Logs a line now, or returns `false` when the buffer is full: the line is the caller's again.
    pub fn try_log(&self, text: &str) -> Result<bool> {
        self.push(self.now(), text)
    }

    /// Logs a line now, or drops it when the buffer is full or it cannot be logged. Drops are
    /// [counted](Self::dropped), and as soon as there is room a line of the log says how many there
    /// were.
    pub fn log_or_drop(&self, text: &str) {
        self.push_or_drop(text, |lines| format!("{lines} lines were dropped"));
    }

    pub(super) fn push_or_drop(&self, text: &str, notice: fn(u64) -> String) {
        self.buffer().push_or_drop(self.now(), text, notice);
        self.wake();
    }

    /// How many lines [`log_or_drop`](Self::log_or_drop) has dropped.
    pub fn dropped(&self) -> u64 {
        self.buffer().dropped()
    }

    /// What would be lost if the program ended now.
    pub fn waiting(&self) -> Waiting {
        let buffer = self.buffer();
        Waiting { lines: buffer.lines(), bytes: buffer.bytes() }
    }

    /// Writes all lines that were logged before the call: one request for each period and 4 MiB, and
    /// one or more for a blob that is begun.
    ///
    /// After an error, and after this future was dropped, the lines wait for the next flush.
    pub async fn flush(&self) -> Result<()> {
        // In its own allocation, for the futures of those who log stay small.
        quietly(Box::pin(self.write())).await
    }

    /// Flushes, and ends the blob: its metadata then says when the last line was logged. What is
    /// logged later begins another blob.
    pub async fn close(&self) -> Result<()> {
        self.flush().await?;
        quietly(async { self.shared.sink.lock().await.close().await }).await
    }

    /// Flushes whenever [`flush_every`](BlobLog::flush_every) has passed or
    /// [`flush_bytes`](BlobLog::flush_bytes) wait, until `shutdown` completes; then
    /// [closes](Self::close), and fails if that fails.
    ///
    /// A flush that fails is tried again after `flush_every`. Run it once for a writer.
    pub async fn run_until(&self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let mut shutdown = pin!(shutdown);
        let mut failed = false;
        loop {
            let pause = self.clock().sleep(self.shared.log.flush_every);
            let due = async {
                if failed {
                    pause.await;
                } else {
                    select(pause, pin!(self.filled())).await;
                }
            };
            if let Either::Left(_) = select(shutdown.as_mut(), pin!(due)).await {
                return self.close().await;
            }
            let flushed = self.flush().await;
            failed = flushed.is_err();
            if let Err(error) = flushed {
                quietly(async { tracing::warn!(%error, "lines of a log wait to be written") })
                    .await;
            }
        }
    }

    fn push(&self, time: DateTime<Utc>, text: &str) -> Result<bool> {
        let pushed = self.buffer().push(time, self.now(), text);
        self.wake();
        pushed.map_err(|error| error.of("WriteLog", self.shared.log.container.name()))
    }

    async fn write(&self) -> Result<()> {
        let Shared { log, sink, .. } = &*self.shared;
        let until = {
            let mut buffer = self.buffer();
            buffer.tell(self.now());
            buffer.taken()
        };
        let mut sink = sink.lock().await;
        while sink.written < until {
            if sink.sending.is_none() {
                sink.sending = self.buffer().pop().map(Into::into);
            }
            let Some((lines, bytes)) = sink.sending.as_ref().map(|b| (b.lines, b.bytes.len()))
            else {
                break;
            };
            sink.send(log).await?;
            self.buffer().written(lines, bytes);
        }
        Ok(())
    }

    /// Completes when enough waits to be written.
    async fn filled(&self) {
        poll_fn(|context| {
            self.shared.filled.register(context.waker());
            let is_filled = self.is_filled();
            if is_filled { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn wake(&self) {
        if self.is_filled() {
            self.shared.filled.wake();
        }
    }

    fn is_filled(&self) -> bool {
        self.buffer().bytes() >= self.shared.log.flush_bytes
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock().now()
    }

    fn clock(&self) -> &dyn Clock {
        self.shared.log.container.account().clock()
    }

    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        // Every change is whole before the lock is given up.
        self.shared.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let lines = self.buffer.get_mut().unwrap_or_else(PoisonError::into_inner).lines();
        if lines > 0 {
            tracing::warn!(
                lines,
                "a writer of a log was dropped with lines that it has not written"
            );
        }
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter")
            .field("log", &self.shared.log)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
