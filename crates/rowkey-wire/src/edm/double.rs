//! Text of Doubles: the shortest text that reads back as the same number, always with a point or an
//! exponent, so that no reader mistakes `3.0` for an Int32.

use std::fmt::Write;

/// Writes a finite `value` as the service does (.NET's "R" format): `3.0`, `0.1`, `1E+24`,
/// `1.5E-07`. NaN and the infinities are annotated text instead, see [`name`].
#[expect(
    clippy::arithmetic_side_effects,
    reason = "a double has at most 17 digits and an exponent of three"
)]
pub(crate) fn write_finite(value: f64, out: &mut impl Write) -> std::fmt::Result {
    debug_assert!(value.is_finite());
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let (text, sign) = text.strip_prefix('-').map_or((text, ""), |rest| (rest, "-"));
    out.write_str(sign)?;
    // Most numbers already have the right form.
    let whole = text.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=15).contains(&whole) && !text.starts_with('0') && !text.bytes().any(|byte| byte == b'e')
    {
        return out.write_str(text);
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    // The number is 0.DIGITS * 10^point, where DIGITS has no zeros at either end.
    let digits = format!("{whole}{fraction}");
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let point =
        exponent + i32::try_from(whole.len()).unwrap_or(0) - i32::try_from(zeros).unwrap_or(0);
    let digits = digits.trim_start_matches('0').trim_end_matches('0');
    if digits.is_empty() {
        return out.write_str("0.0");
    }
    match usize::try_from(point) {
        // .NET uses an exponent from 16 digits before the point, and below 0.0001.
        Ok(point @ 1..=15) => {
            if point < digits.len() {
                write!(out, "{}.{}", &digits[..point], &digits[point..])
            } else {
                write!(out, "{digits:0<point$}.0")
            }
        }
        Ok(0) => write!(out, "0.{digits}"),
        Err(_) if point > -4 => {
            let leading = usize::try_from(-point).unwrap_or_default();
            write!(out, "0.{:0<leading$}{digits}", "")
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let (sign, magnitude) = if point > 0 { ('+', point - 1) } else { ('-', 1 - point) };
            out.write_str(first)?;
            if !rest.is_empty() {
                write!(out, ".{rest}")?;
            }
            write!(out, "E{sign}{magnitude:02}")
        }
    }
}

/// The name of a number that JSON cannot write: `NaN`, `Infinity` or `-Infinity`.
pub(crate) fn name(value: f64) -> Option<&'static str> {
    if value.is_finite() {
        None
    } else if value.is_nan() {
        Some("NaN")
    } else if value > 0.0 {
        Some("Infinity")
    } else {
        Some("-Infinity")
    }
}

/// Parses a number, including the names of NaN and the infinities (and `INF`, which older documents
/// use).
pub fn parse(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        // `str::parse` would also accept "inf", "nan" and "infinity".
        _ if text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) => {
            // It would also make an infinity of a number beyond all Doubles.
            text.parse().ok().filter(|number: &f64| number.is_finite())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edm::ValueRef;

    fn text(value: f64) -> String {
        ValueRef::Double(value).text().into_owned()
    }

    #[test]
    fn doubles_are_written_as_the_recorded_service_writes_them() {
        for (value, expected) in [
            (3.0, "3.0"),
            (8_589_934_592.0, "8589934592.0"),
            (1.234_567_890_123_46e24, "1.23456789012346E+24"),
            (f64::MAX, "1.7976931348623157E+308"),
            (0.0, "0.0"),
            (-0.25, "-0.25"),
            (0.000_012, "1.2E-05"),
            (0.000_12, "0.00012"),
            (100_000_000_000_000.0, "100000000000000.0"),
            (1e15, "1E+15"),
            (40.5, "40.5"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn written_doubles_read_back_exactly() {
        let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..50_000 {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(bits);
            if value.is_finite() {
                assert_eq!(parse(&text(value)), Some(value));
            }
        }
        assert_eq!(parse(&text(f64::MIN_POSITIVE)), Some(f64::MIN_POSITIVE));
        assert_eq!(parse(&text(5e-324)), Some(5e-324));
    }

    #[test]
    fn only_the_documented_names_are_numbers() {
        assert!(parse("NaN").is_some_and(f64::is_nan));
        assert_eq!(parse("-Infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(parse("nan"), None);
        assert_eq!(parse("infinity"), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("1e400"), None);
        assert_eq!(parse("-1.8E+308"), None);
    }
}
