//! `Edm.DateTime`: an instant in UTC, counted in 100 ns ticks, from 1601 to the end of 9999.

use std::fmt;
use std::str::FromStr;

use chrono::{Datelike, NaiveDate, Timelike, Utc};

/// Ticks (100 ns) in a second.
const SECOND: i64 = 10_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Ticks from 0001-01-01 to 1970-01-01.
const UNIX_EPOCH: i64 = 621_355_968_000_000_000;

/// An instant in UTC with the service's resolution of 100 ns.
///
/// Counted as .NET counts it, in ticks since 0001-01-01T00:00:00Z. The service stores instants
/// from 1601-01-01 to 9999-12-31T23:59:59.9999999; [`DateTime::MIN`] and [`DateTime::MAX`].
///
/// # JSON
///
/// With serde it is RFC 3339 text with up to seven digits of fraction, and ticks in binary formats.
///
/// ```
/// # use rowkey_wire as rowkey;
/// use rowkey::edm::DateTime;
///
/// let at: DateTime = serde_json::from_str(r#""2017-11-10T03:44:50.3846+01:00""#)?;
/// assert_eq!(serde_json::to_string(&at)?, r#""2017-11-10T02:44:50.3846Z""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DateTime(i64);

/// The reason why text or a number is not a [`DateTime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateTimeError {
    /// Before 1601-01-01 or after 9999-12-31.
    OutOfRange,
    /// Not an ISO 8601 date and time.
    Syntax,
}

impl DateTime {
    /// 9999-12-31T23:59:59.9999999Z, `DateTime.MaxValue` in .NET.
    pub const MAX: Self = Self(3_155_378_975_999_999_999);
    /// 1601-01-01T00:00:00Z, the earliest instant the service stores.
    pub const MIN: Self = Self(504_911_232_000_000_000);

    /// The instant `ticks` of 100 ns after 0001-01-01T00:00:00Z.
    pub const fn from_ticks(ticks: i64) -> Result<Self, DateTimeError> {
        if ticks < Self::MIN.0 || ticks > Self::MAX.0 {
            return Err(DateTimeError::OutOfRange);
        }
        Ok(Self(ticks))
    }

    /// Parses the form that nearly all instants have, `2017-11-10T02:44:50.3846037Z`, with up to
    /// seven digits of fraction or none; `None` for any other text.
    pub(crate) fn from_canonical(text: &str) -> Option<Self> {
        canonical(text.as_bytes()).and_then(|ticks| Self::from_ticks(ticks).ok())
    }

    /// Ticks of 100 ns since 0001-01-01T00:00:00Z, as .NET's `DateTime.Ticks`.
    pub const fn ticks(self) -> i64 {
        self.0
    }

    /// The instant as a [`chrono`] type. Every `DateTime` fits.
    #[expect(clippy::arithmetic_side_effects, reason = "ticks are those of 1601 to 9999")]
    pub fn to_chrono(self) -> chrono::DateTime<Utc> {
        let since = self.0 - UNIX_EPOCH;
        let nanos = u32::try_from(since.rem_euclid(SECOND) * 100).unwrap_or_default();
        chrono::DateTime::from_timestamp(since.div_euclid(SECOND), nanos).unwrap_or_default()
    }

    /// The ISO 8601 form, `2017-11-10T02:44:50.3846037Z`, without trailing zeros of the fraction,
    /// and without the fraction if it is zero.
    pub fn iso(self) -> Iso {
        Iso::of(self.whole_seconds(), self.fraction())
    }

    /// The text up to the seconds.
    fn whole_seconds(self) -> [u8; 28] {
        let (year, month, day) = civil(self.0.div_euclid(DAY));
        // Small integers are faster to divide.
        let (year, month, day) = (small(year), small(month), small(day));
        let seconds = small(self.0.rem_euclid(DAY) / SECOND);
        let mut text = *b"0000-00-00T00:00:00.0000000Z";
        pair(&mut text, 0, year / 100);
        pair(&mut text, 2, year % 100);
        pair(&mut text, 5, month);
        pair(&mut text, 8, day);
        pair(&mut text, 11, seconds / 3600);
        pair(&mut text, 14, seconds / 60 % 60);
        pair(&mut text, 17, seconds % 60);
        text
    }

    /// Ticks since the last whole second.
    fn fraction(self) -> u32 {
        small(self.0.rem_euclid(SECOND))
    }

