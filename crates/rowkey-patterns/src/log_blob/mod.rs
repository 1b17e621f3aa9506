//! Logs in blobs, the inverse of the guide's *log data anti-pattern*: lines are buffered, appended to blobs
//! that are named by service and hour, and read by time range.
//!
//! A table is a poor store for a log: all writers insert at the end of one partition, each entity is paid for
//! twice, and lines are not looked up by key. A blob takes many lines in one request, and its name and
//! metadata show whether a time range needs it.
//!
//! ```text
//! web/2026/11/21/1400/000001.log   StartTime 2026-11-21T14:00:01.250000Z   EndTime ..
//! web/2026/11/21/1400/000002.log   another writer of the same hour
//! web/2026/11/21/1500/000001.log
//! ```
//!
//! - [`BlobLog`]: a log and its settings; reads it, and deletes old blobs
//! - [`LogWriter`]: the buffer, and the flushing
//! - [`LogLine`]: one line

mod buffer;
#[cfg(feature = "tracing-subscriber")]
mod layer;
mod line;
mod name;
mod quiet;
mod read;
mod sink;
#[cfg(test)]
mod tests;
mod writer;

use std::ops::Range;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use rowkey_client::Container;
use rowkey_client::table::Stream;
use rowkey_client::{Error, ErrorKind, Result};

pub use line::LogLine;
pub use writer::{LogWriter, Waiting};

/// How many blobs are deleted concurrently.
const DELETIONS: usize = 8;

/// The log of a service in a container. Many programs write it, each with its own writer.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// use rowkey::patterns::log_blob::BlobLog;
/// # use chrono::TimeDelta;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # let container = account.container("logs");
/// # container.create().await?;
/// let log = BlobLog::new(container, "web");
/// let writer = log.writer()?;
/// writer.log("GET /index.html 200").await?;
/// writer.log("GET /missing 404").await?;
/// // A service awaits `writer.run_until(shutdown)` beside its work instead.
/// writer.close().await?;
///
/// let now = account.clock().now();
/// let last_hour = now - TimeDelta::hours(1)..now + TimeDelta::seconds(1);
/// let lines: Vec<_> = log.read(last_hour).try_collect().await?;
/// assert_eq!(lines[1].text, "GET /missing 404");
/// # Ok(())
/// # }
/// ```
///
/// The container must exist. The settings apply to writers; readers need none.
#[derive(Clone, Debug)]
pub struct BlobLog {
    container: Container,
    service: Box<str>,
    capacity: usize,
    flush_bytes: usize,
    flush_every: Duration,
    max_blob: u64,
    period: Duration,
}

impl BlobLog {
    /// The log of `service`, a name of 1 to 64 letters, digits, `-`, `_` and `.`, in `container`. Sends and
    /// checks nothing.
    pub fn new(container: Container, service: &str) -> Self {
        Self {
            container,
            service: service.into(),
            capacity: 4 << 20,
            flush_bytes: 256 << 10,
            flush_every: Duration::from_secs(5),
            max_blob: 64 << 20,
            period: Duration::from_secs(3600),
        }
    }

