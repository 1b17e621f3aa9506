//! Who may use the control plane, and its end.

use std::io::ErrorKind;

use rowkey_control::{Options, Plane};
use rowkey_emulator::{Server, Service};

use crate::Control;

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_are_refused() {
    let control = Control::start().await;
    let own = control.plane.url().to_owned();
    for (headers, status) in [
        (&[("host", "evil.test")][..], 403),
        (&[("origin", "http://evil.test")], 403),
        (&[("origin", "null")], 403),
        (&[("origin", own.as_str())], 204),
        (&[("host", "localhost:1"), ("origin", "http://localhost:1")], 204),
    ] {
        let reply = control.send_with("POST", "/v1/reset", headers, b"");
        assert_eq!(reply.status, status, "{headers:?}");
        assert!(!reply.head.contains("access-control-allow"), "{}", reply.head);
    }
    let allowed = vec!["storage.test".to_owned()];
    let control = Control::with(Options { allowed_hosts: allowed, ..Options::default() }).await;
    assert_eq!(control.send_with("GET", "/v1/clock", &[("host", "storage.test")], b"").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_required_where_others_reach_the_control_plane() {
    let start = |token: Option<&str>| {
        let token = token.map(str::to_owned);
        let options = Options { host: "0.0.0.0".to_owned(), token, ..Options::default() };
        async { Plane::start(Server::start().await.unwrap(), options).await }
    };
    for none in [None, Some("")] {
        let refused = start(none).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("--control-token"), "{refused}");
    }
    for unusable in ["é", " x", "a b"] {
        let refused = start(Some(unusable)).await.unwrap_err();
        assert!(refused.to_string().contains("no header carries"), "{refused}");
    }
    // As in a compose file whose variable is not set.
    let empty = Options { token: Some(String::new()), ..Options::default() };
    assert_eq!(Control::with(empty).await.get("/v1/clock").status, 200);
    let control = Control { plane: start(Some("secret")).await.unwrap() };
    let with = |path: &str, token: &str| {
        let headers = [("authorization", token)];
        control.send_with("GET", path, &headers, b"")
    };
    let refused = with("/v1/clock", "Bearer other");
    assert_eq!(refused.status, 401);
    assert!(refused.head.contains("www-authenticate: bearer"), "{}", refused.head);
    assert!(!refused.detail().contains("secret"));
    assert_eq!(control.get("/v1/data/table/devstoreaccount1/Tables").status, 401);
    assert_eq!(with("/v1/clock", "Bearer secret").status, 200);
    assert_eq!(control.get("/health").status, 200);
    let fork = control.send_with("POST", "/v1/forks", &[("authorization", "Bearer secret")], b"");
    let fork = fork.json()["control"].as_str().unwrap().to_owned();
    assert_eq!(crate::send(&fork, "GET", "/v1/clock", &[], b"").status, 401);
    assert!(
        !format!("{:?}", Options { token: Some("secret".to_owned()), ..Options::default() })
            .contains("secret")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_the_server() {
    let control = Control::start().await;
    let endpoint = control.plane.server().table_endpoint().to_owned();
    assert_eq!(control.post("/v1/shutdown", "").status, 202);
    control.plane.shutdown_requested().await;
    control.plane.stop().await;
    assert!(std::net::TcpStream::connect(endpoint.split('/').nth(2).unwrap()).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_requests_by_operation_and_status() {
    let control = Control::start().await;
    let mut tables = control.client(Service::Table);
    tables.create("abc");
    control.done("DELETE", "/v1/journal", "");
    tables.send("POST", "/Tables", &[], r#"{"TableName":"abc"}"#);
    // A request ends a moment after its response.
    let expected = [
        r#"rowkey_server_requests_total{service="table",operation="CreateTable",status="201",fault="false"} 1"#,
        r#"rowkey_server_requests_total{service="table",operation="CreateTable",status="409",fault="false"} 1"#,
        "rowkey_server_tables 1",
    ];
    loop {
        let text = String::from_utf8(control.done("GET", "/metrics", "").body).unwrap();
        if expected.iter().all(|line| text.lines().any(|known| known == *line)) {
            return;
        }
        tokio::task::yield_now().await;
    }
}
