//! The buffer of a log writer: lines that wait to be written, grouped into append blocks.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Datelike as _, TimeDelta, Utc};
use rowkey_client::{Error, ErrorKind, Result};

use super::{line, name};

/// The maximum length of a block, which every version of the service accepts in one append.
const MAX_BLOCK: usize = 4 << 20;

/// How far a line may be ahead of the clock before later lines with current times go to a new blob.
const AHEAD: TimeDelta = TimeDelta::minutes(1);

/// Lines of one period that are appended together.
pub(super) struct Block<B = BytesMut> {
    /// The beginning of their period.
    pub(super) begin: DateTime<Utc>,
    pub(super) first: DateTime<Utc>,
    pub(super) last: DateTime<Utc>,
    pub(super) lines: u64,
    pub(super) bytes: B,
}

/// Waiting lines, up to a limit.
pub(super) struct Buffer {
    blocks: VecDeque<Block>,
    capacity: usize,
    period: TimeDelta,
    /// The bytes that wait or are being sent.
    pub(super) bytes: usize,
    pub(super) lines: u64,
    /// The total number of accepted lines.
    pub(super) taken: u64,
    last: DateTime<Utc>,
    /// The time of the last line that was not ahead of the clock.
    present: DateTime<Utc>,
    /// The latest time that the clock has shown. The writer's own time, which never goes back.
    clock: DateTime<Utc>,
    pub(super) dropped: u64,
    /// The number of dropped lines that the log already reports.
    told: u64,
    notice: fn(u64) -> String,
}

impl Buffer {
    pub(super) fn new(capacity: usize, period: TimeDelta) -> Self {
        Self {
            blocks: VecDeque::new(),
            capacity,
            period,
            bytes: 0,
            lines: 0,
            taken: 0,
            last: DateTime::<Utc>::MIN_UTC,
            present: DateTime::<Utc>::MIN_UTC,
            clock: DateTime::<Utc>::MIN_UTC,
            dropped: 0,
            told: 0,
            notice: |lines| format!("{lines} lines were dropped: the buffer was full"),
        }
    }

    /// Adds a line unless the buffer is full. `now` is the time of the clock, and that of the line if it has
    /// none of its own.
    pub(super) fn push(
        &mut self,
        time: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
        text: &str,
    ) -> Result<bool> {
        line::check(text)?;
        // A clock that was set back stands until it has caught up. Otherwise later lines would be read first.
        let now = now.max(self.clock);
        let time = time.unwrap_or(now);
        if !(0..10_000).contains(&time.year()) {
            let what = "the year of the line does not have four digits, as blob names require";
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        let length = text.len() + line::OVERHEAD;
        if length > self.capacity {
            let what =
                format!("the line has {length} bytes, more than the buffer's {}", self.capacity);
            return Err(Error::refused(ErrorKind::TooLarge, what).advise("set a larger capacity"));
        }
        if self.bytes + length > self.capacity {
            return Ok(false);
        }
        let time = line::truncated(time);
        let latest = now.checked_add_signed(AHEAD).unwrap_or(now);
        if self.last > latest && time <= latest {
            // A line that was given a time in the future. Otherwise all following lines would get it.
            self.last = time.max(self.present);
        }
        // Readers rely on ascending times in a blob, which clocks do not guarantee.
        let time = time.max(self.last);
        let begin = name::begin(time, self.period);
        let joins = |block: &Block| {
            let fits = block.bytes.len() + length <= MAX_BLOCK;
            block.begin == begin && block.last <= time && fits
        };
        if !self.blocks.back().is_some_and(joins) {
            let bytes = BytesMut::new();
            self.blocks.push_back(Block { begin, first: time, last: time, lines: 0, bytes });
        }
        let Some(block) = self.blocks.back_mut() else { return Ok(false) };
        line::print(time, text, &mut block.bytes);
        block.last = time;
        block.lines += 1;
        self.last = time;
        self.clock = now;
        if time <= latest {
            self.present = time;
        }
        self.bytes += length;
        self.lines += 1;
        self.taken += 1;
        Ok(true)
    }

    /// Adds a line, or counts it as dropped if it is invalid or the buffer is full.
    pub(super) fn push_or_drop(
        &mut self,
        now: DateTime<Utc>,
        text: &str,
        notice: fn(u64) -> String,
    ) {
        self.notice = notice;
        self.tell(now);
        if !matches!(self.push(None, now, text), Ok(true)) {
            self.dropped += 1;
        }
    }

    /// Logs the number of dropped lines, if there is room.
    pub(super) fn tell(&mut self, now: DateTime<Utc>) {
        let untold = self.dropped - self.told;
        if untold > 0 && matches!(self.push(None, now, &(self.notice)(untold)), Ok(true)) {
            self.told = self.dropped;
        }
    }

    /// The next block to write. Its lines count as waiting until they are [written](Self::written).
    pub(super) fn pop(&mut self) -> Option<Block<Bytes>> {
        let Block { begin, first, last, lines, bytes } = self.blocks.pop_front()?;
        Some(Block { begin, first, last, lines, bytes: bytes.freeze() })
    }

    /// Frees the space of a written block.
    pub(super) fn written(&mut self, lines: u64, bytes: usize) {
        self.lines -= lines;
        self.bytes -= bytes;
    }
}
