//! The properties of a service: their initial values and updates.

use rowkey_wire::xml::{Logging, Metrics, ServiceProperties};

/// The service properties of a new account, as recorded.
pub(crate) fn initial() -> ServiceProperties {
    let hourly = Metrics { enabled: true, include_apis: true, retention_days: Some(7) };
    ServiceProperties {
        logging: Some(Logging::default()),
        hour_metrics: Some(hourly),
        minute_metrics: Some(Metrics::default()),
        cors: Some(Vec::new()),
        default_service_version: None,
        static_website: None,
    }
}

/// Sets the sections that were sent; the others remain unchanged.
pub(crate) fn update(kept: &mut ServiceProperties, sent: ServiceProperties) {
    fn set<T>(kept: &mut Option<T>, sent: Option<T>) {
        if sent.is_some() {
            *kept = sent;
        }
    }
    set(&mut kept.logging, sent.logging);
    set(&mut kept.hour_metrics, sent.hour_metrics);
    set(&mut kept.minute_metrics, sent.minute_metrics);
    set(&mut kept.cors, sent.cors);
    set(&mut kept.default_service_version, sent.default_service_version);
    set(&mut kept.static_website, sent.static_website);
}
