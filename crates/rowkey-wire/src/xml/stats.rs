//! Replication statistics: the body of Get Table Service Stats, available only at the secondary
//! endpoint.
//!
//! Reference: [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats).

use chrono::{DateTime, Utc};

use super::element::Writer;
use crate::headers::http_date;

/// The replication state of the secondary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceStats {
    /// Whether the secondary can be read.
    pub status: GeoStatus,
    /// Everything written before this instant can be read from the secondary. Whole seconds. `None`
    /// while the secondary is unavailable.
    pub last_sync: Option<DateTime<Utc>>,
}

/// Whether the secondary region can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GeoStatus {
    /// The initial copy is in progress.
    Bootstrap,
    /// The secondary can be read.
    Live,
    /// The secondary cannot be read.
    Unavailable,
}

impl GeoStatus {
    /// The status on the wire, such as `live`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Live => "live",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Renders the body of a response.
pub fn render_stats(stats: &ServiceStats) -> String {
    let mut writer = Writer::response();
    writer.start("StorageServiceStats");
    writer.start("GeoReplication");
    writer.leaf("Status", stats.status.name());
    if let Some(instant) = stats.last_sync {
        writer.leaf("LastSyncTime", &http_date(instant));
    } else {
        // The only element that the service does not shorten when it is empty.
        writer.start("LastSyncTime");
        writer.end("LastSyncTime");
    }
    writer.end("GeoReplication");
    writer.end("StorageServiceStats");
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// azure-data-tables (Python): `test_table_service_stats.test_table_service_stats_f`,
    /// `test_table_aad.test_aad_table_service_stats`.
    const RECORDED: [&str; 2] = [
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats><GeoReplication><Status>unavailable</Status><LastSyncTime></LastSyncTime></GeoReplication></StorageServiceStats>",
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>Thu, 17 Jun 2021 16:51:26 GMT</LastSyncTime></GeoReplication></StorageServiceStats>",
    ];

    fn expected() -> [ServiceStats; 2] {
        let last_sync = DateTime::from_timestamp(1_623_948_686, 0);
        [
            ServiceStats { status: GeoStatus::Unavailable, last_sync: None },
            ServiceStats { status: GeoStatus::Live, last_sync },
        ]
    }

    #[test]
    fn statistics_are_written_as_recorded() {
        assert_eq!(expected().map(|stats| render_stats(&stats)), RECORDED);
    }
}
