//! Partition leases: one owner at a time, equal shares, few moves, late writes that are refused, and what a program
//! leaves wherever it stops.

mod clocks;
mod faults;
mod fences;
mod killed;
mod running;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use rowkey::edm::Value;
use rowkey::worker::partitions::{Owned, Partitions};
use rowkey::{DynamicEntity, Key, StorageAccount, Table};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::programs::{Programs, spawn};

const COUNT: u32 = 8;
/// By how much time is moved: a program that owns too few or too many looks that often.
const STEP: Duration = Duration::from_secs(5);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn partitions(account: &StorageAccount) -> Partitions {
    Partitions::new(account.container("locks"), "orders", COUNT)
}

async fn start() -> TestResult<Server> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    account.container("locks").create().await?;
    account.table("work").create().await?;
    Ok(server)
}

/// Who owns what, as the work sees it.
#[derive(Default)]
struct Log {
    /// The program, the token, and the ownership for each partition, the newest.
    owners: Mutex<BTreeMap<u32, (usize, Owned)>>,
    /// How often a partition got an owner.
    begun: AtomicUsize,
}

impl Log {
    fn begins(&self, program: usize, owned: &Owned) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut owners = self.owners.lock().unwrap();
        if let Some((_, before)) = owners.insert(owned.index(), (program, owned.clone())) {
            assert!(before.token() < owned.token(), "tokens grow");
            assert!(before.remaining().is_zero(), "two owners at the same time");
        }
    }

    /// How many partitions each program has.
    fn shares(&self, programs: usize) -> Vec<usize> {
        let owners = self.owners.lock().unwrap();
        let of = |program| {
            let all = owners.values();
            all.filter(|(owner, owned)| *owner == program && !owned.remaining().is_zero()).count()
        };
        (0..programs).map(of).collect()
    }
}

struct World {
    programs: Programs,
    log: Arc<Log>,
}

impl World {
    async fn start() -> TestResult<Self> {
        Ok(Self { programs: Programs::new(start().await?), log: Arc::default() })
    }

    /// Starts a program. Dates are a quarter of an hour apart.
    fn program(
        &self,
        program: usize,
        stop: &Arc<Notify>,
    ) -> rowkey::Result<JoinHandle<rowkey::Result<()>>> {
        let ahead = [-450, 450, 0][program % 3];
        self.program_ahead(program, TimeDelta::seconds(ahead), stop)
    }

    /// Starts a program whose date is so much ahead of the server's.
    fn program_ahead(
        &self,
        program: usize,
        ahead: TimeDelta,
        stop: &Arc<Notify>,
    ) -> rowkey::Result<JoinHandle<rowkey::Result<()>>> {
        let account = self.programs.account(ahead)?;
        let (log, table) = (Arc::clone(&self.log), account.table("work"));
        let work = move |owned: Owned| {
            let (log, table) = (Arc::clone(&log), table.clone());
            async move {
                log.begins(program, &owned);
                let key = format!("p{}", owned.index());
                let fence = owned.fence(&table, &key).await?;
                fence.submit(table.transaction().upsert(&row(&key, owned.token()))).await?;
                owned.stopping().await;
                Ok::<_, rowkey::Error>(())
            }
        };
        let (partitions, stop) = (partitions(&account), Arc::clone(stop));
        Ok(spawn(async move { partitions.run_until(work, stop.notified()).await }))
    }

    /// Steps until the condition holds; how many it took.
    async fn until(&self, condition: impl Fn(&Log) -> bool) -> usize {
        self.programs.rest().await;
        for step in 0..200 {
            if condition(&self.log) {
                return step;
            }
            self.programs.step(STEP).await;
        }
        panic!("it does not happen: {:?}", self.log.shares(4));
    }
}

/// The row that the owner of a partition writes.
fn row(key: &str, token: u64) -> DynamicEntity {
    let mut row = DynamicEntity::new(key, "row");
    row.set("By", i64::try_from(token).unwrap());
    row
}

async fn written(table: &Table, key: &str) -> rowkey::Result<Option<Value>> {
    let row = table.get(Key::<DynamicEntity>::new(key, "row")).await?;
    Ok(row.and_then(|row| row.entity.properties.get("By").cloned()))
}
