//! Replication statistics: the body of Get Table Service Stats.
//!
//! Reference: [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats).

use rowkey_wire::headers::http_date;
use rowkey_wire::xml::{ServiceStats, Writer};

/// Renders the body of a response.
pub(super) fn render(stats: &ServiceStats) -> String {
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
    use rowkey_wire::edm::DateTime;
    use rowkey_wire::xml::GeoStatus;

    use super::*;

    /// azure-data-tables (Python): `test_table_service_stats.test_table_service_stats_f`,
    /// `test_table_aad.test_aad_table_service_stats`.
    const RECORDED: [&str; 2] = [
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats><GeoReplication><Status>unavailable</Status><LastSyncTime></LastSyncTime></GeoReplication></StorageServiceStats>",
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>Thu, 17 Jun 2021 16:51:26 GMT</LastSyncTime></GeoReplication></StorageServiceStats>",
    ];

    fn expected() -> [ServiceStats; 2] {
        let instant: DateTime = "2021-06-17T16:51:26Z".parse().unwrap();
        let last_sync = Some(instant.to_chrono());
        [
            ServiceStats { status: GeoStatus::Unavailable, last_sync: None },
            ServiceStats { status: GeoStatus::Live, last_sync },
        ]
    }

    #[test]
    fn statistics_match_a_recording() {
        assert_eq!(expected().map(|stats| render(&stats)), RECORDED);
    }
}
