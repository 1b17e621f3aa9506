//! Which references an entity can have: its own, and those that were just uploaded for it, once.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select, try_join};
use rowkey::edm::Value;
use rowkey::store::Store;
use rowkey::{BlobRef, ClientOptions, DynamicEntity, Entity, ErrorKind, Key};
use rowkey_emulator::{ErrorCode, Fault, Operation};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

use super::{Order, agreed, key, named, order, start, store, upload};

/// The error of a write with a reference that the entity cannot have.
fn refused(written: rowkey::Result<impl Sized>, what: &str) {
    let error = written.err().expect("a refusal");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let text = error.to_string();
    assert!(text.contains("`Invoice`") && text.contains(what), "{text}");
}

#[tokio::test]
async fn a_reference_belongs_to_one_entity_and_is_given_to_it_once() -> TestResult {
    let (server, orders) = start().await?;
    let one = order(&orders, 1).await?;
    orders.insert(&one).await?;
    let two = order(&orders, 2).await?;
    let journal = server.journal();

    // Uploaded for another order, and read from another one.
    let of_another = Order { invoice: two.invoice.clone(), ..one.clone() };
    refused(orders.upsert(&of_another).await, "uploaded for another entity");
    let read = orders.get(key(1)).await?.unwrap().entity;
    let copied = Order { invoice: read.invoice.clone(), ..two.clone() };
    refused(orders.insert(&copied).await, "neither is in the stored entity");
    // Given to the order before, and dropped.
    let paid = upload(&orders, 1, b"paid".to_vec()).await?;
    orders.update(key(1), |order| order.invoice = paid.clone()).await?;
    let back = |order: &mut Order| order.invoice = one.invoice.clone();
    refused(orders.update(key(1), back).await, "was written before");
    refused(orders.upsert(&read).await, "neither is in the stored entity");
    orders.delete(key(1)).await?;
    refused(orders.insert(&Order { invoice: paid, ..one }).await, "was written before");
    assert_eq!(server.journal().since(&journal).count(Operation::PutBlob), 1);

    // Another store of another container.
    let account = orders.table().account();
    account.container("others").create().await?;
    let others = Store::<Order>::builder(account.table("Orders"))
        .queue(account.queue("orders"))
        .blobs(account.container("others"))
        .build()?;
    refused(others.insert(&two).await, "uploaded for another entity");
    orders.insert(&two).await?;
    agreed(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_write_that_was_not_committed_leaves_its_references_for_the_next_one() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(&orders, 1).await?).await?;
    let taken = Order { number: "A1".into(), ..order(&orders, 2).await? };
    assert!(orders.insert(&taken).await.is_err());
    let two = Order { number: "A2".into(), ..taken };
    let down = server.inject(Fault::on(Operation::Transaction).reject(ErrorCode::SERVER_BUSY));
    assert!(orders.insert(&two).await.is_err());
    drop(down);
    // A plan that is only shown.
    orders.explain().insert(&two).await?;
    // A transaction with another entity that is refused.
    let one = order(&orders, 1).await?;
    let both = orders.transaction().insert(&two).insert(&one).submit().await;
    assert_eq!(both.unwrap_err().kind(), ErrorKind::AlreadyExists);
    orders.insert(&two).await?;
    let spare = order(&orders, 2).await?;
    assert_eq!(orders.insert(&spare).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    orders.upsert(&spare).await?;
    assert_eq!(orders.get(key(2)).await?.unwrap().entity, spare);
    named(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_reference_that_another_call_is_writing_waits_for_it() -> TestResult {
    let (server, orders) = start().await?;
    let one = order(&orders, 1).await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let mut insert = pin!(orders.insert(&one));
    let waits =
        matches!(select(insert.as_mut(), pin!(held.wait_until_held())).await, Either::Right(_));
    assert!(waits);
    let error = orders.insert(&one).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("another call"), "{error}");
    drop(held);
    insert.await?;
    agreed(&server.snapshot());

    // After a call that was dropped, the reference may be in the entity, and is not given to it again.
    let two = order(&orders, 2).await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    {
        let mut insert = pin!(orders.insert(&two));
        let waits =
            matches!(select(insert.as_mut(), pin!(held.wait_until_held())).await, Either::Right(_));
        assert!(waits);
    }
    refused(orders.insert(&two).await, "was written before");
    drop(held);
    Ok(())
}

#[tokio::test]
async fn an_old_upload_is_refused_before_a_sweep_deletes_its_blob() -> TestResult {
    let (server, orders) = start().await?;
    let (one, two) = (order(&orders, 1).await?, order(&orders, 2).await?);
    let account = orders.table().account();
    account.clock().sleep(Duration::from_secs(4)).await;
    orders.insert(&one).await?;
    for _ in 0..899 {
        account.clock().sleep(Duration::from_secs(4)).await;
    }
    let journal = server.journal();
    refused(orders.insert(&two).await, "more than an hour ago");
    assert!(server.journal().since(&journal).is_empty());
    Ok(())
}

#[tokio::test]
async fn two_writers_of_one_entity_leave_the_blobs_that_it_has() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(&orders, 1).await?).await?;
    let others = store(&account(&server)?)?;
    for round in 0..8 {
        let (one, other) = (upload(&orders, 1, vec![1; round]), upload(&others, 1, vec![2; round]));
        let (one, other) = try_join(one, other).await?;
        let of_one = orders.update(key(1), |order| order.invoice = one.clone());
        let of_other = others.update(key(1), |order| order.scan = Some(other.clone()));
        let (_, written) = try_join(of_one, of_other).await?;
        named(&server.snapshot());
        assert_eq!(written.entity.scan, Some(other));
        let read = orders.get(key(1)).await?.unwrap().entity;
        assert_eq!(orders.download(&read.invoice).bytes().await?, vec![1; round]);
    }
    server.clock().advance(Duration::from_secs(61));
    let later = store(&account(&server)?)?;
    later.work_once().await?;
    assert_eq!(agreed(&server.snapshot()).len(), 2);
    Ok(())
}

