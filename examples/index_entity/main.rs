//! Index entities: for each state a list of the airports there, in the partition of the airports.
//!
//! A table finds entities by their keys alone. Airports are stored by code; to find those of a state
//! without reading all, a row for each state lists their codes. What keeps such a list right is that
//! it is changed in the same transaction as the airport it names.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::path::Path;

use rowkey::{Entity, StorageAccount};
use rowkey_patterns::index_entity::IndexEntity;
use rowkey_server::{Operation, Server};

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{country}", row = "iata_{iata}")]
struct Airport {
    country: String,
    iata: String,
    name: String,
    state: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    account.table("airports").create().await?;
    // The lists have the RowKeys state_HI_0000, state_NJ_0000, ..
    let airports = IndexEntity::new(account.table("airports"), "state", |airport: &Airport| {
        Some(airport.state.clone())
    });

    // ANCHOR: write
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/airports.csv");
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (iata, name, _city, state, country): (_, _, String, String, _) = record?;
        if ["CT", "HI", "NJ", "RI"].contains(&state.as_str()) {
            // One read of the list, one transaction: both are stored, or neither.
            airports.insert(&Airport { country, iata, name, state }).await?;
        }
    }
    // ANCHOR_END: write

    // ANCHOR: read
    let before = server.journal();
    let hawaii = airports.find(Airport::partition("USA"), "HI").await?;
    assert_eq!(hawaii.len(), 16);
    assert!(hawaii.iter().all(|found| found.entity.state == "HI"));
    let requests = server.journal().since(&before);
    assert_eq!(requests.count(Operation::QueryEntities), 1, "the list");
    assert_eq!(requests.count(Operation::GetEntity), 16, "each airport, several at a time");
    // ANCHOR_END: read
    println!("Hawaii has {} airports, {} is one of them", hawaii.len(), hawaii[0].entity.name);

    // ANCHOR: change
    // A change of the value touches three entities: the airport and the lists of both states.
    let newark = Airport::key("USA", "EWR");
    airports.update(newark.clone(), |airport| airport.state = "CT".into()).await?;
    let keys = airports.keys(Airport::partition("USA"), "CT").await?;
    assert!(keys.contains(&newark));
    let keys = airports.keys(Airport::partition("USA"), "NJ").await?;
    assert!(!keys.contains(&newark));

    assert!(airports.delete(newark.clone()).await?);
    let keys = airports.keys(Airport::partition("USA"), "CT").await?;
    assert!(!keys.contains(&newark));
    // ANCHOR_END: change

    // What the list of a small state looks like.
    let snapshot = server.snapshot();
    let table = snapshot.table("airports").ok_or("no table")?;
    let list = table.entity("USA", "state_RI_0000").ok_or("no list")?;
    let codes = "BID/OQU/PVD/SFZ/UUU/WST";
    assert_eq!(list.get("Keys0"), Some(codes.into()));
    println!("Rhode Island's list is {codes}");
    Ok(())
}
