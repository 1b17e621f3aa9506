//! Deletion by query: the stock prices before 2005 are counted, then deleted; the program stops after the
//! first page, and the next one resumes.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::error::Error;
use std::path::Path;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use futures_util::future::select;
use futures_util::stream;
use rowkey::pace::Pace;
use rowkey::patterns::job::{Checkpoint, Job, Walk};
use rowkey::{Entity, StorageAccount, Table};
use rowkey_emulator::{Operation, Server};
use tokio::sync::Notify;

/// The price of a stock: one partition per symbol, one row per month.
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

/// The rows to delete. A resumed run must use the same query.
fn outdated(table: &Table) -> Walk<Price> {
    Walk::new(table, |table| table.scan::<Price>().filter(Price::SINCE.lt(2005)).page_size(100))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("prices");
    table.create().await?;
    let prices = read()?;
    let count = prices.len();
    assert!(Job::upsert(&table, stream::iter(prices)).run().await?.is_clean());

    // How many are they? Nothing is deleted.
    let found = Job::count(outdated(&table)).run().await?.total.examined;
    println!("{found} of {count} prices are older than 2005");
    assert_eq!(found, 245);

    // The first program stores a checkpoint after each page, and is killed after the first.
    let (stored, one_page) = (Mutex::new(String::new()), Notify::new());
    let first = Job::delete(outdated(&table)).progress(|progress| {
        *stored.lock().unwrap_or_else(PoisonError::into_inner) = progress.checkpoint.to_string();
        one_page.notify_one();
    });
    select(pin!(first.run()), pin!(one_page.notified())).await;
    let stored = stored.into_inner()?;

    // The second goes on with the next page. Other programs need the table, too, so it takes 1,000
    // entities per second and no more.
    let checkpoint: Checkpoint = stored.parse()?;
    println!("{} deleted, and then the program was killed", checkpoint.report().total.right);
    let pace = Pace::background().entities_per_second(1000);
    let report = Job::delete(outdated(&table)).pace(pace).resume(checkpoint).run().await?;
    println!("{} deleted", report.total.right);
    assert_eq!((report.total.right, report.is_clean()), (245, true));
    assert_eq!(server.journal().count(Operation::DeleteEntity), 0, "none was sent alone");

    let left = table.scan::<Price>().all().await?;
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
