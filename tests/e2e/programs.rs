//! Entity types of public programs on `azure_data_tables` 0.21 as types of rowkey, on the rows that 0.21 wrote: device
//! states of an Internet-of-Things gateway (sonde), a job table, price candles and players.

use rowkey::edm::Value;
use rowkey::{DynamicEntity, Entity, Property, Table};
use rowkey_tests::recorded::{Writer, replay};
use rowkey_tests::{Fixture, TestResult};

/// The last states of a device, the newest first.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{partition}", row = "{row}")]
struct ActualState {
    partition: String,
    row: String,
    node_id: String,
    observed_current_program_hash: Option<String>,
    observed_schedule_interval_s: Option<u32>,
    battery_mv: Option<u32>,
    firmware_version: Option<String>,
    timestamp_ms: u64,
}

/// The stored values of a row, by name.
async fn raw(table: &Table, partition: &str, row: &str) -> Result<DynamicEntity, rowkey::Error> {
    let stored = table.get(DynamicEntity::new(partition, row).key()).await?;
    Ok(stored.unwrap_or_else(|| panic!("a row {row}")).entity)
}

#[tokio::test]
async fn device_states_decode_newest_first() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = replay(&fixture, Writer::Rust, "states").await?;
    let node = "n:6a096929d88b3094bc781fbd0fb8dc060aa75ba06339ac3a706aa06f5ac9fedd";
    let states = table.query(ActualState::partition(node)).all().await?;
    let [newest, older] = &states[..] else { panic!("two states, not {}", states.len()) };
    assert_eq!(newest.entity.timestamp_ms, 1_714_979_349_456, "stored as a Double");
    assert_eq!(older.entity.timestamp_ms, 1_714_979_289_123);
    assert_eq!((newest.entity.battery_mv, older.entity.battery_mv), (None, Some(3_100)));
    assert_eq!(newest.entity.observed_current_program_hash, Some("11".repeat(32)));
    assert_eq!(older.entity.observed_current_program_hash, None);
    Ok(())
}

/// A row of a job table.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{queue}", row = "{id}", rename_all = "PascalCase")]
struct Job {
    queue: String,
    id: String,
    status: JobStatus,
    attempts: u32,
    priority: u8,
    created_at: String,
    finished_at: Option<String>,
    progress: f64,
    payload: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Property)]
enum JobStatus {
    Queued,
    Running,
    Done,
}

#[tokio::test]
async fn jobs_are_updated_under_upper_and_lower_case_guid_keys() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = replay(&fixture, Writer::Rust, "jobs").await?;
    let queued =
        table.query(Job::partition("mail")).filter(Job::STATUS.is(JobStatus::Queued)).all().await?;
    let [queued] = &queued[..] else { panic!("one is queued, not {}", queued.len()) };
    assert_eq!(queued.entity.id, "0D391D16-97F1-4B9A-BE68-4CC871F90001", "as the caller gave it");
    let taken = queued.clone().map(|job| {
        job.status = JobStatus::Running;
        job.attempts += 1;
    });
    table.replace(&taken).await?;
    let jobs = table.query(Job::partition("mail")).all().await?;
    assert_eq!(jobs.len(), 3, "no second row under another spelling of the GUID");
    assert_eq!(jobs.iter().filter(|job| job.entity.status == JobStatus::Running).count(), 2);
    let done = jobs.iter().find(|job| job.entity.status == JobStatus::Done).unwrap();
    assert_eq!(done.entity.finished_at.as_deref(), Some("2024-05-06T07:10:00Z"));
    assert_eq!((done.entity.attempts, done.entity.progress), (3, 1.0));
    Ok(())
}

/// A candle of prices. The `RowKey` is Unix seconds, unpadded.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{partition}", row = "{row}")]
struct Candle {
    partition: String,
    row: String,
    open: f64,
    close: f64,
    high: f64,
    low: f64,
    datetime_sec: u64,
    instrument: String,
}

#[tokio::test]
async fn candles_with_integral_prices_decode_and_are_updated() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = replay(&fixture, Writer::Rust, "candles").await?;
    let partition = "EURUSD-bid-hour-202405";
    let mut candles = table.query(Candle::partition(partition)).all().await?;
    candles.sort_by_key(|candle| candle.entity.datetime_sec);
    let times: Vec<_> = candles.iter().map(|candle| candle.entity.datetime_sec).collect();
    assert_eq!(times, [999_999_999, 1_714_953_600, 1_714_957_200]);
    let whole = candles[2].clone().map(|candle| candle.close = 3.0);
    table.replace(&whole).await?;
    let read = table.get(Candle::key(partition, "1714957200")).await?.unwrap().entity;
    assert_eq!((read.close, read.high), (3.0, 2.0));
    Ok(())
}

/// A player of a game.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "player", row = "{id}")]
struct Player {
    id: String,
    name: String,
    nickname: String,
    avatar_emoji: String,
    wins: i64,
    rating: f32,
}

#[tokio::test]
async fn players_decode_and_unknown_properties_are_kept() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = replay(&fixture, Writer::Rust, "players").await?;
    let players = table.query(Player::partition()).all().await?;
    let wins: Vec<_> = players.iter().map(|p| (p.entity.id.as_str(), p.entity.wins)).collect();
    assert_eq!(wins, [("martin", 12), ("o-brien", 0), ("sarah", 4_294_967_296)]);
    assert_eq!(players[1].entity.avatar_emoji, "💀");

    let mut newer = raw(&table, "player", "martin").await?;
    newer.set("league", "gold");
    table.upsert(&newer).await?;
    table.update(Player::key("martin"), |player| player.wins += 1).await?;
    let stored = raw(&table, "player", "martin").await?;
    assert_eq!(stored.get("league"), Some(&Value::from("gold")));
    assert_eq!(table.get(Player::key("martin")).await?.unwrap().entity.wins, 13);
    Ok(())
}
