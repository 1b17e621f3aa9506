//! How long a connection may be idle.

use std::time::Duration;

use rowkey_wire::auth::Service;

/// How long connections may be idle, by service. Unlimited by default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeepAlive {
    blob: Option<Duration>,
    queue: Option<Duration>,
    table: Option<Duration>,
}

impl KeepAlive {
    pub(crate) fn set(&mut self, service: Service, limit: Duration) {
        let own = match service {
            Service::Blob => &mut self.blob,
            Service::Queue => &mut self.queue,
            Service::Table => &mut self.table,
        };
        *own = Some(limit);
    }

    pub(crate) fn of(self, service: Service) -> Option<Duration> {
        match service {
            Service::Blob => self.blob,
            Service::Queue => self.queue,
            Service::Table => self.table,
        }
    }

    /// Whether any service has a limit. If none has, no timer is needed.
    pub(crate) fn is_limited(self) -> bool {
        self.blob.or(self.queue).or(self.table).is_some()
    }
}
