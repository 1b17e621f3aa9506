//! Rows that another program wrote.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use rowkey::store::{Store, Version};
use rowkey::{DynamicEntity, Entity, Key};
use rowkey_emulator::{Fault, Operation};
use rowkey_tests::{TestResult, sweep};

use super::rows::{Order, agreed, order, start, store};

/// Another program writes a head whose index key is too long.
#[tokio::test]
async fn an_entity_with_an_invalid_index_key_is_not_indexed() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    // The writer stops after its commit.
    let held = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    {
        let one = order(1);
        let insert = orders.insert(&one);
        select(pin!(insert), pin!(held.wait_until_held())).await;
    }
    held.discard();
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
async fn an_undecodable_entity_does_not_block_others() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    let (one, two) = (order(1), order(2));
    {
        let submit = orders.transaction().insert(&one).insert(&two).submit();
        select(pin!(submit), pin!(held.wait_until_held())).await;
    }
    held.discard();
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
async fn a_worker_ignores_entities_of_another_type() -> TestResult {
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
    held.discard();
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
async fn a_repair_distinguishes_indexes_with_a_common_prefix() -> TestResult {
    let (server, account) = start().await?;
    let guests =
        Store::<Guest>::builder(account.table("orders")).queue(account.queue("orders")).build()?;
    let (hotel, name, city) = ("north".to_owned(), "King".to_owned(), "Leeds".to_owned());
    guests.insert(&Guest { hotel, id: 7, name, city }).await?;
    let rows = || server.snapshot().table("orders").map(rowkey_emulator::StoredTable::len);
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
    assert!(refused.kind() == rowkey::ErrorKind::Conflict, "{refused}");
    let stored = account.table("orders").get(head.key()).await?.unwrap();
    assert_eq!(stored.entity.get("badge"), Some(&"B1".into()));
    Ok(())
}

/// The order as another program writes it, and that program's own row where the copy by desk belongs.
async fn written_by_another_program(table: &rowkey::Table) -> Result<DynamicEntity, rowkey::Error> {
    let mut head = DynamicEntity::of(&order(1))?;
    head.set("number", "none");
    table.insert(&head).await?;
    let mut row = DynamicEntity::new("contoso", "desk_0000000001");
    row.set("Furniture", "oak");
    table.insert(&row).await?;
    Ok(row)
}

/// Nothing says that a store wrote the entity, so nothing says whose the row at the key of its copy is.
#[tokio::test]
async fn a_row_of_another_program_where_a_copy_belongs_is_neither_replaced_nor_deleted()
-> TestResult {
    let (_server, account) = start().await?;
    let (orders, table) = (store(&account)?, account.table("orders"));
    let row = written_by_another_program(&table).await?;
    let stored = async || table.get(row.key()).await.map(|row| row.map(|row| row.entity));
    let key = || Order::key("contoso", 1);

    let error = orders.update(key(), |order| order.cents = 7).await.unwrap_err();
    assert_eq!(error.details().index, Some("by_desk"), "{error}");
    assert!(!error.to_string().contains("taken"), "no entity has the value: {error}");
    assert_eq!(stored().await?.as_ref(), Some(&row), "after an update");

    let report = orders.repair().run().await?;
    assert_eq!(report.part("by_desk").failed, 1, "{report:?}");
    assert_eq!(stored().await?.as_ref(), Some(&row), "after a repair");

    orders.update(key(), |order| order.desk = Some(2)).await?;
    assert_eq!(stored().await?.as_ref(), Some(&row), "after the value changed");
    assert!(orders.delete(key()).await?);
    assert_eq!(stored().await?.as_ref(), Some(&row), "after a deletion");
    Ok(())
}

/// A Merge of another program leaves the mark of the store's operation in the entity.
#[tokio::test]
async fn a_version_read_through_a_copy_is_stale_after_a_foreign_merge() -> TestResult {
    let (_server, account) = start().await?;
    let (orders, table) = (store(&account)?, account.table("orders"));
    orders.insert(&order(1)).await?;
    let at = || Order::by_desk("contoso", 1_u32);
    let found = orders.find(at()).await?.unwrap();
    let written = orders.replace_if(&Order { cents: 5, ..found.entity }, &found.version).await?;
    assert_ne!(written.version, found.version);

    for property in ["cents", "Remark"] {
        let found = orders.find(at()).await?.unwrap();
        let version: Version = found.version.to_string().parse()?;
        let mut merged = DynamicEntity::new("contoso", "order_0001");
        merged.set(property, 999_i64);
        table.merge((&merged, rowkey::Match::Any)).await?;
        let changed = Order { cents: 6, ..found.entity };
        let error = orders.replace_if(&changed, &version).await.unwrap_err();
        assert!(error.kind() == rowkey::ErrorKind::Conflict, "{property}: {error}");
        let error = orders.delete_if(Order::key("contoso", 1), &version).await.unwrap_err();
        assert!(error.kind() == rowkey::ErrorKind::Conflict, "{property}: {error}");
        let submit = orders.transaction().replace_if(&changed, version).submit().await;
        assert!(submit.unwrap_err().kind() == rowkey::ErrorKind::Conflict, "{property}");
        // The write of the store makes both agree.
        orders.update(Order::key("contoso", 1), |order| order.cents = 8).await?;
    }
    Ok(())
}

/// A message that no program can read, and one of a newer program.
#[tokio::test]
async fn an_unreadable_message_goes_to_the_poison_queue_and_a_newer_one_waits() -> TestResult {
    let (server, account) = start().await?;
    let queue = account.queue("orders");
    let newer = r#"{"v":3,"op":["contoso","op_1"]}"#;
    for text in ["no json", newer] {
        queue.put(rowkey::queue::Body::base64(text)).send().await?;
    }
    let mut received = Vec::new();
    for minute in 0..180 {
        let worked = store(&sweep::account(&server)?)?.work_once().await?;
        if worked != rowkey::store::Worked::default() {
            received.push((minute, worked));
        }
        server.clock().advance(Duration::from_secs(60));
    }
    let failed: u64 = received.iter().map(|(_, worked)| worked.failed).sum();
    assert!((2..=6).contains(&failed), "{received:?}");
    let waited: u64 = received.iter().map(|(_, worked)| worked.waiting).sum();
    assert!((3..30).contains(&waited), "it is received less often each time: {received:?}");
    let snapshot = server.snapshot();
    let texts = |queue: &str| -> Vec<String> {
        let messages = snapshot.queue(queue).map(|queue| queue.messages().count());
        vec![format!("{messages:?}")]
    };
    assert_eq!(
        (texts("orders"), texts("orders-poison")),
        (vec!["Some(1)".into()], vec!["Some(1)".into()])
    );
    let poisoned = sweep::account(&server)?.queue("orders-poison");
    let poisoned = poisoned.receive(1, Duration::from_secs(1)).await?;
    assert_eq!(poisoned[0].base64()?, "no json");
    Ok(())
}

/// The queue is down. A worker drains the backlog while a writer is about to commit.
#[tokio::test]
async fn a_drain_leaves_the_rows_of_live_writers_alone() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let _down = server
        .inject(Fault::on(Operation::PutMessage).reject(rowkey_emulator::ErrorCode::SERVER_BUSY));
    let held = server.inject(Fault::on(Operation::Transaction).times(1).hold());
    let one = order(1);
    let drained = async {
        held.wait_until_held().await;
        let worked = orders.drain_backlog().await;
        let rows = super::rows::left(&server);
        held.release();
        (worked, rows)
    };
    let insert = Box::pin(orders.insert(&one));
    let (written, (worked, rows)) = futures_util::future::join(insert, drained).await;
    assert_eq!(worked?.waiting, 1);
    assert!(!rows.iter().any(|row| row.contains(" op_") && row.starts_with("contoso")), "{rows:?}");
    assert_eq!(written?.settled, rowkey::store::Settled::Done);
    Ok(())
}

