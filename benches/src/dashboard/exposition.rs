//! What an exporter wrote for Prometheus, once every few seconds: samples by series, and rates, means and quantiles of them
//! as Prometheus computes them.

use std::collections::{BTreeMap, BTreeSet};

/// What was exported, at several times.
#[derive(Debug, Default)]
pub struct History {
    scrapes: Vec<Scrape>,
}

/// All samples of one time.
#[derive(Debug)]
struct Scrape {
    /// In seconds.
    at: f64,
    samples: BTreeMap<String, Vec<Sample>>,
}

/// A value of one series.
#[derive(Debug)]
struct Sample {
    labels: BTreeMap<String, String>,
    value: f64,
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// The value of the label that the lines are told apart by.
    pub name: String,
    /// Seconds, and the value at that time.
    pub points: Vec<(f64, f64)>,
}

/// Which series of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Select<'a> {
    /// A line for each value of this label.
    pub by: Option<&'a str>,
    /// Only those that have this label.
    pub having: Option<&'a str>,
}

impl Select<'_> {
    fn group(self, sample: &Sample) -> Option<String> {
        let is_there =
            |label: &str| sample.labels.get(label).is_some_and(|value| !value.is_empty());
        if !self.having.is_none_or(is_there) {
            return None;
        }
        let value = self.by.and_then(|by| sample.labels.get(by));
        Some(value.cloned().unwrap_or_default())
    }
}

/// Over how many scrapes a rate is computed.
const WINDOW: usize = 5;

impl History {
    /// Adds what was exported at a time, in seconds.
    pub fn add(&mut self, at: f64, text: &str) {
        let mut samples: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
        for (name, sample) in text.lines().filter_map(parse) {
            samples.entry(name).or_default().push(sample);
        }
        self.scrapes.push(Scrape { at, samples });
    }

    /// The first and the last time.
    pub fn span(&self) -> (f64, f64) {
        let at = |scrape: Option<&Scrape>| scrape.map_or(0.0, |scrape| scrape.at);
        (at(self.scrapes.first()), at(self.scrapes.last()))
    }

    /// How much a counter grew a second.
    pub fn rates(&self, name: &str, select: Select<'_>) -> Vec<Line> {
        self.windows(
            name,
            select,
            |_| String::new(),
            |change, seconds| change.get("").map(|change| change / seconds),
        )
    }

    /// What was recorded on the average.
    pub fn means(&self, name: &str, select: Select<'_>) -> Vec<Line> {
        let sums = self.rates(&format!("{name}_sum"), select);
        let counts = self.rates(&format!("{name}_count"), select);
        let mean = |(sum, count): (Line, Line)| {
            let points = sum.points.iter().zip(&count.points).filter(|(_, count)| count.1 > 0.0);
            let points = points.map(|(sum, count)| (sum.0, sum.1 / count.1)).collect();
            Line { name: sum.name, points }
        };
        sums.into_iter().zip(counts).map(mean).collect()
    }

    /// A quantile of what was recorded.
    pub fn quantiles(&self, name: &str, select: Select<'_>, quantile: f64) -> Vec<Line> {
        let bound = |sample: &Sample| sample.labels.get("le").cloned().unwrap_or_default();
        self.windows(&format!("{name}_bucket"), select, bound, |change, _| {
            let mut buckets: Vec<(f64, f64)> = (change.iter())
                .filter_map(|(bound, count)| Some((bound.parse().ok()?, *count)))
                .collect();
            buckets.sort_by(|(bound, _), (other, _)| bound.total_cmp(other));
            within(&buckets, quantile)
        })
    }

    /// The values of a gauge, those of a line put together.
    pub fn values(&self, name: &str, select: Select<'_>, add: fn(f64, f64) -> f64) -> Vec<Line> {
        let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for scrape in &self.scrapes {
            let mut now: BTreeMap<String, f64> = BTreeMap::new();
            for sample in scrape.samples.get(name).into_iter().flatten() {
                if let Some(group) = select.group(sample) {
                    let value = now.get(&group).map_or(sample.value, |all| add(*all, sample.value));
                    now.insert(group, value);
                }
            }
            for (group, value) in now {
                lines.entry(group).or_default().push((scrape.at, value));
            }
        }
        lines.into_iter().map(|(name, points)| Line { name, points }).collect()
    }

