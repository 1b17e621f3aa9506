//! An index for a table with existing data, and a check that it is correct.
//!
//! 3,376 airports were stored by code only. Now they need an index by city, while programs continue to change
//! them; the program that builds the index is killed and resumes where it stopped. Then writes without the
//! index damage copies, which are found and repaired.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::path::Path;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use futures_util::future::select;
use futures_util::stream;
use rowkey::patterns::job::{Job, Report};
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, Key, Match, StorageAccount, Table};
use rowkey_emulator::Server;
use tokio::sync::Notify;

/// The previous type of airports.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{state}", row = "iata_{iata}")]
struct Before {
    state: String,
    iata: String,
    name: String,
    city: String,
}

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{state}", row = "iata_{iata}")]
#[entity(index(name = by_city, row = "city_{city:lower}", many))]
struct Airport {
    state: String,
    iata: String,
    name: String,
    city: String,
}

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("airports");
    table.create().await?;
    let count = load_without_index(&table).await?;

    // ANCHOR: check
    // Verifying writes nothing.
    let airports = Store::<Airport>::builder(table.clone()).build()?;
    let report = airports.verify().run().await?;
    let by_city = report.part("by_city");
    assert_eq!((by_city.missing, report.is_clean()), (count, false));
    // ANCHOR_END: check
    println!("{count} airports, {} without a copy in the index", by_city.missing);

    // ANCHOR: build
    // From here on all writers keep the index.
    let stored = build_some(&airports).await?;
    // The program was killed. Writers go on: they move copies that are there, and write those that are not.
    let anchorage = Airport::key("AK", "ANC");
    airports.update(anchorage, |airport| airport.city = "Los Anchorage".into()).await?;
    airports.delete(Airport::key("AK", "FAI")).await?;

    let report = airports
        .repair()
        .resume(stored.parse()?)
        .progress(|progress| println!("{} rows", progress.report().total.examined))
        .run()
        .await?;
    assert!(report.is_clean());
    // ANCHOR_END: build
    let found = airports.query(Airport::by_city("AK", "los anchorage")).all().await?;
    assert_eq!(found.len(), 1);
    assert_eq!(drift(&airports.verify().run().await?), (0, 0, 0));

    // ANCHOR: repair
    // Another program writes past the index: a city is changed without its copy, a copy is deleted.
    let mut moved = table.get(Before::key("AK", "ANC")).await?.ok_or("no such airport")?;
    moved.entity.city = "Anchorage".into();
    table.replace(&moved).await?;
    let copy = airports.query(Airport::by_city("HI", "Honolulu")).page(1, None).await?;
    let copy = copy.entities.first().ok_or("no such airport")?;
    let row = format!("city_honolulu_iata_{}", copy.entity.iata);
    table.delete(Key::<DynamicEntity>::new("HI", row), Match::Any).await?;

    let report = airports.repair().run().await?;
    assert_eq!(drift(&report), (2, 0, 1));
    assert_eq!((report.part("by_city").repaired, report.is_clean()), (3, true));
    // ANCHOR_END: repair
    println!("{:?}", report.part("by_city"));
    Ok(())
}

/// The numbers of missing, stale and orphaned copies.
fn drift(report: &Report) -> (u64, u64, u64) {
    let by_city = report.part("by_city");
    (by_city.missing, by_city.stale, by_city.orphaned)
}

/// Builds part of the index, and returns the checkpoint as text.
async fn build_some(airports: &Store<Airport>) -> Result<String> {
    let (stored, some_pages) = (Mutex::new(String::new()), Notify::new());
    let build = airports.repair().progress(|progress| {
        *stored.lock().unwrap_or_else(PoisonError::into_inner) = progress.checkpoint.to_string();
        some_pages.notify_one();
    });
    select(pin!(build.run()), pin!(some_pages.notified())).await;
    Ok(stored.into_inner()?)
}

/// Stores the airports as before the index existed.
async fn load_without_index(table: &Table) -> Result<u64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/airports.csv");
    let mut airports = Vec::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (iata, name, city, state): (String, String, String, String) = record?;
        airports.push(Before { state, iata, name, city });
    }
    let report = Job::insert(table, stream::iter(airports)).run().await?;
    Ok(report.total.right)
}
