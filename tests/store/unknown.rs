//! Properties that the type of a store does not know: a newer program added them.

use rowkey::edm::Value;
use rowkey::store::Store;
use rowkey::{Column, DynamicEntity, Entity, ErrorKind, Key, Match, Properties, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::{TestResult, sweep};

/// The old program's type, with a full copy in the partition, a remote one, and a partial one.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_desk, row = "desk_{desk}"))]
#[entity(index(name = by_courier, partition = "courier_{courier}", row = "{tenant}_{id:4}"))]
#[entity(index(name = by_size, row = "size_{size}", many, copy(size)))]
struct Order {
    tenant: String,
    id: u32,
    desk: u32,
    courier: String,
    size: u32,
    note: Option<String>,
    #[entity(default)]
    open: bool,
}

fn order() -> Order {
    let (tenant, courier) = ("contoso".to_owned(), "kim".to_owned());
    Order { tenant, id: 1, desk: 1, courier, size: 1, note: Some("glass".into()), open: true }
}

fn key() -> Key<Order> {
    Order::key("contoso", 1)
}

/// The columns of the newer program.
const FLOOR: Column<i32> = Column::named("Floor");
const WEIGHT: Column<f64> = Column::named("Weight");

/// An order, to which the newer program has added columns.
async fn start() -> TestResult<(Server, StorageAccount, Store<Order>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    let orders = Store::builder(account.table("orders")).queue(account.queue("orders")).build()?;
    orders.create_if_missing().await?;
    orders.insert(&order()).await?;
    let mut more = DynamicEntity::new("contoso", "order_0001");
    more.set("Floor", 3_i32);
    more.set("Weight", 8.0);
    account.table("orders").merge((&more, Match::Any)).await?;
    Ok((server, account, orders))
}

async fn row(account: &StorageAccount, keys: (&str, &str)) -> TestResult<DynamicEntity> {
    let key = Key::<DynamicEntity>::new(keys.0, keys.1);
    Ok(account.table("orders").get(key).await?.ok_or("there is no such row")?.entity)
}

/// The head and its whole copies have the columns; the partial copy has not.
async fn has_columns(account: &StorageAccount, floor: Option<i32>) -> TestResult {
    for keys in
        [("contoso", "order_0001"), ("contoso", "desk_0000000001"), ("courier_kim", "contoso_0001")]
    {
        let row = row(account, keys).await?;
        assert_eq!(row.get("Floor"), floor.map(Value::Int32).as_ref(), "{keys:?}");
        assert_eq!(row.get("Weight"), Some(&Value::Double(8.0)), "{keys:?}");
    }
    let partial = row(account, ("contoso", "size_0000000001_order_0001")).await?;
    assert_eq!((partial.get("Floor"), partial.get("Weight")), (None, None));
    Ok(())
}

#[tokio::test]
async fn an_update_keeps_unknown_properties_in_the_entity_and_in_full_copies() -> TestResult {
    let (_server, account, orders) = start().await?;
    orders.update(key(), |order| order.open = false).await?;
    has_columns(&account, Some(3)).await?;
    orders.update(key(), |order| order.note = None).await?;
    has_columns(&account, Some(3)).await?;
    assert_eq!(row(&account, ("contoso", "order_0001")).await?.get("note"), None);
    Ok(())
}

#[tokio::test]
async fn every_other_write_keeps_unknown_properties() -> TestResult {
    let (_server, account, orders) = start().await?;
    assert!(orders.rewrite(key()).await?);
    has_columns(&account, Some(3)).await?;
    let read = orders.get(key()).await?.ok_or("there is no order")?;
    orders.replace_if(&Order { note: None, ..order() }, &read.version).await?;
    has_columns(&account, Some(3)).await?;
    orders.upsert(&order()).await?;
    has_columns(&account, Some(3)).await?;
    let read = orders.get(key()).await?.ok_or("there is no order")?;
    let changed = Order { note: Some("fragile".into()), ..order() };
    orders.transaction().replace_if(&changed, read.version).submit().await?;
    has_columns(&account, Some(3)).await?;
    Ok(())
}

#[tokio::test]
async fn a_patch_sets_and_clears_known_and_unknown_properties() -> TestResult {
    let (_server, account, orders) = start().await?;
    orders.patch(key()).clear(Order::NOTE).set(FLOOR, 4).send().await?;
    has_columns(&account, Some(4)).await?;
    assert_eq!(row(&account, ("contoso", "order_0001")).await?.get("note"), None);
    orders.patch(key()).clear(FLOOR).send().await?;
    has_columns(&account, None).await?;
    // Of several changes of one property the last one counts.
    orders.patch(key()).set(FLOOR, 4).clear(FLOOR).set(FLOOR, 5).send().await?;
    has_columns(&account, Some(5)).await?;
    let patched = orders.patch(key()).set(WEIGHT, 8.0).clear(Order::OPEN).send().await;
    let error = patched.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("`open` cannot be removed"), "{error}");
    Ok(())
}

