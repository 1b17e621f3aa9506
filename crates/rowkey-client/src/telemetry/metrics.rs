//! All metrics that the libraries on an account report: names, kinds, units, attributes. The only place
//! in which a name is written; the documentation and the adapters are compared with it.
//!
//! Names that do not begin with `rowkey.` are those of OpenTelemetry's semantic conventions, with the
//! conventions' units, attributes and buckets:
//! [databases](https://opentelemetry.io/docs/specs/semconv/db/database-metrics/),
//! [messaging](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/),
//! [HTTP](https://opentelemetry.io/docs/specs/semconv/http/http-metrics/).

/// A metric that the libraries on an account report to [`Telemetry`](super::Telemetry).
///
/// [`METRICS`] has all of them. An adapter registers them with the metrics library of the program.
///
/// ```
/// use rowkey::telemetry::{METRICS, Metric, MetricKind};
///
/// let duration = Metric::named("db.client.operation.duration").ok_or("not there")?;
/// assert_eq!((duration.kind, duration.unit), (MetricKind::Histogram, "s"));
/// assert!(duration.attributes.contains(&"db.collection.name"));
/// assert!(METRICS.iter().all(|metric| !metric.description.is_empty()));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The method of [`Telemetry`](super::Telemetry) that receives its values.
    pub kind: MetricKind,
    /// The unit, as in [UCUM](https://ucum.org): `s`, `By`, `1`, or what is counted, in braces.
    pub unit: &'static str,
    /// What it measures.
    pub description: &'static str,
    /// The attributes that its values may have. Each value has those that apply to it.
    ///
    /// All values are text. The conventions want numbers for `server.port` and
    /// `http.response.status_code`, whose text is always one.
    pub attributes: &'static [&'static str],
    /// The recommended upper bounds of a histogram's buckets, ascending; empty for other kinds.
    pub buckets: &'static [f64],
}

/// The kind of a [`Metric`]: which method of [`Telemetry`](super::Telemetry) receives its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// A number that only grows: [`count`](super::Telemetry::count).
    Counter,
    /// A number that is set: [`gauge`](super::Telemetry::gauge).
    Gauge,
    /// A distribution of values: [`record`](super::Telemetry::record).
    Histogram,
    /// A number that grows and shrinks: [`adjust`](super::Telemetry::adjust).
    UpDownCounter,
}

impl Metric {
    /// The metric with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }
}

/// Defines each metric as a constant, and [`METRICS`] as all of them.
macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal $unit:literal
        $description:literal $attributes:expr $(, $buckets:expr)?;)*) => {
        $(
            #[doc = $description]
            pub const $constant: Metric = Metric {
                name: $name,
                kind: MetricKind::$kind,
                unit: $unit,
                description: $description,
                attributes: $attributes,
                buckets: metrics!(@buckets $($buckets)?),
            };
        )*

        /// All metrics: those of the client, and those of the libraries on it.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
    (@buckets) => { &[] };
    (@buckets $buckets:expr) => { $buckets };
}

