//! Instants, policies, service properties and leases as the databases have them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rowkey_wire::edm::DateTime;
use rowkey_wire::xml::{
    CorsRule, Logging, Metrics, ServiceProperties, SignedIdentifier, StaticWebsite, parse_acl,
    render_acl,
};
use serde::Deserialize;
use uuid::Uuid;

use crate::store::blob::lease::Lease;

/// Ticks from 0001-01-01 to 1970-01-01.
const EPOCH: i64 = 621_355_968_000_000_000;

/// An instant: JSON has those that were read from a file as text, and new ones as milliseconds or as text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Instant {
    Milliseconds(f64),
    Text(String),
}

impl Instant {
    pub(super) fn get(&self) -> Option<DateTime> {
        match self {
            Self::Milliseconds(milliseconds) => from_milliseconds(*milliseconds),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// An instant of JavaScript.
pub(super) fn from_milliseconds(milliseconds: f64) -> Option<DateTime> {
    // Milliseconds of any year that Azure has are exact.
    if !(-1e15..1e15).contains(&milliseconds) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let ticks = (milliseconds as i64).checked_mul(10_000)?.checked_add(EPOCH)?;
    DateTime::from_ticks(ticks).ok()
}

/// A stored access policy.
#[derive(Deserialize)]
pub(super) struct Policy {
    id: String,
    #[serde(rename = "accessPolicy")]
    terms: Option<Terms>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Terms {
    start: Option<Instant>,
    expiry: Option<Instant>,
    permission: Option<String>,
}

/// The policies, and how many have an instant that cannot be read.
pub(super) fn policies(found: Option<Vec<Policy>>) -> (Vec<SignedIdentifier>, u64) {
    let mut unread = 0;
    let policies = found.unwrap_or_default().into_iter().filter_map(|policy| {
        let terms = policy.terms.unwrap_or_default();
        let instant = |found: Option<Instant>| {
            let is_empty = matches!(&found, Some(Instant::Text(text)) if text.is_empty());
            let read = found.as_ref().filter(|_| !is_empty).map(Instant::get);
            read.map_or(Ok(None), |read| read.map(Some).ok_or(()))
        };
        let (start, expiry) = (instant(terms.start), instant(terms.expiry));
        // A policy without its end would permit more.
        let (Ok(start), Ok(expiry)) = (start, expiry) else {
            unread += 1;
            return None;
        };
        Some(SignedIdentifier { id: policy.id, start, expiry, permission: terms.permission })
    });
    let mut policies: Vec<_> = policies.collect();
    let found = policies.len();
    // One with a control character, for example, could not be read from a disk.
    policies
        .retain(|policy| parse_acl(render_acl(std::slice::from_ref(policy)).as_bytes()).is_ok());
    unread += (found - policies.len()) as u64;
    (policies, unread)
}

/// The properties of a service.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Properties {
    pub(super) account_name: String,
    logging: Option<WrittenLogging>,
    hour_metrics: Option<WrittenMetrics>,
    minute_metrics: Option<WrittenMetrics>,
    cors: Option<Vec<Rule>>,
    default_service_version: Option<String>,
    static_website: Option<Website>,
    delete_retention_policy: Option<Retention>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenLogging {
    read: bool,
    write: bool,
    delete_property: bool,
    retention_policy: Retention,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenMetrics {
    enabled: bool,
    #[serde(rename = "includeAPIs")]
    include_apis: bool,
    retention_policy: Retention,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Retention {
    enabled: bool,
    days: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    allowed_origins: String,
    allowed_methods: String,
    allowed_headers: String,
    exposed_headers: String,
    max_age_in_seconds: u32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Website {
    enabled: bool,
    index_document: Option<String>,
    default_index_document_path: Option<String>,
    #[serde(rename = "errorDocument404Path")]
    error_document_404_path: Option<String>,
}

impl Properties {
    /// Whether deleted blobs are kept, which this server does not do.
    pub(super) fn keeps_deleted(&self) -> bool {
        self.delete_retention_policy.as_ref().is_some_and(|policy| policy.enabled)
    }

    pub(super) fn read(self) -> ServiceProperties {
        let metrics = |found: WrittenMetrics| Metrics {
            enabled: found.enabled,
            include_apis: found.include_apis,
            retention_days: found.retention_policy.days(),
        };
        ServiceProperties {
            logging: self.logging.map(|found| Logging {
                read: found.read,
                write: found.write,
                delete: found.delete_property,
                retention_days: found.retention_policy.days(),
            }),
            hour_metrics: self.hour_metrics.map(metrics),
            minute_metrics: self.minute_metrics.map(metrics),
            cors: self.cors.map(|rules| rules.into_iter().map(Rule::read).collect()),
            default_service_version: self.default_service_version,
            static_website: self.static_website.map(|found| StaticWebsite {
                enabled: found.enabled,
                index_document: found.index_document,
                default_index_document_path: found.default_index_document_path,
                error_document_404_path: found.error_document_404_path,
            }),
        }
    }
}

impl Retention {
    fn days(&self) -> Option<u16> {
        self.days.filter(|_| self.enabled)
    }
}

impl Rule {
    fn read(self) -> CorsRule {
        let list = |text: String| {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            items.map(str::to_owned).collect()
        };
        CorsRule {
            allowed_origins: list(self.allowed_origins),
            allowed_methods: list(self.allowed_methods),
            allowed_headers: list(self.allowed_headers),
            exposed_headers: list(self.exposed_headers),
            max_age_seconds: self.max_age_in_seconds,
        }
    }
}

/// A lease, spread over a container or a blob and its properties.
#[derive(Default)]
pub(super) struct WrittenLease<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) state: Option<&'a str>,
    pub(super) seconds: Option<i64>,
    pub(super) expires: Option<&'a Instant>,
    pub(super) breaks: Option<&'a Instant>,
}

impl WrittenLease<'_> {
    /// The lease; `None` if it cannot be read.
    pub(super) fn read(&self) -> Option<Lease> {
        let state = self.state.unwrap_or("available");
        if state == "available" {
            return Some(Lease::None);
        }
        let id = Uuid::try_parse(self.id?).ok()?;
        let instant = |found: Option<&Instant>| found.and_then(Instant::get);
        match state {
            "leased" | "expired" => {
                let seconds = self.seconds.and_then(|seconds| u32::try_from(seconds).ok());
                let until = match instant(self.expires) {
                    Some(until) => until,
                    None if state == "expired" => DateTime::MIN,
                    None if seconds.is_some() => return None,
                    None => DateTime::MAX,
                };
                Some(Lease::Held { id, seconds, until })
            }
            "breaking" => Some(Lease::Breaking { id, until: instant(self.breaks)? }),
            "broken" => {
                let until = instant(self.breaks).unwrap_or(DateTime::MIN);
                Some(Lease::Breaking { id, until })
            }
            _ => None,
        }
    }
}

/// Bytes, of which JavaScript makes an object of numbers.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Octets {
    Base64(String),
    Buffer {
        data: Vec<u8>,
    },
    /// By their positions.
    Indexed(BTreeMap<String, u8>),
}

impl Octets {
    pub(super) fn read(&self) -> Option<Box<[u8]>> {
        match self {
            Self::Base64(text) => BASE64_STANDARD.decode(text).ok().map(Into::into),
            Self::Buffer { data } => Some(data.as_slice().into()),
            Self::Indexed(bytes) => {
                let byte = |(at, byte): (&String, &u8)| Some((at.parse::<u32>().ok()?, *byte));
                let bytes: Option<BTreeMap<_, _>> = bytes.iter().map(byte).collect();
                Some(bytes?.into_values().collect())
            }
        }
    }
}
