//! Stubs beside the emulator: the same requests get the same status, the same headers that clients read, and bodies of
//! the same form.

use std::collections::BTreeMap;

use rowkey::answers::Stubs;
use rowkey::blob::Check;
use rowkey::queue::Body;
use rowkey::sas::{AccountPermissions, ResourceTypes, Sas, Services};
use rowkey::service::Service;
use rowkey::{Credential, DynamicEntity, Match, Partition, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use wiremock::MockServer;

/// The headers that clients read.
const READ: [&str; 12] = [
    "content-type",
    "etag",
    "last-modified",
    "preference-applied",
    "content-range",
    "x-ms-version",
    "x-ms-blob-type",
    "x-ms-popreceipt",
    "x-ms-time-next-visible",
    "x-ms-continuation-nextpartitionkey",
    "x-ms-continuation-nextrowkey",
    "x-ms-content-crc64",
];

/// What a client reads of an answer, with times, tags and identities replaced.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Seen {
    fn of(status: u16, headers: &BTreeMap<String, String>, body: &str) -> Self {
        let is_json = headers.get("content-type").is_some_and(|it| it.contains("json"));
        let body = match serde_json::from_str::<serde_json::Value>(body) {
            // In the order of the names.
            Ok(json) if is_json => json.to_string(),
            // Operations of a transaction have more headers, which no client needs.
            _ => body
                .split("\r\n")
                .filter(|line| !is_additional(line))
                .collect::<Vec<_>>()
                .join("\r\n"),
        };
        let read = headers.iter().filter(|(name, _)| READ.contains(&&***name));
        let headers = read.map(|(name, value)| (name.clone(), shape(name, value)));
        Self { status, headers: headers.collect(), body: shape("", &body) }
    }
}

fn is_additional(line: &str) -> bool {
    let names =
        ["X-Content-Type-Options", "Cache-Control", "Preference-Applied", "DataServiceVersion"];
    names.iter().any(|name| line.starts_with(name))
}

/// Replaces what differs in each run.
fn shape(name: &str, text: &str) -> String {
    if name == "x-ms-popreceipt" {
        return "a receipt".to_owned();
    }
    let mut text = text.to_owned();
    for (from, ends) in [
        ("<PopReceipt>", &['<'][..]),
        ("<MessageId>", &['<']),
        ("odata.metadata\":\"", &['"']),
        ("RequestId:", &['\\', '\n']),
        ("response_", &['\r', '-']),
    ] {
        let mut parts = text.split(from);
        let mut masked = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            masked.push_str(from);
            // An identity has hyphens; two of them end the name of a part.
            let end = match part.find("--\r") {
                Some(at) if from == "response_" && !part[..at].contains('\r') => at,
                _ => part.find(|c| c != '-' && ends.contains(&c)).unwrap_or(part.len()),
            };
            masked.push_str(&part[end..]);
        }
        text = masked;
    }
    // Words of digits, in all bases, and names of days and months.
    let is_of_word = |c: char| c.is_ascii_alphanumeric();
    let mut out = String::new();
    for word in text.split_inclusive(|c| !is_of_word(c)) {
        let (word, end) = word.split_at(word.trim_end_matches(|c| !is_of_word(c)).len());
        let is_number = word.contains(|c: char| c.is_ascii_digit());
        out.push_str(if is_number || is_of_date(word) { "0" } else { word });
        out.push_str(end);
    }
    out
}

fn is_of_date(word: &str) -> bool {
    const NAMES: &str =
        "Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    NAMES.split(' ').any(|name| name == word)
}

async fn writes(account: &StorageAccount) -> rowkey::Result<()> {
    let table = account.table("things");
    let mut one = DynamicEntity::new("a", "1");
    one.set("Text", "x");
    one.set("Count", 5);
    one.set("Large", 7_i64);
    one.set("Half", 0.5);
    table.insert(&one).await?;
    table.insert(&one).await.unwrap_err();
    let stored = table.get(one.key()).await?.unwrap();
    table.replace(&stored).await?;
    table.replace(&stored).await.unwrap_err();
    table.merge((&one, Match::Any)).await?;
    table.upsert(&DynamicEntity::new("a", "2")).await?;
    table.upsert_merge(&DynamicEntity::new("a", "3")).await?;
    let all = || table.query(Partition::<DynamicEntity>::new("a"));
    all().page_size(2).all().await?;
    all().all().await?;
    let both = table.transaction().upsert(&DynamicEntity::new("a", "4"));
    both.delete(one.key(), Match::Any).submit().await?;
    let refused = table.transaction().upsert(&DynamicEntity::new("a", "5"));
    refused.insert(&DynamicEntity::new("a", "4")).submit().await.unwrap_err();
    table.delete(DynamicEntity::new("a", "4").key(), Match::Any).await?;
    table.delete(DynamicEntity::new("a", "4").key(), Match::Any).await.unwrap_err();
    assert!(table.get(one.key()).await?.is_none());

    let queue = account.queue("things");
    queue.put(Body::text("hello")).send().await?;
    let message = queue.receive(1, std::time::Duration::from_secs(60)).await?.remove(0);
    let message = queue.update(&message).body(Body::text("again")).send().await?;
    queue.delete(&message).await?;
    queue.delete(&message).await.unwrap_err();

    let blob = account.container("things").blob("one.txt");
    blob.put("a text").content_type("text/plain").check(Check::Crc64).send().await?;
    blob.get().await?.unwrap();
    blob.read().range(2..4).check(Check::Crc64).bytes().await?;
    blob.properties().await?;
    blob.delete_if_exists().await?;
    blob.get().await?;
    Ok(())
}

