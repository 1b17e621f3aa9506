//! A panel as a drawing: lines over time, with an axis of values, the times, and a legend below.

use std::fmt::Write as _;

use super::exposition::Line;
use super::{Panel, Unit};

/// A panel's drawing, and its plot.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 168.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 394.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 146.0;

/// Lines with colours of their own. What is beyond them is left out, the smallest first.
const LINES: usize = 8;

/// A time in which something was different.
#[derive(Clone, Debug)]
pub struct Mark {
    /// In seconds.
    pub from: f64,
    pub to: f64,
    /// A letter, which the page explains.
    pub letter: char,
    pub text: &'static str,
}

/// Draws the lines of a panel, and lists them with their highest value.
pub(super) fn draw(
    panel: &Panel,
    lines: Vec<Line>,
    (first, last): (f64, f64),
    marks: &[Mark],
) -> String {
    let (lines, left_out) = largest(lines);
    let most =
        lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(0.0, f64::max);
    let step = step(most / 3.0, panel.unit);
    let top = (most / step).ceil().max(1.0) * step;
    let x = |at: f64| LEFT + (at - first) / (last - first).max(1.0) * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - value / top * (BOTTOM - TOP);

    let mut drawing = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escaped(panel.title)
    );
    for mark in marks {
        let (from, to) = (x(mark.from.max(first)), x(mark.to.min(last)));
        let _ = write!(
            drawing,
            "<rect class=\"mark\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            to - from,
            BOTTOM - TOP,
            from + 3.0,
            TOP + 10.0,
            mark.letter
        );
    }
    let mut value = 0.0;
    while value <= top * 1.001 {
        let at = y(value);
        let text = shown(value, panel.unit);
        let _ = write!(
            drawing,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{text}</text>",
            LEFT - 6.0,
            at + 3.5
        );
        value += step;
    }
    let every = if last - first > 150.0 { 60.0 } else { 30.0 };
    let mut time = 0.0;
    while time <= last - first {
        let anchor = if time == 0.0 { "" } else { " class=\"mid\"" };
        let (at, text) = (x(first + time), clock(time));
        let _ =
            write!(drawing, "<text x=\"{at:.1}\" y=\"{:.1}\"{anchor}>{text}</text>", HEIGHT - 6.0);
        time += every;
    }
    for (number, line) in lines.iter().enumerate() {
        for piece in pieces(&line.points) {
            let points: Vec<_> =
                piece.iter().map(|(at, value)| format!("{:.1} {:.1}", x(*at), y(*value))).collect();
            let _ = write!(drawing, "<path class=\"l c{number}\" d=\"M{}\"/>", points.join("L"));
        }
    }
    drawing.push_str("</svg><ul>");
    if lines.is_empty() {
        drawing.push_str("<li>nothing was reported</li>");
    }
    for (number, line) in lines.iter().enumerate() {
        let highest = line.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let _ = write!(
            drawing,
            "<li><i class=\"b{number}\"></i>{}<b>{}</b></li>",
            escaped(&line.name),
            shown(highest, panel.unit)
        );
    }
    if left_out > 0 {
        let _ = write!(drawing, "<li>and {left_out} more</li>");
    }
    drawing.push_str("</ul>");
    drawing
}

/// Minutes and seconds.
pub(super) fn clock(seconds: f64) -> String {
    format!("{:.0}:{:02.0}", (seconds / 60.0).floor(), (seconds % 60.0).floor())
}

/// The lines with the largest values, and how many there are beside them.
fn largest(mut lines: Vec<Line>) -> (Vec<Line>, usize) {
    lines.retain(|line| !line.points.is_empty());
    let area = |line: &Line| -> f64 { line.points.iter().map(|(_, value)| *value).sum() };
    lines.sort_by(|one, other| area(other).total_cmp(&area(one)));
    let left_out = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    (lines, left_out)
}

/// Where a line has no value for a while, it has a gap.
fn pieces(points: &[(f64, f64)]) -> impl Iterator<Item = &[(f64, f64)]> {
    let usual = points.windows(2).map(|two| two[1].0 - two[0].0).fold(f64::INFINITY, f64::min);
    points.chunk_by(move |one, next| next.0 - one.0 < usual * 3.0)
}

/// The next of 1, 2, 5, 10, 20, 50 and so on.
fn step(least: f64, unit: Unit) -> f64 {
    let least = match unit {
        Unit::Number => least.max(1.0),
        _ if least == 0.0 => 1.0,
        _ => least.max(0.000_1),
    };
    let decade = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step >= least * 0.999).unwrap_or(decade * 10.0)
}

/// A value with its unit, as short as an axis needs it.
pub(super) fn shown(value: f64, unit: Unit) -> String {
    let (value, unit) = match unit {
        Unit::Number => (value, ""),
        Unit::PerSecond => (value, "/s"),
        Unit::Seconds if value == 0.0 => (0.0, ""),
        Unit::Seconds if value < 1.0 => (value * 1e3, " ms"),
        Unit::Seconds => (value, " s"),
        Unit::BytesPerSecond if value >= 1e6 => (value / 1e6, " MB/s"),
        Unit::BytesPerSecond if value >= 1e3 => (value / 1e3, " kB/s"),
        Unit::BytesPerSecond => (value, " B/s"),
    };
    let number = match value {
        0.0 => "0".to_owned(),
        value if value >= 10_000.0 => {
            format!("{:.0},{:03.0}", (value / 1e3).floor(), (value % 1e3).floor())
        }
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 1.0 => trimmed(&format!("{value:.1}")),
        value => trimmed(&format!("{value:.2}")),
    };
    format!("{number}{unit}")
}

fn trimmed(number: &str) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A text in HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short() {
        let all = [
            shown(0.004, Unit::Seconds),
            shown(2.5, Unit::Seconds),
            shown(1_234.0, Unit::PerSecond),
            shown(45_600.0, Unit::BytesPerSecond),
            shown(30.0, Unit::Number),
            shown(0.05, Unit::PerSecond),
            shown(45_067.0, Unit::Number),
        ];
        assert_eq!(all, ["4 ms", "2.5 s", "1234/s", "45.6 kB/s", "30", "0.05/s", "45,067"]);
    }

    #[test]
    fn a_line_has_gaps_where_it_has_no_values() {
        let points = [(0.0, 1.0), (1.0, 1.0), (9.0, 1.0), (10.0, 1.0)];
        assert_eq!(pieces(&points).map(<[_]>::len).collect::<Vec<_>>(), [2, 2]);
    }
}
