//! Index entities: for each state a list of its airports, in the partition of the airports.
//!
//! A table finds entities only by their keys. Airports are stored by code; to find those of a state without
//! reading all, a row for each state lists their codes. The list stays correct because it is changed in the
//! same transaction as the airports that it names.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::path::Path;

use rowkey::store::Store;
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::{Operation, Server};

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{country}", row = "iata_{iata}")]
#[entity(list(name = by_state, value = "{state}"))]
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
    // The lists have the RowKeys list_iata_by_state_HI, list_iata_by_state_NJ, ..
    let airports = Store::<Airport>::builder(account.table("airports")).build()?;
    airports.create_if_missing().await?;

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
    let hawaii = airports.query(Airport::by_state("USA", "HI")).all().await?;
    assert_eq!(hawaii.len(), 16);
    assert!(hawaii.iter().all(|found| found.entity.state == "HI"));
    let requests = server.journal().since(&before);
    assert_eq!(requests.count(Operation::GetEntity), 1 + 16, "the list, and each airport");
    // ANCHOR_END: read
    println!("Hawaii has {} airports, {} is one of them", hawaii.len(), hawaii[0].entity.name);

    // ANCHOR: change
    // A change of the value touches three entities: the airport and the lists of both states.
    let newark = Airport::key("USA", "EWR");
    airports.update(newark.clone(), |airport| airport.state = "CT".into()).await?;
    let keys = airports.list_keys(&Airport::by_state("USA", "CT")).await?;
    assert!(keys.contains(&newark));
    let keys = airports.list_keys(&Airport::by_state("USA", "NJ")).await?;
    assert!(!keys.contains(&newark));

    assert!(airports.delete(newark.clone()).await?);
    let keys = airports.list_keys(&Airport::by_state("USA", "CT")).await?;
    assert!(!keys.contains(&newark));
    // ANCHOR_END: change

    // The row of the list of a small state.
    let snapshot = server.snapshot();
    let table = snapshot.table("airports").ok_or("no table")?;
    let list = table.entity("USA", "list_iata_by_state_RI").ok_or("no list")?;
    let codes = "BID/OQU/PVD/SFZ/UUU/WST";
    assert_eq!(list.get("Keys"), Some(codes.into()));
    println!("Rhode Island's list is {codes}");
    Ok(())
}
