//! What answers in the place of a storage service: redirects, 404 of a web server, addresses that are too long, names that are blocked.

use std::time::Duration;

use rowkey::{
    ClientOptions, Credential, DynamicEntity, ErrorCode, ErrorKind, Filter, Key, ManualClock,
    Match, Operator, Outcome, Partition, StorageAccount, answers,
};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::{WHEN, account_at, once, stub, thing};

const SAS: &str = "sv=2019-02-02&tn=things&sp=raud&se=2027-01-01&sig=c2VjcmV0";

async fn answering(answer: ResponseTemplate) -> MockServer {
    let stub = MockServer::start().await;
    Mock::given(matchers::any()).respond_with(answer).mount(&stub).await;
    stub
}

/// A redirect with the method and the body kept, to a server that must see nothing of it.
#[tokio::test]
async fn no_redirect_is_followed_with_the_sas() {
    let thief = answering(ResponseTemplate::new(200)).await;
    for status in [301, 302, 303, 307, 308] {
        let answer = ResponseTemplate::new(status);
        let stub = answering(answer.insert_header("location", format!("{}/x", thief.uri()))).await;
        let account = StorageAccount::builder()
            .name("acct")
            .endpoint(rowkey::service::Service::Table, &stub.uri())
            .unwrap()
            .credential(Credential::sas(SAS).unwrap())
            .options(once())
            .build()
            .unwrap();
        let table = account.table("things");
        let error = table.insert(&thing()).await.unwrap_err();
        assert_eq!(error.details().status, Some(status));
        assert!(error.to_string().contains("redirects are not followed"), "{error}");
        table.get(Key::<DynamicEntity>::new("a", "b")).await.unwrap_err();
        let received = stub.received_requests().await.unwrap();
        assert_eq!(received.len(), 2);
        assert!(received.iter().all(|request| !request.headers.contains_key("referer")));
    }
    assert!(thief.received_requests().await.unwrap().is_empty());
}

/// A slot may get another kind of credential than its account was built with.
#[tokio::test]
async fn a_replaced_credential_is_not_sent_over_http() {
    let slot = rowkey::CredentialSlot::new(Credential::shared_key("acct", "a2V5").unwrap());
    let account = StorageAccount::builder()
        .endpoint(rowkey::service::Service::Table, "http://storage.invalid:10002/acct")
        .unwrap()
        .credential(slot.credential())
        .build()
        .unwrap();
    slot.replace(Credential::sas(SAS).unwrap()).unwrap();
    let error = account.table("things").insert(&thing()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("not sent over plain http"), "{error}");
}

/// A copy names its source with the signature that opens it.
#[tokio::test]
async fn the_sas_of_a_copy_source_is_not_sent_over_http() {
    let of = |endpoint: &str, credential| {
        let builder = StorageAccount::builder().name("acct").credential(credential);
        builder.endpoint(rowkey::service::Service::Blob, endpoint).unwrap().build().unwrap()
    };
    let source = of("https://acct.blob.core.windows.net", Credential::sas(SAS).unwrap());
    let key = Credential::shared_key("acct", "a2V5").unwrap();
    let target = of("http://storage.invalid:10000/acct", key).container("photos").blob("8.jpg");
    let error = target.copy_from(&source.container("photos").blob("7.jpg")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("of the source is not sent over plain http"), "{error}");
}

