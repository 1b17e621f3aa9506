//! Metrics of operations and attempts: what they say of retries, failures, dropped futures and hostile servers.

#![expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "sums of small whole numbers")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use rowkey_entity::DynamicEntity;
use rowkey_wire::auth::Service;

use super::script::{Act, Script, answer, builder, get, options, post, refusal};
use crate::account::StorageAccount;
use crate::clock::ManualClock;
use crate::error::ErrorKind;
use crate::options::{ClientOptions, RetryOptions};
use crate::pace::Pace;
use crate::pace::governor::Governor;
use crate::pace::load::Load;
use crate::pace::permit::Asking;
use crate::telemetry::{Hook, MAX_NAMES, METRICS, Metric, MetricKind, OTHER, Telemetry};
use crate::transport::{Call, Host, Safety};

/// The values of each series, which is named by its metric and attributes.
#[derive(Default)]
struct Recorded(Mutex<BTreeMap<String, Vec<f64>>>);

impl Recorded {
    /// Adds a value, which must be one of the table of metrics.
    fn add(&self, kind: MetricKind, name: &str, labels: &[(&'static str, &str)], value: f64) {
        let metric = Metric::named(name).unwrap();
        assert_eq!(metric.kind, kind, "{name}");
        let mut series = name.to_owned();
        for (label, value) in labels {
            assert!(metric.attributes.contains(label), "{name} {label}");
            if !label.starts_with("server.") {
                for part in [" ", label, "=", value] {
                    series.push_str(part);
                }
            }
        }
        let names: BTreeSet<_> = labels.iter().map(|(label, _)| label).collect();
        assert_eq!(names.len(), labels.len(), "{series}");
        let is_priced = metric.attributes.contains(&"rowkey.billing.class");
        let has_port = labels.iter().any(|(label, value)| *label == "server.port" && *value != "0");
        assert!(is_priced || has_port, "{series}");
        self.0.lock().unwrap().entry(series).or_default().push(value);
    }

    /// The names of the series of a metric, without its name.
    fn series(&self, metric: &str) -> Vec<String> {
        let all = self.0.lock().unwrap();
        let of = all.keys().filter_map(|series| series.strip_prefix(metric));
        of.map(|labels| labels.trim_start().to_owned()).collect()
    }

    fn sum(&self, series: &str) -> f64 {
        self.0.lock().unwrap().get(series).map_or(0.0, |values| values.iter().sum())
    }

    fn count(&self, series: &str) -> usize {
        self.0.lock().unwrap().get(series).map_or(0, Vec::len)
    }
}

impl Telemetry for Recorded {
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

/// An account at the script, and what it reports.
fn observed(script: &Script, options: ClientOptions) -> (StorageAccount, Arc<Recorded>) {
    let recorded = Arc::new(Recorded::default());
    let account = builder(&script.url())
        .clock(ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap()))
        .options(options)
        .telemetry(Arc::clone(&recorded) as _)
        .build()
        .unwrap();
    (account, recorded)
}

fn call() -> Call<'static> {
    Call::new("GetEntity", "orders", Safety::Read).expecting(&[404])
}

const OPERATION: &str = "db.client.operation.duration";
const GET: &str =
    "db.system.name=azure.tables db.operation.name=GetEntity db.collection.name=orders";
const ACTIVE: &str = "http.client.active_requests http.request.method=GET";

#[tokio::test]
async fn an_operation_and_its_attempt_are_reported() {
    let script = Script::start([answer("201 Created", "ETag: W/\"1\"\r\n", "{}")]);
    let (account, recorded) = observed(&script, options());
    let call = Call::new("InsertEntity", "orders", Safety::Insert);
    account.pipeline().send(post(), call).await.unwrap();
    assert_eq!(recorded.series(OPERATION), [GET.replace("Get", "Insert")]);
    let attempt = "http.request.method=POST http.response.status_code=201";
    assert_eq!(recorded.series("http.client.request.duration"), [attempt]);
    assert_eq!(recorded.sum(&format!("http.client.request.body.size {attempt}")), 39.0);
    assert_eq!(recorded.sum(&format!("http.client.response.body.size {attempt}")), 2.0);
    let active = "http.client.active_requests http.request.method=POST";
    assert_eq!((recorded.count(active), recorded.sum(active)), (2, 0.0));
    let own = recorded.series("rowkey");
    assert!(own.iter().all(|series| series.starts_with(".client.transactions ")), "{own:?}");
}

#[tokio::test]
async fn each_attempt_counts_and_the_operation_once() {
    let busy = || answer("503 Busy", "x-ms-error-code: ServerBusy\r\nRetry-After: 2\r\n", "");
    for failures in 0..4 {
        let acts = (0..failures).map(|_| busy()).chain([answer("200 OK", "", "{}")]);
        let script = Script::start(acts);
        let (account, recorded) = observed(&script, options());
        let sent = account.pipeline().send(get(), call()).await;
        assert_eq!(sent.is_ok(), failures < 4);
        assert_eq!(recorded.count(&format!("{OPERATION} {GET}")), 1);
        let http = "http.client.request.duration http.request.method=GET";
        let refused = format!("{http} http.response.status_code=503 error.type=503");
        assert_eq!(recorded.count(&refused), failures);
        assert_eq!(recorded.count(&format!("{http} http.response.status_code=200")), 1);
        let of_busy = |metric: &str| recorded.count(&format!("{metric} error.type=ServerBusy"));
        assert_eq!(of_busy("rowkey.client.throttled"), failures);
        assert_eq!(of_busy("rowkey.client.retries"), failures);
        assert_eq!(recorded.count("rowkey.client.retry.delay"), failures);
        assert_eq!(recorded.sum("rowkey.client.retry.delay"), 2.0 * failures as f64);
        assert_eq!((recorded.count(ACTIVE), recorded.sum(ACTIVE)), (2 * (failures + 1), 0.0));
    }
}

#[tokio::test]
async fn failures_have_a_status_and_a_type() {
    for (act, operation, attempt) in [
        (
            refusal("404 No", "ResourceNotFound"),
            "db.response.status_code=404",
            "http.response.status_code=404 error.type=404",
        ),
        (
            refusal("400 No", "InvalidInput"),
            "db.response.status_code=400 error.type=InvalidInput",
            "http.response.status_code=400 error.type=400",
        ),
        (
            answer("400 No", "", ""),
            "db.response.status_code=400 error.type=400",
            "http.response.status_code=400 error.type=400",
        ),
        (Act::Close, "error.type=Unavailable", "error.type=disconnected"),
        (
            Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_owned()),
            "error.type=Unavailable",
            "http.response.status_code=200 error.type=truncated",
        ),
        (Act::Hang, "error.type=Unavailable", "error.type=timeout"),
    ] {
        let script = Script::start([act]);
        let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
        let attempt_timeout = Duration::from_millis(100);
        let options = ClientOptions { attempt_timeout, retry, ..options() };
        let (account, recorded) = observed(&script, options);
        let _ = account.pipeline().send(get(), call()).await.unwrap_err();
        assert_eq!(recorded.series(OPERATION), [format!("{GET} {operation}")]);
        let attempts = recorded.series("http.client.request.duration");
        assert_eq!(attempts, [format!("http.request.method=GET {attempt}")]);
        assert_eq!(recorded.sum(ACTIVE), 0.0);
    }
}