    /// Computes a value from what each part of a group grew by in a window. A series that begins in it began at 0.
    fn windows(
        &self,
        name: &str,
        select: Select<'_>,
        part: impl Fn(&Sample) -> String,
        compute: impl Fn(&BTreeMap<String, f64>, f64) -> Option<f64>,
    ) -> Vec<Line> {
        let summed = |scrape: &Scrape| {
            let mut sums: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
            for sample in scrape.samples.get(name).into_iter().flatten() {
                if let Some(group) = select.group(sample) {
                    *sums.entry(group).or_default().entry(part(sample)).or_default() +=
                        sample.value;
                }
            }
            sums
        };
        let sums: Vec<_> = self.scrapes.iter().map(summed).collect();
        let groups: BTreeSet<_> = sums.iter().flat_map(BTreeMap::keys).collect();
        let line = |group: &String| {
            let points = (1..sums.len()).filter_map(|to| {
                let from = to.saturating_sub(WINDOW);
                let seconds = self.scrapes[to].at - self.scrapes[from].at;
                let (before, after) = (sums[from].get(group), sums[to].get(group)?);
                let grown = after.iter().map(|(part, value)| {
                    let old = before.and_then(|parts| parts.get(part)).copied().unwrap_or(0.0);
                    (part.clone(), (value - old).max(0.0))
                });
                Some((self.scrapes[to].at, compute(&grown.collect(), seconds)?))
            });
            Line { name: group.clone(), points: points.collect() }
        };
        groups.into_iter().map(line).collect()
    }
}

/// `histogram_quantile` of Prometheus: linear within a bucket. The buckets are cumulative.
fn within(buckets: &[(f64, f64)], quantile: f64) -> Option<f64> {
    let (_, total) = *buckets.last()?;
    if total <= 0.0 {
        return None;
    }
    let rank = quantile * total;
    let at = buckets.iter().position(|(_, count)| *count >= rank)?;
    let (from, below) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
    let (to, count) = buckets[at];
    if to.is_infinite() {
        return Some(from);
    }
    Some(from + (to - from) * (rank - below) / (count - below).max(f64::MIN_POSITIVE))
}

/// A line of the text format: `name{label="value",..} value`.
fn parse(line: &str) -> Option<(String, Sample)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    if let Some(inside) = rest.strip_prefix('{') {
        let mut inside = inside;
        while let Some((key, after)) = inside.split_once("=\"") {
            let end = end_of_string(after)?;
            let value =
                after[..end].replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\");
            labels.insert(key.trim_start_matches(',').to_owned(), value);
            inside = &after[end + 1..];
            if inside.starts_with('}') {
                break;
            }
        }
        rest = inside.strip_prefix('}')?;
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some((name.to_owned(), Sample { labels, value }))
}

/// Where a string ends, whose quotes are escaped.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| match c {
        _ if is_escaped => {
            is_escaped = false;
            None
        }
        '\\' => {
            is_escaped = true;
            None
        }
        '"' => Some(at),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Select<'static> = Select { by: None, having: None };

    #[test]
    fn lines_are_parsed_and_comments_are_not() {
        let (name, sample) = parse(r#"a_total{x="1",y="q\"}\\"} 2.5"#).unwrap();
        assert_eq!((&*name, sample.value), ("a_total", 2.5));
        assert_eq!(sample.labels["y"], "q\"}\\");
        assert!((parse("b 3").unwrap().1.value - 3.0).abs() < f64::EPSILON);
        assert!(parse("# HELP a_total Counts").is_none());
    }

    #[test]
    fn rates_are_those_of_the_window_and_of_the_group() {
        let mut history = History::default();
        history.add(0.0, "a{x=\"1\"} 10\na{x=\"2\"} 0");
        history.add(2.0, "a{x=\"1\"} 14\na{x=\"2\"} 1\na{x=\"3\"} 6");
        let by = Select { by: Some("x"), having: None };
        let rates: Vec<_> =
            history.rates("a", by).into_iter().map(|line| line.points[0].1).collect();
        assert_eq!(rates, [2.0, 0.5, 3.0]);
        assert_eq!(history.rates("a", ALL)[0].points, [(2.0, 5.5)]);
    }

    #[test]
    fn quantiles_are_linear_within_a_bucket() {
        let buckets = [(1.0, 10.0), (2.0, 20.0), (f64::INFINITY, 20.0)];
        assert_eq!(within(&buckets, 0.75), Some(1.5));
        assert_eq!(within(&buckets, 0.25), Some(0.5));
        assert_eq!(within(&[(1.0, 0.0), (f64::INFINITY, 4.0)], 0.5), Some(1.0));
        assert_eq!(within(&[(1.0, 0.0)], 0.5), None);
    }
}