/// The order as an older program has it.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}", rename_all = "PascalCase")]
struct Older {
    tenant: String,
    id: u32,
    customer: String,
}

/// Version 1 of a document, with a reference that version 2 drops and one that it renames.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "document_{id:4}", rename_all = "PascalCase")]
struct Document1 {
    tenant: String,
    id: u32,
    #[entity(blob)]
    page: BlobRef,
    #[entity(blob)]
    preview: Option<BlobRef>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "document_{id:4}", rename_all = "PascalCase")]
#[entity(version = 2, from = Document1)]
struct Document {
    tenant: String,
    id: u32,
    #[entity(blob)]
    first_page: BlobRef,
}

impl From<Document1> for Document {
    fn from(old: Document1) -> Self {
        Self { tenant: old.tenant, id: old.id, first_page: old.page }
    }
}

fn documents<E: Entity + Clone + Send + Sync + 'static>(
    orders: &Store<Order>,
) -> rowkey::Result<Store<E>> {
    let account = orders.table().account();
    Store::<E>::builder(account.table("Orders"))
        .queue(account.queue("orders"))
        .blobs(account.container("orders"))
        .build()
}

#[tokio::test]
async fn programs_of_other_versions_keep_and_free_references() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(&orders, 1).await?).await?;
    // A program without the field keeps it.
    let older = documents::<Older>(&orders)?;
    older.update(Older::key("contoso", 1), |order| order.customer = "kim".into()).await?;
    let kept = orders.get(key(1)).await?.unwrap().entity;
    assert_eq!(
        (&*kept.customer, orders.download(&kept.invoice).bytes().await?.len()),
        ("kim", 1000)
    );
    // Its deletion leaves the blob to the sweep.
    older.delete(Older::key("contoso", 1)).await?;
    server.clock().advance(Duration::from_secs(121 * 60));
    store(&account(&server)?)?.sweep().run().await?;
    agreed(&server.snapshot());

    // The conversion renames one reference and drops the other.
    let orders = store(&account(&server)?)?;
    let (old, new) = (documents::<Document1>(&orders)?, documents::<Document>(&orders)?);
    let at = || Document1::key("contoso", 7);
    let page = old.upload_reader(at(), &b"a page"[..]).send().await?;
    let preview = Some(old.upload_reader(at(), &b"small"[..]).send().await?);
    old.insert(&Document1 { tenant: "contoso".into(), id: 7, page, preview }).await?;
    let updated = new.update(Document::key("contoso", 7), |_| ()).await?.entity;
    assert_eq!(new.download(&updated.first_page).bytes().await?, "a page");
    let left: Vec<_> = server.snapshot().blobs("orders").map(str::to_owned).collect();
    let left = left.iter().filter(|name| name.contains("ref_document")).count();
    assert_eq!(left, 1, "the preview is gone");
    Ok(())
}