#[tokio::test]
async fn a_dropped_operation_is_no_longer_in_flight() {
    let script = Script::start([Act::Hang]);
    let (account, recorded) = observed(&script, options());
    {
        let mut sent = Box::pin(account.pipeline().send(get(), call()));
        let waited = tokio::time::timeout(Duration::from_millis(50), &mut sent).await;
        assert!(waited.is_err());
        assert_eq!((recorded.count(ACTIVE), recorded.sum(ACTIVE)), (1, 1.0));
    }
    assert_eq!((recorded.count(ACTIVE), recorded.sum(ACTIVE)), (2, 0.0));
    assert_eq!(recorded.series(OPERATION), [format!("{GET} error.type=cancelled")]);
    let attempts = recorded.series("http.client.request.duration");
    assert_eq!(attempts, ["http.request.method=GET error.type=cancelled"]);
}

#[tokio::test]
async fn a_hostile_server_cannot_create_series() {
    let acts = (0..60).map(|number| match number % 3 {
        0 => refusal(&format!("{} No", 420 + number), &format!("Code{number}")),
        1 => answer(&format!("{} No", 900 + number), "", &"<".repeat(number)),
        _ => answer("400 No", &format!("x-ms-error-code: {number}secret\r\n"), ""),
    });
    let script = Script::start(acts);
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    let (account, recorded) = observed(&script, ClientOptions { retry, ..options() });
    for _ in 0..60 {
        let _ = account.pipeline().send(get(), call()).await.unwrap_err();
    }
    let series = recorded.series(OPERATION);
    assert!(series.len() < 20, "{series:#?}");
    assert!(series.iter().any(|series| series.ends_with("error.type=_OTHER")), "{series:#?}");
    let all = format!("{:?}", recorded.0.lock().unwrap().keys());
    assert!(!all.contains("secret") && !all.contains("Code") && !all.contains("private"), "{all}");
}

