//! Logs in blobs, the guide's *log data anti-pattern* turned round: lines are buffered, appended to
//! blobs that are named by service and hour, and found again by time.
//!
//! A table takes a log badly: all writers insert at the end of one partition, each entity is paid for
//! twice, and lines are not looked up by key. Blobs take many lines with one request, and their names
//! and metadata say which of them a range of time needs.
//!
//! ```text
//! web/2026/11/21/1400/000001.log   StartTime 2026-11-21T14:00:01.250000Z   EndTime ..
//! web/2026/11/21/1400/000002.log   another writer of the same hour
//! web/2026/11/21/1500/000001.log
//! ```
//!
//! - [`BlobLog`]: a log and its settings; reads it, and deletes what is old
//! - [`LogWriter`]: the buffer, and what empties it
//! - [`LogLine`]: what is read

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
use rowkey::Container;
use rowkey::table::Stream;
use rowkey::{Error, ErrorKind, Result};

pub use line::LogLine;
pub use writer::{LogWriter, Waiting};

/// How many blobs are deleted at a time.
const DELETIONS: usize = 8;

/// The log of a service in a container: many programs write it, each through a writer of its own.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// use rowkey_large::BlobLog;
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
/// The container must exist. The settings are those of the writers; readers need none.
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
    /// The log of `service`, a name of 1 to 64 letters, digits, `-`, `_` and `.`, in `container`.
    /// Nothing is sent or checked.
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

    /// How many bytes of lines may wait to be written, which is what an abrupt end can lose. Default:
    /// 4 MiB.
    #[must_use]
    pub fn capacity(self, bytes: usize) -> Self {
        Self { capacity: bytes, ..self }
    }

    /// With how many bytes waiting [`LogWriter::run_until`] flushes at once. Default: 256 KiB.
    #[must_use]
    pub fn flush_bytes(self, bytes: usize) -> Self {
        Self { flush_bytes: bytes, ..self }
    }

    /// How long a line waits at most before [`LogWriter::run_until`] flushes. Default: 5 seconds.
    #[must_use]
    pub fn flush_every(self, pause: Duration) -> Self {
        Self { flush_every: pause, ..self }
    }

    /// How many bytes a blob has before another one is begun; a blob of one block may have more, up
    /// to 4 MiB. Default: 64 MiB. A blob has 50,000 blocks at most, also if this is larger.
    #[must_use]
    pub fn max_blob(self, bytes: u64) -> Self {
        Self { max_blob: bytes, ..self }
    }

    /// After what time another blob is begun: whole minutes that divide an hour, or the hour.
    /// Default: the hour.
    #[must_use]
    pub fn period(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    /// A writer, with a buffer and blobs of its own. Nothing is sent before its first flush.
    ///
    /// Fails with [`ErrorKind::Invalid`] for settings that cannot be.
    pub fn writer(&self) -> Result<LogWriter> {
        self.check()?;
        let seconds = self.period.as_secs();
        let what = if seconds == 0 || 3600 % seconds != 0 || !seconds.is_multiple_of(60) {
            "a period is whole minutes that divide an hour, or the hour"
        } else if self.capacity == 0 || self.flush_bytes == 0 || self.flush_bytes > self.capacity {
            "a log is flushed with 1 byte or more waiting, and with no more than its capacity"
        } else if self.flush_every.is_zero() {
            "the time between two flushes is more than none"
        } else {
            return Ok(LogWriter::new(self.clone()));
        };
        Err(Error::refused(ErrorKind::Invalid, what).of("WriteLog", self.container.name()))
    }

    /// The lines of all writers that were logged at `range.start` or later and before `range.end`, in
    /// the order of their times; those of one writer in the order in which it logged them. Nothing is
    /// sent before the stream is read.
    ///
    /// Lists the blobs of the hours, days or months that the range touches, and opens those alone
    /// whose metadata says that they can have lines of it. In memory are a piece of each blob that is
    /// open, about one a writer, and the names of an hour's blobs.
    ///
    /// What writers have not flushed yet is not there. A stream that has come to the lines of just
    /// now can miss some that are flushed later with earlier times.
    pub fn read(&self, range: Range<DateTime<Utc>>) -> Stream<LogLine> {
        match self.check() {
            Ok(()) => read::lines(self.clone(), range),
            Err(error) => stream::once(future::ready(Err(error))).boxed(),
        }
    }

    /// Deletes the blobs all of whose lines were logged before `time`, and says how many there were.
    ///
    /// The log is listed up to `time`, and each blob takes a request. Failing on the way has deleted
    /// some; calling again deletes the others. A writer whose blob is deleted begins another.
    pub async fn delete_before(&self, time: DateTime<Utc>) -> Result<u64> {
        self.check()?;
        let blobs = self.container.blobs().starting_with(&format!("{}/", self.service));
        let old = blobs
            .with_metadata()
            .stream()
            .try_filter_map(|blob| future::ready(Ok(read::Found::of(&self.service, &blob))))
            .try_take_while(|found| future::ready(Ok(found.hour() < time)))
            .try_filter(|found| future::ready(found.end < time));
        let deleted =
            old.map_ok(
                |found| async move { self.container.blob(&found.name).delete_if_exists().await },
            );
        let deleted = deleted.try_buffer_unordered(DELETIONS);
        deleted.try_fold(0, async |sum, existed| Ok(sum + u64::from(existed))).await
    }

    /// Refuses a service whose name would be more than one part of the names of its blobs.
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
