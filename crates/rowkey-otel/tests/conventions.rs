//! The table of metrics against OpenTelemetry's conventions: names are constants of their crate, and units, instruments,
//! attributes, types and buckets are facts of their repository, which `vectors/conventions.txt` has.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use opentelemetry::Value;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_semantic_conventions::{SCHEMA_URL, attribute, metric};
use rowkey::telemetry::{METRICS, Metric, MetricKind, Telemetry};
use rowkey_otel::Otel;

/// The names of metrics in the crate of the conventions.
const NAMES: [&str; 21] = [
    metric::DB_CLIENT_CONNECTION_COUNT,
    metric::DB_CLIENT_CONNECTION_CREATE_TIME,
    metric::DB_CLIENT_CONNECTION_IDLE_MAX,
    metric::DB_CLIENT_CONNECTION_IDLE_MIN,
    metric::DB_CLIENT_CONNECTION_MAX,
    metric::DB_CLIENT_CONNECTION_PENDING_REQUESTS,
    metric::DB_CLIENT_CONNECTION_TIMEOUTS,
    metric::DB_CLIENT_CONNECTION_USE_TIME,
    metric::DB_CLIENT_CONNECTION_WAIT_TIME,
    metric::DB_CLIENT_OPERATION_DURATION,
    metric::DB_CLIENT_RESPONSE_RETURNED_ROWS,
    metric::HTTP_CLIENT_ACTIVE_REQUESTS,
    metric::HTTP_CLIENT_CONNECTION_DURATION,
    metric::HTTP_CLIENT_OPEN_CONNECTIONS,
    metric::HTTP_CLIENT_REQUEST_BODY_SIZE,
    metric::HTTP_CLIENT_REQUEST_DURATION,
    metric::HTTP_CLIENT_RESPONSE_BODY_SIZE,
    metric::MESSAGING_CLIENT_CONSUMED_MESSAGES,
    metric::MESSAGING_CLIENT_OPERATION_DURATION,
    metric::MESSAGING_CLIENT_SENT_MESSAGES,
    metric::MESSAGING_PROCESS_DURATION,
];

/// The names of attributes there.
const ATTRIBUTES: [&str; 30] = [
    attribute::DB_CLIENT_CONNECTION_POOL_NAME,
    attribute::DB_CLIENT_CONNECTION_STATE,
    attribute::DB_COLLECTION_NAME,
    attribute::DB_NAMESPACE,
    attribute::DB_OPERATION_NAME,
    attribute::DB_QUERY_SUMMARY,
    attribute::DB_QUERY_TEXT,
    attribute::DB_RESPONSE_STATUS_CODE,
    attribute::DB_STORED_PROCEDURE_NAME,
    attribute::DB_SYSTEM_NAME,
    attribute::ERROR_TYPE,
    attribute::HTTP_CONNECTION_STATE,
    attribute::HTTP_REQUEST_METHOD,
    attribute::HTTP_RESPONSE_STATUS_CODE,
    attribute::MESSAGING_CONSUMER_GROUP_NAME,
    attribute::MESSAGING_DESTINATION_NAME,
    attribute::MESSAGING_DESTINATION_PARTITION_ID,
    attribute::MESSAGING_DESTINATION_SUBSCRIPTION_NAME,
    attribute::MESSAGING_DESTINATION_TEMPLATE,
    attribute::MESSAGING_OPERATION_NAME,
    attribute::MESSAGING_OPERATION_TYPE,
    attribute::MESSAGING_SYSTEM,
    attribute::NETWORK_PEER_ADDRESS,
    attribute::NETWORK_PEER_PORT,
    attribute::NETWORK_PROTOCOL_NAME,
    attribute::NETWORK_PROTOCOL_VERSION,
    attribute::SERVER_ADDRESS,
    attribute::SERVER_PORT,
    attribute::URL_SCHEME,
    attribute::URL_TEMPLATE,
];

/// What the conventions say of a metric.
#[derive(Debug, Default)]
struct Convention {
    instrument: &'static str,
    unit: &'static str,
    number: &'static str,
    attributes: BTreeSet<&'static str>,
    buckets: Vec<f64>,
}

/// The facts: of metrics, and the types of attributes.
fn conventions() -> (BTreeMap<&'static str, Convention>, BTreeMap<&'static str, &'static str>) {
    let (mut metrics, mut types) = (BTreeMap::new(), BTreeMap::new());
    let mut last = "";
    for line in
        include_str!("../vectors/conventions.txt").lines().skip_while(|line| !line.is_empty())
    {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["metric", name, instrument, unit, number] => {
                last = name;
                metrics
                    .insert(name, Convention { instrument, unit, number, ..Convention::default() });
            }
            ["attributes", ..] => {
                let metric: &mut Convention = metrics.get_mut(last).expect("below its metric");
                metric.attributes.extend(&words[1..]);
            }
            ["buckets", ..] => {
                let bounds = words[1..].iter().map(|bound| bound.parse::<f64>().expect("a number"));
                let metric = metrics.get_mut(last).expect("below its metric");
                metric.buckets = bounds.collect();
            }
            ["attribute", name, kind] => {
                types.insert(name, kind);
            }
            [] => {}
            _ => panic!("{line}"),
        }
    }
    (metrics, types)
}