    /// The form of HTTP headers, `Fri, 10 Nov 2017 02:44:50 GMT`. The fraction is dropped.
    pub fn to_http(self) -> String {
        let mut out = String::with_capacity(29);
        self.write_http(&mut out);
        out
    }

    /// Appends the form of HTTP headers.
    #[expect(clippy::arithmetic_side_effects, reason = "ticks are those of 1601 to 9999")]
    pub fn write_http(self, out: &mut String) {
        const DAYS: [&[u8; 5]; 7] =
            [b"Mon, ", b"Tue, ", b"Wed, ", b"Thu, ", b"Fri, ", b"Sat, ", b"Sun, "];
        const MONTHS: [&[u8; 5]; 12] = [
            b" Jan ", b" Feb ", b" Mar ", b" Apr ", b" May ", b" Jun ", b" Jul ", b" Aug ",
            b" Sep ", b" Oct ", b" Nov ", b" Dec ",
        ];
        let (date, time) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = civil(date);
        let seconds = time / SECOND;
        let mut buffer = [0_u8; 29];
        let mut at = 0;
        // 0001-01-01 was a Monday.
        put(&mut buffer, &mut at, DAYS[usize::try_from(date % 7).unwrap_or_default()]);
        digits(&mut buffer, &mut at, day, 2);
        put(&mut buffer, &mut at, MONTHS[usize::try_from(month - 1).unwrap_or_default()]);
        digits(&mut buffer, &mut at, year, 4);
        put(&mut buffer, &mut at, b" ");
        digits(&mut buffer, &mut at, seconds / 3600, 2);
        put(&mut buffer, &mut at, b":");
        digits(&mut buffer, &mut at, seconds / 60 % 60, 2);
        put(&mut buffer, &mut at, b":");
        digits(&mut buffer, &mut at, seconds % 60, 2);
        put(&mut buffer, &mut at, b" GMT");
        out.push_str(std::str::from_utf8(&buffer).unwrap_or_default());
    }

    /// The ISO 8601 form with exactly seven digits of fraction, as the ACL documents use it.
    #[expect(clippy::arithmetic_side_effects, reason = "ticks are those of 1601 to 9999")]
    pub fn to_iso7(self) -> String {
        let fraction = self.0.rem_euclid(SECOND);
        let whole = Self(self.0 - fraction).iso();
        format!("{}.{fraction:07}Z", whole.as_str().trim_end_matches('Z'))
    }
}

/// An instant as text; see [`DateTime::iso`].
#[derive(Clone, Copy)]
pub struct Iso {
    text: [u8; 28],
    length: usize,
}

impl Iso {
    /// The position of the fraction with its point, or of the `Z`.
    const FRACTION: usize = 19;

    /// Adds the fraction to a text whose fraction is zero.
    #[expect(clippy::arithmetic_side_effects, reason = "the fraction has seven digits")]
    fn of(mut text: [u8; 28], fraction: u32) -> Self {
        if fraction == 0 {
            text[Self::FRACTION] = b'Z';
            return Self { text, length: Self::FRACTION + 1 };
        }
        let digits = eight_digits(fraction * 10);
        // Trailing zeros are the high bytes; the last digit is never zero here.
        let count = 8 - digits.leading_zeros() / 8;
        let ascii = (digits | 0x3030_3030_3030_3030) & ((1 << (count * 8)) - 1);
        let ends = ascii | u64::from(b'Z') << (count * 8);
        text[Self::FRACTION + 1..].copy_from_slice(&ends.to_le_bytes());
        Self { text, length: Self::FRACTION + 2 + count as usize }
    }

    /// The text, all of it ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The text with `%3A` for its two colons, and its length.
    #[expect(clippy::arithmetic_side_effects, reason = "the text has at most 28 bytes")]
    pub(crate) fn percent_encoded(&self) -> ([u8; 32], usize) {
        let mut text = *b"0000-00-00T00%3A00%3A00.0000000Z";
        text[..13].copy_from_slice(&self.text[..13]);
        text[16..18].copy_from_slice(&self.text[14..16]);
        text[21..].copy_from_slice(&self.text[17..]);
        (text, self.length + 4)
    }
}

/// Formats instants. Consecutive instants are often in the same second, so that only the fraction
/// differs.
#[derive(Clone, Debug)]
pub struct IsoWriter {
    second: i64,
    text: [u8; 28],
}

impl IsoWriter {
    /// The same as [`DateTime::iso`].
    pub fn iso(&mut self, instant: DateTime) -> Iso {
        let second = instant.0.div_euclid(SECOND);
        if second != self.second {
            self.second = second;
            self.text = instant.whole_seconds();
        }
        Iso::of(self.text, instant.fraction())
    }
}

