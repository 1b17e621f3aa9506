//! Sweeps that fail every request of a program with every fault, and stop the program at every request.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use chrono::TimeDelta;
use rowkey::StorageAccount;
use rowkey::edm::Value;
use rowkey::worker::partitions::{Owned, Partitions};
use rowkey_emulator::Snapshot;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::stopped_at_every_request;
use tokio::sync::Notify;

use super::super::programs::failing_at_each_request;
use super::{row, seconds, start, written};

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
    let over =
        poll_fn(|_| if account.clock().now() >= until { Poll::Ready(()) } else { Poll::Pending });
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
    let scenario = async |account: &StorageAccount| drop(run(account).await);
    failing_at_each_request(&server, 30, scenario, recover, invariants).await?;
    stopped_at_every_request(&server, run, recover, invariants).await?;
    Ok(())
}
