//! Replication statistics: the body of Get Table Service Stats, available only at the secondary
//! endpoint. The client reads the document, the server writes it.
//!
//! Reference: [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats).

use chrono::{DateTime, Utc};

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
