//! The OpenAPI document, compared with what the control plane answers.

use serde_json::Value;

use crate::Control;

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_request_has_a_route_and_its_methods_only() {
    let control = Control::start().await;
    let document = control.done("GET", "/openapi.json", "").json();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 20, "{paths:?}");
    for (path, operations) in paths {
        let filled = path
            .replace("{id}", "999")
            .replace("{account}", "devstoreaccount1")
            .replace("{queue}", "none");
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH"] {
            let is_documented = operations.get(method.to_ascii_lowercase()).is_some();
            if is_documented && (path == "/v1/shutdown" || path == "/v1/journal/events") {
                continue;
            }
            let reply = control.send(method, &filled, "");
            assert_eq!(reply.status == 405, !is_documented, "{method} {path}: {reply:?}");
            if reply.status == 404 {
                assert!(!reply.detail().contains("no resource"), "{method} {path}");
            }
        }
    }
}

/// Every reference in a part of the document leads to something.
fn check(part: &Value, document: &Value) {
    match part {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            members.values().for_each(|member| check(member, document));
        }
        Value::Array(items) => items.iter().for_each(|item| check(item, document)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reference_of_the_document_is_declared() {
    let control = Control::start().await;
    let document = control.done("GET", "/openapi.json", "").json();
    check(&document, &document);
    let operations = &document["components"]["schemas"]["Operation"]["enum"];
    assert!(operations.as_array().unwrap().iter().any(|name| name == "InsertEntity"));
    for operation in document["paths"].as_object().unwrap().values() {
        for described in operation.as_object().unwrap().values() {
            assert!(described["responses"]["default"].is_object(), "{described}");
        }
    }
}
