//! Content in blobs. References to blobs: no entity names a blob that is not there, through every failure, and blobs that no entity
//! names are swept.
//!
//! - `content`: streams up and down, damage and links
//! - `naming`: which references an entity can have
//! - `other_programs`: sweeps beside other versions and kinds
//! - `values`: fields in blobs with a threshold, and compressed ones
//! - this file: each write, and the sweeps of all their requests

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::edm::Value;
use rowkey::store::{Settled, Store};
use rowkey::{BlobRef, Entity, ErrorKind, Key, Projection, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server, Snapshot, Sweep};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sample};

mod content;
mod naming;
mod other_programs;
mod values;

/// An order with an invoice and a scan in blobs, beside every other declaration.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}", rename_all = "PascalCase")]
#[entity(index(name = by_customer, row = "customer_{customer}", many))]
#[entity(index(name = by_courier, partition = "courier_{courier}", row = "{tenant}_{id}"))]
#[entity(index(name = by_cents, row = "cents_{cents}", many, copy(invoice)))]
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
    invoice: BlobRef,
    #[entity(blob)]
    scan: Option<BlobRef>,
    #[entity(blob)]
    note: Option<String>,
}

/// An order as lists show it.
#[derive(Debug, PartialEq, Projection)]
#[entity(rename_all = "PascalCase")]
struct Summary {
    #[entity(blob)]
    invoice: BlobRef,
    #[entity(blob)]
    scan: Option<BlobRef>,
}

async fn upload(orders: &Store<Order>, id: u32, content: Vec<u8>) -> rowkey::Result<BlobRef> {
    orders.upload_reader(key(id), &content[..]).content_type("text/plain").send().await
}

async fn order(orders: &Store<Order>, id: u32) -> rowkey::Result<Order> {
    let digit = u8::try_from(id).unwrap();
    Ok(Order {
        tenant: "contoso".into(),
        id,
        customer: "ada".into(),
        courier: Some("kim".into()),
        number: format!("A{id}"),
        tag: "new".into(),
        city: "Leeds".into(),
        cents: 100,
        invoice: upload(orders, id, vec![digit; 1000]).await?,
        scan: None,
        note: None,
    })
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

/// The blobs that heads name, after all of them were found.
fn named(snapshot: &Snapshot) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for row in snapshot.table("Orders").unwrap().entities() {
        let is_head = row.row_key().starts_with("order_");
        for property in ["Invoice", "Scan"].into_iter().filter(|_| is_head) {
            let Some(Value::String(path)) = row.get(property) else { continue };
            let name = path.strip_prefix("orders/").expect("the container");
            let content = snapshot.blob("orders", name).expect("the blob that a head names");
            let length = Value::Int64(i64::try_from(content.len()).unwrap());
            assert_eq!(row.get(&format!("{property}_Length")), Some(length));
            named.insert(name.to_owned());
        }
    }
    named
}

fn stored(snapshot: &Snapshot) -> BTreeSet<String> {
    let uploaded = snapshot.blobs("orders").filter(|name| name.starts_with("orders/ref_"));
    uploaded.map(str::to_owned).collect()
}

/// All blobs, after they were found to be those that the orders have, no more and no less.
fn agreed(snapshot: &Snapshot) -> BTreeSet<String> {
    let named = named(snapshot);
    assert_eq!(stored(snapshot), named, "the blobs are those that the orders have");
    named
}

