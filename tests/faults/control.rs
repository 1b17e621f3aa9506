//! The journal, throttling, copies of servers, and the manual clock.

use std::time::Duration;

use rowkey::{ErrorCode, ErrorKind, Match, StorageAccount, edm};
use rowkey_emulator::{Fault, Operation, Server, Targets};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, once, waiting};

use crate::{Counter, counter, start};

#[tokio::test]
async fn the_journal_contains_requests_and_their_results() -> TestResult {
    let (server, _, table) = start().await?;
    let before = server.journal();
    let batch = || table.transaction().insert(&counter("a", 1)).insert(&counter("a", 2));
    batch().submit().await?;
    assert!(batch().submit().await.is_err());
    table.delete(Counter::key("a", 1), Match::Any).await?;
    assert!(table.get(Counter::key("a", 1)).await?.is_none());

    let journal = server.journal().since(&before);
    let seen: Vec<_> = journal
        .iter()
        .map(|entry| (entry.operation(), entry.resource(), entry.status(), entry.is_committed()))
        .collect();
    assert_eq!(
        seen,
        [
            (Operation::Transaction, "counters", Some(202), true),
            (Operation::Transaction, "counters", Some(202), false),
            (Operation::DeleteEntity, "counters", Some(204), true),
            (Operation::GetEntity, "counters", Some(404), false),
        ]
    );
    assert_eq!(journal.clone().of(Operation::Transaction).committed().len(), 1);
    assert_eq!(journal.clone().about("COUNTERS").len(), 4);
    assert_eq!(journal.iter().next().unwrap().account(), "devstoreaccount1");
    assert_eq!(before.count(Operation::CreateTable), 1);

    let silent = Server::builder().journal(false).start().await?;
    StorageAccount::from_connection_string(silent.connection_string())?
        .table("things")
        .create()
        .await?;
    assert!(silent.journal().is_empty());
    Ok(())
}

#[tokio::test]
async fn requests_beyond_the_throttling_targets_are_rejected_until_the_clock_advances() -> TestResult
{
    let targets = Targets { entities_per_partition: 3, ..Targets::default() };
    let server = Server::builder().manual_clock().throttle(targets).start().await?;
    let (patient, patient_clock) = waiting(&server)?;
    let table = once(&patient).table("counters");
    table.create().await?;
    let insert = |id| table.transaction().insert(&counter("a", id)).insert(&counter("a", id + 1));
    insert(1).submit().await?;
    // Two of three are taken, and two more are asked for: neither is stored.
    let error = insert(3).submit().await.unwrap_err();
    assert_eq!((error.kind(), error.details().status), (ErrorKind::Throttled, Some(503)));
    assert_eq!(error.code(), Some(&ErrorCode::SERVER_BUSY));
    table.insert(&counter("a", 5)).await?;
    assert_eq!(table.get(Counter::key("a", 5)).await.unwrap_err().kind(), ErrorKind::Throttled);
    table.insert(&counter("b", 1)).await?;
    assert_eq!(server.snapshot().table("counters").unwrap().len(), 4);

    // The client does as `Retry-After` says.
    let waiting = patient.table("counters").get(Counter::key("a", 5)).await.unwrap_err();
    assert_eq!(waiting.kind(), ErrorKind::Throttled);
    assert_eq!(patient_clock.slept(), [Duration::from_secs(1); 3]);

    server.clock().advance(Duration::from_secs(1));
    assert!(table.get(Counter::key("a", 5)).await?.is_some());
    // A query consumes the quota of the rows that it reads.
    assert_eq!(table.query(Counter::partition("a")).all().await?.len(), 3);
    assert_eq!(table.get(Counter::key("a", 5)).await.unwrap_err().kind(), ErrorKind::Throttled);
    Ok(())
}

#[tokio::test]
async fn snapshots_and_forks_are_independent() -> TestResult {
    let (server, _, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    let snapshot = server.snapshot();
    let fork = server.fork().await?;
    let copy = account(&fork)?.table("counters");
    let stored = copy.get(Counter::key("a", 1)).await?.unwrap();

    table.upsert(&Counter { count: 7, ..counter("a", 1) }).await?;
    copy.replace(&stored.map(|counter| counter.count = 8)).await?;
    copy.insert(&counter("a", 2)).await?;
    let count = |snapshot: &rowkey_emulator::Snapshot| {
        let table = snapshot.table("Counters").unwrap();
        (table.len(), table.entity("a", "0001").unwrap().get("Count").unwrap())
    };
    assert_eq!(count(&snapshot), (1, edm::Value::Int32(0)));
    assert_eq!(count(&server.snapshot()), (1, edm::Value::Int32(7)));
    assert_eq!(count(&fork.snapshot()), (2, edm::Value::Int32(8)));
    assert_eq!(fork.clock().now(), server.clock().now());
    fork.clock().advance(Duration::from_secs(1));
    assert_ne!(fork.clock().now(), server.clock().now());

    server.restore(&snapshot);
    assert_eq!(count(&server.snapshot()), (1, edm::Value::Int32(0)));
    let fault = server.inject(Fault::any().close_before_commit());
    server.reset();
    assert_eq!(server.snapshot().tables().count(), 0);
    assert!(server.journal().is_empty());
    table.create().await?;
    assert_eq!(fault.hits(), 0);
    drop(fault);
    assert_eq!(server.journal().len(), 1);
    Ok(())
}

#[tokio::test]
async fn the_name_of_a_deleted_table_is_freed_by_the_clock() -> TestResult {
    let (server, account, table) = start().await?;
    table.delete_table().await?;
    let table = once(&account).table("counters");
    for seconds in [0, 39] {
        server.clock().advance(Duration::from_secs(seconds));
        let error = table.create().await.unwrap_err();
        assert_eq!(error.code(), Some(&ErrorCode::TABLE_BEING_DELETED));
    }
    server.clock().advance(Duration::from_secs(1));
    table.create().await?;
    Ok(())
}
