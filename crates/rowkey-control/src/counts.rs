//! Requests by operation, status and fault, for the metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use rowkey_emulator::{JournalFollower, Operation, Service};

/// The requests that ended since the server was started.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<BTreeMap<Kind, u64>>);

/// What is counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    operation: Operation,
    /// `None` if the connection was closed instead.
    status: Option<u16>,
    fault: bool,
}

impl Counts {
    /// Counts requests until the control plane is dropped.
    pub(crate) async fn follow(counts: Arc<Self>, mut follower: JournalFollower) {
        while let Some(entry) = follower.next().await {
            let kind = Kind {
                operation: entry.operation(),
                status: entry.status(),
                fault: entry.fault().is_some(),
            };
            let mut counts = counts.0.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.entry(kind).or_default() += 1;
        }
    }

    /// Writes the counts in the text format of Prometheus.
    pub(crate) fn write(&self, out: &mut String) {
        out.push_str(
            "# HELP rowkey_server_requests_total Requests that ended, by operation and status.\n",
        );
        out.push_str("# TYPE rowkey_server_requests_total counter\n");
        for (kind, count) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let status =
                kind.status.map_or_else(|| "closed".to_owned(), |status| status.to_string());
            let _ = writeln!(
                out,
                "rowkey_server_requests_total{{service=\"{}\",operation=\"{:?}\",status=\"{status}\",fault=\"{}\"}} \
                 {count}",
                name(kind.operation.service()),
                kind.operation,
                kind.fault,
            );
        }
    }
}

/// The service as it is written in JSON and in labels.
pub(crate) fn name(service: Service) -> &'static str {
    match service {
        Service::Blob => "blob",
        Service::Queue => "queue",
        Service::Table => "table",
    }
}
