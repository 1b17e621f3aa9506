//! Item 8: pages of lists and their tokens.

use std::collections::BTreeSet;

use futures_util::TryStreamExt as _;
use rowkey::{Entity, StorageAccount, Table};

use crate::start;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "order_{number:6}", rename_all = "PascalCase")]
struct Order {
    tenant: String,
    number: u32,
}

/// Twenty orders of one tenant.
async fn orders(account: &StorageAccount) -> Table {
    let orders = account.table("orders");
    orders.create().await.unwrap();
    for number in 1..=20 {
        orders.insert(&Order { tenant: "contoso".into(), number }).await.unwrap();
    }
    orders
}

/// Item 8: a query that takes five of twenty ends with a token for the next page.
#[tokio::test]
async fn a_page_of_a_list_leads_to_the_next() {
    let (_server, account) = start().await;
    let orders = orders(&account).await;
    let mut pages = orders.query(Order::partition("contoso")).take(5).pages();
    let page = pages.try_next().await.unwrap().unwrap();
    let taken = page.entities.len();
    assert!(
        page.continuation.is_some(),
        "{taken} of 20 orders are taken, and no token leads to the rest"
    );
}

/// Item 8: continuation tokens stand in a URL as they are.
#[tokio::test]
async fn a_token_stands_in_a_url() {
    let (_server, account) = start().await;
    let orders = orders(&account).await;
    let mut pages = orders.query(Order::partition("contoso")).page_size(5).pages();
    let page = pages.try_next().await.unwrap().unwrap();
    let token = page.continuation.unwrap().to_string();
    let is_unreserved = |c: &char| c.is_ascii_alphanumeric() || "-._~".contains(*c);
    let odd: BTreeSet<char> = token.chars().filter(|c| !is_unreserved(c)).collect();
    let odd: String = odd.into_iter().collect();
    assert!(odd.is_empty(), "a continuation token has characters that a URL escapes: {odd}");
}
