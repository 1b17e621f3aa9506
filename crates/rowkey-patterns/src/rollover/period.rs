//! Periods, and their notation in the names of tables.

use chrono::{
    DateTime, Datelike as _, Days, Months, NaiveDate, NaiveTime, TimeDelta, Timelike as _, Utc,
};

/// The period of time that one table covers, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// An hour: `logx2026112114`.
    Hour,
    /// A day: `logx20261121`.
    Day,
    /// A month: `logx202611`.
    Month,
    /// A year: `logx2026`.
    Year,
}

impl Period {
    /// The beginning of the period that contains `time`.
    pub(super) fn start(self, time: DateTime<Utc>) -> DateTime<Utc> {
        let (month, day, hour) = match self {
            Self::Hour => (time.month(), time.day(), time.hour()),
            Self::Day => (time.month(), time.day(), 0),
            Self::Month => (time.month(), 1, 0),
            Self::Year => (1, 1, 0),
        };
        instant(time.year(), month, day, hour).unwrap_or(time)
    }

    /// The end of the period that begins at `start`: the beginning of the next.
    pub(super) fn end(self, start: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::Hour => start.checked_add_signed(TimeDelta::hours(1)),
            Self::Day => start.checked_add_days(Days::new(1)),
            Self::Month => start.checked_add_months(Months::new(1)),
            Self::Year => start.checked_add_months(Months::new(12)),
        }
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// The period as written in the name of a table.
    pub(super) fn stamp(self, start: DateTime<Utc>) -> String {
        let format = match self {
            Self::Hour => "%Y%m%d%H",
            Self::Day => "%Y%m%d",
            Self::Month => "%Y%m",
            Self::Year => "%Y",
        };
        start.format(format).to_string()
    }

    /// Parses the period after the prefix of a table's name. `None` if the name has another kind of period,
    /// or another prefix.
    pub(super) fn parse(self, stamp: &str) -> Option<DateTime<Utc>> {
        let digits = |range: std::ops::Range<usize>| stamp.get(range)?.parse::<u32>().ok();
        let month = || digits(4..6);
        let start = match self {
            Self::Hour => instant(year(stamp)?, month()?, digits(6..8)?, digits(8..10)?),
            Self::Day => instant(year(stamp)?, month()?, digits(6..8)?, 0),
            Self::Month => instant(year(stamp)?, month()?, 1, 0),
            Self::Year => instant(year(stamp)?, 1, 1, 0),
        }?;
        // Only names in the format of `stamp`: no signs, and no further characters.
        (self.stamp(start) == stamp).then_some(start)
    }
}

fn year(stamp: &str) -> Option<i32> {
    stamp.get(..4)?.parse().ok()
}

fn instant(year: i32, month: u32, day: u32, hour: u32) -> Option<DateTime<Utc>> {
    let time = NaiveTime::from_hms_opt(hour, 0, 0)?;
    Some(NaiveDate::from_ymd_opt(year, month, day)?.and_time(time).and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Period; 4] = [Period::Hour, Period::Day, Period::Month, Period::Year];

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_time_is_in_the_period_from_its_start_to_its_end() {
        let time = at("2024-02-29T23:59:59.9Z");
        let expected = [
            ("2024-02-29T23:00:00Z", "2024-03-01T00:00:00Z", "2024022923"),
            ("2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z", "20240229"),
            ("2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", "202402"),
            ("2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2024"),
        ];
        for (period, (start, end, stamp)) in ALL.into_iter().zip(expected) {
            assert_eq!(period.start(time), at(start));
            assert_eq!(period.end(at(start)), at(end));
            assert_eq!(period.start(at(end)), at(end), "the end is the start of the next");
            assert_eq!(period.stamp(at(start)), stamp);
        }
    }

    #[test]
    fn only_exact_table_names_parse() {
        for period in ALL {
            for time in ["1999-12-31T23:30:00Z", "2024-02-29T05:00:00Z", "2026-11-21T14:07:00Z"] {
                let start = period.start(at(time));
                let text = period.stamp(start);
                assert_eq!(period.parse(&text), Some(start));
                for other in ALL.into_iter().filter(|&other| other != period) {
                    assert_eq!(other.parse(&text), None, "{text} is not of {other:?}");
                }
            }
        }
        for text in ["", "x", "20261121x0", "2026112", "20261321", "20260230"] {
            assert_eq!(Period::Day.parse(text), None, "{text}");
        }
        for text in ["+0261121", "20261121x", "120261121", "2026112\u{661}"] {
            assert_eq!(Period::Day.parse(text), None, "{text}");
        }
    }
}
