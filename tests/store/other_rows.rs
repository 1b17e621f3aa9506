//! Rows that do not decode, in queries of a store and in walks: each is one error with its keys.

use futures_util::{StreamExt as _, stream};
use rowkey::patterns::job::{Job, Report, Verdict, Walk};
use rowkey::{DynamicEntity, Error, ErrorKind, Page, StorageAccount};
use rowkey_tests::TestResult;

use super::rows::{Order, order, start, store};

/// Orders 0 to 4, of which 1 and 3 have a text for their cents, in their rows and whole copies.
async fn orders(account: &StorageAccount) -> TestResult {
    let orders = store(account)?;
    orders.load(stream::iter((0..5).map(order))).run().await?;
    let table = account.table("orders");
    for row in table.scan::<DynamicEntity>().all().await? {
        let mut broken = row.entity;
        let is_of = |id: &str| broken.row_key.ends_with(id) && broken.get("cents").is_some();
        if is_of("0001") || is_of("0003") {
            broken.set("cents", "many");
            table.replace((&broken, row.etag)).await?;
        }
    }
    Ok(())
}

fn rows(error: &Error) -> Vec<&str> {
    let text = format!("{error} {error:?}");
    assert!(!text.contains("order_0") && !text.contains("many"), "{text}");
    assert_eq!(error.kind(), ErrorKind::Decode);
    error.details().failed_rows.iter().map(|row| &*row.row_key).collect()
}

#[tokio::test]
async fn a_store_query_continues_after_an_undecodable_row() -> TestResult {
    let (_server, account) = start().await?;
    orders(&account).await?;
    let orders = store(&account)?;
    let all = || orders.query(Order::partition("contoso"));
    let found = all().stream().map(|one| one.map(|one| one.entity.id).ok()).collect::<Vec<_>>();
    assert_eq!(found.await, [Some(0), None, Some(2), None, Some(4)]);
    let error = all().all().await.unwrap_err();
    assert_eq!(rows(&error), ["order_0001", "order_0003"]);
    assert!(error.to_string().contains("2 rows cannot be read"), "{error}");
    let error = all().page(2, None).await.unwrap_err();
    assert_eq!(rows(&error), ["order_0001"]);
    let error = orders.get_many((0..5).map(|id| Order::key("contoso", id))).await.unwrap_err();
    assert_eq!(rows(&error), ["order_0001", "order_0003"]);

    let of_ada = || orders.query(Order::by_customer("contoso", "ada"));
    let found = of_ada().stream().map(|one| one.map(|one| one.entity.id).ok()).collect::<Vec<_>>();
    assert_eq!(found.await, [Some(0), None, Some(2), None, Some(4)]);
    assert_eq!(rows(&of_ada().all().await.unwrap_err()).len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_walk_counts_and_reports_undecodable_rows() -> TestResult {
    let (_server, account) = start().await?;
    orders(&account).await?;
    let walk = || {
        Walk::new(&account.table("orders"), |table| {
            table.query(Order::partition("contoso")).page_size(2)
        })
    };
    let step = async |page: Page<Order>| Ok(Report::of(Verdict::Right, page.entities.len() as u64));
    let report = Job::walk("look", walk(), step).run().await?;
    assert_eq!((report.total.right, report.total.unreadable), (3, 2), "{report:?}");
    let named: Vec<_> = report.problems.iter().map(|problem| &*problem.row_key).collect();
    assert_eq!(named, ["order_0001", "order_0003"]);
    assert!(!report.is_clean());
    Ok(())
}