#[tokio::test]
async fn every_write_keeps_the_blobs_that_the_entities_have() -> TestResult {
    let (server, orders) = start().await?;
    let one = order(&orders, 1).await?;
    let one = Order { scan: Some(upload(&orders, 1, b"a scan".to_vec()).await?), ..one };
    let written = orders.insert(&one).await?;
    assert_eq!((written.settled, agreed(&server.snapshot()).len()), (Settled::Done, 2));
    // Each way to read.
    let found = orders.get(key(1)).await?.unwrap();
    assert_eq!((&found.entity, &found.version), (&one, &written.version));
    let by_number = orders.find(Order::by_number("A1")).await?.unwrap();
    let by_courier = orders.find(Order::by_courier("kim", "contoso", 1)).await?.unwrap();
    assert_eq!((by_number.entity, by_courier.entity), (one.clone(), one.clone()));
    for list in [Order::by_tag("contoso", "new"), Order::by_city("Leeds")] {
        assert_eq!(orders.query(list).all().await?[0].entity, one);
    }
    let summary = Summary { invoice: one.invoice.clone(), scan: one.scan.clone() };
    assert_eq!(orders.table().get_as::<Summary>(key(1)).await?.unwrap().entity, summary);

    // A reference that stays keeps its blob, and a new one takes the place of the old one.
    let first = agreed(&server.snapshot());
    orders.update(key(1), |order| order.cents = 7).await?;
    assert_eq!(agreed(&server.snapshot()), first);
    let paid = upload(&orders, 1, b"paid".to_vec()).await?;
    let changed = orders.update(key(1), |order| order.invoice = paid.clone()).await?.entity;
    assert_eq!(agreed(&server.snapshot()).intersection(&first).count(), 1);
    let version = orders.get(key(1)).await?.unwrap().version;
    let without = Order { scan: None, ..changed };
    orders.replace_if(&without, &version).await?;
    assert_eq!(agreed(&server.snapshot()).len(), 1);
    orders.upsert(&Order { city: "York".into(), ..without.clone() }).await?;
    orders.patch(key(1)).set(Order::CENTS, 9).send().await?;
    assert!(orders.rewrite(key(1)).await?);
    let read = orders.get(key(1)).await?.unwrap().entity;
    assert_eq!(read, Order { cents: 9, city: "York".into(), ..without });
    assert_eq!(orders.download(&read.invoice).bytes().await?, "paid");

    let (two, three) = (order(&orders, 2).await?, order(&orders, 3).await?);
    orders.transaction().insert(&two).insert(&three).submit().await?;
    assert_eq!(agreed(&server.snapshot()).len(), 3);
    assert!(orders.delete(key(2)).await?);
    assert_eq!(agreed(&server.snapshot()).len(), 2);
    let mut more = Vec::new();
    for id in 4..14 {
        more.push(order(&orders, id).await?);
    }
    let loaded = orders.load(futures_util::stream::iter(more)).run().await?;
    assert!(loaded.is_clean(), "{loaded:?}");
    let verified = orders.verify().run().await?;
    assert!(verified.is_clean() && verified.parts["Invoice"].right == 12, "{verified:?}");
    let deleted = orders.delete_where(Order::partition("contoso")).run().await?;
    assert!(deleted.is_clean());
    server.clock().advance(Duration::from_secs(61));
    store(&account(&server)?)?.work_once().await?;
    assert!(agreed(&server.snapshot()).is_empty());
    Ok(())
}

/// A type that has a reference and nothing else.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{album}", row = "photo_{number:4}", rename_all = "PascalCase")]
struct Photo {
    album: String,
    number: u32,
    title: String,
    #[entity(blob)]
    image: Option<BlobRef>,
}

#[tokio::test]
async fn a_reference_sends_the_documented_requests() -> TestResult {
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
    let key = || Photo::key("leeds", 1);
    let upload = async |content: &[u8]| photos.upload_reader(key(), content).send().await;
    let image = upload(&vec![7; 100_000][..]).await?;
    let photo =
        Photo { album: "leeds".into(), number: 1, title: "Snow".into(), image: Some(image) };
    let plan = photos.explain().insert(&photo).await?;
    assert_eq!((plan.reads(), plan.requests(), plan.operations()), (0, 1, 1));
    photos.insert(&photo).await?;
    assert_eq!(cost(), 2, "the blob and the entity");
    assert_eq!(photos.get(key()).await?.unwrap().entity, photo);
    assert_eq!(photos.table().get_as::<Photo>(key()).await?.unwrap().entity, photo);
    assert_eq!(cost(), 2, "no blob is read");
    photos.download(photo.image.as_ref().unwrap()).bytes().await?;
    assert_eq!(cost(), 1);
    photos.patch(key()).set(Photo::TITLE, "Snow in May").send().await?;
    assert_eq!(cost(), 1);
    photos.update(key(), |photo| photo.title = "May".into()).await?;
    assert_eq!(cost(), 2);
    let other = upload(b"another").await?;
    photos.update(key(), |photo| photo.image = Some(other.clone())).await?;
    // The blob; the entity; message, transaction, old blob, op row and message.
    assert_eq!(cost(), 7);
    let plan = photos.explain().delete(key()).await?;
    assert_eq!((plan.reads(), plan.requests(), cost()), (1, 5, 1));
    photos.delete(key()).await?;
    assert_eq!(cost(), 6);
    Ok(())
}