#[tokio::test]
async fn rows_and_blobs_of_other_programs_are_read_and_left_alone() -> TestResult {
    let (server, orders) = start().await?;
    let documents = documents::<Document1>(&orders)?;
    let container = orders.table().account().container("scans");
    container.create().await?;
    container.blob("2026/one.pdf").put("a scan").send().await?;
    // As an SDK in another language writes it.
    let mut row = DynamicEntity::new("contoso", "document_0001");
    row.set("Page", "scans/2026/one.pdf");
    row.set("Page_Length", 6_i64);
    let sha256 = "0bd2aa9a3d2a1e1d9b0c0a8f2f1d6a3e0bd2aa9a3d2a1e1d9b0c0a8f2f1d6a3e";
    row.set("Page_Sha256", sha256);
    orders.table().insert(&row).await?;
    let at = || Document1::key("contoso", 1);
    let read = documents.get(at()).await?.unwrap().entity;
    assert_eq!(documents.download(&read.page).range(2..).bytes().await?, "scan");
    let whole = documents.download(&read.page).bytes().await.unwrap_err();
    assert_eq!(whole.kind(), ErrorKind::Damaged, "the digest is another one");
    // A write keeps the reference, and a deletion leaves the blob.
    let preview = documents.upload_reader(at(), &b"small"[..]).send().await?;
    documents.update(at(), |document| document.preview = Some(preview.clone())).await?;
    assert!(documents.verify().run().await?.is_clean());
    documents.delete(at()).await?;
    assert!(server.snapshot().blob("scans", "2026/one.pdf").is_some());
    assert_eq!(server.snapshot().blobs("orders").count(), 0);

    // Properties that are no reference.
    for (name, value) in [
        ("Page", Value::from("secret")),
        ("Page_Length", (-1_i64).into()),
        ("Page_Sha256", "secret".into()),
    ] {
        let mut wrong = row.clone();
        wrong.set(name, value);
        orders.table().upsert(&wrong).await?;
        let error = documents.get(at()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        let text = format!("{error} {:?}", error.details().failed_rows);
        assert!(!text.contains("secret"), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_lagging_secondary_loses_no_blob() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(&orders, 1).await?).await?;
    let account = orders.table().account();
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let orders = store(&account.with_options(options))?;
    let _behind = server.hold_back_secondary();
    for round in 1..6_u8 {
        let operation = [Operation::GetEntity, Operation::GetBlob][usize::from(round % 2)];
        let new = upload(&orders, 1, vec![round; 10]).await?;
        let fault = Fault::on(operation).times(1);
        let injected = server.inject(fault.reject(ErrorCode::SERVER_BUSY));
        orders.update(key(1), |order| order.invoice = new.clone()).await?;
        drop(injected);
        agreed(&server.snapshot());
        // The secondary does not have the blob yet.
        let down = server.inject(Fault::on(operation).times(1).reject(ErrorCode::SERVER_BUSY));
        assert_eq!(orders.download(&new).bytes().await?, vec![round; 10]);
        drop(down);
    }
    Ok(())
}

#[tokio::test]
async fn a_row_that_another_program_deleted_leaves_its_blobs_to_the_sweep() -> TestResult {
    let (server, orders) = start().await?;
    orders.insert(&order(&orders, 1).await?).await?;
    let row = Key::<DynamicEntity>::new("contoso", "order_0001");
    orders.table().delete(row, rowkey::Match::Any).await?;
    server.clock().advance(Duration::from_secs(121 * 60));
    let swept = store(&account(&server)?)?.sweep().run().await?;
    assert_eq!(swept.parts["references to blobs"].repaired, 1, "{swept:?}");
    agreed(&server.snapshot());
    Ok(())
}