/// The same without declarations, where a patch is one merge.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "plain_{id:4}")]
struct Plain {
    tenant: String,
    id: u32,
    note: Option<String>,
}

/// An entity of several rows, with a field in a blob.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 4, partition = "{tenant}", row = "large_{id:4}")]
struct Large {
    tenant: String,
    id: u32,
    note: Option<String>,
    #[entity(blob)]
    image: Vec<u8>,
    #[entity(rest)]
    others: Properties,
}

/// The same type without an open field.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 4, partition = "{tenant}", row = "large_{id:4}")]
struct Known {
    tenant: String,
    id: u32,
    note: Option<String>,
    #[entity(blob)]
    image: Vec<u8>,
}

#[tokio::test]
async fn a_patch_of_a_plain_type_clears_the_given_properties() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    let store = Store::<Plain>::builder(account.table("orders")).build()?;
    store.create_if_missing().await?;
    let plain = Plain { tenant: "contoso".into(), id: 1, note: Some("glass".into()) };
    store.insert(&plain).await?;
    let key = || Plain::key("contoso", 1);
    store.patch(key()).set(FLOOR, 3).send().await?;
    store.patch(key()).clear(Plain::NOTE).send().await?;
    let stored = row(&account, ("contoso", "plain_0001")).await?;
    assert_eq!((stored.get("note"), stored.get_as("Floor")), (None, Ok(3)));
    store.patch(key()).clear(FLOOR).send().await?;
    assert_eq!(row(&account, ("contoso", "plain_0001")).await?.get("Floor"), None);
    Ok(())
}

#[tokio::test]
async fn a_wide_entity_keeps_unknown_properties() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    let container = account.container("blobs");
    container.create().await?;
    let large = Store::<Large>::builder(account.table("orders")).blobs(container.clone());
    let large = large.queue(account.queue("orders")).build()?;
    let known = Store::<Known>::builder(account.table("orders")).blobs(container);
    let known = known.queue(account.queue("orders")).build()?;
    large.create_if_missing().await?;
    // More than one row has.
    let others = (0_i32..600).map(|at| (format!("P{at}"), at)).collect::<Properties>();
    let entity = Large {
        tenant: "contoso".into(),
        id: 1,
        note: Some("a".into()),
        image: vec![7; 9],
        others,
    };
    large.insert(&entity).await?;
    known.update(Known::key("contoso", 1), |one| one.note = None).await?;
    let read = large.get(Large::key("contoso", 1)).await?.ok_or("there is none")?.entity;
    assert_eq!(read, Large { note: None, ..entity.clone() });
    known.update(Known::key("contoso", 1), |one| one.image = vec![8; 3]).await?;
    let read = large.get(Large::key("contoso", 1)).await?.ok_or("there is none")?.entity;
    assert_eq!(read, Large { note: None, image: vec![8; 3], ..entity });
    Ok(())
}