    /// Sets how many bytes of lines may wait to be written, which is the most that a crash can lose. Default:
    /// 4 MiB.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use rowkey::patterns::log_blob::BlobLog;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("logs");
    /// # container.create().await?;
    /// # let log = BlobLog::new(container, "web");
    /// let log = log
    ///     .capacity(16 << 20)
    ///     .flush_bytes(1 << 20)
    ///     .flush_every(Duration::from_secs(1))
    ///     .max_blob(256 << 20)
    ///     .period(Duration::from_secs(15 * 60));
    /// assert!(log.writer().is_ok());
    /// assert!(log.period(Duration::from_secs(7 * 60)).writer().is_err(), "it divides no hour");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn capacity(self, bytes: usize) -> Self {
        Self { capacity: bytes, ..self }
    }

    /// Sets how many waiting bytes make [`LogWriter::run_until`] flush at once. Default: 256 KiB.
    #[must_use]
    pub fn flush_bytes(self, bytes: usize) -> Self {
        Self { flush_bytes: bytes, ..self }
    }

    /// Sets how long a line can wait before [`LogWriter::run_until`] flushes. Default: 5 seconds.
    #[must_use]
    pub fn flush_every(self, pause: Duration) -> Self {
        Self { flush_every: pause, ..self }
    }

    /// Sets the size in bytes at which a new blob is started; a blob of one block may be larger, up to 4 MiB.
    /// Default: 64 MiB. A blob has at most 50,000 blocks, even if its size would allow more.
    #[must_use]
    pub fn max_blob(self, bytes: u64) -> Self {
        Self { max_blob: bytes, ..self }
    }

    /// Sets the time after which a new blob is started: whole minutes that divide an hour, or the hour.
    /// Default: the hour.
    #[must_use]
    pub fn period(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    /// Creates a writer with its own buffer and blobs. Sends nothing before its first flush.
    ///
    /// Fails with [`ErrorKind::Invalid`] if the settings are invalid.
    pub fn writer(&self) -> Result<LogWriter> {
        self.check()?;
        let seconds = self.period.as_secs();
        let what = if seconds == 0 || 3600 % seconds != 0 || !seconds.is_multiple_of(60) {
            "a period must be a number of whole minutes that divides an hour"
        } else if self.capacity == 0 || self.flush_bytes == 0 || self.flush_bytes > self.capacity {
            "`flush_bytes` must be between 1 and the capacity"
        } else if self.flush_every.is_zero() {
            "`flush_every` must be greater than zero"
        } else {
            return Ok(LogWriter::new(self.clone()));
        };
        Err(Error::refused(ErrorKind::Invalid, what).of("WriteLog", self.container.name()))
    }

    /// Reads the lines of all writers from `range.start` (inclusive) to `range.end` (exclusive), in the order
    /// of their times; those of one writer in the order in which it logged them. Sends nothing before the
    /// stream is read.
    ///
    /// Lists the blobs of the hours, days or months that the range touches, and opens only those whose
    /// metadata shows that they can have lines in it. Memory holds a piece of each open blob, about one per
    /// writer, and the names of an hour's blobs.
    ///
    /// Unflushed lines are not included. A stream that has reached the present can miss lines that are
    /// flushed later with earlier times.
    pub fn read(&self, range: Range<DateTime<Utc>>) -> Stream<LogLine> {
        match self.check() {
            Ok(()) => read::lines(self.clone(), range),
            Err(error) => stream::once(future::ready(Err(error))).boxed(),
        }
    }

    /// Deletes the blobs whose lines were all logged before `time`, and returns their number.
    ///
    /// Lists the log up to `time`, and takes one request for each blob. If it fails part-way, some blobs are
    /// deleted; calling it again deletes the others. A writer whose blob is deleted starts a new one.
    ///
    /// ```
    /// # use chrono::TimeDelta;
    /// # use rowkey::patterns::log_blob::BlobLog;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("logs");
    /// # container.create().await?;
    /// # let log = BlobLog::new(container, "web");
    /// let writer = log.writer()?;
    /// let now = account.clock().now();
    /// writer.log_at(now - TimeDelta::days(40), "an old line").await?;
    /// writer.log_at(now, "a new line").await?;
    /// writer.close().await?;
    /// assert_eq!(log.delete_before(now - TimeDelta::days(30)).await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn delete_before(&self, time: DateTime<Utc>) -> Result<u64> {
        self.check()?;
        let blobs = self.container.blobs().starting_with(&format!("{}/", self.service));
        let old = blobs
            .with_metadata()
            .stream()
            .try_filter_map(|blob| future::ready(Ok(read::Segment::of(&self.service, &blob))))
            .try_take_while(|segment| future::ready(Ok(segment.hour() < time)))
            .try_filter(|segment| future::ready(segment.end < time));
        let deleted = old.map_ok(|segment| async move {
            self.container.blob(&segment.name).delete_if_exists().await
        });
        let deleted = deleted.try_buffer_unordered(DELETIONS);
        deleted.try_fold(0, async |sum, existed| Ok(sum + u64::from(existed))).await
    }

    /// Refuses a service name that would be more than one segment of a blob's name.
    fn check(&self) -> Result<()> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let dots = self.service.chars().all(|c| c == '.');
        if !dots && self.service.len() <= 64 && self.service.chars().all(allowed) {
            return Ok(());
        }
        let what = "the name of a service has 1 to 64 letters, digits, `-`, `_` and `.`, and not \
                    dots alone";
        Err(Error::refused(ErrorKind::Invalid, what).of("Log", self.container.name()))
    }

    fn period_delta(&self) -> TimeDelta {
        TimeDelta::from_std(self.period).unwrap_or(TimeDelta::hours(1))
    }
}
