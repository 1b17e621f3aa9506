//! Counts of entities, and the partitions of a table.

use futures_util::TryStreamExt as _;
use rowkey::{
    ClientOptions, DynamicEntity, Entity, ErrorKind, Outcome, Partition, ScanPolicy, StorageAccount,
};
use rowkey_emulator::Operation;
use rowkey_tests::rows::index_row;
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{shop}", row = "order_{id:4}")]
#[entity(index(name = by_day, row = "day_{day:8}_{id:4}"))]
struct Order {
    shop: String,
    id: u16,
    day: u32,
}

#[tokio::test]
async fn a_count_has_entities_of_all_pages_without_copies_and_with_rows_that_do_not_decode()
-> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    for id in 0..7 {
        let order = Order { shop: "a".into(), id, day: 20_261_125 };
        table.insert(&order).await?;
        table.insert(&index_row(&order, 0)?.ok_or("in the index")?).await?;
    }
    let mut odd = DynamicEntity::new("a", "order_0009");
    odd.set("day", "a text");
    table.insert(&odd).await?;
    let of_a = || table.query(Order::partition("a"));
    assert!(of_a().all().await.is_err());
    assert_eq!(of_a().page_size(2).count().await?, 8);
    assert_eq!(of_a().filter(Order::DAY.ge(20_261_125_u32)).count().await?, 7);
    assert_eq!(of_a().take(3).count().await?, 3);
    assert_eq!(table.scan::<Order>().page_size(3).count().await?, 8);
    assert_eq!(table.query(Partition::<DynamicEntity>::new("a")).count().await?, 15, "every row");
    assert_eq!(table.query(Order::partition("b")).count().await?, 0);
    Ok(())
}

#[tokio::test]
async fn exists_stops_at_the_first_entity() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    for id in 0..3 {
        table.insert(&Order { shop: "a".into(), id, day: 0 }).await?;
    }
    let of_a = || table.query(Order::partition("a"));
    assert!(of_a().exists().await?);
    assert!(!of_a().filter(Order::DAY.gt(0_u32)).exists().await?);
    assert!(!table.query(Order::partition("b")).exists().await?);
    let missing = table.account().table("rowkeymissing");
    let error = missing.query(Order::partition("a")).exists().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn partition_keys_are_listed_once_in_their_order() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let keys = || table.partition_keys().try_collect::<Vec<_>>();
    assert!(keys().await?.is_empty());
    let expected = ["", " ", "A", "Z'", "a", "a ", "a_", "aa", "\u{e9}", "\u{4e2d}"];
    for key in expected {
        for row in 0..3 {
            table.insert(&DynamicEntity::new(key, row.to_string())).await?;
        }
    }
    assert_eq!(keys().await?, expected);
    // The scan policy does not apply: no request reads more than one entity.
    let options = ClientOptions { scan_policy: ScanPolicy::Deny, ..ClientOptions::default() };
    let strict = table.account().with_options(options).table(table.name());
    assert_eq!(strict.partition_keys().try_next().await?.as_deref(), Some(""));
    if let Some(server) = &table.fixture.server {
        let before = server.journal();
        keys().await?;
        let requests = server.journal().since(&before).count(Operation::QueryEntities);
        assert_eq!(requests, expected.len() + 1);
    }
    Ok(())
}

#[tokio::test]
async fn partition_keys_of_cosmos_are_refused_before_anything_is_sent() -> TestResult {
    let account = StorageAccount::from_connection_string(
        "AccountName=a;AccountKey=a2V5;TableEndpoint=https://a.table.cosmos.azure.com",
    )?;
    let error = account.table("orders").partition_keys().try_next().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    Ok(())
}
