//! Queries: pages of each kind of index, filled, with tokens that stand in a URL.

use futures_util::stream;
use rowkey::store::{Query, Version};
use rowkey::{DynamicEntity, ErrorKind, Key, Match};
use rowkey_emulator::Pages;
use rowkey_tests::TestResult;

use super::rows::{Order, order, start, store};

/// A query of 20 orders, and how many they are.
type List = (&'static str, fn(&rowkey::store::Store<Order>) -> Query<Order>);

const LISTS: [List; 4] = [
    ("the partition", |orders| orders.query(Order::partition("contoso"))),
    ("an index of whole copies", |orders| orders.query(Order::by_customer("contoso", "ada"))),
    ("an index elsewhere", |orders| orders.query(Order::by_courier_all("kim"))),
    ("an index of partial copies", |orders| orders.query(Order::by_size(0_u32, "ada"))),
];

#[tokio::test]
async fn pages_are_full_and_linked_by_tokens() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let all: Vec<_> = (0..20).map(|id| Order { size: 0, ..order(id) }).collect();
    orders.load(stream::iter(all.clone())).run().await?;
    for (name, list) in LISTS {
        for size in [1, 3, 7, 20, 50] {
            // The service ends its pages wherever it likes.
            let _cut = server.chaos(Pages::seeded(u64::from(size)));
            let (mut found, mut from) = (Vec::new(), None);
            loop {
                let page = list(&orders).page(size, from).await?;
                let left = all.len() - found.len();
                assert_eq!(page.entities.len(), left.min(size as usize), "{name}: {size}");
                found.extend(page.entities);
                let Some(next) = page.continuation else { break };
                let token = next.to_string();
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
                assert!(token.bytes().all(is_plain), "{name}: {token}");
                from = Some(token.parse()?);
            }
            let entities: Vec<_> = found.iter().map(|found| found.entity.clone()).collect();
            assert_eq!(entities, all, "{name}");
        }
        assert_eq!(list(&orders).all().await?.len(), 20, "{name}");
    }
    assert_eq!(orders.count(Order::by_courier_all("kim")).await?, 20);
    Ok(())
}

#[tokio::test]
async fn the_version_of_a_list_guards_the_next_write() -> TestResult {
    let (_server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&Order { size: 0, ..order(1) }).await?;
    for (name, list) in LISTS {
        let page = list(&orders).page(1, None).await?;
        let version: Version = page.entities[0].version.to_string().parse()?;
        let changed = Order { cents: 7, ..page.entities[0].entity.clone() };
        orders.replace_if(&changed, &version).await?;
        let error = orders.replace_if(&changed, &version).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn list_entries_without_an_entity_are_skipped() -> TestResult {
    let (_server, account) = start().await?;
    let orders = store(&account)?;
    let all = (0..9).map(|id| Order { size: 0, ..order(id) });
    orders.load(stream::iter(all)).run().await?;
    for id in [0, 3, 4, 8] {
        let key = Key::<DynamicEntity>::new("contoso", format!("order_{id:04}"));
        account.table("orders").delete(key, Match::Any).await?;
    }
    for (name, list) in LISTS.into_iter().skip(2) {
        let page = list(&orders).page(5, None).await?;
        let found: Vec<_> = page.entities.iter().map(|found| found.entity.id).collect();
        assert_eq!(found, [1, 2, 5, 6, 7], "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_filter_on_properties_missing_from_copies_is_rejected() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&Order { size: 0, cents: 500, ..order(1) }).await?;
    let filter = || Order::CENTS.ge(200);
    for (name, list) in LISTS.into_iter().take(3) {
        assert_eq!(list(&orders).filter(filter()).all().await?.len(), 1, "{name}");
        assert_eq!(list(&orders).filter(Order::CENTS.ge(501)).all().await?.len(), 0, "{name}");
    }
    let before = server.journal();
    let error = LISTS[3].1(&orders).filter(filter()).all().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(server.journal().since(&before).is_empty());
    Ok(())
}
