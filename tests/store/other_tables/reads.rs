//! Lookups through indexes and lists in other tables, their costs, and what a store is built with.

use futures_util::TryStreamExt as _;
use rowkey::store::{Settled, Store, answers};
use rowkey::{ClientOptions, Entity, ErrorKind, Projection, Table};
use rowkey_emulator::Operation;
use rowkey_tests::TestResult;

use super::{ARCHIVE, Order, agreed, connect, key, order, start};

#[derive(Debug, PartialEq, Projection)]
struct Size {
    size: u32,
}

/// An insert is as expensive as with rows in the table of the entities.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "single_{id:4}")]
#[entity(index(name = by_email, table = "emails", partition = "email", row = "{email}"))]
#[entity(index(name = by_name, table = "names", partition = "{name}", row = "{tenant}_{id:4}"))]
struct Single {
    tenant: String,
    id: u32,
    email: String,
    name: String,
}

#[tokio::test]
async fn the_requests_are_those_of_rows_in_the_table_of_the_entities() -> TestResult {
    let (server, accounts, _) = start().await?;
    let account = &accounts.current;
    let store = Store::<Single>::builder(account.table("single")).queue(account.queue("single"));
    let store = store.build()?;
    let before = server.journal().len();
    store.create_if_missing().await?;
    assert_eq!(server.journal().len() - before, 4, "three tables and a queue");

    let (tenant, email, name) = ("contoso".into(), "ada@contoso.com".into(), "Ada".into());
    let single = Single { tenant, id: 1, email, name };
    let plan = store.explain().insert(&single).await?;
    assert!(plan.to_string().contains("settle: by_email@emails"), "{plan}");
    assert_eq!((plan.reads(), plan.requests()), (0, 6), "{plan}");
    let before = server.journal().len();
    assert_eq!(store.insert(&single).await?.settled, Settled::Done);
    assert_eq!(server.journal().len() - before, 6);

    let before = server.journal().len();
    let change = |single: &mut Single| single.email = "lovelace@contoso.com".into();
    store.update(Single::key("contoso", 1), change).await?;
    // Both rows of `by_email` are in one partition, and share a request.
    assert_eq!(server.journal().len() - before, 7, "the entity, and 3 rows of 2 indexes");

    let before = server.journal();
    let found = store.find(Single::by_email("lovelace@contoso.com")).await?.ok_or("not found")?;
    assert_eq!(found.entity.id, 1);
    assert_eq!(server.journal().since(&before).count(Operation::GetEntity), 2);
    assert!(store.find(Single::by_email("ada@contoso.com")).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn lookups_read_the_table_of_the_declaration() -> TestResult {
    let (server, _, orders) = start().await?;
    for id in 1..=4 {
        orders.insert(&order(id)).await?;
    }
    assert_eq!(agreed(&server.snapshot()), 4);
    let found = orders.find(Order::by_customer("ada", "contoso", 3)).await?.ok_or("not found")?;
    assert_eq!(found.entity, order(3));
    let before = server.journal().len();
    let size = orders.find_as::<Size, _>(Order::by_customer("ada", "contoso", 3)).await?;
    assert_eq!(size, Some(Size { size: 1 }));
    assert_eq!(server.journal().len() - before, 1);

    let odd = || orders.query(Order::by_size(1, "ada"));
    assert_eq!(odd().all().await?.len(), 2);
    let first = odd().page(1, None).await?;
    let second = odd().page(1, first.continuation).await?;
    assert_eq!((first.entities[0].entity.id, second.entities[0].entity.id), (1, 3));
    let sizes: Vec<_> = odd().stream_as::<Size>().try_collect().await?;
    assert_eq!(sizes.len(), 2);
    assert_eq!(odd().page_as::<Size>(10, None).await?.0.len(), 2);
    assert_eq!(orders.count(Order::by_size(1, "ada")).await?, 2);

    assert_eq!(orders.query(Order::by_tag("urgent")).all().await?.len(), 4);
    assert_eq!(orders.list_keys(&Order::by_tag("urgent")).await?.len(), 4);
    orders.delete(key(4)).await?;
    assert_eq!(orders.query(Order::by_tag("urgent")).all().await?.len(), 3);
    Ok(())
}

#[tokio::test]
async fn build_names_an_index_without_another_table() -> TestResult {
    let (_server, accounts, orders) = start().await?;
    let build = |name: &str, table: &str| {
        let builder = Store::<Order>::builder(accounts.current.table("orders"));
        let builder = builder.queue(accounts.current.queue("orders"));
        builder.index_table(name, accounts.current.table(table)).build()
    };
    for (name, table, what) in [
        ("by_courier", "couriers", "`by_courier` is declared in the table of the entities"),
        ("by_number", "numbers", "`by_number` is declared in the table of the entities"),
        ("by_sice", "sizes", "no index or list `by_sice`"),
        ("by_size", "Orders", "the rows of `by_size` would be in the table of the entities"),
    ] {
        let error = build(name, table).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(what), "{error}");
    }
    assert!(build("by_sice", "sizes").unwrap_err().to_string().contains("by_size, by_tag"));
    // A table of the same name in another account is another table.
    let builder = Store::<Order>::builder(accounts.current.table("orders"));
    let builder = builder.queue(accounts.current.queue("orders"));
    assert!(builder.index_table("by_size", accounts.archive.table("orders")).build().is_ok());

    let table = orders.index_table("by_size").ok_or("no such index")?;
    assert_eq!((table.account().name(), table.name()), (ARCHIVE, "archived"));
    assert_eq!(orders.index_table("by_tag").map(Table::name), Some("tags"));
    assert_eq!(orders.index_table("by_desk").map(Table::name), Some("orders"));
    assert!(orders.index_table("by_sice").is_none());
    Ok(())
}

/// Decisions read the primary of the other account, too.
#[tokio::test]
async fn settling_reads_the_primary_of_another_account() -> TestResult {
    let (server, accounts, orders) = start().await?;
    orders.insert(&order(1)).await?;
    let behind = server.hold_back_secondary();
    let options = |account: &rowkey::StorageAccount| {
        let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
        account.with_options(options)
    };
    let orders = Store::<Order>::builder(options(&accounts.current).table("orders"))
        .queue(accounts.current.queue("orders"))
        .index_table("by_size", options(&accounts.archive).table("archived"))
        .build()?;
    for size in [5, 6] {
        let updated = orders.update(key(1), |order| order.size = size).await?;
        assert_eq!(updated.entity.size, size);
    }
    drop(behind);
    assert_eq!(agreed(&server.snapshot()), 1);
    Ok(())
}

/// Stubs know the tables of a store.
#[tokio::test]
async fn answers_of_a_store_are_those_of_its_tables() -> TestResult {
    let (server, _, _) = start().await?;
    let orders = connect(&server)?.store()?;
    let before = server.journal().len();
    let copy = answers::copy(&orders, &order(1), "by_customer").await?;
    assert!(String::from_utf8_lossy(&copy.body).contains("PrimaryRowKey"));
    let copies = answers::copies(&orders, [&order(1), &order(3)], "by_size").await?;
    assert_eq!(String::from_utf8_lossy(&copies.body).matches("PrimaryRowKey\"").count(), 2);
    let stubs = answers::store(&orders).inserts(&order(1)).stubs().await?;
    let plan = stubs.plan().join("\n");
    for table in ["customers", "archived", "tags"] {
        assert!(plan.contains(table), "{plan}");
    }
    assert_eq!(server.journal().len(), before, "nothing is sent");
    Ok(())
}
