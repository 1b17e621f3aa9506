//! Writes the rows that become `fixtures/azure_data_tables-0.21.jsonl`: `write`, with
//! `ROWKEY_CONNECTION_STRING` set. All values are constants, so that a second run writes the same.

use azure_data_tables::IfMatchCondition;
use azure_data_tables::clients::{TableClient, TableServiceClient};
use azure_data_tables::operations::InsertEntityResponse;
use rowkey_interop::entities::{
    ActualState, Annotated, Candle, Job, JobStatus, Keyed, Level, Numbers, Player, Texts,
};
use rowkey_interop::{Result, connection_string, service};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let service = service(&connection_string()?)?;
    numbers(&service).await?;
    texts(&service).await?;
    keys(&service).await?;
    writes(&service).await?;
    states(&service).await?;
    jobs(&service).await?;
    candles(&service).await?;
    players(&service).await
}

async fn table(service: &TableServiceClient, name: &str) -> Result<TableClient> {
    let table = service.table_client(name);
    table.create().into_future().await?;
    Ok(table)
}

async fn insert<E: Serialize + DeserializeOwned + Send>(table: &TableClient, entity: E) -> Result {
    let _: InsertEntityResponse<E> = table.insert::<_, E>(entity)?.into_future().await?;
    Ok(())
}

/// Where Int32 ends, where a Double stops being exact, and both ends of each type.
async fn numbers(service: &TableServiceClient) -> Result {
    let table = table(service, "numbers").await?;
    let row = |row: &str, i64, u32, u64, f64| Numbers {
        partition: "n".to_owned(),
        row: row.to_owned(),
        i8: -8,
        i16: -1600,
        i32: 32,
        i64,
        u8: 8,
        u16: 1600,
        u32,
        u64,
        f32: 0.5,
        f64,
    };
    insert(&table, row("small", 64, 32, 64, 3.0)).await?;
    insert(&table, row("int32-max", 2_147_483_647, 2_147_483_647, 2_147_483_647, 0.1)).await?;
    insert(&table, row("int32-over", 2_147_483_648, 2_147_483_648, 2_147_483_648, 1e21)).await?;
    insert(&table, row("int32-min", -2_147_483_648, 0, 0, -0.0)).await?;
    insert(&table, row("int32-under", -2_147_483_649, 0, 0, 5e-324)).await?;
    let exact = 9_007_199_254_740_992;
    insert(&table, row("double-exact", exact, u32::MAX, exact.unsigned_abs(), f64::MAX)).await?;
    insert(&table, row("double-inexact", exact + 1, 0, 0, 0.0)).await?;
    insert(&table, row("int64-max", i64::MAX, 0, u64::MAX, 0.0)).await?;
    let ends = Numbers {
        i8: i8::MIN,
        i16: i16::MAX,
        i32: i32::MIN,
        u8: u8::MAX,
        u16: u16::MAX,
        f32: f32::MAX,
        ..row("ends", 0, 0, 0, 0.0)
    };
    insert(&table, ends).await
}

async fn texts(service: &TableServiceClient) -> Result {
    let table = table(service, "texts").await?;
    let full = Texts {
        partition: "t".to_owned(),
        row: "full".to_owned(),
        flag: true,
        text: "größe 日本 🏓 \"quoted\" o'brien \\ \n\t".to_owned(),
        letter: 'ß',
        level: Level::High,
        id: "0D391D16-97F1-4B9A-BE68-4CC871F90001".parse()?,
        at: "2024-05-06T07:08:09.123456789Z".parse()?,
        day: "2024-05-06".parse()?,
        note: Some(String::new()),
        count: Some(7),
        skipped: Some("there".to_owned()),
    };
    insert(&table, full.clone()).await?;
    let absent = Texts {
        row: "absent".to_owned(),
        level: Level::Low,
        flag: false,
        at: "1970-01-01T00:00:00Z".parse()?,
        note: None,
        count: None,
        skipped: None,
        ..full
    };
    insert(&table, absent).await?;
    let annotated = Annotated {
        partition: "t".to_owned(),
        row: "annotated".to_owned(),
        big: i64::MIN.to_string(),
        big_type: "Edm.Int64".to_owned(),
        at: "2024-05-06T07:08:09.1234567Z".parse()?,
        at_type: "Edm.DateTime".to_owned(),
        id: "0d391d16-97f1-4b9a-be68-4cc871f90001".parse()?,
        id_type: "Edm.Guid".to_owned(),
        data: "AQIDBAU=".to_owned(),
        data_type: "Edm.Binary".to_owned(),
    };
    let table = service.table_client("annotated");
    table.create().into_future().await?;
    insert(&table, annotated).await
}

/// The styles of keys that programs use, one row each.
async fn keys(service: &TableServiceClient) -> Result {
    let table = table(service, "keys").await?;
    let styles = [
        ("guid", "0d391d16-97f1-4b9a-be68-4cc871f90001"),
        ("guid", "0D391D16-97F1-4B9A-BE68-4CC871F90002"),
        ("guid-n", "0d391d1697f14b9abe684cc871f90001"),
        ("guid-b", "{0d391d16-97f1-4b9a-be68-4cc871f90001}"),
        ("unpadded", "7"),
        ("unpadded", "42"),
        ("unpadded", "-1"),
        ("padded", "0000000042"),
        ("hex", "000001909d7e3c40"),
        ("hex-upper", "000001909D7E3C41"),
        ("date", "2024-05-06"),
        ("iso", "2024-05-06T07:08:09.123Z"),
        ("unix", "1714979289"),
        ("unix-milliseconds", "1714979289123"),
        ("ticks", "0638505760891230000"),
        ("ticks-reversed", "2516872738983769999"),
        ("composite", "de-0042"),
        ("odd", "o'brien"),
        ("odd", "a b+c&d=e;f,g@h:i"),
        ("odd", "50% größe 日本 🏓"),
        ("odd", ""),
        ("Case", "Straße"),
        ("case", "straße"),
    ];
    for (n, (partition, row)) in (0..).zip(styles) {
        insert(&table, Keyed { partition: partition.to_owned(), row: row.to_owned(), n }).await?;
    }
    Ok(())
}

