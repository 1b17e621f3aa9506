//! Rows that another program wrote.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use rowkey::{DynamicEntity, Entity, Key};
use rowkey_server::{Fault, Operation};
use rowkey_store::Store;
use rowkey_tests::{TestResult, sweep};

use super::rows::{Order, agreed, order, start, store};

/// Another program writes a head whose index key is too long.
#[tokio::test]
async fn an_index_key_that_cannot_be_is_none() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    // The writer stops after its commit.
    let held = server.inject(Fault::on(Operation::GetEntity).hold());
    {
        let one = order(1);
        let insert = orders.insert(&one);
        select(pin!(insert), pin!(held.wait_until_held())).await;
    }
    drop(held);
    let table = account.table("orders");
    let key = || Key::<DynamicEntity>::new("contoso", "order_0001");
    let mut head = table.get(key()).await?.unwrap().entity;
    head.set("number", "x".repeat(2000));
    head.set("courier", "x".repeat(2000));
    table.upsert(&head).await?;
    for _ in 0..3 {
        server.clock().advance(Duration::from_secs(61));
        let worked = store(&sweep::account(&server)?)?.work_once().await?;
        assert_eq!(worked.failed, 0);
    }
    // Its number is free.
    let two = Order { number: Some("A1".into()), ..order(2) };
    store(&sweep::account(&server)?)?.insert(&two).await?;
    assert!(orders.delete(Order::key("contoso", 1)).await?);
    agreed(&server.snapshot(), true);
    Ok(())
}

/// Another program spoils one head of a transaction.
#[tokio::test]
async fn an_entity_that_cannot_be_read_does_not_hold_up_the_others() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let held = server.inject(Fault::on(Operation::GetEntity).hold());
    let (one, two) = (order(1), order(2));
    {
        let submit = orders.transaction().insert(&one).insert(&two).submit();
        select(pin!(submit), pin!(held.wait_until_held())).await;
    }
    drop(held);
    let mut head = DynamicEntity::new("contoso", "order_0001");
    head.set("cents", "many");
    account.table("orders").upsert(&head).await?;
    server.clock().advance(Duration::from_secs(61));
    store(&sweep::account(&server)?)?.work_once().await?;
    let at = Order::by_courier("kim", "contoso", 2_u32);
    assert!(orders.find(at).await?.is_some(), "the second entity is settled");
    Ok(())
}

/// Two types whose RowKeys begin alike, in partitions of their own, that share a queue.
mod alike {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "users", row = "id_{id}")]
    #[entity(index(name = by_name, partition = "user_{name}", row = "{id}"))]
    pub(super) struct User {
        pub(super) id: u32,
        pub(super) name: String,
    }

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "robots", row = "id_{id}")]
    #[entity(index(name = by_name, partition = "robot_{name}", row = "{id}"))]
    pub(super) struct Robot {
        pub(super) id: u32,
        pub(super) name: String,
    }
}

#[tokio::test]
async fn a_worker_leaves_the_entities_of_another_type_alone() -> TestResult {
    use alike::{Robot, User};
    let (server, account) = start().await?;
    let users =
        Store::<User>::builder(account.table("orders")).queue(account.queue("orders")).build()?;
    let robots =
        Store::<Robot>::builder(account.table("orders")).queue(account.queue("orders")).build()?;
    let held = server.inject(Fault::on(Operation::GetEntity).hold());
    {
        let robot = Robot { id: 1, name: "r2".into() };
        let insert = robots.insert(&robot);
        select(pin!(insert), pin!(held.wait_until_held())).await;
    }
    drop(held);
    server.clock().advance(Duration::from_secs(61));
    users.work_once().await?;
    server.clock().advance(Duration::from_secs(61));
    robots.work_once().await?;
    let found = robots.find(Robot::by_name("r2", 1_u32)).await?;
    assert!(found.is_some(), "the robot is in its index");
    Ok(())
}

/// A guest with an index beside and one elsewhere, whose rows begin alike.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{hotel}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(
    index(name = by_name, row = "name_{name}", many),
    index(name = by_city, partition = "city_{city}", row = "name_{name}", many)
)]
struct Guest {
    hotel: String,
    id: u32,
    name: String,
    city: String,
}

/// Item 7: a repair takes a copy in another partition for one of its own index, by the name that it has.
#[tokio::test]
async fn a_repair_tells_indexes_apart_that_begin_alike() -> TestResult {
    let (server, account) = start().await?;
    let guests =
        Store::<Guest>::builder(account.table("orders")).queue(account.queue("orders")).build()?;
    let (hotel, name, city) = ("north".to_owned(), "King".to_owned(), "Leeds".to_owned());
    guests.insert(&Guest { hotel, id: 7, name, city }).await?;
    let rows = || server.snapshot().table("orders").map(rowkey_server::StoredTable::len);
    assert_eq!(rows(), Some(3));
    let report = guests.repair().run().await?;
    assert_eq!((report.total.drifted(), report.is_clean()), (0, true), "{report:?}");
    assert_eq!((report.part("by_name").right, report.part("by_city").right), (1, 1));
    assert_eq!(rows(), Some(3));
    Ok(())
}

/// Item 6: another program writes a head as a whole. The copy is as it was, and its version is not that of
/// the entity any more.
#[tokio::test]
async fn a_write_after_a_read_through_an_index_is_guarded_by_the_entity() -> TestResult {
    let (_server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let found = orders.find(Order::by_desk("contoso", 1_u32)).await?.unwrap();
    let mut head = DynamicEntity::of_any_size(&order(1))?;
    head.set("badge", "B1");
    account.table("orders").upsert(&head).await?;

    let changed = Order { courier: None, ..found.entity };
    let refused = orders.replace_if(&changed, &found.version).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    let stored = account.table("orders").get(head.key()).await?.unwrap();
    assert_eq!(stored.entity.get("badge"), Some(&"B1".into()));
    Ok(())
}
