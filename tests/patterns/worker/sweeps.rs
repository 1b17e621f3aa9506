//! Sweeps that fail every request of a worker with every fault, and stop the worker at every request.

use std::time::Duration;

use rowkey::StorageAccount;
use rowkey::queue::Body;
use rowkey::worker::Step;
use rowkey_emulator::{Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{once, stopped_at_every_request, sweep};

use super::{Deed, claims, done, large, letters, redrive, resize, start, tasks, texts, worker};

/// Runs a worker until the queue is empty.
async fn work(account: &StorageAccount) -> TestResult {
    let worker = worker(account).retry_backoff(Duration::ZERO, Duration::ZERO);
    for _ in 0..20 {
        if worker.step().await? == Step::Idle {
            return Ok(());
        }
    }
    Err("the queue does not become empty".into())
}

/// Runs a new worker, and the daily job that deletes orphaned blobs.
async fn recover(account: &StorageAccount) -> TestResult {
    work(account).await?;
    tasks(account).sweep_claims(Duration::from_secs(45)).await?;
    Ok(())
}

/// The ids of the dead letters.
fn poisoned(snapshot: &Snapshot) -> Vec<String> {
    letters(snapshot).iter().map(|letter| letter["id"].to_string()).collect()
}

/// Sweeps the scenario with and without the client's retries.
#[expect(clippy::future_not_send, reason = "each test has its own thread")]
async fn swept(
    server: &Server,
    scenario: impl AsyncFn(&StorageAccount) -> TestResult,
    recover: impl AsyncFn(&StorageAccount) -> TestResult,
    invariants: impl Fn(&Snapshot),
) -> TestResult {
    for repeats in [true, false] {
        sweep(
            server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                scenario(&account).await.is_ok()
            },
            async |account, _| recover(account).await,
            |snapshot, _| invariants(snapshot),
        )
        .await?;
    }
    stopped_at_every_request(server, scenario, recover, invariants).await?;
    Ok(())
}

#[tokio::test]
async fn a_task_is_done_and_cleaned_up_after_any_fault() -> TestResult {
    for task in [resize(7, Deed::Succeed), large(7, Deed::Succeed), large(7, Deed::FailFirst)] {
        let (server, account) = start().await?;
        tasks(&account).put(&task).await?;
        swept(
            &server,
            async |account| worker(account).step().await.map(drop).map_err(Into::into),
            async |account| {
                recover(account).await?;
                assert_eq!(claims(account).await?.len(), 0);
                Ok(())
            },
            |snapshot| {
                assert_eq!(done(snapshot), [7]);
                assert_eq!(texts(snapshot, "jobs"), [""; 0]);
                assert_eq!(poisoned(snapshot).len(), 0);
            },
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_poisoned_task_becomes_one_dead_letter_after_any_fault() -> TestResult {
    for (task, blobs) in
        [(Some(resize(7, Deed::Poison)), 0), (Some(large(7, Deed::Poison)), 1), (None, 0)]
    {
        let (server, account) = start().await?;
        match task {
            Some(task) => drop(tasks(&account).put(&task).await?),
            None => drop(account.queue("jobs").put(Body::text("unreadable")).send().await?),
        }
        swept(
            &server,
            async |account| worker(account).step().await.map(drop).map_err(Into::into),
            async |account| {
                recover(account).await?;
                assert_eq!(
                    claims(account).await?.len(),
                    blobs,
                    "the blob of a dead letter is kept"
                );
                Ok(())
            },
            |snapshot| {
                assert_eq!(done(snapshot), [0; 0]);
                assert_eq!(texts(snapshot, "jobs"), [""; 0]);
                assert_eq!(poisoned(snapshot).len(), 1);
            },
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn redriven_tasks_are_done_after_any_fault() -> TestResult {
    let (server, account) = start().await?;
    let hasty = worker(&account).max_attempts(1);
    for task in [resize(1, Deed::FailFirst), large(2, Deed::FailFirst), large(3, Deed::FailFirst)] {
        tasks(&account).put(&task).await?;
        assert_eq!(hasty.step().await?, Step::Poisoned);
    }
    let recover = async |account: &StorageAccount| {
        redrive(account).await?;
        work(account).await?;
        for name in claims(account).await? {
            let blob = account.container("claims").blob(&name).get().await?.unwrap();
            assert!(blob.bytes.is_empty(), "the blob of a done task is emptied, and swept later");
        }
        Ok(())
    };
    swept(
        &server,
        async |account| redrive(account).await.map(drop).map_err(Into::into),
        recover,
        |snapshot| {
            assert_eq!(done(snapshot), [1, 2, 3]);
            assert_eq!(poisoned(snapshot).len(), 0);
            assert_eq!(texts(snapshot, "jobs"), [""; 0]);
        },
    )
    .await
}

#[tokio::test]
async fn a_task_is_put_and_done_after_any_fault() -> TestResult {
    let (server, _) = start().await?;
    for task in [resize(7, Deed::Succeed), large(7, Deed::Succeed)] {
        for repeats in [true, false] {
            sweep(
                &server,
                async |account| {
                    let account = if repeats { account.clone() } else { once(account) };
                    tasks(&account).put(&task).await.is_ok()
                },
                async |account, _| {
                    recover(account).await?;
                    assert_eq!(claims(account).await?.len(), 0);
                    Ok(())
                },
                |snapshot, put| {
                    // A put that was reported as failed may have been applied.
                    assert!(!put || done(snapshot) == [7]);
                    assert_eq!(poisoned(snapshot).len(), 0);
                },
            )
            .await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_worker_with_several_tasks_may_stop_at_any_request() -> TestResult {
    let (server, account) = start().await?;
    for (picture, deed) in
        [(1, Deed::Succeed), (2, Deed::FailFirst), (3, Deed::Poison), (4, Deed::Succeed)]
    {
        tasks(&account).put(&resize(picture, deed)).await?;
        tasks(&account).put(&large(picture + 10, deed)).await?;
    }
    stopped_at_every_request(
        &server,
        async |account| {
            let worker = worker(account).concurrency(4);
            let all_settled = std::future::poll_fn(|_| {
                let counts = worker.counts();
                let settled = counts.handled + counts.poisoned + counts.retried;
                if settled >= 8 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            });
            worker.run_until(all_settled).await
        },
        async |account| {
            recover(account).await?;
            assert_eq!(claims(account).await?.len(), 1, "the poisoned one");
            Ok(())
        },
        |snapshot| {
            assert_eq!(done(snapshot), [1, 2, 4, 11, 12, 14]);
            assert_eq!(texts(snapshot, "jobs"), [""; 0]);
            assert_eq!(poisoned(snapshot).len(), 2);
        },
    )
    .await?;
    Ok(())
}
