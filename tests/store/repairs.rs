//! Repairs by groups: entities of a partition are written again together, and orphans of a partition go together.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::future::{join, select};
use futures_util::stream;
use rowkey::edm::Value;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, Key, Match, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_every_way};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "item_{id:4}")]
#[entity(index(name = by_state, row = "state_{state}", many))]
#[entity(index(name = by_shelf, partition = "shelf_{shelf}", row = "{tenant}_{id}", copy(shelf)))]
#[entity(unique(name = by_number, value = "{number}", buckets = 2))]
struct Item {
    tenant: String,
    id: u32,
    state: String,
    shelf: String,
    number: String,
}

fn item(tenant: &str, id: u32) -> Item {
    let (shelf, number) = (format!("{}", id % 2), format!("{tenant}/{id}"));
    Item { tenant: tenant.into(), id, state: "new".into(), shelf, number }
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Item>> {
    Store::builder(account.table("items")).queue(account.queue("items")).build()
}

/// A server with items of one tenant.
async fn start(count: u32) -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let items = store(&account)?;
    items.create_if_missing().await?;
    items.load(stream::iter((0..count).map(|id| item("contoso", id)))).run().await?;
    Ok((server, account))
}

/// Deletes rows by their RowKeys, as a program without the store does.
async fn lose(
    server: &Server,
    account: &StorageAccount,
    is_lost: impl Fn(&str) -> bool + Sync,
) -> TestResult {
    let snapshot = server.snapshot();
    let table = account.table("items");
    for row in snapshot.table("items").unwrap().entities().filter(|row| is_lost(row.row_key())) {
        let key = Key::<DynamicEntity>::new(row.partition_key(), row.row_key());
        table.delete(key, Match::Any).await?;
    }
    Ok(())
}

/// Asserts that each item has its rows, and that there are no others except op rows and voids. Returns the ids.
fn agreed(snapshot: &Snapshot) -> BTreeSet<u32> {
    let rows = snapshot.table("items").unwrap();
    let (mut ids, mut expected) = (BTreeSet::new(), BTreeSet::new());
    let keys = |key: (&str, &str)| (key.0.to_owned(), key.1.to_owned());
    for row in rows.entities() {
        let Some(id) = row.row_key().strip_prefix("item_") else { continue };
        let id: u32 = id.parse().unwrap();
        let Some(Value::String(number)) = row.get("number") else { panic!("no number") };
        let claim = Item::by_number(number);
        let (bucket, claim) = claim.parts().unwrap();
        let owner = rows.entity(bucket, claim).expect("the claim").get("OwnerRow");
        assert_eq!(owner, Some(Value::String(row.row_key().into())));
        expected.insert(keys((bucket, claim)));
        expected.insert(keys((row.partition_key(), row.row_key())));
        expected.insert((row.partition_key().to_owned(), format!("state_new_item_{id:04}")));
        expected.insert((format!("shelf_{}", id % 2), format!("contoso_{id:010}")));
        ids.insert(id);
    }
    let found = rows.entities().filter(|row| !row.row_key().starts_with("op_"));
    let found: BTreeSet<_> =
        found.map(|row| (row.partition_key().to_owned(), row.row_key().to_owned())).collect();
    assert_eq!(found, expected);
    ids
}

fn is_head(row: &str) -> bool {
    row.starts_with("item_")
}

#[tokio::test]
async fn entities_of_a_partition_are_repaired_by_one_transaction() -> TestResult {
    let (server, account) = start(30).await?;
    lose(&server, &account, |row| !is_head(row)).await?;
    let before = server.journal();
    let report = store(&account)?.repair().run().await?;
    let parts = ["by_state", "by_shelf", "by_number"].map(|name| {
        let part = report.part(name);
        (part.missing, part.repaired)
    });
    assert_eq!((report.is_clean(), parts), (true, [(30, 30); 3]), "{report:?}");
    let sent = server.journal().since(&before);
    // Two buckets, and the commit. Copies elsewhere are settled one by one.
    assert!(sent.count(Operation::Transaction) <= 3 + 30 + 1, "{}", sent.len());
    assert_eq!((sent.count(Operation::PutMessage), sent.count(Operation::DeleteMessage)), (1, 1));
    assert_eq!(agreed(&server.snapshot()).len(), 30);

    // The entities are gone: two shelves, two buckets, and the partition of the entities.
    lose(&server, &account, is_head).await?;
    let before = server.journal();
    let report = store(&account)?.repair().run().await?;
    let parts = ["by_state", "by_shelf", "by_number"].map(|name| {
        let part = report.part(name);
        (part.orphaned, part.repaired)
    });
    assert_eq!((report.is_clean(), parts), (true, [(30, 30); 3]), "{report:?}");
    let sent = server.journal().since(&before);
    // And perhaps the void of the operation that made the claims.
    assert!(matches!(sent.count(Operation::Transaction), 5 | 6), "{}", sent.len());
    assert_eq!(sent.count(Operation::DeleteEntity), 0);
    assert!(agreed(&server.snapshot()).is_empty());
    Ok(())
}