impl Default for IsoWriter {
    /// A writer without a cached second.
    fn default() -> Self {
        Self { second: i64::MIN, text: [0; 28] }
    }
}

/// As the instant's text: `DateTime(2024-12-31T12:34:05.1234567Z)`.
impl fmt::Debug for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DateTime").field(&format_args!("{self}")).finish()
    }
}

impl fmt::Debug for Iso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Iso").field(&format_args!("{}", self.as_str())).finish()
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.iso().as_str())
    }
}

impl FromStr for DateTime {
    type Err = DateTimeError;

    /// Parses any ISO 8601 date and time; no offset means UTC. A fraction beyond 100 ns is dropped,
    /// as in the service.
    fn from_str(text: &str) -> Result<Self, DateTimeError> {
        if let Some(ticks) = canonical(text.as_bytes()) {
            return Self::from_ticks(ticks);
        }
        let (text, offset) = split_offset(text)?;
        let mut parts = text.splitn(2, ['T', 't', ' ']);
        let date = parts
            .next()
            .and_then(|d| NaiveDate::parse_from_str(d, "%Y-%m-%d").ok())
            .ok_or(DateTimeError::Syntax)?;
        let time = match parts.next() {
            Some(time) => time_of_day(time).ok_or(DateTimeError::Syntax)?,
            None => 0,
        };
        // Years may have more than four digits, as long as the ticks fit.
        let ticks = i64::from(date.num_days_from_ce())
            .checked_sub(1)
            .and_then(|days| days.checked_mul(DAY))
            .and_then(|ticks| ticks.checked_add(time))
            .and_then(|ticks| ticks.checked_sub(offset.checked_mul(60 * SECOND)?));
        Self::from_ticks(ticks.ok_or(DateTimeError::OutOfRange)?)
    }
}

impl TryFrom<chrono::DateTime<Utc>> for DateTime {
    type Error = DateTimeError;

    /// Nanoseconds below 100 are dropped.
    fn try_from(value: chrono::DateTime<Utc>) -> Result<Self, DateTimeError> {
        let fraction = i64::from(value.nanosecond().min(999_999_999) / 100);
        let ticks = value
            .timestamp()
            .checked_mul(SECOND)
            .and_then(|ticks| ticks.checked_add(fraction))
            .and_then(|ticks| ticks.checked_add(UNIX_EPOCH));
        Self::from_ticks(ticks.ok_or(DateTimeError::OutOfRange)?)
    }
}

impl From<DateTime> for chrono::DateTime<Utc> {
    fn from(value: DateTime) -> Self {
        value.to_chrono()
    }
}

impl fmt::Display for DateTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "the instant is outside 1601-01-01 to 9999-12-31",
            Self::Syntax => "not an ISO 8601 date and time, such as 2017-11-10T02:44:50.3846037Z",
        })
    }
}

impl std::error::Error for DateTimeError {}

/// The ticks of the form that nearly every instant on the wire has:
/// `yyyy-MM-ddTHH:mm:ss[.f{1,7}]Z`.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "numbers of at most four digits, a fraction of at most seven"
)]
fn canonical(text: &[u8]) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        text.get(range)?
            .iter()
            .try_fold(0_i64, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
    };
    let is = |at: usize, byte: u8| text.get(at) == Some(&byte);
    if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let length = text.len();
    let fraction = match length.checked_sub(20)? {
        0 if is(19, b'Z') => 0,
        digits @ 2..=8 if is(19, b'.') && is(length - 1, b'Z') => {
            number(20..length - 1)? * 10_i64.pow(8 - u32::try_from(digits).ok()?)
        }
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 || !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    let days = days_from_civil(year, month, day)?;
    Some(days * DAY + (hour * 3600 + minute * 60 + second) * SECOND + fraction)
}

/// Splits off the offset: returns the text before it, and the offset in minutes.
#[expect(clippy::arithmetic_side_effects, reason = "four digits")]
fn split_offset(text: &str) -> Result<(&str, i64), DateTimeError> {
    if let Some(rest) = text.strip_suffix(['Z', 'z']) {
        return Ok((rest, 0));
    }
    let Some(at) = text.rfind(['+', '-']).filter(|at| *at > 10) else { return Ok((text, 0)) };
    let (rest, offset) = text.split_at(at);
    let digits: String = offset[1..].chars().filter(|c| *c != ':').collect();
    if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(DateTimeError::Syntax);
    }
    let number: i64 = digits.parse().map_err(|_| DateTimeError::Syntax)?;
    let minutes = number / 100 * 60 + number % 100;
    Ok((rest, if offset.starts_with('-') { -minutes } else { minutes }))
}

