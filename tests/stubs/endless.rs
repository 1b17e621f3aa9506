//! Services that never come to an end: continuation tokens that repeat, pages that are empty for ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::{Credential, DynamicEntity, ErrorKind, Partition, Query, StorageAccount};
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers};

/// Which token the answer with this number gives.
type Tokens = fn(usize) -> usize;

/// A service whose every page is empty and has a token, as tables, queues, containers and blobs are
/// answered.
async fn endless(tokens: Tokens) -> (MockServer, StorageAccount) {
    let stub = MockServer::start().await;
    let count = AtomicUsize::new(0);
    let answer = move |request: &Request| {
        let token = format!("token{}", tokens(count.fetch_add(1, Ordering::Relaxed)));
        let xml = |inside: &str| {
            let body = format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults>{inside}\
                 <NextMarker>{token}</NextMarker></EnumerationResults>"
            );
            ResponseTemplate::new(200).set_body_string(body)
        };
        match (request.url.path(), request.url.query().unwrap_or_default()) {
            ("/blob/photos", _) => xml("<Blobs/>"),
            (path, _) if path.starts_with("/blob") => xml("<Containers/>"),
            (path, _) if path.starts_with("/queue") => xml("<Queues/>"),
            (path, _) => {
                let header = if path.ends_with("/Tables") {
                    "x-ms-continuation-NextTableName"
                } else {
                    "x-ms-continuation-NextPartitionKey"
                };
                let answer = ResponseTemplate::new(200).insert_header(header, token.as_str());
                answer.set_body_raw("{\"value\":[]}", "application/json")
            }
        }
    };
    Mock::given(matchers::any()).respond_with(answer).mount(&stub).await;
    let account = account(&stub.uri());
    (stub, account)
}

fn account(uri: &str) -> StorageAccount {
    StorageAccount::builder()
        .name("acct")
        .endpoint(rowkey::service::Service::Table, &format!("{uri}/table"))
        .unwrap()
        .endpoint(rowkey::service::Service::Queue, &format!("{uri}/queue"))
        .unwrap()
        .endpoint(rowkey::service::Service::Blob, &format!("{uri}/blob"))
        .unwrap()
        .credential(Credential::shared_key("acct", "a2V5").unwrap())
        .build()
        .unwrap()
}

fn query(account: &StorageAccount) -> Query<DynamicEntity> {
    account.table("things").query(Partition::<DynamicEntity>::new("p"))
}

/// Every way to read to the end, with its limits.
async fn readings(
    account: &StorageAccount,
    deadline: Option<Duration>,
    pages: Option<u64>,
) -> Vec<(&'static str, rowkey::Result<()>)> {
    macro_rules! limited {
        ($builder:expr) => {{
            let mut builder = $builder;
            if let Some(deadline) = deadline {
                builder = builder.deadline(deadline);
            }
            if let Some(pages) = pages {
                builder = builder.max_pages(pages);
            }
            builder
        }};
    }
    let query = || limited!(query(account));
    let blobs = || limited!(account.container("photos").blobs());
    vec![
        ("all", query().all().await.map(drop)),
        ("first", query().first().await.map(drop)),
        ("stream", query().stream().try_collect::<Vec<_>>().await.map(drop)),
        ("pages", query().pages().try_collect::<Vec<_>>().await.map(drop)),
        ("ahead", query().prefetch().stream().try_collect::<Vec<_>>().await.map(drop)),
        ("pages ahead", query().prefetch().pages().try_collect::<Vec<_>>().await.map(drop)),
        ("tables", limited!(account.tables()).all().await.map(drop)),
        ("queues", limited!(account.queues()).all().await.map(drop)),
        ("containers", limited!(account.containers()).all().await.map(drop)),
        ("blobs", blobs().all().await.map(drop)),
        ("folder", blobs().folder("/").stream().try_collect::<Vec<_>>().await.map(drop)),
    ]
}

#[tokio::test]
async fn a_repeated_token_ends_every_query_with_an_error() {
    // At once; after one other; in a cycle of three that begins late.
    let cycles: [(Tokens, usize); 3] =
        [(|_| 7, 40), (|n| n % 2, 60), (|n| if n < 5 { 100 + n } else { n % 3 }, 400)];
    for (tokens, most) in cycles {
        let (stub, account) = endless(tokens).await;
        for (name, result) in readings(&account, None, None).await {
            let error = result.expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Decode, "{name}: {error}");
            assert!(error.to_string().contains("repeated a continuation token"), "{name}: {error}");
            assert!(!error.to_string().contains("token7"), "{error}");
        }
        let requests = stub.received_requests().await.unwrap_or_default().len();
        assert!(requests <= most, "{requests} requests");
    }
}

#[tokio::test]
async fn advancing_empty_pages_are_read_up_to_the_limit() {
    let (stub, account) = endless(|n| n).await;
    let readings = readings(&account, None, Some(30)).await;
    let count = readings.len();
    for (name, result) in readings {
        let error = result.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{name}: {error}");
        assert!(error.to_string().contains("not at its end after 30 pages"), "{name}: {error}");
    }
    assert_eq!(stub.received_requests().await.unwrap_or_default().len(), 30 * count);
}

#[tokio::test]
async fn a_deadline_ends_every_query() {
    // However fast pages come, there is always one more.
    let (_stub, account) = endless(|n| n).await;
    for (name, result) in readings(&account, Some(Duration::from_millis(50)), None).await {
        let error = result.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{name}: {error}");
        assert!(error.to_string().contains("the deadline passed after"), "{name}: {error}");
    }
    // A page that does not come is not waited for.
    let stub = MockServer::start().await;
    let never = ResponseTemplate::new(200).set_delay(Duration::from_secs(3600));
    Mock::given(matchers::any()).respond_with(never).mount(&stub).await;
    for (name, result) in
        readings(&self::account(&stub.uri()), Some(Duration::from_millis(20)), None).await
    {
        let error = result.expect_err(name);
        assert!(error.to_string().contains("the deadline passed after 0 pages"), "{name}: {error}");
    }
}
