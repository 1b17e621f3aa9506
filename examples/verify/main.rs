//! An index for a table that has been in use for long, and a check that it is right.
//!
//! 3,376 airports were stored by their codes alone. Now they are to be found by city, too, while
//! somebody goes on changing them; the program that builds the index crashes on the way and goes on
//! where it stood. Then copies are damaged by writes past the index, found and mended.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::collections::BTreeMap;
use std::path::Path;

use rowkey::{DynamicEntity, Entity, Match, StorageAccount, Table, Transaction};
use rowkey_patterns::local_index::LocalIndex;
use rowkey_patterns::verify::{Checkpoint, Verify};
use rowkey_server::Server;

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{state}", row = "iata_{iata}")]
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
    // A check writes nothing.
    let verify = Verify::<Airport>::new(table.clone());
    let report = verify.check().run().await?.clone();
    assert_eq!(report.entities, count);
    assert_eq!(report.index("by_city").map(|index| index.missing), Some(count));
    // ANCHOR_END: check
    println!("{} airports, {} without a copy in the index", report.entities, count);

    // ANCHOR: build
    // From here on all writers keep the index.
    let airports = LocalIndex::<Airport>::new(table.clone());
    let stored = build_some(&verify).await?;
    // The program crashed. Writers go on: they move copies that are there, and those that are not.
    let anchorage = Airport::key("AK", "ANC");
    airports.update(anchorage.clone(), |airport| airport.city = "Los Anchorage".into()).await?;
    airports.delete_if_exists(Airport::key("AK", "FAI")).await?;

    let mut build = verify.build("by_city").resume(serde_json::from_str(&stored)?)?;
    while build.step().await? {
        let checkpoint: &Checkpoint = build.checkpoint();
        println!("{} of about {count} airports", checkpoint.report().entities);
    }
    assert!(build.report().is_in_step());
    // ANCHOR_END: build
    let found = airports.query(Airport::by_city("AK", "los anchorage")).all().await?;
    assert_eq!(found.len(), 1);
    assert!(verify.check().run().await?.indexes.iter().all(|index| index.drifted() == 0));

    // ANCHOR: repair
    // Somebody writes past the index: a city is changed without its copy, a copy is deleted.
    let mut moved = table.get(anchorage).await?.ok_or("no such airport")?;
    moved.entity.city = "Anchorage".into();
    table.replace(&moved).await?;
    let copy = airports.query(Airport::by_city("HI", "Honolulu")).all().await?;
    let copy = copy.first().ok_or("no such airport")?;
    let row = format!("city_honolulu_iata_{}", copy.iata);
    table.delete(rowkey::Key::<DynamicEntity>::new("HI", row), Match::Any).await?;

    let mut repair = verify
        .found(|finding| println!("{:?} in {}", finding.drift, finding.index.unwrap_or("no index")))
        .repair();
    let report = repair.run().await?;
    let by_city = report.index("by_city").ok_or("no such index")?;
    assert_eq!((by_city.missing, by_city.orphan), (2, 1));
    assert_eq!(by_city.mended, 3);
    // ANCHOR_END: repair
    Ok(())
}

/// Builds the index up to some page, and leaves the checkpoint as text.
async fn build_some(verify: &Verify<Airport>) -> Result<String> {
    let mut build = verify.build("by_city");
    for _ in 0..2 {
        build.step().await?;
    }
    Ok(serde_json::to_string(build.checkpoint())?)
}

/// Stores the airports as it was done before there was an index.
async fn load_without_index(table: &Table) -> Result<u64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/airports.csv");
    let mut states = BTreeMap::<String, Vec<Airport>>::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (iata, name, city, state): (_, _, _, String) = record?;
        states.entry(state.clone()).or_default().push(Airport { state, iata, name, city });
    }
    let mut count = 0;
    for airports in states.values() {
        for some in airports.chunks(100) {
            let all = some.iter().fold(table.transaction(), Transaction::insert);
            all.submit().await?;
            count += u64::try_from(some.len())?;
        }
    }
    Ok(count)
}
