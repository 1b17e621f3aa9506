//! Authorization by tokens of a directory, and by the signatures that are made with a user delegation key.
//!
//! On our server alone: others need a directory.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rowkey::queue::Body;
use rowkey::sas::{BlobPermissions, QueuePermissions, Sas, SasToken, TablePermissions};
use rowkey::service::Service;
use rowkey::{
    AccessToken, Credential, ErrorCode, ErrorKind, ManualClock, StorageAccount,
    StorageAccountBuilder, TokenError, TokenProvider, async_trait,
};
use rowkey_emulator::{DEVELOPMENT_ACCOUNT, Server, ServerBuilder};
use rowkey_tests::{TestResult, trusting};

use crate::access::{HOUR, START, code};
use crate::model::{Employee, employee};

/// Makes tokens that live for an hour, as a directory would, but for the signature.
struct Directory {
    clock: ManualClock,
    audience: &'static str,
    asked: AtomicUsize,
}

#[async_trait]
impl TokenProvider for Directory {
    async fn token(&self, _: &str) -> Result<AccessToken, TokenError> {
        use rowkey::Clock as _;
        self.asked.fetch_add(1, Ordering::SeqCst);
        let now = self.clock.now();
        let (from, to) = (now.timestamp(), now.timestamp() + 3600);
        let claims = format!(
            r#"{{"aud":"{}","iss":"https://sts.windows.net/0/","nbf":{from},"exp":{to}}}"#,
            self.audience
        );
        let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let token = format!("{}.{}.x", part(r#"{"alg":"RS256","typ":"JWT"}"#), part(&claims));
        Ok(AccessToken::new(token, now + HOUR))
    }
}

/// An account there that has tokens of this audience.
async fn with_tokens(
    server: ServerBuilder,
    audience: &'static str,
    change: impl FnOnce(StorageAccountBuilder, &Server) -> StorageAccountBuilder,
) -> TestResult<(Server, std::sync::Arc<Directory>, StorageAccount)> {
    let server = server.manual_clock().start().await?;
    let clock = ManualClock::auto_advancing(START.parse()?);
    let directory = Directory { clock: clock.clone(), audience, asked: AtomicUsize::new(0) };
    let directory = std::sync::Arc::new(directory);
    let builder = StorageAccount::builder()
        .name(DEVELOPMENT_ACCOUNT)
        .credential(Credential::token(directory.clone()))
        .endpoint(Service::Table, server.table_endpoint())?
        .clock(clock);
    let account = change(builder, &server).build()?;
    Ok((server, directory, account))
}

const STORAGE: &str = "https://storage.azure.com";

#[tokio::test]
async fn a_token_authorizes_table_operations() -> TestResult {
    let builder = Server::builder().oauth();
    let (server, directory, account) = with_tokens(builder, STORAGE, |b, _| b).await?;
    let staff = account.table("staff");
    staff.create().await?;
    staff.insert(&employee(1)).await?;
    staff.transaction().insert(&employee(2)).submit().await?;
    assert_eq!(staff.scan::<Employee>().all().await?.len(), 2);
    // Policies are for those who have the account key.
    let error = staff.access_policies().await.unwrap_err();
    assert_eq!(error.details().status, Some(404));
    assert_eq!(error.code(), Some(&ErrorCode::RESOURCE_NOT_FOUND));

    // The token is renewed in time; no request is refused.
    for _ in 0..4 {
        server.clock().advance(HOUR / 2);
        directory.clock.advance(HOUR / 2);
        assert!(staff.get(Employee::key("sales", 1)).await?.is_some());
    }
    assert_eq!(directory.asked.load(Ordering::SeqCst), 3);

    // By the server's clock alone it has expired, which another token does not mend.
    server.clock().advance(2 * HOUR);
    let error = staff.get(Employee::key("sales", 1)).await.unwrap_err();
    assert_eq!((error.details().status, error.details().attempts), (Some(401), 2));
    Ok(())
}

#[tokio::test]
async fn a_token_for_another_audience_is_rejected() -> TestResult {
    for (audience, allowed) in [
        ("https://storage.azure.com/", true),
        ("e406a681-f3d4-42a8-90b6-c2b029497af1", true),
        ("https://devstoreaccount1.table.core.windows.net", true),
        ("https://devstoreaccount1.table.core.chinacloudapi.cn/", true),
        ("https://devstoreaccount1.blob.core.windows.net", false),
        ("https://other.table.core.windows.net", false),
        ("https://management.azure.com/", false),
    ] {
        let builder = Server::builder().oauth();
        let (_server, _, account) = with_tokens(builder, audience, |b, _| b).await?;
        let result = account.table("staff").create().await;
        if allowed {
            result?;
        } else {
            assert_eq!(code(result), ErrorCode::INVALID_AUTHENTICATION_INFO, "{audience}");
        }
    }
    let (_server, _, account) = with_tokens(Server::builder(), STORAGE, |b, _| b).await?;
    assert_eq!(
        code(account.table("staff").create().await),
        ErrorCode::AUTHENTICATION_FAILED,
        "that server was not told to take tokens"
    );
    Ok(())
}

#[tokio::test]
async fn every_credential_works_over_https() -> TestResult {
    let builder = Server::builder().https().oauth();
    let trust =
        |builder: StorageAccountBuilder, server: &Server| builder.connections(trusting(server));
    let (server, directory, account) = with_tokens(builder, STORAGE, trust).await?;
    assert!(server.table_endpoint().starts_with("https://127.0.0.1:"));
    let staff = account.table("staff");
    staff.create().await?;

    let by_key = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .connections(trusting(&server))
        .clock(directory.clock.clone())
        .build()?;
    by_key.table("staff").insert(&employee(1)).await?;

    let sas = Sas::table("staff").permissions(TablePermissions::QUERY).valid_for(HOUR);
    let token = sas.sign(&by_key)?;
    assert!(token.query().contains("&spr=https&"), "not asked for otherwise");
    let by_token = StorageAccount::builder()
        .connection_string(&token.connection_string())?
        .connections(trusting(&server))
        .build()?;
    assert!(by_token.table("staff").get(Employee::key("sales", 1)).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_token_authorizes_each_deletion_of_a_batch() -> TestResult {
    let builder = Server::builder().oauth().https();
    let (_server, _, account) = with_tokens(builder, STORAGE, |builder, server| {
        let builder = builder.endpoint(Service::Blob, server.blob_endpoint()).unwrap();
        builder.connections(trusting(server))
    })
    .await?;
    let photos = account.container("photos");
    photos.create().await?;
    let blob = photos.blob("a");
    blob.put("x").send().await?;
    let results = photos.delete_blobs(&[blob, photos.blob("b")]).await?;
    assert!(matches!(results[..], [Ok(true), Ok(false)]), "{results:?}");
    Ok(())
}

#[tokio::test]
async fn a_user_delegation_sas_grants_only_its_permissions() -> TestResult {
    let builder = Server::builder().oauth();
    let (server, _, account) =
        with_tokens(builder, STORAGE, |b, s| b.endpoint(Service::Blob, s.blob_endpoint()).unwrap())
            .await?;
    let container = account.container("photos");
    container.create().await?;
    container.blob("a b/7.jpg").put("x").send().await?;
    let now = || server.clock().now().to_chrono();
    let key = account.user_delegation_key(Service::Blob, now() + 2 * HOUR).await?;
    assert!(!format!("{key:?}").contains("value"));

    let sas = Sas::blob("photos", "a b/7.jpg").permissions(BlobPermissions::READ);
    let token = sas.clone().valid_for(HOUR).sign_with(&account, &key)?;
    let clock = ManualClock::auto_advancing(START.parse()?);
    let opened = StorageAccount::builder()
        .connection_string(&token.connection_string())?
        .clock(clock)
        .build()?;
    let photo = opened.container("photos").blob("a b/7.jpg");
    assert!(photo.get().await?.is_some());
    let refused = ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH;
    assert_eq!(code(photo.put("y").send().await), refused);
    let other = opened.container("photos").blob("other").get().await;
    assert_eq!(code(other), ErrorCode::AUTHENTICATION_FAILED);
    // For the whole container, and longer than the key is good.
    let all = Sas::container("photos").permissions(BlobPermissions::ALL);
    let all = all.valid_for(9 * HOUR).sign_with(&account, &key)?;
    let all = StorageAccount::from_connection_string(&all.connection_string())?;
    assert_eq!(all.container("photos").blobs().all().await?.len(), 1);
    let policy = sas.policy("readers").sign_with(&account, &key).unwrap_err();
    assert_eq!(policy.kind(), ErrorKind::Invalid);
    // Longer than 7 days, or without a token.
    let long = account.user_delegation_key(Service::Blob, now() + 200 * HOUR).await;
    assert_eq!(long.unwrap_err().details().status, Some(400));
    let keyed = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::auto_advancing(now()))
        .build()?;
    let without = keyed.user_delegation_key(Service::Blob, now() + HOUR).await;
    assert_eq!(code(without), ErrorCode::AUTHENTICATION_FAILED);

    server.clock().advance(3 * HOUR);
    let late = all.container("photos").blobs().all().await;
    assert_eq!(code(late), ErrorCode::AUTHENTICATION_FAILED);
    Ok(())
}

#[tokio::test]
async fn a_user_delegation_sas_for_a_table_and_a_queue_grants_only_its_permissions() -> TestResult {
    let (server, _, account) = with_tokens(Server::builder().oauth(), STORAGE, |b, s| {
        let queue = b.endpoint(Service::Queue, s.queue_endpoint()).unwrap();
        queue.endpoint(Service::Blob, s.blob_endpoint()).unwrap()
    })
    .await?;
    let (staff, jobs) = (account.table("staff"), account.queue("jobs"));
    staff.create().await?;
    jobs.create().await?;
    staff.insert(&employee(1)).await?;
    let now = || server.clock().now().to_chrono();
    let until = now() + 2 * HOUR;
    let of_tables = account.user_delegation_key(Service::Table, until).await?;
    let of_queues = account.user_delegation_key(Service::Queue, until).await?;
    let open = |token: &SasToken| {
        StorageAccount::builder()
            .connection_string(&token.connection_string())?
            .clock(ManualClock::auto_advancing(START.parse().unwrap()))
            .build()
    };

    let sas = Sas::table("staff").permissions(TablePermissions::QUERY);
    let sas = sas.partition(Employee::partition("sales")).valid_for(9 * HOUR);
    let table = open(&sas.sign_with(&account, &of_tables)?)?.table("staff");
    assert!(table.get(Employee::key("sales", 1)).await?.is_some());
    assert!(table.get(Employee::key("other", 1)).await?.is_none());
    let refused = ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH;
    assert_eq!(code(table.insert(&employee(2)).await), refused);

    let sas = Sas::queue("jobs").permissions(QueuePermissions::ADD).valid_for(9 * HOUR);
    let token = sas.sign_with(&account, &of_queues)?;
    let queue = open(&token)?.queue("jobs");
    queue.put(Body::text("one")).send().await?;
    assert_eq!(code(queue.peek(1).await), refused);
    let other = open(&token)?.queue("other").put(Body::text("one")).send().await;
    assert_eq!(code(other), ErrorCode::AUTHENTICATION_FAILED);

    // The server refuses a key of one service at another one. The client is bypassed.
    for (sent, wrong) in
        [("sks=q", "sks=t"), ("sks=q", "sks=b"), ("sv=2026-02-06", "sv=2025-05-05")]
    {
        let query = token.query().replace(sent, wrong);
        let forged = StorageAccount::builder()
            .name(DEVELOPMENT_ACCOUNT)
            .credential(Credential::sas(&query)?)
            .endpoint(Service::Queue, server.queue_endpoint())?
            .build()?;
        let put = forged.queue("jobs").put(Body::text("one")).send().await;
        assert_eq!(code(put), ErrorCode::AUTHENTICATION_FAILED, "{wrong}");
    }
    // The keys are for holders of tokens, for at most 7 days.
    let keyed = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::auto_advancing(now()))
        .build()?;
    for service in [Service::Table, Service::Queue] {
        let long = account.user_delegation_key(service, now() + 200 * HOUR).await;
        assert_eq!(long.unwrap_err().details().status, Some(400), "{service:?}");
        let without = keyed.user_delegation_key(service, until).await;
        assert_eq!(code(without), ErrorCode::AUTHENTICATION_FAILED, "{service:?}");
    }

    server.clock().advance(3 * HOUR);
    assert_eq!(code(queue.put(Body::text("late")).send().await), ErrorCode::AUTHENTICATION_FAILED);
    let late = table.get(Employee::key("sales", 1)).await;
    assert_eq!(code(late), ErrorCode::AUTHENTICATION_FAILED);
    Ok(())
}
