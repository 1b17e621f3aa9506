//! Answers to a write that no client can decode, always the same: the write ends at once, with the cause, and
//! says that its outcome is unknown.

use std::error::Error as _;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, ErrorCode, ErrorKind, ManualClock, Outcome, answers};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::{WHEN, account_at};

/// Its index lies in another partition, and its value is claimed: each write has an op row.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "user_{id:4}")]
#[entity(index(name = by_city, partition = "city_{city}", row = "{tenant}_{id:4}"))]
struct User {
    tenant: String,
    id: u32,
    city: String,
}

/// Its writes are one transaction without an op row.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "plain_{id:4}")]
struct Plain {
    tenant: String,
    id: u32,
    city: String,
}

/// Each write has a claim, which is inserted before the transaction.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "seat_{id:4}")]
#[entity(unique(name = by_label, value = "{label}"))]
struct Seat {
    tenant: String,
    id: u32,
    label: String,
}

fn user(city: &str) -> User {
    User { tenant: "contoso".into(), id: 1, city: city.into() }
}

fn plain(city: &str) -> Plain {
    Plain { tenant: "contoso".into(), id: 1, city: city.into() }
}

/// A multipart answer, and what can happen to it.
fn undecodable() -> Vec<(&'static str, ResponseTemplate)> {
    let one = || answers::written();
    let three = answers::committed([one(), one(), one()]);
    let content_type =
        three.headers.iter().find(|(name, _)| name == "Content-Type").unwrap().1.clone();
    let multipart = |status: u16, body: Vec<u8>| {
        ResponseTemplate::new(status).set_body_raw(body, &content_type)
    };
    let whole = three.body.to_vec();
    let text = String::from_utf8(whole.clone()).unwrap();
    let with = |from: &str, to: &str| text.replacen(from, to, 1).into_bytes();
    let mut ends_early = text.clone();
    ends_early.truncate(text.trim_end().len() - 2);
    vec![
        ("truncated within a part", multipart(202, whole[..whole.len() / 2].to_vec())),
        ("truncated before the last boundary is closed", multipart(202, ends_early.into_bytes())),
        ("one byte", multipart(202, whole[..1].to_vec())),
        (
            "another boundary",
            ResponseTemplate::new(202)
                .set_body_raw(whole.clone(), "multipart/mixed; boundary=other"),
        ),
        ("no boundary", ResponseTemplate::new(202).set_body_raw(whole.clone(), "multipart/mixed")),
        ("no content type", ResponseTemplate::new(202).set_body_bytes(whole.clone())),
        (
            "HTML with 202",
            ResponseTemplate::new(202).set_body_raw("<html>signed in</html>", "text/html"),
        ),
        (
            "HTML with 200",
            ResponseTemplate::new(200).set_body_raw("<html>signed in</html>", "text/html"),
        ),
        ("an empty body", ResponseTemplate::new(202)),
        ("204", ResponseTemplate::new(204)),
        ("an empty multipart body", multipart(202, Vec::new())),
        ("JSON", ResponseTemplate::new(200).set_body_raw("{}", "application/json")),
        ("too few parts", answers::committed([]).into()),
        ("too many parts", answers::committed((0..9).map(|_| one())).into()),
        ("a part with status 302", multipart(202, with("204 No Content", "302 Found"))),
        (
            "all parts with status 302",
            multipart(202, text.replace("204 No Content", "302 Found").into_bytes()),
        ),
        ("a part with status 100", multipart(202, with("204 No Content", "100 Continue"))),
        ("a part with status 999", multipart(202, with("204 No Content", "999 Much"))),
        ("a part without a status", multipart(202, with("HTTP/1.1 204 No Content", "HTTP/1.1"))),
        (
            "compressed",
            multipart(202, vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b, 0x4c])
                .insert_header("Content-Encoding", "gzip"),
        ),
        ("invalid UTF-8", multipart(202, vec![0xff, 0xfe, 0xc3, 0x28, 0, 0x80])),
    ]
}

