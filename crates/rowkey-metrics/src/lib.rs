//! Metrics of `rowkey` through the [metrics](https://docs.rs/metrics) facade, for Prometheus and other exporters.
//!
//! [`Metrics`] passes all metrics of the libraries on an account to the recorder that the program has installed:
//!
//! ```
//! use std::sync::Arc;
//!
//! use metrics_util::debugging::DebuggingRecorder;
//! use rowkey::StorageAccount;
//! use rowkey_metrics::Metrics;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_emulator::Server::start().await?;
//! # let connection_string = server.connection_string();
//! // The recorder is that of the program, such as `PrometheusBuilder` of metrics-exporter-prometheus.
//! let recorder = DebuggingRecorder::new();
//! let snapshots = recorder.snapshotter();
//! recorder.install()?;
//!
//! let account = StorageAccount::builder()
//!     .connection_string(connection_string)?
//!     .telemetry(Arc::new(Metrics::described()))
//!     .build()?;
//! account.table("orders").create_if_missing().await?;
//!
//! let names: Vec<_> = snapshots
//!     .snapshot()
//!     .into_vec()
//!     .into_iter()
//!     .map(|(key, ..)| key.key().name().to_owned())
//!     .collect();
//! assert!(names.iter().any(|name| name == "db.client.operation.duration"), "{names:?}");
//! # Ok(())
//! # }
//! ```
//!
//! # Names
//!
//! Names, units and labels are those of [`METRICS`], the table that the page "Telemetry"
//! of the book shows. They follow OpenTelemetry's conventions and keep their dots. Exporters change them as their system
//! wants: metrics-exporter-prometheus writes `db_client_operation_duration`, and with its `set_enable_unit_suffix(true)`
//! `db_client_operation_duration_seconds`, the name that OpenTelemetry's exporter for Prometheus gives it; labels are
//! `db_operation_name` and so on.
//!
//! # Buckets
//!
//! metrics-exporter-prometheus makes summaries from histograms, unless it is told the buckets. Those of the conventions
//! are in the table:
//!
//! ```
//! use rowkey::telemetry::{METRICS, MetricKind};
//!
//! for metric in METRICS.iter().filter(|metric| metric.kind == MetricKind::Histogram) {
//!     // builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.into()), metric.buckets)?;
//!     assert!(metric.buckets.is_sorted());
//! }
//! ```
//!
//! # Traces
//!
//! The facade has none. Tasks carry the trace of `TraceParent::scope`, as they do without telemetry.
//!
//! # Versions
//!
//! | rowkey-metrics | metrics |
//! |---|---|
//! | 0.1 | 0.24 |

use metrics::{Key, Label, Level, Metadata, SharedString, Unit, with_recorder};
use rowkey_client::telemetry::{METRICS, MetricKind, SeriesCache, Telemetry};

/// What recorders may filter by.
const METADATA: Metadata<'static> = Metadata::new("rowkey", Level::INFO, Some("rowkey"));

/// Metrics of an account in the recorder of the `metrics` facade.
///
/// Pass it to [`StorageAccountBuilder::telemetry`](rowkey_client::StorageAccountBuilder::telemetry). A metric that was
/// recorded before with the same labels costs a look-up of this crate, without an allocation or a lock, and what the
/// recorder does.
#[derive(Debug, Default)]
pub struct Metrics {
    // Keys and not handles, which the facade offers as well: a recorder may be installed later, and one that forgets idle
    // series would not see what a kept handle records.
    keys: SeriesCache<Key>,
}

impl Metrics {
    /// Describes all metrics to the installed recorder, and passes them to it.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use rowkey::StorageAccount;
    /// use rowkey_metrics::Metrics;
    ///
    /// let account = StorageAccount::builder()
    ///     .connection_string("UseDevelopmentStorage=true")?
    ///     .telemetry(Arc::new(Metrics::described()))
    ///     .build()?;
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn described() -> Self {
        with_recorder(|recorder| {
            for metric in METRICS {
                let describe = match metric.kind {
                    MetricKind::Counter => metrics::Recorder::describe_counter,
                    MetricKind::Histogram => metrics::Recorder::describe_histogram,
                    // The facade's gauges can be set, and go up and down.
                    _ => metrics::Recorder::describe_gauge,
                };
                let description = SharedString::const_str(metric.description);
                describe(recorder, metric.name.into(), Some(unit(metric.unit)), description);
            }
        });
        Self::default()
    }

    fn with<R>(
        &self,
        name: &'static str,
        labels: &[(&'static str, &str)],
        run: impl FnOnce(&Key) -> R,
    ) -> R {
        let make = || {
            let label = |(key, value): &(&'static str, &str)| Label::new(*key, (*value).to_owned());
            Key::from_parts(name, labels.iter().map(label).collect::<Vec<_>>())
        };
        self.keys.with(name, labels, make, run)
    }
}

/// The facade knows few units. What is counted, in braces in the table, is a count.
fn unit(unit: &str) -> Unit {
    match unit {
        "s" => Unit::Seconds,
        "By" => Unit::Bytes,
        _ if unit.ends_with("}/s") => Unit::CountPerSecond,
        _ => Unit::Count,
    }
}

impl Telemetry for Metrics {
    fn count(&self, name: &'static str, labels: &[(&'static str, &str)], add: u64) {
        self.with(name, labels, |key| {
            with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(add));
        });
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.with(name, labels, |key| {
            with_recorder(|recorder| recorder.register_gauge(key, &METADATA).set(value));
        });
    }

    fn record(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.with(name, labels, |key| {
            with_recorder(|recorder| recorder.register_histogram(key, &METADATA).record(value));
        });
    }

    fn adjust(&self, name: &'static str, labels: &[(&'static str, &str)], change: i64) {
        self.with(name, labels, |key| {
            #[expect(clippy::cast_precision_loss, reason = "counts of what is in flight")]
            with_recorder(|recorder| {
                recorder.register_gauge(key, &METADATA).increment(change as f64);
            });
        });
    }
}