/// A value that two entities have, because a program wrote past the store, is named, and the others are repaired.
#[tokio::test]
async fn an_entity_that_cannot_be_repaired_does_not_stop_its_group() -> TestResult {
    let (server, account) = start(12).await?;
    let row = account.table("items").get(Key::<DynamicEntity>::new("contoso", "item_0003")).await?;
    let mut row = row.ok_or("it is stored")?;
    row.entity.set("number", "contoso/5");
    account.table("items").replace(&row).await?;
    lose(&server, &account, |row| row.starts_with("state_")).await?;
    let report = store(&account)?.repair().run().await?;
    assert_eq!(report.part("by_number").failed, 1, "{report:?}");
    assert_eq!(report.part("by_state").repaired, 11, "{report:?}");
    assert_eq!(&*report.problems[0].row_key, "item_0003");

    row.entity.set("number", "contoso/3");
    account.table("items").upsert(&row.entity).await?;
    assert!(store(&account)?.repair().run().await?.is_clean());
    assert_eq!(agreed(&server.snapshot()).len(), 12);
    Ok(())
}

/// Another program changes an entity when the group is about to be written, and deletes another one.
#[tokio::test]
async fn a_group_whose_entities_change_meanwhile_is_repaired_one_by_one() -> TestResult {
    let (server, account) = start(6).await?;
    lose(&server, &account, |row| row.starts_with("state_")).await?;
    let (items, other) = (store(&account)?, store(&account)?);
    // Its first transaction is the commit of the group.
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let meanwhile = async {
        held.wait_until_held().await;
        other.update(Item::key("contoso", 1), |item| item.number = "one".into()).await?;
        assert!(other.delete(Item::key("contoso", 2)).await?);
        held.release();
        Ok::<_, rowkey::Error>(())
    };
    let (report, changed) = join(items.repair().run(), meanwhile).await;
    changed?;
    assert!(report?.is_clean());
    // The update may have left a row of the index to the repair.
    assert!(items.repair().run().await?.is_clean());
    assert_eq!(agreed(&server.snapshot()), [0, 1, 3, 4, 5].into());
    Ok(())
}

/// The entity of an orphan is stored again while the orphans of its partition are about to go.
#[tokio::test]
async fn a_row_that_an_entity_demands_again_is_kept() -> TestResult {
    let (server, account) = start(6).await?;
    lose(&server, &account, is_head).await?;
    let (items, other) = (store(&account)?, store(&account)?);
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    {
        let repair = items.repair();
        let mut repair = pin!(repair.run());
        select(repair.as_mut(), pin!(held.wait_until_held())).await;
        other.upsert(&item("contoso", 1)).await?;
        held.release();
        assert!(repair.await?.is_clean());
    }
    assert!(items.repair().run().await?.is_clean());
    assert_eq!(agreed(&server.snapshot()), [1].into());
    Ok(())
}

#[tokio::test]
async fn rows_agree_after_any_fault_or_crash_of_a_repair() -> TestResult {
    let (server, account) = start(6).await?;
    // Two entities without rows, two rows without entities, and two that agree.
    let of = |row: &str, ids: [u32; 2]| {
        ids.iter().any(|id| {
            let tails = [format!("_{id:010}"), format!("item_{id:04}"), format!(".~1{id}")];
            let of_claim = row.starts_with("claim_") && row.ends_with(&format!("{id}"));
            of_claim || tails.iter().any(|tail| row.ends_with(tail))
        })
    };
    lose(&server, &account, |row| !is_head(row) && of(row, [0, 1])).await?;
    lose(&server, &account, |row| is_head(row) && of(row, [2, 3])).await?;
    let repair = async |account: &StorageAccount| {
        store(account)?.repair().run().await.map_err(rowkey::Error::from)
    };
    let recover = async |account: &StorageAccount| {
        for _ in 0..2 {
            for _ in 0..3 {
                let items = store(account)?;
                items.drain_backlog().await?;
                assert_eq!(items.work_once().await?.failed, 0);
            }
            assert!(repair(account).await?.is_clean());
        }
        Ok(())
    };
    sweep_every_way(
        &server,
        async |account| repair(account).await.is_ok(),
        recover,
        |snapshot| assert_eq!(agreed(snapshot), [0, 1, 4, 5].into()),
    )
    .await
}

/// A repair claims the value of an item that another program deletes, which has seen no claim to release.
#[tokio::test]
async fn a_claim_of_an_item_that_is_deleted_while_it_is_repaired_is_released() -> TestResult {
    let (server, account) = start(1).await?;
    lose(&server, &account, |row| row.starts_with("claim_")).await?;
    let (items, other) = (store(&account)?, store(&account)?);
    let deletion = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let mut delete = pin!(other.delete(Item::key("contoso", 0)));
    select(delete.as_mut(), pin!(deletion.wait_until_held())).await;
    let commit = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let repair = items.repair();
    let mut repair = pin!(repair.run());
    select(repair.as_mut(), pin!(commit.wait_until_held())).await;
    deletion.release();
    assert!(delete.await?);
    commit.release();
    repair.await?;
    assert_eq!(agreed(&server.snapshot()), BTreeSet::new());
    Ok(())
}
