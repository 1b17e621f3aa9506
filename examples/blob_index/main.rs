//! Lists in blobs: the airports of three states, each state a partition, found by city across all partitions.
//! Each city has a blob that lists the keys of its airports.
//!
//! The type declares the list with `list(.., blob)`, and the store maintains it like an index.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::path::Path;

use futures_util::stream;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, StorageAccount};
use rowkey_emulator::{Operation, Server};

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{state}", row = "airport_{iata}")]
#[entity(list(name = by_city, value = "{city}", blob))]
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
    let airports = Store::<Airport>::builder(account.table("airports"))
        .queue(account.queue("airports"))
        .blobs(account.container("airports"))
        .build()?;
    airports.create_if_missing().await?;

    let mut all = Vec::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/airports.csv");
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (iata, name, city, state): (String, String, String, String) = record?;
        if ["GA", "MS", "OH"].contains(&state.as_str()) {
            all.push(Airport { state, iata, name, city });
        }
    }
    let loaded = airports.load(stream::iter(all)).run().await?;
    assert_eq!(loaded.total.right, 269);

    // One read of the blob of Columbus, and one of each airport, in three partitions.
    let before = server.journal();
    let columbus = airports.query(Airport::by_city("Columbus")).all().await?;
    let requests = server.journal().since(&before);
    assert_eq!((requests.count(Operation::GetBlob), requests.count(Operation::GetEntity)), (1, 6));
    for found in &columbus {
        println!("  {}: {}", found.entity.state, found.entity.name);
    }
    let blob = account.container("airports").blob("airports/list_airport_by_city_Columbus");
    let text = blob.get().await?.ok_or("there is a list")?.bytes;
    assert!(text.ends_with(b"OH\tairport_OSU\nOH\tairport_TZR\n"));

    // An update takes the airport off one list and puts it on another.
    let lunken = || Airport::key("OH", "LUK");
    airports.update(lunken(), |airport| airport.city = "Columbus".into()).await?;
    assert_eq!(airports.list_keys(&Airport::by_city("Columbus")).await?.len(), 7);
    airports.update(lunken(), |airport| airport.city = "Cincinnati".into()).await?;

    // Another program writes past the store. A lookup returns nothing wrong, but lacks what was not
    // listed, until it is repaired. The sweep takes off what has another value.
    let mut bolton = account
        .table("airports")
        .get(rowkey::Key::<DynamicEntity>::new("OH", "airport_TZR"))
        .await?
        .ok_or("Bolton Field")?;
    bolton.entity.set("city", "Grove City");
    account.table("airports").replace(&bolton).await?;
    assert_eq!(airports.query(Airport::by_city("Columbus")).all().await?.len(), 5);
    assert_eq!(airports.repair().run().await?.parts["by_city"].repaired, 1);
    assert_eq!(airports.query(Airport::by_city("Grove City")).all().await?.len(), 1);
    assert_eq!(airports.sweep().run().await?.parts["by_city"].repaired, 1);
    println!("the list of Columbus has {} airports", 5);
    Ok(())
}
