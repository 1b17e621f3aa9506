//! Item 8: pages of lists, their tokens, and lists that are full.

use std::collections::BTreeSet;

use futures_util::{TryStreamExt as _, stream};
use rowkey::{Entity, ErrorKind, Key, StorageAccount, Table};
use rowkey_eventual::remote_index_entity::RemoteIndexEntity;
use rowkey_store::job::Job;

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

/// A document whose keys are almost as long as keys may be, so that a list is soon full.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{folder}", row = "doc_{name}", rename_all = "PascalCase")]
struct Document {
    folder: String,
    name: String,
    author: String,
}

/// How many of these a list of one row has room for: 32 in each of 8 properties.
const ROOM: u32 = 256;

fn document(number: u32) -> Document {
    let name = format!("{number:0>500}");
    Document { folder: "f".repeat(500), name, author: "King".into() }
}

/// Item 8: a lookup in a full list omits the entities that did not fit, without an error.
#[tokio::test]
#[should_panic(expected = "a full list finds 256 of 258 documents without an error")]
async fn a_full_list_says_that_it_is() {
    let (_server, account) = start().await;
    let (documents, lists) = (account.table("documents"), account.table("authors"));
    documents.create().await.unwrap();
    lists.create().await.unwrap();
    let by_author = RemoteIndexEntity::new("author", documents.clone(), lists, |d: &Document| {
        Some(d.author.clone())
    })
    .max_rows(1);
    let fits = stream::iter((0..ROOM).map(document));
    assert!(Job::insert(&documents, fits).run().await.unwrap().is_clean());
    by_author.repair().run().await.unwrap();
    for number in [ROOM, ROOM + 1] {
        let document = document(number);
        documents.insert(&document).await.unwrap();
        let refused = by_author.settle(Key::of(&document), "King").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
    }
    // Refusing the lookup is correct, too.
    let Ok(found) = by_author.find("King").await else { return };
    let (found, all) = (found.len(), ROOM + 2);
    assert!(found == 258, "a full list finds {found} of {all} documents without an error");
}
