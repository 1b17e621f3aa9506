//! Reads a log: the lines of a time range, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use futures_util::stream::{self, Peekable, StreamExt as _, TryStreamExt as _};
use rowkey_client::Container;
use rowkey_client::blob::{BlobItem, Download};
use rowkey_client::table::Stream;
use rowkey_client::{Blob, Error, ErrorKind, Result};

use super::line::{self, LogLine, MAX_TEXT, OVERHEAD};
use super::{BlobLog, name};

/// How often a blob is reopened because it grew while the connection broke.
const MAX_REOPENS: u32 = 16;

/// A blob that can have lines in a range.
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) start: DateTime<Utc>,
    pub(super) end: DateTime<Utc>,
    hour: DateTime<Utc>,
}

/// The lines of all writers, merged by their times. Within an hour, a blob is opened when its first line is
/// due. The blobs of one writer do not overlap, so about as many are open as there are writers.
pub(super) fn lines(log: BlobLog, range: Range<DateTime<Utc>>) -> Stream<LogLine> {
    let segments = segments(&log, range.clone()).peekable();
    let reader = Reader {
        container: log.container,
        range,
        segments,
        due: Vec::new(),
        open: BinaryHeap::new(),
    };
    let lines = stream::try_unfold(Box::new(reader), |mut reader| async move {
        Ok(reader.next().await?.map(|line| (line, reader)))
    });
    lines.boxed()
}

/// The blobs that can have lines in a range, by their names.
pub(super) fn segments(log: &BlobLog, range: Range<DateTime<Utc>>) -> Stream<Segment> {
    let prefixes = if range.is_empty() { Vec::new() } else { name::prefixes(&log.service, &range) };
    let container = log.container.clone();
    let blobs = stream::iter(prefixes)
        .flat_map(move |prefix| container.blobs().starting_with(&prefix).with_metadata().stream());
    let service = log.service.clone();
    blobs
        .try_filter_map(move |blob| {
            std::future::ready(Ok(Segment::of(&service, &blob).filter(|segment| {
                blob.properties.length > 0
                    && segment.start < range.end
                    && segment.end >= range.start
            })))
        })
        .boxed()
}

impl Segment {
    pub(super) fn of(service: &str, blob: &BlobItem) -> Option<Self> {
        let (begin, _) = name::parse(service, &blob.name)?;
        let (start, end) = name::span(begin, &blob.properties.metadata);
        Some(Self { name: blob.name.clone(), start, end, hour: name::hour(begin) })
    }

    /// The hour of its lines.
    pub(super) fn hour(&self) -> DateTime<Utc> {
        self.hour
    }
}

struct Reader {
    container: Container,
    range: Range<DateTime<Utc>>,
    segments: Peekable<Stream<Segment>>,
    /// The blobs of this hour that are not open yet, the last one first.
    due: Vec<Segment>,
    open: BinaryHeap<Reverse<Head>>,
}

/// An open blob and its next line.
struct Head {
    line: LogLine,
    name: String,
    lines: Lines,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<LogLine>> {
        if self.open.is_empty() && self.due.is_empty() {
            self.next_hour().await?;
        }
        while let Some(segment) = self.due.last() {
            if self.open.peek().is_some_and(|Reverse(head)| head.line.time < segment.start) {
                break;
            }
            let Some(segment) = self.due.pop() else { break };
            let lines = Lines::new(self.container.blob(&segment.name));
            self.push(segment.name, lines).await?;
            if self.due.is_empty() && self.open.is_empty() {
                self.next_hour().await?;
            }
        }
        let Some(Reverse(Head { line, name, lines })) = self.open.pop() else { return Ok(None) };
        self.push(name, lines).await?;
        Ok(Some(line))
    }

    /// Finds the blobs of the next hour that has any.
    async fn next_hour(&mut self) -> Result<()> {
        let Some(first) = self.segments.try_next().await? else { return Ok(()) };
        let hour = first.hour;
        self.due.push(first);
        let same = |segment: &Result<Segment>| {
            segment.as_ref().map_or(true, |segment| segment.hour == hour)
        };
        while let Some(segment) = std::pin::Pin::new(&mut self.segments).next_if(same).await {
            self.due.push(segment?);
        }
        self.due.sort_by(|a, b| (b.start, &b.name).cmp(&(a.start, &a.name)));
        Ok(())
    }

    /// Keeps a blob open until its next line in the range is due.
    async fn push(&mut self, name: String, mut lines: Lines) -> Result<()> {
        while let Some(line) = lines.next().await? {
            if line.time >= self.range.end {
                break;
            }
            if line.time >= self.range.start {
                self.open.push(Reverse(Head { line, name, lines }));
                break;
            }
        }
        Ok(())
    }
}

/// The lines of a blob, up to its length when it was opened.
struct Lines {
    blob: Blob,
    download: Option<Download>,
    /// The received bytes that are not read yet, and how many of them are known to contain no line feed.
    bytes: BytesMut,
    searched: usize,
    /// The number of bytes received, and the total.
    at: u64,
    end: Option<u64>,
}

impl Lines {
    fn new(blob: Blob) -> Self {
        Self { blob, download: None, bytes: BytesMut::new(), searched: 0, at: 0, end: None }
    }

    async fn next(&mut self) -> Result<Option<LogLine>> {
        loop {
            if let Some(length) = self.bytes[self.searched..].iter().position(|b| *b == b'\n') {
                let line = self.bytes.split_to(self.searched + length + 1);
                self.searched = 0;
                let line = line::parse(&line[..line.len() - 1]);
                return line.map(Some).ok_or_else(|| self.foreign());
            }
            self.searched = self.bytes.len();
            if self.searched > MAX_TEXT + OVERHEAD {
                return Err(self.foreign());
            }
            match self.piece().await? {
                Some(piece) => self.bytes.extend_from_slice(&piece),
                None if self.bytes.is_empty() => return Ok(None),
                None => return Err(self.foreign()),
            }
        }
    }

    /// The next received bytes. Blobs may grow while they are read; if the connection breaks, it is opened
    /// again.
    async fn piece(&mut self) -> Result<Option<Bytes>> {
        let mut reopened = 0;
        loop {
            let download = match (&mut self.download, self.end) {
                (Some(download), _) => download,
                (None, Some(end)) if self.at >= end => return Ok(None),
                (None, end) => {
                    let read = match end {
                        Some(end) => self.blob.read().range(self.at..end),
                        None => self.blob.read(),
                    };
                    // Deleted since it was listed, for example as an old blob.
                    let Some(download) = read.open().await? else { return Ok(None) };
                    self.end.get_or_insert(download.properties.length);
                    self.download.insert(download)
                }
            };
            match download.next().await {
                Ok(Some(piece)) => {
                    self.at += piece.len() as u64;
                    return Ok(Some(piece));
                }
                Ok(None) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Conflict && reopened < MAX_REOPENS => {
                    reopened += 1;
                    self.download = None;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn foreign(&self) -> Error {
        let what = "a blob of the log contains an invalid line";
        Error::refused(ErrorKind::Decode, what)
            .of("ReadLog", self.blob.container())
            .advise("another program has written to it")
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.line.time, &self.name).cmp(&(other.line.time, &other.name))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Head {}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
