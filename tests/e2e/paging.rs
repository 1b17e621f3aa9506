//! Pages that are filled, and the tokens between them.

use std::time::Duration;

use futures_util::TryStreamExt;
use rowkey::pace::Pace;
use rowkey::{
    ClientOptions, Clock as _, Continuation, DynamicEntity, Entity, ErrorKind, Filter, Key,
    Outcome, Page, Partition, Projection, Query, Result, Table,
};
use rowkey_emulator::{Operation, Pages, Server};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::rows::index_row;
use rowkey_tests::sweep::waiting;
use rowkey_tests::{Fixture, TestResult};

use crate::model::Employee;
use crate::queries::{ids, staff};

/// The properties of an employee that a program reads.
#[derive(Debug, Projection)]
#[entity(rename_all = "PascalCase")]
struct Earnings {
    #[entity(row_key)]
    row: String,
    salary: f64,
}

/// What its next version reads.
#[derive(Debug, Projection)]
#[entity(rename_all = "PascalCase")]
struct EarningsAndBonus {
    #[entity(row_key)]
    row: String,
    salary: f64,
    bonus: Option<f64>,
}

#[tokio::test]
async fn a_token_stays_valid_after_a_field_is_added() -> TestResult {
    let table = staff(30).await?;
    let query = || table.query(Employee::partition("sales")).page_size(10);
    let whole: Vec<_> = query().all().await?.into_iter().map(|e| Key::of(&e.entity)).collect();
    let mut old = query().project::<Earnings>().pages();
    let first = old.try_next().await?.unwrap();
    let token: Continuation = first.continuation.unwrap().to_string().parse()?;

    let rest = query().project::<EarningsAndBonus>().resume(token.clone()).all().await?;
    let read = first.entities.iter().map(|pay| &pay.entity.row);
    let rows: Vec<_> = read.chain(rest.iter().map(|pay| &pay.entity.row)).collect();
    let expected: Vec<_> = whole.iter().map(|key| key.parts().unwrap().1).collect();
    assert_eq!(rows, expected);
    assert!(rest.iter().all(|pay| pay.entity.bonus.is_none() && pay.entity.salary > -1.0));
    assert!(first.entities.iter().all(|pay| pay.entity.salary > -1.0));

    // The token is also valid for other projections of the same query.
    assert_eq!(query().resume(token.clone()).all().await?.len(), 20);
    let other = query().filter(Employee::SALARY.gt(0.0)).project::<Earnings>().resume(token);
    assert_eq!(other.all().await.unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

/// All pages of a query, each with a token that has been text.
async fn paged<P: Projection + Send + Clone + 'static>(
    query: impl Fn() -> Query<P>,
    size: u32,
) -> Result<Vec<Page<P>>> {
    let (mut pages, mut from) = (Vec::new(), None);
    loop {
        let page = query().page(size, from).await?;
        let text = page.continuation.as_ref().map(ToString::to_string);
        pages.push(page);
        let Some(text) = text else { return Ok(pages) };
        assert!(
            text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'),
            "{text}"
        );
        from = Some(text.parse()?);
    }
}

#[tokio::test]
async fn a_full_page_continues_after_its_last_entity() -> TestResult {
    let table = staff(20).await?;
    let query = || table.query(Employee::partition("sales"));
    let first = query().page(5, None).await?;
    assert_eq!(ids(&first.entities), [1, 2, 3, 4, 5]);
    let second = query().page(7, first.continuation).await?;
    assert_eq!(ids(&second.entities), (6..=12).collect::<Vec<_>>(), "of another size");
    let third = query().page(100, second.continuation).await?;
    assert_eq!(ids(&third.entities), (13..=20).collect::<Vec<_>>());
    assert!(third.continuation.is_none());
    // A page of a query with `take`.
    let some = query().take(3).page(5, None).await?;
    assert_eq!((ids(&some.entities), some.continuation.is_some()), (vec![1, 2, 3], true));
    let error = query().page(0, None).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    Ok(())
}

#[tokio::test]
async fn a_page_of_five_is_followed_by_the_remaining_entities() -> TestResult {
    let table = staff(20).await?;
    let query = || table.query(Employee::partition("sales"));
    let pages: Vec<_> = query().take(5).pages().try_collect().await?;
    let token = pages.last().and_then(|page| page.continuation.clone()).ok_or("there are more")?;
    assert_eq!(ids(&query().resume(token.clone()).take(5).all().await?), [6, 7, 8, 9, 10]);
    assert_eq!(query().resume(token.clone()).all().await?.len(), 15);
    let page = query().resume(token).page(2, None).await?;
    assert_eq!(ids(&page.entities), [6, 7]);
    Ok(())
}

#[tokio::test]
async fn a_token_resumes_in_another_client_and_only_for_its_query() -> TestResult {
    let table = staff(30).await?;
    let query = |table: &Table| table.query(Employee::partition("sales"));
    let text = query(&table).page(10, None).await?.continuation.ok_or("more")?.to_string();
    let other_client = table.with_options(ClientOptions::default());
    let token: Continuation = text.parse()?;
    let rest = query(&other_client).resume(token.clone()).all().await?;
    assert_eq!(ids(&rest), (11..=30).collect::<Vec<_>>());

    let key = |id| Employee::key("sales", id);
    for other in [
        query(&table).filter(Employee::SALARY.gt(0.0)),
        table.query(Employee::partition("sale")),
        table.query(Employee::partition("sales").range(key(1)..)),
        table.scan(),
        table.account().table("other").query(Employee::partition("sales")),
    ] {
        let error = other.page(10, Some(token.clone())).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert!(error.to_string().contains("not of this query"), "{error}");
    }
    Ok(())
}

/// The service ends its pages anywhere, and rows are passed over.
#[tokio::test]
async fn pages_are_full_even_if_the_service_returns_short_pages() -> TestResult {
    let table = staff(120).await?;
    let Some(server) = &table.fixture.server else { return Ok(()) };
    for seed in seeds(20) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let _chaos = server.chaos(Pages::seeded(seed));
        let size = random.below(40) + 1;
        // Alternatives that make several parts, and a filter that few pass.
        let list: Vec<f64> = (0..40).map(|id| f64::from(id * 3) * 1000.0).collect();
        let query = || {
            let query = table.query(Employee::partition("sales"));
            match seed % 3 {
                0 => query,
                1 => query.filter(Employee::SALARY.one_of(list.clone())),
                _ => query.filter(Employee::TITLE.is("Lead")).page_size(7),
            }
        };
        let pages = paged(query, size).await?;
        let (last, full) = pages.split_last().ok_or("a page at least")?;
        assert!(full.iter().all(|page| page.entities.len() == size as usize));
        assert!(last.entities.len() <= size as usize);
        let mut found: Vec<u32> = pages.iter().flat_map(|page| ids(&page.entities)).collect();
        found.sort_unstable();
        let expected: Vec<u32> = match seed % 3 {
            0 => (1..=120).collect(),
            1 => (1..40).map(|id| id * 3).collect(),
            _ => (1..=60).map(|id| id * 2).collect(),
        };
        assert_eq!(found, expected);
    }
    Ok(())
}

