//! Verifying, repairing, cleaning, loading and deleting, with rows in other tables.

use futures_util::stream;
use rowkey::{DynamicEntity, Key, Match};
use rowkey_emulator::Operation;
use rowkey_tests::TestResult;

use super::{Order, agreed, key, order, start};

#[tokio::test]
async fn verify_reports_rows_that_are_missing_or_stale_elsewhere_and_repair_writes_them()
-> TestResult {
    let (server, accounts, orders) = start().await?;
    for id in 1..=3 {
        orders.insert(&order(id)).await?;
    }
    assert!(orders.verify().run().await?.is_clean());
    let row = |partition: &str, row: &str| Key::<DynamicEntity>::new(partition, row);
    let customers = accounts.current.table("customers");
    customers.delete(row("ada", "contoso_0002"), Match::Any).await?;
    let mut stale = DynamicEntity::new("ada", "contoso_0003");
    stale.set("cents", 1_i64);
    customers.merge((&stale, Match::Any)).await?;
    let archived = accounts.archive.table("archived");
    archived.delete(row("size_0000000001", "ada_contoso_order_0001"), Match::Any).await?;
    accounts
        .current
        .table("tags")
        .delete(row("all", "list_order_by_tag_urgent"), Match::Any)
        .await?;

    let report = orders.verify().run().await?;
    let part = |name: &str| report.part(name);
    assert_eq!((part("by_customer").missing, part("by_customer").stale), (1, 1));
    assert_eq!((part("by_size").missing, part("by_tag").missing), (1, 3));
    assert_eq!(part("by_courier").right, 3);

    let report = orders.repair().run().await?;
    assert_eq!(report.part("by_customer").repaired, 2, "{report:?}");
    orders.work_once().await?;
    assert!(orders.verify().run().await?.is_clean());
    assert_eq!(agreed(&server.snapshot()), 3);
    Ok(())
}

/// `verify` and `repair` walk the tables of the declarations, in both accounts.
#[tokio::test]
async fn rows_of_no_entity_are_found_and_removed_in_their_table() -> TestResult {
    let (server, accounts, orders) = start().await?;
    for id in 1..=3 {
        orders.insert(&order(id)).await?;
    }
    // Rows of other programs: an entity with the head of an order, an op row, and any row.
    let customers = accounts.current.table("customers");
    let foreign = ["order_0001", "op_0638992368000000000_00000000000000ff", "note"];
    for row in foreign {
        customers.insert(&DynamicEntity::new("contoso", row)).await?;
    }
    // Another program deletes two orders and leaves their rows.
    for id in [1, 2] {
        let head = Key::<DynamicEntity>::new("contoso", &*format!("order_{id:04}"));
        orders.table().delete(head, Match::Any).await?;
    }
    let declared = ["by_desk", "by_courier", "by_customer", "by_size", "by_tag", "by_number"];
    let before = server.journal();
    let report = orders.verify().run().await?;
    for name in declared {
        assert_eq!(report.part(name).orphaned, 2, "{name}: {report:?}");
    }
    assert_eq!(report.total.orphaned, 2 * 6, "{report:?}");
    let sent = server.journal().since(&before);
    for table in ["orders", "customers", "archived", "tags"] {
        let walked = sent.clone().about(table).of(Operation::QueryEntities).len();
        assert!(walked >= 1, "{table}");
    }
    // A job that is resumed does not walk the tables again that it has walked.
    let mut checkpoints = Vec::new();
    let job = orders.verify().concurrency(1);
    let job = job.progress(|progress| checkpoints.push(progress.checkpoint.clone()));
    let whole = job.run().await?;
    assert!(checkpoints.len() >= 4, "one for each table");
    for checkpoint in checkpoints {
        assert_eq!(orders.verify().resume(checkpoint.to_string().parse()?).run().await?, whole);
    }

    let report = orders.repair().run().await?;
    for name in declared {
        assert_eq!(report.part(name).repaired, 2, "{name}: {report:?}");
    }
    assert!(orders.verify().run().await?.is_clean());
    for row in foreign {
        customers.delete(Key::<DynamicEntity>::new("contoso", row), Match::Any).await?;
    }
    assert_eq!(agreed(&server.snapshot()), 1);
    Ok(())
}

#[tokio::test]
async fn a_foreign_row_at_the_key_of_a_copy_stays() -> TestResult {
    let (server, accounts, orders) = start().await?;
    let customers = accounts.current.table("customers");
    customers.insert(&DynamicEntity::new("ada", "contoso_0001")).await?;
    orders.insert(&order(1)).await?;
    let report = orders.verify().run().await?;
    assert_eq!(report.part("by_customer").stale, 1, "{report:?}");
    let key = Key::<DynamicEntity>::new("ada", "contoso_0001");
    // A repair cannot write the copy, and says why.
    let report = orders.repair().run().await?;
    assert_eq!((report.part("by_customer").stale, report.part("by_customer").repaired), (1, 0));
    let [problem] = &*report.problems else { panic!("{report:?}") };
    assert_eq!(problem.part.as_deref(), Some("by_customer"));
    assert!(problem.error.contains("a foreign row, has its key in `by_customer`"), "{problem:?}");
    let stored = customers.get(key.clone()).await?.ok_or("it is gone")?;
    assert!(stored.entity.get("IndexName").is_none());
    customers.delete(key, Match::Any).await?;
    server.clock().advance(std::time::Duration::from_secs(3601));
    super::connect(&server)?.store()?.work_once().await?;
    assert_eq!(agreed(&server.snapshot()), 1);
    Ok(())
}

#[tokio::test]
async fn loads_rewrites_and_deletions_keep_other_tables_in_step() -> TestResult {
    let (server, _, orders) = start().await?;
    let all = |cents| stream::iter((1..=30).map(move |id| Order { cents, ..order(id) }));
    let report = orders.load(all(1)).run().await?;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(agreed(&server.snapshot()), 30);
    assert!(orders.load_over(all(2)).run().await?.is_clean());
    assert_eq!(agreed(&server.snapshot()), 30);

    assert!(orders.rewrite(key(7)).await?);
    let two = orders.transaction().insert(&order(31)).insert(&order(32)).submit().await?;
    assert_eq!(two.versions.len(), 2);
    assert_eq!(agreed(&server.snapshot()), 32);
    assert_eq!(orders.sweep().run().await?.total.right, 0, "there are no blobs");

    let deleted = orders.delete_where(Order::partition("contoso")).run().await?;
    assert_eq!(deleted.total.right, 32);
    assert_eq!(agreed(&server.snapshot()), 0);
    Ok(())
}
