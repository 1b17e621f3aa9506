//! Programs that run: how they share partitions, what that costs, and how their work ends.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use rowkey::ErrorKind;
use rowkey::worker::partitions::{Owned, Partitions};
use rowkey_emulator::{ErrorCode, Fault, Operation};
use rowkey_tests::TestResult;
use rowkey_tests::sweep;
use tokio::sync::Notify;

use super::super::programs::spawn;
use super::{STEP, World, partitions, seconds};

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
        for _ in 0..20 {
            world.programs.step(STEP * 4).await;
        }
        let sent = journal().since(&before);
        let (looks, renewals) =
            (sent.count(Operation::ListBlobs), sent.count(Operation::LeaseBlob));
        assert!((19..=20).contains(&looks), "one each 20 seconds: {looks}");
        assert!((20 * 9 - 9..=20 * 9).contains(&renewals), "one of each lease: {renewals}");
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

/// How often the work of a partition ran, and under which tokens.
type Runs = (usize, BTreeSet<u64>);

#[tokio::test]
async fn work_that_ends_fails_or_panics_begins_again_while_the_partition_is_owned() -> TestResult {
    let world = World::start().await?;
    let account = world.programs.account(TimeDelta::zero())?;
    let runs: Arc<Mutex<BTreeMap<u32, Runs>>> = Arc::default();
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
