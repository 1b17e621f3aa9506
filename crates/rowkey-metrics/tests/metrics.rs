//! Metrics, as a recorder of the facade gets them.

use std::error::Error;
use std::sync::Arc;

use metrics::{Unit, with_local_recorder};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use rowkey::telemetry::{METRICS, Telemetry};
use rowkey::{DynamicEntity, StorageAccount};
use rowkey_emulator::Server;
use rowkey_metrics::Metrics;

type TestResult = Result<(), Box<dyn Error>>;

/// What the recorder has: kind, name, labels, unit, whether there is a description, value.
struct Recorded {
    kind: MetricKind,
    name: String,
    labels: Vec<(String, String)>,
    unit: Option<Unit>,
    is_described: bool,
    value: DebugValue,
}

fn recorded(snapshots: &Snapshotter) -> Vec<Recorded> {
    let series = snapshots.snapshot().into_vec().into_iter();
    let series = series.map(|(key, unit, description, value)| Recorded {
        kind: key.kind(),
        name: key.key().name().to_owned(),
        labels: (key.key().labels())
            .map(|label| (label.key().to_owned(), label.value().to_owned()))
            .collect(),
        unit,
        is_described: description.is_some_and(|text| !text.is_empty()),
        value,
    });
    series.collect()
}

#[test]
fn each_kind_is_recorded_under_its_name_with_its_unit() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    with_local_recorder(&recorder, || {
        let metrics = Metrics::described();
        let labels = [("db.operation.name", "GetEntity"), ("server.port", "443")];
        metrics.record("db.client.operation.duration", &labels, 0.02);
        metrics.record("db.client.operation.duration", &labels, 0.03);
        metrics.record("http.client.response.body.size", &[], 300.0);
        metrics.count("messaging.client.sent.messages", &labels, 2);
        metrics.count("messaging.client.sent.messages", &labels, 3);
        metrics.gauge("rowkey.job.rate", &labels, 2.5);
        for change in [1, 2, -1] {
            metrics.adjust("http.client.active_requests", &labels, change);
        }
    });
    let all = recorded(&snapshots);
    assert_eq!(all.len(), 5, "one series each");
    let one = |name: &str| all.iter().find(|one| one.name == name).unwrap();

    let duration = one("db.client.operation.duration");
    assert_eq!((duration.kind, duration.unit), (MetricKind::Histogram, Some(Unit::Seconds)));
    assert!(duration.is_described);
    let labels = [("db.operation.name", "GetEntity"), ("server.port", "443")];
    assert_eq!(duration.labels, labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(duration.value, DebugValue::Histogram(vec![0.02.into(), 0.03.into()]));

    assert_eq!(one("http.client.response.body.size").unit, Some(Unit::Bytes));
    let sent = one("messaging.client.sent.messages");
    assert_eq!((sent.kind, sent.unit), (MetricKind::Counter, Some(Unit::Count)));
    assert_eq!(sent.value, DebugValue::Counter(5));
    assert_eq!(one("rowkey.job.rate").unit, Some(Unit::CountPerSecond));
    assert_eq!(one("rowkey.job.rate").value, DebugValue::Gauge(2.5.into()));
    assert_eq!(one("http.client.active_requests").value, DebugValue::Gauge(2.0.into()));
}

#[test]
fn all_metrics_are_described() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    with_local_recorder(&recorder, || {
        let metrics = Metrics::described();
        for metric in METRICS {
            match metric.kind {
                rowkey::telemetry::MetricKind::Counter => metrics.count(metric.name, &[], 1),
                rowkey::telemetry::MetricKind::Histogram => metrics.record(metric.name, &[], 1.0),
                rowkey::telemetry::MetricKind::Gauge => metrics.gauge(metric.name, &[], 1.0),
                _ => metrics.adjust(metric.name, &[], 1),
            }
        }
    });
    let all = recorded(&snapshots);
    assert_eq!(all.len(), METRICS.len());
    assert!(all.iter().all(|one| one.is_described && one.unit.is_some()));
}

/// A program that installs its recorder after its account loses only what came before.
#[test]
fn a_recorder_that_is_installed_later_is_used() {
    let metrics = Metrics::default();
    metrics.count("messaging.client.sent.messages", &[], 1);
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    with_local_recorder(&recorder, || metrics.count("messaging.client.sent.messages", &[], 2));
    let all = recorded(&snapshots);
    assert_eq!(all[0].value, DebugValue::Counter(2));
}

#[test]
fn requests_of_an_account_are_recorded() -> TestResult {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Everything is on this thread, which has the recorder.
    with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let server = Server::start().await?;
            let account = StorageAccount::builder()
                .connection_string(server.connection_string())?
                .telemetry(Arc::new(Metrics::described()))
                .build()?;
            let table = account.table("orders");
            table.create().await?;
            table.insert(&DynamicEntity::new("contoso", "1")).await?;
            Ok::<_, Box<dyn Error>>(())
        })
    })?;
    let all = recorded(&snapshots);
    for name in ["db.client.operation.duration", "http.client.request.duration"] {
        assert!(all.iter().any(|one| one.name == name), "{name}");
    }
    assert!(all.iter().all(|one| one.is_described));
    Ok(())
}
