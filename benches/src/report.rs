//! Medians, ratios, goals, and tables of them in Markdown.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// One figure a round.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// The figure of the only round; none if there is no figure.
    pub fn once(value: f64) -> Self {
        Self(if value > 0.0 { vec![value] } else { Vec::new() })
    }

    /// Adds a round. Values are rounded to thousandths, to store no noise.
    pub fn push(&mut self, value: f64) {
        self.0.push((value * 1e3).round() / 1e3);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The median; not a number when there was no round.
    pub fn median(&self) -> f64 {
        let mut values = self.0.clone();
        values.sort_unstable_by(f64::total_cmp);
        match values.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => values[n / 2],
            n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
        }
    }

    /// How many times `other`, round by round: what slows the machine down for a while slows both.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect())
    }

    /// The lowest and the highest.
    pub fn range(&self) -> (f64, f64) {
        let low = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    }
}

/// The goal for a ratio.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
    None,
}

impl Goal {
    /// The goal, and whether it is met; empty without one.
    pub fn verdict(self, value: f64) -> String {
        let (sign, bound, met) = match self {
            Self::AtLeast(least) => ("≥", least, value >= least),
            Self::AtMost(most) => ("≤", most, value <= most),
            Self::None => return String::new(),
        };
        format!("{sign} {bound}: {}", if met { "met" } else { "MISSED" })
    }
}

/// A table that is aligned when it is printed.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Self {
        let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
        let line = vec!["---".to_owned(); head.len()];
        Self { rows: vec![head, line] }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let lengths = self.rows.iter().filter_map(|row| row.get(column));
            lengths.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(out, "| {cell:width$} ");
            }
            out.push_str("|\n");
        }
        out
    }
}

/// A figure with three digits or so.
pub fn figure(value: f64) -> String {
    match value {
        _ if value.is_nan() => "-".to_owned(),
        _ if value.abs() >= 100.0 => format!("{value:.0}"),
        _ if value.abs() >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A ratio, the range it was in, and whether it is as it should be.
pub fn judged(ratio: &Rounds, goal: Goal) -> String {
    if ratio.is_empty() {
        return "-".to_owned();
    }
    let median = ratio.median();
    let (low, high) = ratio.range();
    let text = if ratio.0.len() > 1 {
        format!("{} ({}..{})", figure(median), figure(low), figure(high))
    } else {
        figure(median)
    };
    match goal {
        Goal::None => text,
        _ => format!("{text}; {}", goal.verdict(median)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_does_not_change_the_median() {
        let mut rounds = Rounds::default();
        for value in [3.0, 1000.0, 1.0, 2.0, 4.0] {
            rounds.push(value);
        }
        assert!((rounds.median() - 3.0).abs() < f64::EPSILON);
        assert_eq!(
            judged(&rounds.over(&rounds), Goal::AtMost(0.9)),
            "1.00 (1.00..1.00); ≤ 0.9: MISSED"
        );
    }
}
