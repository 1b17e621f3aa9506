//! Instants and days in keys: ticks, ISO 8601 of fixed width, and Unix time.

use std::fmt::Write as _;

use chrono::{Datelike as _, NaiveDate, Utc};
use rowkey_wire::edm::DateTime;

use super::notation::Notation;
use super::part::PartFormat;
use super::read::{KeyReadError, integer, number};

const TICKS: i64 = 10_000_000;
const DAY: i64 = 86_400;
/// Seconds from 0001-01-01 to 1970-01-01.
const UNIX_EPOCH: i64 = 62_135_596_800;
/// Seconds from 0001-01-01 to 10000-01-01.
const END: i64 = 315_537_897_600;

/// An instant in the years 1 to 9999, with the resolution of the finest notation.
#[derive(Clone, Copy)]
pub(super) struct Instant {
    /// Since 0001-01-01T00:00:00Z.
    seconds: i64,
    nanos: u32,
}

/// The notation cannot represent the instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfRange;

impl Instant {
    pub(super) fn from_chrono(value: chrono::DateTime<Utc>) -> Result<Self, OutOfRange> {
        // A leap second counts as the end of the second before it.
        let nanos = value.timestamp_subsec_nanos().min(999_999_999);
        Self::new(value.timestamp().saturating_add(UNIX_EPOCH), nanos)
    }

    pub(super) fn to_chrono(self) -> Result<chrono::DateTime<Utc>, KeyReadError> {
        chrono::DateTime::from_timestamp(self.seconds - UNIX_EPOCH, self.nanos)
            .ok_or_else(|| malformed(OutOfRange))
    }

    pub(super) fn to_edm(self) -> Result<DateTime, KeyReadError> {
        if !self.nanos.is_multiple_of(100) {
            return Err(KeyReadError::malformed("a date of at most 100 ns"));
        }
        DateTime::from_ticks(self.ticks()).map_err(|_| malformed(OutOfRange))
    }

    fn new(seconds: i64, nanos: u32) -> Result<Self, OutOfRange> {
        if (0..END).contains(&seconds) { Ok(Self { seconds, nanos }) } else { Err(OutOfRange) }
    }

    fn ticks(self) -> i64 {
        self.seconds * TICKS + i64::from(self.nanos / 100)
    }

    fn from_ticks(ticks: i64) -> Result<Self, OutOfRange> {
        let nanos = u32::try_from(ticks.rem_euclid(TICKS) * 100).map_err(|_| OutOfRange)?;
        Self::new(ticks.div_euclid(TICKS), nanos)
    }

    fn date(self) -> Result<NaiveDate, OutOfRange> {
        let days = i32::try_from(self.seconds / DAY + 1).map_err(|_| OutOfRange)?;
        NaiveDate::from_num_days_from_ce_opt(days).ok_or(OutOfRange)
    }

    fn from_date(date: NaiveDate) -> Result<Self, OutOfRange> {
        Self::new((i64::from(date.num_days_from_ce()) - 1) * DAY, 0)
    }

    pub(super) fn write(self, format: PartFormat, out: &mut String) -> Result<(), OutOfRange> {
        match format.notation {
            Notation::Iso { fraction, naive } => {
                write_date(self.date()?, Notation::Date, out)?;
                let second = self.seconds % DAY;
                let (hour, minute) = (second / 3600, second / 60 % 60);
                let _ = write!(out, "T{hour:02}:{minute:02}:{:02}", second % 60);
                if fraction > 0 {
                    let (width, value) = (usize::from(fraction), self.nanos / unit(fraction));
                    let _ = write!(out, ".{value:0width$}");
                }
                out.push_str(if naive { "" } else { "Z" });
                Ok(())
            }
            Notation::Date | Notation::CompactDate => {
                write_date(self.date()?, format.notation, out)
            }
            Notation::Unix { millis, unpadded } => {
                let seconds = self.seconds - UNIX_EPOCH;
                let of_second = i64::from(self.nanos / 1_000_000);
                let value = if millis { seconds * 1000 + of_second } else { seconds };
                let width = unix_digits(millis);
                if unpadded {
                    let _ = write!(out, "{value}");
                } else if (0..10_i64.pow(width)).contains(&value) {
                    let width = width as usize;
                    let _ = write!(out, "{value:0width$}");
                } else {
                    return Err(OutOfRange);
                }
                Ok(())
            }
            notation => {
                let ticks = self.ticks();
                let ticks = if format.descending { DateTime::MAX.ticks() - ticks } else { ticks };
                let width = usize::from(ticks_digits(notation));
                if width == 18 && ticks >= 10_i64.pow(18) {
                    return Err(OutOfRange);
                }
                let _ = write!(out, "{ticks:0width$}");
                Ok(())
            }
        }
    }

