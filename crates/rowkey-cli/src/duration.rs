//! Times of flags: a number with its unit, such as `30m`, or a time, such as `2026-11-20T00:00:00Z`.

use std::time::Duration;

use rowkey::edm::DateTime;
use rowkey::{Clock as _, SystemClock};

/// The time that a text means: this long ago, or itself.
pub(crate) fn time(text: &str) -> Result<DateTime, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let age =
        parse(text).map_err(|error| format!("{error}; or a time such as 2026-11-20T00:00:00Z"))?;
    let now = DateTime::try_from(SystemClock.now()).ok();
    let time = now.and_then(|now| {
        let ticks = i64::try_from(age.as_secs()).ok()?.checked_mul(TICKS)?;
        DateTime::from_ticks(now.ticks().checked_sub(ticks)?).ok()
    });
    time.ok_or_else(|| format!("{text} is before the year 1601; name a later time"))
}

/// One second in the unit of Timestamps.
const TICKS: i64 = 10_000_000;

/// Parses a duration: `45s`, `30m`, `12h`, `7d` or `4w`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refused = || "a duration is a number with its unit: 45s, 30m, 12h, 7d or 4w".to_owned();
    let unit = text.chars().next_back().ok_or_else(refused)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(refused()),
    };
    let number = text.trim_end_matches(unit);
    // `parse` would take a sign, and `trim_end_matches` several units.
    if number.len() + 1 != text.len() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refused());
    }
    let number: u64 = number.parse().map_err(|_| refused())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_one_number_and_one_unit() {
        for (text, seconds) in [
            ("45s", 45),
            ("30m", 1_800),
            ("12h", 43_200),
            ("7d", 604_800),
            ("1w", 604_800),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "s", "5", "5ss", "+5s", "-5s", "5 s", "5S", "1h30m", "5é", "99999999999999999d"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_an_age_or_a_time() {
        let text = |text| time(text).unwrap().to_string();
        assert_eq!(text("2026-11-20T00:00:00Z"), "2026-11-20T00:00:00Z");
        let day = time("1d").unwrap().ticks() - time("2d").unwrap().ticks();
        assert!((day - 86_400 * TICKS).abs() < 60 * TICKS);
        for text in ["", "d", "-1d", "1y", "yesterday", "9999999d", "18446744073709551615w"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
