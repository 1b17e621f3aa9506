//! Fields in blobs: no entity names a blob that is not there, through every failure, and what no entity names is
//! swept.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, select};
use rowkey::edm::Value;
use rowkey::store::{Settled, Store, Version};
use rowkey::{
    ClientOptions, DynamicEntity, Entity, ErrorKind, Key, Match, Projection, StorageAccount,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot, Sweep};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sample};

/// An order with an invoice, a note and lines in blobs, beside every other declaration.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}", rename_all = "PascalCase")]
#[entity(index(name = by_customer, row = "customer_{customer}", many))]
#[entity(index(name = by_courier, partition = "courier_{courier}", row = "{tenant}_{id}"))]
#[entity(unique(name = by_number, value = "{number}"))]
#[entity(list(name = by_tag, value = "{tag}"))]
#[entity(list(name = by_city, value = "{city}", blob))]
struct Order {
    tenant: String,
    id: u32,
    customer: String,
    courier: Option<String>,
    number: String,
    tag: String,
    city: String,
    cents: i64,
    #[entity(blob)]
    invoice: Vec<u8>,
    #[entity(blob)]
    note: Option<String>,
    #[entity(json, blob)]
    lines: Option<Vec<u32>>,
}

/// An order without its blob fields.
#[derive(Debug, PartialEq, Projection)]
#[entity(rename_all = "PascalCase")]
struct Summary {
    customer: String,
    cents: i64,
}

fn order(id: u32) -> Order {
    Order {
        tenant: "contoso".into(),
        id,
        customer: "ada".into(),
        courier: Some("kim".into()),
        number: format!("A{id}"),
        tag: "new".into(),
        city: "Leeds".into(),
        cents: 100,
        invoice: vec![u8::try_from(id).unwrap(); 100_000],
        note: None,
        lines: Some(vec![1, 2, id]),
    }
}

fn key(id: u32) -> Key<Order> {
    Order::key("contoso", id)
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Order>> {
    Store::builder(account.table("Orders"))
        .queue(account.queue("orders"))
        .blobs(account.container("orders"))
        .build()
}

async fn start() -> TestResult<(Server, Store<Order>)> {
    let server = Server::builder().manual_clock().start().await?;
    let orders = store(&account(&server)?)?;
    orders.create_if_missing().await?;
    Ok((server, orders))
}

/// The blobs that heads name, after all of them were found; copies name none.
fn named(snapshot: &Snapshot) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for row in snapshot.table("Orders").unwrap().entities() {
        assert!(row.get("Invoice").is_none() && row.get("Note").is_none());
        for pointer in ["Invoice_Blob", "Note_Blob", "Lines_Blob"] {
            let Some(Value::String(pointer)) = row.get(pointer) else { continue };
            assert!(row.row_key().starts_with("order_"), "{} names a blob", row.row_key());
            let pointer: serde_json::Value = serde_json::from_str(&pointer).unwrap();
            let name = pointer["blob"].as_str().unwrap().to_owned();
            let content = snapshot.blob("orders", &name).expect("the blob that a head names");
            assert_eq!(content.len() as u64, pointer["length"].as_u64().unwrap());
            named.insert(name);
        }
    }
    named
}

fn stored(snapshot: &Snapshot) -> BTreeSet<String> {
    let fields = snapshot.blobs("orders").filter(|name| name.starts_with("orders/blob_"));
    fields.map(str::to_owned).collect()
}

/// All blobs, after they were found to be those that the orders have, no more and no less.
fn agreed(snapshot: &Snapshot) -> BTreeSet<String> {
    let named = named(snapshot);
    assert_eq!(stored(snapshot), named, "the blobs are those that the orders have");
    named
}

