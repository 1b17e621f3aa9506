//! Each kind of fault, and the order in which they are asked.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::{ErrorCode, ErrorKind, Outcome};
use rowkey_emulator::{Fault, Operation, Service};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::once;

use crate::{Counter, counter, start};

#[tokio::test]
async fn an_injected_rejection_changes_nothing_and_has_its_code() -> TestResult {
    let (server, account, _) = start().await?;
    let table = once(&account).table("counters");
    let fault = server.inject(Fault::on(Operation::InsertEntity).reject(ErrorCode::SERVER_BUSY));
    let error = table.insert(&counter("a", 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Throttled, Outcome::Rejected));
    assert_eq!((error.code(), error.details().status), (Some(&ErrorCode::SERVER_BUSY), Some(503)));
    assert_eq!(fault.hits(), 1);
    assert!(server.snapshot().table("counters").unwrap().is_empty());

    drop(fault);
    table.insert(&counter("a", 1)).await?;
    assert_eq!(server.snapshot().table("counters").unwrap().len(), 1);
    Ok(())
}

#[tokio::test]
async fn close_after_commit_applies_the_write_and_close_before_commit_does_not() -> TestResult {
    let (server, account, _) = start().await?;
    let table = once(&account).table("counters");
    let inserts = || Fault::on(Operation::InsertEntity);
    let before = server.inject(inserts().nth(1).close_before_commit());
    // The request that `before` meets is not counted here.
    let after = server.inject(inserts().nth(1).close_after_commit());
    for (id, stored) in [(1, false), (2, true), (3, true)] {
        let result = table.insert(&counter("a", id)).await;
        if id < 3 {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
        } else {
            result?;
        }
        let snapshot = server.snapshot();
        let found = snapshot.table("counters").unwrap().entity("a", &format!("{id:04}"));
        assert_eq!(found.is_some(), stored, "{id}");
    }
    assert_eq!((before.hits(), after.hits()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_truncated_response_leaves_the_outcome_unknown() -> TestResult {
    let (server, account, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    let table = once(&account).table("counters");
    for bytes in [0, 1, 40, 1_000_000] {
        let _fault = server.inject(Fault::on(Operation::GetEntity).truncate(bytes));
        let error = table.get(Counter::key("a", 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{bytes}: {error}");
    }
    // Without a body nothing is sent at all.
    let fault = server.inject(Fault::on(Operation::DeleteEntity).truncate(5));
    let error = table.delete(Counter::key("a", 1), rowkey::Match::Any).await.unwrap_err();
    assert_eq!((error.outcome(), fault.hits()), (Outcome::Unknown, 1));
    assert!(server.snapshot().table("counters").unwrap().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_delayed_response_waits_for_the_clock_and_blocks_no_other_request() -> TestResult {
    let (server, _, table) = start().await?;
    let delay = Duration::from_secs(20);
    let fault = server.inject(Fault::on(Operation::InsertEntity).times(1).delay(delay));
    let slow_entity = counter("a", 1);
    let mut slow = std::pin::pin!(table.insert(&slow_entity));
    let others = async {
        fault.wait_until_hit(1).await;
        // It is stored already, as soon as it is executed, and others are served meanwhile.
        table.insert(&counter("a", 2)).await?;
        assert!(table.get(Counter::key("a", 1)).await?.is_some());
        Ok::<_, rowkey::Error>(())
    };
    tokio::select! {
        biased;
        result = &mut slow => panic!("it was answered at once: {result:?}"),
        result = others => result?,
    }
    assert_eq!(server.journal().of(Operation::InsertEntity).iter().next().unwrap().status(), None);
    server.clock().advance(delay);
    slow.await?;
    Ok(())
}

#[tokio::test]
async fn a_held_request_sees_concurrent_changes() -> TestResult {
    let (server, _, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    let held = server.inject(Fault::on(Operation::MergeEntity).nth(1).hold());
    let add = |n| table.update(Counter::key("a", 1), move |counter| counter.count += n);
    let meanwhile = async {
        held.wait_until_held().await;
        add(10).await?;
        held.release();
        Ok::<_, rowkey::Error>(())
    };
    let (first, second) = tokio::join!(add(1), meanwhile);
    second?;
    assert_eq!(first?.entity.count, 11, "the loop read again");
    assert_eq!(server.journal().count(Operation::MergeEntity), 3);
    assert_eq!(server.journal().of(Operation::MergeEntity).committed().len(), 2);
    Ok(())
}

#[tokio::test]
async fn dropping_the_guard_releases_held_requests() -> TestResult {
    let (server, _, table) = start().await?;
    let held = server.inject(Fault::on(Operation::GetEntity).hold());
    let drops = async {
        held.wait_until_held().await;
        drop(held);
    };
    let (found, ()) = tokio::join!(table.get::<Counter>(Counter::key("a", 1)), drops);
    assert_eq!(found?, None);
    Ok(())
}

/// A program that is killed sends nothing more, however late the server learns that it is gone.
#[tokio::test]
async fn a_discarded_request_is_not_executed() -> TestResult {
    let (server, _, table) = start().await?;
    let held = server.inject(Fault::on(Operation::InsertEntity).hold());
    let one = counter("a", 1);
    let mut insert = Box::pin(table.insert(&one));
    let is_held =
        matches!(select(insert.as_mut(), pin!(held.wait_until_held())).await, Either::Right(_));
    assert!(is_held);
    held.discard();
    assert_eq!(insert.await.unwrap_err().kind(), ErrorKind::Unavailable);

    let held = server.inject(Fault::on(Operation::InsertEntity).hold());
    let two = counter("b", 1);
    {
        let insert = table.insert(&two);
        select(pin!(insert), pin!(held.wait_until_held())).await;
    }
    held.discard();
    assert_eq!(table.get::<Counter>(Counter::key("a", 1)).await?, None);
    assert_eq!(table.get::<Counter>(Counter::key("b", 1)).await?, None);
    assert_eq!(server.journal().of(Operation::InsertEntity).committed().len(), 0);
    Ok(())
}

#[tokio::test]
async fn the_first_matching_fault_applies_and_later_ones_do_not_count_the_request() -> TestResult {
    let (server, account, _) = start().await?;
    let account = once(&account);
    account.table("other").create().await?;
    let code = |code: &str| ErrorCode::new(code.to_owned());
    let one = server
        .inject(Fault::on(Operation::InsertEntity).resource("OTHER").times(1).reject(code("One")));
    let two = server.inject(Fault::service(Service::Table).nth(2).times(2).reject(code("Two")));
    let queues = server.inject(Fault::service(Service::Queue).reject(code("Never")));
    let mut met = Vec::new();
    for (table, id) in
        [("counters", 1), ("other", 1), ("other", 2), ("counters", 2), ("counters", 3)]
    {
        let result = account.table(table).insert(&counter("a", id)).await;
        met.push(result.err().and_then(|error| error.code().map(|code| code.as_str().to_owned())));
    }
    let met: Vec<_> = met.iter().map(Option::as_deref).collect();
    assert_eq!(met, [None, Some("One"), Some("Two"), Some("Two"), None]);
    assert_eq!((one.hits(), two.hits(), queues.hits()), (1, 2, 0));
    Ok(())
}
