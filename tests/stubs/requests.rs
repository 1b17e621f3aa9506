//! The exact bytes of the request of every operation.

use futures_util::StreamExt as _;
use rowkey::{DynamicEntity, ETag, ErrorKind, Key, Match, Partition, answers};
use wiremock::{Mock, MockServer, matchers};

use crate::{Thing, stub, thing};

const TAG: &str = "W/\"datetime'2026-01-02T03%3A04%3A05.6789Z'\"";
const ADDRESS: &str = "/things(PartitionKey='O''Neil%20%26%20co',RowKey='0007')";
const BODY: &str = "{\"PartitionKey\":\"O'Neil & co\",\"RowKey\":\"0007\",\"name\":\"a \\\"b\\\"\",\
                    \"count@odata.type\":\"Edm.Int64\",\"count\":\"5\",\"weight\":2.0}";

/// Answers every request with `answer`.
async fn answer(stub: &MockServer, answer: answers::Answer) {
    Mock::given(matchers::any()).respond_with(answer).mount(stub).await;
}

/// The only received request: its request line, the given headers, and its body.
pub(crate) async fn received(stub: &MockServer, headers: &[&str]) -> String {
    let requests = stub.received_requests().await.unwrap();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    let url = &request.url;
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut text = format!("{} {}{query}\n", request.method, url.path());
    for name in headers {
        let value = request.headers.get(*name).map_or("(absent)", |v| v.to_str().unwrap());
        text.extend([name, ": ", value, "\n"]);
    }
    text + std::str::from_utf8(&request.body).unwrap()
}

#[tokio::test]
async fn insert_requests_no_content_in_the_response() {
    let (stub, table) = stub().await;
    answer(&stub, answers::written()).await;
    assert_eq!(table.insert(&thing()).await.unwrap(), ETag::new(TAG));
    assert_eq!(
        received(&stub, &["content-type", "accept", "prefer", "if-match", "dataserviceversion"])
            .await,
        format!(
            "POST /things\ncontent-type: application/json\n\
             accept: application/json;odata=minimalmetadata\nprefer: return-no-content\n\
             if-match: (absent)\ndataserviceversion: 3.0\n{BODY}"
        )
    );
}

#[tokio::test]
async fn every_request_has_date_version_id_and_signature() {
    let (stub, table) = stub().await;
    answer(&stub, answers::written()).await;
    table.insert(&thing()).await.unwrap();
    let requests = stub.received_requests().await.unwrap();
    let header = |name: &str| requests[0].headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("x-ms-date"), "Fri, 20 Nov 2026 12:00:00 GMT");
    assert_eq!(header("x-ms-version"), "2019-02-02");
    assert_eq!(header("x-ms-client-request-id").len(), 36);
    // Computed with openssl: HMAC-SHA256 under "key" of
    // "POST\n\napplication/json\nFri, 20 Nov 2026 12:00:00 GMT\n/acct/things".
    assert_eq!(header("authorization"), SIGNATURE);
}

const SIGNATURE: &str = "SharedKey acct:mRRdsr6HsRmhDmx7xOy6jIsAu5HGjWKX6cIUTC73XsQ=";

#[tokio::test]
async fn a_get_encodes_keys_in_the_path() {
    let (stub, table) = stub().await;
    answer(&stub, answers::entity(&thing()).unwrap()).await;
    let stored = table.get(Thing::key("O'Neil & co", 7)).await.unwrap().unwrap();
    assert_eq!((stored.entity, stored.etag.as_str()), (thing(), TAG));
    assert_eq!(
        received(&stub, &["accept"]).await,
        format!("GET {ADDRESS}\naccept: application/json;odata=minimalmetadata\n")
    );
}

#[tokio::test]
async fn a_replace_is_a_put_with_if_match() {
    let (stub, table) = stub().await;
    answer(&stub, answers::written()).await;
    table.replace((&thing(), &ETag::new(TAG))).await.unwrap();
    assert_eq!(
        received(&stub, &["if-match", "prefer"]).await,
        format!("PUT {ADDRESS}\nif-match: {TAG}\nprefer: (absent)\n{BODY}")
    );
}

#[tokio::test]
async fn an_upsert_is_a_put_without_a_condition() {
    let (stub, table) = stub().await;
    answer(&stub, answers::written()).await;
    table.upsert(&thing()).await.unwrap();
    let request = received(&stub, &["if-match"]).await;
    assert_eq!(request, format!("PUT {ADDRESS}\nif-match: (absent)\n{BODY}"));
}

#[tokio::test]
async fn a_merge_is_a_patch_request() {
    let (stub, table) = stub().await;
    answer(&stub, answers::written()).await;
    table.merge((&thing(), Match::Any)).await.unwrap();
    let request = received(&stub, &["if-match", "x-http-method"]).await;
    assert_eq!(request, format!("PATCH {ADDRESS}\nif-match: *\nx-http-method: (absent)\n{BODY}"));
}

#[tokio::test]
async fn a_merge_is_a_tunnelled_post_for_cosmos() {
    let stub = MockServer::start().await;
    answer(&stub, answers::written()).await;
    let account = rowkey::StorageAccount::builder()
        .endpoint(rowkey::service::Service::Table, &stub.uri())
        .unwrap()
        .cosmos()
        .credential(rowkey::Credential::anonymous())
        .build()
        .unwrap();
    account.table("things").upsert_merge(&thing()).await.unwrap();
    let request = received(&stub, &["if-match", "x-http-method"]).await;
    assert_eq!(
        request,
        format!("POST {ADDRESS}\nif-match: (absent)\nx-http-method: MERGE\n{BODY}")
    );
}

