//! A join in the client: 3,376 airports with the names of their states. The table of states is small, so it
//! is read once and served from memory until its time to live has passed.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::patterns::lookup::Lookup;
use rowkey::{Entity, StorageAccount, Table, Transaction};
use rowkey_emulator::{Operation, Server};

/// A row for each airport, in the partition of its state.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{state}", row = "{iata}")]
struct Airport {
    state: String,
    iata: String,
    name: String,
}

/// The reference table: one partition of 56 rows that hardly ever change.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "states", row = "{code}")]
struct State {
    code: String,
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let (airports, reference) = (account.table("airports"), account.table("reference"));
    airports.create_if_missing().await?;
    reference.create_if_missing().await?;
    fill(&airports, &reference).await?;

    // ANCHOR: program
    // One for the whole program; clones share the loaded entities.
    let states = Lookup::of_partition(&reference, State::partition(), Duration::from_secs(3600))
        .stale_if_error(Duration::from_secs(24 * 3600))
        .limit(1000);

    // Single lookups: one request in an hour, however many there are.
    let washington = states.get(&State::key("WA")).await?.ok_or("it is a state")?;
    assert_eq!(washington.name, "Washington");
    assert!(states.get(&State::key("XX")).await?.is_none(), "known to be absent, too");

    // A join: each airport with its state, while the airports are read page by page.
    let all = airports.scan::<Airport>().stream();
    let mut joined = states.join(all, |airport| State::key(&airport.entity.state));
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut abroad = Vec::new();
    while let Some((airport, state)) = joined.try_next().await? {
        match state {
            Some(state) => *counts.entry(state.name.clone()).or_default() += 1,
            None => abroad.push(airport.entity.name),
        }
    }
    // ANCHOR_END: program
    assert_eq!(counts["Washington"], 65);
    assert_eq!(counts["Alaska"], 263);
    assert_eq!(abroad.len(), 12, "their state is given as NA");

    let queries = server.journal().count(Operation::QueryEntities);
    println!(
        "{} airports in {} states, {queries} queries",
        counts.values().sum::<u32>(),
        counts.len()
    );
    println!("and {} in none, such as {}", abroad.len(), abroad[0]);
    Ok(())
}

/// Stores the rows of two files, see `examples/data/README.md`.
async fn fill(airports: &Table, reference: &Table) -> Result<(), Box<dyn std::error::Error>> {
    let mut partitions: BTreeMap<String, Vec<Airport>> = BTreeMap::new();
    for row in csv::Reader::from_reader(&include_bytes!("../data/airports.csv")[..]).records() {
        let row = row?;
        let airport = Airport { state: row[3].into(), iata: row[0].into(), name: row[1].into() };
        partitions.entry(airport.state.clone()).or_default().push(airport);
    }
    for airport in partitions.values().flat_map(|airports| airports.chunks(100)) {
        let transaction = airport.iter().fold(airports.transaction(), Transaction::insert);
        transaction.submit().await?;
    }
    let mut transaction = reference.transaction();
    for row in csv::Reader::from_reader(&include_bytes!("../data/us-states.csv")[..]).records() {
        let row = row?;
        transaction = transaction.insert(&State { code: row[0].into(), name: row[1].into() });
    }
    transaction.submit().await?;
    Ok(())
}
