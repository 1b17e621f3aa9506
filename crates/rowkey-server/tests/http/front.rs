//! What a request is refused for by its head: repeated headers and parameters, hosts of others,
//! signatures that do not match. And what a sender who is not known may make the server hold.

use rowkey_server::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Server};
use rowkey_wire::auth::sas::Resource;
use rowkey_wire::auth::{Sas, Service, SigningKey};

use crate::support::{Answer, Client};

const ACCOUNT: &str = DEVELOPMENT_ACCOUNT;

async fn started() -> (Server, Client) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let mut client = Client::of(&server);
    client.create("things");
    (server, client)
}

/// A signature that reads `things`.
fn sas() -> String {
    let granted = "sv=2019-02-02&tn=things&sp=r&se=2026-01-02T00:00:00Z&sig=";
    let mut sas = Sas::from_query(granted).unwrap();
    let key = SigningKey::from_base64(DEVELOPMENT_KEY).unwrap();
    sas.sign(&key, ACCOUNT, Resource::Table("things"));
    sas.encode()
}

/// A GET without an `Authorization` header.
fn get(client: &mut Client, target: &str, headers: &str) -> Answer {
    let request = format!("GET /{ACCOUNT}{target} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    client.raw(request.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_refusal_quotes_the_string_to_sign_and_no_signature_of_its_own() {
    let (server, mut client) = started().await;
    let wrong = ("authorization", "SharedKey devstoreaccount1:AAAA");
    let mac = "The MAC signature found in the HTTP request 'AAAA' is not the same as any computed \
               signature. Server used following string to sign: 'GET";
    // JSON and XML of tables, which have no element for it.
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

    // Queues and blobs have an element.
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
async fn control_characters_of_a_request_do_not_break_the_refusal() {
    let (server, _client) = started().await;
    let mut client = Client::to(&server, Service::Blob);
    let answer = client.send("GET", "/c/b?a=%01%0A", &[("authorization", "SharedKey a:b")], "");
    assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"));
    let wrong = ("authorization", "SharedKey devstoreaccount1:AAAA");
    let answer = client.send("GET", "/c/b?a=%01x", &[wrong], "");
    assert!(answer.body.contains("a:\u{FFFD}x'"), "{}", answer.body);
}

#[tokio::test]
async fn the_secondary_of_python_is_found_and_its_signatures_match() {
    let (_server, mut client) = started().await;
    let target = format!("/{ACCOUNT}/?restype=service&comp=stats");
    let secondary = format!("{ACCOUNT}-secondary");
    let answer = client.send_at(&secondary, "GET", &target, &[("accept", "")], "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body.contains("<GeoReplication><Status>live</Status>"), "{}", answer.body);
    // The library signs the path that it has before it puts the secondary's name there.
    let signed = client.signed("GET", "/?restype=service&comp=stats", &[("accept", "")], "");
    let moved = signed.replacen("GET /", &format!("GET /{secondary}/"), 1);
    assert_eq!(client.raw(moved.as_bytes()).unwrap().status, 200);
    let answer = client.send_at(&secondary, "GET", &format!("/{ACCOUNT}/things()"), &[], "");
    assert_eq!(answer.status, 200, "{}", answer.body);
}