/// One row of `writes`, in the state that the last write of it leaves.
async fn writes(service: &TableServiceClient) -> Result {
    let table = table(service, "writes").await?;
    let keyed = |row: &str, n| Keyed { partition: "w".to_owned(), row: row.to_owned(), n };
    let rows = table.partition_key_client("w");
    rows.entity_client("replaced").insert_or_replace(keyed("replaced", 1))?.into_future().await?;
    rows.entity_client("merged").insert_or_merge(keyed("merged", 2))?.into_future().await?;
    insert(&table, keyed("updated", 0)).await?;
    let any = || IfMatchCondition::Any;
    rows.entity_client("updated").update(keyed("updated", 3), any())?.into_future().await?;
    rows.entity_client("updated").merge(keyed("updated", 4), any())?.into_future().await?;
    insert(&table, keyed("deleted", 0)).await?;
    rows.entity_client("deleted").delete().into_future().await?;
    let batch = rows
        .transaction()
        .insert(keyed("batch-inserted", 5))?
        .insert_or_replace("batch-replaced", keyed("batch-replaced", 6))?
        .insert_or_merge("batch-merged", keyed("batch-merged", 7))?;
    batch.into_future().await?;
    Ok(())
}

async fn states(service: &TableServiceClient) -> Result {
    let table = table(service, "states").await?;
    let node = "n:6a096929d88b3094bc781fbd0fb8dc060aa75ba06339ac3a706aa06f5ac9fedd";
    for (sequence, timestamp_ms) in (0..).zip([1_714_979_289_123, 1_714_979_349_456_u64]) {
        let newest_first = u64::MAX - timestamp_ms;
        let state = ActualState {
            partition: node.to_owned(),
            row: format!("{newest_first:016x}:{:016x}:{:016x}", u64::MAX - sequence, 0x5eed),
            node_id: "node-1".to_owned(),
            observed_current_program_hash: (sequence == 1).then(|| "11".repeat(32)),
            observed_schedule_interval_s: Some(60),
            battery_mv: (sequence == 0).then_some(3_100),
            firmware_version: Some("0.4.1".to_owned()),
            timestamp_ms,
        };
        insert(&table, state).await?;
    }
    Ok(())
}

async fn jobs(service: &TableServiceClient) -> Result {
    let table = table(service, "jobs").await?;
    let queued = Job {
        queue: "mail".to_owned(),
        id: "0D391D16-97F1-4B9A-BE68-4CC871F90001".to_owned(),
        status: JobStatus::Queued,
        attempts: 0,
        priority: 200,
        created_at: "2024-05-06T07:08:09.123Z".parse()?,
        finished_at: None,
        progress: 0.0,
        payload: r#"{"to":"a@example.org"}"#.to_owned(),
    };
    let running = Job {
        id: "0d391d16-97f1-4b9a-be68-4cc871f90002".to_owned(),
        status: JobStatus::Running,
        attempts: 1,
        progress: 0.25,
        ..queued.clone()
    };
    let done = Job {
        id: "0d391d16-97f1-4b9a-be68-4cc871f90003".to_owned(),
        status: JobStatus::Done,
        attempts: 3,
        progress: 1.0,
        finished_at: Some("2024-05-06T07:10:00Z".parse()?),
        ..queued.clone()
    };
    for job in [queued, running, done] {
        insert(&table, job).await?;
    }
    Ok(())
}

async fn candles(service: &TableServiceClient) -> Result {
    let table = table(service, "candles").await?;
    let prices = [
        (1_714_953_600, 1.0764, 1.0771, 1.078, 1.0759),
        (1_714_957_200, 1.0771, 2.0, 2.0, 1.0),
        (999_999_999, 1.5, 1.25, 1.75, 1.0),
    ];
    let candles = table.partition_key_client("EURUSD-bid-hour-202405");
    for (datetime_sec, open, close, high, low) in prices {
        let candle = Candle {
            partition: "EURUSD-bid-hour-202405".to_owned(),
            row: datetime_sec.to_string(),
            open,
            close,
            high,
            low,
            datetime_sec,
            instrument: "EURUSD".to_owned(),
        };
        candles.entity_client(candle.row.clone()).insert_or_replace(&candle)?.into_future().await?;
    }
    Ok(())
}

async fn players(service: &TableServiceClient) -> Result {
    let table = table(service, "players").await?;
    let player = |id: &str, nickname: &str, avatar: &str, wins, rating| Player {
        partition: "player".to_owned(),
        id: id.to_owned(),
        name: id.to_owned(),
        nickname: nickname.to_owned(),
        avatar_emoji: avatar.to_owned(),
        wins,
        rating,
    };
    insert(&table, player("martin", "The Dinkmaster", "🏓", 12, 4.5)).await?;
    insert(&table, player("sarah", "", "🔥", 4_294_967_296, 5.0)).await?;
    insert(&table, player("o-brien", "", "💀", 0, 0.1)).await
}
