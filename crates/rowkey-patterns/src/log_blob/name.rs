//! The names and metadata of a log's blobs, and the prefixes to list for a time range.

use std::collections::BTreeMap;
use std::ops::Range;

use chrono::{DateTime, Datelike as _, Days, Months, NaiveDateTime, SecondsFormat, TimeDelta, Utc};

/// The metadata entry with the time of the first line of a blob: no line is earlier.
pub(super) const START: &str = "StartTime";

/// The metadata entry with the time of the last line of a blob: no line is later.
pub(super) const END: &str = "EndTime";

/// The largest number of a blob in its folder: six digits sort as text.
pub(super) const MAX_NUMBER: u32 = 999_999;

/// A range longer than this is read by listing the whole log.
const LONG: TimeDelta = TimeDelta::days(366);

/// The resolution of times in a log.
pub(super) const STEP: TimeDelta = TimeDelta::microseconds(1);

/// The prefix of the names of blobs in the period that begins at this time: `web/2026/11/21/1400/`.
pub(super) fn folder(service: &str, begin: DateTime<Utc>) -> String {
    format!("{service}/{}/", begin.format("%Y/%m/%d/%H%M"))
}

/// The name of a blob: `web/2026/11/21/1400/000001.log`.
pub(super) fn blob(service: &str, begin: DateTime<Utc>, number: u32) -> String {
    format!("{}{number:06}.log", folder(service, begin))
}

/// The beginning of a blob's period and its number; `None` if the blob is not part of this log.
pub(super) fn parse(service: &str, name: &str) -> Option<(DateTime<Utc>, u32)> {
    let rest = name.strip_prefix(service)?.strip_prefix('/')?;
    let (begin, file) = rest.rsplit_once('/')?;
    let begin = NaiveDateTime::parse_from_str(begin, "%Y/%m/%d/%H%M").ok()?.and_utc();
    let number = file.strip_suffix(".log")?.parse().ok()?;
    // A name that parses but is not in canonical form was written by another program.
    (blob(service, begin, number) == name).then_some((begin, number))
}

/// Formats a time for lines and metadata: always 27 characters, so that it sorts as text.
pub(super) fn time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// Parses such a time.
pub(super) fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
}

/// The hour that contains an instant.
pub(super) fn hour(time: DateTime<Utc>) -> DateTime<Utc> {
    begin(time, TimeDelta::hours(1))
}

/// The beginning of the period that contains an instant.
pub(super) fn begin(time: DateTime<Utc>, period: TimeDelta) -> DateTime<Utc> {
    // Works for all times; chrono's own truncation ends in 2262.
    let into = time.timestamp().rem_euclid(period.num_seconds().max(1));
    DateTime::from_timestamp(time.timestamp() - into, 0).unwrap_or(time)
}

/// The times of the first and the last line of a blob, from its metadata, or otherwise from its name: periods
/// end with their hour.
pub(super) fn span(
    begin: DateTime<Utc>,
    metadata: &BTreeMap<String, String>,
) -> (DateTime<Utc>, DateTime<Utc>) {
    let stored = |wanted: &str| {
        let mut named = metadata.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.next().and_then(|(_, value)| parse_time(value))
    };
    let end = || hour(begin) + TimeDelta::hours(1) - STEP;
    (stored(START).unwrap_or(begin), stored(END).unwrap_or_else(end))
}

/// The prefixes to list to find every blob that can have lines in this range, in time order. A request lists
/// 5000 blobs, so more than one hour of a day is listed as the day, and more than a week of a month as the
/// month.
pub(super) fn prefixes(service: &str, range: &Range<DateTime<Utc>>) -> Vec<String> {
    if range.end - range.start > LONG {
        return vec![format!("{service}/")];
    }
    let mut prefixes = Vec::new();
    let mut at = hour(range.start);
    while at < range.end {
        let Some((next, format)) = step(at, range.end) else { break };
        prefixes.push(format!("{service}/{}", at.format(format)));
        at = next;
    }
    prefixes
}

/// The end of the next listing from `at`, and its format; `None` at the end of time.
fn step(at: DateTime<Utc>, end: DateTime<Utc>) -> Option<(DateTime<Utc>, &'static str)> {
    let midnight = begin(at, TimeDelta::days(1));
    let next_month = midnight.with_day(1).and_then(|day| day.checked_add_months(Months::new(1)));
    if let Some(next) = next_month.filter(|next| end.min(*next) - at > TimeDelta::days(7)) {
        return Some((next, "%Y/%m/"));
    }
    let next_day = midnight.checked_add_days(Days::new(1))?;
    let in_one_hour = end.min(next_day) - at <= TimeDelta::hours(1);
    Some((next_day, if in_one_hour { "%Y/%m/%d/%H" } else { "%Y/%m/%d/" }))
}