/// What differs from the conventions.
fn differences(metric: &Metric) -> Vec<String> {
    let (conventions, types) = conventions();
    let mut found = Vec::new();
    let name = metric.name;
    let known: BTreeSet<_> = match conventions.get(name) {
        Some(convention) => {
            let instrument = match metric.kind {
                MetricKind::Counter => "counter",
                MetricKind::Histogram => "histogram",
                MetricKind::Gauge => "gauge",
                MetricKind::UpDownCounter => "updowncounter",
                _ => "of a new kind",
            };
            if instrument != convention.instrument {
                found.push(format!("{name} is a {instrument}, not a {}", convention.instrument));
            }
            if metric.unit != convention.unit {
                found.push(format!("{name} is in {}, not in {}", metric.unit, convention.unit));
            }
            // Durations are fractions for the adapter, and all else are whole numbers.
            if (metric.unit == "s") != (convention.number == "double") {
                found.push(format!("{name} has values of type {}", convention.number));
            }
            // Values beyond the largest that occurs need no buckets.
            let buckets = &convention.buckets;
            if !buckets.is_empty() && !buckets.starts_with(metric.buckets) {
                found.push(format!("{name} has buckets {:?}, not {buckets:?}", metric.buckets));
            }
            convention.attributes.clone()
        }
        None if name.starts_with("rowkey.") => types.keys().copied().collect(),
        None => return vec![format!("{name} is not in the conventions")],
    };
    for attribute in metric.attributes {
        if !known.contains(attribute) && !attribute.starts_with("rowkey.") {
            found.push(format!(
                "{name} has the attribute {attribute}, which the conventions do not have"
            ));
        }
    }
    found
}

#[test]
fn names_units_instruments_attributes_and_buckets_are_those_of_the_conventions() {
    let found: Vec<_> = METRICS.iter().flat_map(differences).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The facts are of the repository, the constants of the crate: neither is ours.
#[test]
fn the_facts_have_the_names_of_the_crate() {
    let (metrics, types) = conventions();
    assert_eq!(metrics.keys().copied().collect::<Vec<_>>(), NAMES);
    assert_eq!(types.keys().copied().collect::<Vec<_>>(), ATTRIBUTES);
    for (name, metric) in metrics {
        let unknown = metric.attributes.iter().find(|attribute| !ATTRIBUTES.contains(attribute));
        assert_eq!(unknown, None, "{name}");
    }
}

#[test]
fn what_is_not_in_the_conventions_is_found() {
    let duration = *Metric::named("db.client.operation.duration").unwrap();
    let mut wrong = duration;
    wrong.unit = "ms";
    assert_eq!(differences(&wrong).len(), 2, "the unit, and the type that follows from it");
    let mut wrong = duration;
    wrong.kind = MetricKind::Counter;
    wrong.attributes = &["server.address", "http.request.method"];
    assert_eq!(differences(&wrong).len(), 2);
    let mut wrong = duration;
    wrong.name = "db.client.operation.time";
    assert_eq!(differences(&wrong), ["db.client.operation.time is not in the conventions"]);
}

/// Values of attributes are text in the table. The adapter makes numbers of those that are numbers in the conventions.
#[test]
fn attributes_are_exported_with_the_types_of_the_conventions() -> Result<(), Box<dyn Error>> {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let otel = Otel::new(&provider);
    for metric in METRICS {
        let labels: Vec<_> = metric.attributes.iter().map(|name| (*name, "404")).collect();
        match metric.kind {
            MetricKind::Counter => otel.count(metric.name, &labels, 1),
            MetricKind::Gauge => otel.gauge(metric.name, &labels, 1.0),
            MetricKind::Histogram => otel.record(metric.name, &labels, 1.0),
            _ => otel.adjust(metric.name, &labels, 1),
        }
    }
    provider.force_flush()?;
    let exported = exporter.get_finished_metrics()?;
    let (_, types) = conventions();
    let mut seen = 0;
    let scopes =
        exported.iter().flat_map(opentelemetry_sdk::metrics::data::ResourceMetrics::scope_metrics);
    for scope in scopes {
        assert_eq!(scope.scope().schema_url(), Some(SCHEMA_URL));
        for metric in scope.metrics() {
            seen += 1;
            for attribute in attributes(metric.data()) {
                let is_number = matches!(attribute.1, Value::I64(_));
                let of_conventions = types.get(&*attribute.0).copied().unwrap_or("string");
                assert_eq!(
                    is_number,
                    of_conventions == "int",
                    "{} of {}",
                    attribute.0,
                    metric.name()
                );
            }
        }
    }
    assert_eq!(seen, METRICS.len());
    Ok(())
}

fn attributes(data: &AggregatedMetrics) -> Vec<(String, Value)> {
    fn of<T: Copy>(data: &MetricData<T>) -> Vec<(String, Value)> {
        let pairs: Vec<_> = match data {
            MetricData::Gauge(all) => all
                .data_points()
                .flat_map(opentelemetry_sdk::metrics::data::GaugeDataPoint::attributes)
                .collect(),
            MetricData::Sum(all) => all
                .data_points()
                .flat_map(opentelemetry_sdk::metrics::data::SumDataPoint::attributes)
                .collect(),
            MetricData::Histogram(all) => all
                .data_points()
                .flat_map(opentelemetry_sdk::metrics::data::HistogramDataPoint::attributes)
                .collect(),
            MetricData::ExponentialHistogram(_) => panic!("no view asks for one"),
        };
        pairs.into_iter().map(|pair| (pair.key.to_string(), pair.value.clone())).collect()
    }
    match data {
        AggregatedMetrics::F64(data) => of(data),
        AggregatedMetrics::U64(data) => of(data),
        AggregatedMetrics::I64(data) => of(data),
    }
}
