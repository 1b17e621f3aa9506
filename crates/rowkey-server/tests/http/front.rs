//! What a request is told by its head.

use rowkey_server::{DEVELOPMENT_ACCOUNT, Server};

use crate::support::Client;

const ACCOUNT: &str = DEVELOPMENT_ACCOUNT;

async fn started() -> (Server, Client) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let mut client = Client::of(&server);
    client.create("things");
    (server, client)
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