#[tokio::test]
async fn jobs_over_entities_with_references_alone_check_and_free_their_blobs() -> TestResult {
    let (server, orders) = start().await?;
    let account = orders.table().account();
    let photos = Store::<Photo>::builder(account.table("Orders"))
        .queue(account.queue("orders"))
        .blobs(account.container("orders"))
        .build()?;
    let photo = async |number: u32| {
        let upload = photos.upload_reader(Photo::key("leeds", number), &b"an image"[..]);
        let image = Some(upload.send().await?);
        Ok::<_, rowkey::Error>(Photo { album: "leeds".into(), number, title: "Snow".into(), image })
    };
    let mut some = Vec::new();
    for number in 0..20 {
        some.push(photo(number).await?);
    }
    // One of a group is refused, and the others are written.
    some[7].image = some[8].image.clone();
    let loaded = photos.load(futures_util::stream::iter(some)).run().await?;
    assert_eq!(loaded.total.right, 19, "{loaded:?}");
    let again = photos.load_over(futures_util::stream::iter([photo(3).await?]));
    assert!(again.run().await?.is_clean());
    // A transaction whose answer is lost, and whose entities are found to be stored.
    let some = [photo(30).await?, photo(31).await?];
    let lost = server.inject(Fault::on(Operation::Transaction).times(9).close_after_commit());
    let loaded = photos.load(futures_util::stream::iter(some)).run().await?;
    assert_eq!((loaded.total.right, loaded.problems.len()), (2, 0), "{loaded:?}");
    drop(lost);
    let missing = photos.get(Photo::key("leeds", 5)).await?.unwrap().entity.image.unwrap();
    account.container("orders").blob(missing.name()).delete().await?;
    let report = photos.verify().run().await?;
    assert_eq!((report.part("Image").right, report.part("Image").missing), (20, 1), "{report:?}");
    assert!(photos.delete_where(Photo::partition("leeds")).run().await?.is_clean());
    // That of the photo that was refused, until the sweep.
    assert_eq!(server.snapshot().blobs("orders").count(), 1);
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

/// The writes, each on a server with one order.
type Write = fn(Store<Order>) -> BoxFuture<'static, Result<(), rowkey::Error>>;

const WRITES: [(&str, Write); 5] = [
    ("insert", |orders| {
        async move { orders.insert(&order(&orders, 2).await?).await.map(drop) }.boxed()
    }),
    ("update", |orders| {
        async move {
            let invoice = upload(&orders, 1, b"paid".to_vec()).await?;
            let change = |order: &mut Order| {
                (order.invoice, order.city) = (invoice.clone(), "York".into());
                order.scan = None;
            };
            orders.update(key(1), change).await.map(drop)
        }
        .boxed()
    }),
    ("upsert", |orders| {
        async move {
            let other = Order { number: "B".into(), ..order(&orders, 1).await? };
            orders.upsert(&other).await.map(drop)
        }
        .boxed()
    }),
    ("again", |orders| {
        async move {
            // A caller tries again with the same reference after a success and after a failure.
            let order = order(&orders, 2).await?;
            let inserted = orders.insert(&order).await;
            orders.delete(key(2)).await?;
            match orders.insert(&order).await {
                Err(error) if error.kind() == ErrorKind::Invalid => inserted.map(drop),
                other => other.map(drop),
            }
        }
        .boxed()
    }),
    ("delete", |orders| async move { orders.delete(key(1)).await.map(drop) }.boxed()),
];

#[tokio::test]
async fn each_entity_keeps_its_blobs_and_orphans_are_removed_after_any_fault() -> TestResult {
    let (server, orders) = start().await?;
    let scan = upload(&orders, 1, b"a scan".to_vec()).await?;
    orders.insert(&Order { scan: Some(scan), ..order(&orders, 1).await? }).await?;
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
                    server.clock().advance(Duration::from_secs(121 * 60));
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
async fn an_uploaded_blob_without_an_entity_is_swept_after_two_hours() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(&orders, 1).await?).await?;
    order(&orders, 2).await?;
    // A blob that no store uploaded is left alone.
    let container = orders.table().account().container("orders");
    container.blob("orders/ref_order_0x").put("a").send().await?;
    let mut swept = Vec::new();
    for _ in 0..3 {
        server.clock().advance(Duration::from_secs(59 * 60));
        let report = store(&account(&server)?)?.sweep().run().await?;
        let part = &report.parts["references to blobs"];
        swept.push((part.right, part.skipped, part.repaired));
    }
    assert_eq!(swept, [(1, 2, 0), (1, 2, 0), (1, 1, 1)]);
    assert_eq!(server.journal().count(Operation::DeleteBlob), 1);
    assert_eq!(named(&server.snapshot()).len(), 1);
    Ok(())
}