#[tokio::test]
async fn every_write_updates_the_blobs_and_every_read_includes_them() -> TestResult {
    let (server, orders) = start().await?;
    let one = Order { note: Some("fragile".into()), ..order(1) };
    let written = orders.insert(&one).await?;
    assert_eq!((written.settled, agreed(&server.snapshot()).len()), (Settled::Done, 3));
    // Each way to read.
    let found = orders.get(key(1)).await?.unwrap();
    assert_eq!((&found.entity, &found.version), (&one, &written.version));
    let by_number = orders.find(Order::by_number("A1")).await?.unwrap();
    let by_courier = orders.find(Order::by_courier("kim", "contoso", 1)).await?.unwrap();
    assert_eq!((by_number.entity, by_courier.entity), (one.clone(), one.clone()));
    let copies = orders.query(Order::by_customer("contoso", "ada")).page(9, None).await?;
    assert_eq!(copies.entities[0].entity, one);
    let all = orders.query(Order::partition("contoso")).all().await?;
    assert_eq!(all[0].entity, one);
    for list in [Order::by_tag("contoso", "new"), Order::by_city("Leeds")] {
        assert_eq!(orders.query(list).all().await?[0].entity, one);
    }

    // An unchanged value keeps its blob; a changed value gets a new one.
    let first = agreed(&server.snapshot());
    let changed = orders.update(key(1), |order| order.cents = 7).await?;
    assert_eq!(agreed(&server.snapshot()), first);
    let changed = Order { invoice: b"paid".to_vec(), ..changed.entity };
    orders.upsert(&changed).await?;
    assert_eq!(agreed(&server.snapshot()).intersection(&first).count(), 2);
    let version = orders.get(key(1)).await?.unwrap().version;
    let without = Order { note: None, lines: Some(Vec::new()), ..changed };
    orders.replace_if(&without, &version).await?;
    assert_eq!(agreed(&server.snapshot()).len(), 2);
    assert_eq!(orders.get(key(1)).await?.unwrap().entity, without);
    let before = agreed(&server.snapshot());
    orders.patch(key(1)).set(Order::CENTS, 9).send().await?;
    assert!(orders.rewrite(key(1)).await?);
    assert_eq!(agreed(&server.snapshot()), before);
    assert_eq!(orders.get(key(1)).await?.unwrap().entity, Order { cents: 9, ..without });

    let (two, three) = (order(2), order(3));
    orders.transaction().insert(&two).insert(&three).submit().await?;
    assert_eq!(agreed(&server.snapshot()).len(), 6);
    assert!(orders.delete(key(2)).await?);
    assert_eq!(agreed(&server.snapshot()).len(), 4);
    let loaded = orders.load(futures_util::stream::iter((4..30).map(order))).run().await?;
    assert!(loaded.is_clean(), "{loaded:?}");
    assert_eq!(orders.get(key(20)).await?.unwrap().entity, order(20));
    let verified = orders.verify().run().await?;
    assert!(verified.is_clean() && verified.parts["Invoice"].right == 28, "{verified:?}");
    let deleted = orders.delete_where(Order::partition("contoso")).run().await?;
    assert!(deleted.is_clean());
    server.clock().advance(Duration::from_secs(61));
    store(&account(&server)?)?.work_once().await?;
    assert!(agreed(&server.snapshot()).is_empty());
    Ok(())
}

/// A type that has a field in a blob and nothing else.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{album}", row = "photo_{number:4}", rename_all = "PascalCase")]
struct Photo {
    album: String,
    number: u32,
    title: String,
    #[entity(blob)]
    image: Vec<u8>,
}

#[tokio::test]
async fn a_field_in_a_blob_sends_the_documented_requests() -> TestResult {
    let (server, orders) = start().await?;
    let account = orders.table().account();
    let photos = Store::<Photo>::builder(account.table("Orders"))
        .queue(account.queue("orders"))
        .blobs(account.container("orders"))
        .build()?;
    let mut before = server.journal();
    let mut cost = || {
        let requests = server.journal().since(&before).len();
        before = server.journal();
        requests
    };
    let album = || "leeds".to_owned();
    let photo =
        Photo { album: album(), number: 1, title: "Snow".into(), image: vec![7; 3_000_000] };
    let plan = photos.transaction().insert(&photo).explain().await?.to_string();
    assert!(plan.contains("upload the blob of Image"), "{plan}");
    cost();
    photos.insert(&photo).await?;
    // The blob, the message, the transaction, op row and message.
    assert_eq!(cost(), 5);
    assert_eq!(photos.get(Photo::key("leeds", 1)).await?.unwrap().entity, photo);
    assert_eq!(cost(), 2);
    let key = || Photo::key("leeds", 1);
    photos.patch(key()).set(Photo::TITLE, "Snow in May").send().await?;
    assert_eq!(cost(), 1);
    photos.update(key(), |photo| photo.title = "May".into()).await?;
    assert_eq!(cost(), 3, "the entity, its blob, which stays, and the transaction");
    photos.upsert(&photo).await?;
    assert_eq!(cost(), 2, "nothing is read or sent of a blob that stays");
    photos.upsert(&Photo { image: vec![8], ..photo.clone() }).await?;
    // Also the entity before and the old blob.
    assert_eq!(cost(), 7);
    let title = photos.table().get_as::<Title>(key()).await?.unwrap().entity;
    assert_eq!((title.title, cost()), ("Snow".to_owned(), 1));
    photos.delete(key()).await?;
    assert_eq!(cost(), 6);
    Ok(())
}

