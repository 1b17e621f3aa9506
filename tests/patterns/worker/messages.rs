//! Messages: as they are written, as others write them, and those that are blobs.

use std::time::Duration;

use rowkey::queue::Body;
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{ErrorKind, Outcome};
use rowkey_emulator::{ErrorCode, Fault, JournalEntry, Operation};
use rowkey_tests::TestResult;
use serde::{Deserialize, Serialize};

use super::{Deed, Resize, claims, done, large, redrive, resize, start, tasks, texts, worker};

#[tokio::test]
async fn a_task_costs_one_request_to_put_and_two_to_process() -> TestResult {
    let (server, account) = start().await?;
    let before = server.journal();
    let id = tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    assert_eq!(server.journal().since(&before).len(), 1);
    assert_eq!(
        texts(&server.snapshot(), "jobs"),
        [format!(r#"{{"kind":"resize","id":"{id}","task":{{"picture":7,"deed":"Succeed"}}}}"#)]
    );

    let before = server.journal();
    assert_eq!(worker(&account).step().await?, Step::Handled);
    let sent = server.journal().since(&before);
    let operations: Vec<_> = sent.iter().map(JournalEntry::operation).collect();
    assert_eq!(
        operations,
        [Operation::GetMessages, Operation::InsertOrReplaceEntity, Operation::DeleteMessage]
    );
    assert_eq!(done(&server.snapshot()), [7]);
    let before = server.journal();
    assert_eq!(worker(&account).step().await?, Step::Idle);
    assert_eq!(server.journal().since(&before).len(), 1);
    Ok(())
}

#[tokio::test]
async fn an_oversized_task_is_in_a_blob_until_it_is_done() -> TestResult {
    let (server, account) = start().await?;
    let task = large(7, Deed::Succeed);
    let before = server.journal();
    let id = tasks(&account).put(&task).await?;
    let text = texts(&server.snapshot(), "jobs").remove(0);
    let name = claims(&account).await?.remove(0);
    let start = format!(r#"{{"kind":"resize","id":"{id}","claim":"{name}","sha256":""#);
    assert!(text.starts_with(&start) && text.len() == start.len() + 66, "{text}");
    assert!(name.len() == "jobs/".len() + 36 && name.starts_with("jobs/"), "{name}");
    let blob = server.snapshot().blob("claims", &name).unwrap();
    assert_eq!(blob, serde_json::to_vec(&task)?);
    assert_eq!(worker(&account).step().await?, Step::Handled);
    assert_eq!(claims(&account).await?, Vec::<String>::new());
    let sent = server.journal().since(&before);
    let operations = sent.iter().map(JournalEntry::operation);
    let operations: Vec<_> =
        operations.filter(|operation| *operation != Operation::ListBlobs).collect();
    assert_eq!(
        operations[..7],
        [
            Operation::PutBlob,
            Operation::PutMessage,
            Operation::GetMessages,
            Operation::GetBlob,
            Operation::InsertOrReplaceEntity,
            Operation::DeleteMessage,
            Operation::DeleteBlob,
        ]
    );
    Ok(())
}

/// Each message has a blob of its own: the task that is done first takes none from the other.
#[tokio::test]
async fn a_task_in_a_blob_that_was_put_twice_under_one_key_makes_no_dead_letter() -> TestResult {
    let (server, account) = start().await?;
    let task = large(7, Deed::Succeed);
    let id = tasks(&account).put_with_key("order-7", &task).await?;
    assert_eq!(tasks(&account).put_with_key("order-7", &task).await?, id);
    let worker = worker(&account);
    let steps = [worker.step().await?, worker.step().await?, worker.step().await?];
    assert_eq!(steps, [Step::Handled, Step::Handled, Step::Idle]);
    assert_eq!(done(&server.snapshot()), [7]);
    assert_eq!(claims(&account).await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn the_limit_for_inline_tasks_accounts_for_base64() -> TestResult {
    let (server, account) = start().await?;
    let plain = tasks(&account);
    let base64 = plain.clone().base64();
    // The envelope takes 94 bytes here, and 4 KiB stay free.
    for (tasks, fits, over) in [(&plain, 61_000, 61_400), (&base64, 45_900, 46_100)] {
        for (pixels, in_blob) in [(fits, false), (over, true)] {
            let task = Resize { pixels: "#".repeat(pixels), ..resize(1, Deed::Succeed) };
            tasks.put(&task).await?;
            assert_eq!(claims(&account).await?.len(), usize::from(in_blob), "{pixels}");
            assert_eq!(worker(&account).step().await?, Step::Handled);
        }
    }
    assert!(server.snapshot().queue("jobs").unwrap().messages().next().is_none());
    Ok(())
}

#[tokio::test]
async fn without_a_container_a_large_task_is_rejected_before_sending() -> TestResult {
    let (server, account) = start().await?;
    let before = server.journal();
    let tasks = Tasks::<Resize>::new(account.queue("jobs"));
    let error = tasks.put(&large(7, Deed::Succeed)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert_eq!(
        error.to_string(),
        "PutTask on jobs: the task is too large for a message, and no container is configured; \
         give these tasks one with `claims`"
    );
    assert_eq!(server.journal().since(&before).len(), 0);
    Ok(())
}

#[tokio::test]
async fn the_blob_is_deleted_after_a_rejected_put_and_kept_after_an_unknown_outcome() -> TestResult
{
    let (server, account) = start().await?;
    let missing =
        Tasks::<Resize>::new(account.queue("nowhere")).claims(account.container("claims"));
    assert!(missing.put(&large(7, Deed::Succeed)).await.unwrap_err().kind() == ErrorKind::NotFound);
    assert_eq!(claims(&account).await?.len(), 0);

    let lost = server.inject(Fault::on(Operation::PutMessage).close_after_commit());
    let error = tasks(&account).put(&large(7, Deed::Succeed)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(claims(&account).await?.len(), 1);
    drop(lost);
    assert_eq!(worker(&account).step().await?, Step::Handled, "it was put");
    assert_eq!(claims(&account).await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn orphaned_blobs_are_swept_by_age_and_those_of_dead_letters_are_kept() -> TestResult {
    let (server, account) = start().await?;
    let tasks = tasks(&account);
    tasks.put(&large(1, Deed::Poison)).await?;
    assert_eq!(worker(&account).step().await?, Step::Poisoned);
    tasks.put(&large(2, Deed::Succeed)).await?;
    tasks.queue().clear().await?;
    account.container("claims").blob("other-queue/x").put("not ours").send().await?;
    let age = Duration::from_secs(300);
    assert_eq!(tasks.sweep_claims(age).await?, 0, "it is young");

    server.clock().advance(age * 2);
    let later = rowkey_tests::sweep::account(&server)?;
    let tasks = super::tasks(&later);
    tasks.put(&large(3, Deed::Succeed)).await?;
    assert_eq!(tasks.sweep_claims(age).await?, 1);
    assert_eq!(
        claims(&later).await?.len(),
        3,
        "the young one, that of the dead letter, the other queue's"
    );
    assert_eq!(worker(&later).step().await?, Step::Handled);
    assert_eq!(redrive(&later).await?, 1);
    assert_eq!(tasks.sweep_claims(age).await?, 0, "it waits for its turn again");
    Ok(())
}

/// What other programs send to the same queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Welcome {
    to: String,
    #[serde(default)]
    language: Option<String>,
}

impl Task for Welcome {
    const KIND: &'static str = "welcome";
}

#[tokio::test]
async fn messages_of_other_languages_are_processed() -> TestResult {
    let (_server, account) = start().await?;
    let tasks = Tasks::<Welcome>::new(account.queue("jobs"));
    for text in [
        // .NET 12 and later: JsonSerializer.Serialize(new { to = "ada" }).
        r#"{"to":"ada"}"#,
        // Python: json.dumps({"kind": "welcome", "task": {"to": "ada", "language": None}}).
        r#"{"kind": "welcome", "task": {"to": "ada", "language": null}}"#,
        // .NET 11 and Azure Functions: base64 of the first.
        "eyJ0byI6ImFkYSJ9",
        // Python: json.dumps with an indent, and base64 of it with a line break at its end.
        "ewogICJ0byI6ICJhZGEiCn0=\n",
        // Properties that are not known.
        r#"{"to":"ada","sentBy":"crm","version":2}"#,
    ] {
        tasks.queue().put(Body::text(text)).send().await?;
        let worker = Worker::new(tasks.clone(), |task: Welcome, attempt: Attempt| async move {
            assert_eq!(task, Welcome { to: "ada".to_owned(), language: None });
            assert!(!attempt.id().is_empty());
            Ok(Done::Applied)
        });
        assert_eq!(worker.step().await?, Step::Handled, "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn base64_tasks_stay_base64_after_a_failure() -> TestResult {
    let (server, account) = start().await?;
    let tasks = tasks(&account).base64();
    tasks.put(&resize(7, Deed::FailFirst)).await?;
    let worker = Worker::new(tasks, super::Resizer(account.table("small")));
    assert_eq!(worker.step().await?, Step::Retried);
    let text = texts(&server.snapshot(), "jobs").remove(0);
    assert!(!text.contains('{'), "{text}");
    server.clock().advance(super::VISIBILITY);
    assert_eq!(worker.step().await?, Step::Handled);
    Ok(())
}

#[tokio::test]
async fn a_task_with_characters_invalid_in_xml_arrives() -> TestResult {
    let (_server, account) = start().await?;
    let tasks = Tasks::<Welcome>::new(account.queue("jobs"));
    let odd = "a\u{0}\u{1f}\u{fffe}\u{ffff}\u{10ffff}\"\\<&>]]>\r\n\tz";
    tasks.put(&Welcome { to: odd.to_owned(), language: None }).await?;
    let worker = Worker::new(tasks, move |task: Welcome, _: Attempt| async move {
        assert_eq!(task.to, odd);
        Ok(Done::Applied)
    });
    assert_eq!(worker.step().await?, Step::Handled);
    Ok(())
}

#[tokio::test]
async fn a_delayed_task_is_not_received_early() -> TestResult {
    let (server, account) = start().await?;
    let later = Duration::from_secs(600);
    tasks(&account).put_after(&resize(7, Deed::Succeed), later).await?;
    assert_eq!(worker(&account).step().await?, Step::Idle);
    server.clock().advance(later);
    assert_eq!(worker(&account).step().await?, Step::Handled);
    Ok(())
}

#[tokio::test]
async fn a_lost_response_to_the_deletion_does_not_repeat_the_task() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let lost = server.inject(Fault::on(Operation::DeleteMessage).times(1).close_after_commit());
    let worker = worker(&account);
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(lost.hits(), 1);
    server.clock().advance(super::VISIBILITY * 2);
    assert_eq!(worker.step().await?, Step::Idle);
    assert_eq!(server.journal().count(Operation::DeleteMessage), 2);
    Ok(())
}

#[tokio::test]
async fn a_message_whose_end_is_unknown_is_redelivered() -> TestResult {
    let (server, account) = start().await?;
    tasks(&account).put(&resize(7, Deed::Succeed)).await?;
    let worker = worker(&account);
    let down =
        server.inject(Fault::on(Operation::DeleteMessage).times(4).reject(ErrorCode::SERVER_BUSY));
    let error = worker.step().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(down.hits(), 4);
    assert_eq!(worker.counts().unknown, 1);
    assert_eq!(done(&server.snapshot()), [7], "its task is done");
    server.clock().advance(super::VISIBILITY * 2);
    assert_eq!(worker.step().await?, Step::Handled, "and done again");
    Ok(())
}
