//! Requests that are rejected by their head (repeated headers and parameters, foreign hosts, wrong
//! signatures), and limits on what an unauthenticated client can make the server buffer.

use std::fmt::Write as _;

use rowkey_emulator::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Server};
use rowkey_wire::auth::Resource;
use rowkey_wire::auth::{Sas, Service, SigningKey};

use crate::support::{Answer, Client};

const ACCOUNT: &str = DEVELOPMENT_ACCOUNT;

async fn started() -> (Server, Client) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let mut client = Client::of(&server);
    client.create("things");
    (server, client)
}

/// A signature that permits reading `things`.
fn sas() -> String {
    let granted = "sv=2019-02-02&tn=things&sp=r&se=2026-01-02T00:00:00Z&sig=";
    let mut sas = Sas::from_query(granted).unwrap();
    let key = SigningKey::from_base64(DEVELOPMENT_KEY).unwrap();
    sas.sign(&key, ACCOUNT, Resource::Table("things")).unwrap();
    sas.encode()
}

/// A GET without an `Authorization` header.
fn get(client: &mut Client, target: &str, headers: &str) -> Answer {
    let request = format!("GET /{ACCOUNT}{target} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    client.raw(request.as_bytes()).unwrap()
}

/// A signed request with an additional line in its head.
fn with_line(client: &mut Client, line: &str) -> Answer {
    let signed = client.signed("GET", "/Tables", &[], "");
    let (start, rest) = signed.split_once("\r\n").unwrap();
    client.raw(format!("{start}\r\n{line}\r\n{rest}").as_bytes()).unwrap()
}

#[tokio::test]
async fn duplicate_authorization_and_condition_headers_are_rejected() {
    let (_server, mut client) = started().await;
    assert_eq!(with_line(&mut client, "accept-language: de").status, 200);
    for (line, status, code) in [
        ("authorization: SharedKey a:b", 400, "InvalidAuthenticationInfo"),
        ("x-ms-date: Thu, 01 Jan 2026 00:00:00 GMT", 403, "AuthenticationFailed"),
        ("x-ms-version: 2015-12-11", 400, "InvalidHeaderValue"),
        ("host: 127.0.0.1", 400, "InvalidHeaderValue"),
        ("if-match: *\r\nif-match: W/\"x\"", 400, "InvalidHeaderValue"),
        ("range: bytes=0-1\r\nrange: bytes=2-3", 400, "InvalidHeaderValue"),
        ("x-ms-lease-id: 1\r\nx-ms-lease-id: 2", 400, "InvalidHeaderValue"),
    ] {
        let answer = with_line(&mut client, line);
        assert_eq!((answer.status, answer.code()), (status, code), "{line}: {}", answer.body);
        let name = line.split(':').next().unwrap();
        let detail = format!("The header {name} is specified more than once.");
        assert!(answer.body.contains(&detail), "{}", answer.body);
    }
    // Headers that clients may safely repeat.
    for line in ["accept: */*", "x-ms-client-request-id: 1\r\nx-ms-client-request-id: 2"] {
        assert_eq!(with_line(&mut client, line).status, 200, "{line}");
    }
}

#[tokio::test]
async fn duplicate_conditions_in_a_transaction_are_rejected() {
    let (_server, mut client) = started().await;
    assert_eq!(client.insert("things", ("p", "r"), "").status, 201);
    let body = format!(
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\
         Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         DELETE http://localhost/{ACCOUNT}/things(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\
         If-Match: *\r\nIf-Match: W/\"x\"\r\nAccept: application/json\r\n\r\n--c--\r\n--b--\r\n"
    );
    let headers = [("content-type", "multipart/mixed; boundary=b")];
    let answer = client.send("POST", "/$batch", &headers, &body);
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert!(answer.body.contains("InvalidHeaderValue"), "{}", answer.body);
}

#[tokio::test]
async fn duplicate_sas_parameters_are_rejected_in_any_encoding() {
    let (_server, mut client) = started().await;
    let sas = sas();
    assert_eq!(get(&mut client, &format!("/things()?{sas}"), "").status, 200);
    for more in [
        "sig=x",
        "SIG=x",
        "%73ig=x",
        "sp=raud",
        "SP=raud",
        "s%70=raud",
        "se=2030-01-01",
        "SIP=127.0.0.1",
        "tn=things",
        "skoid=1&skoid=1",
        "rscc=a&rscc=b",
    ] {
        for query in [format!("{sas}&{more}"), format!("{more}&{sas}")] {
            let answer = get(&mut client, &format!("/things()?{query}"), "");
            assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"), "{more}");
            assert!(answer.body.contains("AuthenticationErrorDetail:The parameter "), "{more}");
        }
    }
}

#[tokio::test]
async fn the_body_of_an_unauthenticated_request_is_not_read() {
    for journal in [false, true] {
        let server = Server::builder().manual_clock().journal(journal).start().await.unwrap();
        Client::of(&server).create("things");
        for (service, method, target) in [
            (Service::Table, "POST", "/things"),
            (Service::Table, "POST", "/$batch"),
            (Service::Table, "PUT", "/things?comp=acl"),
            (Service::Queue, "POST", "/queue/messages"),
            (Service::Queue, "PUT", "/queue?comp=acl"),
            (Service::Blob, "PUT", "/container/blob"),
        ] {
            let mut client = Client::to(&server, service);
            let head = |authorization: &str| {
                format!(
                    "{method} /{ACCOUNT}{target} HTTP/1.1\r\nhost: localhost\r\n\
                     x-ms-date: Thu, 01 Jan 2026 00:00:00 GMT\r\nx-ms-version: 2019-02-02\r\n\
                     x-ms-blob-type: BlockBlob\r\nexpect: 100-continue\r\n\
                     content-length: 4000000\r\n{authorization}\r\n"
                )
            };
            // The server sends 100 when, and only when, it starts to read the body.
            let answer = client.raw(head("authorization: SharedKey a:b\r\n").as_bytes()).unwrap();
            assert_eq!(answer.status, 403, "{method} {target} {journal}");
            let mut client = Client::to(&server, service);
            let answer = client.raw(head("").as_bytes()).unwrap();
            assert!((400..=404).contains(&answer.status), "{method} {target}: {}", answer.status);
        }
        let mut client = Client::of(&server);
        let expect = [("expect", "100-continue")];
        assert_eq!(client.send("POST", "/things", &expect, "{}").status, 100);
    }
}

#[tokio::test]
async fn the_body_of_an_unauthorized_request_is_not_read() {
    let (_server, mut client) = started().await;
    let request = format!(
        "POST /{ACCOUNT}/others?{} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
         content-length: 4000000\r\n\r\n",
        sas()
    );
    let answer = client.raw(request.as_bytes()).unwrap();
    assert_eq!((answer.status, answer.code()), (403, "AuthorizationFailure"));
}

#[tokio::test]
async fn an_early_rejection_reaches_clients_that_send_the_whole_body_first() {
    let (server, _client) = started().await;
    let body = "x".repeat(4 << 20);
    for (service, target) in [
        (Service::Table, "/things"),
        (Service::Queue, "/queue/messages"),
        (Service::Blob, "/container/blob"),
    ] {
        let mut client = Client::to(&server, service);
        let block = [("x-ms-blob-type", "BlockBlob"), ("authorization", "SharedKey a:b")];
        let method = if service == Service::Blob { "PUT" } else { "POST" };
        for _ in 0..2 {
            let answer = client.send(method, target, &block, &body);
            assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"), "{target}");
        }
        // Chunked, and on the same connection.
        let mut request = format!(
            "{method} /{ACCOUNT}{target} HTTP/1.1\r\nhost: localhost\r\n\
             transfer-encoding: chunked\r\nauthorization: SharedKey a:b\r\n\r\n"
        );
        let _ = write!(request, "{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        assert_eq!(client.raw(request.as_bytes()).unwrap().status, 403, "{target}");
        let answer = client.send("HEAD", "/none?comp=metadata", &[("authorization", "x")], "");
        assert_eq!((answer.status, answer.body.as_str()), (400, ""), "{target}");
    }
}

#[tokio::test]
async fn requests_with_unexpected_bodies_are_answered() {
    let (_server, mut client) = started().await;
    for (method, target, status) in
        [("GET", "/Tables", 200), ("GET", "/things()", 200), ("DELETE", "/Tables('things')", 204)]
    {
        assert_eq!(client.send(method, target, &[], "{\"a\":1}").status, status, "{method}");
    }
    let signed = client.signed("POST", "/Tables", &[("transfer-encoding", "chunked")], "");
    let signed = signed.replace("content-length: 0\r\n", "");
    let chunked = "10\r\n{\"TableName\":\"chu\r\n6\r\nnked\"}\r\n0\r\n\r\n".replacen("10", "11", 1);
    let answer = client.raw(format!("{signed}{chunked}").as_bytes()).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
}

#[tokio::test]
async fn dns_rebinding_is_rejected() {
    let server = Server::builder().manual_clock().allow_host("storage.test").start().await.unwrap();
    let mut client = Client::of(&server);
    let evil = ("origin", "http://evil.example:10002");
    for (host, headers, status) in [
        ("evil.example:10002", &[evil][..], 403),
        ("evil.example:10002", &[("origin", "null")], 403),
        ("evil.example:10002", &[("origin", "http://localhost:3000")], 200),
        ("rowkey:10002", &[], 200),
        ("storage.test:10002", &[evil], 200),
        ("127.0.0.1:10002", &[evil], 200),
        ("localhost", &[evil], 200),
    ] {
        let headers = [&[("host", host)], headers].concat();
        let answer = client.send("GET", "/Tables", &headers, "");
        assert_eq!(answer.status, status, "{headers:?}");
        assert!(status == 200 || answer.code() == "AuthorizationFailure", "{}", answer.body);
    }
    let preflight = [("host", "evil.example"), evil, ("access-control-request-method", "GET")];
    let answer = client.send("OPTIONS", "/things", &preflight, "");
    assert_eq!((answer.status, answer.code()), (403, "AuthorizationFailure"));
}

#[tokio::test]
async fn an_authentication_error_contains_the_string_to_sign_and_not_the_signature() {
    let (server, mut client) = started().await;
    let wrong = ("authorization", "SharedKey devstoreaccount1:AAAA");
    let mac = "The MAC signature found in the HTTP request 'AAAA' is not the same as any computed \
               signature. Server used following string to sign: 'GET";
    // JSON and XML of tables have no element for it.
    let answer = client.send("GET", "/Tables", &[wrong], "");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let date = "Thu, 01 Jan 2026 00:00:00 GMT";
    let text = "\\n\\napplication/json\\nThu, 01 Jan 2026 00:00:00 GMT\\n\
                /devstoreaccount1/devstoreaccount1/Tables'.\"}}}";
    let json = format!("Z\\nAuthenticationErrorDetail:{mac}{text}");
    assert!(answer.body.ends_with(&json), "{}", answer.body);
    let answer = client.send("GET", "/Tables", &[wrong, ("accept", "")], "");
    let xml = text.replace("\\n", "\n").replace("\"}}}", "</m:message></m:error>");
    let xml = format!("Z\nAuthenticationErrorDetail:{mac}{xml}");
    assert!(answer.body.ends_with(&xml), "{}", answer.body);

    // Queues and blobs do.
    for (service, target, resource) in
        [(Service::Queue, "/q?comp=metadata", "/q\ncomp:metadata"), (Service::Blob, "/c/b", "/c/b")]
    {
        let answer = Client::to(&server, service).send("GET", target, &[wrong], "");
        let detail = format!(
            "</Message><AuthenticationErrorDetail>{mac}\n\n\n\n\napplication/json\n\n\n\n\n\n\n\
             x-ms-date:{date}\nx-ms-version:2019-02-02\n/{ACCOUNT}/{ACCOUNT}{resource}'.\
             </AuthenticationErrorDetail></Error>"
        );
        assert!(answer.body.ends_with(&detail), "{}", answer.body);
        assert_eq!(answer.code(), "AuthenticationFailed");
    }
    let forged = sas().replace("sp=r&", "sp=raud&");
    let answer = get(&mut client, &format!("/things()?{forged}"), "");
    let detail = "AuthenticationErrorDetail:Signature did not match. String to sign used was raud\n\
                  \n2026-01-02T00:00:00Z\n/table/devstoreaccount1/things\n";
    assert!(answer.body.contains(detail), "{}", answer.body);
    assert!(!answer.body.contains(DEVELOPMENT_KEY));
    for (change, detail) in [
        (("se=2026-01-02T00%3A00%3A00Z", ""), "Signature did not match"),
        (("sv=2019-02-02&", ""), "sv is mandatory"),
        (("tn=things&", ""), "tn is mandatory"),
    ] {
        let query = sas().replace(change.0, change.1);
        let answer = get(&mut client, &format!("/things()?{query}"), "");
        assert!(answer.body.contains(detail), "{change:?} {}", answer.body);
    }
    server.clock().advance(std::time::Duration::from_secs(24 * 3600));
    let answer = get(&mut client, &format!("/things()?{}", sas()), "");
    let detail = "Signature not valid in the specified time frame: Start [] - Expiry [Fri, 02 Jan \
                  2026 00:00:00 GMT] - Current [Fri, 02 Jan 2026 00:00:00 GMT]";
    assert!(answer.body.contains(detail), "{}", answer.body);
    let answer = client.send("GET", "/Tables", &[], "");
    assert!(answer.body.contains("more than 15 minutes from the server's clock"), "{answer:?}");
}

#[tokio::test]
async fn an_error_message_escapes_control_characters_of_the_request() {
    let (server, _client) = started().await;
    let mut client = Client::to(&server, Service::Blob);
    let answer = client.send("GET", "/c/b?a=%01%0A", &[("authorization", "SharedKey a:b")], "");
    assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"));
    let wrong = ("authorization", "SharedKey devstoreaccount1:AAAA");
    let answer = client.send("GET", "/c/b?a=%01x", &[wrong], "");
    assert!(answer.body.contains("a:\u{FFFD}x'"), "{}", answer.body);
}

#[tokio::test]
async fn a_request_without_a_version_has_a_version_in_its_response() {
    let (server, mut client) = started().await;
    let none = ("x-ms-version", "");
    let answer = client.send("GET", "/Tables", &[none], "");
    assert_eq!((answer.status, answer.header("x-ms-version")), (200, Some("2026-10-06")));
    let answer = get(&mut client, &format!("/things()?{}", sas()), "");
    assert_eq!((answer.status, answer.header("x-ms-version")), (200, Some("2019-02-02")));
    let answer = get(&mut client, &format!("/things()?api-version=2020-12-06&{}", sas()), "");
    assert_eq!((answer.status, answer.header("x-ms-version")), (200, Some("2020-12-06")));

    let mut client = Client::to(&server, Service::Queue);
    let plain = [none, ("content-type", "")];
    assert_eq!(client.send("PUT", "/queue", &plain, "").status, 201);
    let message = "<QueueMessage><MessageText>text</MessageText></QueueMessage>";
    let answer = client.send("POST", "/queue/messages", &plain, message);
    assert_eq!(answer.status, 201);
    assert!(answer.body.contains("<MessageId>"), "as the newest versions do: {}", answer.body);

    // Blobs have a default version.
    let mut client = Client::to(&server, Service::Blob);
    let properties = "<StorageServiceProperties><DefaultServiceVersion>2014-02-14\
                      </DefaultServiceVersion></StorageServiceProperties>";
    let target = "/?restype=service&comp=properties";
    assert_eq!(client.send("PUT", target, &[("content-type", "")], properties).status, 202);
    let answer = client.send("GET", "/?comp=list", &plain, "");
    assert_eq!((answer.status, answer.header("x-ms-version")), (200, Some("2014-02-14")));
}

#[tokio::test]
async fn the_python_sdk_reads_the_secondary() {
    let (_server, mut client) = started().await;
    let target = format!("/{ACCOUNT}/?restype=service&comp=stats");
    let secondary = format!("{ACCOUNT}-secondary");
    let answer = client.send_at(&secondary, "GET", &target, &[("accept", "")], "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body.contains("<GeoReplication><Status>live</Status>"), "{}", answer.body);
    // The library signs the path before it adds the secondary's name.
    let signed = client.signed("GET", "/?restype=service&comp=stats", &[("accept", "")], "");
    let moved = signed.replacen("GET /", &format!("GET /{secondary}/"), 1);
    assert_eq!(client.raw(moved.as_bytes()).unwrap().status, 200);
    let answer = client.send_at(&secondary, "GET", &format!("/{ACCOUNT}/things()"), &[], "");
    assert_eq!(answer.status, 200, "{}", answer.body);
}
