//! Encrypted tasks: contents of queues, containers and op rows, and rejected messages.

use futures_util::TryStreamExt as _;
use rowkey::worker::dead_letters::{Inspected, Selection};
use rowkey::worker::outbox::Outbox as _;
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey_tests::TestResult;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Discharge {
    patient: String,
    letter: String,
}

impl Task for Discharge {
    const KIND: &'static str = "discharge";
}

fn discharge(length: usize) -> Discharge {
    Discharge { patient: "Ada Lovelace".into(), letter: "Fracture ".repeat(length) }
}

fn tasks(account: &StorageAccount, queue: &str, ring: KeyRing) -> Tasks<Discharge> {
    let tasks = Tasks::new(account.queue(queue)).claims(account.container("letters"));
    tasks.encrypted_with(ring, account.table("patients"))
}

/// Works on one task.
async fn work(tasks: &Tasks<Discharge>, expected: Discharge) -> Result<Step> {
    let worker = Worker::new(tasks.clone(), move |task: Discharge, _: Attempt| {
        let is_it = task == expected;
        async move { Ok(if is_it { Done::Applied } else { Done::Poison("another".into()) }) }
    });
    worker.step().await
}

/// The text of the next message, which shows nothing of a task.
async fn hidden(queue: &rowkey::Queue) -> TestResult<String> {
    let text = queue.peek(1).await?.first().ok_or("no message")?.text().to_owned();
    assert!(!text.contains("\"Ada") && !text.contains("Fracture"), "{text}");
    Ok(text)
}

#[tokio::test]
async fn messages_claims_and_dead_letters_contain_no_plaintext() -> TestResult {
    let (server, account, _patients) = start().await?;
    let tasks = tasks(&account, "letters", ring(26));
    tasks.create_if_missing().await?;
    for length in [1, 20_000] {
        tasks.put(&discharge(length)).await?;
        hidden(tasks.queue()).await?;
        for name in server.snapshot().blobs("letters") {
            let content = server.snapshot().blob("letters", name).ok_or("listed")?;
            assert!(!content.windows(8).any(|part| part == b"Fracture"));
        }
        // It fails for good, is put back, and done: still the same task.
        let poisons = Worker::new(tasks.clone(), |_: Discharge, _: Attempt| async {
            Ok(Done::Poison("not today".into()))
        });
        assert_eq!(poisons.step().await?, Step::Poisoned);
        let dead = tasks.dead_letters();
        let mut export = Vec::new();
        assert_eq!(dead.export(&Selection::all(), &mut export).await?, 1);
        let export = String::from_utf8(export)?;
        assert!(!export.contains("\"Ada") && !export.contains("Fracture"), "{export}");
        for row in server.snapshot().table("deadletters").ok_or("no table")?.entities() {
            let row = format!("{row:?}");
            assert!(!row.contains("\"Ada") && !row.contains("Fracture"), "{row}");
        }
        // A program with the keys reads the task.
        let id = dead.list(&Selection::all()).try_next().await?.ok_or("no letter")?.id;
        let letter = dead.get(&id).await?.ok_or("no letter")?;
        assert_eq!(letter.task, Inspected::Task(discharge(length)));
        assert_eq!(dead.redrive(&Selection::all()).await?.done, 1);
        assert_eq!(work(&tasks, discharge(length)).await?, Step::Handled);
    }
    for name in server.snapshot().blobs("letters") {
        let content = server.snapshot().blob("letters", name).ok_or("listed")?;
        assert!(
            content.is_empty(),
            "the blob of a task that was redriven is emptied, and swept later"
        );
    }
    Ok(())
}

#[tokio::test]
async fn altered_moved_and_plaintext_messages_are_rejected() -> TestResult {
    let (_server, account, _patients) = start().await?;
    let letters = tasks(&account, "letters", ring(26));
    let others = tasks(&account, "others", ring(26));
    letters.create_if_missing().await?;
    others.create_if_missing().await?;
    letters.put(&discharge(1)).await?;
    let text = hidden(letters.queue()).await?;
    assert_eq!(work(&letters, discharge(1)).await?, Step::Handled);

    // A repeated message is the same task, as after a redelivery.
    letters.queue().put(rowkey::queue::Body::text(&*text)).send().await?;
    assert_eq!(work(&letters, discharge(1)).await?, Step::Handled);
    let message: serde_json::Value = serde_json::from_str(&text)?;
    let id = message["id"].as_str().ok_or("an id")?.to_owned();
    let mut wrong = vec![
        (&others, text.clone()),
        (&letters, text.replace(&id, "6f1e1a52-0000-4000-8000-000000000000")),
        (&letters, serde_json::to_string(&discharge(1))?),
    ];
    for field in ["encryption", "key", "content"] {
        let own = message["task"][field].as_str().ok_or("a text")?;
        for at in [0, own.len() / 2, own.len() - 4] {
            let mut altered = own.to_owned();
            let letter = if &own[at..=at] == "B" { "C" } else { "B" };
            altered.replace_range(at..=at, letter);
            wrong.push((&letters, text.replace(own, &altered)));
        }
    }
    for (tasks, text) in wrong {
        tasks.queue().put(rowkey::queue::Body::text(&*text)).send().await?;
        assert_eq!(work(tasks, discharge(1)).await?, Step::Poisoned, "{text}");
    }
    // Those in plain wait for a ring that takes them.
    let accepting = tasks(&account, "letters", ring(26).accept_plaintext());
    let plain = serde_json::to_string(&discharge(1))?;
    accepting.queue().put(rowkey::queue::Body::text(&*plain)).send().await?;
    assert_eq!(work(&accepting, discharge(1)).await?, Step::Handled);
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "bed_{number}")]
struct Bed {
    ward: String,
    number: u32,
}

#[tokio::test]
async fn a_transaction_accepts_only_encrypted_tasks() -> TestResult {
    let (server, account, _patients) = start().await?;
    let tasks = tasks(&account, "letters", ring(26));
    tasks.create_if_missing().await?;
    let beds = Store::<Bed>::builder(account.table("patients")).queue(account.queue("patients"));
    let beds = beds.with(tasks.clone()).build()?;
    let bed = |number| Bed { ward: "north".into(), number };
    let before = server.journal();
    let refused = beds.transaction().insert(&bed(1)).task(&discharge(1)).submit().await;
    let error = refused.unwrap_err();
    assert!(error.to_string().contains("a task in plain"), "{error}");
    assert_eq!(server.journal().since(&before).len(), 0);
    let sealed = tasks.seal(&discharge(1)).await?;
    beds.transaction().insert(&bed(1)).sealed_task(sealed).submit().await?;
    hidden(tasks.queue()).await?;
    assert_eq!(work(&tasks, discharge(1)).await?, Step::Handled);
    // A declaration cannot encrypt, so it would refuse each change.
    let store = Store::<Bed>::builder(account.table("patients")).queue(account.queue("patients"));
    let each = tasks.on_change(|change| change.after.map(|_: &Bed| discharge(1)));
    let refused = store.with(each).build().unwrap_err();
    assert!(refused.to_string().contains("encrypted"), "{refused}");
    let plain = Tasks::<Discharge>::new(account.queue("plain"));
    assert_eq!(plain.seal(&discharge(1)).await.unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}