#[tokio::test]
async fn a_delete_sends_its_condition() {
    let (stub, table) = stub().await;
    answer(&stub, answers::deleted()).await;
    table.delete(Thing::key("O'Neil & co", 7), Match::Any).await.unwrap();
    assert_eq!(received(&stub, &["if-match"]).await, format!("DELETE {ADDRESS}\nif-match: *\n"));
}

#[tokio::test]
async fn query_literals_are_quoted_and_encoded_once() {
    let (stub, table) = stub().await;
    answer(&stub, answers::entities([&thing()]).unwrap()).await;
    let query = table
        .query(Thing::partition("O'Neil & co").range(Thing::key("O'Neil & co", 5)..))
        .filter(Thing::NAME.is("100% 'x'").and(Thing::COUNT.exact().lt(9)))
        .page_size(50);
    let explained = query.explain().unwrap();
    assert_eq!(query.all().await.unwrap()[0].entity, thing());
    let target = "/things()?$filter=PartitionKey%20eq%20%27O%27%27Neil%20%26%20co%27%20and%20RowKey\
                  %20ge%20%270005%27%20and%20name%20eq%20%27100%25%20%27%27x%27%27%27%20and%20count\
                  %20lt%209L&$top=50";
    assert_eq!(received(&stub, &[]).await, format!("GET {target}\n"));
    assert_eq!(explained.requests[0].url, format!("{}{target}", stub.uri()));
    let version = ("x-ms-version".to_owned(), "2019-02-02".to_owned());
    assert!(explained.requests[0].headers.contains(&version));
    let shown = explained.to_string();
    assert!(!shown.contains("a2V5") && !shown.to_lowercase().contains("authorization"), "{shown}");
}

#[tokio::test]
async fn an_explained_continuation_matches_the_request() {
    let (stub, table) = stub().await;
    answer(&stub, answers::page([&thing()], ("pk", Some("rk"))).unwrap()).await;
    let query = || table.query(Thing::partition("p")).take(5);
    let page = query().pages().next().await.unwrap().unwrap();
    let resumed = || query().resume(page.continuation.clone().unwrap());
    let explained = resumed().explain().unwrap();
    stub.reset().await;
    answer(&stub, answers::page([&thing()], ("pk", Some("rk"))).unwrap()).await;
    let _ = resumed().pages().next().await.unwrap().unwrap();
    let target = "/things()?$filter=PartitionKey%20eq%20%27p%27&$top=5&\
                  NextPartitionKey=1%214%21cGs-&NextRowKey=1%214%21cms-";
    assert_eq!(received(&stub, &[]).await, format!("GET {target}\n"));
    assert_eq!(explained.requests[0].url, format!("{}{target}", stub.uri()));
    let other = table.query(Thing::partition("q")).resume(page.continuation.clone().unwrap());
    assert_eq!(other.explain().unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn an_empty_page_with_a_partition_only_token_is_followed() {
    let (stub, table) = stub().await;
    let nothing: [&Thing; 0] = [];
    let token = || matchers::query_param("NextPartitionKey", "1!4!cGsy");
    let without_row = matchers::query_param_is_missing("NextRowKey");
    Mock::given(token())
        .and(without_row)
        .respond_with(answers::page(nothing, ("pk2", Some("r"))).unwrap())
        .expect(1)
        .mount(&stub)
        .await;
    Mock::given(token())
        .and(matchers::query_param("NextRowKey", "1!4!cg--"))
        .respond_with(answers::entities([&thing()]).unwrap())
        .expect(1)
        .mount(&stub)
        .await;
    Mock::given(matchers::any())
        .respond_with(answers::page(nothing, ("pk2", None)).unwrap())
        .expect(1)
        .mount(&stub)
        .await;
    let found = table.query(Partition::<DynamicEntity>::new("pk")).all().await.unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn a_transaction_is_one_changeset_with_absolute_urls() {
    let (stub, table) = stub().await;
    answer(&stub, answers::committed([answers::written(), answers::deleted()])).await;
    let key: Key<DynamicEntity> = Key::new("O'Neil & co", "x");
    let etags =
        table.transaction().insert(&thing()).delete(key, Match::Any).submit().await.unwrap();
    assert_eq!(etags.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    let request = received(&stub, &["content-type", "accept"]).await;
    let id = request.split("boundary=batch_").nth(1).unwrap()[..36].to_owned();
    let uri = stub.uri();
    let parts = format!(
        "--batch_ID\r\nContent-Type: multipart/mixed; boundary=changeset_ID\r\n\r\n\
         --changeset_ID\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
         Content-ID: 0\r\n\r\nPOST {uri}/things HTTP/1.1\r\n\
         Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n\
         Content-Type: application/json\r\nPrefer: return-no-content\r\n\
         Content-Length: {length}\r\n\r\n{BODY}\r\n\
         --changeset_ID\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
         Content-ID: 1\r\n\r\nDELETE {uri}/things(PartitionKey='O''Neil%20%26%20co',RowKey='x') \
         HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n\
         If-Match: *\r\n\r\n\r\n--changeset_ID--\r\n\r\n--batch_ID--\r\n",
        length = BODY.len(),
    );
    let expected = format!(
        "POST /$batch\ncontent-type: multipart/mixed; boundary=batch_ID\n\
         accept: application/json;odata=minimalmetadata\n{parts}"
    );
    assert_eq!(
        request,
        expected.replace("ID\r", &format!("{id}\r")).replace("_ID", &format!("_{id}"))
    );
}
