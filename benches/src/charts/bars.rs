//! Ratios as bars that begin at 1, on a logarithmic axis.

use super::svg::{Anchor, Svg, Text, Tone};
use super::times;
use crate::report::Rounds;

/// A chart.
pub(super) struct Bars {
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    pub(super) groups: Vec<Group>,
}

/// Bars that belong together.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
    /// Up to where the bars in [`Tone::Ours`] may go.
    pub(super) goal: Option<f64>,
}

/// A ratio: its median, its range, and its client.
pub(super) struct Bar {
    name: String,
    tone: Tone,
    ratio: f64,
    range: (f64, f64),
}

impl Bar {
    pub(super) fn new(name: &str, tone: Tone, cost: &Rounds, floor: &Rounds) -> Self {
        let ratio = cost.over(floor);
        Self { name: name.to_owned(), tone, ratio: ratio.median(), range: ratio.range() }
    }
}

const WIDTH: f64 = 880.0;
const LEFT: f64 = 20.0;
/// Where the names of bars begin, and the axis.
const NAMES: f64 = 248.0;
const AXIS: f64 = 385.0;
/// Where the axis ends; beyond is room for a label.
const END: f64 = 800.0;
const TOP: f64 = 92.0;
const BAR: f64 = 13.0;
const PITCH: f64 = 18.0;
const GAP: f64 = 14.0;

impl Bars {
    pub(super) fn draw(&self) -> String {
        let mut svg = Svg::new();
        svg.text((LEFT, 32.0), Text::Title, Anchor::Start, self.title);
        svg.text((LEFT, 54.0), Text::Quiet, Anchor::Start, self.note);
        let scale = self.scale();
        let height = |group: &Group| group.drawn().count() as f64 * PITCH + GAP;
        let bottom = TOP + self.groups.iter().map(height).sum::<f64>();
        for (value, labelled) in scale.marks() {
            let x = scale.x(value);
            svg.line((x, TOP - 6.0), (x, bottom - GAP + 6.0), Tone::Grid);
            if labelled {
                svg.text((x, TOP - 12.0), Text::Quiet, Anchor::Middle, &format!("{value}×"));
            }
        }
        let mut y = TOP;
        for group in &self.groups {
            svg.text((LEFT, y + 11.0), Text::Strong, Anchor::Start, &group.name);
            for (at, bar) in group.drawn().enumerate() {
                bar.draw(&mut svg, y + at as f64 * PITCH, group.goal, &scale);
            }
            y += height(group);
        }
        svg.finish(WIDTH, bottom + 8.0, self.title)
    }

    /// An axis for all that is shown.
    fn scale(&self) -> Scale {
        let bars = || self.groups.iter().flat_map(Group::drawn);
        let low = bars().map(|bar| bar.range.0).fold(1.0, f64::min);
        let high = bars().map(|bar| bar.range.1).fold(2.0, f64::max);
        // Down to a half at least when something is below 1.
        Scale { low: if low < 1.0 { low.min(0.5) } else { 1.0 }, high: high * 1.05 }
    }
}

impl Group {
    /// Those that were measured.
    fn drawn(&self) -> impl Iterator<Item = &Bar> {
        self.bars.iter().filter(|bar| bar.ratio.is_finite())
    }
}

impl Bar {
    fn draw(&self, svg: &mut Svg, y: f64, goal: Option<f64>, scale: &Scale) {
        let (from, to) = (scale.x(1.0), scale.x(self.ratio));
        let middle = y + BAR / 2.0;
        svg.text((NAMES, y + 11.0), Text::Plain, Anchor::Start, &self.name);
        svg.bar((from.min(to), y), (to - from).abs().max(1.0), BAR, self.tone);
        let (low, high) = (scale.x(self.range.0), scale.x(self.range.1));
        svg.whisker((low, middle), high);
        let mut end = to.max(high).max(from);
        if let (Some(goal), Tone::Ours) = (goal, self.tone) {
            let x = scale.x(goal);
            svg.line((x, y - 2.0), (x, y + BAR + 2.0), Tone::Goal);
            end = end.max(x);
        }
        svg.text((end + 7.0, y + 11.0), Text::Plain, Anchor::Start, &times(self.ratio));
    }
}

struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn x(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        AXIS + share * (END - AXIS)
    }

    /// Where there are lines, and whether they are labelled.
    fn marks(&self) -> impl Iterator<Item = (f64, bool)> {
        let decades = [0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0];
        let all = decades.into_iter().flat_map(|ten| [1.0, 2.0, 5.0].map(|step| ten * step));
        // Where there are many decades, only whole ones have room for a label.
        let crowded = self.high / self.low > 2_000.0;
        all.filter(|value| (self.low..=self.high).contains(value))
            .map(move |value| (value, !crowded || value.log10().fract().abs() < 1e-9))
    }
}