/// The properties of a photo without its blob.
#[derive(Debug, Projection)]
#[entity(rename_all = "PascalCase")]
struct Title {
    title: String,
}

#[tokio::test]
async fn a_projection_reads_entities_without_their_blobs() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(1)).await?;
    let before = server.journal();
    let summary = orders.table().get_as::<Summary>(key(1)).await?.unwrap().entity;
    assert_eq!(summary, Summary { customer: "ada".into(), cents: 100 });
    let query = orders.table().query(Order::partition("contoso")).project::<Summary>();
    assert_eq!(query.all().await?.len(), 1);
    assert_eq!(server.journal().since(&before).count(Operation::GetBlob), 0);
    Ok(())
}

#[tokio::test]
async fn a_store_without_a_container_or_a_queue_is_rejected() -> TestResult {
    let (_server, orders) = start().await?;
    let account = orders.table().account();
    let error = Store::<Photo>::builder(account.table("p")).queue(account.queue("p")).build();
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("`Image` is kept in blobs"), "{error}");
    let error = Store::<Photo>::builder(account.table("p")).blobs(account.container("p")).build();
    assert!(error.unwrap_err().to_string().contains("StoreBuilder::queue"));
    Ok(())
}

#[tokio::test]
async fn a_rejected_write_leaves_no_blob() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(1)).await?;
    let before = agreed(&server.snapshot());
    let taken = orders.insert(&Order { number: "A1".into(), ..order(2) }).await.unwrap_err();
    assert_eq!(taken.details().index, Some("by_number"));
    assert!(orders.insert(&order(1)).await.unwrap_err().kind() == ErrorKind::AlreadyExists);
    let gone = orders.replace_if(&order(3), &"\"x\"".parse::<Version>()?).await.unwrap_err();
    assert!(gone.kind() == ErrorKind::Conflict);
    // An oversized value is rejected before sending.
    let journal = server.journal();
    let long = Order { customer: "x".repeat(40_000), ..order(4) };
    assert!(orders.insert(&long).await.is_err());
    assert!(server.journal().since(&journal).is_empty());
    assert_eq!(agreed(&server.snapshot()), before);
    let down = server.inject(Fault::on(Operation::PutBlob).reject(ErrorCode::SERVER_BUSY));
    let error = orders.insert(&order(5)).await.unwrap_err();
    assert!(error.to_string().contains("property `"), "{error}");
    drop(down);
    assert_eq!(agreed(&server.snapshot()), before);
    Ok(())
}

/// The writes, each on a server with one order.
type Write = fn(Store<Order>) -> BoxFuture<'static, Result<(), rowkey::Error>>;

const WRITES: [(&str, Write); 4] = [
    ("insert", |orders| async move { orders.insert(&order(2)).await.map(drop) }.boxed()),
    ("update", |orders| {
        let change = |order: &mut Order| {
            (order.invoice, order.city, order.lines) = (vec![9; 10], "York".into(), None);
        };
        async move { orders.update(key(1), change).await.map(drop) }.boxed()
    }),
    ("upsert", |orders| {
        let other = Order { note: Some("new".into()), number: "B".into(), ..order(1) };
        async move { orders.upsert(&other).await.map(drop) }.boxed()
    }),
    ("delete", |orders| async move { orders.delete(key(1)).await.map(drop) }.boxed()),
];