#[tokio::test]
async fn tables_beyond_a_number_share_a_series() {
    let tables = MAX_NAMES + 20;
    let script = Script::start((0..tables).map(|_| answer("204 OK", "", "")));
    let (account, recorded) = observed(&script, options());
    for number in 0..tables {
        account.table(&format!("table{number}")).delete_table().await.unwrap();
    }
    assert_eq!(recorded.series(OPERATION).len(), MAX_NAMES + 1);
    let other = GET.replace("GetEntity", "DeleteTable").replace("orders", OTHER);
    assert_eq!(recorded.count(&format!("{OPERATION} {other}")), 20);
}

/// Notes the ports of attempts.
#[derive(Default)]
struct Ports(Mutex<Vec<String>>);
impl Telemetry for Ports {
    fn record(&self, name: &'static str, labels: &[(&'static str, &str)], _: f64) {
        if name == "http.client.request.duration" || name == OPERATION {
            let port = labels.iter().find(|(label, _)| *label == "server.port").unwrap().1;
            self.0.lock().unwrap().push(port.to_owned());
        }
    }
}

#[tokio::test]
async fn attempts_at_the_secondary_have_its_address() {
    let primary = Script::start([answer("500 No", "", "")]);
    let secondary = Script::start([answer("200 OK", "", "{}")]);
    let ports = Arc::new(Ports::default());
    let account = builder(&primary.url())
        .secondary_endpoint(Service::Table, &secondary.url())
        .unwrap()
        .clock(ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap()))
        .options(ClientOptions { read_from_secondary: true, ..options() })
        .telemetry(Arc::clone(&ports) as _)
        .build()
        .unwrap();
    account.pipeline().send(get(), call().at(Host::Any)).await.unwrap();
    let port = |script: &Script| {
        let url = script.url();
        url.rsplit(':').next().unwrap().trim_end_matches("/contoso").to_owned()
    };
    let (one, other) = (port(&primary), port(&secondary));
    assert_eq!(*ports.0.lock().unwrap(), [one, other.clone(), other]);
}

