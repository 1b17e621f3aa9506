//! Values by size: a panel a quantity, sizes on a logarithmic axis, values from nought.

use super::svg::{Anchor, Svg, Text, Tone};
use crate::report::figure;

/// A chart.
pub(super) struct Lines<'a> {
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    /// The sizes.
    pub(super) at: &'a [usize],
    pub(super) panels: Vec<Panel>,
}

/// A quantity.
pub(super) struct Panel {
    pub(super) name: String,
    pub(super) series: Vec<Series>,
    /// Up to where the line in [`Tone::Ours`] may go at the largest size.
    pub(super) goal: Option<f64>,
}

/// The values of a competitor, a size each.
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) tone: Tone,
    pub(super) values: Vec<f64>,
}

const WIDTH: f64 = 880.0;
const LEFT: f64 = 20.0;
const TOP: f64 = 104.0;
const COLUMNS: usize = 2;
/// A panel with its margins, and the plot in it.
const PANEL: (f64, f64) = (425.0, 250.0);
const PLOT: (f64, f64) = (330.0, 170.0);
/// From a panel's corner to its plot's.
const INSET: (f64, f64) = (58.0, 26.0);

impl Lines<'_> {
    pub(super) fn draw(&self) -> String {
        let mut svg = Svg::new();
        svg.text((LEFT, 32.0), Text::Title, Anchor::Start, self.title);
        svg.text((LEFT, 54.0), Text::Quiet, Anchor::Start, self.note);
        let mut x = LEFT;
        for series in self.panels.first().map_or(&[][..], |panel| &panel.series) {
            svg.dot((x + 5.0, 74.0), series.tone);
            svg.text((x + 16.0, 78.0), Text::Plain, Anchor::Start, series.name);
            x += 120.0;
        }
        for (number, panel) in self.panels.iter().enumerate() {
            let (column, row) = (number % COLUMNS, number / COLUMNS);
            let corner = (LEFT + column as f64 * PANEL.0, TOP + row as f64 * PANEL.1);
            self.panel(&mut svg, corner, panel);
        }
        let rows = self.panels.len().div_ceil(COLUMNS);
        svg.finish(WIDTH, TOP + rows as f64 * PANEL.1, self.title)
    }

    fn panel(&self, svg: &mut Svg, corner: (f64, f64), panel: &Panel) {
        svg.text((corner.0, corner.1 + 8.0), Text::Strong, Anchor::Start, &panel.name);
        let (left, top) = (corner.0 + INSET.0, corner.1 + INSET.1);
        let (right, bottom) = (left + PLOT.0, top + PLOT.1);
        let values = panel.series.iter().flat_map(|series| &series.values).copied();
        let most = values.chain(panel.goal).fold(0.0, f64::max);
        let step = step(most / 4.0);
        let highest = (most / step).ceil().max(1.0) * step;
        let y = |value: f64| bottom - value / highest * PLOT.1;
        let mut value = 0.0;
        while value <= highest + step / 2.0 {
            svg.line((left, y(value)), (right, y(value)), Tone::Grid);
            svg.text((left - 8.0, y(value) + 4.0), Text::Quiet, Anchor::End, &round(value, step));
            value += step;
        }
        for &size in self.at {
            let x = left + self.share(size) * PLOT.0;
            svg.line((x, bottom), (x, bottom + 5.0), Tone::Grid);
            svg.text((x, bottom + 19.0), Text::Quiet, Anchor::Middle, &short(size));
        }
        if let Some(goal) = panel.goal {
            svg.dashed((left, y(goal)), right, Tone::Goal);
        }
        for series in &panel.series {
            let points: Vec<_> = (self.at.iter().zip(&series.values))
                .map(|(&size, &value)| (left + self.share(size) * PLOT.0, y(value)))
                .collect();
            svg.path(&points, series.tone);
            for point in points {
                svg.dot(point, series.tone);
            }
        }
    }

    /// How far along the axis a size is.
    fn share(&self, size: usize) -> f64 {
        let (Some(&first), Some(&last)) = (self.at.first(), self.at.last()) else { return 0.0 };
        (size as f64 / first as f64).ln() / (last as f64 / first as f64).ln()
    }
}

/// The next of 1, 2, 5, 10, 20, 50 and so on.
fn step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|&step| step >= least).unwrap_or(decade * 10.0)
}

fn round(value: f64, step: f64) -> String {
    if step < 1.0 { figure(value) } else { format!("{value:.0}") }
}

fn short(size: usize) -> String {
    match size {
        0..1_000 => size.to_string(),
        1_000..1_000_000 => format!("{}k", size / 1_000),
        _ => format!("{}M", size / 1_000_000),
    }
}
