//! A dead letter is final until it is redriven: messages of its task that come again are neither done nor put
//! aside twice.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::worker::Step;
use rowkey::worker::dead_letters::Selection;
use rowkey_emulator::{ErrorCode, Fault, Operation};
use rowkey_tests::TestResult;

use super::{dead, done, job, large, letters, put_aside, start, tasks, texts, worker};

/// Longer than a message is hidden.
const LATER: Duration = Duration::from_secs(31);

#[tokio::test]
async fn a_redelivered_message_with_a_dead_letter_is_suppressed() -> TestResult {
    let (server, account) = start().await?;
    for task in [job(1, "reject"), large(2)] {
        tasks(&account).put(&task).await?;
        let lost = server.inject(Fault::on(Operation::DeleteMessage).close_before_commit());
        assert!(worker(&account, false).step().await.is_err());
        drop(lost);
        server.clock().advance(LATER);
        let before = letters(&server.snapshot());
        // It would be done now.
        assert_eq!(worker(&account, true).step().await?, Step::Suppressed);
        assert_eq!(letters(&server.snapshot()), before);
        assert_eq!(texts(&server.snapshot(), "jobs"), [""; 0]);
    }
    assert_eq!(done(&server.snapshot()), [0; 0]);
    assert_eq!(dead(&account).redrive(&Selection::all()).await?.done, 2, "its blob is there");
    let mended = worker(&account, true);
    while mended.step().await? != Step::Idle {}
    assert_eq!(done(&server.snapshot()), [1, 2]);
    Ok(())
}

#[tokio::test]
async fn an_old_message_is_suppressed_after_redrive_or_purge() -> TestResult {
    for is_purged in [false, true] {
        let (server, account) = start().await?;
        tasks(&account).put(&large(1)).await?;
        let lost = server.inject(Fault::on(Operation::DeleteMessage).close_before_commit());
        assert!(worker(&account, false).step().await.is_err());
        drop(lost);
        let all = Selection::all();
        let mended = worker(&account, true);
        if is_purged {
            assert_eq!(dead(&account).purge(&all).await?.done, 1);
        } else {
            assert_eq!(dead(&account).redrive(&all).await?.done, 1);
            assert_eq!(mended.step().await?, Step::Handled);
        }
        server.clock().advance(LATER);
        assert_eq!(mended.step().await?, Step::Suppressed, "purged: {is_purged}");
        assert_eq!(mended.step().await?, Step::Idle);
        assert_eq!(letters(&server.snapshot()), [""; 0]);
        assert_eq!(done(&server.snapshot()).len(), usize::from(!is_purged));
    }
    Ok(())
}

#[tokio::test]
async fn the_duplicate_message_of_a_redrive_is_suppressed_after_a_failure() -> TestResult {
    let (server, account) = start().await?;
    put_aside(&account, &job(1, "panic")).await?;
    let lost = server.inject(Fault::on(Operation::Transaction).close_before_commit());
    assert_eq!(dead(&account).redrive(&Selection::all()).await?.failed, 1);
    drop(lost);
    assert_eq!(dead(&account).redrive(&Selection::all()).await?.done, 1);
    assert_eq!(texts(&server.snapshot(), "jobs").len(), 2);
    let broken = worker(&account, false);
    assert_eq!(broken.step().await?, Step::Poisoned);
    // The message of the first call appears.
    server.clock().advance(LATER * 2);
    assert_eq!(worker(&account, true).step().await?, Step::Suppressed);
    assert_eq!(letters(&server.snapshot()).len(), 1);
    assert_eq!(done(&server.snapshot()), [0; 0]);
    // A second redrive is a newer one.
    assert_eq!(dead(&account).redrive(&Selection::all()).await?.done, 1);
    assert_eq!(worker(&account, true).step().await?, Step::Handled);
    Ok(())
}

#[tokio::test]
async fn an_unwritable_table_leaves_the_message_and_its_verdict() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&job(1, "reject")).await?;
    let refused =
        Fault::on(Operation::Transaction).reject(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH);
    let refused = server.inject(refused);
    assert!(worker(&account, false).step().await.is_err());
    drop(refused);
    let kept = texts(&server.snapshot(), "jobs").remove(0);
    assert!(kept.contains(r#""givenUp":{"cause":"Rejected""#), "{kept}");
    server.clock().advance(LATER);
    assert_eq!(worker(&account, true).step().await?, Step::Poisoned, "it was decided");
    assert_eq!(done(&server.snapshot()), [0; 0]);
    let letter = dead(&account).list(&Selection::all()).try_next().await?.unwrap();
    assert_eq!(letter.reason, "heic is no format");
    Ok(())
}

#[tokio::test]
async fn a_task_put_again_after_a_purge_can_become_a_dead_letter_again() -> TestResult {
    let (server, account) = start().await?;
    for _ in 0..2 {
        tasks(&account).put_with_key("upload-7", &job(7, "panic")).await?;
        assert_eq!(worker(&account, false).step().await?, Step::Poisoned);
        assert_eq!(letters(&server.snapshot()).len(), 1);
        assert_eq!(dead(&account).purge(&Selection::all()).await?.done, 1);
    }
    Ok(())
}