/// The decision: a store reads the copies of its own entities only if it is told so.
#[tokio::test]
async fn a_row_over_a_copy_stays_if_the_store_reads_copies() -> TestResult {
    for reads in [true, false] {
        let (server, account) = start().await?;
        let table = account.table("orders");
        let builder = Store::<Order>::builder(table.clone()).queue(account.queue("orders"));
        let orders = if reads { builder.reads_copies().build()? } else { builder.build()? };
        orders.insert(&order(1)).await?;
        // Another program overwrites a copy.
        let mut row = DynamicEntity::new("contoso", "desk_0000000001");
        row.set("Furniture", "oak");
        table.upsert(&row).await?;
        let stored = async || table.get(row.key()).await.map(|row| row.map(|row| row.entity));
        let report = orders.verify().run().await?;
        assert_eq!(report.part("by_desk").stale, 1, "it is reported: {report:?}");

        let begun = server.journal();
        let updated = orders.update(Order::key("contoso", 1), |order| order.cents = 7).await;
        let reads_sent = server.journal().since(&begun).count(Operation::GetEntity);
        if !reads {
            updated?;
            assert_ne!(stored().await?.as_ref(), Some(&row), "the documented loss");
            continue;
        }
        assert!(reads_sent >= 3, "the entity and its copies in the partition: {reads_sent}");
        let error = updated.unwrap_err();
        assert_eq!(error.kind(), rowkey::ErrorKind::AlreadyExists, "{error}");
        assert_eq!(error.details().index, Some("by_desk"), "{error}");
        assert_eq!(stored().await?.as_ref(), Some(&row), "after an update");
        let report = orders.repair().run().await?;
        assert_eq!(report.part("by_desk").failed, 1, "{report:?}");
        orders.update(Order::key("contoso", 1), |order| order.desk = Some(2)).await?;
        assert_eq!(stored().await?.as_ref(), Some(&row), "after the value changed");
        orders.update(Order::key("contoso", 1), |order| order.desk = Some(3)).await?;
        assert!(orders.delete(Order::key("contoso", 1)).await?);
        assert_eq!(stored().await?.as_ref(), Some(&row), "after a deletion");
        table.delete(row.key(), rowkey::Match::Any).await?;
        agreed(&server.snapshot(), true);
    }
    Ok(())
}

/// In another partition each row is read before it is written.
#[tokio::test]
async fn a_row_over_a_copy_in_another_partition_stays() -> TestResult {
    let (server, account) = start().await?;
    let (orders, table) = (store(&account)?, account.table("orders"));
    orders.insert(&order(1)).await?;
    let mut row = DynamicEntity::new("courier_kim", "contoso_0000000001");
    row.set("Furniture", "oak");
    table.upsert(&row).await?;
    orders.update(Order::key("contoso", 1), |order| order.cents = 7).await?;
    server.clock().advance(Duration::from_secs(61));
    store(&sweep::account(&server)?)?.work_once().await?;
    let orders = store(&sweep::account(&server)?)?;
    orders.repair().run().await?;
    assert_eq!(table.get(row.key()).await?.map(|row| row.entity), Some(row.clone()));
    orders.delete(Order::key("contoso", 1)).await?;
    assert_eq!(table.get(row.key()).await?.map(|row| row.entity), Some(row));
    Ok(())
}