#[tokio::test]
async fn each_entity_keeps_its_blob_and_orphans_are_removed_after_any_fault() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(1)).await?;
    let connect = async |server: &Server| Ok(store(&account(server)?)?);
    let work = async |orders: &Store<Order>| {
        orders.drain_backlog().await?;
        assert_eq!(orders.work_once().await?.failed, 0);
        Ok(())
    };
    for (name, write) in WRITES {
        eprintln!("{name}");
        let swept = sample(Sweep::new(&server).lagging_secondary(), name)
            .run(
                connect,
                async |orders: &Store<Order>| write(orders.clone()).await,
                work,
                async |server: &Server, _: &Store<Order>, _: Option<&_>| {
                    named(&server.snapshot());
                    // Nothing can land any more: the worker and the sweep have the last word.
                    server.clock().advance(Duration::from_secs(46 * 60));
                    let orders = connect(server).await?;
                    work(&orders).await?;
                    orders.sweep().run().await?;
                    agreed(&server.snapshot());
                    let report = orders.verify().run().await?;
                    assert!(report.is_clean() || report.total.skipped > 0, "{report:?}");
                    Ok(())
                },
            )
            .await?;
        eprintln!("{swept:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_sweep_settles_the_operation_before_deleting_a_blob() -> TestResult {
    let (server, orders) = start().await?;
    // The transaction is sent, and is not executed before the sweep has been.
    let held = server.inject(Fault::on(Operation::Transaction).hold());
    let one = order(1);
    let mut insert = pin!(orders.insert(&one));
    let waits =
        matches!(select(insert.as_mut(), pin!(held.wait_until_held())).await, Either::Right(_));
    assert!(waits);
    assert_eq!(stored(&server.snapshot()).len(), 2);
    // It is young: its writer may be about to commit.
    let young = store(&account(&server)?)?.sweep().run().await?;
    assert_eq!(young.parts["fields in blobs"].skipped, 2, "{young:?}");
    server.clock().advance(Duration::from_secs(46 * 60));
    let sweeper = store(&account(&server)?)?;
    let swept = sweeper.sweep().run().await?;
    assert_eq!(swept.parts["fields in blobs"].repaired, 2, "{swept:?}");
    assert!(stored(&server.snapshot()).is_empty());
    // Now it lands, meets the void and is refused. The writer begins again or says that it failed.
    drop(held);
    let inserted = insert.await;
    named(&server.snapshot());
    let now = sweeper.get(key(1)).await?;
    assert_eq!(inserted.is_ok(), now.is_some(), "{inserted:?}");
    Ok(())
}

#[tokio::test]
async fn a_reader_whose_blob_is_replaced_reads_the_new_one() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(1)).await?;
    let changed = Order { invoice: b"paid".to_vec(), ..order(1) };
    let held = server.inject(Fault::on(Operation::GetBlob).nth(1).hold());
    let mut get = pin!(orders.get(key(1)));
    let waits =
        matches!(select(get.as_mut(), pin!(held.wait_until_held())).await, Either::Right(_));
    assert!(waits);
    let other = store(&account(&server)?)?;
    // It reads no blob, so nothing holds it up.
    other.upsert(&changed).await?;
    drop(held);
    assert_eq!(get.await?.unwrap().entity, changed);

    let held = server.inject(Fault::on(Operation::GetBlob).nth(1).hold());
    let mut query = pin!(orders.query(Order::partition("contoso")).all());
    let waits =
        matches!(select(query.as_mut(), pin!(held.wait_until_held())).await, Either::Right(_));
    assert!(waits);
    other.delete(key(1)).await?;
    drop(held);
    assert!(query.await?.is_empty(), "it is gone");
    Ok(())
}