/// An entity with copies among the entities, in separate partitions.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "{id:4}")]
#[entity(index(name = by_courier, partition = "{courier}", row = "{id:4}_{tenant}", copy(note)))]
struct Order {
    tenant: String,
    id: u16,
    courier: String,
    note: Option<String>,
}

/// The properties of an order on a page.
#[derive(Clone, Debug, PartialEq, Projection)]
struct Line {
    #[entity(row_key)]
    row: String,
    note: Option<String>,
}

/// Entities with copies before, among and behind them, and ranges of which rows are passed over.
#[tokio::test]
async fn skipped_rows_cost_few_requests() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let mut all = Vec::new();
    for id in 0..300 {
        let courier = if id % 3 == 0 { "a" } else { "z" }.to_owned();
        let order = Order { tenant: format!("m{}", id / 100), id, courier, note: None };
        table.insert(&index_row(&order, 0)?.ok_or("in the index")?).await?;
        table.insert(&order).await?;
        all.push(Key::of(&order));
    }
    let keys = |page: &Page<Order>| -> Vec<_> {
        page.entities.iter().map(|it| Key::of(&it.entity)).collect()
    };
    for size in [1, 3, 50, 299] {
        let pages = paged(|| table.scan::<Order>(), size).await?;
        let found: Vec<_> = pages.iter().flat_map(keys).collect();
        assert_eq!(found, all);
    }
    if let Some(server) = &table.fixture.server {
        // A hundred copies come first.
        let requests = |before| server.journal().since(&before).count(Operation::QueryEntities);
        let before = server.journal();
        assert_eq!(keys(&table.scan::<Order>().page(1, None).await?), all[..1]);
        let needed = requests(before);
        assert!(needed <= 9, "{needed} requests");
        let before = server.journal();
        let first = table.scan::<Order>().first().await?.ok_or("there is one")?;
        assert_eq!(Key::of(&first.entity), all[0]);
        let needed = requests(before);
        assert!(needed <= 8, "{needed} requests");
    }
    let lines = paged(|| table.scan::<Order>().project::<Line>(), 70).await?;
    assert_eq!(lines.iter().map(|page| page.entities.len()).sum::<usize>(), 300);
    Ok(())
}

/// The text of a token that is not of this query, or none at all, does not come back.
#[tokio::test]
async fn an_invalid_token_is_rejected_without_being_shown() -> TestResult {
    let table = staff(3).await?;
    table.insert(&DynamicEntity::new("secret", "id_1")).await?;
    table.insert(&DynamicEntity::new("secret", "id_2")).await?;
    let secret = || table.query(Partition::<DynamicEntity>::new("secret"));
    let token = secret().page(1, None).await?.continuation.ok_or("more")?;
    let error = secret().filter(Filter::raw("a eq 1")?).page(1, Some(token.clone())).await;
    let error = error.unwrap_err();
    assert!(!format!("{error} {error:?} {token:?}").contains("secret"), "{error}");
    let garbled = token.to_string().replace('A', "B");
    let error = garbled.parse::<Continuation>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(!format!("{error} {error:?}").contains(&garbled), "{error}");
    Ok(())
}

/// Entities of a stream count for the maximum rate of a pace, as those of pages do.
#[tokio::test]
async fn a_pace_counts_the_entities_that_streams_and_pages_read() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let (account, clock) = waiting(&server)?;
    let table = account.table("events");
    table.create().await?;
    for number in 0..50 {
        table.insert(&DynamicEntity::new("device", format!("{number:02}"))).await?;
    }
    let query = || table.query(Partition::<DynamicEntity>::new("device"));
    for reads_pages in [false, true] {
        let pace = Pace::background().entities_per_second(10);
        let begun = clock.elapsed();
        pace.scope(async {
            if reads_pages {
                assert_eq!(query().pages().try_collect::<Vec<_>>().await?.len(), 1);
            } else {
                assert_eq!(query().stream().try_collect::<Vec<_>>().await?.len(), 50);
            }
            table.get(Key::<DynamicEntity>::new("device", "00")).await
        })
        .await?;
        // Five seconds, less the lateness that is made up for.
        let waited = clock.elapsed().saturating_sub(begun);
        assert!(waited >= Duration::from_millis(4900), "{waited:?}");
    }
    Ok(())
}
