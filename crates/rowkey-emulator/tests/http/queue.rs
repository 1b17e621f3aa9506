//! The Queue service over a socket.

use std::time::Duration;

use rowkey_emulator::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Server};
use rowkey_wire::auth::Resource;
use rowkey_wire::auth::{Sas, Service, SigningKey};

use crate::support::{Answer, Client};

const MESSAGES: &str = "/queue/messages";

async fn started() -> (Server, Client) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let mut client = Client::to(&server, Service::Queue);
    assert_eq!(send(&mut client, "PUT", "/queue", "").status, 201);
    (server, client)
}

fn send(client: &mut Client, method: &str, target: &str, body: &str) -> Answer {
    client.send(method, target, &[("accept", "application/xml"), ("content-type", "")], body)
}

fn message(text: &str) -> String {
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
}

/// The texts of all elements with this name.
fn all<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    let (start, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts = answer.body.split(start.as_str()).skip(1);
    parts.filter_map(|part| part.split_once(end.as_str())).map(|(text, _)| text).collect()
}

/// The address of a message in a response, with its pop receipt.
fn held(answer: &Answer) -> String {
    let receipt = all(answer, "PopReceipt")[0].replace('+', "%2B").replace('=', "%3D");
    format!("{MESSAGES}/{}?popreceipt={receipt}", all(answer, "MessageId")[0])
}

/// The query of a signature; an account SAS if there is no resource.
fn signed(resource: Option<Resource<'_>>, terms: &str) -> String {
    let sas = Sas::from_query(&format!("{terms}&sig=x")).unwrap();
    let text = sas.string_to_sign(DEVELOPMENT_ACCOUNT, resource.unwrap_or(Resource::Queue("")));
    let signature = SigningKey::from_base64(DEVELOPMENT_KEY).unwrap().sign(&text);
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("{terms}&sig={signature}")
}

