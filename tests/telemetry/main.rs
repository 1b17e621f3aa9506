//! The dashboard for Grafana asks for metrics that exist, under the names and with the labels that OpenTelemetry's exporter for
//! Prometheus gives them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Encoder as _, Registry, TextEncoder};
use rowkey::telemetry::{METRICS, MetricKind, Telemetry as _};
use rowkey_otel::Otel;
use rowkey_tests::TestResult;
use serde_json::Value;

/// Labels that Prometheus adds, and that of the bounds of buckets.
const OTHERS: [&str; 2] = ["job", "le"];

/// The names of all samples that an exporter writes, each with its labels.
fn exported() -> TestResult<BTreeMap<String, BTreeSet<String>>> {
    let registry = Registry::new();
    let exporter = opentelemetry_prometheus::exporter().with_registry(registry.clone()).build()?;
    let provider = SdkMeterProvider::builder().with_reader(exporter).build();
    let otel = Otel::new(&provider);
    for metric in METRICS {
        let labels: Vec<_> = metric.attributes.iter().map(|name| (*name, "1")).collect();
        match metric.kind {
            MetricKind::Counter => otel.count(metric.name, &labels, 1),
            MetricKind::Gauge => otel.gauge(metric.name, &labels, 1.0),
            MetricKind::Histogram => otel.record(metric.name, &labels, 1.0),
            _ => otel.adjust(metric.name, &labels, 1),
        }
    }
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    let mut names = BTreeMap::<_, BTreeSet<_>>::new();
    for line in String::from_utf8(text)?.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('{').unwrap_or((line, ""));
        let labels = rest.split("=\"").filter_map(|before| before.rsplit([',', '"']).next());
        let labels = labels.filter(|label| !label.contains('}')).map(str::to_owned);
        names.entry(name.to_owned()).or_default().extend(labels);
    }
    Ok(names)
}

/// The names in a query: those of metrics, each with its labels.
fn asked(query: &str) -> Vec<(String, BTreeSet<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = |text: &str| -> BTreeSet<String> {
        text.split(|c| !is_name(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let grouped: BTreeSet<_> = (query.split("by (").skip(1))
        .flat_map(|rest| names(rest.split(')').next().unwrap_or_default()))
        .collect();
    let mut found = Vec::new();
    let mut rest = query;
    while let Some((before, after)) = rest.split_once('{') {
        let name = before.rsplit(|c| !is_name(c)).next().unwrap_or_default().to_owned();
        let (selected, behind) = after.split_once('}').unwrap_or((after, ""));
        let selected = selected
            .split(',')
            .map(|one| one.split(['=', '!']).next().unwrap_or_default().to_owned());
        found.push((name, selected.chain(grouped.clone()).collect()));
        rest = behind;
    }
    found
}

/// Checks that the metrics and labels of a query exist.
fn check(query: &str, exported: &BTreeMap<String, BTreeSet<String>>) -> TestResult {
    let asked = asked(query);
    assert!(!asked.is_empty(), "{query}");
    for (name, labels) in asked {
        let known = exported.get(&name);
        let known = known.ok_or_else(|| format!("{name} is not exported: {query}"))?;
        for label in &labels {
            let is_known = known.contains(label) || OTHERS.contains(&label.as_str());
            assert!(is_known, "{name} has no label {label}, only {known:?}: {query}");
        }
    }
    Ok(())
}

#[test]
fn the_dashboard_asks_for_metrics_and_labels_that_are_exported() -> TestResult {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/dashboards/rowkey-grafana.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let exported = exported()?;
    let panels = dashboard["panels"].as_array().ok_or("no panels")?;
    let mut queries = 0;
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().ok_or("no query")?;
            queries += 1;
            check(query, &exported)?;
        }
    }
    assert!(queries > 20, "{queries}");
    Ok(())
}

#[test]
fn the_alerts_ask_for_metrics_and_labels_that_are_exported() -> TestResult {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/client/telemetry.md");
    let (page, exported) = (std::fs::read_to_string(file)?, exported()?);
    let rules: Vec<_> =
        page.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    for rule in &rules {
        check(rule, &exported)?;
    }
    assert_eq!(rules.len(), 2);
    Ok(())
}

#[test]
fn names_and_labels_of_queries_are_found() {
    let query =
        "histogram_quantile(0.5, sum by (le, a) (rate(x_bucket{job=~\"$job\",b!=\"\"}[5m]))) / y{}";
    let labels =
        |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let found = asked(query);
    assert_eq!(found[0], ("x_bucket".to_owned(), labels(&["a", "b", "job", "le"])));
    assert_eq!(found[1].0, "y");
}

/// How a name becomes that of Prometheus, as the page about dashboards says.
#[test]
fn names_have_the_units_of_prometheus() -> TestResult {
    let exported = exported()?;
    for name in [
        "db_client_operation_duration_seconds_bucket",
        "http_client_request_body_size_bytes_sum",
        "http_client_active_requests",
        "messaging_client_sent_messages_total",
        "rowkey_client_throttled_total",
        "rowkey_store_lag_seconds",
        "rowkey_job_rate_per_second",
    ] {
        assert!(exported.contains_key(name), "{name}: {:?}", exported.keys());
    }
    let labels = &exported["db_client_operation_duration_seconds_count"];
    assert!(labels.contains("db_operation_name"), "{labels:?}");
    Ok(())
}
