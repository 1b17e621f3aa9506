//! Scans: the keys that a type can have, without the copies that indexes keep of it.

use futures_util::TryStreamExt as _;
use rowkey::{
    Cost, DynamicEntity, Entity, EntitySet, ErrorKind, Filter, Outcome, Partition, Projection,
    Table,
};
use rowkey_tests::rows::index_row;
use rowkey_tests::{Fixture, TestResult};

/// An entity with whole copies whose rows look like its own, and with copies of a part.
#[derive(Clone, Debug, PartialEq, Entity)]
// `by_day` gets a few copies.
#[entity(append_ok, partition = "shop_{shop}", row = "order_{id:4}", rename_all = "PascalCase")]
#[entity(
    index(name = by_courier, partition = "shop_{courier}", row = "order_{id:4}_{shop}"),
    index(name = by_day, partition = "day_{day:8}", row = "{shop}_{id:4}", copy(cents))
)]
struct Order {
    shop: String,
    id: u16,
    courier: String,
    day: u32,
    cents: Option<u32>,
    paid: bool,
}

/// Some of it.
#[derive(Clone, Debug, PartialEq, Projection)]
#[entity(rename_all = "PascalCase")]
struct Cents {
    cents: Option<u32>,
}

/// The only row of a partition that has a name of its own.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "settings", row = "{name}")]
struct Setting {
    name: String,
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Record {
    Order(Order),
    #[entity_set(unknown)]
    Other(DynamicEntity),
}

fn order(shop: &str, id: u16) -> Order {
    let cents = Some(u32::from(id) * 100);
    Order { shop: shop.into(), id, courier: "x".into(), day: 20_261_120, cents, paid: true }
}

async fn insert(table: &Table, order: &Order) -> TestResult {
    table.insert(order).await?;
    for position in 0..Order::DECLARED.indexes.len() {
        table.insert(&index_row(order, position)?.ok_or("in the index")?).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_scan_excludes_index_copies_of_its_type() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let all: Vec<_> =
        ["a", "w", "y"].into_iter().flat_map(|s| (0..3).map(move |i| order(s, i))).collect();
    for order in &all {
        insert(&table, order).await?;
    }
    table.insert(&Setting { name: "order_".into() }).await?;
    let found = table.scan::<Order>().all().await?;
    assert_eq!(
        found.iter().map(|it| &it.entity).collect::<Vec<_>>(),
        all.iter().collect::<Vec<_>>()
    );
    let cents = table.scan::<Order>().project::<Cents>().all().await?;
    assert_eq!(cents.len(), all.len(), "copies have cents, too");
    let streamed: Vec<_> = table.scan::<Order>().stream().try_collect().await?;
    assert_eq!(streamed.len(), all.len());
    let ahead: Vec<_> = table.scan::<Order>().prefetch().stream().try_collect().await?;
    assert_eq!(ahead.len(), all.len());
    let pages: Vec<_> = table.scan::<Order>().page_size(2).prefetch().pages().try_collect().await?;
    assert_eq!(pages.iter().map(|page| page.entities.len()).sum::<usize>(), all.len());
    // Those behind the copies fill a `take`.
    let taken = table.scan::<Order>().take(8).all().await?;
    assert_eq!(taken[7].entity, all[7]);
    let last = table.scan::<Order>().filter(Filter::raw("RowKey ge 'order_0002'")?).take(3);
    assert_eq!(last.all().await?[2].entity, all[8]);

    // A partition with copies of other types among the entities.
    let courier = Order { courier: "a".into(), ..order("w", 7) };
    insert(&table, &courier).await?;
    assert_eq!(table.query(Order::partition("a")).all().await?.len(), 3);
    assert_eq!(table.query(Order::partition("a")).project::<Cents>().all().await?.len(), 3);

    let records = table.scan::<Record>().all().await?;
    let orders = records.iter().filter(|it| matches!(it.entity, Record::Order(_))).count();
    assert_eq!((records.len(), orders), (11, 10), "a set passes over copies as well");
    assert_eq!(table.scan::<Record>().project::<Cents>().all().await?.len(), 11);
    assert_eq!(table.scan::<Record>().page(11, None).await?.entities.len(), 11);
    assert_eq!(table.scan::<DynamicEntity>().all().await?.len(), 31, "every row");
    Ok(())
}

#[tokio::test]
async fn a_scan_filters_by_its_key_templates() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let filter = |query: rowkey::table::Explanation| query.requests[0].filter.clone();
    let expected = "PartitionKey ge 'shop_' and PartitionKey lt 'shop`' and RowKey ge 'order_' and \
                    RowKey lt 'order`'";
    let scan = table.scan::<Order>();
    assert_eq!(scan.cost()?, Cost::TableScan);
    assert_eq!(filter(scan.explain()?).as_deref(), Some(expected));
    // One partition is no scan of the table.
    let settings = table.scan::<Setting>();
    assert_eq!(settings.cost()?, Cost::PartitionScan);
    assert_eq!(filter(settings.explain()?).as_deref(), Some("PartitionKey eq 'settings'"));
    assert_eq!(filter(table.scan::<DynamicEntity>().explain()?), None);
    Ok(())
}

/// Properties missing from a copy are not returned as absent.
#[tokio::test]
async fn a_partial_copy_is_not_queried_for_other_properties() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    insert(&table, &order("a", 1)).await?;
    let copies = || table.query(Order::by_day_all(20_261_120_u32).partition_of::<Order>());
    let refused = async |result: rowkey::Result<usize>, column: &str| {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        let text = error.to_string();
        assert!(text.contains(&format!("`{column}`")) && text.contains("`by_day`"), "{text}");
    };
    let count = async |query: rowkey::Query<Cents>| Ok(query.all().await?.len());
    let cents = || copies().project::<Cents>();
    refused(count(cents().filter(Order::PAID.is(true))).await, "Paid").await;
    refused(count(cents().filter(!Order::PAID.is(true).and(Order::CENTS.gt(1)))).await, "Paid")
        .await;
    refused(count(copies().filter(Order::COURIER.is("x")).project()).await, "Courier").await;
    let whole = copies().project::<Order>().page(1, None).await;
    refused(whole.map(|page| page.entities.len()), "Courier").await;
    assert!(copies().filter(Order::PAID.is(true)).explain().is_err());

    let found = cents().filter(Order::CENTS.ge(100)).all().await?;
    assert_eq!(found.iter().map(|it| it.entity.cents).collect::<Vec<_>>(), [Some(100)]);
    let none = cents().filter(Filter::raw("RowKey lt 'a' and PrimaryRowKey eq 'order_0001'")?);
    assert_eq!(none.all().await?.len(), 0);
    // Copies of everything answer for everything.
    let copies = table.query(Order::by_courier_all("x").partition_of::<DynamicEntity>());
    assert_eq!(copies.filter(Order::PAID.is(true)).all().await?.len(), 1);
    let day = Partition::<DynamicEntity>::new("day_20261120");
    assert_eq!(table.query(day).filter(Order::PAID.is(true)).all().await?.len(), 0, "no index");
    Ok(())
}
