//! Schema versions: entities of two versions of a type in one table, and two programs side by side.

use rowkey::edm::Value;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Match, StorageAccount};
use rowkey_emulator::{Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_sample};

/// What orders were at first.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{shop}", row = "order_{id:4}")]
#[entity(index(name = by_customer, row = "customer_{customer}", many))]
#[entity(index(name = by_desk, row = "desk_{desk}"))]
#[entity(index(name = by_courier, partition = "courier_{courier}", row = "{shop}_{id}"))]
#[entity(index(name = by_size, partition = "size_{desk}", row = "{shop}_{id}"))]
#[entity(unique(name = by_number, value = "{number}"))]
#[entity(unique(name = by_ticket, value = "{desk}"))]
#[entity(list(name = by_tag, value = "{tag}"))]
#[entity(list(name = by_mood, value = "{customer}"))]
struct OrderV1 {
    shop: String,
    id: u32,
    customer: String,
    desk: u32,
    courier: String,
    number: String,
    tag: String,
    cents: i32,
}

/// Another template (`by_courier`), four declarations that go, two that come, and a renamed property.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, version = 2, from = OrderV1, partition = "{shop}", row = "order_{id:4}")]
#[entity(index(name = by_customer, row = "customer_{customer}", many))]
#[entity(index(name = by_courier, partition = "riders_{courier}", row = "{shop}_{id}"))]
#[entity(index(name = by_table, row = "table_{desk}"))]
#[entity(unique(name = by_number, value = "{number}"))]
#[entity(unique(name = by_token, value = "{token}"))]
#[entity(list(name = by_tag, value = "{tag}"))]
struct Order {
    shop: String,
    id: u32,
    customer: String,
    desk: u32,
    courier: String,
    number: String,
    tag: String,
    token: String,
    price: f64,
}

impl From<OrderV1> for Order {
    fn from(old: OrderV1) -> Self {
        Self {
            token: format!("token {}", old.id),
            price: f64::from(old.cents) / 100.0,
            shop: old.shop,
            id: old.id,
            customer: old.customer,
            desk: old.desk,
            courier: old.courier,
            number: old.number,
            tag: old.tag,
        }
    }
}

fn old(id: u32) -> OrderV1 {
    OrderV1 {
        shop: "leeds".into(),
        id,
        customer: "ada".into(),
        desk: id,
        courier: "kim".into(),
        number: format!("A{id}"),
        tag: "urgent".into(),
        cents: 250,
    }
}

fn order(id: u32) -> Order {
    old(id).into()
}

fn key(id: u32) -> Key<Order> {
    Order::key("leeds", id)
}

fn store<E: Entity + Clone + Send + Sync + 'static>(
    account: &StorageAccount,
) -> rowkey::Result<Store<E>> {
    Store::builder(account.table("orders")).queue(account.queue("orders")).build()
}

async fn start() -> TestResult<(Server, Store<OrderV1>, Store<Order>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let (first, second) = (store::<OrderV1>(&account)?, store::<Order>(&account)?);
    first.create_if_missing().await?;
    Ok((server, first, second))
}

/// The RowKeys of all rows but op rows, without heads.
fn beside(snapshot: &Snapshot) -> Vec<String> {
    let rows = snapshot.table("orders").unwrap().entities();
    let mut found: Vec<_> = rows
        .map(|row| format!("{} {}", row.partition_key(), row.row_key()))
        .filter(|row| !row.contains(" op_") && !row.contains(" order_"))
        .collect();
    found.sort_unstable();
    found
}

#[tokio::test]
async fn older_entities_are_converted_on_read() -> TestResult {
    let (_server, first, second) = start().await?;
    first.insert(&old(1)).await?;
    second.insert(&order(2)).await?;
    let found = second.get(key(1)).await?.ok_or("not there")?;
    assert_eq!(found.entity, order(1));
    let page = second.query(Order::partition("leeds")).page(5, None).await?;
    let both = [order(1), order(2)];
    assert_eq!(page.entities.into_iter().map(|one| one.entity).collect::<Vec<_>>(), both);
    let adas = second.query(Order::by_customer("leeds", "ada")).all().await?;
    assert_eq!(adas.into_iter().map(|one| one.entity).collect::<Vec<_>>(), both);
    let urgent = second.query(Order::by_tag("leeds", "urgent")).all().await?;
    assert_eq!(urgent.len(), 2);
    let number = second.find(Order::by_number("A1")).await?;
    assert_eq!(number.map(|one| one.entity), Some(order(1)));
    // It is in no index that the older version did not have.
    assert_eq!(second.find(Order::by_table("leeds", 1_u32)).await?, None);
    assert!(second.verify().run().await?.is_clean());
    // A value that an older entity has is taken.
    let taken = Order { number: "A1".into(), ..order(3) };
    assert_eq!(second.insert(&taken).await.unwrap_err().details().index, Some("by_number"));
    Ok(())
}

