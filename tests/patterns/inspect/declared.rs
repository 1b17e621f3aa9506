//! Declarations of the inspector for tables of other libraries.

// PartitionKey: text 9
// RowKey: text 9
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row}")]
pub struct RustNumbers {
    pub partition: String,
    pub row: String,
    pub f32: f64,
    pub f64: f64,
    pub i16: i32,
    pub i32: i32,
    // Edm.Double 5, Edm.Int32 4
    pub i64: f64,
    pub i8: i32,
    pub u16: i32,
    // Edm.Double 2, Edm.Int32 7
    #[entity(as = "Double")]
    pub u32: i64,
    // Edm.Double 3, Edm.Int32 6
    pub u64: f64,
    pub u8: i32,
}

// PartitionKey: text 2
// RowKey: text 2
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row}")]
#[entity(compat = "azure_data_tables-0.21")]
pub struct RustTexts {
    pub partition: String,
    pub row: String,
    pub at: String,
    pub count: Option<i64>,
    pub day: String,
    pub flag: bool,
    pub id: rowkey::edm::Guid,
    pub letter: String,
    pub level: String,
    pub note: Option<String>,
    pub skipped: Option<String>,
    pub text: String,
}

// PartitionKey: text 1
// RowKey: text 1
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row}")]
pub struct Annotated {
    pub partition: String,
    pub row: String,
    pub at: rowkey::edm::DateTime,
    pub big: i64,
    pub data: Vec<u8>,
    pub id: rowkey::edm::Guid,
}

// PartitionKey: text:hex:64 2
// RowKey: hex:16:text:hex:16 2
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row_1:x16}:{row_2:x16}:{row_3:x16}")]
pub struct States {
    pub partition: String,
    pub row_1: u64,
    pub row_2: u64,
    pub row_3: u64,
    pub battery_mv: Option<i32>,
    pub firmware_version: String,
    pub node_id: String,
    pub observed_current_program_hash: Option<String>,
    pub observed_schedule_interval_s: i32,
    pub timestamp_ms: f64,
}

// PartitionKey: text 3
// RowKey: GUID 1, guid 2
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row}", rename_all = "PascalCase")]
#[entity(compat = "azure_data_tables-0.21")]
pub struct Jobs {
    pub partition: String,
    pub row: String,
    pub attempts: i64,
    pub created_at: rowkey::edm::DateTime,
    pub finished_at: Option<rowkey::edm::DateTime>,
    pub payload: String,
    pub priority: i64,
    pub progress: f64,
    pub status: String,
}

// PartitionKey: text-text-text-number 3
// RowKey: number 1, unix 2
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row:unpadded}")]
pub struct Candles {
    pub partition: String,
    pub row: u64,
    pub close: f64,
    pub datetime_sec: i32,
    pub high: f64,
    pub instrument: String,
    pub low: f64,
    pub open: f64,
}

// PartitionKey: text 3
// RowKey: text 3
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row}")]
pub struct Players {
    pub partition: String,
    pub row: String,
    pub avatar_emoji: String,
    pub name: String,
    pub nickname: String,
    pub rating: f64,
    // Edm.Double 1, Edm.Int32 2
    #[entity(as = "Double")]
    pub wins: i64,
}

// PartitionKey: text 5
// RowKey: text 5
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row}")]
pub struct PythonNumbers {
    pub partition: String,
    pub row: String,
    pub float: f64,
    pub half: f64,
    pub int: i32,
    pub long: i64,
}

// PartitionKey: text 7
// RowKey: text 7
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row}")]
#[entity(compat = "javascript")]
pub struct JavaScriptNumbers {
    pub partition: String,
    pub row: String,
    #[entity(as = "Int64")]
    pub bigint: i64,
    // Edm.Double 4, Edm.Int32 3
    pub number: f64,
    pub said: f64,
}

// PartitionKey: text 1
// RowKey: number:2 1
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(partition = "{partition}", row = "{row}", rename_all = "PascalCase")]
pub struct DotNet {
    pub partition: String,
    pub row: String,
    pub binary_type_property: Vec<u8>,
    pub datetime_offset_type_property: rowkey::edm::DateTime,
    pub datetime_type_property: rowkey::edm::DateTime,
    pub double_type_property: f64,
    pub guid_type_property: rowkey::edm::Guid,
    pub int64_type_property: i64,
    pub int_type_property: i32,
    pub string_type_property: String,
}

// PartitionKey: text-number 1, text-number:4 2
// RowKey: number_datetime_GUID 3
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(
    partition = "{partition_1}-{partition_2:4}",
    row = "{row_1:unpadded,unordered}_{row_2:iso3}_{row_3:upper}"
)]
pub struct Composite {
    pub partition_1: String,
    pub partition_2: u64,
    pub row_1: u64,
    pub row_2: rowkey::edm::DateTime,
    pub row_3: rowkey::edm::Guid,
    pub open: bool,
}
