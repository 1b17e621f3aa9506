//! The log writer: a bounded buffer, and the flushing of it.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use chrono::{DateTime, Utc};
use futures_util::future::{Either, select};
use futures_util::lock::Mutex as AsyncMutex;
use futures_util::task::AtomicWaker;
use rowkey_client::{Clock, Result};

use super::BlobLog;
use super::buffer::Buffer;
use super::quiet::quietly;
use super::sink::Sink;

/// Writes lines to its own blobs. Created by [`BlobLog::writer`]. Clones are the same writer.
///
/// Lines wait in a buffer until they are flushed: by [`run_until`](Self::run_until), which a task must await,
/// by [`flush`](Self::flush), or by [`log`](Self::log) when the buffer is full. Only waiting lines are lost
/// if the program ends without [`close`](Self::close): at most [`capacity`](BlobLog::capacity) bytes, and
/// while `run_until` runs and the service responds, no more than was logged within
/// [`flush_every`](BlobLog::flush_every).
///
/// A flush that failed or was dropped neither loses nor duplicates lines: the next one continues where it
/// stopped.
#[derive(Clone)]
pub struct LogWriter {
    shared: Arc<Shared>,
}

struct Shared {
    log: BlobLog,
    buffer: Mutex<Buffer>,
    sink: AsyncMutex<Sink>,
    /// Wakes the task in `run_until` when there is enough to write.
    filled: AtomicWaker,
}

