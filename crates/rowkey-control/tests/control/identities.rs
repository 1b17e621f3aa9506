//! The identities that get tokens.

use rowkey_control::{Options, Plane};
use rowkey_emulator::{Server, Service};
use serde_json::json;

use crate::Control;

#[tokio::test(flavor = "multi_thread")]
async fn roles_have_their_effect_at_once() {
    let server = Server::builder().issue_tokens().https().start().await.unwrap();
    let control = Control { plane: Plane::start(server, Options::default()).await.unwrap() };
    let reader =
        r#"{"clientId":"app","clientSecret":"s3cret","roles":["Storage Table Data Reader"]}"#;
    let added = control.done("POST", "/v1/identities", reader);
    let shown = added.json();
    assert_eq!(shown["roles"], json!([{"role": "Storage Table Data Reader", "scope": "/"}]));
    let list = control.done("GET", "/v1/identities", "");
    assert!(!format!("{added:?}{list:?}").contains("s3cret"), "a secret is shown");
    assert!(list.json()["authority"].is_string());
    assert_eq!(list.json()["identities"].as_array().unwrap().len(), 3);
    assert!(control.plane.server().token("app").is_some());
    control.done("DELETE", "/v1/identities/app", "");
    assert!(control.plane.server().token("app").is_none());
    for identity in control.plane.server().identities() {
        control.done("DELETE", &format!("/v1/identities/{}", identity.id()), "");
    }
    let fork = control.done("POST", "/v1/forks", "").json();
    let there = crate::send(fork["control"].as_str().unwrap(), "GET", "/v1/identities", &[], b"");
    assert_eq!(there.json()["identities"], json!([]), "a fork has those of its original");
    assert_eq!(control.send("DELETE", "/v1/identities/app", "").status, 404);
    let wrong = r#"{"clientId":"app","roles":["Owner"]}"#;
    assert_eq!(control.post("/v1/identities", wrong).status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_issues_no_tokens_has_no_identities() {
    let control = Control::start().await;
    let refused = control.post("/v1/identities", r#"{"clientId":"app","clientSecret":"s3cret"}"#);
    assert_eq!((refused.status, refused.detail().contains("--oauth issue")), (409, true));
    assert!(!refused.detail().contains("s3cret"));
    assert_eq!(control.send("DELETE", "/v1/identities/app", "").status, 409);
    assert_eq!(control.get("/v1/identities").json(), json!({"authority": null, "identities": []}));
    assert_eq!(control.client(Service::Table).send("GET", "/Tables", &[], "").status, 200);
}
