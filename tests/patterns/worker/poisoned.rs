//! Poisoned tasks: retries, dead letters with reason and history, and redrives.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::{Either, select};
use rowkey::queue::Body;
use rowkey::worker::Step;
use rowkey::worker::dead_letters::{Cause, Inspected, Selection};
use rowkey::{ErrorKind, StorageAccount};
use rowkey_emulator::{Fault, JournalEntry, Operation, Server};
use rowkey_tests::TestResult;
use serde_json::Value;

use super::{Deed, VISIBILITY, done, large, letters, redrive, resize, start, tasks, texts, worker};

/// Longer than anything is hidden, and not so long that requests are too old.
const LONG: Duration = Duration::from_secs(200);

#[tokio::test]
async fn a_failed_task_waits_longer_each_time_and_keeps_its_history() -> TestResult {
    let (server, account) = start().await?;
    let id = tasks(&account).put(&resize(7, Deed::Fail)).await?;
    let worker = worker(&account).max_attempts(4);
    for (attempt, longest) in [(1, 2), (2, 4), (3, 8)] {
        assert_eq!(worker.step().await?, Step::Retried);
        let now = server.clock().now().to_chrono();
        let snapshot = server.snapshot();
        let message = snapshot.queue("jobs").unwrap().messages().next().unwrap();
        let hidden = (message.visible_at().to_chrono() - now).num_seconds();
        assert!((longest / 2..=longest).contains(&hidden), "{attempt}: {hidden}");
        let text: Value = serde_json::from_str(message.text())?;
        assert_eq!(text["id"], id.to_string());
        assert_eq!(text["history"].as_array().unwrap().len(), attempt);
        assert_eq!(text["history"][0]["error"], "the resizer is down; try again later");
        server.clock().advance(Duration::from_secs(8));
    }
    assert_eq!(worker.step().await?, Step::Poisoned);
    assert_eq!(texts(&server.snapshot(), "jobs").len(), 0);
    let counts = worker.counts();
    assert_eq!((counts.retried, counts.poisoned, counts.handled), (3, 1, 0));
    Ok(())
}

#[tokio::test]
async fn a_dead_letter_contains_task_reason_attempts_and_times() -> TestResult {
    let (server, account) = start().await?;
    let put = server.clock().now().to_chrono();
    let id = tasks(&account).put(&resize(7, Deed::Fail)).await?;
    let worker = worker(&account).max_attempts(2);
    assert_eq!(worker.step().await?, Step::Retried);
    server.clock().advance(LONG);
    assert_eq!(worker.step().await?, Step::Poisoned);
    let letter = tasks(&account).dead_letters().get(&id.to_string()).await?.unwrap();
    assert_eq!((&*letter.id, &*letter.queue), (&*id.to_string(), "jobs"));
    assert_eq!(letter.kind.as_deref(), Some("resize"));
    assert_eq!(letter.cause, Cause::Error(ErrorKind::Unexpected));
    assert_eq!(letter.reason, "the resizer is down; try again later");
    assert_eq!((letter.attempts, letter.redriven), (2, 0));
    assert_eq!(letter.first_seen.map(|time| time.timestamp()), Some(put.timestamp()));
    assert_eq!(letter.task, Inspected::Task(resize(7, Deed::Fail)));
    let errors: Vec<_> = letter.history.iter().map(|failure| &*failure.error).collect();
    assert_eq!(errors, ["the resizer is down; try again later"; 2]);
    assert!(letter.history.iter().all(|failure| failure.cause.as_deref() == Some("Unexpected")));
    Ok(())
}

#[tokio::test]
async fn a_handler_can_reject_a_task_permanently() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Poison)).await?;
    let before = server.journal();
    assert_eq!(worker(&account).step().await?, Step::Poisoned);
    let sent = server.journal().since(&before);
    let operations: Vec<_> = sent.iter().map(JournalEntry::operation).collect();
    assert_eq!(
        operations,
        [
            Operation::GetMessages,
            Operation::UpdateMessage,
            Operation::Transaction,
            Operation::DeleteMessage
        ]
    );
    let letter = letters(&server.snapshot()).remove(0);
    assert_eq!(
        (&letter["reason"], &letter["cause"]),
        (&"it is no picture".into(), &"Rejected".into())
    );
    Ok(())
}

