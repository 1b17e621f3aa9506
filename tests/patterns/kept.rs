//! Keeps what libraries report, and checks that the table of metrics lists it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rowkey::telemetry::{Metric, MetricKind, Telemetry, TraceParent};
use rowkey::{ManualClock, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;

use crate::outbox::{store, tasks};

/// The values of each series, and which traces were followed.
#[derive(Default)]
pub(crate) struct Kept {
    values: Mutex<BTreeMap<String, Values>>,
    followed: Mutex<Vec<TraceParent>>,
}

/// What is kept of a series: the sum, or the last value of a gauge, the number of values, and the greatest one.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    sum: f64,
    count: u64,
    greatest: f64,
}

impl Kept {
    fn add(&self, kind: MetricKind, name: &str, labels: &[(&'static str, &str)], value: f64) {
        let metric = Metric::named(name).unwrap();
        assert_eq!(metric.kind, kind, "{name}");
        let mut series = name.to_owned();
        for (label, value) in labels {
            assert!(metric.attributes.contains(label), "{name} has no {label}");
            assert!(!value.is_empty(), "{name} {label}");
            if !label.starts_with("server.") {
                for part in [" ", label, "=", value] {
                    series.push_str(part);
                }
            }
        }
        let mut all = self.values.lock().unwrap();
        let kept = all.entry(series).or_default();
        let sum = if kind == MetricKind::Gauge { value } else { kept.sum + value };
        *kept = Values { sum, count: kept.count + 1, greatest: kept.greatest.max(value) };
    }

    pub(crate) fn sum(&self, series: &str) -> f64 {
        self.values.lock().unwrap().get(series).map_or(0.0, |kept| kept.sum)
    }

    pub(crate) fn count(&self, series: &str) -> u64 {
        self.values.lock().unwrap().get(series).map_or(0, |kept| kept.count)
    }

    pub(crate) fn greatest(&self, series: &str) -> f64 {
        self.values.lock().unwrap().get(series).map_or(0.0, |kept| kept.greatest)
    }

    /// The value of a gauge, or the level of an up-down counter; `None` if nothing was reported.
    pub(crate) fn last(&self, series: &str) -> Option<f64> {
        self.values.lock().unwrap().get(series).map(|kept| kept.sum)
    }

    pub(crate) fn followed(&self) -> Vec<TraceParent> {
        self.followed.lock().unwrap().clone()
    }

    pub(crate) fn clear(&self) {
        self.values.lock().unwrap().clear();
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        let all = self.values.lock().unwrap();
        all.keys().map(|series| series.split(' ').next().unwrap().to_owned()).collect()
    }

    pub(crate) fn text(&self) -> String {
        format!("{:#?}", self.values.lock().unwrap())
    }
}

impl Telemetry for Kept {
    fn follow(&self, _: &tracing::Span, parent: TraceParent) {
        self.followed.lock().unwrap().push(parent);
    }

    fn count(&self, name: &'static str, labels: &[(&'static str, &str)], add: u64) {
        self.add(MetricKind::Counter, name, labels, u32::try_from(add).unwrap().into());
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.add(MetricKind::Gauge, name, labels, value);
    }

    fn record(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.add(MetricKind::Histogram, name, labels, value);
    }

    fn adjust(&self, name: &'static str, labels: &[(&'static str, &str)], change: i64) {
        self.add(MetricKind::UpDownCounter, name, labels, i32::try_from(change).unwrap().into());
    }
}

/// A server with a journal, a store and a queue of tasks, and an account with this clock whose reports are kept.
pub(crate) async fn start(
    clock: impl FnOnce(chrono::DateTime<chrono::Utc>) -> ManualClock,
) -> TestResult<(Server, StorageAccount, Arc<Kept>)> {
    let server = Server::builder().manual_clock().journal(true).start().await?;
    let kept = Arc::new(Kept::default());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock(server.clock().now().to_chrono()))
        .telemetry(Arc::clone(&kept) as _)
        .build()?;
    store(&account)?.create_if_missing().await?;
    tasks(&account).create_if_missing().await?;
    kept.clear();
    Ok((server, account, kept))
}
