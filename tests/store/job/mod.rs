//! Jobs: pacing, resuming, and counts and rows after failed requests.

mod interrupted;
mod refused;
mod throttled;

use std::sync::Mutex;

use futures_util::stream;
use rowkey::patterns::job::{Attempt, Batch, Checkpoint, Interrupted, Job, Report, Verdict, Walk};
use rowkey::{DynamicEntity, Filter, Operator, Page, Result, StorageAccount, Table, Transaction};
use rowkey_emulator::{Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

const PARTITIONS: usize = 5;
const ROWS: usize = 7;

/// Rows of one partition, inserted or replaced by one transaction.
struct Rows {
    table: Table,
    rows: Vec<DynamicEntity>,
}

impl Batch for Rows {
    fn keys(&self) -> (&str, &str) {
        (&self.rows[0].partition_key, &self.rows[0].row_key)
    }

    fn entities(&self) -> u64 {
        self.rows.len() as u64
    }

    async fn store(&self, _: Attempt) -> Result<Report> {
        self.rows.iter().fold(self.table.transaction(), Transaction::upsert).submit().await?;
        Ok(Report::of(Verdict::Right, self.entities()))
    }
}

/// The same groups each time: two of each partition.
fn groups(table: &Table) -> Vec<Rows> {
    let halves = (0..2 * PARTITIONS).map(|half| {
        let rows = if half < PARTITIONS { 0..ROWS / 2 } else { ROWS / 2..ROWS };
        let partition = format!("p{}", half % PARTITIONS);
        let row = |row| DynamicEntity::new(&partition, format!("{row:02}"));
        Rows { table: table.clone(), rows: rows.map(row).collect() }
    });
    halves.collect()
}

/// How many rows all groups have.
const ALL: u64 = (PARTITIONS * ROWS) as u64;

/// How many of them are copied.
const COPIED: u64 = 2 * ROWS as u64;

/// A job that sends the same requests each time, and waits the same times.
async fn load_all(account: &StorageAccount, told: &Told) -> Result<Report, Interrupted> {
    let table = account.table("readings");
    let job = Job::load("import", &table, stream::iter(groups(&table)));
    let job = job.concurrency(1);
    let job = job.progress(|progress| told.tell(progress.checkpoint));
    match told.last() {
        Some(checkpoint) => job.resume(checkpoint).run().await,
        None => job.run().await,
    }
}

/// Counts all rows in three ranges, in pages of two, one after the other.
async fn count_all(account: &StorageAccount, told: &Told) -> Result<Report, Interrupted> {
    let walk =
        Walk::new(&account.table("readings"), |table| table.scan::<DynamicEntity>().page_size(2));
    let job = Job::count(walk.split_partitions(["p1", "p3"]));
    let job = job.concurrency(1);
    let job = job.progress(|progress| told.tell(progress.checkpoint));
    match told.last() {
        Some(checkpoint) => job.resume(checkpoint).run().await,
        None => job.run().await,
    }
}

/// Copies the rows of two partitions to another table, a page of two at a time: a step that sends
/// requests.
async fn copy_all(account: &StorageAccount, told: &Told) -> Result<Report, Interrupted> {
    let walk = Walk::new(&account.table("readings"), |table| {
        let two = Filter::dynamic("PartitionKey", Operator::Less, "p2");
        table.scan::<DynamicEntity>().filter(two).page_size(2)
    });
    let copies = account.table("copies");
    let copy = |page: Page<DynamicEntity>| {
        let copies = copies.clone();
        async move {
            let mut report = Report::default();
            for row in page.entities {
                copies.upsert(&row.entity).await?;
                report.note(None, Verdict::Missing, 1);
                report.repaired(None, 1);
            }
            Ok(report)
        }
    };
    let job = Job::walk("copy", walk.split_partitions(["p1"]), copy);
    let job = job.concurrency(1);
    let job = job.progress(|progress| told.tell(progress.checkpoint));
    match told.last() {
        Some(checkpoint) => job.resume(checkpoint).run().await,
        None => job.run().await,
    }
}

/// The checkpoints that a job reported, as a program would store them.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn tell(&self, checkpoint: &Checkpoint) {
        self.0.lock().unwrap().push(checkpoint.to_string());
    }

    fn last(&self) -> Option<Checkpoint> {
        self.0.lock().unwrap().last().map(|text| text.parse().unwrap())
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn forget(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// A server with an empty table.
async fn empty() -> TestResult<Server> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    account.table("readings").create().await?;
    account.table("copies").create().await?;
    Ok(server)
}

/// A server with all rows.
async fn full() -> TestResult<Server> {
    let server = empty().await?;
    load_all(&account(&server)?, &Told::default()).await?;
    Ok(server)
}

/// How many rows a table has.
fn rows(snapshot: &Snapshot, table: &str) -> u64 {
    snapshot.table(table).map_or(0, |table| table.len() as u64)
}