/// The ticks since midnight of `HH:mm[:ss[.fraction]]`.
#[expect(clippy::arithmetic_side_effects, reason = "numbers of two digits, a fraction of seven")]
fn time_of_day(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut parts = whole.split(':').map(|p| {
        (p.len() == 2 && p.bytes().all(|b| b.is_ascii_digit())).then(|| p.parse::<i64>().ok())?
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let ticks = (0..7)
        .fold(0, |sum, i| sum * 10 + fraction.as_bytes().get(i).map_or(0, |b| i64::from(b - b'0')));
    Some((hour * 3600 + minute * 60 + second) * SECOND + ticks)
}

/// The year, month and day of a day counted from 0001-01-01 (Howard Hinnant's `civil_from_days`).
#[expect(clippy::arithmetic_side_effects, reason = "days of 1601 to 9999")]
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 306;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// The days since 0001-01-01; `None` if the date does not exist.
#[expect(clippy::arithmetic_side_effects, reason = "a year of four digits, a month, a day")]
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day > last {
        return None;
    }
    let shifted_year = year - i64::from(month <= 2);
    let era = shifted_year.div_euclid(400);
    let of_era = shifted_year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 306)
}

#[expect(clippy::arithmetic_side_effects, reason = "within 29 bytes")]
fn put(buffer: &mut [u8], at: &mut usize, bytes: &[u8]) {
    buffer[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

/// The digits of a number below 100,000,000, the first in the lowest byte: all at once, because
/// byte by byte they cost more than the rest of an entity's head.
#[expect(clippy::arithmetic_side_effects, reason = "a number of eight digits, a byte for each")]
fn eight_digits(number: u32) -> u64 {
    // Splits into two groups of four digits, then four of two, then eight of one, each in half the
    // width of the previous step. The products are quotients by 100 and 10, which are exact for
    // numbers this small.
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = (fours * 10_486) >> 20 & 0x7F_0000_007F;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = (twos * 103) >> 10 & 0x000F_000F_000F_000F;
    tens | (twos - 10 * tens) << 8
}

fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// Writes two digits.
#[expect(clippy::arithmetic_side_effects, reason = "two digits, within 28 bytes")]
fn pair(text: &mut [u8; 28], at: usize, value: u32) {
    let value = u8::try_from(value).unwrap_or_default();
    text[at] = b'0' + value / 10;
    text[at + 1] = b'0' + value % 10;
}

#[expect(clippy::arithmetic_side_effects, reason = "within 29 bytes")]
fn digits(buffer: &mut [u8], at: &mut usize, value: i64, width: usize) {
    let mut rest = value;
    for slot in buffer[*at..*at + width].iter_mut().rev() {
        *slot = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    *at += width;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_instant() {
        let instant: DateTime = "2024-12-31T12:34:05.1234567Z".parse().unwrap();
        assert_eq!(format!("{instant:?}"), "DateTime(2024-12-31T12:34:05.1234567Z)");
        assert_eq!(format!("{:?}", instant.iso()), "Iso(2024-12-31T12:34:05.1234567Z)");
    }

    #[test]
    fn text_from_recordings_reads_and_prints_the_same() {
        // Timestamps of the live service (cosmosdb-python, sdk-python recordings).
        for text in [
            "2017-11-10T02:44:50.3846037Z",
            "2017-11-10T02:46:53.636692Z",
            "2019-07-10T19:00:00Z",
            "1601-01-01T00:00:00Z",
            "9999-12-31T23:59:59.9999999Z",
            "2020-02-29T12:00:00.1Z",
        ] {
            assert_eq!(text.parse::<DateTime>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn years_that_are_far_away_are_out_of_range() {
        // Each of these once overflowed: 60474 came back as 2018 without overflow checks.
        for text in [
            "+60474-03-01T00:00:00Z",
            "+29228-01-01T00:00:00Z",
            "+262142-12-31T23:59:59.9999999-23:59",
            "-262143-01-01T00:00:00+23:59",
            "-0001-12-31T00:00:00Z",
            "0000-01-01T00:00:00+99:99",
            "10000-01-01T00:00:00Z",
        ] {
            let error = text.parse::<DateTime>().unwrap_err();
            assert!(matches!(error, DateTimeError::OutOfRange | DateTimeError::Syntax), "{text}");
        }
        for far in [chrono::DateTime::<Utc>::MAX_UTC, chrono::DateTime::<Utc>::MIN_UTC] {
            assert_eq!(DateTime::try_from(far), Err(DateTimeError::OutOfRange));
        }
        let latest = chrono::DateTime::from_timestamp(i64::MAX / SECOND, 999_999_999).unwrap();
        assert_eq!(DateTime::try_from(latest), Err(DateTimeError::OutOfRange));
    }

    #[test]
    fn instants_one_after_the_other_are_written_as_each_alone() {
        let mut writer = IsoWriter::default();
        let begin = 636_458_618_903_846_037;
        for step in [0, 1, 9_999_999, 1, 153_963, 10_000_000, -10_000_000, 0, 864_000_000_000] {
            let instant = DateTime(begin + step);
            assert_eq!(writer.iso(instant).as_str(), instant.iso().as_str());
        }
        for instant in [DateTime::MIN, DateTime::MAX, DateTime::MIN] {
            assert_eq!(writer.iso(instant).as_str(), instant.iso().as_str());
        }
    }

    #[test]
    fn digits_are_those_of_the_number() {
        let mut number = 7_u32;
        for step in 0..200_000_u32 {
            let text = format!("{number:08}");
            let expected: Vec<u8> = text.bytes().map(|digit| digit - b'0').collect();
            assert_eq!(eight_digits(number).to_le_bytes(), expected[..], "{text}");
            number = (number + 7_919 * (step % 97) + 13) % 100_000_000;
        }
        for number in (0..10_000).chain(99_990_000..=99_999_999) {
            let text = format!("{number:08}");
            let digits = eight_digits(number).to_le_bytes().map(|digit| char::from(b'0' + digit));
            assert_eq!(String::from_iter(digits), text);
        }
    }

    #[test]
    fn ticks_are_those_of_dotnet() {
        // DateTime.MaxValue.Ticks and new DateTime(1970, 1, 1).Ticks, as .NET documents them.
        assert_eq!(DateTime::MAX.ticks(), 3_155_378_975_999_999_999);
        assert_eq!("1970-01-01T00:00:00Z".parse::<DateTime>().unwrap().ticks(), UNIX_EPOCH);
    }

    #[test]
    fn a_fraction_beyond_100_ns_is_cut_off() {
        let cut: DateTime = "2020-01-01T01:02:03.000000001Z".parse().unwrap();
        assert_eq!(cut.to_string(), "2020-01-01T01:02:03Z");
    }

    #[test]
    fn offsets_are_applied_and_a_missing_one_is_utc() {
        let utc: DateTime = "2020-01-01T10:00:00Z".parse().unwrap();
        assert_eq!("2020-01-01T12:30:00+02:30".parse(), Ok(utc));
        assert_eq!("2020-01-01T10:00:00".parse(), Ok(utc));
        assert_eq!("2020-01-01T02:00-0800".parse(), Ok(utc));
    }

    #[test]
    fn dates_outside_the_calendar_or_the_range_are_refused() {
        for text in [
            "2019-02-29T00:00:00Z",
            "2020-13-01T00:00:00Z",
            "yesterday",
            "",
            "2020-01-01T24:00:00Z",
        ] {
            assert_eq!(text.parse::<DateTime>(), Err(DateTimeError::Syntax), "{text}");
        }
        for text in ["1600-12-31T23:59:59Z", "0001-01-01T00:00:00Z"] {
            assert_eq!(text.parse::<DateTime>(), Err(DateTimeError::OutOfRange), "{text}");
        }
    }

    #[test]
    fn the_calendar_agrees_with_chrono() {
        let step = 40_009 * DAY / 1000 + 1_234_567;
        let mut ticks = DateTime::MIN.ticks();
        while ticks <= DateTime::MAX.ticks() {
            let ours = DateTime::from_ticks(ticks).unwrap();
            let chrono = ours.to_chrono();
            assert_eq!(DateTime::try_from(chrono), Ok(ours));
            assert_eq!(&ours.to_string()[..19], chrono.format("%Y-%m-%dT%H:%M:%S").to_string());
            assert_eq!(ours.to_string().parse(), Ok(ours));
            assert_eq!(ours.to_http(), chrono.format("%a, %d %b %Y %H:%M:%S GMT").to_string());
            ticks += step;
        }
    }
}
