//! Stubs of stores in two accounts whose tables have one name, and of stores that are opened.

use rowkey::store::{Store, answers};
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, StorageAccount};
use rowkey_tests::TestResult;
use wiremock::MockServer;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_size, table = "orders", partition = "size_{size}", row = "{tenant}", many))]
struct Order {
    tenant: String,
    id: u32,
    size: u32,
}

fn order(id: u32) -> Order {
    Order { tenant: "contoso".into(), id, size: 7 }
}

/// The accounts at these addresses, and a store whose index is in the second one.
fn accounts(
    current: &str,
    archive: &str,
) -> rowkey::Result<(StorageAccount, StorageAccount, Store<Order>)> {
    let (current, archive) =
        (crate::account_at(current).build()?, crate::account_at(archive).build()?);
    let orders = Store::<Order>::builder(current.table("orders"))
        .queue(current.queue("orders"))
        .index_table("by_size", archive.table("orders"))
        .build()?;
    Ok((current, archive, orders))
}

fn row(partition: &str, row: &str) -> Key<DynamicEntity> {
    Key::new(partition, row)
}

/// Both are on one stub server, under different paths.
#[tokio::test]
async fn tables_of_one_name_in_two_accounts_are_two_tables() -> TestResult {
    let stub = MockServer::start().await;
    let uri = stub.uri();
    let (current, archive, orders) =
        accounts(&format!("{uri}/current"), &format!("{uri}/archive"))?;
    let (current, archive) = (current.table("orders"), archive.table("orders"));
    let stubs = answers::store(&orders)
        .holds(&order(1))
        .inserts(&order(2))
        .deletes(&order(3))
        .mount(&stub)
        .await?;
    orders.insert(&order(2)).await?;
    assert!(orders.delete(Order::key("contoso", 3)).await?);
    let found = orders.query(Order::by_size(7, "contoso")).all().await?;
    let found: Vec<_> = found.into_iter().map(|found| found.entity).collect();
    assert_eq!(found, [order(1), order(2)]);

    // Each has its rows, and not those of the other one.
    for id in [1, 2] {
        let copy = row("size_0000000007", &format!("contoso_contoso_order_{id:04}"));
        let head = row("contoso", &format!("order_{id:04}"));
        assert!(archive.get(copy.clone()).await?.is_some());
        assert!(current.get(copy).await?.is_none());
        assert!(current.get(head.clone()).await?.is_some());
        assert!(archive.get(head).await?.is_none());
    }
    let read = archive.scan::<DynamicEntity>().all().await?;
    assert_eq!(read.len(), 2);
    assert!(stubs.unanswered().is_empty());
    // A write that the plan has in the other account.
    let head = DynamicEntity::new("contoso", "order_0002");
    let refused = archive.upsert(&head).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    stub.reset().await;
    Ok(())
}

/// Each account has a server of its own.
#[tokio::test]
async fn two_servers_have_the_tables_of_their_accounts() -> TestResult {
    let (one, other) = (MockServer::start().await, MockServer::start().await);
    let (current, archive, orders) = accounts(&one.uri(), &other.uri())?;
    let stubs = answers::store(&orders).inserts(&order(1)).stubs().await?;
    stubs.mount(&one).await;
    stubs.mount(&other).await;
    orders.insert(&order(1)).await?;
    let copy = || row("size_0000000007", "contoso_contoso_order_0001");
    assert!(archive.table("orders").get(copy()).await?.is_some());
    assert!(current.table("orders").get(copy()).await?.is_none());
    // Answers that a test mounts by hand are of the table of the index.
    let answer = answers::copy(&orders, &order(1), "by_size").await?;
    assert!(String::from_utf8_lossy(&answer.body).contains("contoso_contoso_order_0001"));
    assert!(stubs.unanswered().is_empty());
    Ok(())
}

/// A program in the test may have another address than the one whose writes were run in memory.
#[tokio::test]
async fn the_only_table_of_a_name_is_found_at_any_host() -> TestResult {
    let stub = MockServer::start().await;
    let elsewhere = crate::account_at("http://storage.contoso.test").build()?;
    let planned = Store::<Order>::builder(elsewhere.table("orders"))
        .queue(elsewhere.queue("orders"))
        .index_table("by_size", elsewhere.table("sizes"))
        .build()?;
    answers::store(&planned).holds(&order(1)).mount(&stub).await?;
    let here = crate::account_at(&stub.uri()).build()?;
    let orders = Store::<Order>::builder(here.table("orders"))
        .queue(here.queue("orders"))
        .index_table("by_size", here.table("sizes"))
        .build()?;
    assert!(orders.get(Order::key("contoso", 1)).await?.is_some());
    assert_eq!(orders.query(Order::by_size(7, "contoso")).all().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_store_is_opened_any_number_of_times() -> TestResult {
    let stub = MockServer::start().await;
    let build = || -> rowkey::Result<Store<Order>> {
        let account = crate::account_at(&stub.uri()).build()?;
        Store::builder(account.table("orders"))
            .queue(account.queue("orders"))
            .index_table("by_size", account.table("sizes"))
            .build()
    };
    let stubs =
        answers::store(&build()?).opens().holds(&order(2)).inserts(&order(1)).mount(&stub).await?;
    let orders = build()?.open().await?;
    orders.insert(&order(1)).await?;
    // Another program.
    let orders = build()?.open().await?;
    assert_eq!(orders.count(Order::by_size(7, "contoso")).await?, 2);
    assert!(stubs.unanswered().is_empty());

    // Without `opens`, it is a request that the plan does not have.
    stub.reset().await;
    answers::store(&build()?).inserts(&order(1)).mount(&stub).await?;
    let refused = build()?.open().await.unwrap_err();
    assert!(refused.to_string().contains("NoStubAnswers"), "{refused}");
    stub.reset().await;
    Ok(())
}
