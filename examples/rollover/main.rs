//! One table per month: a year of hourly temperatures, read across the months as one table; old months are
//! dropped with one request each.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use chrono::{DateTime, NaiveDateTime, Utc};
use futures_util::TryStreamExt as _;
use rowkey::patterns::rollover::{Period, Rollover};
use rowkey::{Entity, StorageAccount, Transaction};
use rowkey_emulator::{Operation, Server};

/// A temperature: the row is the time, so that key order is the order of time.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{city}", row = "{at}")]
struct Reading {
    city: String,
    at: DateTime<Utc>,
    fahrenheit: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let temperatures = Rollover::new(account.clone(), "temperatures", Period::Month);

    // Each reading goes to the table of its month, which the first writer creates. Here a day goes in one
    // transaction; `insert` and `upsert` take one entity.
    let readings = read()?;
    for day in readings.values() {
        let month = temperatures.at(day[0].at);
        let write = |table: rowkey::Table| {
            day.iter().fold(table.transaction(), Transaction::upsert).submit()
        };
        month.write(write).await?;
    }
    let tables = temperatures.tables().await?;
    println!("{} tables, the first is {}", tables.len(), tables[0].table.name());
    assert_eq!(tables.len(), 12);

    // From the last day of May to the first of July: three tables, one stream, in order.
    let (from, to) = (time("2010/05/31 00:00")?, time("2010/07/02 00:00")?);
    let range = |table: &rowkey::Table| {
        let seattle = Reading::partition("Seattle");
        let (first, last) = (Reading::key("Seattle", from), Reading::key("Seattle", to));
        table.query(seattle.range(first..last))
    };
    let june: Vec<_> = temperatures.query(from..to, range).await?.try_collect().await?;
    assert!(june.is_sorted_by_key(|reading| reading.entity.at));
    let warmest = june.iter().map(|reading| reading.entity.fahrenheit).fold(f64::MIN, f64::max);
    println!("{} readings, at most {warmest} degrees", june.len());
    assert_eq!(june.len(), 32 * 24);

    // Everything that is over since August goes. Whether there are 700 readings in a month or
    // seven million does not matter: a request each.
    let before = server.journal();
    let keep = (account.clock().now() - time("2010/08/01 00:00")?).to_std()?;
    let dropped = temperatures.expire(keep).await?;
    println!("dropped {}", dropped.join(", "));
    let sent = server.journal().since(&before);
    assert_eq!((dropped.len(), sent.count(Operation::DeleteTable), sent.len()), (7, 7, 8));

    // A query for May finds nothing, and no error.
    assert!(temperatures.at(from).get(Reading::key("Seattle", from)).await?.is_none());
    assert_eq!(temperatures.tables().await?.len(), 5);
    Ok(())
}

/// The readings by day.
fn read() -> Result<BTreeMap<String, Vec<Reading>>, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/seattle-temps.csv");
    let mut days = BTreeMap::<_, Vec<_>>::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (at, fahrenheit): (String, f64) = record?;
        let reading = Reading { city: "Seattle".into(), at: time(&at)?, fahrenheit };
        days.entry(at[..10].to_owned()).or_default().push(reading);
    }
    Ok(days)
}

fn time(text: &str) -> chrono::ParseResult<DateTime<Utc>> {
    Ok(NaiveDateTime::parse_from_str(text, "%Y/%m/%d %H:%M")?.and_utc())
}
