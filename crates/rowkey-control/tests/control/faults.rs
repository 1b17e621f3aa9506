//! Faults, which outlive the request that made them.

use rowkey_emulator::Service;
use serde_json::json;

use crate::Control;

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_injected_listed_and_removed() {
    let control = Control::start().await;
    let mut tables = control.client(Service::Table);
    tables.create("orders");
    let fault =
        r#"{"operation":"InsertEntity","resource":"orders","times":1,"action":"closeAfterCommit"}"#;
    let injected = control.post("/v1/faults", fault);
    assert_eq!(injected.status, 201);
    assert!(injected.head.contains("location: /v1/faults/1\r\n"), "{}", injected.head);
    let expected = json!({
        "id": 1, "hits": 0, "held": 0,
        "fault": {"operation": "InsertEntity", "resource": "orders", "times": 1, "action": "closeAfterCommit"},
    });
    assert_eq!(injected.json(), expected);
    assert_eq!(control.get("/v1/faults").json(), json!({"faults": [expected]}));

    let row = r#"{"PartitionKey":"a","RowKey":"1"}"#;
    let lost = tables.try_send_at("devstoreaccount1", "POST", "/orders", &[], row);
    lost.unwrap_err();
    let mut tables = control.client(Service::Table);
    assert_eq!(tables.send("POST", "/orders", &[], row).code(), "EntityAlreadyExists");
    assert_eq!(control.get("/v1/faults/1").json()["hits"], 1);
    let entries = control.get("/v1/journal?operation=InsertEntity").json()["entries"].clone();
    assert_eq!((&entries[0]["status"], &entries[0]["committed"]), (&json!(null), &json!(true)));
    assert_eq!((&entries[0]["fault"], &entries[1]["fault"]), (&json!(1), &json!(null)));
    assert_eq!(
        (&entries[1]["status"], &entries[1]["code"]),
        (&json!(409), &json!("EntityAlreadyExists"))
    );

    assert_eq!(control.send("DELETE", "/v1/faults/1", "").status, 204);
    let gone = control.get("/v1/faults/1");
    assert_eq!((gone.status, gone.detail().contains("GET /v1/faults")), (404, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn held_requests_are_released_or_discarded() {
    let control = Control::start().await;
    let create = |name: &str| {
        let (name, mut tables) = (name.to_owned(), control.client(Service::Table));
        std::thread::spawn(move || {
            let body = format!(r#"{{"TableName":"{name}"}}"#);
            tables.try_send_at("devstoreaccount1", "POST", "/Tables", &[], &body)
        })
    };
    control.done("POST", "/v1/faults", r#"{"operation":"CreateTable","action":"hold"}"#);
    let released = create("released");
    let held = control.get("/v1/faults/1/wait?held=1");
    assert_eq!((held.status, &held.json()["held"]), (200, &json!(1)));
    control.done("POST", "/v1/faults/1/release", "");
    assert_eq!(released.join().unwrap().unwrap().status, 201);
    control.done("DELETE", "/v1/faults/1", "");

    control.done("POST", "/v1/faults", r#"{"operation":"CreateTable","action":"hold"}"#);
    let discarded = create("discarded");
    control.done("GET", "/v1/faults/2/wait?held=1", "");
    control.done("DELETE", "/v1/faults/2?discard=true", "");
    discarded.join().unwrap().unwrap_err();

    control.done("POST", "/v1/faults", r#"{"operation":"CreateTable","action":"hold"}"#);
    let cleared = create("cleared");
    control.done("GET", "/v1/faults/3/wait?hits=1", "");
    control.done("DELETE", "/v1/faults", "");
    assert_eq!(cleared.join().unwrap().unwrap().status, 201);

    let tables = control.client(Service::Table).send("GET", "/Tables", &[], "").body;
    assert!(tables.contains("released") && tables.contains("cleared"), "{tables}");
    assert!(!tables.contains("discarded"), "{tables}");
    assert_eq!(control.get("/v1/faults").json(), json!({"faults": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn held_requests_are_not_executed_after_a_reset() {
    let control = Control::start().await;
    control.done("POST", "/v1/faults", r#"{"operation":"CreateTable","action":"hold"}"#);
    let mut tables = control.client(Service::Table);
    let held = std::thread::spawn(move || {
        tables.try_send_at("devstoreaccount1", "POST", "/Tables", &[], r#"{"TableName":"late"}"#)
    });
    control.done("GET", "/v1/faults/1/wait?held=1", "");
    control.done("POST", "/v1/reset", "");
    held.join().unwrap().unwrap_err();
    assert_eq!(control.plane.server().snapshot().tables().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_request_whose_client_leaves_ends_in_the_journal() {
    let control = Control::start().await;
    control.done("POST", "/v1/faults", r#"{"operation":"QueryTables","action":"hold"}"#);
    let mut requests = control.plane.server().follow_journal(None);
    let address = control.plane.server().table_endpoint().split('/').nth(2).unwrap().to_owned();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    let request = format!("GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: {address}\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    control.done("GET", "/v1/faults/1/wait?held=1", "");
    drop(stream);
    let entry = requests.next().await.unwrap();
    assert_eq!((entry.status(), entry.fault()), (None, Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_fault_that_no_request_meets_ends() {
    let control = Control::start().await;
    control.done("POST", "/v1/faults", r#"{"operation":"GetBlob","action":"hold"}"#);
    let late = control.get("/v1/faults/1/wait?hits=1&timeoutMs=10");
    assert_eq!((late.status, late.detail().contains("has met 0 requests")), (408, true));
    let (url, waiting) = (control.plane.url().to_owned(), "/v1/faults/1/wait?hits=1");
    let waiting = std::thread::spawn(move || crate::send(&url, "GET", waiting, &[], b""));
    // The wait begins before or after the removal, and ends with either.
    control.done("DELETE", "/v1/faults/1", "");
    let removed = waiting.join().unwrap();
    assert!([404, 409].contains(&removed.status), "{removed:?}");
    control.done("POST", "/v1/faults", r#"{"operation":"GetBlob","action":"hold"}"#);
    for wrong in ["", "?held=2", "?hits=1&held=1", "?hits=1&timeoutMs=900000", "?hit=1", "?hits=x"]
    {
        assert_eq!(control.get(&format!("/v1/faults/2/wait{wrong}")).status, 400, "{wrong}");
    }
    assert_eq!(control.get("/v1/faults/9/wait?hits=1").status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_fault_is_refused_with_its_reason() {
    let control = Control::start().await;
    for (fault, why) in [
        ("", "missing field `action`"),
        ("{", "EOF while parsing"),
        (r#"{"action":"hold","operation":"Insert"}"#, "unknown variant `Insert`"),
        (r#"{"action":{"reject":"Busy"}}"#, "Busy is no error code"),
        (r#"{"action":"hold","nth":0}"#, "counts from 1"),
    ] {
        let refused = control.post("/v1/faults", fault);
        assert_eq!(refused.status, 400);
        assert!(refused.detail().contains(why), "{fault}: {refused:?}");
    }
    assert_eq!(control.get("/v1/faults").json(), json!({"faults": []}));
}
