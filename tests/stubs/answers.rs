//! Invalid responses, and the errors that the caller receives.

use std::time::Duration;

use rowkey::{ClientOptions, ErrorCode, ErrorKind, ManualClock, Match, Outcome, Table, answers};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::{Thing, WHEN, once, stub, table, table_by, thing};

async fn answer(stub: &MockServer, answer: impl wiremock::Respond + 'static) {
    Mock::given(matchers::any()).respond_with(answer).mount(stub).await;
}

fn json(status: u16, body: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_raw(body, "application/json")
}

fn key() -> rowkey::Key<Thing> {
    Thing::key("O'Neil & co", 7)
}

#[tokio::test]
async fn a_truncated_body_is_a_decode_error_without_content() {
    let whole = answers::entity(&thing()).unwrap();
    for end in [0, 1, 20, whole.body.len() / 2, whole.body.len() - 1] {
        let (stub, table) = stub().await;
        answer(&stub, answers::Answer { body: whole.body.slice(..end), ..whole.clone() }).await;
        let error = table.get(key()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{end}");
        assert!(!format!("{error} {error:?}").contains("O'Neil"));
    }
}

#[tokio::test]
async fn properties_of_the_wrong_type_name_the_property() {
    for (property, name) in [
        ("\"count\":5.5", "count"),
        ("\"count\":1E+18", "count"),
        ("\"count\":\"5\"", "count"),
        ("\"count@odata.type\":\"Edm.Int64\",\"count\":\"five\"", "count"),
        ("\"count@odata.type\":\"Edm.Decimal\",\"count\":\"5\"", "count"),
        ("\"count\":{\"a\":1}", "count"),
        ("\"count@odata.type\":\"Edm.Int64\",\"count\":\"5\",\"weight\":\"2\"", "weight"),
    ] {
        let (stub, table) = stub().await;
        let body = format!(
            "{{\"PartitionKey\":\"O'Neil & co\",\"RowKey\":\"0007\",\
             \"Timestamp\":\"2026-01-02T03:04:05Z\",\"name\":\"n\",{property}}}"
        );
        answer(&stub, json(200, &body)).await;
        let error = table.get(key()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
    }
}

#[tokio::test]
async fn integral_doubles_written_as_integers_decode_as_doubles() {
    // Azurite 3.37 writes 2.0 as 2, and 8589934592.0 as 8589934592.
    for (weight, expected) in [("2", 2.0), ("8589934592", 8_589_934_592.0)] {
        let (stub, table) = stub().await;
        let body = format!(
            "{{\"PartitionKey\":\"O'Neil & co\",\"RowKey\":\"0007\",\
             \"Timestamp\":\"2026-01-02T03:04:05Z\",\"name\":\"n\",\"weight\":{weight},\
             \"count@odata.type\":\"Edm.Int64\",\"count\":\"5\"}}"
        );
        answer(&stub, json(200, &body)).await;
        let stored = table.get(key()).await.unwrap().unwrap();
        assert_eq!(stored.entity.weight.to_bits(), f64::to_bits(expected));
    }
}

#[tokio::test]
async fn numbers_that_other_programs_store_as_other_types_are_read() {
    // An Int32, a Double and an Int64, as the service sends them.
    for count in
        ["\"count\":5", "\"count\":5.0", "\"count@odata.type\":\"Edm.Int64\",\"count\":\"5\""]
    {
        let (stub, table) = stub().await;
        let body = format!(
            "{{\"PartitionKey\":\"O'Neil & co\",\"RowKey\":\"0007\",\
             \"Timestamp\":\"2026-01-02T03:04:05Z\",\"name\":\"n\",{count},\
             \"weight@odata.type\":\"Edm.Int64\",\"weight\":\"9007199254740992\"}}"
        );
        answer(&stub, json(200, &body)).await;
        let stored = table.get(key()).await.unwrap().unwrap();
        assert_eq!(stored.entity.count, 5);
        assert_eq!(stored.entity.weight.to_bits(), 9_007_199_254_740_992_f64.to_bits());
    }
}

#[tokio::test]
async fn unexpected_documents_are_decode_errors() {
    for body in ["", "null", "[]", "\"x\"", "<html>", "{}", "{\"value\":{}}", "\u{1}"] {
        let (stub, table) = stub().await;
        answer(&stub, json(200, body)).await;
        let query = table.query(Thing::partition("p")).all().await;
        assert_eq!(query.unwrap_err().kind(), ErrorKind::Decode, "{body:?}");
        let get = table.get(key()).await;
        assert_eq!(get.unwrap_err().kind(), ErrorKind::Decode, "{body:?}");
    }
}

#[tokio::test]
async fn unknown_error_codes_keep_their_text_and_get_a_kind_from_the_status() {
    for (status, kind) in [
        (400, ErrorKind::Invalid),
        (401, ErrorKind::Auth),
        (403, ErrorKind::Auth),
        (404, ErrorKind::NotFound),
        (412, ErrorKind::Conflict),
        (413, ErrorKind::TooLarge),
        (429, ErrorKind::Throttled),
        (500, ErrorKind::Unavailable),
        (501, ErrorKind::Invalid),
    ] {
        let (stub, _) = stub().await;
        let body = r#"{"odata.error":{"code":"BrandNew","message":{"lang":"en-US","value":"hm"}}}"#;
        answer(&stub, json(status, body)).await;
        let error = table(&stub.uri(), once()).upsert(&thing()).await.unwrap_err();
        assert_eq!((error.kind(), error.details().status), (kind, Some(status)));
        assert_eq!(error.code(), Some(&ErrorCode::new("BrandNew")));
    }
}

#[tokio::test]
async fn error_bodies_of_proxies_and_every_format_decode() {
    let xml = "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error xmlns:m=\"http://schemas.microsoft\
               .com/ado/2007/08/dataservices/metadata\"><m:code>TableNotFound</m:code><m:message \
               xml:lang=\"en-US\">The table specified does not exist.</m:message></m:error>";
    for (body, code) in [
        (xml, Some(ErrorCode::TABLE_NOT_FOUND)),
        ("\u{feff}<Error><Code>TableNotFound</Code></Error>", Some(ErrorCode::TABLE_NOT_FOUND)),
        ("<html><body>404 here is a secret</body></html>", None),
        ("", None),
    ] {
        let (stub, table) = stub().await;
        answer(&stub, ResponseTemplate::new(404).set_body_string(body)).await;
        let error = table.insert(&thing()).await.unwrap_err();
        let kind = if code.is_some() { ErrorKind::NotFound } else { ErrorKind::Decode };
        assert_eq!((error.kind(), error.code()), (kind, code.as_ref()), "{body}");
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
}

#[tokio::test]
async fn a_write_without_an_etag_in_its_response_has_an_unknown_outcome() {
    let (stub, table) = stub().await;
    answer(&stub, ResponseTemplate::new(204)).await;
    let error = table.upsert(&thing()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Decode, Outcome::Unknown));
    assert!(error.to_string().contains("whether it was applied is unknown"), "{error}");
}

#[tokio::test]
async fn an_undecodable_response_names_the_operation_and_a_read_has_a_known_outcome() {
    let (stub, table) = stub().await;
    let busy = answers::error(ErrorCode::SERVER_BUSY);
    Mock::given(matchers::any()).respond_with(busy).up_to_n_times(1).mount(&stub).await;
    answer(&stub, json(200, "{}").insert_header("x-ms-request-id", "an-id")).await;
    let query = table.query(Thing::partition("p")).all().await.unwrap_err();
    assert_eq!((query.details().attempts, query.kind()), (2, ErrorKind::Decode));
    let get = table.get(key()).await.unwrap_err();
    let tables = table.account().tables().all().await.unwrap_err();
    let policies = table.access_policies().await.unwrap_err();
    let batch = table.transaction().get(key()).await.unwrap_err();
    for error in [query, get, tables, policies, batch] {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Decode, Outcome::Rejected));
        assert_eq!(
            (error.details().status, error.details().request_id.as_deref()),
            (Some(200), Some("an-id"))
        );
        assert!(error.details().attempts > 0, "{error}");
    }
    let transaction = table.transaction().upsert(&thing()).submit().await.unwrap_err();
    assert_eq!((transaction.kind(), transaction.outcome()), (ErrorKind::Decode, Outcome::Unknown));
    assert_eq!(transaction.details().request_id.as_deref(), Some("an-id"));
}

