//! Deleting by query: the stock prices of before 2005 go, first counted, then deleted; the program
//! is broken off in between and goes on where it was.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::error::Error;
use std::path::Path;

use futures_util::{TryStreamExt as _, stream};
use rowkey::{Entity, Query, ScanPolicy, StorageAccount, Table};
use rowkey_patterns::bulk::{Bulk, PerPartitionOrdered};
use rowkey_patterns::bulk_delete::{BulkDelete, Checkpoint};
use rowkey_server::{Operation, Server};

/// The price of a stock: a partition a symbol, a row a month.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{symbol}", row = "{year:4}_{month:2}")]
struct Price {
    symbol: String,
    year: u16,
    month: u8,
    /// The year once more: filters see properties, and the RowKey only as a whole.
    since: i32,
    dollars: f64,
}

/// What is to go. A run that resumes must ask the same.
fn outdated(table: &Table) -> Query<Price> {
    let everywhere = table.scan::<Price>().scan_policy(ScanPolicy::Allow);
    everywhere.filter(Price::SINCE.lt(2005)).page_size(100)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("prices");
    table.create().await?;
    let prices = read()?;
    let count = prices.len();
    let report = Bulk::new(table.clone(), PerPartitionOrdered).upsert(stream::iter(prices)).await;
    assert!(report.is_complete(), "{report:?}");

    // How much would it be? Only keys are read, and nothing is deleted.
    let dry = BulkDelete::new(outdated(&table)).dry_run().run().await?;
    println!("{} of {count} prices are older than 2005", dry.found);
    assert_eq!(dry.found, 245);

    // The first program deletes a page, stores the checkpoint, and ends.
    let mut checkpoints = BulkDelete::new(outdated(&table)).checkpoints();
    let checkpoint = checkpoints.try_next().await?.ok_or("there is a page")?;
    let stored = checkpoint.to_string();
    drop(checkpoints);
    println!("{} deleted, and then the lights went out", checkpoint.progress.deleted);

    // The second goes on with the next page: nothing is read twice. Somebody needs the table, too,
    // so it takes 1,000 a second and no more.
    let checkpoint: Checkpoint = stored.parse()?;
    let rest = BulkDelete::new(outdated(&table)).resume(checkpoint).per_second(1000);
    let progress = rest.run().await?;
    println!("{} deleted in {} transactions", progress.deleted, progress.transactions);
    assert_eq!((progress.deleted, progress.gone, progress.changed), (245, 0, 0));
    assert_eq!(server.journal().count(Operation::DeleteEntity), 0, "none was sent alone");

    let left = table.scan::<Price>().scan_policy(ScanPolicy::Allow).all().await?;
    assert_eq!(left.len(), count - 245);
    assert!(left.iter().all(|price| price.entity.year >= 2005));
    Ok(())
}

fn read() -> Result<Vec<Price>, Box<dyn Error>> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/stocks.csv");
    let mut prices = Vec::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (symbol, date, dollars): (String, String, f64) = record?;
        let (name, year) = date.split_once(" 1 ").ok_or("a price is of the first of a month")?;
        let month = MONTHS.iter().position(|month| *month == name).ok_or("no such month")?;
        let year: u16 = year.parse()?;
        let month = u8::try_from(month + 1)?;
        prices.push(Price { symbol, year, month, since: year.into(), dollars });
    }
    Ok(prices)
}