metrics! {
    DB_OPERATION_DURATION = Histogram "db.client.operation.duration" "s"
        "Duration of operations on tables, with all their attempts and the waits between them."
        DATABASE, DATABASE_SECONDS;
    DB_RETURNED_ROWS = Histogram "db.client.response.returned_rows" "{row}"
        "Number of rows in the responses to reads of tables."
        DATABASE, ROWS;
    MESSAGING_OPERATION_DURATION = Histogram "messaging.client.operation.duration" "s"
        "Duration of operations on queues, with all their attempts and the waits between them."
        MESSAGING_OPERATION, SECONDS;
    MESSAGING_SENT = Counter "messaging.client.sent.messages" "{message}"
        "Number of messages that the program tried to put into a queue."
        MESSAGING;
    MESSAGING_CONSUMED = Counter "messaging.client.consumed.messages" "{message}"
        "Number of messages that the program received or peeked at."
        MESSAGING;
    MESSAGING_PROCESS_DURATION = Histogram "messaging.process.duration" "s"
        "Duration of attempts of a worker's handler at a task."
        MESSAGING, SECONDS;
    HTTP_DURATION = Histogram "http.client.request.duration" "s"
        "Duration of HTTP requests. Each attempt of an operation is one."
        HTTP, SECONDS;
    HTTP_REQUEST_SIZE = Histogram "http.client.request.body.size" "By"
        "Size of the bodies of HTTP requests."
        HTTP, BYTES;
    HTTP_RESPONSE_SIZE = Histogram "http.client.response.body.size" "By"
        "Size of the bodies of HTTP responses."
        HTTP, BYTES;
    HTTP_ACTIVE = UpDownCounter "http.client.active_requests" "{request}"
        "Number of HTTP requests that were sent and are not answered."
        &["http.request.method", "server.address", "server.port"];
    BLOB_OPERATION_DURATION = Histogram "rowkey.blob.operation.duration" "s"
        "Duration of operations on blobs and containers, with all their attempts and the waits between them."
        &[
            "rowkey.operation.name", "rowkey.container.name", "http.response.status_code",
            "error.type", "server.address", "server.port",
        ], SECONDS;
    BATCH_OPERATIONS = Histogram "rowkey.client.batch.operations" "{operation}"
        "Number of operations in transactions of tables and batches of blobs."
        &["rowkey.operation.name", "server.address", "server.port"], ROWS;
    THROTTLED = Counter "rowkey.client.throttled" "{request}"
        "Number of HTTP requests that the service refused because it was busy."
        &["error.type", "server.address", "server.port"];
    TRANSACTIONS = Counter "rowkey.client.transactions" "{transaction}"
        "Number of billed transactions, by billing class."
        &["rowkey.billing.service", "rowkey.billing.class"];
    RETRIES = Counter "rowkey.client.retries" "{retry}"
        "Number of attempts that the client repeated, by the reason."
        &["error.type", "server.address", "server.port"];
    RETRY_DELAY = Histogram "rowkey.client.retry.delay" "s"
        "Waits of the client before it repeats an attempt."
        &["server.address", "server.port"], SECONDS;
    RETRIES_WITHHELD = Counter "rowkey.client.retries.withheld" "{retry}"
        "Number of attempts that were not repeated because the account's retry budget was used up."
        &["error.type", "server.address", "server.port"];
    HEDGES = Counter "rowkey.client.hedges" "{request}"
        "Number of second requests of slow reads."
        RESOURCE;
    PACE_WAIT_DURATION = Histogram "rowkey.pace.wait.duration" "s"
        "Waits of requests before they are sent, if they wait."
        PACE, SECONDS;
    PACE_WAITING = UpDownCounter "rowkey.pace.waiting" "{request}"
        "Number of requests that wait before they are sent."
        &["rowkey.priority"];
    PACE_PUSHBACKS = Counter "rowkey.pace.pushbacks" "{request}"
        "Number of paced requests that were refused as too many, or not answered."
        PACE;
    PACE_RATE = Gauge "rowkey.pace.rate" "{unit}/s"
        "Entities or requests per second that a target accepts, of the target of a resource that changed last; without a resource, of the account."
        RESOURCE;
    STORE_WRITE_DURATION = Histogram "rowkey.store.write.duration" "s"
        "Duration of a store's writes, with all their requests."
        STORE_WRITE, SECONDS;
    STORE_WRITE_REQUESTS = Histogram "rowkey.store.write.requests" "{request}"
        "Number of HTTP requests that a store's write sent."
        STORE_WRITE, REQUESTS;
    STORE_SETTLED = Counter "rowkey.store.settled" "{target}"
        "Number of attempts to update a row in another partition or table, or to put a task."
        &["db.collection.name", "rowkey.declaration", "rowkey.outcome", "rowkey.settled_by"];
    STORE_LAG = Gauge "rowkey.store.lag" "s"
        "Time between a write and the last attempt at settling one of its targets."
        &["db.collection.name", "rowkey.declaration"];
    WORKER_ATTEMPTS = Counter "rowkey.worker.attempts" "{attempt}"
        "Number of attempts at tasks whose handlers began."
        &["messaging.destination.name"];
    WORKER_ENDED = Counter "rowkey.worker.ended" "{message}"
        "Number of messages that a worker received and ended, by their end."
        &["messaging.destination.name", "rowkey.outcome"];
    WORKER_FAILED = Counter "rowkey.worker.failed" "{attempt}"
        "Number of attempts at tasks that failed, by the cause."
        &["messaging.destination.name", "error.type"];
    WORKER_IN_FLIGHT = UpDownCounter "rowkey.worker.in_flight" "{task}"
        "Number of handlers that have not ended."
        &["messaging.destination.name"];
    WORKER_OLDEST = Gauge "rowkey.worker.oldest" "s"
        "Age of the oldest message in the last batch that a worker received."
        &["messaging.destination.name"];
    JANITOR_RUNS = Counter "rowkey.janitor.runs" "{run}"
        "Number of runs of a janitor's chores, by their end."
        &["rowkey.chore", "rowkey.outcome"];
    JOB_REQUESTS = Counter "rowkey.job.requests" "{request}"
        "Number of HTTP requests that jobs sent."
        JOB;
    JOB_ENTITIES = Counter "rowkey.job.entities" "{entity}"
        "Number of entities that jobs processed, by the verdict."
        &["rowkey.job", "db.collection.name", "rowkey.verdict"];
    JOB_RATE = Gauge "rowkey.job.rate" "{entity}/s"
        "Entities per second that a job has processed since its previous report."
        JOB;
    JOB_PACE = Gauge "rowkey.job.pace" "{request}/s"
        "Requests per second that were sent at the pace of a job since its previous report, by all that share it."
        JOB;
    JOB_BACKLOG = Gauge "rowkey.job.backlog" "{unit}"
        "Number of a job's units of work that are not done, if their number is known."
        JOB;
    JOB_PROGRESS = Gauge "rowkey.job.progress" "1"
        "Part of a job's units of work that are done, from 0 to 1, if their number is known."
        JOB;
}

