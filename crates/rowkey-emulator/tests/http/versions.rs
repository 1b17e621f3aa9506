//! Behaviour that the documentation ties to a version: what an old version does not have is refused.

use rowkey_emulator::{DEVELOPMENT_KEY, Server, Service};
use rowkey_wire::auth::{Resource, Sas, SigningKey};

use crate::support::{Answer, Client};

const ENTITY: &str = "/things(PartitionKey='p',RowKey='r')";
/// The last version without upserts.
const OLD: (&str, &str) = ("x-ms-version", "2009-09-19");

async fn started() -> (Server, Client) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let mut client = Client::of(&server);
    client.create("things");
    (server, client)
}

fn refused(answer: &Answer, status: u16, code: &str, what: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{what}: {answer:?}");
}

/// Update Entity: "If the If-Match header is missing from the request in versions prior to 2011-08-18, the
/// service returns status code 400 (Bad Request)". Merge Entity says the same.
#[tokio::test]
async fn writes_without_a_condition_are_refused_before_upserts_existed() {
    let (_server, mut client) = started().await;
    let any = ("if-match", "*");
    let merge = ("x-http-method", "MERGE");
    for (method, more) in [
        ("PUT", &[OLD][..]),
        ("MERGE", &[OLD]),
        ("PATCH", &[OLD]),
        ("POST", &[OLD, merge]),
        ("PUT", &[OLD, ("x-ms-version", "2011-08-17")]),
    ] {
        let answer = client.send(method, ENTITY, more, r#"{"n":1}"#);
        refused(&answer, 400, "MissingRequiredHeader", method);
        let missing = client.send(method, ENTITY, &[more, &[any]].concat(), r#"{"n":1}"#);
        refused(&missing, 404, "ResourceNotFound", method);
    }
    let found = client.send("GET", ENTITY, &[OLD], "");
    refused(&found, 404, "ResourceNotFound", "nothing was written");
    assert_eq!(client.insert("things", ("p", "r"), "").status, 201);
    for method in ["PUT", "MERGE"] {
        assert_eq!(client.send(method, ENTITY, &[OLD, any], "{}").status, 204, "{method}");
    }
    for version in ["2011-08-18", "2026-10-06"] {
        for method in ["PUT", "MERGE", "PATCH"] {
            let answer = client.send(method, ENTITY, &[("x-ms-version", version)], "{}");
            assert_eq!(answer.status, 204, "{method} {version}");
        }
    }
    // The version of a batch is that of its request.
    let part = |method: &str, more: &str| {
        format!(
            "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n--changeset_c\r\n\
             Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             {method} /devstoreaccount1/things(PartitionKey='p',RowKey='new') HTTP/1.1\r\n\
             Content-Type: application/json\r\n{more}\r\n{{}}\r\n--changeset_c--\r\n--batch_b--\r\n"
        )
    };
    let kind = ("content-type", "multipart/mixed; boundary=batch_b");
    for method in ["PUT", "MERGE"] {
        let answer = client.send("POST", "/$batch", &[kind, OLD], &part(method, ""));
        assert!(answer.body.contains("HTTP/1.1 400 "), "{method}: {answer:?}");
        assert!(answer.body.contains("MissingRequiredHeader"), "{method}: {answer:?}");
        let answer = client.send("POST", "/$batch", &[kind], &part(method, ""));
        assert!(answer.body.contains("HTTP/1.1 204 "), "{method}: {answer:?}");
    }
}

/// Recorded: `test_operations_on_entity_with_partition_key_having_single_quote` of the official Python
/// library updated and merged `a''b` with `a''''b` in the body, and the service answered 204.
#[tokio::test]
async fn keys_in_the_body_that_contradict_the_address_are_passed_over() {
    let (_server, mut client) = started().await;
    let body = r#"{"PartitionKey":"other","RowKey":"other","n":1}"#;
    for (method, more) in [("PUT", &[][..]), ("MERGE", &[("if-match", "*")]), ("PATCH", &[])] {
        assert_eq!(client.send(method, ENTITY, more, body).status, 204, "{method}");
    }
    let none = [("accept", "application/json;odata=nometadata")];
    let all = client.send("GET", "/things()?$select=PartitionKey,RowKey,n", &none, "");
    assert_eq!(all.body, r#"{"value":[{"PartitionKey":"p","RowKey":"r","n":1}]}"#);
}

/// A query with a signature of the development account.
fn signed(terms: &str, resource: Resource<'_>) -> String {
    let sas = Sas::from_query(&format!("{terms}&sig=x")).unwrap();
    let key = SigningKey::from_base64(DEVELOPMENT_KEY).unwrap();
    let signature = key.sign(&sas.string_to_sign("devstoreaccount1", resource));
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("{terms}&sig={signature}")
}

#[tokio::test]
async fn a_signature_of_a_version_that_did_not_have_its_kind_is_refused() {
    let (server, mut client) = started().await;
    let mut queues = Client::to(&server, Service::Queue);
    assert_eq!(queues.send("PUT", "/jobs", &[], "").status, 201);
    let none = ("authorization", "");
    let end = "se=2026-01-02T00:00:00Z";
    for (version, status) in [("2012-02-12", 403), ("2015-02-21", 403), ("2015-04-05", 200)] {
        // Account signatures are there since 2015-04-05.
        let terms = format!("sv={version}&ss=bqt&srt=sco&sp=rl&{end}");
        let query = signed(&terms, Resource::Table(""));
        let answer = client.send("GET", &format!("/Tables?{query}"), &[none], "");
        assert_eq!(answer.status, status, "account, {version}: {answer:?}");
    }
    for (version, status) in [("2009-09-19", 403), ("2011-08-18", 403), ("2012-02-12", 200)] {
        // Signatures for tables and queues are there since 2012-02-12.
        let terms = format!("sv={version}&tn=things&sp=r&{end}");
        let query = signed(&terms, Resource::Table("things"));
        let answer = client.send("GET", &format!("/things()?{query}"), &[none], "");
        assert_eq!(answer.status, status, "table, {version}: {answer:?}");
        let query = signed(&format!("sv={version}&sp=r&{end}"), Resource::Queue("jobs"));
        let target = format!("/jobs/messages?peekonly=true&{query}");
        let answer = queues.send("GET", &target, &[none], "");
        assert_eq!(answer.status, status, "queue, {version}: {answer:?}");
    }
}

#[tokio::test]
async fn messages_and_blocks_have_the_limits_of_the_version() {
    let (server, _client) = started().await;
    let mut queues = Client::to(&server, Service::Queue);
    assert_eq!(queues.send("PUT", "/jobs", &[], "").status, 201);
    let message = |length: usize| {
        format!("<QueueMessage><MessageText>{}</MessageText></QueueMessage>", "a".repeat(length))
    };
    let xml = ("content-type", "application/xml");
    for (version, length, status) in [
        ("2009-09-19", 8 << 10, 201),
        ("2009-09-19", (8 << 10) + 1, 413),
        ("2011-08-18", (8 << 10) + 1, 201),
        ("2011-08-18", 64 << 10, 201),
        ("2026-10-06", (64 << 10) + 1, 413),
    ] {
        let version = ("x-ms-version", version);
        let answer = queues.send("POST", "/jobs/messages", &[version, xml], &message(length));
        assert_eq!(answer.status, status, "{version:?} {length}: {}", answer.body);
    }
    for (version, seconds, status) in [
        ("2009-09-19", 7_200, 200),
        ("2009-09-19", 7_201, 400),
        ("2011-08-18", 7_201, 200),
        ("2011-08-18", 604_801, 400),
    ] {
        let target = format!("/jobs/messages?visibilitytimeout={seconds}");
        let answer = queues.send("GET", &target, &[("x-ms-version", version)], "");
        assert_eq!(answer.status, status, "{version} {seconds}: {}", answer.body);
    }
    // Update Message and the delay of a new message came with 2011-08-18.
    let target = "/jobs/messages?visibilitytimeout=5";
    let answer = queues.send("POST", target, &[OLD, xml], &message(1));
    refused(&answer, 400, "UnsupportedQueryParameter", "a delay");
    let target =
        "/jobs/messages/7e1c9b2a-5f53-4d0e-9a55-3d8f5f6f9a01?popreceipt=x&visibilitytimeout=5";
    let answer = queues.send("PUT", target, &[OLD, xml], &message(1));
    refused(&answer, 405, "UnsupportedHttpVerb", "an update");

    let mut blobs = Client::to(&server, Service::Blob);
    assert_eq!(blobs.send("PUT", "/files?restype=container", &[], "").status, 201);
    let block = "a".repeat((4 << 20) + 1);
    for (version, status) in [("2015-12-11", 413), ("2016-05-31", 201)] {
        let target = "/files/b?comp=block&blockid=YQ%3D%3D";
        let answer = blobs.send("PUT", target, &[("x-ms-version", version)], &block);
        assert_eq!(answer.status, status, "{version}: {}", answer.body);
    }
    let whole = "a".repeat((64 << 20) + 1);
    let more = [("x-ms-version", "2015-12-11"), ("x-ms-blob-type", "BlockBlob")];
    let answer = blobs.send("PUT", "/files/whole", &more, &whole);
    refused(&answer, 413, "RequestBodyTooLarge", "a blob put at once");
}