#[tokio::test]
async fn a_transaction_rejected_by_a_busy_service_is_retried() {
    let refused = |code| answers::refused_transaction(0, code);
    let committed = || answers::committed([answers::written()]);
    // Refused: nothing has changed.
    let (stub, table) = stub().await;
    let busy = refused(ErrorCode::SERVER_BUSY);
    Mock::given(matchers::any()).respond_with(busy).up_to_n_times(2).mount(&stub).await;
    answer(&stub, committed()).await;
    assert_eq!(table.transaction().insert(&thing()).submit().await.unwrap().len(), 1);
    assert_eq!(stub.received_requests().await.unwrap().len(), 3);

    // In doubt: only what may be repeated is.
    stub.reset().await;
    let timeout = refused(ErrorCode::OPERATION_TIMED_OUT);
    Mock::given(matchers::any()).respond_with(timeout).up_to_n_times(1).mount(&stub).await;
    answer(&stub, committed()).await;
    let error = table.transaction().insert(&thing()).submit().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
    assert_eq!((error.details().status, error.details().operation_index), (Some(500), Some(0)));
    stub.reset().await;
    let timeout = refused(ErrorCode::OPERATION_TIMED_OUT);
    Mock::given(matchers::any()).respond_with(timeout).up_to_n_times(1).mount(&stub).await;
    answer(&stub, committed()).await;
    assert_eq!(table.transaction().upsert(&thing()).submit().await.unwrap().len(), 1);

    // The last error is returned.
    stub.reset().await;
    answer(&stub, refused(ErrorCode::SERVER_BUSY)).await;
    let error = table.transaction().insert(&thing()).submit().await.unwrap_err();
    assert_eq!((error.kind(), error.details().attempts), (ErrorKind::Throttled, 4));
}

