//! An index in blobs: the airports of four states, each state a partition, found by their city in all of
//! them. Each city has a blob that lists the keys of its airports.
//!
//! The index is built of a table that is there already, kept by the writers, and mended after somebody
//! wrote past it. A list may be of any length: one of all airports is divided over several blobs.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::path::Path;

use rowkey::{Entity, StorageAccount};
use rowkey_large::BlobIndex;
use rowkey_server::{Operation, Server};

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{state}", row = "{iata}")]
struct Airport {
    state: String,
    iata: String,
    name: String,
    city: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("airports");
    table.create().await?;
    let container = account.container("indexes");
    container.create().await?;

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/airports.csv");
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (iata, name, city, state): (String, String, String, String) = record?;
        if ["GA", "MS", "OH"].contains(&state.as_str()) {
            table.insert(&Airport { state, iata, name, city }).await?;
        }
    }

    // The table was there before the index: repairing an index that has nothing builds it.
    let city = |airport: &Airport| Some(airport.city.clone());
    let airports = BlobIndex::new(table.clone(), container.clone(), "city", city);
    let built = airports.repair().await?;
    assert_eq!((built.entities, built.missing), (269, 269));
    println!("{} airports are listed by city", built.missing);

    // One read of the blob `city/Columbus`, and a point query an airport, in three partitions.
    let before = server.journal();
    let columbus = airports.find("Columbus").await?;
    let requests = server.journal().since(&before);
    assert_eq!((requests.count(Operation::GetBlob), requests.count(Operation::GetEntity)), (1, 6));
    for found in &columbus {
        println!("  {}: {}", found.entity.state, found.entity.name);
    }
    let blob = container.blob("city/Columbus").get().await?.ok_or("there is a list")?;
    assert!(blob.bytes.ends_with(b"GA\tCSG\nMS\tUBS\nOH\tCMH\nOH\tLCK\nOH\tOSU\nOH\tTZR\n"));

    // Writers keep it: the key is listed under the new city before the airport is written, and taken
    // off the list of the old one after.
    let lunken = Airport {
        state: "OH".into(),
        iata: "LUK".into(),
        name: "Cincinnati Muni Airport Lunken Field".into(),
        city: "Columbus".into(),
    };
    airports.delete(Airport::key("OH", "LUK")).await?;
    airports.insert(&lunken).await?;
    airports
        .update(Airport::key("OH", "LUK"), |airport| airport.city = "Cincinnati".into())
        .await?;
    assert_eq!(airports.find("Columbus").await?.len(), 6);
    assert!(airports.verify().await?.is_sound());

    // Somebody who knows nothing of the index writes to the table. A lookup returns nothing wrong, but
    // does not see what was not listed, until it is mended.
    let bolton = columbus.into_iter().find(|found| found.entity.iata == "TZR").ok_or("Bolton")?;
    table.replace(&bolton.map(|airport| airport.city = "Grove City".into())).await?;
    assert_eq!(airports.find("Columbus").await?.len(), 5);
    assert!(airports.find("Grove City").await?.is_empty());
    let drift = airports.repair().await?;
    assert_eq!((drift.missing, drift.stale), (1, 1));
    assert_eq!(airports.find("Grove City").await?[0].entity.iata, "TZR");
    println!("the repair listed {} airport and took {} off", drift.missing, drift.stale);

    // A value that all have: a list of 269 keys, in chunks of 100 at most (20,000 unless set). A change
    // reads and writes one of them.
    let all = |_: &Airport| Some("USA".to_owned());
    let all = BlobIndex::new(table, container.clone(), "country", all).chunk_keys(100);
    all.repair().await?;
    assert_eq!(all.keys("USA").await?.len(), 269);
    let chunks = container.blobs().starting_with("country/USA/").all().await?.len();
    println!("the list of all airports is in {chunks} chunks");
    let before = server.journal();
    all.delete(Airport::key("GA", "ATL")).await?;
    assert_eq!(server.journal().since(&before).count(Operation::PutBlob), 1);
    Ok(())
}
