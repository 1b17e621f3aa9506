//! Tasks of transactions: put if the transaction is committed and only then, through every failure.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::select;
use rowkey::store::{Settled, Store, Version};
use rowkey::worker::outbox::Outbox as _;
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{ClientOptions, DynamicEntity, Entity, ErrorKind, Outcome, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{self, once, stopped_at_every_request, sweep};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{shop}", row = "price_{item}")]
#[entity(index(name = by_cents, row = "cents_{cents}", many))]
pub(crate) struct Price {
    pub(crate) shop: String,
    pub(crate) item: String,
    pub(crate) cents: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tell {
    pub(crate) item: String,
    pub(crate) cents: u32,
    #[serde(default)]
    pub(crate) text: String,
}

impl Task for Tell {
    const KIND: &'static str = "tell";
}

pub(crate) fn price(item: &str, cents: u32) -> Price {
    Price { shop: "leeds".into(), item: item.into(), cents }
}

pub(crate) fn tell(item: &str, cents: u32) -> Tell {
    Tell { item: item.into(), cents, text: String::new() }
}

pub(crate) fn tasks(account: &StorageAccount) -> Tasks<Tell> {
    Tasks::new(account.queue("tells")).claims(account.container("tells"))
}

pub(crate) fn store(account: &StorageAccount) -> Result<Store<Price>, rowkey::Error> {
    let builder = Store::builder(account.table("prices")).queue(account.queue("prices"));
    builder.with(tasks(account)).build()
}

async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    store(&account)?.create_if_missing().await?;
    tasks(&account).create_if_missing().await?;
    Ok((server, account))
}

async fn set(prices: &Store<Price>, item: &str, cents: u32) -> rowkey::Result<Settled> {
    let (price, tell) = (price(item, cents), tell(item, cents));
    let transaction = match prices.get(Price::key("leeds", item)).await? {
        Some(found) => prices.transaction().replace_if(&price, found.version),
        None => prices.transaction().insert(&price),
    };
    transaction.task(&tell).submit().await.map(|submitted| submitted.settled)
}

async fn scenario(account: &StorageAccount) -> rowkey::Result<()> {
    let prices = store(account)?;
    // Each is tried, even if the one before failed.
    let results = [
        set(&prices, "chair", 2).await,
        set(&prices, "lamp", 3).await,
        set(&prices, "sofa", 4).await,
    ];
    results.into_iter().collect::<rowkey::Result<Vec<_>>>().map(drop)
}

/// The ids and the tasks of the messages.
pub(crate) fn told(snapshot: &Snapshot) -> Vec<(String, Tell)> {
    #[derive(Deserialize)]
    struct Envelope {
        id: String,
        task: Tell,
    }
    let queue = snapshot.queue("tells").unwrap();
    let read = |text: &str| serde_json::from_str::<Envelope>(text).unwrap();
    let all = queue.messages().map(|message| read(message.text()));
    all.map(|envelope| (envelope.id, envelope.task)).collect()
}

fn op_rows(snapshot: &Snapshot) -> usize {
    let rows = snapshot.table("prices").unwrap();
    rows.entities().filter(|row| row.row_key().starts_with("op_")).count()
}

/// A task for each price that was set, and for no other. (The sofa had a price before, so each stored one
/// was set.)
pub(crate) fn agree(snapshot: &Snapshot) {
    let rows = snapshot.table("prices").unwrap();
    let prices: BTreeSet<String> = rows
        .entities()
        .filter(|row| row.row_key().starts_with("price_"))
        .map(|row| format!("{} {:?}", row.row_key(), row.get("cents").unwrap()))
        .filter(|price| *price != "price_lamp Int64(1)")
        .collect();
    let mut ids = BTreeMap::new();
    let mut told_of = BTreeSet::new();
    for (id, task) in told(snapshot) {
        told_of.insert(format!("price_{} Int64({})", task.item, task.cents));
        let other = ids.entry(task.item).or_insert_with(|| id.clone());
        assert_eq!(*other, id, "a repetition has the id of the first message");
    }
    assert_eq!(told_of, prices);
}

async fn recover(account: &StorageAccount) -> TestResult {
    let prices = store(account)?;
    prices.drain_backlog().await?;
    assert_eq!(prices.work_once().await?.failed, 0);
    assert!(prices.verify().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn a_transaction_and_its_tasks_are_atomic() -> TestResult {
    let (server, account) = start().await?;
    store(&account)?.insert(&price("lamp", 1)).await?;
    let invariants = |snapshot: &Snapshot, _: &_| agree(snapshot);
    let recovered = async |account: &StorageAccount, _: &_| recover(account).await;
    sweep(&server, scenario, recovered, invariants).await?;
    let unrepeated = async |account: &StorageAccount| scenario(&once(account)).await;
    sweep(&server, unrepeated, recovered, invariants).await?;
    stopped_at_every_request(&server, scenario, recover, agree).await?;
    Ok(())
}

#[tokio::test]
async fn a_lagging_secondary_loses_no_task() -> TestResult {
    let (server, account) = start().await?;
    store(&account)?.insert(&price("lamp", 1)).await?;
    let lagging = |account: &StorageAccount| {
        let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
        account.with_options(options)
    };
    let _behind = server.hold_back_secondary();
    let scenario = async |account: &StorageAccount| {
        let prices = store(&lagging(account))?;
        let (price, tell) = (price("sofa", 4), tell("sofa", 4));
        prices.transaction().insert(&price).task(&tell).submit().await.map(drop)
    };
    let recovered = async |account: &StorageAccount, _: &_| recover(&lagging(account)).await;
    sweep(&server, scenario, recovered, |snapshot, _| agree(snapshot)).await?;
    Ok(())
}

#[tokio::test]
async fn a_write_with_a_task_takes_five_requests() -> TestResult {
    let (server, account) = start().await?;
    let prices = store(&account)?;
    let (price, tell) = (price("lamp", 1), tell("lamp", 1));
    let transaction = prices.transaction().insert(&price).task(&tell);
    let plan = transaction.explain().await?;
    let before = server.journal();
    assert_eq!(transaction.submit().await?.settled, Settled::Done);
    // The message of the operation, the transaction, the task, the op row, the message.
    assert_eq!(server.journal().since(&before).len(), 5);
    assert!(plan.requests() >= 5 && plan.operations() == 3, "{plan}");
    assert_eq!(told(&server.snapshot()).len(), 1);
    assert_eq!(op_rows(&server.snapshot()), 0);
    Ok(())
}

#[tokio::test]
async fn a_task_is_put_once_if_the_caller_is_dropped_after_the_commit() -> TestResult {
    let (server, account) = start().await?;
    let prices = store(&account)?;
    let (price, tell) = (price("lamp", 1), tell("lamp", 1));
    let held = server.inject(Fault::on(Operation::PutMessage).nth(2).hold());
    {
        let submit = prices.transaction().insert(&price).task(&tell).submit();
        select(pin!(submit), pin!(held.wait_until_held())).await;
    }
    held.discard();
    server.clock().advance(Duration::from_secs(61));
    recover(&sweep::account(&server)?).await?;
    let first = told(&server.snapshot());
    assert_eq!(first.len(), 1);
    assert_eq!(op_rows(&server.snapshot()), 1, "a late request has to meet it");
    // When nothing can land any more the rest is settled again, and the task is not put again.
    for _ in 0..3 {
        server.clock().advance(Duration::from_secs(2500));
        recover(&sweep::account(&server)?).await?;
    }
    assert_eq!(told(&server.snapshot()), first);
    assert_eq!(op_rows(&server.snapshot()), 0);
    Ok(())
}

#[tokio::test]
async fn an_unavailable_queue_delays_no_write_and_loses_no_task() -> TestResult {
    let (server, account) = start().await?;
    let prices = store(&account)?;
    let down = server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    assert_eq!(set(&prices, "lamp", 5).await?, Settled::Pending);
    assert_eq!(down.hits(), 2, "the operation's message, and the task");
    assert_eq!(set(&prices, "chair", 2).await?, Settled::Pending);
    assert_eq!(down.hits(), 2, "for a while the queues are left alone");
    drop(down);
    server.clock().advance(Duration::from_secs(61));
    recover(&sweep::account(&server)?).await?;
    agree(&server.snapshot());
    assert_eq!(told(&server.snapshot()).len(), 2);
    Ok(())
}

#[tokio::test]
async fn an_oversized_task_is_sent_in_a_blob() -> TestResult {
    let (_server, account) = start().await?;
    let prices = store(&account)?;
    let large = Tell { text: "\u{1F600}\"".repeat(80_000), ..tell("lamp", 1) };
    let price = price("lamp", 1);
    prices.transaction().insert(&price).task(&large).submit().await?;
    let container = account.container("tells");
    let blobs = async || container.blobs().stream().try_collect::<Vec<_>>().await.unwrap().len();
    assert_eq!(blobs().await, 1);
    // A transaction that is refused leaves no blob.
    let refused = prices.transaction().insert(&price).task(&large).submit().await;
    assert!(refused.unwrap_err().kind() == ErrorKind::AlreadyExists);
    assert_eq!(blobs().await, 1);
    let expected = large.clone();
    let worker = Worker::new(tasks(&account), move |task: Tell, attempt: Attempt| {
        assert!(task == expected && attempt.id().len() == 36);
        async { Ok(Done::Applied) }
    });
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(worker.step().await?, Step::Idle);
    assert_eq!(blobs().await, 0);
    Ok(())
}

#[tokio::test]
async fn an_invalid_task_is_rejected_before_sending() -> TestResult {
    #[derive(Serialize, Deserialize)]
    struct Other;
    impl Task for Other {
        const KIND: &'static str = "other";
    }
    let (server, account) = start().await?;
    let prices = store(&account)?;
    let price = price("lamp", 1);
    let before = server.journal();
    let refused = prices.transaction().insert(&price).task(&Other).submit().await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(refused.to_string().contains("`other`"), "{refused}");
    let large = Tell { text: "x".repeat(600_000), ..tell("lamp", 1) };
    let refused = prices.transaction().insert(&price).task(&large).submit().await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    let without = Tasks::<Tell>::new(account.queue("tells"));
    let builder = Store::<Price>::builder(account.table("prices")).queue(account.queue("prices"));
    let without = builder.with(without).build()?;
    let large = Tell { text: "x".repeat(64_000), ..tell("lamp", 1) };
    let refused = without.transaction().insert(&price).task(&large).submit().await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert!(refused.to_string().contains("`claims`"), "{refused}");
    assert_eq!(server.journal().since(&before).len(), 0);
    Ok(())
}

#[tokio::test]
async fn tasks_require_a_queue_in_a_store_without_remote_rows() -> TestResult {
    let (_server, account) = start().await?;
    let refused = Store::<Price>::builder(account.table("prices")).with(tasks(&account));
    assert_eq!(refused.build().unwrap_err().kind(), ErrorKind::Invalid);
    // A row of a plain type is enough of a transaction.
    let note = DynamicEntity::new("leeds", "note");
    let tell = tell("note", 1);
    store(&account)?.transaction().row(&note).task(&tell).submit().await?;
    assert_eq!(tasks(&account).queue().peek(32).await?.len(), 1);
    Ok(())
}

/// Takes a price off the shelf, if it is still the one that the task was made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TakeOff {
    item: String,
    version: Version,
}

impl Task for TakeOff {
    const KIND: &'static str = "take-off";
}

#[tokio::test]
async fn a_task_for_one_version_does_not_change_a_later_one() -> TestResult {
    let (_server, account) = start().await?;
    let prices = store(&account)?;
    let take_off = Tasks::<TakeOff>::new(account.queue("take-off"));
    take_off.create_if_missing().await?;
    for item in ["chair", "lamp"] {
        let version = prices.insert(&price(item, 2)).await?.version;
        take_off.put(&TakeOff { item: item.into(), version }).await?;
    }
    // The lamp gets another price before its task is done, the chair a new one after.
    prices.update(Price::key("leeds", "lamp"), |price| price.cents = 3).await?;
    let worker = Worker::new(take_off.clone(), {
        let prices = prices.clone();
        move |task: TakeOff, _: Attempt| {
            let prices = prices.clone();
            async move {
                let key = Price::key("leeds", &task.item);
                match prices.transaction().delete_if(&key, task.version).submit().await {
                    Ok(_) => Ok(Done::Applied),
                    Err(error)
                        if error.kind() == ErrorKind::Conflict
                            || error.kind() == ErrorKind::NotFound =>
                    {
                        Ok(Done::AlreadyApplied)
                    }
                    Err(error) => Err(error),
                }
            }
        }
    });
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(worker.step().await?, Step::Suppressed);
    let left = async |item| prices.get(Price::key("leeds", item)).await;
    assert!(left("chair").await?.is_none());
    assert_eq!(left("lamp").await?.ok_or("no lamp")?.entity.cents, 3);
    Ok(())
}
