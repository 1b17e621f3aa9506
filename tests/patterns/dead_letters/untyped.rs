//! Dead letters in a program without the types of their tasks.

use rowkey::worker::dead_letters::{DeadLetters, Inspected, Selection, count_by_queue};
use rowkey::worker::{AnyTask, Step, Tasks};
use rowkey::{ErrorKind, Outcome, StorageAccount};
use rowkey_tests::TestResult;

use super::{done, job, large, letters, put_aside, start, tasks, texts, worker};

fn any(account: &StorageAccount) -> Tasks<AnyTask> {
    Tasks::new(account.queue("jobs"))
}

fn dead(account: &StorageAccount) -> DeadLetters<AnyTask> {
    any(account).claims(account.container("claims")).dead_letters()
}

#[tokio::test]
async fn a_worker_does_what_such_a_program_redrives() -> TestResult {
    let (server, account) = start().await?;
    for job in [job(1, "error"), large(2)] {
        let id = put_aside(&account, &job).await?;
        let letter = dead(&account).get(&id).await?.ok_or("no letter")?;
        let Inspected::Task(task) = letter.task else { return Err("no task".into()) };
        assert_eq!(task.json(), serde_json::to_string(&job)?);
        assert_eq!(letter.kind.as_deref(), Some("job"));
    }
    assert_eq!(count_by_queue(&account.table("deadletters")).await?["jobs"], 2);
    assert_eq!(dead(&account).redrive(&Selection::all()).await?.done, 2);
    for text in texts(&server.snapshot(), "jobs") {
        assert!(text.starts_with(r#"{"kind":"job","id":""#) && text.contains(r#""redriven":1"#));
    }
    for _ in 0..2 {
        assert_ne!(worker(&account, true).step().await?, Step::Idle);
    }
    assert_eq!(done(&server.snapshot()), [1, 2]);
    assert_eq!(letters(&server.snapshot()), [""; 0]);
    assert!(count_by_queue(&account.table("deadletters")).await?.is_empty());
    Ok(())
}

/// Its container names the blob, and the dead letter is all that names both.
#[tokio::test]
async fn a_task_in_a_blob_keeps_its_dead_letter_without_its_container() -> TestResult {
    let (server, account) = start().await?;
    put_aside(&account, &large(1)).await?;
    let before = letters(&server.snapshot());
    let dead = any(&account).dead_letters();
    for summary in [dead.purge(&Selection::all()).await?, dead.redrive(&Selection::all()).await?] {
        assert_eq!((summary.done, summary.failed), (0, 1));
        assert_eq!(summary.failures[0].error.kind(), ErrorKind::Invalid);
    }
    assert_eq!(letters(&server.snapshot()), before);
    assert!(texts(&server.snapshot(), "jobs").is_empty());
    assert_eq!(tasks(&account).dead_letters().purge(&Selection::all()).await?.done, 1);
    assert_eq!(account.container("claims").blobs().all().await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_task_of_any_kind_is_not_put() -> TestResult {
    let (server, account) = start().await?;
    let task: AnyTask = serde_json::from_str(r#"{"number":1}"#)?;
    let error = any(&account).put(&task).await.err().ok_or("it was put")?;
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(texts(&server.snapshot(), "jobs").is_empty());
    Ok(())
}
