//! Metrics, as an exporter of OpenTelemetry gets them.

use std::error::Error;
use std::sync::Arc;

use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Metric, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use rowkey::telemetry::Telemetry;
use rowkey::{DynamicEntity, StorageAccount};
use rowkey_emulator::Server;
use rowkey_otel::Otel;

type TestResult = Result<(), Box<dyn Error>>;

/// A provider and what it exported.
struct Exported {
    exporter: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

impl Exported {
    fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        Self { exporter, provider }
    }

    /// Passes each exported metric of the meter `rowkey` to `check`, with what was recorded last.
    fn each(&self, mut check: impl FnMut(&Metric)) -> TestResult {
        self.exporter.reset();
        self.provider.force_flush()?;
        for exported in self.exporter.get_finished_metrics()? {
            for scope in exported.scope_metrics() {
                assert_eq!(scope.scope().name(), "rowkey");
                scope.metrics().for_each(&mut check);
            }
        }
        Ok(())
    }

    fn one<R>(&self, name: &str, read: impl Fn(&Metric) -> R) -> Result<R, Box<dyn Error>> {
        let mut found = None;
        self.each(|metric| {
            if metric.name() == name {
                found = Some(read(metric));
            }
        })?;
        found.ok_or_else(|| format!("{name} was not exported").into())
    }
}

fn sorted<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> Vec<(String, Value)> {
    let mut attributes: Vec<_> =
        attributes.map(|each| (each.key.to_string(), each.value.clone())).collect();
    attributes.sort_by(|(key, _), (other, _)| key.cmp(other));
    attributes
}

#[test]
fn a_duration_has_the_unit_the_buckets_and_the_attributes_of_the_conventions() -> TestResult {
    let exported = Exported::new();
    let otel = Otel::new(&exported.provider);
    let labels = [
        ("db.operation.name", "GetEntity"),
        ("http.response.status_code", "200"),
        ("server.port", "443"),
        ("db.collection.name", "2026"),
    ];
    for _ in 0..3 {
        otel.record("db.client.operation.duration", &labels, 0.02);
    }
    exported.one("db.client.operation.duration", |metric| {
        assert_eq!(metric.unit(), "s");
        assert!(!metric.description().is_empty());
        let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else {
            panic!("{metric:?}");
        };
        let points: Vec<_> = histogram.data_points().collect();
        assert_eq!(points.len(), 1);
        let point = points[0];
        assert_eq!(point.count(), 3);
        let bounds: Vec<_> = point.bounds().collect();
        assert_eq!(bounds, [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0]);
        // A name of digits stays a string.
        let expected = [
            ("db.collection.name", Value::from("2026")),
            ("db.operation.name", Value::from("GetEntity")),
            ("http.response.status_code", Value::I64(200)),
            ("server.port", Value::I64(443)),
        ];
        assert_eq!(
            sorted(point.attributes()),
            expected.map(|(key, value)| (key.to_owned(), value))
        );
    })
}

#[test]
fn what_is_in_flight_is_counted_up_and_down() -> TestResult {
    let exported = Exported::new();
    let otel = Otel::new(&exported.provider);
    let labels = [("server.address", "a.table.core.windows.net")];
    for change in [1, 2, -1] {
        otel.adjust("http.client.active_requests", &labels, change);
    }
    exported.one("http.client.active_requests", |metric| {
        assert_eq!(metric.unit(), "{request}");
        let AggregatedMetrics::I64(MetricData::Sum(sum)) = metric.data() else {
            panic!("{metric:?}");
        };
        assert!(!sum.is_monotonic());
        assert_eq!(
            sum.data_points()
                .map(opentelemetry_sdk::metrics::data::SumDataPoint::value)
                .collect::<Vec<_>>(),
            [2]
        );
    })
}

#[test]
fn sizes_are_whole_numbers() -> TestResult {
    let exported = Exported::new();
    let otel = Otel::new(&exported.provider);
    otel.record("http.client.response.body.size", &[], 300.0);
    otel.record("http.client.response.body.size", &[], 0.0);
    exported.one("http.client.response.body.size", |metric| {
        assert_eq!(metric.unit(), "By");
        let AggregatedMetrics::U64(MetricData::Histogram(histogram)) = metric.data() else {
            panic!("{metric:?}");
        };
        let sums: Vec<_> =
            histogram.data_points().map(|point| (point.sum(), point.count())).collect();
        assert_eq!(sums, [(300, 2)]);
    })
}

/// A newer library may have metrics that this crate does not know, and a program may record its own.
#[test]
fn metrics_that_are_not_in_the_table_are_recorded_without_unit() -> TestResult {
    let exported = Exported::new();
    let otel = Otel::new(&exported.provider);
    otel.count("other.counted", &[("a", "1")], 2);
    otel.count("other.counted", &[("a", "1")], 3);
    otel.gauge("other.level", &[], 0.5);
    otel.record("other.taken", &[], 0.5);
    exported.one("other.counted", |metric| {
        assert_eq!(metric.unit(), "");
        let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() else {
            panic!("{metric:?}");
        };
        assert_eq!(
            sum.data_points()
                .map(opentelemetry_sdk::metrics::data::SumDataPoint::value)
                .collect::<Vec<_>>(),
            [5]
        );
    })?;
    exported.one("other.level", |metric| {
        assert!(matches!(metric.data(), AggregatedMetrics::F64(MetricData::Gauge(_))));
    })?;
    exported.one("other.taken", |metric| {
        assert!(matches!(metric.data(), AggregatedMetrics::F64(MetricData::Histogram(_))));
    })
}

#[tokio::test]
async fn requests_of_an_account_are_exported() -> TestResult {
    let server = Server::start().await?;
    let exported = Exported::new();
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .telemetry(Arc::new(Otel::new(&exported.provider)))
        .build()?;
    let table = account.table("orders");
    table.create().await?;
    let order = DynamicEntity::new("contoso", "1");
    table.insert(&order).await?;
    assert!(table.get(order.key()).await?.is_some());
    let mut names = Vec::new();
    exported.each(|metric| names.push(metric.name().to_owned()))?;
    for name in [
        "db.client.operation.duration",
        "db.client.response.returned_rows",
        "http.client.request.duration",
        "http.client.request.body.size",
        "http.client.response.body.size",
        "http.client.active_requests",
    ] {
        assert!(names.iter().any(|exported| exported == name), "{name} is not in {names:?}");
    }
    Ok(())
}
