//! The clock, request rates, pages and the secondary.

use rowkey_emulator::Service;
use serde_json::json;

use crate::Control;

#[tokio::test(flavor = "multi_thread")]
async fn hidden_messages_are_visible_after_the_clock_is_advanced() {
    let control = Control::start().await;
    let mut queues = control.client(Service::Queue);
    assert_eq!(queues.send("PUT", "/work", &[], "").status, 201);
    let text = "<QueueMessage><MessageText>a</MessageText></QueueMessage>";
    assert_eq!(queues.send("POST", "/work/messages?visibilitytimeout=60", &[], text).status, 201);
    control.done("POST", "/v1/clock/freeze", "");
    let hidden = control.get("/v1/queues/devstoreaccount1/work").json();
    assert_eq!(hidden["messages"][0]["state"], "hidden");
    assert_eq!(hidden["messages"][0]["text"], "a");
    assert!(
        !queues.send("GET", "/work/messages?peekonly=true", &[], "").body.contains("<MessageId>")
    );

    let before = control.get("/v1/clock").json();
    assert_eq!(before["frozen"], true);
    control.done("POST", "/v1/clock/advance", r#"{"seconds":60.5}"#);
    assert!(
        queues.send("GET", "/work/messages?peekonly=true", &[], "").body.contains("<MessageId>")
    );
    let visible = control.get("/v1/queues/devstoreaccount1/work").json();
    assert_eq!(visible["messages"][0]["state"], "visible");
    let after = control.done("POST", "/v1/clock/follow", "").json();
    assert_eq!(after["frozen"], false);
    assert!(after["now"].as_str() > before["now"].as_str(), "{before} {after}");
    for wrong in [r#"{"seconds":-1}"#, r#"{"seconds":1e300}"#, r#"{"minutes":1}"#, ""] {
        assert_eq!(control.post("/v1/clock/advance", wrong).status, 400, "{wrong}");
    }
    assert_eq!(control.get("/v1/queues/devstoreaccount1/nothing").status, 404);
    assert_eq!(control.get("/v1/queues/unknown/work").status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn throttling_is_set_and_ended() {
    let control = Control::start().await;
    let mut tables = control.client(Service::Table);
    assert_eq!(control.get("/v1/throttle").json(), json!({"targets": null}));
    let set = control.done("PUT", "/v1/throttle", r#"{"requestsPerAccount":0}"#).json();
    let expected =
        json!({"requestsPerAccount": 0, "entitiesPerPartition": 2000, "messagesPerQueue": 2000});
    assert_eq!(set, json!({"targets": expected}));
    let busy = tables.send("GET", "/Tables", &[], "");
    assert_eq!(
        (busy.status, busy.code(), busy.header("retry-after")),
        (503, "ServerBusy", Some("1"))
    );
    // The owner is not throttled.
    control.done("GET", "/v1/data/table/devstoreaccount1/Tables", "");
    control.done("DELETE", "/v1/throttle", "");
    assert_eq!(tables.send("GET", "/Tables", &[], "").status, 200);
    assert_eq!(control.send("PUT", "/v1/throttle", r#"{"requests":1}"#).status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_cut_by_a_seed() {
    let control = Control::start().await;
    let mut tables = control.client(Service::Table);
    for name in 0..40 {
        tables.create(&format!("t{name:02}"));
    }
    control.done("PUT", "/v1/pages", r#"{"seed":1}"#);
    let cut = (0..10).any(|_| {
        tables.send("GET", "/Tables", &[], "").header("x-ms-continuation-nexttablename").is_some()
    });
    let shown = control.get("/v1/pages").json();
    assert!(cut && shown["cuts"].as_u64() > Some(0), "{shown}");
    assert_eq!(
        shown["pages"],
        json!({"seed": 1, "cut": true, "empty": true, "partitionOnly": true})
    );
    let whole = control.done("GET", "/v1/data/table/devstoreaccount1/Tables", "").json();
    assert_eq!(whole["value"].as_array().unwrap().len(), 40, "the owner's pages are whole");
    control.done("DELETE", "/v1/pages", "");
    assert_eq!(control.get("/v1/pages").json(), json!({"pages": null, "cuts": 0}));
    assert_eq!(control.send("PUT", "/v1/pages", "{}").status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secondary_is_held_back_and_catches_up() {
    let control = Control::start().await;
    let mut tables = control.client(Service::Table);
    let on_secondary = |control: &Control| {
        let mut secondary = control.client(Service::Table);
        let answer = secondary.send_at("devstoreaccount1-secondary", "GET", "/Tables", &[], "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body.contains("later")
    };
    for _ in 0..2 {
        assert_eq!(control.done("PUT", "/v1/secondary", "").json()["heldBack"], true);
    }
    tables.create("later");
    assert!(!on_secondary(&control));
    assert!(control.get("/v1/secondary").json()["since"].is_string());
    control.done("DELETE", "/v1/secondary", "");
    assert!(on_secondary(&control));
    assert_eq!(control.get("/v1/secondary").json(), json!({"heldBack": false}));
}
