//! A line of a log as stored: its time, a space, the text, a line feed.

use std::fmt;

use bytes::{BufMut as _, BytesMut};
use chrono::{DateTime, SubsecRound as _, Utc};
use rowkey_client::{Error, ErrorKind, Result};

use super::name;

/// The maximum length of a line's text.
pub(super) const MAX_TEXT: usize = 1 << 20;

/// The bytes of a line besides its text.
pub(super) const OVERHEAD: usize = 27 + 2;

/// One line of a log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct LogLine {
    /// The time of the line, to the microsecond.
    pub time: DateTime<Utc>,
    /// The text of the line.
    pub text: String,
}

/// Refuses a text that is not a valid line.
pub(super) fn check(text: &str) -> Result<()> {
    if text.contains('\n') {
        let what = "the text has a line break and would be several lines";
        return Err(
            Error::refused(ErrorKind::Invalid, what).advise("escape line breaks, as JSON does")
        );
    }
    if text.len() > MAX_TEXT {
        let what = format!("the text has {} bytes; the maximum is {MAX_TEXT}", text.len());
        return Err(Error::refused(ErrorKind::TooLarge, what).advise("store it in a separate blob"));
    }
    Ok(())
}

/// The time, truncated to the precision of lines.
pub(super) fn truncated(time: DateTime<Utc>) -> DateTime<Utc> {
    time.trunc_subsecs(6)
}

/// Appends the line to `to`.
pub(super) fn print(time: DateTime<Utc>, text: &str, to: &mut BytesMut) {
    to.reserve(text.len() + OVERHEAD);
    to.put_slice(name::time(time).as_bytes());
    to.put_u8(b' ');
    to.put_slice(text.as_bytes());
    to.put_u8(b'\n');
}

/// Parses a line without its line feed; `None` if no log writer wrote it.
pub(super) fn parse(line: &[u8]) -> Option<LogLine> {
    let line = std::str::from_utf8(line).ok()?;
    let (time, text) = line.split_once(' ')?;
    let parsed = name::parse_time(time).filter(|_| time.len() + 2 == OVERHEAD)?;
    Some(LogLine { time: parsed, text: text.to_owned() })
}

impl fmt::Debug for LogLine {
    /// Shows the length of the text instead of the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLine")
            .field("time", &self.time)
            .field("length", &self.text.len())
            .finish_non_exhaustive()
    }
}