/// A service that answers each batch with `batch`, each read with `read`, and each other write as it should.
async fn service(batch: ResponseTemplate, read: answers::Answer) -> MockServer {
    let stub = MockServer::start().await;
    let put = "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage>\
        <MessageId>0a1b</MessageId><InsertionTime>Fri, 20 Nov 2026 12:00:00 GMT</InsertionTime>\
        <ExpirationTime>Fri, 27 Nov 2026 12:00:00 GMT</ExpirationTime><PopReceipt>Ag==</PopReceipt>\
        <TimeNextVisible>Fri, 20 Nov 2026 12:01:00 GMT</TimeNextVisible></QueueMessage>\
        </QueueMessagesList>";
    let given = |method: &str, path: &str| {
        Mock::given(matchers::method(method)).and(matchers::path_regex(path))
    };
    given("POST", "^/\\$batch$").respond_with(batch).mount(&stub).await;
    let message = ResponseTemplate::new(201).set_body_raw(put, "application/xml");
    given("POST", "/messages$").respond_with(message).mount(&stub).await;
    given("GET", "").respond_with(read).mount(&stub).await;
    given("POST", "").respond_with(answers::written()).mount(&stub).await;
    Mock::given(matchers::any()).respond_with(ResponseTemplate::new(204)).mount(&stub).await;
    stub
}

fn store<E: Entity + Clone + Send + Sync + 'static>(stub: &MockServer) -> Store<E> {
    let clock = ManualClock::auto_advancing(WHEN.parse().unwrap());
    let account = account_at(&stub.uri()).clock(clock).build().unwrap();
    Store::builder(account.table("things")).queue(account.queue("things")).build().unwrap()
}

fn missing() -> answers::Answer {
    answers::error(ErrorCode::RESOURCE_NOT_FOUND)
}

async fn count(stub: &MockServer) -> (usize, usize) {
    let requests = stub.received_requests().await.unwrap();
    let batches = requests.iter().filter(|request| request.url.path() == "/$batch").count();
    (batches, requests.len())
}

/// The error of a write that ended after one transaction.
async fn assert_ends_at_once(name: &str, stub: &MockServer, error: &rowkey::Error, most: usize) {
    let (batches, requests) = count(stub).await;
    assert!(batches == 1 && requests <= most, "{name}: {batches} of {requests} requests, {error}");
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Decode, Outcome::Unknown),
        "{name}: {error}"
    );
    let text = error.to_string();
    assert!(text.contains("whether it was applied is unknown"), "{name}: {text}");
    assert!(!text.contains("no response"), "{name}: {text}");
    assert!(error.details().status.is_some(), "{name}: {error}");
}

#[tokio::test]
async fn an_undecodable_answer_to_a_commit_ends_a_write_with_an_op_row_at_once() {
    for (name, answer) in undecodable() {
        let stub = service(answer, missing()).await;
        let error = store::<User>(&stub).insert(&user("Leeds")).await.unwrap_err();
        // The message, and the transaction.
        assert_ends_at_once(name, &stub, &error, 2).await;
    }
}

#[tokio::test]
async fn an_undecodable_answer_to_a_commit_keeps_its_cause() {
    for name in ["truncated within a part", "another boundary", "an empty body", "compressed"] {
        let (_, answer) = undecodable().into_iter().find(|(one, _)| *one == name).unwrap();
        let stub = service(answer, missing()).await;
        let error = store::<User>(&stub).insert(&user("Leeds")).await.unwrap_err();
        assert!(error.source().is_some(), "{name}: {error:?}");
    }
}

type Write = fn(Store<User>) -> BoxFuture<'static, rowkey::Result<()>>;

