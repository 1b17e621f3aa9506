//! One client under one workload: the body of a process.

use std::cell::Cell;
use std::error::Error;
use std::io;
use std::rc::Rc;

use crate::model::Reading;
use crate::process::cpu;
use crate::requests::PER_PARTITION;

use super::by_hand::Hand;
use super::{old, ours, over_hyper, over_reqwest};

/// An error ends the measurement.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Operations in flight.
const IN_FLIGHT: usize = 16;

/// The table that everybody reads; its first partition is a page of 1,000.
pub const TABLE: &str = "small";
/// The table that everybody writes to.
pub const WRITTEN: &str = "written";

/// A client, as a program with typed entities uses it.
#[expect(async_fn_in_trait, reason = "one thread")]
pub trait Client {
    /// Reads an entity; whether it was there.
    async fn get(&self, partition: &str, row: &str) -> Result<bool>;
    async fn insert(&self, reading: &Reading) -> Result<()>;
    /// Inserts all in one transaction; the number of answers.
    async fn transact(&self, readings: &[Reading]) -> Result<usize>;
    /// Reads a partition entity by entity; how many there were.
    async fn query(&self, partition: &str) -> Result<usize>;
}

/// What one process measured.
#[derive(Debug)]
pub struct Measured {
    pub nanoseconds: u128,
    pub allocations: usize,
}

/// Runs `operations` operations; `allocations` counts from some beginning on.
pub fn run(
    client: &str,
    workload: &str,
    operations: usize,
    host: &str,
    allocations: fn() -> usize,
) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        match client {
            "rowkey" => all(ours::Ours::new(host)?, workload, operations, allocations).await,
            "reqwest" => {
                let client = over_reqwest::OverReqwest::new(Hand::new(host))?;
                all(client, workload, operations, allocations).await
            }
            "hyper-util" => {
                let client = over_hyper::OverHyper::new(Hand::new(host));
                all(client, workload, operations, allocations).await
            }
            "azure_data_tables" => {
                all(old::Old::new(host, false)?, workload, operations, allocations).await
            }
            "azure_data_tables-pooled" => {
                all(old::Old::new(host, true)?, workload, operations, allocations).await
            }
            _ => Err("no such client".into()),
        }
    })
}

async fn all<C: Client + 'static>(
    client: C,
    workload: &str,
    operations: usize,
    allocations: fn() -> usize,
) -> Result<Measured> {
    let readings = (0..100).map(|number| Reading::numbered(number, PER_PARTITION)).collect();
    let shared = Rc::new(Shared { client, readings, workload: workload.to_owned() });
    // Connections, caches and pages of memory come first.
    some(&shared, operations / 10 + 2 * IN_FLIGHT).await?;
    let (time, count) = (cpu("self")?, allocations());
    some(&shared, operations).await?;
    let (time, count) = (cpu("self")?.saturating_sub(time), allocations() - count);
    Ok(Measured { nanoseconds: time.as_nanos(), allocations: count })
}

struct Shared<C> {
    client: C,
    readings: Vec<Reading>,
    workload: String,
}

async fn some<C: Client + 'static>(shared: &Rc<Shared<C>>, operations: usize) -> Result<()> {
    let next = Rc::new(Cell::new(0));
    let tasks: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (shared, next) = (Rc::clone(shared), Rc::clone(&next));
            tokio::task::spawn_local(async move {
                loop {
                    let number = next.replace(next.get() + 1);
                    if number >= operations {
                        return Ok(());
                    }
                    one(&shared, number).await.map_err(|error| error.to_string())?;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await?.map_err(|error: String| io::Error::other(error))?;
    }
    Ok(())
}

async fn one<C: Client>(shared: &Shared<C>, number: usize) -> Result<()> {
    let Shared { client, readings, workload } = shared;
    let reading = &readings[number % readings.len()];
    let whole = match &**workload {
        "get" => client.get(&reading.partition, &reading.row).await?,
        "insert" => client.insert(reading).await.map(|()| true)?,
        "EGT" => client.transact(readings).await? == readings.len(),
        "query" => client.query(&reading.partition).await? == PER_PARTITION,
        _ => false,
    };
    if whole { Ok(()) } else { Err("an answer is not what was asked for".into()) }
}