const DATABASE: &[&str] = &[
    "db.system.name",
    "db.operation.name",
    "db.collection.name",
    "db.response.status_code",
    "error.type",
    "server.address",
    "server.port",
];

const MESSAGING: &[&str] = &[
    "messaging.system",
    "messaging.operation.name",
    "messaging.destination.name",
    "error.type",
    "server.address",
    "server.port",
];

const MESSAGING_OPERATION: &[&str] = &[
    "messaging.system",
    "messaging.operation.name",
    "messaging.operation.type",
    "messaging.destination.name",
    "error.type",
    "server.address",
    "server.port",
];

const HTTP: &[&str] = &[
    "http.request.method",
    "http.response.status_code",
    "error.type",
    "server.address",
    "server.port",
];

const STORE_WRITE: &[&str] =
    &["db.collection.name", "rowkey.operation.name", "rowkey.outcome", "error.type"];

/// One of the first three: of the service.
const PACE: &[&str] = &[
    "db.collection.name",
    "messaging.destination.name",
    "rowkey.container.name",
    "rowkey.priority",
];

const RESOURCE: &[&str] =
    &["db.collection.name", "messaging.destination.name", "rowkey.container.name"];

const JOB: &[&str] = &["rowkey.job", "db.collection.name"];

/// The conventions' buckets for operations on databases.
const DATABASE_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// The conventions' buckets for HTTP requests and messages.
const SECONDS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// The conventions' buckets for returned rows, up to the 1,000 of a page.
const ROWS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

const REQUESTS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 50.0, 100.0];

/// From an entity to the limit of a transaction and a page, 4 MiB.
const BYTES: &[f64] =
    &[0.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_have_the_form_of_the_conventions() {
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        for metric in METRICS {
            assert!(metric.name.split('.').all(is_word), "{}", metric.name);
            assert!(metric.attributes.iter().all(|name| name.split('.').all(is_word)));
            let unique: BTreeSet<_> = metric.attributes.iter().collect();
            assert_eq!(unique.len(), metric.attributes.len(), "{}", metric.name);
            assert!(metric.description.ends_with('.'), "{}", metric.name);
        }
    }

    #[test]
    fn histograms_have_ascending_buckets_and_others_have_none() {
        for metric in METRICS {
            assert_eq!(metric.kind == MetricKind::Histogram, !metric.buckets.is_empty());
            assert!(metric.buckets.is_sorted_by(|one, next| one < next), "{}", metric.name);
        }
    }
}
