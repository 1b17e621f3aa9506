//! The outbox: intents beside what they follow from, messages about them, and what is left of both.

mod faults;
mod model;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowkey::edm::{DateTime, Value};
use rowkey::{
    DynamicEntity, Entity, Error, ErrorCode, ErrorKind, Match, Outcome, Partition, Result,
    StorageAccount, Table,
};
use rowkey_eventual::Task;
use rowkey_eventual::outbox::{Drained, Outbox};
use rowkey_eventual::worker::{Attempt, Done, Handler, Step};
use rowkey_server::{Fault, Operation, Server, Snapshot};
use rowkey_tests::sweep::account;
use rowkey_tests::{Fixture, TestResult};
use serde::{Deserialize, Serialize};

/// What is written.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    name: String,
}

/// What is to be done then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Welcome {
    id: u32,
    text: String,
}

impl Task for Welcome {
    const KIND: &'static str = "welcome";
}

/// That it was done.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "letters", row = "{id:6}", rename_all = "PascalCase")]
struct Letter {
    id: u32,
    text: String,
}

/// Writes letters, which may be done twice.
#[derive(Clone)]
struct Writer(Table);

impl Handler<Welcome> for Writer {
    async fn handle(&self, task: Welcome, _: Attempt) -> Result<Done> {
        self.0.upsert(&Letter { id: task.id, text: task.text }).await?;
        Ok(Done::Applied)
    }
}

fn employee(id: u32) -> Employee {
    Employee { department: "sales".into(), id, name: "Ada".into() }
}

fn welcome(id: u32) -> Welcome {
    Welcome { id, text: format!("welcome, number {id}") }
}

fn outbox(account: &StorageAccount) -> Outbox<Welcome> {
    Outbox::new(account.table("staff"), account.queue("welcome"))
}

fn writer(account: &StorageAccount) -> Writer {
    Writer(account.table("letters"))
}

/// One change and one intent.
async fn hire(outbox: &Outbox<Welcome>, id: u32) -> Result<()> {
    let transaction = outbox.table().transaction().insert(&employee(id));
    outbox.submit(transaction, [&welcome(id)]).await.map(drop)
}

async fn set_up(account: &StorageAccount) -> Result<Outbox<Welcome>> {
    let outbox = outbox(account);
    outbox.table().create().await?;
    outbox.tasks().create_if_missing().await?;
    account.table("letters").create().await?;
    Ok(outbox)
}

async fn start() -> Result<(Server, StorageAccount, Outbox<Welcome>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let outbox = set_up(&account).await?;
    Ok((server, account, outbox))
}

fn rows<E: Entity>(snapshot: &Snapshot, table: &str, head: &str) -> Vec<E> {
    let table = snapshot.table(table).unwrap();
    let read = |row: rowkey_server::StoredEntity<'_>| {
        let mut entity = DynamicEntity::new(row.partition_key(), row.row_key());
        for (name, value) in row.properties() {
            entity.set(name, value);
        }
        entity.read_as().unwrap()
    };
    table.entities().filter(|row| row.row_key().starts_with(head)).map(read).collect()
}

fn intents(snapshot: &Snapshot) -> Vec<DynamicEntity> {
    rows(snapshot, "staff", "outbox_")
}

fn texts(snapshot: &Snapshot, queue: &str) -> Vec<String> {
    let queue = snapshot.queue(queue).unwrap();
    queue.messages().map(|message| message.text().to_owned()).collect()
}

/// Checks that everybody who was hired was welcomed, nobody else was, and nothing is left to do.
fn assert_done(snapshot: &Snapshot) -> Vec<u32> {
    let hired: Vec<Employee> = rows(snapshot, "staff", "id_");
    let letters: Vec<Letter> = rows(snapshot, "letters", "");
    let hired: Vec<_> = hired.iter().map(|employee| employee.id).collect();
    let welcomed: Vec<_> = letters.iter().map(|letter| letter.id).collect();
    assert_eq!(hired, welcomed);
    assert_eq!(intents(snapshot), []);
    assert_eq!(texts(snapshot, "welcome"), [""; 0]);
    assert_eq!(texts(snapshot, "welcome-poison"), [""; 0]);
    hired
}

