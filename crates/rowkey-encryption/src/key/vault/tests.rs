//! The vault's side as its documentation gives it, and what becomes of everything else.

use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::{ManualClock, TokenError};
use wiremock::matchers::{body_json, header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;

const PATH: &str = "/keys/sdktestkey/0698c2156c1a4e1da5b6bab6f6422fd6";

/// Of the examples of both REST pages.
const PLAIN: &str = "ovQIlbB0DgWhZA7sgkPxbg9H-Ly-VlNGPSgGrrZvlIo";

/// Stands for the 256 bytes that RSA gives there.
const WRAPPED: &str = "khwIe26NuAZazS7upywDBpGRmRNMW5-4h_JQKxOdB78nYVxZWnBXwCxOv7a3Sr_m";

struct Tokens {
    asked: AtomicU32,
    now: DateTime<Utc>,
}

#[async_trait]
impl TokenProvider for Tokens {
    async fn token(&self, scope: &str) -> std::result::Result<AccessToken, TokenError> {
        assert_eq!(scope, "https://vault.azure.net/.default");
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(AccessToken::new(format!("secret-{asked}"), self.now + TimeDelta::hours(1)))
    }
}

fn vault(server: &MockServer) -> (KeyVault, Arc<Tokens>, ManualClock) {
    let now = DateTime::from_timestamp(1_795_000_000, 0).unwrap();
    let clock = ManualClock::auto_advancing(now);
    let tokens = Arc::new(Tokens { asked: AtomicU32::new(0), now });
    let key_id = format!("{}{PATH}", server.uri());
    let vault = KeyVault::new(&key_id, Arc::clone(&tokens)).unwrap().clock(clock.clone());
    (vault, tokens, clock)
}

fn answer(server: &MockServer, value: &str) -> ResponseTemplate {
    let kid = format!("{}{PATH}", server.uri());
    ResponseTemplate::new(200).set_body_json(serde_json::json!({ "kid": kid, "value": value }))
}

fn failure(status: u16, code: &str) -> ResponseTemplate {
    let error = serde_json::json!({ "code": code, "message": "quotes something secret" });
    ResponseTemplate::new(status).set_body_json(serde_json::json!({ "error": error }))
}

fn key() -> DataKey {
    DataKey::new(&URL_SAFE_NO_PAD.decode(PLAIN).unwrap()).unwrap()
}

#[tokio::test]
async fn keys_are_wrapped_and_unwrapped_as_the_documentation_shows() {
    let server = MockServer::start().await;
    for (operation, sent, received) in [("wrapkey", PLAIN, WRAPPED), ("unwrapkey", WRAPPED, PLAIN)]
    {
        Mock::given(method("POST"))
            .and(path(format!("{PATH}/{operation}")))
            .and(query_param("api-version", "7.4"))
            .and(header("authorization", "Bearer secret-0"))
            .and(header("content-type", "application/json"))
            .and(body_json(serde_json::json!({ "alg": "RSA-OAEP-256", "value": sent })))
            .respond_with(answer(&server, received))
            .expect(1)
            .mount(&server)
            .await;
    }
    let (vault, tokens, _) = vault(&server);
    assert_eq!(vault.algorithm, "RSA-OAEP-256".into());
    let wrapped = vault.wrap_key(&key()).await.unwrap();
    assert_eq!(wrapped, URL_SAFE_NO_PAD.decode(WRAPPED).unwrap());
    let unwrapped = vault.unwrap_key("RSA-OAEP-256", &wrapped).await.unwrap();
    assert_eq!(unwrapped.as_bytes(), key().as_bytes());
    assert_eq!(tokens.asked.load(Ordering::Relaxed), 1, "one token serves both");
}

#[tokio::test]
async fn the_algorithm_is_the_stored_one() {
    let server = MockServer::start().await;
    Mock::given(body_json(serde_json::json!({ "alg": "RSA-OAEP", "value": WRAPPED })))
        .respond_with(answer(&server, PLAIN))
        .mount(&server)
        .await;
    let (vault, ..) = vault(&server);
    let wrapped = URL_SAFE_NO_PAD.decode(WRAPPED).unwrap();
    vault.unwrap_key("RSA-OAEP", &wrapped).await.unwrap();
    vault.algorithm("RSA-OAEP").wrap_key(&key()).await.unwrap_err();
}

#[tokio::test]
async fn a_busy_vault_is_waited_for_and_a_failing_one_given_up() {
    let server = MockServer::start().await;
    let busy = failure(429, "Throttled").insert_header("retry-after", "3");
    Mock::given(method("POST")).respond_with(busy).up_to_n_times(1).mount(&server).await;
    let broken = failure(503, "ServiceUnavailable");
    Mock::given(method("POST")).respond_with(broken).up_to_n_times(1).mount(&server).await;
    Mock::given(method("POST")).respond_with(answer(&server, WRAPPED)).mount(&server).await;
    let (vault, _, clock) = vault(&server);
    vault.wrap_key(&key()).await.unwrap();
    assert_eq!(clock.slept(), [Duration::from_secs(3), Duration::from_secs(1)]);

    server.reset().await;
    Mock::given(method("POST"))
        .respond_with(failure(500, "InternalError"))
        .expect(4)
        .mount(&server)
        .await;
    let error = vault.wrap_key(&key()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("(500 InternalError)"), "{error}");
}

#[tokio::test]
async fn each_refusal_is_a_kind_of_its_own_and_quotes_nothing() {
    for (status, code, kind) in [
        (400, "BadParameter", ErrorKind::Decode),
        (401, "Unauthorized", ErrorKind::Auth),
        (403, "Forbidden", ErrorKind::Auth),
        (404, "KeyNotFound", ErrorKind::NotFound),
        (418, "not a code", ErrorKind::Unexpected),
    ] {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .respond_with(failure(status, code))
            .expect(1)
            .mount(&server)
            .await;
        let error = vault(&server).0.unwrap_key("RSA-OAEP-256", b"wrapped").await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("secret") && !text.contains("not a code"), "{text}");
    }
}

