//! A tour of the client on real input: 3,376 airports in a table.
//!
//! `cargo run --example tour` uses its own server; with `AZURE_STORAGE_CONNECTION_STRING` set, it runs
//! against that account instead. It creates a table, and deletes it at the end.

#![expect(clippy::print_stdout, reason = "the tour is what it prints")]

mod airport;

use std::collections::BTreeMap;
use std::error::Error;

use futures_util::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use rowkey::{
    Continuation, Cost, ErrorCode, Match, Outcome, ScanPolicy, StorageAccount, Table, Transaction,
};
use rowkey_emulator::Server;
use tokio::time::Instant;

use crate::airport::{Airport, Place};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result {
    // The server runs until this variable is dropped.
    let (account, _server) = connect().await?;
    let table = account.table(&format!("tour{}", std::process::id()));
    table.create_if_missing().await?;

    let states = airport::read()?;
    load(&table, &states).await?;
    let result = show(&account, &table, &states).await;
    table.delete_table().await?;
    result
}

async fn connect() -> Result<(StorageAccount, Option<Server>)> {
    if std::env::var_os("AZURE_STORAGE_CONNECTION_STRING").is_some() {
        return Ok((StorageAccount::from_env()?, None));
    }
    let server = Server::start().await?;
    Ok((StorageAccount::from_connection_string(server.connection_string())?, Some(server)))
}

async fn show(
    account: &StorageAccount,
    table: &Table,
    states: &BTreeMap<String, Vec<Airport>>,
) -> Result {
    point_query(table).await?;
    range_query(table, states).await?;
    filter(table, states).await?;
    projection(table, states).await?;
    paging(account, table, states).await?;
    conflict(table).await?;
    failing_transaction(table).await
}

/// Entity group transactions: 100 airports each, one state at a time, eight concurrently.
async fn load(table: &Table, states: &BTreeMap<String, Vec<Airport>>) -> Result {
    let total = states.values().map(Vec::len).sum::<usize>();
    let bar = ProgressBar::new(total as u64)
        .with_style(ProgressStyle::with_template("loading {wide_bar} {pos}/{len} {per_sec}")?);
    let started = Instant::now();
    let batches = states.values().flat_map(|airports| airports.chunks(100)).map(|batch| {
        let bar = &bar;
        async move {
            let transaction = batch.iter().fold(table.transaction(), Transaction::insert);
            let etags = transaction.submit().await?;
            bar.inc(etags.len() as u64);
            Ok::<_, rowkey::Error>(etags.len())
        }
    });
    let sizes: Vec<usize> = stream::iter(batches).buffer_unordered(8).try_collect().await?;
    bar.finish_and_clear();
    assert_eq!(sizes.iter().sum::<usize>(), total);
    println!(
        "loaded      {total} airports in {} states by {} transactions, {}",
        states.len(),
        sizes.len(),
        since(started)
    );
    Ok(())
}

async fn point_query(table: &Table) -> Result {
    let started = Instant::now();
    let seattle = table.get(Airport::key("WA", "SEA")).await?.ok_or("SEA is missing")?;
    assert_eq!(seattle.entity.city, "Seattle");
    println!("point query WA/SEA is {}, {}", seattle.entity.name, since(started));
    assert!(table.get(Airport::key("WA", "no such")).await?.is_none());
    Ok(())
}

async fn range_query(table: &Table, states: &BTreeMap<String, Vec<Airport>>) -> Result {
    let rows = Airport::key("WA", "S")..Airport::key("WA", "T");
    let query = table.query(Airport::partition("WA").range(rows));
    let cost = query.cost()?;
    assert_eq!(cost, Cost::RangeQuery);
    let started = Instant::now();
    let found = query.all().await?;
    let expected = states["WA"].iter().filter(|a| a.iata.starts_with('S')).count();
    assert_eq!(found.len(), expected);
    println!("{cost} WA/S to WA/T: {} airports, {}", found.len(), since(started));
    Ok(())
}

