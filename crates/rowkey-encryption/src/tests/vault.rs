//! Tests against the vault's documented responses, and against all other responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use rowkey_client::{AccessToken, ErrorKind, ManualClock, TokenError, TokenProvider};
use rowkey_store::Store;
use sha2::{Digest as _, Sha256};
use wiremock::matchers::{body_json, header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::key::{
    AesKeyWrap, DataKey, KeySigner as _, KeyVault, KeyVaultSigner, KeyWrapper, MacKey,
};
use crate::ring::KeyRing;

const PATH: &str = "/keys/sdktestkey/0698c2156c1a4e1da5b6bab6f6422fd6";

/// From the examples of both REST pages.
const PLAIN: &str = "ovQIlbB0DgWhZA7sgkPxbg9H-Ly-VlNGPSgGrrZvlIo";

/// A placeholder for the 256 bytes that RSA returns there.
const WRAPPED: &str = "khwIe26NuAZazS7upywDBpGRmRNMW5-4h_JQKxOdB78nYVxZWnBXwCxOv7a3Sr_m";

struct Tokens {
    asked: AtomicU32,
    now: DateTime<Utc>,
    scope: String,
}

#[async_trait]
impl TokenProvider for Tokens {
    async fn token(&self, scope: &str) -> Result<AccessToken, TokenError> {
        assert_eq!(scope, self.scope);
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(AccessToken::new(format!("secret-{asked}"), self.now + TimeDelta::hours(1)))
    }
}

/// Responds with a challenge, as a vault does to a request without a token.
fn challenge(resource: &str) -> Mock {
    let challenge =
        format!("Bearer authorization=\"https://login/tenant\", resource=\"{resource}\"");
    let answer = ResponseTemplate::new(401).insert_header("www-authenticate", challenge);
    let has_no_token = |request: &wiremock::Request| !request.headers.contains_key("authorization");
    Mock::given(has_no_token).respond_with(answer).with_priority(1)
}

async fn start() -> MockServer {
    let server = MockServer::start().await;
    challenge(&server.uri()).mount(&server).await;
    server
}

/// The requests that had a token.
async fn requests(server: &MockServer) -> Vec<String> {
    let all = server.received_requests().await.unwrap();
    let asked = all.iter().filter(|request| request.headers.contains_key("authorization"));
    asked.map(|one| one.url.path().rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

fn tokens(server: &MockServer) -> (Arc<Tokens>, ManualClock) {
    let now = DateTime::from_timestamp(1_795_000_000, 0).unwrap();
    let scope = format!("{}/.default", server.uri());
    (Arc::new(Tokens { asked: AtomicU32::new(0), now, scope }), ManualClock::auto_advancing(now))
}

fn vault(server: &MockServer) -> (KeyVault, Arc<Tokens>, ManualClock) {
    let (tokens, clock) = tokens(server);
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
async fn wrap_and_unwrap_match_the_documented_requests() {
    let server = start().await;
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
    assert_eq!(KeyWrapper::algorithm(&vault), "RSA-OAEP-256");
    let wrapped = vault.wrap_key(&key()).await.unwrap();
    assert_eq!(wrapped, URL_SAFE_NO_PAD.decode(WRAPPED).unwrap());
    let unwrapped = vault.unwrap_key("RSA-OAEP-256", &wrapped).await.unwrap();
    assert_eq!(unwrapped.as_bytes(), key().as_bytes());
    assert_eq!(tokens.asked.load(Ordering::Relaxed), 1, "one token serves both");
}

#[tokio::test]
async fn an_unsupported_algorithm_is_rejected_before_sending() {
    let server = start().await;
    Mock::given(body_json(serde_json::json!({ "alg": "RSA-OAEP", "value": WRAPPED })))
        .respond_with(answer(&server, PLAIN))
        .mount(&server)
        .await;
    let vault = vault(&server).0;
    let wrapped = URL_SAFE_NO_PAD.decode(WRAPPED).unwrap();
    for algorithm in ["RSA1_5", "RSA-OAEP", "", "rsa-oaep-256"] {
        let error = vault.unwrap_key(algorithm, &wrapped).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    }
    assert_eq!(requests(&server).await, [""; 0], "the vault is asked for none of them");
    let vault = vault.unwraps("RSA-OAEP");
    vault.unwrap_key("RSA-OAEP", &wrapped).await.unwrap();
    vault.unwrap_key("RSA1_5", &wrapped).await.unwrap_err();
}

#[tokio::test]
async fn a_vault_with_a_foreign_challenge_receives_no_token() {
    for resource in [
        "https://vault.azure.net",
        "https://management.azure.com",
        "nothing",
        "https://user@127.0.0.1",
        "https://storage.azure.com\\@127.0.0.1",
    ] {
        let server = MockServer::start().await;
        challenge(resource).mount(&server).await;
        let (vault, tokens, _) = vault(&server);
        let error = vault.wrap_key(&key()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
        assert_eq!(tokens.asked.load(Ordering::Relaxed), 0);
        assert_eq!(requests(&server).await, [""; 0]);
    }
}

#[tokio::test]
async fn a_vault_signs_and_verifies_the_digest_of_a_record() {
    let server = start().await;
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(b"record"));
    Mock::given(path(format!("{PATH}/sign")))
        .and(body_json(serde_json::json!({ "alg": "ES256", "value": digest })))
        .respond_with(answer(&server, WRAPPED))
        .mount(&server)
        .await;
    let right = serde_json::json!({ "alg": "ES256", "digest": digest, "value": WRAPPED });
    Mock::given(path(format!("{PATH}/verify")))
        .and(body_json(right))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(serde_json::json!({ "value": true })),
        )
        .mount(&server)
        .await;
    Mock::given(path(format!("{PATH}/verify")))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(serde_json::json!({ "value": false })),
        )
        .with_priority(9)
        .mount(&server)
        .await;
    let signer = || {
        let (tokens, clock) = tokens(&server);
        let key_id = format!("{}{PATH}", server.uri());
        KeyVaultSigner::new(&key_id, tokens).unwrap().clock(clock)
    };
    let signature = signer().sign(b"record").await.unwrap();
    assert!(signer().verify(b"record", &signature).await.unwrap());
    assert!(!signer().verify(b"recore", &signature).await.unwrap());
    assert!(!signer().verify(b"record", b"other").await.unwrap());
    let error = signer().algorithm("HS256").sign(b"record").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    server.reset().await;
    challenge(&server.uri()).mount(&server).await;
    Mock::given(method("POST")).respond_with(failure(400, "BadParameter")).mount(&server).await;
    assert!(!signer().verify(b"record", b"short").await.unwrap(), "no signature at all");
    assert!(!format!("{:?}", signer()).contains("secret"));
}

#[tokio::test]
async fn a_throttled_vault_is_retried_and_a_failing_one_is_an_error() {
    let server = start().await;
    let busy = failure(429, "Throttled").insert_header("retry-after", "3");
    Mock::given(method("POST")).respond_with(busy).up_to_n_times(1).mount(&server).await;
    let broken = failure(503, "ServiceUnavailable");
    Mock::given(method("POST")).respond_with(broken).up_to_n_times(1).mount(&server).await;
    Mock::given(method("POST")).respond_with(answer(&server, WRAPPED)).mount(&server).await;
    let (vault, _, clock) = vault(&server);
    vault.wrap_key(&key()).await.unwrap();
    assert_eq!(clock.slept(), [Duration::from_secs(3), Duration::from_secs(1)]);

    server.reset().await;
    challenge(&server.uri()).mount(&server).await;
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
async fn each_vault_error_has_its_kind_and_quotes_nothing() {
    for (status, code, kind) in [
        (400, "BadParameter", ErrorKind::Decode),
        (401, "Unauthorized", ErrorKind::Auth),
        (403, "Forbidden", ErrorKind::Auth),
        (404, "KeyNotFound", ErrorKind::NotFound),
        (418, "not a code", ErrorKind::Unexpected),
    ] {
        let server = start().await;
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
async fn a_response_for_another_key_or_without_a_key_is_rejected() {
    let server = start().await;
    let other = serde_json::json!({ "kid": "https://other/keys/a/b", "value": PLAIN });
    for (body, what) in [
        (other, "another key"),
        (serde_json::json!({}), "cannot be read"),
        (serde_json::json!({ "kid": format!("{}{PATH}", server.uri()), "value": "?" }), "be read"),
        (
            serde_json::json!({ "kid": format!("{}{PATH}", server.uri()), "value": "AAAA" }),
            "does not have 32 bytes",
        ),
    ] {
        server.reset().await;
        challenge(&server.uri()).mount(&server).await;
        let response = ResponseTemplate::new(200).set_body_json(body);
        Mock::given(method("POST")).respond_with(response).mount(&server).await;
        let error = vault(&server).0.unwrap_key("RSA-OAEP-256", b"w").await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[tokio::test]
async fn a_token_is_renewed_after_a_401_or_before_it_expires() {
    let server = start().await;
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
async fn key_urls_must_be_https_and_name_a_version() {
    let tokens =
        || Tokens { asked: AtomicU32::new(0), now: DateTime::UNIX_EPOCH, scope: String::new() };
    for key_id in [
        "sdktestkey",
        "https://contoso.vault.azure.net/keys/sdktestkey",
        "https://contoso.vault.azure.net/keys/sdktestkey/",
        "https://contoso.vault.azure.net/secrets/sdktestkey/0698",
        "https://contoso.vault.azure.net/keys/sdktestkey/0698?x=1",
        "https://user@contoso.vault.azure.net/keys/sdktestkey/0698",
        "http://contoso.vault.azure.net/keys/sdktestkey/0698",
        "https://contoso.vault.azure.net/keys/../0698",
        "https://contoso.vault.azure.net/keys/./0698",
        "https://contoso.vault.azure.net/keys/a%2Fb/0698",
        "https://contoso.vault.azure.net/keys/a\\b/0698",
        "https://contoso.vault.azure.net/keys/a b/0698",
        "https://contoso.vault.azure.net/keys/sdktestkey/0698;x",
        "https://contoso.vault.azure.net\\@evil.example/keys/sdktestkey/0698",
    ] {
        let error = KeyVault::new(key_id, tokens()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{key_id}");
    }
    let key_id = "http://127.0.0.1:1/keys/sdktestkey/0698";
    let vault = KeyVault::new(key_id, tokens()).unwrap();
    assert_eq!(vault.key_id(), key_id);
    assert!(!format!("{vault:?}").contains("secret"));
}

/// A mock vault with two keys. Unlike a real vault, it wraps by inverting every bit, which is sufficient for
/// a test. It signs with the digest itself.
async fn stub() -> MockServer {
    let server = start().await;
    let base = server.uri();
    let respond = move |request: &wiremock::Request| {
        let body: serde_json::Value = request.body_json().unwrap();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let (key, operation) = request.url.path().rsplit_once('/').unwrap();
        let value = match operation {
            "verify" => {
                let is_right = serde_json::json!({ "value": text("value") == text("digest") });
                return ResponseTemplate::new(200).set_body_json(is_right);
            }
            "sign" => text("value"),
            _ => {
                let value = URL_SAFE_NO_PAD.decode(text("value")).unwrap();
                URL_SAFE_NO_PAD.encode(value.into_iter().map(|byte| !byte).collect::<Vec<_>>())
            }
        };
        let answer = serde_json::json!({ "kid": format!("{base}{key}"), "value": value });
        ResponseTemplate::new(200).set_body_json(answer)
    };
    Mock::given(method("POST")).respond_with(respond).with_priority(5).mount(&server).await;
    server
}

fn stubbed(server: &MockServer, signer: &str) -> KeyRing {
    let (tokens, clock) = tokens(server);
    let signs = format!("{}/keys/{signer}/1", server.uri());
    let signs = KeyVaultSigner::new(&signs, tokens).unwrap().clock(clock);
    KeyRing::new("notes", vault(server).0, signs)
}

#[derive(Clone, Debug, PartialEq, rowkey_client::Entity)]
#[entity(crate = "rowkey_client")]
#[entity(store, partition = "notes", row = "note_{number:3}")]
struct Note {
    number: u32,
    #[entity(encrypt)]
    text: String,
}

fn note(number: u32) -> Note {
    Note { number, text: format!("hush {number}") }
}

async fn notes(name: &str) -> (rowkey_emulator::Server, rowkey_client::Table) {
    let server = rowkey_emulator::Server::start().await.unwrap();
    let account = rowkey_client::StorageAccount::from_connection_string(server.connection_string());
    let table = account.unwrap().table(name);
    table.create().await.unwrap();
    (server, table)
}

fn store(table: &rowkey_client::Table, ring: KeyRing) -> Store<Note> {
    Store::<Note>::builder(table.clone()).keys(ring).build().unwrap()
}

#[tokio::test]
async fn a_transaction_of_a_hundred_entities_is_two_requests_and_reading_it_none() {
    let server = stub().await;
    let (_tables, table) = notes("notes").await;
    let all: Vec<_> = (0..100).map(note).collect();
    let writer = store(&table, stubbed(&server, "records"));
    let transaction = all.iter().fold(writer.transaction(), rowkey_store::Transaction::insert);
    transaction.submit().await.unwrap();
    assert_eq!(requests(&server).await, ["wrapkey", "sign"]);
    for _ in 0..2 {
        let read = writer.query(Note::partition()).all().await.unwrap();
        assert_eq!(read.into_iter().map(|one| one.entity).collect::<Vec<_>>(), all);
    }
    assert_eq!(requests(&server).await.len(), 2, "reading it again asks nothing");

    // Another program: one request verifies and one unwraps, although 16 rows are decrypted concurrently.
    let reader = store(&table, stubbed(&server, "records"));
    for _ in 0..2 {
        assert_eq!(reader.query(Note::partition()).all().await.unwrap().len(), 100);
    }
    reader.upsert(&note(100)).await.unwrap();
    assert_eq!(requests(&server).await[2..], ["verify", "unwrapkey"]);
}

#[tokio::test]
async fn rotation_from_a_key_in_memory_to_a_vault_is_one_wrap_and_one_signature() {
    let server = stub().await;
    let (_tables, table) = notes("notes").await;
    let local = || AesKeyWrap::new("local", [1; 32]);
    let signer = || MacKey::new("records", [2; 32]);
    let before = store(&table, KeyRing::new("notes", local(), signer()));
    let all: Vec<_> = (0..90).map(note).collect();
    let transaction = all.iter().fold(before.transaction(), rowkey_store::Transaction::insert);
    transaction.submit().await.unwrap();
    let ring = stubbed(&server, "records").with(local()).with_signer(signer());
    let report = store(&table, ring).reencrypt().run().await.unwrap();
    assert_eq!((report.total.repaired, report.is_clean()), (90, true));
    assert_eq!(requests(&server).await, ["wrapkey", "sign"]);
    let after = store(&table, stubbed(&server, "records"));
    assert_eq!(after.query(Note::partition()).all().await.unwrap().len(), 90);
}

/// Rows and records that an attacker with the table and the public wrapping key can create.
#[tokio::test]
async fn a_record_forged_with_the_public_wrapping_key_is_rejected_without_unwrapping() {
    let server = stub().await;
    let (_tables, table) = notes("notes").await;
    // Wrapped with the right key, signed with a key of the attacker that has the name of the pinned one.
    let (forged, branch) = {
        let attacker = KeyRing::new("notes", vault(&server).0, MacKey::new("mine", [6; 32]));
        let op = rowkey_store::Op::new(DateTime::UNIX_EPOCH, [1; 8]);
        let (mut record, branch) = attacker.new_record(&op).await.unwrap();
        record.signer = format!("{}/keys/records/1", server.uri());
        record.signature_algorithm = "ES256".into();
        (record, branch)
    };
    table.insert(&forged.row()).await.unwrap();
    let mut row = rowkey_client::DynamicEntity::new("notes", "note_001");
    row.set("number", 1_i64);
    row.set("text", "forged");
    let ring = stubbed(&server, "records");
    ring.seal_with(
        &branch,
        &rowkey_store::Op::new(DateTime::UNIX_EPOCH, [2; 8]),
        &["text"],
        &crate::cipher::Before::default(),
        &mut row,
    )
    .unwrap();
    table.insert(&row).await.unwrap();
    let before = requests(&server).await.len();
    let reader = store(&table, ring);
    let error = reader.get(Note::key(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    // And nothing is written under it.
    assert_eq!(reader.insert(&note(2)).await.unwrap_err().kind(), ErrorKind::Decode);
    let asked = requests(&server).await;
    assert!(asked[before..].iter().all(|operation| operation == "verify"), "{asked:?}");
}