#[tokio::test]
async fn an_update_waits_between_repeated_conflicts() {
    let (stub, _) = stub().await;
    let get = Mock::given(matchers::method("GET"));
    get.respond_with(answers::entity(&thing()).unwrap()).expect(16).mount(&stub).await;
    let changed = answers::error(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED);
    Mock::given(matchers::method("PATCH")).respond_with(changed).expect(16).mount(&stub).await;
    let clock = ManualClock::auto_advancing(WHEN.parse().unwrap());
    let table = table_by(&stub.uri(), ClientOptions::default(), clock.clone());
    let error = table.update(key(), |thing| thing.count += 1).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Conflict);
    let slept = clock.slept();
    assert_eq!(slept.len(), 14, "not before the second round");
    let longest = (0..14).map(|round| (10 << round).min(1000));
    for (wait, longest) in slept.iter().zip(longest) {
        assert!(*wait <= Duration::from_millis(longest), "{slept:?}");
    }
    assert!(slept.iter().any(|wait| *wait > Duration::from_millis(10)), "{slept:?}");
}

#[tokio::test]
async fn redirects_are_errors_and_are_not_followed() {
    let (stub, table) = stub().await;
    let there = format!("{}/elsewhere", stub.uri());
    answer(&stub, ResponseTemplate::new(307).insert_header("Location", there.as_str())).await;
    let error = table.get(key()).await.unwrap_err();
    assert_eq!(error.details().status, Some(307));
    let paths = stub.received_requests().await.unwrap();
    assert!(paths.iter().all(|request| request.url.path() != "/elsewhere"));
}

#[tokio::test]
async fn a_partial_transaction_response_is_an_error() {
    let (stub, table) = stub().await;
    answer(&stub, answers::committed([answers::written()])).await;
    let transaction =
        || table.transaction().upsert(&thing()).delete(Thing::key("O'Neil & co", 8), Match::Any);
    let error = transaction().submit().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Decode, Outcome::Unknown));

    stub.reset().await;
    let whole = answers::committed([answers::written(), answers::deleted()]);
    let cut = whole.body.slice(..whole.body.len() - 30);
    answer(&stub, answers::Answer { body: cut, ..whole }).await;
    let error = transaction().submit().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Decode, Outcome::Unknown));
}

#[tokio::test]
async fn a_refused_transaction_names_the_operation() {
    let (stub, table) = stub().await;
    answer(&stub, answers::refused_transaction(1, ErrorCode::ENTITY_ALREADY_EXISTS)).await;
    let other = Thing { number: 8, ..thing() };
    let error = table.transaction().insert(&thing()).insert(&other).submit().await.unwrap_err();
    assert_eq!(error.details().operation_index, Some(1));
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(error.outcome(), Outcome::Rejected);
}