#[tokio::test]
async fn a_missing_or_damaged_blob_is_an_error_that_names_the_property() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(1)).await?;
    orders.insert(&order(2)).await?;
    let container = orders.table().account().container("orders");
    let invoice = |id: u32| {
        let snapshot = server.snapshot();
        let head = snapshot.table("Orders").unwrap();
        let head = head.entity("contoso", &format!("order_{id:04}")).unwrap();
        let Some(Value::String(pointer)) = head.get("Invoice_Blob") else { panic!("no pointer") };
        let pointer: serde_json::Value = serde_json::from_str(&pointer).unwrap();
        container.blob(pointer["blob"].as_str().unwrap())
    };
    invoice(1).delete().await?;
    invoice(2).put("secret").send().await?;
    for id in [1, 2] {
        let error = orders.get(key(id)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        let text = error.to_string();
        assert!(text.contains("`Invoice`") && text.contains("Orders"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    let report = orders.repair().run().await?;
    assert_eq!(report.parts["Invoice"].missing, 1, "{report:?}");
    // Operations without the blob succeed, and a write of the field repairs it.
    orders.table().get_as::<Summary>(key(1)).await?;
    orders.upsert(&Order { invoice: b"again".to_vec(), ..order(1) }).await?;
    assert_eq!(orders.get(key(1)).await?.unwrap().entity.invoice, b"again");
    assert!(orders.delete(key(2)).await?);
    agreed(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_lagging_secondary_loses_no_blob() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(1)).await?;
    let account = orders.table().account();
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let orders = store(&account.with_options(options))?;
    let _behind = server.hold_back_secondary();
    for round in 1..6_u8 {
        let operation = [Operation::GetEntity, Operation::GetBlob][usize::from(round % 2)];
        let fault = Fault::on(operation).times(1 + u64::from(round) % 2);
        let injected = server.inject(fault.reject(ErrorCode::SERVER_BUSY));
        orders.update(key(1), |order| order.invoice = vec![round; 10]).await?;
        drop(injected);
        agreed(&server.snapshot());
        let down = server.inject(Fault::on(operation).times(1).reject(ErrorCode::SERVER_BUSY));
        let read = orders.get(key(1)).await?.unwrap().entity;
        drop(down);
        // The secondary may show an older entity, and its blob as long as it is there.
        assert!(read.invoice == vec![round; 10] || read.invoice == order(1).invoice);
    }
    Ok(())
}

#[tokio::test]
async fn blobs_orphaned_by_another_program_are_swept() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(1)).await?;
    orders.insert(&order(2)).await?;
    // It deletes the row and not its blobs.
    let row = Key::<DynamicEntity>::new("contoso", "order_0001");
    orders.table().delete(row, Match::Any).await?;
    // A blob that is no field's is left alone.
    let container = orders.table().account().container("orders");
    container.blob("orders/blob_order_0x").put("a").send().await?;
    server.clock().advance(Duration::from_secs(46 * 60));
    let orders = store(&account(&server)?)?;
    let swept = orders.sweep().run().await?;
    let fields = &swept.parts["fields in blobs"];
    assert_eq!((fields.repaired, fields.skipped), (2, 1), "{swept:?}");
    assert_eq!(swept.parts["Invoice"].right, 1);
    assert_eq!(orders.get(key(2)).await?.unwrap().entity, order(2));
    let again = orders.sweep().run().await?;
    assert_eq!(again.total.orphaned, 0, "{again:?}");
    // The voids go when no request can meet them any more.
    server.clock().advance(Duration::from_secs(14 * 60));
    let left = |snapshot: &Snapshot| {
        let table = snapshot.table("Orders").unwrap();
        table.entities().filter(|row| row.row_key().starts_with("op_")).count()
    };
    assert!(left(&server.snapshot()) > 0);
    for _ in 0..4 {
        server.clock().advance(Duration::from_secs(14 * 60));
        store(&account(&server)?)?.work_once().await?;
    }
    assert_eq!(left(&server.snapshot()), 0);
    Ok(())
}

/// Two entities of one transaction that reads them. Another writer comes between any two requests, and the blobs of
/// the first attempt go.
#[tokio::test]
async fn a_transaction_that_runs_again_leaves_no_blob_of_its_first_attempt() -> TestResult {
    let mut again = 0;
    for nth in 1.. {
        let (server, orders) = start().await?;
        orders.insert(&order(1)).await?;
        orders.insert(&order(2)).await?;
        let version = orders.get(key(2)).await?.unwrap().version;
        let before = server.journal();
        let held = server.inject(Fault::any().nth(nth).hold());
        let noted = orders.patch(key(2)).set(Order::CENTS, 9).if_version(&version);
        let changes = orders.transaction().update(key(1), |order| {
            order.invoice.push(0);
            order.note = Some(format!("{} bytes", order.invoice.len()));
        });
        let mut writing = pin!(changes.patch(noted).submit());
        let rival = async {
            held.wait_until_held().await;
            let pushed = orders.update(key(1), |order| order.invoice.push(7)).await;
            held.release();
            pushed
        };
        let written = match select(&mut writing, pin!(rival)).await {
            Either::Left(_) => {
                assert!(nth > 8, "{nth}");
                break;
            }
            Either::Right((pushed, _)) => {
                pushed?;
                writing.await
            }
        };
        assert_eq!(written?.versions.len(), 2);
        again += usize::from(server.journal().since(&before).count(Operation::Transaction) > 2);
        server.clock().advance(Duration::from_secs(61));
        let later = store(&account(&server)?)?;
        later.drain_backlog().await?;
        later.work_once().await?;
        let now = later.get(key(1)).await?.unwrap().entity;
        let ends = [now.invoice.ends_with(&[7, 0]), now.invoice.ends_with(&[0, 7])];
        assert!(now.invoice.len() == 100_002 && ends.contains(&true), "request {nth}");
        assert_eq!(later.get(key(2)).await?.unwrap().entity, Order { cents: 9, ..order(2) });
        let named = agreed(&server.snapshot());
        assert_eq!(named.len(), 5, "two orders, one of them with a note");
    }
    assert!(again > 0, "the writer never came first");
    Ok(())
}