    pub(super) fn read(text: &str, format: PartFormat) -> Result<Self, KeyReadError> {
        match format.notation {
            Notation::Iso { fraction, naive } => iso(text, fraction, naive).ok_or(
                KeyReadError::malformed("a date and time in ISO 8601 of the template's width"),
            ),
            Notation::Date | Notation::CompactDate => {
                Self::from_date(read_date(text, format.notation)?).map_err(malformed)
            }
            Notation::Unix { millis, unpadded } => {
                let width = u8::try_from(unix_digits(millis)).unwrap_or(0);
                let value = if unpadded { integer(text)? } else { number(text, width)? };
                let value = i64::try_from(value).map_err(|_| malformed(OutOfRange))?;
                let units = if millis { 1000 } else { 1 };
                let (seconds, millis) = (value.div_euclid(units), value.rem_euclid(units));
                let nanos = u32::try_from(millis * 1_000_000).unwrap_or(0);
                Self::new(seconds.saturating_add(UNIX_EPOCH), nanos).map_err(malformed)
            }
            notation => {
                let value = number(text, ticks_digits(notation))?;
                let value = i64::try_from(value).map_err(|_| malformed(OutOfRange))?;
                let ticks = if format.descending { DateTime::MAX.ticks() - value } else { value };
                Self::from_ticks(ticks).map_err(malformed)
            }
        }
    }
}

impl From<DateTime> for Instant {
    fn from(instant: DateTime) -> Self {
        let (seconds, fraction) = (instant.ticks() / TICKS, instant.ticks() % TICKS);
        Self { seconds, nanos: u32::try_from(fraction * 100).unwrap_or_default() }
    }
}

/// Writes a day in the years 1 to 9999.
pub(super) fn write_date(
    date: NaiveDate,
    notation: Notation,
    out: &mut String,
) -> Result<(), OutOfRange> {
    let (year, month, day) = (date.year(), date.month(), date.day());
    if !(1..=9999).contains(&year) {
        return Err(OutOfRange);
    }
    let _ = match notation {
        Notation::CompactDate => write!(out, "{year:04}{month:02}{day:02}"),
        _ => write!(out, "{year:04}-{month:02}-{day:02}"),
    };
    Ok(())
}

/// Reads a day in the years 1 to 9999.
pub(super) fn read_date(text: &str, notation: Notation) -> Result<NaiveDate, KeyReadError> {
    let (date, expected) = match notation {
        Notation::CompactDate => (date(text, ""), "a date of 8 digits, such as 20261123"),
        _ => (date(text, "-"), "a date, such as 2026-11-23"),
    };
    date.ok_or(KeyReadError::malformed(expected))
}

fn date(text: &str, separator: &str) -> Option<NaiveDate> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(rest.strip_prefix(separator)?, 2)?;
    let (day, rest) = digits(rest.strip_prefix(separator)?, 2)?;
    let year = i32::try_from(year).ok().filter(|year| *year > 0)?;
    NaiveDate::from_ymd_opt(year, month, day).filter(|_| rest.is_empty())
}

fn iso(text: &str, fraction: u8, naive: bool) -> Option<Instant> {
    let (day, time) = text.split_once('T')?;
    let start = Instant::from_date(date(day, "-")?).ok()?;
    let (hour, rest) = digits(time, 2)?;
    let (minute, rest) = digits(rest.strip_prefix(':')?, 2)?;
    let (second, mut rest) = digits(rest.strip_prefix(':')?, 2)?;
    let mut nanos = 0;
    if fraction > 0 {
        let (value, after) = digits(rest.strip_prefix('.')?, usize::from(fraction))?;
        (nanos, rest) = (value * unit(fraction), after);
    }
    let is_time = hour < 24 && minute < 60 && second < 60;
    let is_end = rest == if naive { "" } else { "Z" };
    let of_day = i64::from(hour * 3600 + minute * 60 + second);
    (is_time && is_end).then_some(Instant { seconds: start.seconds + of_day, nanos })
}

/// Reads up to nine digits.
fn digits(text: &str, count: usize) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(count)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| is_number)?, rest))
}

/// The nanoseconds of one unit in the last digit of such a fraction.
fn unit(fraction: u8) -> u32 {
    10_u32.pow(u32::from(9_u8.saturating_sub(fraction)))
}

fn unix_digits(millis: bool) -> u32 {
    if millis { 13 } else { 10 }
}

fn ticks_digits(notation: Notation) -> u8 {
    if notation == Notation::Digits(18) { 18 } else { 19 }
}

fn malformed(OutOfRange: OutOfRange) -> KeyReadError {
    KeyReadError::malformed("a date that its type has")
}
