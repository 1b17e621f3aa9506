//! Requests by operation, status and fault, in the text format of Prometheus.

use std::fmt::Write as _;

use rowkey_emulator::{RequestKind, Service};

/// Writes the requests that ended since the server was started.
pub(crate) fn write(totals: &[(RequestKind, u64)], out: &mut String) {
    out.push_str(
        "# HELP rowkey_server_requests_total Requests that ended, by operation and status.\n",
    );
    out.push_str("# TYPE rowkey_server_requests_total counter\n");
    for (kind, count) in totals {
        let status = kind.status.map_or_else(|| "closed".to_owned(), |status| status.to_string());
        let _ = writeln!(
            out,
            "rowkey_server_requests_total{{service=\"{}\",operation=\"{:?}\",status=\"{status}\",fault=\"{}\"}} \
             {count}",
            name(kind.operation.service()),
            kind.operation,
            kind.met_fault,
        );
    }
}

/// The service as it is written in labels.
fn name(service: Service) -> &'static str {
    match service {
        Service::Blob => "blob",
        Service::Queue => "queue",
        Service::Table => "table",
    }
}