#[tokio::test]
async fn rows_of_reads_and_operations_of_transactions_are_reported() {
    let row = |key: u32| {
        format!(
            r#"{{"odata.etag":"W/\"{key}\"","PartitionKey":"p","RowKey":"{key}","Timestamp":"2026-03-01T12:00:00Z"}}"#
        )
    };
    let page = format!(r#"{{"value":[{},{},{}]}}"#, row(1), row(2), row(3));
    let script =
        Script::start([answer("200 OK", "", &row(1)), answer("200 OK", "", &page), Act::Close]);
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    let (account, recorded) = observed(&script, ClientOptions { retry, ..options() });
    let orders = account.table("orders");
    let (one, two) = (DynamicEntity::new("p", "1"), DynamicEntity::new("p", "2"));
    orders.get(one.key()).await.unwrap().unwrap();
    let partition = rowkey_entity::Partition::<DynamicEntity>::new("p");
    assert_eq!(orders.query(partition).all().await.unwrap().len(), 3);
    let _ = orders.transaction().insert(&one).insert(&two).submit().await.unwrap_err();
    let rows = |get: &str| recorded.sum(&format!("db.client.response.returned_rows {get}"));
    assert_eq!((rows(GET), rows(&GET.replace("GetEntity", "QueryEntities"))), (1.0, 3.0));
    let batches = recorded.series("rowkey.client.batch.operations");
    assert_eq!(batches.len(), 1, "{batches:?}");
    assert_eq!(recorded.sum(&format!("rowkey.client.batch.operations {}", batches[0])), 2.0);
}

#[tokio::test]
async fn a_panic_of_the_hook_changes_nothing() {
    struct Broken;
    impl Telemetry for Broken {
        fn count(&self, _: &'static str, _: &[(&'static str, &str)], _: u64) {
            panic!("broken");
        }
        fn record(&self, _: &'static str, _: &[(&'static str, &str)], _: f64) {
            panic!("broken");
        }
        fn adjust(&self, _: &'static str, _: &[(&'static str, &str)], _: i64) {
            panic!("broken");
        }
    }
    let script = Script::start([refusal("503 No", "ServerBusy"), answer("200 OK", "", "{}")]);
    let account = builder(&script.url())
        .clock(ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap()))
        .options(options())
        .telemetry(Arc::new(Broken))
        .build()
        .unwrap();
    assert_eq!(account.pipeline().send(get(), call()).await.unwrap().attempts, 2);
}

#[tokio::test]
async fn a_refusal_before_the_first_attempt_is_reported_without_one() {
    let recorded = Arc::new(Recorded::default());
    let script = Script::start([]);
    let account = builder(&script.url()).telemetry(Arc::clone(&recorded) as _).build().unwrap();
    let mut long = get();
    long.target = format!("/orders?{}", "x".repeat(70_000));
    let error = account.pipeline().send(long, call()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(recorded.series(OPERATION), [format!("{GET} error.type=TooLarge")]);
    assert!(recorded.series("http").is_empty());
}

/// Nothing else reports under these names: the table is what adapters register.
#[test]
fn the_conventions_are_those_of_the_services() {
    let is_own = |metric: &&Metric| metric.name.starts_with("rowkey.");
    let (own, theirs): (Vec<&Metric>, Vec<&Metric>) = METRICS.iter().partition(is_own);
    for metric in theirs {
        let foreign = metric.attributes.iter().find(|name| name.starts_with("rowkey."));
        assert_eq!(foreign, None, "{}", metric.name);
    }
    assert!(own.len() > 15);
}

/// The number of waiting requests, by what was added and subtracted.
#[derive(Default)]
struct Waiting(Mutex<i64>);

impl Telemetry for Waiting {
    fn adjust(&self, name: &'static str, _: &[(&'static str, &str)], change: i64) {
        assert_eq!(name, "rowkey.pace.waiting");
        *self.0.lock().unwrap() += change;
    }
}

#[tokio::test]
async fn requests_that_wait_at_two_accounts_with_one_telemetry_add_up() {
    let (waiting, pace) = (Arc::new(Waiting::default()), Pace::background());
    let clock = ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap());
    clock.advance(Duration::from_secs(60));
    let hook = Hook::new(Arc::clone(&waiting) as _);
    let governor =
        || Governor::new(Arc::new(clock.clone()), hook.clone(), crate::pace::Targets::UNLIMITED);
    let governors = [governor(), governor()];
    let asking = Asking { load: Load::Whole, service: Service::Table, resource: "orders" };
    let enter = |governor| Governor::admit(governor, &pace, asking, Duration::MAX).boxed();
    let mut admitted = Vec::new();
    let mut lined_up = Vec::new();
    for governor in &governors {
        for _ in 0..5 {
            let mut one = enter(governor);
            match (&mut one).now_or_never() {
                Some(permit) => admitted.push(permit.unwrap()),
                None => lined_up.push(one),
            }
        }
    }
    assert!(lined_up.len() >= 2, "a window has few places");
    assert_eq!(*waiting.0.lock().unwrap(), i64::try_from(lined_up.len()).unwrap());
    lined_up.pop();
    assert_eq!(*waiting.0.lock().unwrap(), i64::try_from(lined_up.len()).unwrap());
    drop(lined_up);
    assert_eq!(*waiting.0.lock().unwrap(), 0);
}
