//! Bulk writing: 3,376 airports into a table, once in the order of each state, once in the face of
//! entities that are there already, and one state as a whole or not at all.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::error::Error;
use std::path::Path;

use futures_util::stream;
use rowkey::{Entity, ErrorKind, Outcome, StorageAccount};
use rowkey_patterns::bulk::{Atomic, BestEffort, Bulk, PerPartitionOrdered};
use rowkey_server::{Operation, Server};

/// An airport: a partition a state, a row a code.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{state}", row = "{iata}")]
struct Airport {
    state: String,
    iata: String,
    name: String,
    city: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("airports");
    table.create().await?;
    let airports = read()?;

    // The file is sorted by code, so its states alternate: as many of them as there are, 57, are
    // packed at the same time. What is read is not kept: this works for files of any size.
    let report = Bulk::new(table.clone(), PerPartitionOrdered)
        .open_partitions(60)
        .on_progress(|progress| assert!(progress.written <= progress.read))
        .upsert(stream::iter(airports.clone()))
        .await;
    assert!(report.is_complete(), "{report:?}");
    let sent = server.journal().count(Operation::Transaction);
    println!("{} airports in {sent} transactions", report.progress.written);
    assert_eq!((report.progress.written, report.progress.transactions), (3376, sent as u64));

    // Three airports were renamed by somebody, and must stay as they are: the others are inserted,
    // and those three are refused, one by one, and named by their positions and keys.
    let corrected = account.table("corrected");
    corrected.create().await?;
    let alaska = airports.iter().filter(|airport| airport.state == "AK").cloned();
    let three = alaska.clone().filter(|airport| ["JNU", "SIT", "YAK"].contains(&&*airport.iata));
    let three = three.map(|airport| Airport { name: format!("{}!", airport.name), ..airport });
    Bulk::new(corrected.clone(), Atomic).insert(stream::iter(three)).await?;

    let report = Bulk::new(corrected, BestEffort).insert(stream::iter(alaska.clone())).await;
    println!("{} inserted, {} were there", report.progress.written, report.progress.failed);
    assert_eq!((report.progress.written, report.progress.failed), (260, 3));
    for failure in &report.failures {
        assert_eq!(failure.error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(failure.entities.len(), 1);
    }

    // Alaska has 263 airports, which do not fit into one transaction. Nothing is sent.
    let error = Bulk::new(table.clone(), Atomic)
        .upsert(stream::iter(alaska))
        .await
        .err()
        .ok_or("they do not fit")?;
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    println!("as one: {error}");

    // Delaware has five. Whoever reads them meets all of the new names or none.
    let delaware = airports.into_iter().filter(|airport| airport.state == "DE");
    let renamed = delaware.map(|airport| Airport { name: airport.name.to_uppercase(), ..airport });
    let etags = Bulk::new(table, Atomic).upsert(stream::iter(renamed)).await?;
    println!("{} renamed together", etags.len());
    assert_eq!(etags.len(), 5);
    Ok(())
}

fn read() -> Result<Vec<Airport>, csv::Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/airports.csv");
    let mut airports = Vec::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (iata, name, city, state): (String, String, String, String) = record?;
        airports.push(Airport { state, iata, name, city });
    }
    Ok(airports)
}