async fn filter(table: &Table, states: &BTreeMap<String, Vec<Airport>>) -> Result {
    let query = table
        .query(Airport::partition("AK"))
        .filter(Airport::LATITUDE.gt(66.56).and(Airport::NAME.ne("Barrow")));
    let cost = query.cost()?;
    assert_eq!(cost, Cost::PartitionScan);
    let explanation = query.explain()?;
    let started = Instant::now();
    let north = query.all().await?;
    let is_north = |a: &&Airport| a.latitude > 66.56 && a.name != "Barrow";
    assert_eq!(north.len(), states["AK"].iter().filter(is_north).count());
    println!("filter      {} north of the polar circle, {}", north.len(), since(started));
    println!("            a {cost}: {}", explanation.requests[0].filter.as_deref().unwrap_or(""));
    Ok(())
}

async fn projection(table: &Table, states: &BTreeMap<String, Vec<Airport>>) -> Result {
    // A query without a partition is a table scan. A policy can refuse scans; here a scan is intended.
    let scan = table.scan::<Airport>().scan_policy(ScanPolicy::Deny).all().await;
    assert!(scan.is_err_and(|error| error.outcome() == Outcome::NotSent));

    let started = Instant::now();
    let mut places =
        table.scan::<Airport>().scan_policy(ScanPolicy::Allow).project::<Place>().stream();
    let (mut count, mut same) = (0, 0);
    while let Some(place) = places.try_next().await? {
        count += 1;
        same += usize::from(place.entity.name == place.entity.city);
    }
    assert_eq!(count, states.values().map(Vec::len).sum::<usize>());
    println!(
        "projection  name and city of all {count}, {same} are named like their city, {}",
        since(started)
    );
    Ok(())
}

async fn paging(
    account: &StorageAccount,
    table: &Table,
    states: &BTreeMap<String, Vec<Airport>>,
) -> Result {
    let query = || table.query(Airport::partition("TX")).page_size(75);
    let mut pages = query().pages();
    let first = pages.try_next().await?.ok_or("no page")?;
    drop(pages);

    // The token is text, so it can outlive this process.
    let file = std::env::temp_dir().join(format!("{}.token", table.name()));
    let token = first.continuation.ok_or("one page is all")?;
    std::fs::write(&file, token.to_string())?;

    let saved: Continuation = std::fs::read_to_string(&file)?.parse()?;
    std::fs::remove_file(&file)?;
    let again = account.table(table.name());
    let rest = again.query(Airport::partition("TX")).page_size(75).resume(saved).all().await?;
    assert_eq!(first.entities.len() + rest.len(), states["TX"].len());
    println!(
        "paging      {} of Texas, token saved, {} more after it was read back",
        first.entities.len(),
        rest.len()
    );
    Ok(())
}

async fn conflict(table: &Table) -> Result {
    let key = || Airport::key("WA", "SEA");
    let mine = table.get(key()).await?.ok_or("SEA is missing")?;
    let theirs = mine.clone();
    table.replace(&theirs.map(|a| a.visits = Some(1))).await?;

    let refused = table.replace(&mine.map(|a| a.visits = Some(1))).await;
    let error = refused.expect_err("the ETag is stale");
    assert!(error.kind() == rowkey::ErrorKind::Conflict);
    println!("conflict    {error}");

    // The loop that reads, decides and retries on a conflict is built in.
    let now = table.update(key(), |a| a.visits = Some(a.visits.unwrap_or(0) + 1)).await?;
    assert_eq!(now.entity.visits, Some(2));
    println!("            update: both visits counted, {:?}", now.entity.visits.unwrap_or(0));
    Ok(())
}

async fn failing_transaction(table: &Table) -> Result {
    let airport = |iata: &str| Airport {
        state: "WA".into(),
        iata: iata.into(),
        name: "New".into(),
        city: "Nowhere".into(),
        country: "USA".into(),
        latitude: 47.0,
        longitude: -122.0,
        visits: None,
    };
    let error = table
        .transaction()
        .insert(&airport("_N1"))
        .insert(&airport("_N2"))
        .insert(&airport("SEA"))
        .delete(Airport::key("WA", "_N9"), Match::Any)
        .submit()
        .await
        .expect_err("SEA exists");
    assert_eq!(error.details().operation_index, Some(2));
    assert_eq!(error.code(), Some(&ErrorCode::ENTITY_ALREADY_EXISTS));
    assert!(table.get(Airport::key("WA", "_N1")).await?.is_none(), "the transaction had no effect");
    println!("transaction {error}");
    Ok(())
}

fn since(started: Instant) -> String {
    format!("{:.1} ms", started.elapsed().as_secs_f64() * 1000.0)
}