#[tokio::test]
async fn a_write_stores_the_new_version_and_removes_rows_of_the_old_one() -> TestResult {
    let (server, first, second) = start().await?;
    second.insert(&order(1)).await?;
    let right = beside(&server.snapshot());
    second.delete(key(1)).await?;
    assert_eq!(beside(&server.snapshot()), [""; 0]);
    let same = |order: &mut Order| order.price = 2.5;
    for way in 0..5 {
        first.insert(&old(1)).await?;
        let version = second.get(key(1)).await?.ok_or("not there")?.version;
        match way {
            0 => drop(second.update(key(1), same).await?),
            1 => drop(second.upsert(&order(1)).await?),
            2 => drop(second.replace_if(&order(1), &version).await?),
            3 => drop(second.patch(key(1)).set(Order::PRICE, 2.5).send().await?),
            _ => assert!(second.rewrite(key(1)).await?),
        }
        assert_eq!(beside(&server.snapshot()), right, "{way}");
        assert_eq!(second.get(key(1)).await?.map(|one| one.entity), Some(order(1)), "{way}");
        assert!(second.verify().run().await?.is_clean());
        second.delete(key(1)).await?;
        assert_eq!(beside(&server.snapshot()), [""; 0], "{way}");
    }
    // An older entity goes with all that belongs to it.
    first.insert(&old(1)).await?;
    second.delete(key(1)).await?;
    assert_eq!(beside(&server.snapshot()), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_newer_entity_is_neither_read_nor_written_by_an_older_program() -> TestResult {
    let (server, first, second) = start().await?;
    second.insert(&order(1)).await?;
    let row = Key::<DynamicEntity>::new("leeds", "order_0001");
    let table = second.table();
    let before = table.get(row.clone()).await?;
    let key = || OrderV1::key("leeds", 1);
    let version = second.get(self::key(1)).await?.ok_or("not there")?.version;
    let errors = [
        first.get(key()).await.unwrap_err(),
        first.update(key(), |order| order.cents = 1).await.unwrap_err(),
        first.upsert(&old(1)).await.unwrap_err(),
        first.replace_if(&old(1), &version).await.unwrap_err(),
        first.delete(key()).await.unwrap_err(),
        first.delete_if(key(), &version).await.unwrap_err(),
        first.patch(key()).set(OrderV1::CENTS, 1).send().await.unwrap_err(),
        first.query(OrderV1::partition("leeds")).all().await.unwrap_err(),
        first.query(OrderV1::by_customer("leeds", "ada")).all().await.unwrap_err(),
        first.find(OrderV1::by_number("A1")).await.unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Decode, "{text}");
        assert!(text.contains("version 2") && text.contains("version 1"), "{text}");
    }
    assert_eq!(table.get(row.clone()).await?, before);

    // The same for a program of this version and an entity of the next.
    let mut next = before.ok_or("not there")?.entity;
    next.set("EntityVersion", 3);
    table.replace((&next, Match::Any)).await?;
    let error = second.update(self::key(1), |_| ()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("version 3") && text.contains("version 2"), "{text}");
    let report = second.migrate().run().await?;
    assert_eq!((report.total.unreadable, report.is_clean()), (1, false));
    assert_eq!(
        table.get(row).await?.map(|row| row.entity.get("EntityVersion").cloned()),
        Some(Some(Value::Int32(3)))
    );
    drop(server);
    Ok(())
}

#[tokio::test]
async fn the_conversion_keeps_a_foreign_merge_into_an_older_entity() -> TestResult {
    let (server, first, second) = start().await?;
    first.insert(&old(1)).await?;
    let mut merged = DynamicEntity::new("leeds", "order_0001");
    merged.set("cents", 995);
    second.table().merge((&merged, Match::Any)).await?;
    let report = second.migrate().run().await?;
    assert_eq!((report.total.repaired, report.is_clean()), (1, true), "{report:?}");
    let found = second.get(key(1)).await?.ok_or("not there")?.entity;
    assert_eq!(found, Order { price: 9.95, ..order(1) });
    // One into a new entity leaves its version.
    merged.set("cents", 1);
    second.table().merge((&merged, Match::Any)).await?;
    assert_eq!(second.get(key(1)).await?.map(|one| one.entity), Some(found));
    drop(server);
    Ok(())
}

#[tokio::test]
async fn a_migration_succeeds_if_any_of_its_requests_fails() -> TestResult {
    let (server, first, second) = start().await?;
    second.insert(&order(1)).await?;
    first.insert(&old(2)).await?;
    let migrated = async |account: &StorageAccount| -> TestResult {
        let second = store::<Order>(account)?;
        second.drain_backlog().await?;
        assert_eq!(second.work_once().await?.failed, 0);
        let report = second.migrate().run().await?;
        assert!(report.is_clean() && report.total.stale == report.total.repaired, "{report:?}");
        let report = second.verify().run().await?;
        assert!(report.is_clean(), "{report:?}");
        for id in 1..=2 {
            let found = second.find(Order::by_table("leeds", id)).await?;
            assert_eq!(found.map(|one| one.entity), Some(order(id)));
        }
        Ok(())
    };
    sweep_sample(
        &server,
        "migrate",
        async |account| store::<Order>(account).unwrap().migrate().run().await,
        async |account, _| migrated(account).await,
        |snapshot, _| {
            let rows = beside(snapshot);
            let is_old = |row: &&String| {
                ["desk_", "courier_", "size_", "mood"].iter().any(|old| row.contains(old))
            };
            let left: Vec<_> = rows.iter().filter(is_old).collect();
            assert!(left.is_empty(), "{left:?}");
        },
    )
    .await?;
    Ok(())
}
