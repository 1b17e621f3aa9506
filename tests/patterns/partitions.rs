//! Partition leases: one owner at a time, equal shares, few moves, late writes that are refused, and what a program
//! leaves wherever it stops.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use chrono::TimeDelta;
use rowkey::edm::Value;
use rowkey::{DynamicEntity, ErrorKind, Key, ManualClock, Match, StorageAccount, Table};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_large::LeaseLock;
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{self, once, stopped_at_every_request};
use rowkey_worker::partitions::{Fence, Owned, Partitions};
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

async fn start() -> Result<Server, Box<dyn std::error::Error>> {
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
    async fn start() -> Result<Self, Box<dyn std::error::Error>> {
        Ok(Self { programs: Programs::new(start().await?), log: Arc::default() })
    }

    /// Starts a program. Dates are a quarter of an hour apart.
    fn program(
        &self,
        program: usize,
        stop: &Arc<Notify>,
    ) -> rowkey::Result<JoinHandle<rowkey::Result<()>>> {
        let ahead = [-450, 450, 0][program % 3];
        let account = self.programs.account(TimeDelta::seconds(ahead))?;
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

#[tokio::test]
async fn programs_that_come_and_go_share_the_partitions_with_few_moves() -> TestResult {
    let world = World::start().await?;
    let stop: Vec<Arc<Notify>> = (0..4).map(|_| Arc::default()).collect();
    let mut programs = vec![world.program(0, &stop[0])?];
    world.until(|log| log.shares(1) == [8]).await;
    programs.push(world.program(1, &stop[1])?);
    world.until(|log| log.shares(2) == [4, 4]).await;
    assert_eq!(world.log.begun.load(Ordering::SeqCst), 8 + 4, "only what the newcomer has moves");
    programs.push(world.program(2, &stop[2])?);
    let steps = world.until(|log| log.shares(3) == [3, 3, 2]).await;
    assert!(steps <= 10, "{steps} steps");
    assert_eq!(world.log.begun.load(Ordering::SeqCst), 12 + 2);

    // One is killed. Its leases last for a term.
    programs[1].abort();
    let steps = world.until(|log| log.shares(3) == [4, 0, 4]).await;
    assert!(steps >= 8, "no partition is taken before the lease has ended: {steps}");
    assert!(steps <= 60 / 5 + 5, "a term and a look later, not {steps} steps");
    assert_eq!(world.log.begun.load(Ordering::SeqCst), 14 + 3);

    // One stops. What it had is free at once.
    stop[0].notify_one();
    let steps = world.until(|log| log.shares(3) == [0, 0, 8]).await;
    assert!(steps <= 5, "{steps} steps");
    assert!(programs.remove(0).await?.is_ok());
    stop[2].notify_one();
    world.programs.rest().await;
    assert!(programs.remove(1).await?.is_ok());
    let left = sweep::account(&world.programs.server)?.container("locks").blobs().all().await?;
    let names: Vec<_> = left.into_iter().map(|blob| blob.name).collect();
    let members = names.iter().filter(|name| name.contains("members")).count();
    assert_eq!(members, 0, "programs that have ended leave no blob: {names:?}");
    assert_eq!(names.len(), 8);
    Ok(())
}

#[tokio::test]
async fn requests_are_those_of_the_page() -> TestResult {
    let world = World::start().await?;
    let account = world.programs.account(TimeDelta::zero())?;
    let begun = Arc::new(AtomicUsize::new(0));
    let run = |stop: &Arc<Notify>| {
        let (begun, stop) = (Arc::clone(&begun), Arc::clone(stop));
        let partitions = partitions(&account);
        let work = move |owned: Owned| {
            begun.fetch_add(1, Ordering::SeqCst);
            async move {
                owned.stopping().await;
                Ok::<_, rowkey::Error>(())
            }
        };
        spawn(async move { partitions.run_until(work, stop.notified()).await })
    };
    let journal = || world.programs.server.journal();
    let mut before = journal();
    for (round, acquiring) in [5, 3].into_iter().enumerate() {
        let stop = Arc::default();
        let program = run(&stop);
        world.until(|_| begun.load(Ordering::SeqCst) == 8 * (round + 1)).await;
        let sent = journal().since(&before);
        // A look, the program's own lease, which is always new, and the partitions.
        assert_eq!(sent.len(), 1 + 5 + 8 * acquiring, "{round}");
        // From the first look after that on, every 20 seconds.
        world.programs.step(STEP).await;
        before = journal();
        for _ in 0..60 {
            world.programs.step(STEP * 4).await;
        }
        let sent = journal().since(&before);
        let (looks, renewals) =
            (sent.count(Operation::ListBlobs), sent.count(Operation::LeaseBlob));
        assert!((59..=60).contains(&looks), "one each 20 seconds: {looks}");
        assert!((60 * 9 - 9..=60 * 9).contains(&renewals), "one of each lease: {renewals}");
        assert_eq!(looks + renewals, sent.len());
        before = journal();
        stop.notify_one();
        world.programs.rest().await;
        assert!(program.await?.is_ok());
        assert_eq!(
            journal().since(&before).len(),
            8 + 2,
            "released, and the program's blob deleted"
        );
        before = journal();
    }
    Ok(())
}

/// The program's machine is suspended: its clock stands, as does everything in it.
#[tokio::test]
async fn a_late_write_of_a_former_owner_is_refused() -> TestResult {
    let world = World::start().await?;
    let table = sweep::account(&world.programs.server)?.table("work");
    let suspended = ManualClock::new(world.programs.server.clock().now().to_chrono());
    let first = world.programs.account_on(suspended.clone())?;
    let kept: Arc<Mutex<Option<(Fence, Owned)>>> = Arc::default();
    let (keeps, first_table) = (Arc::clone(&kept), first.table("work"));
    let work = move |owned: Owned| {
        let (keeps, table) = (Arc::clone(&keeps), first_table.clone());
        async move {
            let fence = owned.fence(&table, "p0").await?;
            fence.submit(table.transaction().insert(&row("p0", owned.token()))).await?;
            *keeps.lock().unwrap() = Some((fence, owned));
            pending::<rowkey::Result<()>>().await
        }
    };
    let one = |account: &StorageAccount| Partitions::new(account.container("locks"), "one", 1);
    let partitions = one(&first);
    let program = spawn(async move { partitions.run_until(work, pending()).await });
    while kept.lock().unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let (late, owned) = kept.lock().unwrap().take().unwrap();

    let second = world.programs.account(TimeDelta::zero())?;
    let (of_second, has_written) = (second.table("work"), Arc::new(AtomicBool::new(false)));
    let writes = Arc::clone(&has_written);
    let partitions = one(&second);
    let other = spawn(async move {
        let work = move |owned: Owned| {
            let (table, writes) = (of_second.clone(), Arc::clone(&writes));
            async move {
                let fence = owned.fence(&table, "p0").await?;
                fence.submit(table.transaction().upsert(&row("p0", owned.token()))).await?;
                writes.store(true, Ordering::SeqCst);
                owned.stopping().await;
                Ok::<_, rowkey::Error>(())
            }
        };
        partitions.run_until(work, pending()).await
    });
    world.until(|_| has_written.load(Ordering::SeqCst)).await;
    assert!(
        !owned.remaining().is_zero() && !owned.is_stopping(),
        "by its own clock it is the owner"
    );
    let refused = late.submit(first.table("work").transaction().upsert(&row("p0", 1))).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Leased);
    let refused = owned.fence(&first.table("work"), "p0").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Leased);
    assert_eq!(written(&table, "p0").await?, Some(Value::Int64(2)));

    // It wakes up, and its work is dropped.
    suspended.advance(seconds(60));
    while !owned.is_stopping() {
        tokio::task::yield_now().await;
    }
    assert!(owned.remaining().is_zero());
    program.abort();
    other.abort();
    Ok(())
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn work_of_a_lost_partition_is_dropped_and_begins_again_under_another_token() -> TestResult {
    let world = World::start().await?;
    let account = world.programs.account(TimeDelta::zero())?;
    let dropped = Arc::new(AtomicUsize::new(0));
    let tokens: Arc<Mutex<Vec<u64>>> = Arc::default();
    let (drops, sees) = (Arc::clone(&dropped), Arc::clone(&tokens));
    let work = move |owned: Owned| {
        let (drops, sees) = (Dropped(Arc::clone(&drops)), Arc::clone(&sees));
        async move {
            let _drops = drops;
            sees.lock().unwrap().push(owned.token());
            pending::<rowkey::Result<()>>().await
        }
    };
    let partitions = Partitions::new(account.container("locks"), "one", 1);
    let program = spawn(async move { partitions.run_until(work, pending()).await });
    world.until(|_| tokens.lock().unwrap().len() == 1).await;
    account.container("locks").blob("one/0").break_lease(Duration::ZERO).await?;
    // The next renewal is 20 seconds later, and the next look no more than that.
    let steps = world.until(|_| *tokens.lock().unwrap() == [1, 2]).await;
    assert!(steps <= 9, "{steps} steps");
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    // Dropping the program drops its work.
    program.abort();
    assert!(program.await.unwrap_err().is_cancelled());
    while dropped.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The service does not answer renewals. The owner stops before others can begin.
#[tokio::test]
async fn work_stops_before_the_lease_ends_when_renewing_fails() -> TestResult {
    let world = World::start().await?;
    let program = world.program(0, &Arc::default())?;
    world.until(|log| log.shares(1) == [8]).await;
    let down = Fault::on(Operation::LeaseBlob).reject(ErrorCode::SERVER_BUSY);
    let down = world.programs.server.inject(down);
    let steps = world.until(|log| log.shares(1) == [0]).await;
    assert!((8..=13).contains(&steps), "a term after the last renewal, not {steps} steps");
    drop(down);
    world.until(|log| log.shares(1) == [8]).await;
    program.abort();
    Ok(())
}

#[tokio::test]
async fn work_that_does_not_stop_is_dropped_at_the_deadline() -> TestResult {
    let world = World::start().await?;
    let account = world.programs.account(TimeDelta::zero())?;
    let (begun, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begins, drops) = (Arc::clone(&begun), Arc::clone(&dropped));
    let work = move |_: Owned| {
        begins.fetch_add(1, Ordering::SeqCst);
        let drops = Dropped(Arc::clone(&drops));
        async move {
            let _drops = drops;
            pending::<rowkey::Result<()>>().await
        }
    };
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let stubborn = partitions(&account).shutdown_deadline(seconds(10));
    let program = spawn(async move { stubborn.run_until(work, stopped.notified()).await });
    world.until(|_| begun.load(Ordering::SeqCst) == 8).await;
    let other = world.program(1, &Arc::default())?;
    world.until(|log| log.shares(2) == [0, 4]).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 4);
    stop.notify_one();
    world.programs.rest().await;
    assert_eq!(dropped.load(Ordering::SeqCst), 4, "it has 10 seconds");
    world.programs.step(STEP * 2).await;
    assert!(program.await?.is_ok());
    assert_eq!(dropped.load(Ordering::SeqCst), 8);
    world.until(|log| log.shares(2) == [0, 8]).await;
    other.abort();
    Ok(())
}

#[tokio::test]
async fn work_that_ends_fails_or_panics_begins_again_while_the_partition_is_owned() -> TestResult {
    let world = World::start().await?;
    let account = world.programs.account(TimeDelta::zero())?;
    let runs: Arc<Mutex<BTreeMap<u32, (usize, BTreeSet<u64>)>>> = Arc::default();
    let counts = Arc::clone(&runs);
    let work = move |owned: Owned| {
        let mut counts = counts.lock().unwrap();
        let (runs, tokens) = counts.entry(owned.index()).or_default();
        *runs += 1;
        tokens.insert(owned.token());
        async move {
            match owned.index() {
                0 => Ok(()),
                1 => Err("the mail server is down"),
                _ => panic!("a defect"),
            }
        }
    };
    let partitions = Partitions::new(account.container("locks"), "three", 3)
        .restart_backoff(seconds(5), seconds(40));
    let program = spawn(async move { partitions.run_until(work, pending()).await });
    let count = |index| runs.lock().unwrap().get(&index).map_or(0, |(runs, _)| *runs);
    world.until(|_| count(0) >= 12).await;
    // After 5, 10, 20, 40 seconds, each with jitter of up to a half.
    for failing in [1, 2] {
        assert!((3..=6).contains(&count(failing)), "{} runs", count(failing));
    }
    assert!(runs.lock().unwrap().values().all(|(_, tokens)| tokens.len() == 1));
    program.abort();
    Ok(())
}

#[tokio::test]
async fn another_count_or_an_invalid_set_is_refused() -> TestResult {
    let world = World::start().await?;
    let program = world.program(0, &Arc::default())?;
    world.until(|log| log.shares(1) == [8]).await;
    let account = world.programs.account(TimeDelta::zero())?;
    let locks = || account.container("locks");
    let work = |_: Owned| pending::<rowkey::Result<()>>();
    let other = Partitions::new(locks(), "orders", 16);
    let error = other.run_until(work, pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("into 8 partitions, not 16"), "{error}");
    let sent = world.programs.server.journal().len();
    for invalid in [
        Partitions::new(locks(), "orders", 0),
        Partitions::new(locks(), "orders", 1001),
        Partitions::new(locks(), "", 8),
    ] {
        let error = invalid.run_until(work, pending()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert_eq!(world.programs.server.journal().len(), sent);
    let error = partitions(&account).term(seconds(61)).run_until(work, pending()).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    let missing = Partitions::new(account.container("missing"), "orders", 8);
    let error = missing.run_until(work, pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    program.abort();
    Ok(())
}

/// A program that owns two partitions, writes to each, and stops. The clock moves with each look.
async fn run(account: &StorageAccount) -> rowkey::Result<usize> {
    let table = account.table("work");
    let (written, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (writes, done) = (Arc::clone(&written), Arc::clone(&all));
    let work = move |owned: Owned| {
        let (table, writes, done) = (table.clone(), Arc::clone(&writes), Arc::clone(&done));
        async move {
            let key = format!("p{}", owned.index());
            let fence = owned.fence(&table, &key).await?;
            fence.submit(table.transaction().upsert(&row(&key, owned.token()))).await?;
            if writes.fetch_add(1, Ordering::SeqCst) == 1 {
                done.notify_one();
            }
            pending::<rowkey::Result<()>>().await
        }
    };
    let until = account.clock().now() + TimeDelta::seconds(40);
    let over = poll_fn(|_| match account.clock().now() >= until {
        true => Poll::Ready(()),
        false => Poll::Pending,
    });
    let shutdown = async {
        tokio::select! {
            () = all.notified() => {}
            () = over => {}
        }
    };
    let partitions = Partitions::new(account.container("locks"), "two", 2)
        .look_every(seconds(4))
        .restart_backoff(seconds(1), seconds(4))
        .shutdown_deadline(seconds(1));
    partitions.run_until(work, shutdown).await?;
    Ok(written.load(Ordering::SeqCst))
}

#[tokio::test]
async fn after_any_fault_another_program_owns_all_and_writes() -> TestResult {
    let server = start().await?;
    let recover = async |account: &StorageAccount| -> TestResult {
        let table = account.table("work");
        let before = [written(&table, "p0").await?, written(&table, "p1").await?];
        for _ in 0..10 {
            if run(account).await? >= 2 {
                let after = [written(&table, "p0").await?, written(&table, "p1").await?];
                for (before, after) in before.iter().zip(&after) {
                    let (Some(Value::Int64(after)), before) = (after, before) else {
                        return Err("nothing was written".into());
                    };
                    let before = if let Some(Value::Int64(before)) = before { *before } else { 0 };
                    assert!(*after > before, "tokens grow");
                }
                return Ok(());
            }
        }
        Err("the partitions are not owned".into())
    };
    let invariants = |snapshot: &Snapshot| {
        let table = snapshot.table("work").unwrap();
        for key in ["p0", "p1"] {
            let rows = table.entities().filter(|row| row.partition_key() == key);
            let names: Vec<_> = rows.map(|row| row.row_key().to_owned()).collect();
            assert_eq!(names.len(), 3, "one row for the token, and one for the last: {names:?}");
        }
    };
    for repeats in [true, false] {
        sweep::sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                drop(run(&account).await);
            },
            async |account, ()| recover(account).await,
            |snapshot, ()| invariants(snapshot),
        )
        .await?;
    }
    stopped_at_every_request(&server, run, recover, invariants).await?;
    Ok(())
}

#[tokio::test]
async fn guarded_transactions_of_one_owner_run_beside_each_other() -> TestResult {
    let server = start().await?;
    let account = sweep::account(&server)?;
    let table = account.table("work");
    let before = server.journal().len();
    let fence = Fence::claim(&table, "p0", 3).await?;
    assert_eq!(server.journal().len() - before, 2);
    let insert = |name: &str| table.transaction().insert(&DynamicEntity::new("p0", name));
    let before = server.journal().len();
    let results =
        futures_util::future::join_all(["a", "b", "c"].map(|name| fence.submit(insert(name))));
    for etags in results.await {
        assert_eq!(etags?.len(), 1, "of the caller's operations");
    }
    assert_eq!(server.journal().len() - before, 3);
    // Errors are those of the caller's operations.
    let twice = insert("d").append(insert("a"));
    let error = fence.submit(twice).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.details().operation_index),
        (ErrorKind::AlreadyExists, Some(1))
    );
    let foreign = table.transaction().insert(&DynamicEntity::new("p1", "a"));
    assert_eq!(fence.submit(foreign).await.unwrap_err().kind(), ErrorKind::Invalid);
    // Claimed anew by the same owner, and by one before.
    Fence::claim(&table, "p0", 3).await?.submit(insert("e")).await?;
    assert_eq!(Fence::claim(&table, "p0", 2).await.unwrap_err().kind(), ErrorKind::Leased);
    // A row of another program at the fence's key is not overwritten.
    table.upsert(&DynamicEntity::new("p1", "fence")).await?;
    assert_eq!(Fence::claim(&table, "p1", 1).await.unwrap_err().kind(), ErrorKind::Decode);
    table.delete(Key::<DynamicEntity>::new("p1", "fence"), Match::Any).await?;
    Fence::claim(&table, "p1", 1).await?;
    Ok(())
}

/// Programs take a lease, claim, write, are suspended, wake up and write late, in any order.
#[tokio::test]
async fn writes_of_owners_do_not_mix_under_any_schedule() -> TestResult {
    let server = start().await?;
    let account = sweep::account(&server)?;
    let table = account.table("work");
    let (mut writes, mut late) = (0, 0);
    for seed in seeds(60) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let key = format!("s{seed}");
        let lock = LeaseLock::new(account.container("locks").blob(&key)).term(seconds(15));
        // The ownership of each program, and its fence once it has claimed.
        let mut programs: [Option<(u64, Option<Fence>)>; 3] = [None, None, None];
        let mut writers = Vec::new();
        for _ in 0..24 {
            let program = &mut programs[random.below(3) as usize];
            match (random.below(6), program.as_mut()) {
                (0, _) => server.clock().advance(seconds(16)),
                (1, Some(_)) => *program = None,
                (_, Some((token, fence @ None))) => {
                    match Fence::claim(&table, &key, *token).await {
                        Ok(claimed) => *fence = Some(claimed),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Leased);
                            *program = None;
                        }
                    }
                }
                (_, Some((token, Some(fence)))) => {
                    writes += 1;
                    match fence.submit(table.transaction().upsert(&row(&key, *token))).await {
                        Ok(_) => writers.push(*token),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Leased);
                            late += 1;
                        }
                    }
                }
                (_, None) => {
                    *program = lock.try_acquire().await?.map(|held| (held.token(), None));
                }
            }
        }
        assert!(writers.is_sorted(), "an earlier owner has written after a later one: {writers:?}");
    }
    assert!(late * 50 > writes, "{late} of {writes} writes were late");
    Ok(())
}
