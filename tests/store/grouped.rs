//! Writes of several entities share requests for rows of one partition: claims with `buckets`, copies elsewhere
//! and releases.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Mutex;

use futures_util::future::select;
use futures_util::stream;
use rowkey::edm::Value;
use rowkey::key::bucket_of;
use rowkey::patterns::job::{Checkpoint, Interrupted, Report};
use rowkey::store::Store;
use rowkey::{Entity, ErrorKind, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_every_way};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "item_{id:4}")]
#[entity(index(name = by_shelf, partition = "shelf_{shelf}", row = "{tenant}_{id}", copy(shelf)))]
#[entity(unique(name = by_number, value = "{number}", buckets = 2))]
struct Item {
    tenant: String,
    id: u32,
    shelf: String,
    number: String,
}

fn item(tenant: &str, id: u32) -> Item {
    let number = format!("{tenant}/{id}");
    Item { tenant: tenant.into(), id, shelf: format!("{}", id % 2), number }
}

fn items(tenants: &[&str], count: u32) -> Vec<Item> {
    tenants.iter().flat_map(|tenant| (0..count).map(|id| item(tenant, id))).collect()
}

fn store<E>(account: &StorageAccount) -> rowkey::Result<Store<E>>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    Store::builder(account.table("items")).queue(account.queue("items")).build()
}

async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    store::<Item>(&account)?.create_if_missing().await?;
    Ok((server, account))
}

