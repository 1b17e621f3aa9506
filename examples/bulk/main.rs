//! Bulk writing: 3,376 airports into a table, then into a table that already has three of them, and one state
//! in a single transaction.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::error::Error;
use std::path::Path;

use futures_util::stream;
use rowkey::pace::Pace;
use rowkey::patterns::job::Job;
use rowkey::{Entity, ErrorKind, Outcome, StorageAccount, Transaction};
use rowkey_emulator::{Operation, Server};

/// An airport: one partition per state, one row per code.
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

    // The file is sorted by code, so its 57 states alternate; up to 64 partitions are packed at a time.
    // Rows are streamed, so this works for files of any size. All jobs of a program share a pace.
    let pace = Pace::background().entities_per_second(100_000);
    let report = Job::upsert(&table, stream::iter(airports.clone()))
        .pace(pace.clone())
        .progress(|progress| assert!(progress.report().total.right <= 3376))
        .run()
        .await?;
    let sent = server.journal().count(Operation::Transaction);
    println!("{} airports in {sent} transactions", report.total.right);
    assert_eq!((report.total.right, report.is_clean()), (3376, true));

    // Another program renamed three airports, and these must stay as they are: the others are inserted, and
    // these three are refused and reported with their keys.
    let corrected = account.table("corrected");
    corrected.create().await?;
    let alaska: Vec<_> = airports.iter().filter(|airport| airport.state == "AK").cloned().collect();
    let three = alaska.iter().filter(|airport| ["JNU", "SIT", "YAK"].contains(&&*airport.iata));
    for airport in three {
        let name = format!("{}!", airport.name);
        corrected.insert(&Airport { name, ..airport.clone() }).await?;
    }
    let load = || Job::insert(&corrected, stream::iter(alaska.clone())).pace(pace.clone());
    let report = load().run().await?;
    println!("{} inserted, {} refused", report.total.right, report.total.failed);
    assert_eq!((report.total.right, report.total.failed), (260, 3));
    let refused: Vec<_> = report.problems.iter().map(|problem| &*problem.row_key).collect();
    assert_eq!(refused, ["JNU", "SIT", "YAK"]);

    // A load can be repeated: unchanged entities count as right.
    assert_eq!(load().run().await?.total, report.total);

    // What has to be all or nothing is a transaction of the client, and not a job. Alaska has 263
    // airports, which do not fit into one. Nothing is sent.
    let all = |airports: &[Airport]| airports.iter().fold(table.transaction(), Transaction::upsert);
    let error = all(&alaska).submit().await.err().ok_or("they do not fit")?;
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    println!("as one: {error}");

    // Delaware has five. A reader sees all of the new names or none.
    let delaware = airports.into_iter().filter(|airport| airport.state == "DE");
    let renamed = delaware.map(|airport| Airport { name: airport.name.to_uppercase(), ..airport });
    let etags = all(&renamed.collect::<Vec<_>>()).submit().await?;
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
