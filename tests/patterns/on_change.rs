//! Tasks that changes of entities require: put if the change is committed and only then, by any kind of write.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::stream;
use rowkey::store::{Change, Store};
use rowkey::worker::Tasks;
use rowkey::worker::outbox::Outbox as _;
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Match, Outcome, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{self, sweep_every_way};

use super::outbox::{Price, Tell, agree, price, tasks, tell, told};

/// A task for each price that becomes another one.
fn of(change: Change<'_, Price>) -> Option<Tell> {
    let after = change.after?;
    let is_new = change.before.is_none_or(|before| before.cents != after.cents);
    // The price from before the sweep has no task.
    (is_new && after.cents > 1).then(|| tell(&after.item, after.cents))
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Price>> {
    let builder = Store::builder(account.table("prices")).queue(account.queue("prices"));
    builder.with(tasks(account).on_change(of)).build()
}

async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    store(&account)?.create_if_missing().await?;
    store(&account)?.insert(&price("lamp", 1)).await?;
    Ok((server, account))
}

#[tokio::test]
async fn a_change_and_its_task_are_atomic_after_any_fault() -> TestResult {
    let (server, _) = start().await?;
    let scenario = async |account: &StorageAccount| {
        let prices = store(account)?;
        // Each is tried, even if the one before failed.
        let lamp = prices.update(Price::key("leeds", "lamp"), |price| price.cents = 3).await;
        let chair = prices.upsert(&price("chair", 2)).await;
        let sofas = [price("sofa", 4), price("stool", 5)];
        let loaded = prices.load(stream::iter(sofas)).run().await;
        lamp?;
        chair?;
        loaded.map(drop).map_err(rowkey::Error::from)
    };
    let recover = async |account: &StorageAccount| {
        let prices = store(account)?;
        prices.drain_backlog().await?;
        assert_eq!(prices.work_once().await?.failed, 0);
        assert!(prices.verify().run().await?.is_clean());
        Ok(())
    };
    sweep_every_way(&server, scenario, recover, agree).await
}

#[tokio::test]
async fn writes_that_change_nothing_put_no_task() -> TestResult {
    let (server, account) = start().await?;
    let prices = store(&account)?;
    let before = server.journal();
    prices.update(Price::key("leeds", "lamp"), |price| price.cents = 3).await?;
    // The read, the message of the operation, the transaction, the task, the op row, the message.
    assert_eq!(server.journal().since(&before).len(), 6);
    let first = told(&server.snapshot());
    assert_eq!(first.len(), 1);

    prices.update(Price::key("leeds", "lamp"), |price| price.cents = 3).await?;
    prices.rewrite(Price::key("leeds", "lamp")).await?;
    let copy = Key::<DynamicEntity>::new("leeds", "cents_0000000003_price_lamp");
    prices.table().delete(copy, Match::Any).await?;
    assert_eq!(prices.repair().run().await?.total.repaired, 1);
    prices.delete(Price::key("leeds", "lamp")).await?;
    assert_eq!(told(&server.snapshot()), first);
    Ok(())
}

#[tokio::test]
async fn transactions_may_add_other_tasks() -> TestResult {
    let (server, account) = start().await?;
    let (chair, other) = (price("chair", 2), tell("sofa", 9));
    store(&account)?.transaction().insert(&chair).task(&other).submit().await?;
    let mut items: Vec<_> =
        told(&server.snapshot()).into_iter().map(|(_, task)| task.item).collect();
    items.sort();
    assert_eq!(items, ["chair", "sofa"]);
    Ok(())
}

#[tokio::test]
async fn a_task_that_its_queue_cannot_accept_refuses_the_change() -> TestResult {
    let (server, account) = start().await?;
    // Without a container for claims.
    let tells = Tasks::<Tell>::new(account.queue("tells"));
    let large = |change: Change<'_, Price>| {
        change.after.map(|after| Tell { text: "x".repeat(64_000), ..tell(&after.item, 2) })
    };
    let prices = Store::builder(account.table("prices")).queue(account.queue("prices"));
    let prices = prices.with(tells.on_change(large)).build()?;
    let before = server.journal();
    let refused = prices.insert(&price("chair", 2)).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert!(refused.to_string().contains("`claims`"), "{refused}");
    assert_eq!(server.journal().since(&before).len(), 0);
    Ok(())
}

/// A price that is valid for a time.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{shop}", row = "offer_{item}")]
struct Offer {
    shop: String,
    item: String,
    #[entity(expiry)]
    until: DateTime<Utc>,
}

#[tokio::test]
async fn an_entity_that_replaces_an_expired_one_has_its_task() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let (account, clock) = sweep::waiting(&server)?;
    let new = |change: Change<'_, Offer>| {
        let after = change.after.filter(|_| change.before.is_none())?;
        Some(tell(&after.item, 1))
    };
    let offers = Store::builder(account.table("offers")).queue(account.queue("offers"));
    let offers = offers.with(tasks(&account).on_change(new)).build()?;
    offers.create_if_missing().await?;
    let offer = |until| Offer { shop: "leeds".into(), item: "lamp".into(), until };
    let now = || rowkey::Clock::now(&clock);
    offers.insert(&offer(now() + Duration::from_secs(60))).await?;
    server.clock().advance(Duration::from_secs(60));
    clock.advance(Duration::from_secs(60));
    offers.insert(&offer(now() + Duration::from_secs(60))).await?;
    assert_eq!(told(&server.snapshot()).len(), 2);
    Ok(())
}

/// Each of more tasks than an op row has room for is put, with its change.
#[tokio::test]
async fn a_load_with_large_tasks_is_split() -> TestResult {
    let (server, account) = start().await?;
    let large = |change: Change<'_, Price>| {
        change.after.map(|after| Tell { text: "x".repeat(30_000), ..tell(&after.item, 2) })
    };
    let prices = Store::builder(account.table("prices")).queue(account.queue("prices"));
    let prices = prices.with(tasks(&account).on_change(large)).build()?;
    let all = (0..40).map(|item| price(&format!("item{item}"), 2));
    let report = prices.load(stream::iter(all)).run().await?;
    assert_eq!((report.total.right, report.total.failed), (40, 0));
    assert_eq!(told(&server.snapshot()).len(), 40);
    Ok(())
}
