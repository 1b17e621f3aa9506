//! Metrics and traces of `rowkey` in [OpenTelemetry](https://opentelemetry.io).
//!
//! [`Otel`] passes all metrics of the libraries on an account to a `MeterProvider`, under the names, units and attributes of
//! OpenTelemetry's conventions, and connects the traces of programs that work for one another through queues.
//!
//! ```
//! use std::sync::Arc;
//!
//! use opentelemetry::global;
//! use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
//! use rowkey::StorageAccount;
//! use rowkey_otel::Otel;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_emulator::Server::start().await?;
//! # let connection_string = server.connection_string();
//! // The exporter is that of the program, such as OTLP or Prometheus.
//! let exporter = InMemoryMetricExporter::default();
//! let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
//! global::set_meter_provider(provider.clone());
//!
//! let account = StorageAccount::builder()
//!     .connection_string(connection_string)?
//!     .telemetry(Arc::new(Otel::global()))
//!     .build()?;
//! account.table("orders").create_if_missing().await?;
//!
//! provider.force_flush()?;
//! let exported = exporter.get_finished_metrics()?;
//! let names: Vec<_> = exported
//!     .iter()
//!     .flat_map(|metrics| metrics.scope_metrics())
//!     .flat_map(|scope| scope.metrics())
//!     .map(|metric| metric.name())
//!     .collect();
//! assert!(names.contains(&"db.client.operation.duration"), "{names:?}");
//! # Ok(())
//! # }
//! ```
//!
//! # Metrics
//!
//! All metrics are in [`METRICS`](rowkey_client::telemetry::METRICS), the table that the page "Telemetry" of the book shows.
//! They come from the meter `rowkey`:
//!
//! - Histograms have the buckets that the conventions advise: durations of database operations 1 ms to 10 s.
//! - `http.response.status_code` and `server.port` are integers, as the conventions want. All other attributes are strings.
//! - What the program does not need, a view of the SDK drops or renames.
//!
//! A metric that was recorded before with the same attributes costs a look-up of this crate, without an allocation or a lock,
//! and what the SDK does, which looks the attributes up again.
//!
//! # Traces
//!
//! The spans of `rowkey` are those of `tracing`, and
//! [tracing-opentelemetry](https://docs.rs/tracing-opentelemetry) makes spans of OpenTelemetry from them. If its layer is
//! installed, a task is processed in the trace of the program that put it, in any other process, and so are the rest of a
//! write that a worker settles and the tasks that a handler puts:
//!
//! ```
//! use opentelemetry::trace::TracerProvider as _;
//! use opentelemetry_sdk::trace::SdkTracerProvider;
//! use tracing_subscriber::layer::SubscriberExt as _;
//!
//! // With the exporter of the program.
//! let provider = SdkTracerProvider::builder().build();
//! let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders"));
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # let _ = subscriber;
//! ```
//!
//! A program that uses no `tracing` of its own can set OpenTelemetry's context instead: a task that it puts carries the
//! current context.
//!
//! # Versions
//!
//! | rowkey-otel | opentelemetry | tracing-opentelemetry |
//! |---|---|---|
//! | 0.1 | 0.33 | 0.34 |

mod instruments;
mod series;
mod traces;

use opentelemetry::metrics::MeterProvider;
use opentelemetry::{InstrumentationScope, global};
use rowkey_client::telemetry::{SeriesCache, Telemetry, TraceParent};

use instruments::Instruments;
use series::{Change, Count, Distribution, Level};

/// The version of the conventions that the names follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.42.0";

/// Metrics and traces of an account in OpenTelemetry.
///
/// Pass it to [`StorageAccountBuilder::telemetry`](rowkey_client::StorageAccountBuilder::telemetry). Programs with several
/// accounts share one by cloning its `Arc`.
#[derive(Debug)]
pub struct Otel {
    instruments: Instruments,
    counts: SeriesCache<Count>,
    changes: SeriesCache<Change>,
    levels: SeriesCache<Level>,
    distributions: SeriesCache<Distribution>,
}

impl Otel {
    /// Passes metrics to the global meter provider, which the program has set before.
    ///
    /// Without one, metrics are dropped; traces are connected all the same.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use rowkey::StorageAccount;
    /// use rowkey_otel::Otel;
    ///
    /// let account = StorageAccount::builder()
    ///     .connection_string("UseDevelopmentStorage=true")?
    ///     .telemetry(Arc::new(Otel::global()))
    ///     .build()?;
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn global() -> Self {
        Self::new(&*global::meter_provider())
    }

    /// Passes metrics to a meter provider.
    ///
    /// ```
    /// use opentelemetry_sdk::metrics::SdkMeterProvider;
    /// use rowkey_otel::Otel;
    ///
    /// let provider = SdkMeterProvider::builder().build();
    /// let telemetry = Otel::new(&provider);
    /// ```
    pub fn new(provider: &dyn MeterProvider) -> Self {
        let scope = InstrumentationScope::builder("rowkey")
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(SCHEMA)
            .build();
        Self {
            instruments: Instruments::new(provider.meter_with_scope(scope)),
            counts: SeriesCache::new(),
            changes: SeriesCache::new(),
            levels: SeriesCache::new(),
            distributions: SeriesCache::new(),
        }
    }
}

impl Telemetry for Otel {
    fn current(&self) -> Option<TraceParent> {
        traces::current()
    }

    fn follow(&self, span: &tracing::Span, parent: TraceParent) {
        traces::follow(span, parent);
    }

    fn count(&self, name: &'static str, labels: &[(&'static str, &str)], add: u64) {
        let make = || Count::new(self.instruments.counter(name), labels);
        self.counts.with(name, labels, make, |count| count.add(add));
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        let make = || Level::new(self.instruments.gauge(name), labels);
        self.levels.with(name, labels, make, |level| level.record(value));
    }

    fn record(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        let make = || Distribution::new(self.instruments.amounts(name), labels);
        self.distributions.with(name, labels, make, |distribution| distribution.record(value));
    }

    fn adjust(&self, name: &'static str, labels: &[(&'static str, &str)], change: i64) {
        let make = || Change::new(self.instruments.change(name), labels);
        self.changes.with(name, labels, make, |counter| counter.add(change));
    }
}
