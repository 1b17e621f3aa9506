//! The duration of handlers, as a metric.

use std::time::Duration;

use rowkey_client::Queue;
use rowkey_client::telemetry::metrics;

use super::apply::attribute_of;
use super::ending::Processed;

/// Reports how long a handler ran when it ends, or is dropped because its time is up or the worker ends.
pub(super) struct Timer<'a> {
    queue: &'a Queue,
    /// By the account's clock; `None` once it is reported.
    begun: Option<Duration>,
}

impl<'a> Timer<'a> {
    pub(super) fn begin(queue: &'a Queue) -> Self {
        Self { queue, begun: Some(queue.account().clock().elapsed()) }
    }

    pub(super) fn end(mut self, processed: &Processed) {
        let cause = match processed {
            Processed::Failed(failure) | Processed::Unprocessable(failure) => {
                Some(attribute_of(&failure.cause))
            }
            _ => None,
        };
        self.report(cause.as_deref());
    }

    fn report(&mut self, failure: Option<&str>) {
        let Some(begun) = self.begun.take() else { return };
        let account = self.queue.account();
        let (address, port) = self.queue.server().unwrap_or_default();
        let attributes = [
            ("messaging.system", "azure_queues"),
            ("messaging.operation.name", "process"),
            ("messaging.destination.name", self.queue.name()),
            ("server.address", address),
            ("server.port", port),
            // One without a value is left out.
            ("error.type", failure.unwrap_or_default()),
        ];
        let seconds = account.clock().elapsed().saturating_sub(begun).as_secs_f64();
        account.telemetry().record(metrics::MESSAGING_PROCESS_DURATION.name, &attributes, seconds);
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.report(Some("cancelled"));
    }
}
