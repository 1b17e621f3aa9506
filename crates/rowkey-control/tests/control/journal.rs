//! The journal: listed, filtered, followed, cleared.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use rowkey_emulator::Service;
use serde_json::{Value, json};

use crate::Control;

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_listed_by_what_they_are_about() {
    let control = Control::start().await;
    let mut tables = control.client(Service::Table);
    tables.create("orders");
    tables.create("lines");
    tables.send("GET", "/orders", &[], "");
    control.client(Service::Queue).send("GET", "/?comp=list", &[], "");
    let count = |query: &str| {
        let reply = control.get(&format!("/v1/journal{query}"));
        assert_eq!(reply.status, 200, "{query}");
        let json = reply.json();
        (json["received"].as_u64().unwrap(), json["entries"].as_array().unwrap().len())
    };
    for (query, expected) in [
        ("", 4),
        ("?operation=CreateTable", 2),
        ("?service=queue", 1),
        ("?about=orders", 1),
        ("?committed=true", 2),
        ("?committed=false&service=table", 1),
        ("?since=3", 1),
        ("?limit=2", 2),
        ("?limit=0", 0),
        ("?account=devstoreaccount1&limit=100", 4),
        ("?account=other", 0),
    ] {
        assert_eq!(count(query), (4, expected), "{query}");
    }
    for wrong in ["?operation=Create", "?services=table", "?since=-1", "?committed=yes"] {
        assert_eq!(control.get(&format!("/v1/journal{wrong}")).status, 400, "{wrong}");
    }
    control.done("DELETE", "/v1/journal", "");
    assert_eq!(count(""), (4, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_shows_the_rule_and_the_string_to_sign() {
    let control = Control::start().await;
    let mut tables = control.client(Service::Table);
    let forged = "SharedKey devstoreaccount1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let refused = tables.send("GET", "/Tables", &[("authorization", forged)], "");
    assert_eq!(refused.code(), "AuthenticationFailed");
    let reply = control.get("/v1/journal");
    let entry = &reply.json()["entries"][0];
    assert_eq!(entry["code"], "AuthenticationFailed");
    assert_eq!(entry["rule"], "the Shared Key signature does not match");
    let text = entry["stringToSign"].as_str().unwrap();
    assert!(
        text.starts_with("GET\n") && text.ends_with("/devstoreaccount1/devstoreaccount1/Tables")
    );
    assert!(!String::from_utf8_lossy(&reply.body).contains("AAAAAAAAAA"), "no signature is shown");
}

/// The events of a response, as their ids and data.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(control: &Control, query: &str, last: Option<&str>) -> Self {
        let address = control.plane.url().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let last = last.map_or_else(String::new, |last| format!("Last-Event-ID: {last}\r\n"));
        let request =
            format!("GET /v1/journal/events{query} HTTP/1.1\r\nHost: {address}\r\n{last}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(stream));
        while !events.line().is_empty() {}
        events
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the response ended");
        line.trim_end().to_owned()
    }

    fn next(&mut self) -> (String, Value) {
        let mut id = String::new();
        loop {
            let line = self.line();
            if let Some(of) = line.strip_prefix("id: ") {
                of.clone_into(&mut id);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data).unwrap();
                // The id may follow.
                if id.is_empty() {
                    self.line().strip_prefix("id: ").unwrap().clone_into(&mut id);
                }
                return (id, data);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_followed_as_they_end() {
    let control = Control::start().await;
    let mut tables = control.client(Service::Table);
    tables.create("before");
    let mut events = Events::open(&control, "?service=table", None);
    control.client(Service::Queue).send("GET", "/?comp=list", &[], "");
    tables.create("after");
    let (id, entry) = events.next();
    assert_eq!((&entry["number"], &entry["status"]), (&json!(3), &json!(201)));
    tables.send("GET", "/Tables", &[], "");
    assert_eq!(events.next().1["operation"], "QueryTables");
    let mut again = Events::open(&control, "", Some(&id));
    assert_eq!(again.next().1["operation"], "QueryTables");
    let wrong = control.send_with("GET", "/v1/journal/events", &[("last-event-id", "x")], b"");
    assert_eq!(wrong.status, 400);
    assert_eq!(control.get("/v1/journal/events?limit=1").status, 400);
    // Followers do not keep the server from ending.
    control.plane.stop().await;
}
