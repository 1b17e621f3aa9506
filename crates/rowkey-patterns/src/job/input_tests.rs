//! What the input of a load sends is beside the pace of the job: a scan that nothing polls stands in no line.

use futures_util::{Stream, StreamExt as _, stream};
use rowkey_client::pace::Pace;
use rowkey_client::{ClientOptions, DynamicEntity, StorageAccount, Table};
use rowkey_emulator::Server;

use super::Job;

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

const PARTITIONS: u64 = 20;
const ROWS: u64 = 2000;

/// A table with as many rows in each partition, and one without rows.
async fn tables(server: &Server) -> TestResult<[Table; 2]> {
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let tables = ["things", "copies"].map(|name| account.table(name));
    for table in &tables {
        table.create().await?;
    }
    let row =
        |number| DynamicEntity::new(format!("p{:02}", number % PARTITIONS), format!("{number:04}"));
    Job::insert(&tables[0], stream::iter((0..ROWS).map(row))).run().await?;
    Ok(tables)
}

/// The rows of a table in pages that are requested ahead.
fn scan(table: &Table) -> impl Stream<Item = DynamicEntity> + Send + use<> {
    let rows = table.scan::<DynamicEntity>().page_size(50).prefetch().stream();
    rows.map(|row| row.unwrap().entity)
}

#[tokio::test]
async fn the_input_of_a_load_is_read_beside_its_pace() -> TestResult {
    let server = Server::start().await?;
    let [things, copies] = tables(&server).await?;
    let input = || scan(&things);
    // The first one inserts, and the others find what it stored.
    for load in [
        Job::insert(&copies, input()),
        Job::upsert(&copies, input()),
        Job::upsert_merge(&copies, input()),
    ] {
        let pace = Pace::background();
        let report = load.pace(pace.clone()).run().await?;
        assert_eq!(report.total.right, ROWS);
        // One for each partition: 100 rows of a partition are a transaction.
        assert_eq!(pace.requests().sent, PARTITIONS, "the requests of the scan are not among them");
    }
    Ok(())
}

#[tokio::test]
async fn the_input_of_a_load_keeps_the_pace_of_its_own_options_and_that_around_the_job()
-> TestResult {
    let server = Server::start().await?;
    let [things, copies] = tables(&server).await?;
    let [own, around, of_job] = [(); 3].map(|()| Pace::background());
    let options = ClientOptions { pace: Some(own.clone()), ..ClientOptions::default() };
    let input = || scan(&things.with_options(options.clone()));
    let job = || Job::upsert(&copies, input()).pace(of_job.clone());
    job().run().await?;
    assert_eq!((own.requests().sent, of_job.requests().sent), (ROWS / 50, PARTITIONS));
    around.scope(job().run()).await?;
    let sent = [&own, &around, &of_job].map(|pace| pace.requests().sent);
    assert_eq!(sent, [ROWS / 50, ROWS / 50, 2 * PARTITIONS]);
    Ok(())
}