#[tokio::test]
async fn a_change_is_followed_by_what_it_intends() -> TestResult {
    let fixture = Fixture::new().await?;
    let (name, letters) = (rowkey_tests::unique_name(), fixture.table().await?);
    let outbox = Outbox::<Welcome>::new(fixture.table().await?, fixture.account.queue(&name));
    outbox.tasks().create_if_missing().await?;
    let transaction = outbox.table().transaction().insert(&employee(1)).insert(&employee(2));
    let etags = outbox.submit(transaction, [&welcome(1), &welcome(2)]).await?;
    assert_eq!(etags.iter().flatten().count(), 2, "one for each operation of the caller's");

    let worker = outbox.worker(Writer(letters.clone()));
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(worker.step().await?, Step::Idle);
    for id in [1, 2] {
        assert_eq!(letters.get(Letter::key(id)).await?.unwrap().entity.text, welcome(id).text);
    }
    let left = Partition::<DynamicEntity>::new("sales").prefix("outbox_");
    assert!(outbox.table().query(left).all().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn stored_rows_and_messages_are_these() -> TestResult {
    let (server, _, outbox) = start().await?;
    hire(&outbox, 7).await?;
    let snapshot = server.snapshot();
    let [intent] = &intents(&snapshot)[..] else { panic!("there is one intent") };
    let (ticks, id) = intent.row_key["outbox_".len()..].split_once('_').unwrap();
    let created = DateTime::from_ticks(ticks.parse()?).unwrap();
    assert_eq!(intent.partition_key, "sales");
    assert_eq!((ticks.len(), id.len()), (19, 36));
    assert!(id.parse::<rowkey::edm::Guid>().is_ok());
    let properties: Vec<_> = intent.iter().map(|(name, value)| (name, value.clone())).collect();
    assert_eq!(
        properties,
        [
            ("Created", Value::from(created)),
            ("Kind", "welcome".into()),
            ("Task", r#"{"id":7,"text":"welcome, number 7"}"#.into()),
        ]
    );
    let [text] = &texts(&snapshot, "welcome")[..] else { panic!("there is one message") };
    let mut message: serde_json::Value = serde_json::from_str(text)?;
    message["id"] = "".into();
    let row = &intent.row_key;
    let task = serde_json::json!({"table": "staff", "partitionKey": "sales", "rowKey": row});
    let expected = serde_json::json!({"kind": "welcome", "id": "", "task": task});
    assert_eq!(message, expected);
    Ok(())
}

#[tokio::test]
async fn requests_are_as_many_as_promised() -> TestResult {
    let (server, account, outbox) = start().await?;
    let mut before = server.journal();
    let mut spent = || {
        let journal = server.journal().since(&before);
        before = server.journal();
        let counted: Vec<_> = [
            Operation::Transaction,
            Operation::PutMessage,
            Operation::GetMessages,
            Operation::GetEntity,
            Operation::DeleteEntity,
            Operation::DeleteMessage,
            Operation::QueryEntities,
        ]
        .map(|operation| journal.count(operation))
        .into();
        // What the handler does is not the outbox's.
        (counted, journal.len())
    };
    hire(&outbox, 7).await?;
    assert_eq!(spent(), (vec![1, 1, 0, 0, 0, 0, 0], 2), "submit");
    assert_eq!(outbox.worker(writer(&account)).step().await?, Step::Handled);
    assert_eq!(spent(), (vec![0, 0, 1, 1, 1, 1, 0], 5), "the worker, and one of the handler");
    hire(&outbox, 8).await?;
    hire(&outbox, 9).await?;
    server.clock().advance(Duration::from_secs(60));
    spent();
    let late = rowkey_tests::sweep::account(&server)?;
    let drained = self::outbox(&late).drain(Duration::from_secs(30), writer(&late)).run().await?;
    assert_eq!((drained.found, drained.delivered), (2, 2));
    assert_eq!(spent(), (vec![0, 0, 0, 2, 2, 0, 1], 7), "drain, and two of the handler");
    let in_partition = self::outbox(&late).drain(Duration::ZERO, writer(&late));
    in_partition.partition("sales").run().await?;
    assert_eq!(spent(), (vec![0, 0, 0, 0, 0, 0, 1], 1), "nothing left");
    Ok(())
}

#[tokio::test]
async fn a_message_that_comes_twice_is_handled_once() -> TestResult {
    let (server, account, outbox) = start().await?;
    hire(&outbox, 7).await?;
    let text = texts(&server.snapshot(), "welcome").remove(0);
    let again = rowkey::queue::Body::text(text);
    account.queue("welcome").put(again).send().await?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handled = Arc::clone(&seen);
    let worker = outbox.worker(move |task: Welcome, attempt: Attempt| {
        handled.lock().unwrap().push((task.id, attempt.id().to_owned()));
        async { Ok(Done::Applied) }
    });
    let intent = intents(&server.snapshot()).remove(0);
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(worker.step().await?, Step::Suppressed);
    assert_eq!(worker.step().await?, Step::Idle);
    let seen = seen.lock().unwrap();
    let [(7, id)] = &seen[..] else { panic!("handled once, and not {seen:?}") };
    assert!(intent.row_key.ends_with(id), "an attempt is told apart by the intent");
    Ok(())
}

#[tokio::test]
async fn an_intent_without_a_message_is_found_when_it_is_old() -> TestResult {
    let (server, account, outbox) = start().await?;
    let lost = server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    hire(&outbox, 7).await?;
    assert!(lost.hits() > 0);
    assert_eq!(texts(&server.snapshot(), "welcome"), [""; 0]);
    assert_eq!(outbox.worker(writer(&account)).step().await?, Step::Idle);
    let minute = Duration::from_secs(60);
    let young = outbox.drain(minute, writer(&account)).run().await?;
    assert_eq!(young, Drained::default());
    server.clock().advance(minute + Duration::from_secs(1));
    let later = rowkey_tests::sweep::account(&server)?;
    let drained = self::outbox(&later).drain(minute, writer(&later)).run().await?;
    assert_eq!((drained.found, drained.delivered, drained.failed), (1, 1, 0));
    assert_eq!(assert_done(&server.snapshot()), [7]);
    Ok(())
}

#[tokio::test]
async fn an_intent_that_fails_stays_and_keeps_no_other_from_its_turn() -> TestResult {
    let (server, account, outbox) = start().await?;
    for id in 1..=5 {
        hire(&outbox, id).await?;
    }
    let (three, rest) = (writer(&account), writer(&account));
    let picky = |busy: bool| {
        let writer = three.clone();
        move |task: Welcome, attempt: Attempt| {
            let writer = writer.clone();
            async move {
                match task.id {
                    3 if busy => Err(Error::refused(ErrorKind::Unavailable, "out of paper")),
                    4 if busy => Ok(Done::Poison("who is that".into())),
                    _ => writer.handle(task, attempt).await,
                }
            }
        }
    };
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    server.clock().advance(Duration::from_secs(1));
    let later = rowkey_tests::sweep::account(&server)?;
    let outbox = self::outbox(&later);
    // Page by page, each a new drain that goes on where the one before stood.
    let (mut next, mut pages, mut delivered) = (None, 0, 0);
    loop {
        let tell = Arc::clone(&tell);
        let mut drain = outbox
            .drain(Duration::ZERO, picky(true))
            .page_size(2)
            .failed(move |_, error: &Error| tell.lock().unwrap().push(error.to_string()));
        if let Some(next) = next.take() {
            drain = drain.resume(next);
        }
        assert!(drain.step().await?);
        (pages, delivered) = (pages + 1, delivered + drain.drained().delivered);
        next = drain.checkpoint();
        if next.is_none() {
            assert!(!drain.step().await?, "it has ended");
            break;
        }
    }
    assert_eq!((pages, delivered), (3, 3));
    let told = told.lock().unwrap().concat();
    assert!(told.contains("out of paper") && told.contains("who is that"), "{told}");
    assert_eq!(intents(&server.snapshot()).len(), 2);

    let drained = outbox.drain(Duration::ZERO, picky(false)).run().await?;
    assert_eq!((drained.found, drained.delivered), (2, 2));
    // The messages tell of what has been done.
    let worker = outbox.worker(rest);
    while worker.step().await? != Step::Idle {}
    assert_eq!(worker.counts().suppressed, 5);
    assert_eq!(assert_done(&server.snapshot()), [1, 2, 3, 4, 5]);
    Ok(())
}

#[tokio::test]
async fn a_poisoned_intent_is_put_back_or_drained() -> TestResult {
    let (server, account, outbox) = start().await?;
    hire(&outbox, 7).await?;
    let failing = |_: Welcome, _: Attempt| async {
        Err::<Done, _>(Error::refused(ErrorKind::Unavailable, "out of paper"))
    };
    let worker = outbox.worker(failing).max_attempts(1);
    assert_eq!(worker.step().await?, Step::Poisoned);
    let poisoned = texts(&server.snapshot(), "welcome-poison");
    assert!(poisoned[0].contains("out of paper"), "{poisoned:?}");
    assert_eq!(intents(&server.snapshot()).len(), 1, "the task itself is in the row");
    assert_eq!(outbox.tasks().redrive(10).await?, 1);
    assert_eq!(outbox.worker(writer(&account)).step().await?, Step::Handled);
    assert_eq!(assert_done(&server.snapshot()), [7]);
    Ok(())
}

#[tokio::test]
async fn a_task_of_many_properties_is_read_as_it_was_written() -> TestResult {
    let fixture = Fixture::new().await?;
    let (name, table) = (rowkey_tests::unique_name(), fixture.table().await?);
    let outbox = Outbox::<Welcome>::new(table, fixture.account.queue(&name));
    outbox.tasks().create_if_missing().await?;
    let long = Welcome { id: 7, text: "\u{1F600}x".repeat(30_000) };
    outbox.submit(outbox.table().transaction().insert(&employee(7)), [&long]).await?;
    let rows = Partition::<DynamicEntity>::new("sales").prefix("outbox_");
    let row = outbox.table().query(rows).first().await?.unwrap().entity;
    let names: Vec<_> = row.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Created", "Kind", "Task", "Task2", "Task3"]);
    let seen = Arc::new(Mutex::new(None));
    let handled = Arc::clone(&seen);
    let worker = outbox.worker(move |task: Welcome, _: Attempt| {
        *handled.lock().unwrap() = Some(task);
        async { Ok(Done::Applied) }
    });
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(seen.lock().unwrap().as_ref(), Some(&long));
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_before_anything_is_sent() -> TestResult {
    let (server, _, outbox) = start().await?;
    let before = server.journal();
    let table = outbox.table();
    let empty = outbox.submit(table.transaction(), [&welcome(7)]).await.unwrap_err();
    assert_eq!((empty.kind(), empty.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    let huge = Welcome { id: 7, text: "x".repeat(1 << 20) };
    let refused = outbox.submit(table.transaction().insert(&employee(7)), [&huge]).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert_eq!(server.journal().since(&before).len(), 0);

    // The change that the service refuses leaves no intent and no message.
    hire(&outbox, 7).await?;
    let before = server.journal();
    assert!(hire(&outbox, 7).await.unwrap_err().is_already_exists());
    assert_eq!(server.journal().since(&before).len(), 1);
    assert_eq!(intents(&server.snapshot()).len(), 1);
    Ok(())
}

#[tokio::test]
async fn what_is_no_intent_of_this_outbox_is_poisoned_and_stays() -> TestResult {
    let (server, account, outbox) = start().await?;
    account.table("others").create().await?;
    // Another table whose messages go to the same queue.
    let other = Outbox::<Welcome>::new(account.table("others"), account.queue("welcome"));
    other.submit(other.table().transaction().insert(&employee(1)), [&welcome(1)]).await?;
    // A task that is not what it says, and one of another kind.
    for (id, property, value) in [(2, "Task", "{}"), (3, "Kind", "farewell"), (4, "Created", "now")]
    {
        hire(&outbox, id).await?;
        let task = serde_json::to_string(&welcome(id))?;
        let is_of = |row: &DynamicEntity| row.get("Task") == Some(&task.as_str().into());
        let mut row = intents(&server.snapshot()).into_iter().find(is_of).unwrap();
        row.set(property, value);
        outbox.table().replace((&row, Match::Any)).await?;
    }
    let worker = outbox.worker(writer(&account));
    for _ in 0..4 {
        assert_eq!(worker.step().await?, Step::Poisoned);
    }
    let snapshot = server.snapshot();
    let poisoned = texts(&snapshot, "welcome-poison").concat();
    for reason in ["in another table", "no task of its kind", "another kind", "when it was written"]
    {
        assert!(poisoned.contains(reason), "{reason}: {poisoned}");
    }
    assert_eq!(intents(&snapshot).len(), 3);
    assert_eq!(rows::<DynamicEntity>(&snapshot, "others", "outbox_").len(), 1);
    Ok(())
}

#[tokio::test]
async fn neither_messages_nor_debug_show_what_is_in_an_intent() -> TestResult {
    let (_server, account, outbox) = start().await?;
    hire(&outbox, 7).await?;
    let drain = outbox.drain(Duration::ZERO, writer(&account)).partition("sales");
    let shown = format!("{outbox:?} {drain:?} {:?}", outbox.deliver_to(writer(&account)));
    for secret in ["sales", "number 7", rowkey_server::DEVELOPMENT_KEY] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    Ok(())
}
