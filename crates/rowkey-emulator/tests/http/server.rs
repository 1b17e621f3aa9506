//! Server options: idle connections, addresses, `Debug` output.

use std::time::Duration;

use rowkey_emulator::{Server, Service};

use crate::support::Client;

#[tokio::test]
async fn idle_connections_are_closed_if_a_timeout_is_set() {
    let limit = Duration::from_millis(10);
    for service in [Service::Blob, Service::Queue, Service::Table] {
        let server = Server::builder().keep_alive_timeout(service, limit).start().await.unwrap();
        let mut client = Client::to(&server, service);
        let answer = client.send("GET", "/?restype=service&comp=properties", &[], "");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("keep-alive"), Some("timeout=0"));
        // Ends when the server closes the connection.
        assert_eq!(client.until_closed(), "");
    }
    let server = Server::start().await.unwrap();
    let answer = Client::of(&server).send("GET", "/Tables", &[], "");
    assert_eq!((answer.status, answer.header("keep-alive")), (200, None));
}

#[tokio::test]
async fn a_request_longer_than_the_idle_timeout_is_answered() {
    let limit = Duration::from_millis(1);
    let server = Server::builder().keep_alive_timeout(Service::Table, limit).start().await.unwrap();
    let table = "t".repeat(60);
    Client::of(&server).create(&table);
    // A response of some MiB, which the client reads in pieces.
    let value = "x".repeat(30_000);
    for row in 0..100 {
        let answer = Client::of(&server).insert(
            &table,
            ("p", &row.to_string()),
            &format!(",\"a\":\"{value}\""),
        );
        assert_eq!(answer.status, 201);
    }
    let answer = Client::of(&server).send("GET", &format!("/{table}()"), &[], "");
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() > 3_000_000, "{} bytes", answer.body.len());
}

#[tokio::test]
async fn debug_output_contains_no_key_and_no_data() {
    const KEY: &str = "c2VjcmV0c2VjcmV0";
    let builder =
        Server::builder().account("devstoreaccount1", [KEY, rowkey_emulator::DEVELOPMENT_KEY]);
    let shown = format!("{builder:?}");
    let server = builder.start().await.unwrap();
    let mut client = Client::of(&server);
    client.create("hidden");
    assert_eq!(client.insert("hidden", ("hidden", "hidden"), "").status, 201);
    assert!(server.connection_string().contains(KEY));
    let shown = format!("{shown}{server:?}{server:#?}");
    assert!(!shown.contains(KEY) && !shown.contains("AccountKey"), "{shown}");
    assert!(!shown.contains("hidden"), "{shown}");
    assert!(shown.contains(server.table_endpoint()), "{shown}");
}

#[tokio::test]
async fn an_invalid_account_key_is_rejected_with_the_account_name() {
    let builder = Server::builder().account("good", ["c2VjcmV0"]).account("contoso", ["%secret%"]);
    let error = builder.start().await.unwrap_err().to_string();
    assert!(error.starts_with("account contoso: ") && !error.contains("%secret%"), "{error}");
}

#[tokio::test]
async fn a_server_on_all_addresses_of_version_6_names_the_loopback_address() {
    // Not every machine supports IPv6.
    let Ok(server) = Server::builder().table("::", 0).start().await else { return };
    assert!(server.table_endpoint().starts_with("http://[::1]:"), "{}", server.table_endpoint());
    Client::of(&server).create("things");
}

#[tokio::test]
async fn hosts_select_accounts_if_enabled() {
    let server = Server::start().await.unwrap();
    let mut client = Client::of(&server);
    client.create("things");
    let host = [("host", "devstoreaccount1.localhost:1")];
    let answer = client.try_send_to("GET", "/things()", &host, "").unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let server = Server::builder().product_style(false).start().await.unwrap();
    let mut client = Client::of(&server);
    client.create("things");
    let answer = client.send("GET", "/things()", &host, "");
    assert_eq!(answer.status, 200, "{answer:?}");
}
