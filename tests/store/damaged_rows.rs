//! Jobs that meet rows which cannot be read: they report the row, and go on with the next.

use rowkey::{DynamicEntity, Match, Table};
use rowkey_tests::TestResult;

use super::rows::{Order, order, start, store};

/// Another program changes the type of a property.
async fn damage(table: &Table, row_key: &str) -> TestResult {
    let mut row = DynamicEntity::new("contoso", row_key);
    row.set("cents", "many");
    table.merge((&row, Match::Any)).await?;
    Ok(())
}

#[tokio::test]
async fn a_deletion_reports_rows_that_do_not_decode_and_deletes_the_others() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    for id in 1..=5 {
        orders.insert(&order(id)).await?;
    }
    for row_key in ["order_0002", "order_0004"] {
        damage(&account.table("orders"), row_key).await?;
    }
    let report = orders.delete_where(Order::partition("contoso")).run().await?;
    assert_eq!((report.total.right, report.total.unreadable), (3, 2), "{report:?}");
    let named: Vec<_> = report.problems.iter().map(|problem| &*problem.row_key).collect();
    assert_eq!(named, ["order_0002", "order_0004"]);
    let snapshot = server.snapshot();
    let rows = snapshot.table("orders").unwrap().entities();
    let heads = rows.filter(|row| row.row_key().starts_with("order_")).count();
    assert_eq!(heads, 2);
    Ok(())
}

#[tokio::test]
async fn verify_and_repair_report_rows_that_do_not_decode_and_examine_the_others() -> TestResult {
    let (_server, account) = start().await?;
    let orders = store(&account)?;
    for id in 1..=5 {
        orders.insert(&order(id)).await?;
    }
    damage(&account.table("orders"), "order_0002").await?;
    let report = orders.verify().run().await?;
    assert_eq!(report.part("by_desk").right, 4, "{report:?}");
    assert!(report.total.unreadable > 0, "{report:?}");
    let report = orders.repair().run().await?;
    assert_eq!(report.part("by_desk").right, 4, "{report:?}");
    Ok(())
}
