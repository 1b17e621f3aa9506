//! Item 10: ranges, filters, projections and scans see the text of keys and the rows of copies, where
//! the caller means values and entities.

use futures_util::TryStreamExt as _;
use rowkey::{Entity, Projection, ScanPolicy, StorageAccount};
use rowkey_patterns::local_index::LocalIndex;
use rowkey_patterns::verify::Verify;

use crate::start;

/// A reading of a sensor, the newest first.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{sensor}", row = "n_{n:8,desc}", rename_all = "PascalCase")]
struct Reading {
    sensor: String,
    n: u32,
}

/// Item 10: the bounds of a range over a descending part are turned.
#[tokio::test]
async fn a_range_of_descending_keys_means_values() {
    let (_server, account) = start().await;
    let table = account.table("readings");
    table.create().await.unwrap();
    for n in 1..=8 {
        table.insert(&Reading { sensor: "s".into(), n }).await.unwrap();
    }
    let range = Reading::partition("s").range(Reading::key("s", 3)..Reading::key("s", 6));
    let found = table.query(range).all().await.unwrap();
    let mut numbers: Vec<_> = found.iter().map(|reading| reading.entity.n).collect();
    numbers.sort_unstable();
    assert!(numbers == [3, 4, 5], "numbers from 3 to 6, without 6: {numbers:?}");
}

/// A customer with an index of text whose copies are partial, and a descending one.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shop}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(
    index(name = by_last_name, row = "last_{last_name}", many, copy(last_name)),
    index(name = by_cents, row = "cents_{cents:desc}", many)
)]
struct Customer {
    shop: String,
    id: u32,
    last_name: String,
    cents: i64,
}

/// What is read of a customer.
#[derive(Debug, Projection)]
#[entity(rename_all = "PascalCase")]
struct Spent {
    cents: Option<i64>,
}

async fn customers(account: &StorageAccount) -> LocalIndex<Customer> {
    let customers = LocalIndex::<Customer>::new(account.table("customers"));
    customers.table().create().await.unwrap();
    for (id, last_name) in [(1, "Jones"), (2, "Jones Jr"), (3, "King")] {
        let cents = i64::from(id) * 100;
        let customer = Customer { shop: "leeds".into(), id, last_name: last_name.into(), cents };
        customers.insert(&customer).await.unwrap();
    }
    customers
}

/// Item 10: the same in a descending index.
#[tokio::test]
async fn a_range_of_a_descending_index_means_values() {
    let (_server, account) = start().await;
    let customers = customers(&account).await;
    let range = Customer::by_cents("leeds", 150_i64)..=Customer::by_cents("leeds", 300_i64);
    let found = customers.query(Customer::by_cents_all("leeds").range(range)).all().await.unwrap();
    let mut ids: Vec<_> = found.iter().map(|customer| customer.id).collect();
    ids.sort_unstable();
    assert!(ids == [2, 3], "customers who spent 150 to 300 cents: {ids:?}");
}

/// Item 10: a range from a name on has the longer names that begin with it, although a space sorts
/// before the separator.
#[tokio::test]
async fn a_range_of_text_means_values() {
    let (_server, account) = start().await;
    let customers = customers(&account).await;
    let range =
        Customer::by_last_name_all("leeds").range(Customer::by_last_name("leeds", "Jones")..);
    // Refusing the range is correct, too.
    let Ok(found) = customers.query(range).all().await else { return };
    let mut ids: Vec<_> = found.iter().map(|customer| customer.id).collect();
    ids.sort_unstable();
    assert!(ids == [1, 2, 3], "customers from Jones on: {ids:?}");
}

/// Item 10: a filter by a property that the copies do not have finds the entities, or is refused.
#[tokio::test]
async fn a_filter_over_partial_copies_means_entities() {
    let (_server, account) = start().await;
    let customers = customers(&account).await;
    let spent =
        customers.query(Customer::by_last_name_all("leeds")).filter(Customer::CENTS.ge(101));
    // Refusing the filter is correct, too.
    let Ok(found) = spent.all().await else { return };
    let count = found.len();
    assert!(count == 2, "a filter by a property that copies lack finds {count} of 2");
}

/// Item 10: a projection of a property that the copies do not have says what the entity has, or is
/// refused.
#[tokio::test]
async fn a_projection_of_partial_copies_means_entities() {
    let (_server, account) = start().await;
    let customers = customers(&account).await;
    let query = customers.query(Customer::by_last_name("leeds", "King"));
    // Refusing the projection is correct, too.
    let Ok(found) = query.stream_as::<Spent>().try_collect::<Vec<_>>().await else { return };
    let cents = found[0].entity.cents;
    assert!(cents == Some(300), "a projection of a property that copies lack says {cents:?}");
}

/// A courier with copies in other partitions of the same table, under row keys that begin as its own.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{region}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(index(name = by_city, partition = "city_{city}", row = "id_{id:6}"))]
struct Courier {
    region: String,
    id: u32,
    city: String,
}

/// The same, under row keys that go on behind the number.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{region}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(index(name = by_city, partition = "city_{city}", row = "id_{id:6}_{region}"))]
struct Driver {
    region: String,
    id: u32,
    city: String,
}

/// Item 10: a scan does not take copies of the type in other partitions for entities.
#[tokio::test]
async fn a_scan_finds_no_copies() {
    let (_server, account) = start().await;
    let table = account.table("couriers");
    table.create().await.unwrap();
    let courier = Courier { region: "west".into(), id: 7, city: "Leeds".into() };
    table.insert(&courier).await.unwrap();
    Verify::<Courier>::new(table.clone()).build("by_city").run().await.unwrap();
    let found = table.scan::<Courier>().scan_policy(ScanPolicy::Allow).all().await.unwrap();
    let regions: Vec<_> = found.iter().map(|courier| &*courier.entity.region).collect();
    assert!(regions == ["west"], "a scan of one courier finds those of {}", regions.join(", "));
}

/// Item 10: a scan passes over a copy of the type in another partition.
#[tokio::test]
async fn a_scan_passes_over_copies() {
    let (_server, account) = start().await;
    let table = account.table("drivers");
    table.create().await.unwrap();
    let driver = Driver { region: "west".into(), id: 7, city: "Leeds".into() };
    table.insert(&driver).await.unwrap();
    Verify::<Driver>::new(table.clone()).build("by_city").run().await.unwrap();
    match table.scan::<Driver>().scan_policy(ScanPolicy::Allow).all().await {
        Ok(found) => assert_eq!(found.len(), 1),
        Err(error) => {
            panic!("a scan of a type with copies elsewhere fails: {:?}", error.kind());
        }
    }
}