const OVER: [(&str, Write); 5] = [
    ("update", |users| {
        async move {
            let change = |user: &mut User| user.city = "York".into();
            users.update(User::key("contoso", 1), change).await.map(drop)
        }
        .boxed()
    }),
    ("upsert", |users| async move { users.upsert(&user("York")).await.map(drop) }.boxed()),
    ("rewrite", |users| {
        async move { users.rewrite(User::key("contoso", 1)).await.map(drop) }.boxed()
    }),
    ("delete", |users| {
        async move { users.delete(User::key("contoso", 1)).await.map(drop) }.boxed()
    }),
    ("transaction", |users| {
        async move {
            let read = users.get(User::key("contoso", 1)).await?.unwrap();
            let moved = user("York");
            users.transaction().replace_if(&moved, read.version).submit().await.map(drop)
        }
        .boxed()
    }),
];

#[tokio::test]
async fn an_undecodable_answer_ends_each_kind_of_write_over_an_entity_at_once() {
    for (name, write) in OVER {
        for (kind, answer) in undecodable() {
            let stored = answers::entity(&Row::of("user_0001")).unwrap();
            let stub = service(answer, stored).await;
            let error = write(store::<User>(&stub)).await.unwrap_err();
            // Up to two reads of the entity, the message, and the transaction.
            assert_ends_at_once(&format!("{name}, {kind}"), &stub, &error, 4).await;
        }
    }
}

#[tokio::test]
async fn an_undecodable_answer_ends_a_write_without_an_op_row_at_once() {
    for (kind, answer) in undecodable() {
        let stub = service(answer.clone(), missing()).await;
        let error = store::<Plain>(&stub).insert(&plain("Leeds")).await.unwrap_err();
        assert_ends_at_once(kind, &stub, &error, 1).await;
        let stub = service(answer, answers::entity(&Row::of("plain_0001")).unwrap()).await;
        let change = |plain: &mut Plain| plain.city = "York".into();
        let updated = store::<Plain>(&stub).update(Plain::key("contoso", 1), change).await;
        assert_ends_at_once(kind, &stub, &updated.unwrap_err(), 2).await;
    }
}

/// A stored head, as a plain row.
struct Row;

impl Row {
    fn of(row_key: &str) -> DynamicEntity {
        let mut row = DynamicEntity::new("contoso", row_key);
        row.set("tenant", "contoso");
        row.set("id", 1_i64);
        row.set("city", "Leeds");
        row
    }
}

#[tokio::test]
async fn an_undecodable_answer_to_a_claim_ends_the_write_at_once() {
    // An insert is answered with the ETag of the row: here a page of a proxy.
    let html = || ResponseTemplate::new(200).set_body_raw("<html>signed in</html>", "text/html");
    let stub = MockServer::start().await;
    let put = Mock::given(matchers::method("POST")).and(matchers::path_regex("/messages$"));
    put.respond_with(ResponseTemplate::new(503)).mount(&stub).await;
    Mock::given(matchers::method("GET")).respond_with(missing()).mount(&stub).await;
    Mock::given(matchers::any()).respond_with(html()).mount(&stub).await;
    let seat = Seat { tenant: "contoso".into(), id: 1, label: "window".into() };
    let error = store::<Seat>(&stub).insert(&seat).await.unwrap_err();
    let (batches, requests) = count(&stub).await;
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    assert_eq!(error.outcome(), Outcome::Rejected, "nothing was committed: {error}");
    assert!(batches == 0 && requests <= 6, "{requests} requests, {error}");
}

#[tokio::test]
async fn a_commit_that_never_gets_an_answer_is_given_up_with_its_cause() {
    let stub = service(ResponseTemplate::new(500), missing()).await;
    let error = store::<User>(&stub).insert(&user("Leeds")).await.unwrap_err();
    let (batches, requests) = count(&stub).await;
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unavailable, Outcome::Rejected),
        "{error}"
    );
    assert_eq!(error.details().status, Some(500), "{error}");
    assert!(error.to_string().contains("voided"), "{error}");
    assert!(batches == 4 && requests < 20, "{batches} of {requests} requests");
}
