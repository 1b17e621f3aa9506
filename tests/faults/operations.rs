//! The sweep over the client's operations of several requests, and those of one that say what
//! they found.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use rowkey::{ErrorKind, Match, Outcome, Result};
use rowkey_emulator::{Server, Snapshot, StoredTable, Sweep, SweepFault};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{Runs, account, once, sweep_all};

use crate::{Counter, counter, start};

fn stored(snapshot: &Snapshot) -> StoredTable<'_> {
    match snapshot.table("counters") {
        Some(table) => table,
        None => panic!("the table is gone"),
    }
}

fn counts(snapshot: &Snapshot) -> Vec<i32> {
    let count = |value| match value {
        Some(rowkey::edm::Value::Int32(count)) => count,
        other => panic!("no count: {other:?}"),
    };
    stored(snapshot).entities().map(|entity| count(entity.get("Count"))).collect()
}

#[tokio::test]
async fn an_update_that_sets_a_value_survives_every_failure() -> TestResult {
    let (server, _, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    let runs = sweep_all(
        &server,
        async |account| {
            let table = account.table("counters");
            table.update(Counter::key("a", 1), |counter| counter.count = 1).await
        },
        async |_, _| Ok(()),
        |snapshot, result| {
            assert_eq!(result.as_ref().map(|stored| stored.entity.count).ok(), Some(1));
            assert_eq!(counts(snapshot), [1]);
        },
    )
    .await?;
    assert_eq!(runs, Runs { requests: 2, failures: 8 });
    Ok(())
}

/// A count that is one higher may be this update's or another's. (A counter once lost a step when
/// another program's write was taken for the echo of its own.)
#[tokio::test]
async fn an_incrementing_update_applies_once_or_reports_an_unknown_outcome() -> TestResult {
    for repeats in [true, false] {
        let (server, _, table) = start().await?;
        table.insert(&counter("a", 1)).await?;
        sweep_all(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let table = account.table("counters");
                table.update(Counter::key("a", 1), |counter| counter.count += 1).await
            },
            async |_, _| Ok(()),
            |snapshot, result| match result.as_ref().map_err(rowkey::Error::outcome) {
                Ok(_) => assert_eq!(counts(snapshot), [1]),
                // Also when it was the read that failed: reading changes nothing, and says so.
                Err(Outcome::NotSent | Outcome::Rejected) => assert_eq!(counts(snapshot), [0]),
                Err(Outcome::Unknown) => assert!([0, 1].contains(&counts(snapshot)[0])),
            },
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_update_survives_a_concurrent_write_and_a_failure() -> TestResult {
    let (server, _, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    let runs = sweep_all(
        &server,
        async |account| {
            let table = account.table("counters");
            let stale = table.get(Counter::key("a", 1)).await?.unwrap();
            table.update(Counter::key("a", 1), |counter| counter.count = 1).await?;
            // A client with a stale read gets a conflict, and retries.
            let error = table.replace(&stale.map(|counter| counter.count = 50)).await.unwrap_err();
            assert!(error.kind() == ErrorKind::Conflict, "{error}");
            table.update(Counter::key("a", 1), |counter| counter.count = 11).await
        },
        async |_, _| Ok(()),
        |snapshot, result| {
            assert_eq!(result.as_ref().map(|stored| stored.entity.count).ok(), Some(11));
            assert_eq!(counts(snapshot), [11]);
        },
    )
    .await?;
    assert_eq!(runs.requests, 6);
    Ok(())
}

#[tokio::test]
async fn a_transaction_is_atomic_if_any_request_fails() -> TestResult {
    let (server, _, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    let check = |snapshot: &Snapshot, result: &Result<()>| {
        let (before, after) = (vec![0], vec![5, 0, 0]);
        let found = counts(snapshot);
        match result.as_ref().map_err(rowkey::Error::outcome) {
            Ok(()) => assert_eq!(found, after),
            Err(Outcome::NotSent | Outcome::Rejected) => assert_eq!(found, before),
            Err(Outcome::Unknown) => assert!(found == before || found == after, "{found:?}"),
        }
    };
    let submit = async |account: &rowkey::StorageAccount| {
        let table = account.table("counters");
        let Some(one) = table.get(Counter::key("a", 1)).await? else {
            panic!("there is one");
        };
        let transaction = table
            .transaction()
            .replace(&one.map(|counter| counter.count = 5))
            .insert(&counter("a", 2))
            .insert(&counter("a", 3));
        transaction.submit().await.map(drop)
    };
    let runs = sweep_all(&server, submit, async |_, _| Ok(()), check).await?;
    assert_eq!(runs, Runs { requests: 2, failures: 8 });
    sweep_all(&server, async |account| submit(&once(account)).await, async |_, _| Ok(()), check)
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_insert_is_applied_at_most_once_and_reported_correctly() -> TestResult {
    let (server, ..) = start().await?;
    sweep_all(
        &server,
        async |account| account.table("counters").insert(&counter("a", 1)).await,
        // A careful caller reads after an unknown outcome, and inserts if the entity is missing.
        async |account, result| {
            let table = account.table("counters");
            if result.as_ref().is_err_and(|error| error.outcome() == Outcome::Unknown)
                && table.get(Counter::key("a", 1)).await?.is_none()
            {
                table.insert(&counter("a", 1)).await?;
            }
            Ok(())
        },
        |snapshot, result| {
            if let Err(error) = result {
                assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
                assert_ne!(error.kind(), ErrorKind::AlreadyExists, "it is not repeated unasked");
            }
            assert_eq!(counts(snapshot), [0]);
        },
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn create_if_missing_survives_every_failure() -> TestResult {
    let (server, ..) = start().await?;
    sweep_all(
        &server,
        async |account| account.table("fresh").create_if_missing().await,
        async |_, _| Ok(()),
        |snapshot, result| {
            assert_eq!(result.as_ref().ok(), Some(&true), "it was missing: {result:?}");
            assert!(snapshot.table("fresh").is_some_and(StoredTable::is_empty));
        },
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn delete_if_exists_survives_every_failure() -> TestResult {
    let (server, _, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    let runs = sweep_all(
        &server,
        async |account| {
            let table = account.table("counters");
            let existed = table.delete_if_exists(Counter::key("a", 1), Match::Any).await?;
            let table_existed = table.delete_table_if_exists().await?;
            Ok::<_, rowkey::Error>((existed, table_existed))
        },
        async |_, _| Ok(()),
        |snapshot, result| {
            assert_eq!(result.as_ref().ok(), Some(&(true, true)), "{result:?}");
            assert!(snapshot.table("counters").is_none());
        },
    )
    .await?;
    assert_eq!(runs.requests, 2);
    Ok(())
}

#[tokio::test]
async fn a_table_is_recreated_when_its_name_is_free() -> TestResult {
    let (server, _, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    sweep_all(
        &server,
        async |account| once(account).table("counters").delete_table().await,
        // A minute later the name is free, if the table was deleted at all.
        async |account, _| Ok(account.table("counters").create_if_missing().await.map(drop)?),
        |snapshot, result| match result.as_ref().map_err(rowkey::Error::outcome) {
            Ok(()) => assert!(stored(snapshot).is_empty()),
            Err(Outcome::NotSent | Outcome::Rejected) => assert_eq!(counts(snapshot), [0]),
            Err(Outcome::Unknown) => assert!(stored(snapshot).len() <= 1),
        },
    )
    .await?;
    assert!(account(&server)?.table("counters").get(Counter::key("a", 1)).await?.is_some());
    Ok(())
}

/// The runs of a sweep of an update, as failures of a check that only the run without a fault passes.
#[expect(clippy::future_not_send, reason = "a test has a thread of its own")]
async fn runs_of(sweep: Sweep<'_>) -> BTreeSet<(Option<u64>, String)> {
    let checks = Cell::new(0);
    let swept = sweep.run(
        async |server| Ok(account(server)?.table("counters")),
        async |table| table.update(Counter::key("a", 1), |counter| counter.count = 1).await.is_ok(),
        async |_| Ok(()),
        async |_, _, _| {
            checks.set(checks.get() + 1);
            if checks.get() == 1 { Ok(()) } else { Err("a run with a fault".into()) }
        },
    );
    let Err(error) = swept.await else { panic!("no run failed") };
    error.failures().iter().map(|run| (run.request, format!("{:?}", run.fault))).collect()
}

/// Of two requests and five faults.
#[tokio::test]
async fn sweep_samples_cover_every_request_and_every_fault() -> TestResult {
    let (server, _, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    let all = runs_of(Sweep::new(&server)).await;
    assert_eq!(all.len(), 2 * SweepFault::ALL.len());
    let mut together = BTreeSet::new();
    let mut runs = 0;
    for seed in 7..10 {
        let some = runs_of(Sweep::new(&server).sample(3, seed)).await;
        let requests: BTreeSet<_> = some.iter().map(|(request, _)| request).collect();
        assert_eq!(requests.len(), 2, "{some:?}");
        runs += some.len();
        together.extend(some);
    }
    assert_eq!((runs, together), (all.len(), all));
    Ok(())
}

/// Runs that wait leave their places to others.
#[tokio::test]
async fn a_sweep_on_the_real_clock_completes_all_runs() -> TestResult {
    let server = Server::start().await?;
    let table = account(&server)?.table("counters");
    table.create().await?;
    table.insert(&counter("a", 1)).await?;
    let sweep = Sweep::new(&server).real_time().healing(Duration::from_millis(1)).at_a_time(2);
    assert_eq!(runs_of(sweep).await.len(), 2 * SweepFault::ALL.len());
    Ok(())
}
