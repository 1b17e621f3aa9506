//! Times of flags: a number with its unit, such as `30m`.

use std::time::Duration;

/// Parses a duration: `45s`, `30m`, `12h` or `7d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refused = || "a duration is a number with its unit: 45s, 30m, 12h or 7d".to_owned();
    let unit = text.chars().next_back().ok_or_else(refused)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
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
        for (text, seconds) in
            [("45s", 45), ("30m", 1_800), ("12h", 43_200), ("7d", 604_800), ("0s", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "s", "5", "5ss", "+5s", "-5s", "5 s", "5S", "1h30m", "5é", "99999999999999999d"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
