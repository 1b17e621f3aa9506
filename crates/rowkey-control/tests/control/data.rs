//! Requests to the services as the owner.

use rowkey_emulator::Service;
use serde_json::json;

use crate::Control;

const TABLE: &str = "/v1/data/table/devstoreaccount1";

#[tokio::test(flavor = "multi_thread")]
async fn entities_are_written_and_read_without_a_signature() {
    let control = Control::start().await;
    let json = [("content-type", "application/json"), ("accept", "application/json")];
    let send = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let headers = [&json[..], headers].concat();
        control.send_with(method, &format!("{TABLE}{path}"), &headers, body.as_bytes())
    };
    assert_eq!(send("POST", "/Tables", &[], r#"{"TableName":"orders"}"#).status, 201);
    let row = r#"{"PartitionKey":"a/b","RowKey":"1","N":1}"#;
    // A fault on everything, and a signature of another server: neither concerns the owner.
    control.done("POST", "/v1/faults", r#"{"action":"closeBeforeCommit"}"#);
    let invalid = send("POST", "/orders", &[("authorization", "SharedKey a:b")], row);
    assert_eq!(invalid.status, 400, "a key has no slash: {invalid:?}");
    let row = row.replace("a/b", "a b");
    let inserted = send("POST", "/orders", &[("authorization", "SharedKey a:b")], &row);
    assert_eq!(inserted.status, 201, "{inserted:?}");
    let etag = inserted.json()["odata.etag"].as_str().unwrap().to_owned();
    let key = "/orders(PartitionKey='a%20b',RowKey='1')";
    let conflict = send("MERGE", key, &[("if-match", "W/\"other\"")], r#"{"N":2}"#);
    assert_eq!(conflict.status, 412);
    assert_eq!(send("MERGE", key, &[("if-match", &etag)], r#"{"N":2}"#).status, 204);
    assert_eq!(send("GET", key, &[], "").json()["N"], 2);
    assert_eq!(control.get("/v1/journal").json()["received"], 0);
    assert_eq!(control.get("/v1/faults/1").json()["hits"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_blobs_go_through() {
    let control = Control::start().await;
    let blob = "/v1/data/blob/devstoreaccount1/files";
    control.done("PUT", &format!("{blob}?restype=container"), "");
    let large: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    let put = [("x-ms-blob-type", "BlockBlob")];
    let path = format!("{blob}/large.bin");
    assert_eq!(control.send_with("PUT", &path, &put, &large).status, 201);
    let read = control.done("GET", &path, "");
    assert!(read.body == large);
    // A blob of HTML is no page of the control plane.
    assert!(read.head.contains("content-security-policy: sandbox;"), "{}", read.head);
    assert!(read.head.contains("cross-origin-resource-policy: same-origin"), "{}", read.head);
    assert_eq!(control.client(Service::Blob).send("HEAD", "/files/large.bin", &[], "").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_lead_nowhere_are_problems() {
    let control = Control::start().await;
    for path in ["/v1/data/files/a/b", "/v1/data/table", "/v1", "/v1/nothing", "/v1/data/"] {
        let reply = control.get(path);
        assert_eq!((reply.status, reply.detail().contains("GET /")), (404, true), "{path}");
    }
    assert_eq!(control.get("/v1/data/table/unknown/Tables").status, 404);
    let wrong = control.send("PATCH", "/v1/clock", "");
    assert_eq!((wrong.status, wrong.detail().contains("/openapi.json")), (405, true));
    assert_eq!(control.get("/health").json(), json!({"status": "ok"}));
}
