//! Parallel queries: 3,376 airports, one partition per state. Twelve states are read concurrently, in three
//! orders; a reader stops in the middle and resumes; one table is read in parts.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use rowkey::patterns::parallel::{Checkpoint, Parallel, key_ranges};
use rowkey::{ClientOptions, Entity, Projection, RetryOptions, StorageAccount, Table, Transaction};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};

/// A row for each airport, in the partition of its state.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{state}", row = "{iata}")]
struct Airport {
    state: String,
    iata: String,
    name: String,
    latitude: f64,
}

/// The projection for names.
#[derive(Debug, Projection)]
struct Name {
    name: String,
}

const WEST: [&str; 12] = ["AK", "AZ", "CA", "CO", "HI", "ID", "MT", "NM", "NV", "OR", "UT", "WA"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let airports = account.table("airports");
    airports.create_if_missing().await?;
    fill(&airports).await?;

    // ANCHOR: order
    // Which is the northernmost of each state? Entities come as they arrive, four states at a time.
    let west = WEST.map(|state| airports.query(Airport::partition(state)));
    let mut found = Parallel::new(west).in_flight(4).stream();
    let mut northernmost: BTreeMap<&str, Airport> = BTreeMap::new();
    while let Some(found) = found.try_next().await? {
        let state = WEST[found.query];
        let airport = found.stored.entity;
        match northernmost.get(state) {
            Some(other) if other.latitude >= airport.latitude => {}
            _ => drop(northernmost.insert(state, airport)),
        }
    }
    assert_eq!(northernmost["AK"].name, "Wiley Post Will Rogers Memorial");
    println!("{:24} lies farthest north in Washington", northernmost["WA"].name);

    // One state after the other, names alone. After 20 there are enough; the rest is not read.
    let before = server.journal();
    let names = WEST.map(|state| airports.query(Airport::partition(state)).project::<Name>());
    let first = Parallel::new(names).in_given_order().in_flight(2).take(20).stream();
    let first: Vec<Name> = first.map_ok(|found| found.stored.entity).try_collect().await?;
    assert_eq!(first.len(), 20);
    assert!(server.journal().since(&before).count(Operation::QueryEntities) <= 2);
    println!("{:24} is the first of Alaska", first[0].name);

    // All of them by their code, as if the states were one partition. A page of each is in memory.
    let west = WEST.map(|state| airports.query(Airport::partition(state)).page_size(50));
    let by_code = Parallel::new(west).by_row_key().stream();
    let codes: Vec<String> = by_code.map_ok(|found| found.row_key).try_collect().await?;
    assert!(codes.is_sorted());
    println!(
        "{:24} airports of twelve states, from {} to {}",
        codes.len(),
        codes[0],
        codes[codes.len() - 1]
    );
    // ANCHOR_END: order

    // ANCHOR: resume
    // One request is refused, and this client repeats nothing. The other states go on, and the
    // checkpoint contains the missing part.
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    let options = ClientOptions { retry, ..account.options().clone() };
    let airports = account.with_options(options).table("airports");
    let west = || WEST.map(|state| airports.query(Airport::partition(state)).page_size(50));
    let busy = Fault::on(Operation::QueryEntities).nth(11).reject(ErrorCode::SERVER_BUSY);
    let _busy = server.inject(busy);
    let mut found = Parallel::new(west()).in_given_order().keep_going().stream();
    let mut rows = 0;
    loop {
        match found.try_next().await {
            Ok(Some(_)) => rows += 1,
            Ok(None) => break,
            Err(failure) => println!("{}: {failure}", WEST[failure.query]),
        }
    }
    let stored: String = found.checkpoint().to_string();
    // Later, in another process.
    let checkpoint: Checkpoint = stored.parse()?;
    let missing: Vec<_> = checkpoint.open().map(|query| WEST[query]).collect();
    assert_eq!(missing.len(), 1);
    let rest = Parallel::new(west()).resume(checkpoint).stream();
    let rest: Vec<_> = rest.try_collect().await?;
    assert_eq!(rows + rest.len(), codes.len());
    println!("{:24} rows, and {} more of {} later", rows, rest.len(), missing[0]);
    // ANCHOR_END: resume

    // ANCHOR: ranges
    // The whole table in four parts, each of about a quarter.
    let parts = key_ranges::<Airport>(&airports, ["FL", "MI", "OH"])?;
    let mut counts = [0; 4];
    let mut all = Parallel::new(parts).stream();
    while let Some(found) = all.try_next().await? {
        counts[found.query] += 1;
    }
    assert_eq!(counts.iter().sum::<u32>(), 3376);
    println!("{counts:?} airports in four parts of the table");
    // ANCHOR_END: ranges
    Ok(())
}

/// Stores the rows of a file, see `examples/data/README.md`.
async fn fill(airports: &Table) -> Result<(), Box<dyn std::error::Error>> {
    let mut partitions: BTreeMap<String, Vec<Airport>> = BTreeMap::new();
    for row in csv::Reader::from_reader(&include_bytes!("../data/airports.csv")[..]).records() {
        let row = row?;
        let airport = Airport {
            state: row[3].into(),
            iata: row[0].into(),
            name: row[1].into(),
            latitude: row[5].parse()?,
        };
        partitions.entry(airport.state.clone()).or_default().push(airport);
    }
    for airports_of_state in partitions.values().flat_map(|of_state| of_state.chunks(100)) {
        let rows = airports_of_state.iter().fold(airports.transaction(), Transaction::insert);
        rows.submit().await?;
    }
    Ok(())
}
