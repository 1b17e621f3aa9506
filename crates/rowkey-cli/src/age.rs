//! Times on the command line: an age such as `12h`, or a time such as `2026-11-20T00:00:00Z`.

use rowkey::edm::DateTime;
use rowkey::{Clock as _, SystemClock};

use crate::error::{Error, Result};

/// Ticks of 100 ns in a second.
const TICKS: i64 = 10_000_000;

/// The time that a text means: this long ago, or itself.
pub(crate) fn time(text: &str) -> Result<DateTime> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 604_800)];
    let age = units.into_iter().find_map(|(unit, seconds)| {
        let count: i64 = text.strip_suffix(unit)?.parse().ok().filter(|count| *count >= 0)?;
        count.checked_mul(seconds)?.checked_mul(TICKS)
    });
    let now = DateTime::try_from(SystemClock.now()).ok();
    let time = age.zip(now).and_then(|(age, now)| DateTime::from_ticks(now.ticks() - age).ok());
    let unknown = "it is no time; write an age such as 30m, 12h, 7d or 4w, or a time such as 2026-11-20T00:00:00Z";
    time.ok_or_else(|| Error::usage(unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_times_are_read_and_others_are_refused() {
        assert_eq!(
            time("2026-11-20T00:00:00Z").unwrap().to_string(),
            "2026-11-20T00:00:00.0000000Z"
        );
        let day = time("1d").unwrap().ticks() - time("2d").unwrap().ticks();
        assert!((day - 86_400 * TICKS).abs() < 60 * TICKS);
        let week = time("0s").unwrap().ticks() - time("1w").unwrap().ticks();
        assert!((week - 604_800 * TICKS).abs() < 60 * TICKS);
        for text in ["", "d", "-1d", "1y", "1.5h", "yesterday", "9223372036854775807w"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
