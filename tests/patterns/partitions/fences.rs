//! Fences: the service refuses the writes of former owners.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use chrono::TimeDelta;
use rowkey::edm::Value;
use rowkey::patterns::lease_lock::LeaseLock;
use rowkey::worker::partitions::{Fence, Owned, Partitions};
use rowkey::{DynamicEntity, ErrorKind, Key, ManualClock, Match, Outcome, StorageAccount};
use rowkey_emulator::{Fault, Operation};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep;

use super::super::programs::spawn;
use super::{World, row, seconds, start, written};

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
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Leased);
    assert!(
        refused.to_string().ends_with("; drop this work; the present owner does it"),
        "{refused}"
    );
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

/// The answer of a transaction is lost, and the repetition comes after the next owner has claimed the key.
#[tokio::test]
async fn a_write_that_may_have_been_applied_is_not_said_to_be_refused() -> TestResult {
    let server = start().await?;
    let table = sweep::account(&server)?.table("work");
    let first = Fence::claim(&table, "p0", 1).await?;
    let _lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    // Of those that the first fault leaves.
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let takeover = async {
        held.wait_until_held().await;
        let second = Fence::claim(&table, "p0", 2).await;
        held.release();
        second
    };
    let write = first.submit(table.transaction().upsert(&row("p0", 1)));
    let (written, claimed) = futures_util::future::join(write, takeover).await;
    claimed?;
    assert_eq!(self::written(&table, "p0").await?, Some(Value::Int64(1)), "it was applied");
    let error = written.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Leased, Outcome::Unknown), "{error}");
    assert!(!error.to_string().contains("nothing was written"), "{error}");
    Ok(())
}

/// Programs take a lease, claim, write, are suspended, wake up and write late, in any order.
#[tokio::test]
async fn writes_of_owners_do_not_mix_under_any_schedule() -> TestResult {
    let server = start().await?;
    let (mut writes, mut late) = (0, 0);
    for seed in seeds(60) {
        let _seed = Seed(seed);
        // Its clock stands, and the server refuses dates that are a quarter of an hour behind.
        let account = sweep::account(&server)?;
        let table = account.table("work");
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
