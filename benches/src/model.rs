//! What is stored: ten mixed properties, about 1 KiB of JSON; as rowkey has it, and as a program
//! writes it who has no library.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::Utc;
use rowkey::Entity;
use rowkey::edm::{DateTime, Guid};
use serde::{Deserialize, Deserializer, Serialize};

/// The entity as rowkey stores it.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{partition}", row = "{row}", rename_all = "PascalCase")]
pub struct Reading {
    pub partition: String,
    pub row: String,
    pub level: i32,
    pub total: i64,
    pub ratio: f64,
    pub active: bool,
    pub measured: DateTime,
    pub device: Guid,
    pub name: String,
    pub site: String,
    pub notes: String,
    pub comment: String,
}

impl Reading {
    /// The entity with this number, in partitions of `per_partition`.
    pub fn numbered(number: usize, per_partition: usize) -> Self {
        let place = Place::of(number, per_partition);
        let seed = u64::try_from(number).unwrap_or_default().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self {
            partition: place.partition,
            row: place.row,
            level: i32::try_from(number % 100).unwrap_or_default(),
            total: i64::try_from(seed >> 4).unwrap_or_default(),
            ratio: f64::from(u32::try_from(seed >> 40).unwrap_or_default()) / 7.0,
            active: number.is_multiple_of(2),
            measured: "2026-11-20T12:34:56.7654321Z".parse().unwrap_or(DateTime::MIN),
            device: Guid::from_u64_pair(seed, seed.rotate_left(17)),
            name: text(seed, 24),
            site: text(seed ^ 1, 40),
            notes: text(seed ^ 2, 256),
            comment: text(seed ^ 3, 256),
        }
    }

    /// The body of an insert, as a program without a library writes it.
    pub fn json(&self) -> Vec<u8> {
        serde_json::to_vec(&Written::from(self)).unwrap_or_default()
    }
}

/// The keys of a numbered entity.
#[derive(Debug)]
pub struct Place {
    pub partition: String,
    pub row: String,
}

impl Place {
    pub fn of(number: usize, per_partition: usize) -> Self {
        Self {
            partition: format!("p{:05}", number / per_partition),
            row: format!("{:07}", number % per_partition),
        }
    }
}

/// The entity as serde reads it from an answer, into the same types.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Read {
    #[serde(rename = "odata.etag")]
    pub etag: String,
    pub partition_key: String,
    pub row_key: String,
    pub timestamp: chrono::DateTime<Utc>,
    pub level: i32,
    #[serde(deserialize_with = "from_text")]
    pub total: i64,
    pub ratio: f64,
    pub active: bool,
    pub measured: chrono::DateTime<Utc>,
    pub device: Guid,
    pub name: String,
    pub site: String,
    pub notes: String,
    pub comment: String,
}

/// A page as serde reads it.
#[derive(Debug, Deserialize)]
pub struct Page {
    pub value: Vec<Read>,
}

/// The entity as serde writes it, types annotated.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Written<'a> {
    partition_key: &'a str,
    row_key: &'a str,
    level: i32,
    #[serde(rename = "Total@odata.type")]
    total_type: &'static str,
    total: String,
    ratio: f64,
    active: bool,
    #[serde(rename = "Measured@odata.type")]
    measured_type: &'static str,
    measured: String,
    #[serde(rename = "Device@odata.type")]
    device_type: &'static str,
    device: Guid,
    name: &'a str,
    site: &'a str,
    notes: &'a str,
    comment: &'a str,
}

impl<'a> From<&'a Reading> for Written<'a> {
    fn from(reading: &'a Reading) -> Self {
        Self {
            partition_key: &reading.partition,
            row_key: &reading.row,
            level: reading.level,
            total_type: "Edm.Int64",
            total: reading.total.to_string(),
            ratio: reading.ratio,
            active: reading.active,
            measured_type: "Edm.DateTime",
            measured: reading.measured.to_string(),
            device_type: "Edm.Guid",
            device: reading.device,
            name: &reading.name,
            site: &reading.site,
            notes: &reading.notes,
            comment: &reading.comment,
        }
    }
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let text = <&str>::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// Text of some length without anything that JSON escapes.
fn text(seed: u64, length: usize) -> String {
    let mut bytes = Vec::with_capacity(length);
    let mut state = seed | 1;
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&state.to_be_bytes());
    }
    let mut text = BASE64_STANDARD.encode(bytes);
    text.truncate(length);
    text
}