/// Sends a request whose signature is in its query, without an `Authorization` header.
fn send_with(client: &mut Client, query: &str, method: &str, target: &str, body: &str) -> Answer {
    let separator = if target.contains('?') { '&' } else { '?' };
    let target = format!("/{DEVELOPMENT_ACCOUNT}{target}{separator}{query}");
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nhost: localhost\r\nx-ms-version: 2019-02-02\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    client.raw(request.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_message_is_put_received_and_deleted() {
    let (server, mut client) = started().await;
    let put = send(&mut client, "POST", MESSAGES, &message("a &lt; b"));
    assert_eq!((put.status, put.header("content-type")), (201, Some("application/xml")));
    assert_eq!(all(&put, "ExpirationTime"), ["Thu, 08 Jan 2026 00:00:00 GMT"]);
    assert_eq!(all(&put, "MessageText"), [""; 0]);

    let gotten = send(&mut client, "GET", MESSAGES, "");
    assert_eq!(
        (all(&gotten, "MessageText"), all(&gotten, "DequeueCount")),
        (vec!["a &lt; b"], vec!["1"])
    );
    assert_eq!(all(&gotten, "TimeNextVisible"), ["Thu, 01 Jan 2026 00:00:30 GMT"]);
    let empty = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList />";
    assert_eq!(send(&mut client, "GET", MESSAGES, "").body, empty);
    assert_eq!(send(&mut client, "DELETE", &held(&put), "").code(), "PopReceiptMismatch");

    let target = format!("{}&visibilitytimeout=60", held(&gotten));
    let updated = send(&mut client, "PUT", &target, &message("c"));
    assert_eq!(updated.status, 204);
    assert_eq!(updated.header("x-ms-time-next-visible"), Some("Thu, 01 Jan 2026 00:01:00 GMT"));
    server.clock().advance(Duration::from_secs(59));
    assert_eq!(send(&mut client, "GET", MESSAGES, "").body, empty);
    server.clock().advance(Duration::from_secs(1));
    let peeked = send(&mut client, "GET", &format!("{MESSAGES}?peekonly=true"), "");
    assert_eq!((all(&peeked, "MessageText"), all(&peeked, "DequeueCount")), (vec!["c"], vec!["1"]));
    assert_eq!(all(&peeked, "PopReceipt"), [""; 0]);

    let again = send(&mut client, "GET", MESSAGES, "");
    assert_eq!(all(&again, "DequeueCount"), ["2"]);
    assert_eq!(send(&mut client, "DELETE", &held(&again), "").status, 204);
    assert_eq!(send(&mut client, "DELETE", &held(&again), "").code(), "MessageNotFound");
}

#[tokio::test]
async fn messages_expire_and_the_count_is_approximate() {
    let (server, mut client) = started().await;
    for query in ["?messagettl=60", "?visibilitytimeout=600", ""] {
        let target = format!("{MESSAGES}{query}");
        assert_eq!(send(&mut client, "POST", &target, &message("x")).status, 201);
    }
    let count = |client: &mut Client| {
        let answer = send(client, "GET", "/queue?comp=metadata", "");
        answer.header("x-ms-approximate-messages-count").map(str::to_owned)
    };
    assert_eq!(count(&mut client).as_deref(), Some("3"));
    server.clock().advance(Duration::from_secs(60));
    assert_eq!(count(&mut client).as_deref(), Some("2"));
    assert_eq!(send(&mut client, "DELETE", MESSAGES, "").status, 204);
    assert_eq!(count(&mut client).as_deref(), Some("0"));
}

#[tokio::test]
async fn put_message_returns_the_message_since_2016_05_31() {
    let (_server, mut client) = started().await;
    for (version, shown) in [("2015-12-11", false), ("2016-05-31", true), ("2030-01-01", true)] {
        let headers = [("x-ms-version", version), ("content-type", "")];
        let answer = client.send("POST", MESSAGES, &headers, &message("x"));
        assert_eq!((answer.status, !answer.body.is_empty()), (201, shown), "{version}");
    }
}

#[tokio::test]
async fn queues_have_metadata_and_policies() {
    let (_server, mut client) = started().await;
    let set = client.send("PUT", "/queue?comp=metadata", &[("x-ms-meta-hello", "world")], "");
    assert_eq!(set.status, 204);
    let got = send(&mut client, "HEAD", "/queue?comp=metadata", "");
    assert_eq!((got.status, got.header("x-ms-meta-hello")), (200, Some("world")));
    assert_eq!(send(&mut client, "PUT", "/queue", "").code(), "QueueAlreadyExists");
    let same = client.send("PUT", "/queue", &[("x-ms-meta-hello", "world")], "");
    assert_eq!(same.status, 204);
    let listed = send(&mut client, "GET", "/?comp=list&include=metadata", "");
    assert!(listed.body.ends_with(
        "<Queues><Queue><Name>queue</Name><Metadata><hello>world</hello></Metadata></Queue>\
         </Queues><NextMarker /></EnumerationResults>"
    ));
    let policy = "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Permission>rpau\
                  </Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    assert_eq!(send(&mut client, "PUT", "/queue?comp=acl", policy).status, 204);
    assert!(send(&mut client, "GET", "/queue?comp=acl", "").body.ends_with(policy));
}

#[tokio::test]
async fn an_invalid_request_has_an_error_code_and_keeps_the_connection() {
    let (server, mut client) = started().await;
    let large = message(&"x".repeat(65_537));
    let huge = message(&"x".repeat(600_000));
    let six = "<SignedIdentifier><Id>a</Id></SignedIdentifier>".repeat(6);
    let six = format!("<SignedIdentifiers>{six}</SignedIdentifiers>");
    let days = "<StorageServiceProperties><Logging><Version>1.0</Version><Read>true</Read><Write>\
                true</Write><Delete>true</Delete><RetentionPolicy><Enabled>true</Enabled><Days>366\
                </Days></RetentionPolicy></Logging></StorageServiceProperties>";
    let properties = "/?restype=service&comp=properties";
    let message = message("x");
    let cases = [
        ("POST", "/none/messages", message.as_str(), 404, "QueueNotFound"),
        ("GET", "/none/messages", "", 404, "QueueNotFound"),
        ("PUT", "/none?comp=acl", "", 404, "QueueNotFound"),
        ("DELETE", "/none", "", 404, "QueueNotFound"),
        ("PUT", "/Queue", "", 400, "InvalidResourceName"),
        ("PUT", "/q", "", 400, "OutOfRangeInput"),
        ("POST", MESSAGES, "", 400, "InvalidXmlDocument"),
        ("POST", MESSAGES, "<a/>", 400, "InvalidXmlDocument"),
        ("POST", MESSAGES, large.as_str(), 413, "RequestBodyTooLarge"),
        ("POST", MESSAGES, huge.as_str(), 413, "RequestBodyTooLarge"),
        (
            "POST",
            "/queue/messages?messagettl=5&visibilitytimeout=5",
            message.as_str(),
            400,
            "InvalidQueryParameterValue",
        ),
        ("GET", "/queue/messages?numofmessages=33", "", 400, "OutOfRangeQueryParameterValue"),
        ("GET", "/queue/messages?numofmessages=%FF", "", 400, "InvalidQueryParameterValue"),
        ("DELETE", "/queue/messages/x", "", 400, "MissingRequiredQueryParameter"),
        ("DELETE", "/queue/messages/x?popreceipt=x", "", 400, "InvalidQueryParameterValue"),
        (
            "DELETE",
            "/queue/messages/x?popreceipt=AgAAAAMAAAAAAAAASV25Xh6J1QE%3D",
            "",
            404,
            "MessageNotFound",
        ),
        ("PUT", "/queue?comp=acl", six.as_str(), 400, "InvalidXmlDocument"),
        ("PUT", properties, days, 400, "InvalidXmlDocument"),
        ("GET", "/?restype=service&comp=stats", "", 400, "InvalidQueryParameterValue"),
        ("GET", "/queue?comp=other", "", 400, "InvalidQueryParameterValue"),
        ("GET", "/", "", 400, "InvalidUri"),
        ("PATCH", "/queue", "", 405, "UnsupportedHttpVerb"),
    ];
    for (method, target, body, status, code) in cases {
        let answer = send(&mut client, method, target, body);
        assert_eq!((answer.status, answer.code()), (status, code), "{method} {target}");
        assert_eq!(answer.header("x-ms-error-code"), Some(code));
        assert!(answer.body.starts_with("\u{feff}<?xml"), "{method} {target}");
    }
    let answer = send(&mut client, "PUT", properties, days);
    assert!(answer.body.contains(
        "<Reason>Retention days must be greater than 0 and less than or equal to 365 days.</Reason>"
    ));
    let answer = send(&mut client, "POST", MESSAGES, &large);
    assert!(answer.body.ends_with("<MaxLimit>65536</MaxLimit></Error>"));
    let answer = client.send("PUT", "/other", &[("x-ms-meta-a-b", "c")], "");
    assert_eq!((answer.status, answer.code()), (400, "InvalidMetadata"));
    let answer = client.send("GET", MESSAGES, &[("x-ms-version", "12.0.0b1")], "");
    assert_eq!((answer.status, answer.code()), (400, "InvalidHeaderValue"));
    let answer = client.send("GET", MESSAGES, &[("authorization", "SharedKey a:b")], "");
    assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"));
    let late = server.clock().now();
    server.clock().advance(Duration::from_secs(16 * 60));
    assert!(server.clock().now() > late);
    let answer = send(&mut client, "GET", MESSAGES, "");
    assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"));
}

#[tokio::test]
async fn the_name_of_a_deleted_queue_is_free_after_a_delay() {
    let (server, mut client) = started().await;
    assert_eq!(send(&mut client, "DELETE", "/queue", "").status, 204);
    assert_eq!(send(&mut client, "GET", MESSAGES, "").code(), "QueueNotFound");
    assert_eq!(send(&mut client, "PUT", "/queue", "").code(), "QueueBeingDeleted");
    server.clock().advance(Duration::from_secs(30));
    assert_eq!(send(&mut client, "PUT", "/queue", "").status, 201);
}

#[tokio::test]
async fn the_second_region_can_be_read_and_has_statistics() {
    let (_server, mut client) = started().await;
    let secondary = format!("{DEVELOPMENT_ACCOUNT}-secondary");
    let mut send = |method: &str, target: &str| {
        client.send_at(&secondary, method, target, &[("content-type", "")], "")
    };
    let stats = send("GET", "/?restype=service&comp=stats");
    assert_eq!((stats.status, all(&stats, "Status")), (200, vec!["live"]));
    assert_eq!(send("GET", "/queue?comp=metadata").status, 200);
    assert_eq!(send("DELETE", "/queue").code(), "InsufficientAccountPermissions");
}

#[tokio::test]
async fn a_sas_grants_only_its_permissions() {
    let (_server, mut client) = started().await;
    assert_eq!(send(&mut client, "PUT", "/other", "").status, 201);
    let body = message("x");
    let until = "se=2026-01-01T01:00:00Z&sv=2019-02-02";
    let queue =
        |letters: &str| signed(Some(Resource::Queue("queue")), &format!("sp={letters}&{until}"));
    let account = |terms: &str| signed(None, &format!("{terms}&{until}"));
    let denied = "AuthorizationPermissionMismatch";
    let peek = "/queue/messages?peekonly=true";
    for (query, method, target, body, expected) in [
        (queue("a"), "POST", MESSAGES, body.as_str(), ""),
        (queue("rup"), "POST", MESSAGES, body.as_str(), denied),
        (queue("r"), "GET", peek, "", ""),
        (queue("aup"), "GET", peek, "", denied),
        (queue("r"), "GET", "/queue?comp=metadata", "", ""),
        (queue("rau"), "GET", MESSAGES, "", denied),
        (queue("p"), "GET", MESSAGES, "", ""),
        (queue("rau"), "DELETE", MESSAGES, "", denied),
        (queue("p"), "DELETE", MESSAGES, "", ""),
        (queue("raup"), "GET", "/other/messages", "", "AuthenticationFailed"),
        (queue("raup"), "DELETE", "/queue", "", "AuthorizationFailure"),
        (queue("raup"), "GET", "/queue?comp=acl", "", "AuthorizationFailure"),
        (account("ss=q&srt=o&sp=a"), "POST", MESSAGES, body.as_str(), ""),
        (account("ss=q&srt=o&sp=r"), "GET", peek, "", ""),
        (account("ss=q&srt=o&sp=p"), "GET", MESSAGES, "", ""),
        (account("ss=q&srt=s&sp=l"), "GET", "/?comp=list", "", ""),
        (account("ss=q&srt=c&sp=c"), "PUT", "/third", "", ""),
        (account("ss=q&srt=s&sp=r"), "GET", "/?restype=service&comp=properties", "", ""),
        (account("ss=bt&srt=o&sp=r"), "GET", peek, "", "AuthorizationServiceMismatch"),
        (account("ss=q&srt=sc&sp=r"), "GET", peek, "", "AuthorizationResourceTypeMismatch"),
        (account("ss=q&srt=o&sp=w"), "GET", peek, "", denied),
        (account("ss=q&srt=sco&sp=rwdlacup"), "GET", "/queue?comp=acl", "", "AuthorizationFailure"),
    ] {
        let answer = send_with(&mut client, &query, method, target, body);
        assert_eq!(answer.code(), expected, "{method} {target} by {query}");
    }
    let forged = queue("r").replace("sp=r", "sp=rp");
    let answer = send_with(&mut client, &forged, "GET", MESSAGES, "");
    assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"));
    let answer = send_with(&mut client, "a=b", "GET", MESSAGES, "");
    assert_eq!((answer.status, answer.code()), (401, "NoAuthenticationInformation"));
}

#[tokio::test]
async fn a_sas_with_a_policy_ends_with_the_policy() {
    let (server, mut client) = started().await;
    let policy = |expiry: &str| {
        format!(
            "<SignedIdentifiers><SignedIdentifier><Id>readers</Id><AccessPolicy><Expiry>{expiry}\
             </Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier>\
             </SignedIdentifiers>"
        )
    };
    let set = |client: &mut Client, body: &str| send(client, "PUT", "/queue?comp=acl", body).status;
    assert_eq!(set(&mut client, &policy("2026-01-01T00:10:00Z")), 204);
    let query = signed(Some(Resource::Queue("queue")), "si=readers&sv=2019-02-02");
    let peek = "/queue/messages?peekonly=true";
    assert_eq!(send_with(&mut client, &query, "GET", peek, "").status, 200);
    assert_eq!(send_with(&mut client, &query, "GET", MESSAGES, "").status, 403);
    server.clock().advance(Duration::from_secs(600));
    assert_eq!(send_with(&mut client, &query, "GET", peek, "").code(), "AuthenticationFailed");
    assert_eq!(set(&mut client, &policy("2026-01-01T00:20:00Z")), 204);
    assert_eq!(send_with(&mut client, &query, "GET", peek, "").status, 200);
    assert_eq!(set(&mut client, ""), 204);
    assert_eq!(send_with(&mut client, &query, "GET", peek, "").code(), "AuthenticationFailed");
}

#[tokio::test]
async fn cors_rules_apply_to_preflight_and_actual_requests() {
    let (_server, mut client) = started().await;
    let rules = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a.example\
                 </AllowedOrigins><AllowedMethods>GET</AllowedMethods><AllowedHeaders>x-ms-*\
                 </AllowedHeaders><ExposedHeaders>x-ms-*</ExposedHeaders><MaxAgeInSeconds>9\
                 </MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";
    let set = send(&mut client, "PUT", "/?restype=service&comp=properties", rules);
    assert_eq!(set.status, 202);
    let mut preflight = |origin: &str| {
        let headers = [("origin", origin), ("access-control-request-method", "GET")];
        client.send("OPTIONS", MESSAGES, &headers, "")
    };
    let allowed = preflight("http://a.example");
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("access-control-max-age"), Some("9"));
    assert_eq!(preflight("http://b.example").code(), "CorsPreflightFailure");
    let answer = client.send("GET", MESSAGES, &[("origin", "http://a.example")], "");
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://a.example"));
}

#[tokio::test]
async fn metadata_names_keep_their_case() {
    let server = Server::start().await.unwrap();
    for (service, target) in [
        (Service::Queue, ["/spelled", "/spelled?comp=metadata", "/?comp=list&include=metadata"]),
        (
            Service::Blob,
            [
                "/spelled?restype=container",
                "/spelled?restype=container",
                "/?comp=list&include=metadata",
            ],
        ),
    ] {
        let mut client = Client::to(&server, service);
        let [create, read, list] = target;
        let created =
            client.send("PUT", create, &[("X-Ms-Meta-UP", "1"), ("x-ms-meta-MixedCase", "2")], "");
        assert_eq!(created.status, 201, "{created:?}");
        let names = |answer: &Answer| {
            let mut names: Vec<_> =
                answer.spelled.iter().filter(|name| name.contains("eta-")).cloned().collect();
            names.sort();
            names
        };
        // On the same connection and on another one, but not in the next response.
        for client in [&mut client, &mut Client::to(&server, service)] {
            let answer = client.send("HEAD", read, &[], "");
            assert_eq!(names(&answer), ["X-Ms-Meta-UP", "x-ms-meta-MixedCase"]);
            let listed = client.send("GET", list, &[], "").body;
            assert!(listed.contains("<MixedCase>2</MixedCase><UP>1</UP>"), "{listed}");
        }
    }
}