/// Asserts that each item has its claim and its copy, and that no other row is there. Returns the items.
fn agreed(snapshot: &Snapshot) -> Vec<(String, String)> {
    let (mut items, mut expected, mut found) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for row in snapshot.table("items").unwrap().entities() {
        let text = |name: &str| match row.get(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let keys = (row.partition_key().to_owned(), row.row_key().to_owned());
        let Some(id) = keys.1.strip_prefix("item_") else {
            let owner = text("OwnerRow") + &text("PrimaryRowKey");
            found.insert((keys, owner));
            continue;
        };
        let id: u32 = id.parse().unwrap();
        let shelf = (format!("shelf_{}", text("shelf")), format!("{}_{id:010}", keys.0));
        let claim = Item::by_number(text("number"));
        let (partition, row) = claim.parts().unwrap();
        expected.insert((shelf, keys.1.clone()));
        expected.insert(((partition.to_owned(), row.to_owned()), keys.1.clone()));
        items.push(keys);
    }
    assert_eq!(found, expected);
    assert_eq!(snapshot.queue("items").unwrap().messages().count(), 0);
    items
}

/// The worker, a minute later.
async fn work(account: &StorageAccount) -> TestResult {
    let items = store::<Item>(account)?;
    for _ in 0..3 {
        items.drain_backlog().await?;
        let worked = items.work_once().await?;
        assert_eq!(worked.failed, 0, "{worked:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_claim_with_buckets_has_the_documented_keys() -> TestResult {
    let (server, account) = start().await?;
    let items = store::<Item>(&account)?;
    items.insert(&item("contoso", 1)).await?;
    let row_key = "claim_contoso.~1";
    let bucket = bucket_of(row_key, 2);
    let partition_key = format!("unique_item_by_number_{bucket}");
    assert_eq!(Item::by_number("contoso/1").parts(), Ok((&*partition_key, row_key)));
    let snapshot = server.snapshot();
    let claim = snapshot.table("items").unwrap().entity(&partition_key, row_key).unwrap();
    assert_eq!(claim.get("OwnerRow"), Some(Value::String("item_0001".into())));
    assert_eq!(agreed(&snapshot).len(), 1);

    let taken = items.insert(&Item { number: "contoso/1".into(), ..item("fabrikam", 7) }).await;
    assert_eq!(taken.unwrap_err().details().index, Some("by_number"));
    assert_eq!(items.find(Item::by_number("contoso/1")).await?.unwrap().entity.id, 1);
    let renumbered = |item: &mut Item| item.number = "new".into();
    items.update(Item::key("contoso", 1), renumbered).await?;
    assert_eq!(agreed(&server.snapshot()).len(), 1);
    assert!(items.verify().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn rows_of_one_partition_share_requests() -> TestResult {
    const COUNT: u32 = 40;
    let (server, account) = start().await?;
    let before = server.journal();
    let report =
        store::<Item>(&account)?.load(stream::iter(items(&["contoso"], COUNT))).run().await?;
    assert!(report.is_clean());
    let sent = server.journal().since(&before);
    // Two buckets, the commit, and two shelves; the message is put and deleted, and the op row is deleted.
    assert_eq!((sent.count(Operation::Transaction), sent.len()), (5, 8));
    assert_eq!(agreed(&server.snapshot()).len(), COUNT as usize);

    let before = server.journal();
    let report = store::<Item>(&account)?.delete_where(Item::partition("contoso")).run().await?;
    assert_eq!(report.total.right, u64::from(COUNT));
    let sent = server.journal().since(&before);
    // The page, then two buckets and two shelves before the commit.
    assert_eq!(sent.count(Operation::QueryEntities), 5);
    assert_eq!((sent.count(Operation::Transaction), sent.len()), (5, 13));
    assert_eq!(server.snapshot().table("items").unwrap().len(), 0);
    Ok(())
}

/// Other rows between those that are read together: the query is bounded, and each row is read all the same.
#[tokio::test]
async fn a_few_rows_of_a_large_partition_are_read_one_by_one() -> TestResult {
    let (server, account) = start().await?;
    let all = store::<Item>(&account)?;
    let sparse = |id: u32| Item { number: format!("{:03}", id * 37 % 211), ..item("contoso", id) };
    let others = (0..200).map(|id| Item { tenant: "fabrikam".into(), ..sparse(id) });
    all.load(stream::iter(others.collect::<Vec<_>>())).run().await?;
    let few = [201, 204, 208, 209].map(sparse);
    all.load(stream::iter(few)).run().await?;
    let report = store::<Item>(&account)?.delete_where(Item::partition("contoso")).run().await?;
    assert_eq!((report.total.right, agreed(&server.snapshot()).len()), (4, 200));
    Ok(())
}

/// Runs a load from the checkpoint of the run before.
async fn load(
    account: &StorageAccount,
    told: &Mutex<Option<String>>,
) -> Result<Report, Interrupted> {
    let all = items(&["contoso", "fabrikam"], 3);
    let mut job = store::<Item>(account).unwrap().load(stream::iter(all)).concurrency(1);
    let resumed = told.lock().unwrap().clone();
    if let Some(checkpoint) = resumed {
        job = job.resume(checkpoint.parse::<Checkpoint>().unwrap());
    }
    let progress = |progress: &rowkey::patterns::job::Progress<'_>| {
        *told.lock().unwrap() = Some(progress.checkpoint.to_string());
    };
    job.progress(progress).run().await
}

#[tokio::test]
async fn loads_and_deletions_agree_after_any_fault_or_crash() -> TestResult {
    let (server, _) = start().await?;
    let told = Mutex::new(None);
    let scenario = async |account: &StorageAccount| {
        *told.lock().unwrap() = None;
        load(account, &told).await.is_ok()
    };
    let recover = async |account: &StorageAccount| {
        work(account).await?;
        // It resumes from the checkpoint, and each item is stored once.
        assert_eq!(load(account, &told).await?.total.right, 6);
        work(account).await
    };
    sweep_every_way(&server, scenario, recover, |snapshot| {
        // A write whose response was lost keeps its op row and its message for a while.
        settled(snapshot, 6);
    })
    .await?;

    let (server, account) = start().await?;
    store::<Item>(&account)?.load(stream::iter(items(&["contoso", "fabrikam"], 3))).run().await?;
    let deleted = async |account: &StorageAccount| {
        let all = store::<Item>(account)?;
        all.delete_where(Item::partition("contoso")).run().await.map_err(rowkey::Error::from)
    };
    let recover = async |account: &StorageAccount| {
        work(account).await?;
        deleted(account).await?;
        work(account).await
    };
    sweep_every_way(
        &server,
        async |account| deleted(account).await.is_ok(),
        recover,
        |snapshot| {
            settled(snapshot, 3);
        },
    )
    .await
}

/// Like [`agreed`], without the op rows, voids and messages that stay for late requests.
fn settled(snapshot: &Snapshot, count: usize) {
    let rows = snapshot.table("items").unwrap();
    let kept = |key: &str| key.starts_with("op_");
    let claims = rows.entities().filter(|row| row.row_key().starts_with("claim_")).count();
    let copies = rows.entities().filter(|row| row.partition_key().starts_with("shelf_")).count();
    let items = rows.entities().filter(|row| row.row_key().starts_with("item_"));
    let mut stored = 0;
    for row in items {
        let Some(Value::String(number)) = row.get("number") else { panic!("no number") };
        let claim = Item::by_number(number);
        let (partition, key) = claim.parts().unwrap();
        let claim = rows.entity(partition, key).unwrap();
        assert_eq!(claim.get("OwnerRow"), Some(Value::String(row.row_key().into())));
        assert_eq!(claim.get("OwnerPartition"), Some(Value::String(row.partition_key().into())));
        stored += 1;
    }
    assert_eq!((stored, claims, copies), (count, count, count));
    let others = rows.entities().filter(|row| kept(row.row_key())).count();
    assert_eq!(rows.len(), 3 * count + others);
}

#[tokio::test]
async fn a_taken_value_in_a_group_is_reported_and_the_others_are_stored() -> TestResult {
    let (server, account) = start().await?;
    let all = store::<Item>(&account)?;
    all.insert(&Item { number: "contoso/5".into(), ..item("fabrikam", 1) }).await?;
    let report = all.load(stream::iter(items(&["contoso"], 12))).run().await?;
    assert_eq!((report.total.right, report.total.failed), (11, 1), "{report:?}");
    assert_eq!(report.part("by_number").failed, 1);
    assert_eq!(&*report.problems[0].row_key, "item_0005");
    let stored = agreed(&server.snapshot());
    assert_eq!(stored.len(), 12);
    assert!(!stored.contains(&("contoso".into(), "item_0005".into())));
    Ok(())
}

/// A claim of a writer that stopped before its commit is taken over, and the rest of its group is claimed together.
#[tokio::test]
async fn a_claim_left_by_a_stopped_writer_is_taken_over_by_a_group() -> TestResult {
    let (server, account) = start().await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    {
        let other = store::<Item>(&account)?;
        let one = Item { number: "contoso/5".into(), ..item("fabrikam", 99) };
        let insert = other.insert(&one);
        select(pin!(insert), pin!(held.wait_until_held())).await;
    }
    held.discard();
    let before = server.journal();
    let all = store::<Item>(&account)?;
    let report = all.load(stream::iter(items(&["contoso"], 12))).run().await?;
    assert_eq!((report.total.right, report.is_clean()), (12, true), "{report:?}");
    let sent = server.journal().since(&before).len();
    assert!(sent < 30, "{sent} requests: the others were not claimed one by one");
    settled(&server.snapshot(), 12);
    Ok(())
}

/// While a deletion waits before its commit, another writer changes one of its entities.
#[tokio::test]
async fn an_entity_that_changes_during_a_deletion_is_deleted_with_its_new_rows() -> TestResult {
    let (server, account) = start().await?;
    let (all, other) = (store::<Item>(&account)?, store::<Item>(&account)?);
    all.load(stream::iter(items(&["contoso"], 6))).run().await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let mut deletion = pin!(all.delete_where(Item::partition("contoso")).run());
    select(deletion.as_mut(), pin!(held.wait_until_held())).await;
    let change = |item: &mut Item| (item.number, item.shelf) = ("new".into(), "9".into());
    other.update(Item::key("contoso", 3), change).await?;
    // The number that it had is free, and another entity takes it.
    other.insert(&Item { number: "contoso/3".into(), ..item("fabrikam", 1) }).await?;
    held.release();
    let report = deletion.await?;
    assert_eq!((report.total.right, report.is_clean()), (6, true), "{report:?}");
    assert_eq!(agreed(&server.snapshot()), [("fabrikam".to_owned(), "item_0001".to_owned())]);
    Ok(())
}

/// While the claims of deleted entities are about to be released together, another entity takes one of the
/// values. Its claim stays.
#[tokio::test]
async fn a_value_that_is_taken_before_its_release_keeps_its_claim() -> TestResult {
    let (server, account) = start().await?;
    let (all, other) = (store::<Item>(&account)?, store::<Item>(&account)?);
    all.load(stream::iter(items(&["contoso"], 8))).run().await?;
    // The commit, and the copies on two shelves; then the claims of a bucket.
    let held = server.inject(Fault::on(Operation::Transaction).nth(4).hold());
    let mut deletion = pin!(all.delete_where(Item::partition("contoso")).run());
    select(deletion.as_mut(), pin!(held.wait_until_held())).await;
    for id in 0..8 {
        other.insert(&Item { number: format!("contoso/{id}"), ..item("fabrikam", id) }).await?;
    }
    held.release();
    assert_eq!(deletion.await?.total.right, 8);
    settled(&server.snapshot(), 8);
    assert!(all.verify().run().await?.is_clean());
    Ok(())
}

/// The same type with another number of buckets, and with another name.
mod changed {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{tenant}", row = "item_{id:4}")]
    #[entity(unique(name = by_number, value = "{number}", buckets = 4))]
    pub(super) struct Four {
        pub(super) tenant: String,
        pub(super) id: u32,
        pub(super) number: String,
    }

    /// The new number of buckets under a new name.
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{tenant}", row = "item_{id:4}")]
    #[entity(index(name = by_shelf, partition = "shelf_{shelf}", row = "{tenant}_{id}", copy(shelf)))]
    #[entity(unique(name = by_number_4, value = "{number}", buckets = 4))]
    pub(super) struct Renamed {
        pub(super) tenant: String,
        pub(super) id: u32,
        pub(super) shelf: String,
        pub(super) number: String,
    }

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{tenant}", row = "item_{id:4}")]
    #[entity(unique(name = by_number, value = "{number}"))]
    pub(super) struct Alone {
        pub(super) tenant: String,
        pub(super) id: u32,
        pub(super) number: String,
    }
}

#[tokio::test]
async fn another_number_of_buckets_is_refused_when_the_store_is_opened() -> TestResult {
    let (_server, account) = start().await?;
    store::<changed::Alone>(&account)?.open().await?;
    let refused = store::<changed::Four>(&account)?.open().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("`by_number` is declared with another template"));

    let (_server, account) = start().await?;
    store::<changed::Four>(&account)?.open().await?;
    for refused in [
        store::<Item>(&account)?.open().await.err(),
        store::<changed::Alone>(&account)?.open().await.err(),
    ] {
        assert_eq!(refused.ok_or("it was opened")?.kind(), ErrorKind::Invalid);
    }
    Ok(())
}

/// Removing the old declaration removes its claims, and those of the new one stay, although its name begins alike.
#[tokio::test]
async fn the_claims_of_the_old_name_go_and_those_of_the_new_name_stay() -> TestResult {
    let (server, account) = start().await?;
    store::<Item>(&account)?.load(stream::iter(items(&["contoso"], 6))).run().await?;
    let renamed = store::<changed::Renamed>(&account)?;
    assert!(renamed.repair().run().await?.is_clean());
    let claims = |of: &str| {
        let snapshot = server.snapshot();
        let rows = snapshot.table("items").unwrap();
        let is_of = |key: &str| key.len() == of.len() + 1 && key.starts_with(of);
        rows.entities().filter(|row| is_of(row.partition_key())).count()
    };
    assert_eq!((claims("unique_item_by_number_"), claims("unique_item_by_number_4_")), (6, 6));
    let report = renamed.repair_without("by_number")?.run().await?;
    assert_eq!(report.part("by_number").repaired, 6, "{report:?}");
    assert_eq!((claims("unique_item_by_number_"), claims("unique_item_by_number_4_")), (0, 6));
    assert!(renamed.verify().run().await?.is_clean());
    Ok(())
}