#[tokio::test]
async fn stubs_answer_as_the_emulator_does() -> TestResult {
    let stub = MockServer::start().await;
    let stubbed = StorageAccount::builder()
        .endpoint(Service::Table, &stub.uri())?
        .endpoint(Service::Queue, &stub.uri())?
        .endpoint(Service::Blob, &stub.uri())?
        .credential(Credential::anonymous())
        .build()?;
    let stubs = Stubs::new().planning(writes(&stubbed)).await?;
    let again = Stubs::new().planning(writes(&stubbed)).await?;
    stubs.mount(&stub).await;
    writes(&stubbed).await?;

    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    account.table("things").create().await?;
    account.queue("things").create().await?;
    account.container("things").create().await?;
    let sas = Sas::account(Services::ALL, ResourceTypes::ALL)
        .permissions(AccountPermissions::ALL)
        .valid_for(std::time::Duration::from_secs(3600))
        .sign(&account)?;
    let client = reqwest::Client::new();
    let mut differences = Vec::new();
    let mut current: BTreeMap<&str, (String, String)> = BTreeMap::new();
    for request in stub.received_requests().await.ok_or("recorded")? {
        let is_table = request.headers.contains_key("dataserviceversion")
            || request.url.path().ends_with("$batch");
        let is_queue = request.url.path().contains("/messages");
        let endpoint = match (is_table, is_queue) {
            (true, _) => server.table_endpoint(),
            (false, true) => server.queue_endpoint(),
            (false, false) => server.blob_endpoint(),
        };
        let query = request.url.query().unwrap_or_default();
        let path = request.url.path();
        let target = format!("{path}{}{query}", if query.is_empty() { "" } else { "?" });
        let answer =
            again.answer(&request.method, &target, &request.headers, &request.body).unwrap_or_else(
                || again.refusal(&request.method, &target, &request.headers, &request.body),
            );
        // The server has other tags, identities and receipts.
        let mut url = format!("{}{target}", endpoint.trim_end_matches('/'));
        let mut headers = request.headers.clone();
        for (name, (own, its)) in &current {
            url = url
                .replace(&*own.replace(':', "%3A"), &its.replace(':', "%3A").replace('+', "%2B"));
            url = url.replace(&**own, &its.replace('+', "%2B"));
            if *name == "etag"
                && headers.get("if-match").is_some_and(|tag| tag.to_str().unwrap() == own)
            {
                headers.insert("if-match", its.parse()?);
            }
        }
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(sas.query());
        for name in ["host", "content-length", "authorization"] {
            headers.remove(name);
        }
        let body = if path.ends_with("$batch") {
            let text = String::from_utf8(request.body.clone())?;
            text.replace(stub.uri().trim_end_matches('/'), endpoint.trim_end_matches('/'))
                .into_bytes()
        } else {
            request.body.clone()
        };
        let sent = client.request(request.method.clone(), url).headers(headers).body(body);
        let response = sent.send().await?;
        let status = response.status().as_u16();
        let of_server: BTreeMap<_, _> = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let body = String::from_utf8(response.bytes().await?.to_vec())?;
        let text = String::from_utf8(answer.body.to_vec())?;
        let of_stub: BTreeMap<_, _> = answer
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
            .collect();
        if let (Some(own), Some(its)) = (of_stub.get("etag"), of_server.get("etag")) {
            current.insert("etag", (own.clone(), its.clone()));
        }
        for name in ["x-ms-popreceipt"] {
            if let (Some(own), Some(its)) = (of_stub.get(name), of_server.get(name)) {
                current.insert("receipt", (own.clone(), its.clone()));
            }
        }
        let between = |text: &str, name: &str| {
            let (_, rest) = text.split_once(&format!("<{name}>"))?;
            Some(rest.split_once('<')?.0.to_owned())
        };
        for (key, name) in [("id", "MessageId"), ("receipt", "PopReceipt")] {
            if let (Some(own), Some(its)) = (between(&text, name), between(&body, name)) {
                current.insert(key, (own, its));
            }
        }
        let own = Seen::of(answer.status, &of_stub, &text);
        let its = Seen::of(status, &of_server, &body);
        let code = of_server.get("x-ms-error-code");
        assert!(code.is_none() || of_stub.get("x-ms-error-code") == code);
        if own != its {
            differences
                .push(format!("{} {target}\n  stub   {own:?}\n  server {its:?}", request.method));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}