#[tokio::test]
async fn an_answer_of_another_key_or_none_at_all_is_refused() {
    let server = MockServer::start().await;
    let other = serde_json::json!({ "kid": "https://other/keys/a/b", "value": PLAIN });
    for (body, what) in [
        (other, "another key"),
        (serde_json::json!({}), "cannot be read"),
        (serde_json::json!({ "kid": format!("{}{PATH}", server.uri()), "value": "?" }), "be read"),
        (serde_json::json!({ "kid": format!("{}{PATH}", server.uri()), "value": "AAAA" }), "3"),
    ] {
        server.reset().await;
        let response = ResponseTemplate::new(200).set_body_json(body);
        Mock::given(method("POST")).respond_with(response).mount(&server).await;
        let error = vault(&server).0.unwrap_key("RSA-OAEP-256", b"w").await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[tokio::test]
async fn a_token_is_renewed_when_it_was_refused_or_will_soon_expire() {
    let server = MockServer::start().await;
    Mock::given(header("authorization", "Bearer secret-0"))
        .respond_with(failure(401, "Unauthorized"))
        .mount(&server)
        .await;
    Mock::given(method("POST")).respond_with(answer(&server, WRAPPED)).mount(&server).await;
    let (vault, tokens, clock) = vault(&server);
    assert_eq!(vault.wrap_key(&key()).await.unwrap_err().kind(), ErrorKind::Auth);
    vault.wrap_key(&key()).await.unwrap();
    clock.advance(Duration::from_secs(54 * 60));
    vault.wrap_key(&key()).await.unwrap();
    assert_eq!(tokens.asked.load(Ordering::Relaxed), 2);
    clock.advance(Duration::from_secs(2 * 60));
    vault.wrap_key(&key()).await.unwrap();
    assert_eq!(tokens.asked.load(Ordering::Relaxed), 3, "five minutes before it expires");
}

#[tokio::test]
async fn only_versions_of_keys_over_safe_connections_are_taken() {
    let tokens = || Tokens { asked: AtomicU32::new(0), now: DateTime::UNIX_EPOCH };
    for key_id in [
        "sdktestkey",
        "https://contoso.vault.azure.net/keys/sdktestkey",
        "https://contoso.vault.azure.net/keys/sdktestkey/",
        "https://contoso.vault.azure.net/secrets/sdktestkey/0698",
        "https://contoso.vault.azure.net/keys/sdktestkey/0698?x=1",
        "https://user@contoso.vault.azure.net/keys/sdktestkey/0698",
        "http://contoso.vault.azure.net/keys/sdktestkey/0698",
    ] {
        let error = KeyVault::new(key_id, tokens()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{key_id}");
    }
    let key_id = "http://127.0.0.1:1/keys/sdktestkey/0698";
    let vault = KeyVault::new(key_id, tokens()).unwrap();
    assert_eq!(vault.key_id(), key_id);
    assert!(!format!("{vault:?}").contains("secret"));
}

/// Wraps as no vault does, and as well as any for a test: every bit the other way round.
fn flipped(server: &MockServer) -> impl wiremock::Respond + use<> {
    let kid = format!("{}{PATH}", server.uri());
    move |request: &wiremock::Request| {
        let body: serde_json::Value = request.body_json().unwrap();
        let value = URL_SAFE_NO_PAD.decode(body["value"].as_str().unwrap()).unwrap();
        let value: Vec<u8> = value.into_iter().map(|byte| !byte).collect();
        let value = URL_SAFE_NO_PAD.encode(value);
        ResponseTemplate::new(200).set_body_json(serde_json::json!({ "kid": kid, "value": value }))
    }
}

#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(store, partition = "notes", row = "note_{number:3}")]
struct Note {
    number: u32,
    #[entity(encrypt)]
    text: String,
}

fn note(number: u32) -> Note {
    Note { number, text: format!("hush {number}") }
}

#[tokio::test]
async fn a_transaction_of_ninety_entities_is_one_wrap_and_reading_it_one_unwrap() {
    use rowkey::{DynamicEntity, Key, StorageAccount};
    use rowkey_store::Store;

    use crate::{AesKeyWrap, KeyRing};

    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(flipped(&server)).mount(&server).await;
    let tables = rowkey_server::Server::start().await.unwrap();
    let account = StorageAccount::from_connection_string(tables.connection_string()).unwrap();
    let table = account.table("notes");
    let notes = |ring: KeyRing| Store::<Note>::builder(table.clone()).keys(ring).build().unwrap();
    let local = || AesKeyWrap::new("local", [1; 32]);
    let ring = || KeyRing::new(vault(&server).0).with(local());
    let requests = async || server.received_requests().await.unwrap().len();

    let before = notes(KeyRing::new(local()));
    before.create_if_missing().await.unwrap();
    let all: Vec<_> = (0..90).map(note).collect();
    let transaction = all.iter().fold(before.transaction(), rowkey_store::Transaction::insert);
    transaction.submit().await.unwrap();

    let report = notes(ring()).reencrypt().run().await.unwrap();
    assert_eq!((report.total.repaired, report.is_clean()), (90, true));
    assert_eq!(requests().await, 1, "one wraps");
    let row = Key::<DynamicEntity>::new("notes", "note_000");
    let stored = table.get(row).await.unwrap().unwrap().entity;
    let begin = format!("1 {} RSA-OAEP-256 ", vault(&server).0.key_id());
    let Some(rowkey::edm::Value::String(metadata)) = stored.get("_RowkeyEncryption") else {
        panic!("there is metadata")
    };
    assert!(metadata.starts_with(&begin), "{metadata}");

    let after = notes(ring());
    for _ in 0..2 {
        let read = after.query(Note::partition()).all().await.unwrap();
        assert_eq!(read.into_iter().map(|one| one.entity).collect::<Vec<_>>(), all);
    }
    assert_eq!(requests().await, 2, "one unwraps, although 16 rows are opened at a time");
}
