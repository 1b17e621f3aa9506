//! Every request of calls about dead letters failed in every way, and each call ended at every request.

use std::time::Duration;

use rowkey::StorageAccount;
use rowkey::queue::Body;
use rowkey::worker::Step;
use rowkey::worker::dead_letters::Selection;
use rowkey_emulator::{Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{once, stopped_at_every_request, sweep};

use super::{dead, done, job, large, letters, put_aside, start, tasks, texts, worker};

#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
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

/// Blobs that hold a task. Those of tasks that are done are empty, and swept later.
async fn blobs(account: &StorageAccount) -> rowkey::Result<usize> {
    let mut full = 0;
    for item in account.container("claims").blobs().all().await? {
        let blob = account.container("claims").blob(&item.name).get().await?;
        full += usize::from(blob.is_some_and(|blob| !blob.bytes.is_empty()));
    }
    Ok(full)
}

#[tokio::test]
async fn redriven_tasks_are_done_and_cleaned_up_after_any_fault() -> TestResult {
    let (server, account) = start().await?;
    put_aside(&account, &job(1, "panic")).await?;
    put_aside(&account, &large(2)).await?;
    let all = Selection::all();
    let redrive = async |account: &StorageAccount| {
        let summary = dead(account).redrive(&all).await?;
        summary.failures.into_iter().next().map_or(Ok(()), |failed| Err(failed.error.into()))
    };
    swept(
        &server,
        redrive,
        async |account| {
            redrive(account).await?;
            let mended = worker(account, true);
            while mended.step().await? != Step::Idle {}
            assert_eq!(blobs(account).await?, 0);
            Ok(())
        },
        |snapshot| {
            assert_eq!(done(snapshot), [1, 2]);
            assert_eq!(letters(snapshot), [""; 0]);
            assert_eq!(texts(snapshot, "jobs"), [""; 0]);
        },
    )
    .await
}

#[tokio::test]
async fn purged_dead_letters_are_cleaned_up_after_any_fault() -> TestResult {
    let (server, account) = start().await?;
    put_aside(&account, &job(1, "panic")).await?;
    put_aside(&account, &large(2)).await?;
    let purge = async |account: &StorageAccount| {
        let summary = dead(account).purge(&Selection::all()).await?;
        summary.failures.into_iter().next().map_or(Ok(()), |failed| Err(failed.error.into()))
    };
    swept(
        &server,
        purge,
        async |account| {
            purge(account).await?;
            tasks(account).sweep_claims(Duration::from_secs(45)).await?;
            assert_eq!(blobs(account).await?, 0);
            Ok(())
        },
        |snapshot| assert_eq!(letters(snapshot), [""; 0]),
    )
    .await
}

#[tokio::test]
async fn a_message_is_collected_once_after_any_fault() -> TestResult {
    let (server, account) = start().await?;
    let poison = account.queue("jobs-poison");
    poison.create().await?;
    poison.put(Body::text(r#"{"number":7,"fails":"reject"}"#)).send().await?;
    let collect = async |account: &StorageAccount| {
        let summary = dead(account).collect().await?;
        summary.failures.into_iter().next().map_or(Ok(()), |failed| Err(failed.error.into()))
    };
    swept(&server, collect, collect, |snapshot| {
        assert_eq!(texts(snapshot, "jobs-poison"), [""; 0]);
        assert_eq!(letters(snapshot).len(), 1);
    })
    .await
}

#[tokio::test]
async fn a_task_that_failed_again_has_one_dead_letter_after_any_fault() -> TestResult {
    for task in [job(1, "panic"), large(2)] {
        let (server, account) = start().await?;
        put_aside(&account, &task).await?;
        assert_eq!(dead(&account).redrive(&Selection::all()).await?.done, 1);
        swept(
            &server,
            async |account| worker(account, false).step().await.map(drop).map_err(Into::into),
            async |account| {
                let broken = worker(account, false);
                while broken.step().await? != Step::Idle {}
                Ok(())
            },
            |snapshot| {
                assert_eq!(letters(snapshot).len(), 1);
                assert_eq!(texts(snapshot, "jobs"), [""; 0]);
            },
        )
        .await?;
    }
    Ok(())
}
