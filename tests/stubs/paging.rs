//! Pages as the service cuts them: shorter than asked for, empty, and full of rows that are not meant.

use rowkey::{DynamicEntity, Entity, ErrorKind, Table, answers};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::{Thing, stub, thing};

/// An entity among whose rows its copies may lie.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{owner}", row = "{number:4}")]
#[entity(index(name = by_name, partition = "{name}", row = "{number:4}_{owner}"))]
struct Copied {
    owner: String,
    number: u16,
    name: String,
}

fn entity(number: u16) -> DynamicEntity {
    let mut row = DynamicEntity::new("p", format!("{number:04}"));
    row.set("name", "n");
    row
}

fn copy(number: u16) -> DynamicEntity {
    let mut row = entity(number);
    row.set("PrimaryRowKey", "0001");
    row.set("IndexName", "by_name");
    row
}

/// Answers the request with the continuation `from` and `$top` of `top`.
async fn on(stub: &MockServer, from: Option<&str>, top: u32, answer: impl Into<ResponseTemplate>) {
    let top = matchers::query_param("$top", top.to_string());
    let mock = match from {
        Some(token) => Mock::given(matchers::query_param("NextRowKey", token)).and(top),
        None => Mock::given(matchers::query_param_is_missing("NextRowKey")).and(top),
    };
    mock.respond_with(answer.into()).expect(1).mount(stub).await;
}

/// A page, and the token behind it, which the service writes as base64.
fn page(rows: &[DynamicEntity], next: &str) -> ResponseTemplate {
    answers::page(rows, ("p", Some(next))).unwrap().into()
}

/// The RowKeys `a`, `b`, `c` as they are in tokens.
const A: &str = "1!4!YQ--";
const B: &str = "1!4!Yg--";
const C: &str = "1!4!Yw--";

fn numbers<P: Entity>(page: &rowkey::Page<P>, number: impl Fn(&P) -> u16) -> Vec<u16> {
    page.entities.iter().map(|stored| number(&stored.entity)).collect()
}

#[tokio::test]
async fn a_short_page_is_completed_with_the_missing_number() {
    let (stub, table) = stub().await;
    on(&stub, None, 5, page(&[entity(1), entity(2)], "a")).await;
    on(&stub, Some(A), 3, page(&[], "b")).await;
    on(&stub, Some(B), 3, page(&[entity(3), entity(4), entity(5)], "c")).await;
    on(&stub, Some(C), 2, answers::entities([&entity(6)]).unwrap()).await;
    let rows = || table.query(Copied::partition("p"));
    let first = rows().page(5, None).await.unwrap();
    assert_eq!(numbers(&first, |it| it.number), [1, 2, 3, 4, 5]);
    let token = first.continuation.unwrap().to_string();
    let second = rows().page(2, Some(token.parse().unwrap())).await.unwrap();
    assert_eq!(numbers(&second, |it| it.number), [6]);
    assert_eq!(second.continuation, None);
    stub.verify().await;
}

/// More is asked for after rows that are not meant, and the token is right behind the last entity all
/// the same.
#[tokio::test]
async fn an_oversized_page_is_requested_again_with_the_missing_number() {
    let (stub, table) = stub().await;
    on(&stub, None, 1, page(&[copy(1)], "a")).await;
    on(&stub, Some(A), 2, page(&[entity(2), entity(3)], "c")).await;
    on(&stub, Some(A), 1, page(&[entity(2)], "b")).await;
    on(&stub, Some(B), 1, answers::entities([&entity(3)]).unwrap()).await;
    let rows = || table.query(Copied::partition("p"));
    let first = rows().page(1, None).await.unwrap();
    assert_eq!(numbers(&first, |it| it.number), [2]);
    let second = rows().page(1, first.continuation).await.unwrap();
    assert_eq!((numbers(&second, |it| it.number), second.continuation), (vec![3], None));
    stub.verify().await;
}

/// Where no token is wanted, nothing is asked for twice.
#[tokio::test]
async fn the_first_match_after_other_rows_costs_one_request() {
    let (stub, table) = stub().await;
    on(&stub, None, 1, page(&[copy(1)], "a")).await;
    on(&stub, Some(A), 2, page(&[copy(2), copy(3)], "b")).await;
    on(&stub, Some(B), 3, page(&[entity(4), entity(5), entity(6)], "c")).await;
    let first = table.query(Copied::partition("p")).first().await.unwrap().unwrap();
    assert_eq!(first.entity.number, 4);
    stub.verify().await;
}

async fn too_many(table: &Table) -> rowkey::Error {
    table.query(Thing::partition("p")).page(2, None).await.unwrap_err()
}

#[tokio::test]
async fn an_oversized_response_yields_no_token_that_skips_entities() {
    let (stub, table) = stub().await;
    let answer = answers::page([&thing(), &thing(), &thing()], ("p", Some("r"))).unwrap();
    Mock::given(matchers::any()).respond_with(answer).mount(&stub).await;
    let error = too_many(&table).await;
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert!(error.to_string().contains("more entities than requested"), "{error}");
    assert!(stub.received_requests().await.unwrap().len() <= 4);
}