/// The lines that wait to be written, from [`LogWriter::waiting`].
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

    /// Logs a line with the current time. If the buffer is full, flushes it first, and fails if the flush
    /// fails. After an error the line is not in the buffer.
    ///
    /// While the clock is behind an earlier line of this writer, because it was set back, lines get the time of
    /// that line: the lines of a writer are read in the order in which it logged them.
    ///
    /// Fails with [`ErrorKind::Invalid`](rowkey_client::ErrorKind::Invalid) for a text with a line break, and with
    /// [`ErrorKind::TooLarge`](rowkey_client::ErrorKind::TooLarge) for one over 1 MiB.
    pub async fn log(&self, text: &str) -> Result<()> {
        self.log_line(None, text).await
    }

    /// Logs a line with another time, for lines from another source. A time earlier than that of the previous
    /// line is replaced by it: times never decrease within a blob.
    ///
    /// A line more than a minute ahead of the clock does not change the times of later lines: the next one that is
    /// not so far ahead starts a new blob, and is read before it.
    ///
    /// ```
    /// # use chrono::TimeDelta;
    /// # use futures_util::TryStreamExt as _;
    /// # use rowkey::patterns::log_blob::BlobLog;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("logs");
    /// # container.create().await?;
    /// # let log = BlobLog::new(container, "web");
    /// let writer = log.writer()?;
    /// let received = account.clock().now();
    /// writer.log_at(received - TimeDelta::seconds(5), "from another machine").await?;
    /// writer.close().await?;
    ///
    /// let lines: Vec<_> = log.read(received - TimeDelta::minutes(1)..received).try_collect().await?;
    /// assert_eq!(lines[0].text, "from another machine");
    /// # Ok(()) }
    /// ```
    pub async fn log_at(&self, time: DateTime<Utc>, text: &str) -> Result<()> {
        self.log_line(Some(time), text).await
    }

    async fn log_line(&self, time: Option<DateTime<Utc>>, text: &str) -> Result<()> {
        while !self.push(time, text)? {
            self.flush().await?;
        }
        Ok(())
    }

    /// Logs a line with the current time, or returns `false` without logging it if the buffer is full.
    ///
    /// ```
    /// # use rowkey::patterns::log_blob::BlobLog;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("logs");
    /// # container.create().await?;
    /// # let log = BlobLog::new(container, "web");
    /// let writer = log.capacity(100).flush_bytes(100).writer()?;
    /// assert!(writer.try_log("a line")?);
    /// assert!(!writer.try_log("a line that finds the small buffer full, and is not logged")?);
    /// assert_eq!(writer.waiting().lines, 1);
    /// # Ok(()) }
    /// ```
    pub fn try_log(&self, text: &str) -> Result<bool> {
        self.push(None, text)
    }

    /// Logs a line with the current time, or drops it if the buffer is full or the line is invalid. Drops are
    /// [counted](Self::dropped), and as soon as there is room a line of the log reports their number.
    ///
    /// ```
    /// # use rowkey::patterns::log_blob::BlobLog;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("logs");
    /// # container.create().await?;
    /// # let log = BlobLog::new(container, "web");
    /// let writer = log.capacity(100).flush_bytes(100).writer()?;
    /// writer.log_or_drop("a line");
    /// writer.log_or_drop("a line that finds the small buffer full, and is not logged");
    /// assert_eq!(writer.dropped(), 1);
    /// # Ok(()) }
    /// ```
    pub fn log_or_drop(&self, text: &str) {
        self.push_or_drop(text, |lines| format!("{lines} lines were dropped"));
    }

    pub(super) fn push_or_drop(&self, text: &str, notice: fn(u64) -> String) {
        self.buffer().push_or_drop(self.now(), text, notice);
        self.wake();
    }

    /// The number of lines that [`log_or_drop`](Self::log_or_drop) has dropped.
    pub fn dropped(&self) -> u64 {
        self.buffer().dropped
    }

    /// The lines that would be lost if the program ended now.
    pub fn waiting(&self) -> Waiting {
        let buffer = self.buffer();
        Waiting { lines: buffer.lines, bytes: buffer.bytes }
    }

    /// Writes all lines that were logged before the call: one request for each period and each 4 MiB, and one
    /// or more for each new blob.
    ///
    /// After an error, or if this future is dropped, the lines wait for the next flush.
    ///
    /// ```
    /// # use rowkey::patterns::log_blob::BlobLog;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("logs");
    /// # container.create().await?;
    /// # let log = BlobLog::new(container, "web");
    /// let writer = log.writer()?;
    /// writer.log("a line").await?;
    /// assert_eq!(writer.waiting().lines, 1);
    /// writer.flush().await?;
    /// assert_eq!(writer.waiting().lines, 0);
    /// # Ok(()) }
    /// ```
    pub async fn flush(&self) -> Result<()> {
        // Boxed to keep the futures of callers small.
        quietly(Box::pin(self.write())).await
    }

    /// Flushes, and ends the blob: its metadata then has the time of the last line. Later lines go to a new
    /// blob.
    pub async fn close(&self) -> Result<()> {
        self.flush().await?;
        quietly(async { self.shared.sink.lock().await.close().await }).await
    }

    /// Flushes whenever [`flush_every`](BlobLog::flush_every) has passed or
    /// [`flush_bytes`](BlobLog::flush_bytes) are waiting, until `shutdown` completes; then
    /// [closes](Self::close), and fails if closing fails.
    ///
    /// A failed flush is tried again after `flush_every`. Run this once per writer.
    ///
    /// ```
    /// # use rowkey::patterns::log_blob::BlobLog;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("logs");
    /// # container.create().await?;
    /// # let log = BlobLog::new(container, "web");
    /// let writer = log.writer()?;
    /// let service = async {
    ///     writer.log("GET /index.html 200").await?;
    ///     Ok::<_, rowkey::Error>(())
    /// };
    /// let (ended, shutdown) = tokio::sync::oneshot::channel::<()>();
    /// let (served, written) = tokio::join!(
    ///     async { service.await.inspect(|()| drop(ended)) },
    ///     writer.run_until(async { drop(shutdown.await) }),
    /// );
    /// served.and(written)?;
    /// assert_eq!(writer.waiting().lines, 0);
    /// # Ok(()) }
    /// ```
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
                quietly(async {
                    tracing::warn!(%error, "lines of a log could not be written yet");
                })
                .await;
            }
        }
    }

    /// `time` is that of a line from another source. The clock is read under the lock, so that two threads do not
    /// log in another order than that of their times.
    fn push(&self, time: Option<DateTime<Utc>>, text: &str) -> Result<bool> {
        let pushed = {
            let mut buffer = self.buffer();
            let now = self.now();
            buffer.push(time, now, text)
        };
        self.wake();
        pushed.map_err(|error| error.of("WriteLog", self.shared.log.container.name()))
    }

    async fn write(&self) -> Result<()> {
        let Shared { log, sink, .. } = &*self.shared;
        let until = {
            let mut buffer = self.buffer();
            buffer.tell(self.now());
            buffer.taken
        };
        let mut sink = sink.lock().await;
        while sink.written < until {
            if sink.sending.is_none() {
                sink.sending = self.buffer().pop();
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

    /// Completes when enough bytes are waiting.
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
        self.buffer().bytes >= self.shared.log.flush_bytes
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock().now()
    }

    fn clock(&self) -> &dyn Clock {
        self.shared.log.container.account().clock()
    }

    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        // Every change is complete before the lock is released.
        self.shared.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let lines = self.buffer.get_mut().unwrap_or_else(PoisonError::into_inner).lines;
        if lines > 0 {
            tracing::warn!(lines, "a log writer was dropped with unwritten lines");
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
