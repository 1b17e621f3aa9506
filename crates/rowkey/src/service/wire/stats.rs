//! Replication statistics: the body of a response from the secondary endpoint.
//!
//! Reference: [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats).

use rowkey_wire::headers::parse_http_date;
use rowkey_wire::xml::{Element, GeoStatus, ServiceStats, XmlError};

/// Decodes the body of a response.
pub(crate) fn decode(body: &[u8]) -> Result<ServiceStats, XmlError> {
    let root = Element::read_root(body, "StorageServiceStats")?;
    let replication = root.require("GeoReplication")?;
    let status = match replication.require("Status")?.text.as_str() {
        "bootstrap" => GeoStatus::Bootstrap,
        "live" => GeoStatus::Live,
        "unavailable" => GeoStatus::Unavailable,
        _ => return Err(XmlError::Value("Status")),
    };
    let last_sync = match replication.text_of("LastSyncTime") {
        Some(text) => Some(parse_http_date(text).ok_or(XmlError::Value("LastSyncTime"))?),
        None => None,
    };
    Ok(ServiceStats { status, last_sync })
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

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
    fn recorded_statistics_decode() {
        assert_eq!(RECORDED.map(|text| decode(text.as_bytes()).unwrap()), expected());
    }

    #[test]
    fn an_unknown_status_or_date_is_an_error() {
        let changed = |from: &str, to: &str| decode(RECORDED[1].replace(from, to).as_bytes());
        assert_eq!(changed("live", "dead"), Err(XmlError::Value("Status")));
        assert_eq!(changed("Thu, 17 Jun 2021", "2021-06-17"), Err(XmlError::Value("LastSyncTime")));
        assert_eq!(changed("GeoReplication", "Other"), Err(XmlError::Missing("GeoReplication")));
    }
}
