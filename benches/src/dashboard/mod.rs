//! A dashboard of the client's metrics, drawn from what an exporter wrote and written for Grafana from the same panels.
//!
//! - this module: what is in a panel
//! - [`panels`]: the panels
//! - [`exposition`]: the text format of Prometheus, and what it says over time
//! - [`page`]: the panels as a page of HTML; [`plot`]: one of them
//! - [`grafana`]: the same panels as a dashboard of Grafana

pub mod exposition;
pub mod grafana;
pub mod page;
pub mod panels;
pub(crate) mod plot;

use rowkey::telemetry::{Metric, MetricKind};

use exposition::{History, Line};

/// Panels about one subject.
#[derive(Debug)]
pub struct Section {
    pub(crate) title: &'static str,
    pub(crate) panels: Vec<Panel>,
}

/// A chart.
#[derive(Debug)]
pub struct Panel {
    pub(crate) title: &'static str,
    /// What a reader does with it.
    pub(crate) note: &'static str,
    pub(crate) unit: Unit,
    pub(crate) queries: Vec<Query>,
}

/// The unit of a panel's axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Number,
    PerSecond,
    Seconds,
    BytesPerSecond,
}

/// Lines of a panel: a metric, and what is shown of it.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) metric: Metric,
    pub(crate) show: Show,
    /// One line for each value of this attribute.
    pub(crate) by: Option<&'static str>,
    /// Only series that have this attribute.
    pub(crate) having: Option<&'static str>,
    /// In front of the value of `by`, or alone.
    pub(crate) legend: &'static str,
}

/// What is shown of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Show {
    /// How often a second it was counted or recorded.
    Rate,
    /// How much was recorded a second.
    SumRate,
    /// The mean of what was recorded.
    Mean,
    /// A quantile of what was recorded.
    Quantile(f64),
    /// The sum of the current values.
    Sum,
    /// The largest of the current values.
    Max,
}

impl Query {
    /// # Panics
    ///
    /// If there is no metric of this name.
    pub(crate) fn new(name: &str, show: Show) -> Self {
        let metric = *Metric::named(name).unwrap_or_else(|| panic!("there is no metric {name}"));
        Self { metric, show, by: None, having: None, legend: "" }
    }

    pub(crate) fn by(mut self, attribute: &'static str) -> Self {
        self.by = Some(attribute);
        self
    }

    pub(crate) fn having(mut self, attribute: &'static str) -> Self {
        self.having = Some(attribute);
        self
    }

    pub(crate) fn legend(mut self, legend: &'static str) -> Self {
        self.legend = legend;
        self
    }

    /// The name in Prometheus, without what is added for parts of a histogram.
    pub(crate) fn family(&self) -> String {
        let name = underscored(self.metric.name);
        let unit = match self.metric.unit {
            "s" => "_seconds",
            "By" => "_bytes",
            "1" => "_ratio",
            unit if unit.ends_with("}/s") => "_per_second",
            _ => "",
        };
        let total = if self.metric.kind == MetricKind::Counter { "_total" } else { "" };
        format!("{name}{unit}{total}")
    }

    /// The lines in what was exported.
    pub(crate) fn lines(&self, history: &History) -> Vec<Line> {
        let (family, by) = (self.family(), self.by.map(underscored));
        let having = self.having.map(underscored);
        let select = exposition::Select { by: by.as_deref(), having: having.as_deref() };
        let counted = if self.metric.kind == MetricKind::Histogram { "_count" } else { "" };
        let mut lines = match self.show {
            Show::Rate => history.rates(&format!("{family}{counted}"), select),
            Show::SumRate => history.rates(&format!("{family}_sum"), select),
            Show::Mean => history.means(&family, select),
            Show::Quantile(quantile) => history.quantiles(&family, select, quantile),
            Show::Sum => history.values(&family, select, |sum, value| sum + value),
            Show::Max => history.values(&family, select, f64::max),
        };
        for line in &mut lines {
            line.name = match (self.legend, &*line.name) {
                // Its series do not have the attribute.
                (legend, "") if self.by.is_some() => format!("{legend} none").trim().to_owned(),
                ("", "") => self.metric.name.to_owned(),
                (legend, "") => legend.to_owned(),
                ("", name) => name.to_owned(),
                (legend, name) => format!("{legend} {name}"),
            };
        }
        lines
    }
}

/// The name of an attribute or a metric in Prometheus.
pub(crate) fn underscored(name: &str) -> String {
    name.replace('.', "_")
}
