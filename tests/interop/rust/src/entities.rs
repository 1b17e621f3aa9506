//! Entities as programs that use `azure_data_tables` 0.21 declare them: plain serde, so that the
//! stored types are what serde's JSON says.

use serde::{Deserialize, Serialize};

/// Every integer and float of Rust, without annotations.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Numbers {
    #[serde(rename = "PartitionKey")]
    pub partition: String,
    #[serde(rename = "RowKey")]
    pub row: String,
    pub i8: i8,
    pub i16: i16,
    pub i32: i32,
    pub i64: i64,
    pub u8: u8,
    pub u16: u16,
    pub u32: u32,
    pub u64: u64,
    pub f32: f32,
    pub f64: f64,
}

/// The other types of serde that become a property, and `None`, which becomes a null.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Texts {
    #[serde(rename = "PartitionKey")]
    pub partition: String,
    #[serde(rename = "RowKey")]
    pub row: String,
    pub flag: bool,
    pub text: String,
    pub letter: char,
    pub level: Level,
    pub id: uuid::Uuid,
    pub at: chrono::DateTime<chrono::Utc>,
    pub day: chrono::NaiveDate,
    pub note: Option<String>,
    pub count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// A unit enum, stored as its name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Low,
    High,
}

/// Types that the program says by hand, the way to store anything else with 0.21.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Annotated {
    #[serde(rename = "PartitionKey")]
    pub partition: String,
    #[serde(rename = "RowKey")]
    pub row: String,
    pub big: String,
    #[serde(rename = "big@odata.type")]
    pub big_type: String,
    pub at: chrono::DateTime<chrono::Utc>,
    #[serde(rename = "at@odata.type")]
    pub at_type: String,
    pub id: uuid::Uuid,
    #[serde(rename = "id@odata.type")]
    pub id_type: String,
    pub data: String,
    #[serde(rename = "data@odata.type")]
    pub data_type: String,
}

/// A row whose keys matter.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Keyed {
    #[serde(rename = "PartitionKey")]
    pub partition: String,
    #[serde(rename = "RowKey")]
    pub row: String,
    pub n: u32,
}

/// What a device said last, as an Internet-of-Things gateway (sonde) stores it: the newest row
/// first, because the first part of the `RowKey` counts down.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ActualState {
    #[serde(rename = "PartitionKey")]
    pub partition: String,
    #[serde(rename = "RowKey")]
    pub row: String,
    pub node_id: String,
    pub observed_current_program_hash: Option<String>,
    pub observed_schedule_interval_s: Option<u32>,
    pub battery_mv: Option<u32>,
    pub firmware_version: Option<String>,
    /// Unix milliseconds. 0.21 stores them as a Double and reads `1714979289123.0` back, which
    /// `u64` refuses, so that the program needs a deserializer of its own.
    #[serde(deserialize_with = "from_double")]
    pub timestamp_ms: u64,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "Unix milliseconds")]
fn from_double<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(f64::deserialize(deserializer)? as u64)
}

/// A row of a job table.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Job {
    #[serde(rename = "PartitionKey")]
    pub queue: String,
    /// A GUID, in the caller's case.
    #[serde(rename = "RowKey")]
    pub id: String,
    pub status: JobStatus,
    pub attempts: u32,
    pub priority: u8,
    pub created_at: chrono::DateTime<chrono::Utc>,
    pub finished_at: Option<chrono::DateTime<chrono::Utc>>,
    pub progress: f64,
    pub payload: String,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub enum JobStatus {
    Queued,
    Running,
    Done,
}

/// One price candle. The `RowKey` is Unix seconds, unpadded.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Candle {
    #[serde(rename = "PartitionKey")]
    pub partition: String,
    #[serde(rename = "RowKey")]
    pub row: String,
    pub open: f64,
    pub close: f64,
    pub high: f64,
    pub low: f64,
    pub datetime_sec: u64,
    pub instrument: String,
}

/// A player of a game, in one partition.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Player {
    #[serde(rename = "PartitionKey")]
    pub partition: String,
    #[serde(rename = "RowKey")]
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub nickname: String,
    pub avatar_emoji: String,
    pub wins: i64,
    pub rating: f32,
}