#[tokio::test]
async fn a_missing_table_is_created() -> TestResult {
    let (server, account) = start().await?;
    account.table("deadletters").delete_table().await?;
    server.clock().advance(LONG);
    tasks(&account).put(&resize(7, Deed::Poison)).await?;
    assert_eq!(redrive(&account).await?, 0);
    assert_eq!(worker(&account).step().await?, Step::Poisoned);
    assert_eq!(letters(&server.snapshot()).len(), 1);
    Ok(())
}

#[tokio::test]
async fn an_unreadable_message_is_kept_and_redriven_unchanged() -> TestResult {
    let (server, account) = start().await?;
    let tasks = tasks(&account);
    for (text, reason) in [
        ("resize picture 7", "its text is neither JSON nor JSON in base64"),
        (r#"{"kind":"crop","task":{"picture":7}}"#, "its kind is not `resize`"),
        (r#"{"picture":"seven"}"#, "it is not a task `resize`: see line 1, column 18 of its JSON"),
    ] {
        tasks.queue().put(Body::text(text)).send().await?;
        assert_eq!(worker(&account).step().await?, Step::Poisoned, "{text}");
        let kept = tasks.dead_letters().list(&Selection::all()).try_next().await?.unwrap();
        assert_eq!((&*kept.reason, kept.cause), (reason, Cause::Unreadable));
        let is_task = text.contains("seven");
        let Inspected::Unreadable { text: kept, .. } = kept.task else { panic!("it is a task") };
        assert_eq!(kept, text);
        assert_eq!(redrive(&account).await?, 1);
        let back = texts(&server.snapshot(), "jobs").remove(0);
        assert!(back == text || is_task && back.contains(text), "{back}");
        assert_eq!(worker(&account).step().await?, Step::Poisoned, "{text}");
        assert_eq!(tasks.dead_letters().purge(&Selection::all()).await?.done, 1);
    }
    Ok(())
}

#[tokio::test]
async fn the_longest_message_is_kept_in_full_with_its_reason() -> TestResult {
    let (server, account) = start().await?;
    let tasks = tasks(&account);
    let text = "?".repeat(64 * 1024);
    tasks.queue().put(Body::text(&text)).send().await?;
    assert_eq!(worker(&account).step().await?, Step::Poisoned);
    let kept = letters(&server.snapshot()).remove(0);
    assert_eq!((&kept["text"], &kept["cause"]), (&(&*text).into(), &"Unreadable".into()));
    assert_eq!(redrive(&account).await?, 1);
    assert_eq!(texts(&server.snapshot(), "jobs"), [text]);
    Ok(())
}

/// Stops a worker while it processes a task.
pub(super) async fn die(server: &Server, account: &StorageAccount) {
    let held = server.inject(Fault::on(Operation::InsertOrReplaceEntity).hold());
    let worker = worker(account).max_attempts(3);
    let (step, held) = (pin!(worker.step()), pin!(held.wait_until_held()));
    // The worker is dropped with its running tasks.
    assert!(matches!(select(held, step).await, Either::Left(_)));
    server.clock().advance(VISIBILITY);
}

#[tokio::test]
async fn a_task_whose_workers_died_is_tried_alone_before_it_becomes_a_dead_letter() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    for _ in 0..3 {
        die(&server, &account).await;
    }
    assert_eq!(worker(&account).max_attempts(3).step().await?, Step::Handled);

    tasks(&account).put(&resize(8, Deed::Succeed)).await?;
    for _ in 0..4 {
        die(&server, &account).await;
    }
    let before = server.journal();
    assert_eq!(worker(&account).max_attempts(3).step().await?, Step::Poisoned);
    let sent = server.journal().since(&before);
    assert_eq!(sent.count(Operation::InsertOrReplaceEntity), 0);
    let letter = letters(&server.snapshot()).remove(0);
    assert_eq!(letter["cause"], "UnknownEnd");
    assert_eq!(
        letter["reason"],
        "it was received 5 times and never completed, even when tried alone"
    );
    Ok(())
}

#[tokio::test]
async fn redriven_tasks_have_the_attempts_of_new_ones_and_keep_their_history() -> TestResult {
    let (server, account) = start().await?;
    let tasks = tasks(&account);
    let id = tasks.put(&resize(7, Deed::FailFirst)).await?;
    let hasty = worker(&account).max_attempts(1);
    assert_eq!(hasty.step().await?, Step::Poisoned);
    server.clock().advance(LONG);
    assert_eq!(redrive(&account).await?, 1);
    assert_eq!(letters(&server.snapshot()).len(), 0);
    let text: Value = serde_json::from_str(&texts(&server.snapshot(), "jobs")[0])?;
    assert_eq!(text["id"], id.to_string());
    assert_eq!(text["history"].as_array().unwrap().len(), 1);
    assert!(text["firstSeen"].is_string() && text.get("attempts").is_none());
    assert_eq!(text["redriven"], 1);
    let patient = worker(&account);
    assert_eq!(patient.step().await?, Step::Retried);
    server.clock().advance(LONG);
    assert_eq!(patient.step().await?, Step::Handled);
    assert_eq!(done(&server.snapshot()), [7]);
    Ok(())
}

#[tokio::test]
async fn a_redriven_task_in_a_blob_can_succeed() -> TestResult {
    let (server, account) = start().await?;
    let tasks = tasks(&account);
    tasks.put(&large(7, Deed::FailFirst)).await?;
    assert_eq!(worker(&account).max_attempts(1).step().await?, Step::Poisoned);
    assert_eq!(redrive(&account).await?, 1);
    assert_eq!(worker(&account).step().await?, Step::Retried);
    server.clock().advance(LONG);
    assert_eq!(worker(&account).step().await?, Step::Handled);
    server.clock().advance(LONG);
    let later = super::tasks(&rowkey_tests::sweep::account(&server)?);
    assert_eq!(later.sweep_claims(VISIBILITY).await?, 1, "empty: the task was done");
    Ok(())
}

#[tokio::test]
async fn a_task_redriven_twice_is_done_once() -> TestResult {
    let (server, account) = start().await?;
    let tasks = tasks(&account);
    tasks.put(&large(7, Deed::FailFirst)).await?;
    assert_eq!(worker(&account).max_attempts(1).step().await?, Step::Poisoned);
    let lost = server.inject(Fault::on(Operation::Transaction).close_before_commit());
    assert!(redrive(&account).await.is_err());
    drop(lost);
    assert_eq!(redrive(&account).await?, 1);
    assert_eq!(texts(&server.snapshot(), "jobs").len(), 2);
    let worker = worker(&account);
    assert_eq!(worker.step().await?, Step::Retried);
    server.clock().advance(LONG);
    let steps = [worker.step().await?, worker.step().await?];
    assert!(steps.contains(&Step::Handled) && steps.contains(&Step::Suppressed), "{steps:?}");
    assert_eq!(worker.step().await?, Step::Idle);
    assert_eq!(letters(&server.snapshot()).len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_task_with_a_missing_or_wrong_blob_becomes_a_dead_letter_with_that_reason() -> TestResult
{
    let (server, account) = start().await?;
    let tasks = tasks(&account);
    for (changed, reason) in [
        (false, "the blob with its task is gone"),
        (
            true,
            "GetTask on claims: the blob with the task is not the one that the message names; \
             send or read it again",
        ),
    ] {
        tasks.put(&large(7, Deed::Succeed)).await?;
        let name = texts(&server.snapshot(), "jobs").remove(0);
        let name: Value = serde_json::from_str(&name)?;
        let name = name["claim"].as_str().ok_or("no claim")?;
        let blob = account.container("claims").blob(name);
        if changed {
            blob.put(r#"{"picture":8,"deed":"Succeed"}"#).send().await?;
        } else {
            blob.delete().await?;
        }
        assert_eq!(worker(&account).max_attempts(1).step().await?, Step::Poisoned);
        let kept = letters(&server.snapshot());
        let kept = kept.iter().find(|letter| letter["claim"] == name).unwrap();
        assert_eq!(kept["reason"], reason);
    }
    assert_eq!(done(&server.snapshot()), [0; 0]);
    Ok(())
}