/// A wrong endpoint must not look like an empty table.
#[tokio::test]
async fn a_404_from_another_server_does_not_mean_absent() {
    for body in ["", "<html><body>Not Found</body></html>", "{\"message\":\"no route\"}"] {
        let stub = answering(ResponseTemplate::new(404).set_body_string(body)).await;
        let account = account_at(&stub.uri()).build().unwrap();
        let (table, key) = (account.table("things"), || Key::<DynamicEntity>::new("a", "b"));
        let photos = account.container("photos");
        for (name, error) in [
            ("get", table.get(key()).await.err()),
            ("delete_if_exists", table.delete_if_exists(key(), Match::Any).await.err()),
            ("delete_table_if_exists", table.delete_table_if_exists().await.err()),
            ("query", table.query(Partition::<DynamicEntity>::new("a")).all().await.err()),
            ("delete_queue_if_exists", account.queue("jobs").delete_queue_if_exists().await.err()),
            ("container", photos.properties().await.err()),
            ("container.delete_if_exists", photos.delete_if_exists().await.err()),
            ("blob", photos.blob("7.jpg").get().await.err()),
            ("blob.delete_if_exists", photos.blob("7.jpg").delete_if_exists().await.err()),
        ] {
            let error = error.unwrap_or_else(|| panic!("{name} takes it for absence"));
            assert_eq!(error.kind(), ErrorKind::Decode, "{name}: {error}");
            assert!(error.to_string().contains("check the endpoint"), "{name}: {error}");
        }
    }
    // With a code in the head, as answers to HEAD have it, or in the body it is one.
    let coded = ResponseTemplate::new(404).insert_header("x-ms-error-code", "ResourceNotFound");
    let stub = answering(coded).await;
    let table = crate::table(&stub.uri(), ClientOptions::default());
    assert!(table.get(Key::<DynamicEntity>::new("a", "b")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_409_from_another_server_does_not_mean_already_exists() {
    let stub = answering(ResponseTemplate::new(409)).await;
    let table = crate::table(&stub.uri(), ClientOptions::default());
    assert_eq!(table.create_if_missing().await.unwrap_err().kind(), ErrorKind::Decode);
    assert_eq!(table.insert(&thing()).await.unwrap_err().kind(), ErrorKind::Decode);
}

#[tokio::test]
async fn an_oversized_url_is_rejected_and_explained_alike() {
    let (stub, table) = stub().await;
    Mock::given(matchers::any())
        .respond_with(answers::entities::<crate::Thing>([]).unwrap())
        .mount(&stub)
        .await;
    let query = |length: usize| {
        let text = "x".repeat(length);
        table.query(Partition::<DynamicEntity>::new("p")).filter(Filter::dynamic(
            "Name",
            Operator::Equal,
            text,
        ))
    };
    for length in [65_534, 90_000] {
        let sent = query(length).all().await.unwrap_err();
        let explained = query(length).explain().unwrap_err();
        assert_eq!((sent.kind(), sent.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
        assert!(sent.to_string().contains("65534 are the most"), "{sent}");
        assert_eq!(sent.to_string(), explained.to_string());
    }
    assert!(stub.received_requests().await.unwrap().is_empty());
    // The longest that is left is sent.
    let rest = 65_534 - query(0).explain().unwrap().requests[0].url.len();
    assert!(query(rest + 1).explain().is_err());
    assert!(query(rest).explain().is_ok());
    assert!(query(rest).all().await.unwrap().is_empty());
}

#[tokio::test]
async fn waiting_for_a_blocked_name_uses_the_clock() {
    for (code, created) in [
        (ErrorCode::TABLE_BEING_DELETED, 0),
        (ErrorCode::QUEUE_BEING_DELETED, 1),
        (ErrorCode::CONTAINER_BEING_DELETED, 2),
    ] {
        let stub = MockServer::start().await;
        let blocked = ResponseTemplate::new(409).insert_header("x-ms-error-code", code.as_str());
        Mock::given(matchers::any()).respond_with(blocked).up_to_n_times(8).mount(&stub).await;
        let free = ResponseTemplate::new(201)
            .insert_header("etag", "\"0x1\"")
            .insert_header("last-modified", "Fri, 20 Nov 2026 12:00:00 GMT");
        Mock::given(matchers::any()).respond_with(free).mount(&stub).await;
        let clock = ManualClock::auto_advancing(WHEN.parse().unwrap());
        let account = account_at(&stub.uri()).clock(clock).build().unwrap();
        let create = async |seconds| {
            let longest = Duration::from_secs(seconds);
            match created {
                0 => account.table("things").create_if_missing_within(longest).await,
                1 => account.queue("things").create_if_missing_within(longest).await,
                _ => account.container("things").create_if_missing_within(longest).await,
            }
        };
        let began = account.clock().now();
        // 0 s, then 1, 2, 4 and 5 of 12.
        let error = create(0).await.unwrap_err();
        assert_eq!(error.code(), Some(&code));
        assert!(error.to_string().contains("create_if_missing_within"), "{error}");
        assert_eq!(create(12).await.unwrap_err().code(), Some(&code));
        assert_eq!((account.clock().now() - began).num_seconds(), 12);
        // Two more refusals, then the name is free.
        assert!(create(60).await.unwrap());
        assert_eq!((account.clock().now() - began).num_seconds(), 12 + 3);
    }
}