/// A table whose entity is changed while an update of it is in doubt: the first attempt gets no
/// answer, the second is refused, and then the entity is what the update has sent.
async fn doubtful_update() -> (MockServer, Table) {
    let (stub, table) = stub().await;
    let changed = Thing { count: 6, ..thing() };
    let get = || Mock::given(matchers::method("GET"));
    let merge = || Mock::given(matchers::method("PATCH"));
    get().respond_with(answers::entity(&thing()).unwrap()).up_to_n_times(1).mount(&stub).await;
    get().respond_with(answers::entity(&changed).unwrap()).mount(&stub).await;
    merge()
        .respond_with(answers::error(ErrorCode::OPERATION_TIMED_OUT))
        .up_to_n_times(1)
        .mount(&stub)
        .await;
    merge()
        .respond_with(answers::error(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED))
        .expect(1)
        .mount(&stub)
        .await;
    (stub, table)
}

#[tokio::test]
async fn an_update_recognizes_its_own_write_after_a_lost_response() {
    let (_stub, table) = doubtful_update().await;
    let stored = table.update(key(), |thing| thing.count = 6).await.unwrap();
    assert_eq!(stored.entity.count, 6);
}

#[tokio::test]
async fn an_incrementing_update_distinguishes_an_equal_foreign_write() {
    let (_stub, table) = doubtful_update().await;
    let error = table.update(key(), |thing| thing.count += 1).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::Unknown));
}

#[tokio::test]
async fn an_update_with_an_unknown_outcome_reports_it_despite_later_reads() {
    // It was deleted meanwhile; or it cannot be read any more.
    for (code, kind) in [
        (ErrorCode::RESOURCE_NOT_FOUND, ErrorKind::NotFound),
        (ErrorCode::AUTHENTICATION_FAILED, ErrorKind::Auth),
    ] {
        let (stub, table) = stub().await;
        let get = || Mock::given(matchers::method("GET"));
        let merge = || Mock::given(matchers::method("PATCH"));
        get().respond_with(answers::entity(&thing()).unwrap()).up_to_n_times(1).mount(&stub).await;
        get().respond_with(answers::error(code)).mount(&stub).await;
        merge()
            .respond_with(answers::error(ErrorCode::OPERATION_TIMED_OUT))
            .up_to_n_times(1)
            .mount(&stub)
            .await;
        merge()
            .respond_with(answers::error(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED))
            .mount(&stub)
            .await;
        let error = table.update(key(), |thing| thing.count += 1).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::Unknown), "{error}");
    }
}

#[tokio::test]
async fn a_transaction_error_without_an_operation_index_names_none() {
    let (stub, table) = stub().await;
    let refused = answers::refused_transaction(1, ErrorCode::ENTITY_ALREADY_EXISTS);
    let body = String::from_utf8(refused.body.to_vec()).unwrap().replace("\"1:", "\"");
    answer(&stub, answers::Answer { body: body.into(), ..refused }).await;
    let other = Thing { number: 8, ..thing() };
    let both = table.transaction().insert(&thing()).insert(&other).submit().await.unwrap_err();
    assert_eq!((both.kind(), both.details().operation_index), (ErrorKind::AlreadyExists, None));
    // With one operation there is no doubt, and the service leaves the number out.
    let one = table.transaction().insert(&thing()).submit().await.unwrap_err();
    assert_eq!((one.kind(), one.details().operation_index), (ErrorKind::AlreadyExists, Some(0)));
}

#[tokio::test]
async fn every_not_found_code_means_an_absent_table() {
    for code in [ErrorCode::RESOURCE_NOT_FOUND, ErrorCode::TABLE_NOT_FOUND] {
        let (stub, table) = stub().await;
        answer(&stub, answers::error(code)).await;
        assert!(!table.delete_table_if_exists().await.unwrap());
    }
}

#[tokio::test]
async fn take_limits_results_even_if_the_service_sends_more() {
    let (stub, table) = stub().await;
    answer(&stub, answers::page([&thing(), &thing(), &thing()], ("p", Some("r"))).unwrap()).await;
    assert_eq!(table.query(Thing::partition("p")).take(2).all().await.unwrap().len(), 2);
    assert_eq!(stub.received_requests().await.unwrap().len(), 1);
}
