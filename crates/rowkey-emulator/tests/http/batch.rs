//! Entity group transactions over a socket: all or nothing, and the response to each part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{Answer, Client};
use rowkey_emulator::Server;

const ACCOUNT: &str = "devstoreaccount1";

async fn started() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let mut client = Client::of(&server);
    client.create("things");
    (server, client)
}

fn part(method: &str, target: &str, headers: &str, body: &str) -> String {
    format!(
        "--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
         \r\n{method} http://localhost/{ACCOUNT}{target} HTTP/1.1\r\n\
         Content-Type: application/json\r\n{headers}\r\n{body}\r\n"
    )
}

fn insert(row_key: &str, value: usize) -> String {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row_key}","v":{value}}}"#);
    part("POST", "/things", "Prefer: return-no-content\r\n", &body)
}

fn send(client: &mut Client, parts: &[String]) -> Answer {
    let body = format!(
        "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n{}\
         --changeset_c--\r\n--batch_b--\r\n",
        parts.concat()
    );
    let kind = ("content-type", "multipart/mixed; boundary=batch_b");
    client.send("POST", "/$batch", &[kind, ("accept", "*/*")], &body)
}

fn statuses(answer: &Answer) -> Vec<&str> {
    answer.body.split("HTTP/1.1 ").skip(1).map(|rest| &rest[..3]).collect()
}

#[tokio::test]
async fn every_part_is_answered_in_order() {
    let (_server, mut client) = started().await;
    client.insert("things", ("p", "old"), "");
    let address = |row: &str| format!("/things(PartitionKey='p',RowKey='{row}')");
    let answer = send(
        &mut client,
        &[
            insert("a", 1),
            part("POST", "/things", "Content-ID: 7\r\n", r#"{"PartitionKey":"p","RowKey":"b"}"#),
            part("MERGE", &address("c"), "", "{\"x\":1}"),
            part("DELETE", &address("old"), "If-Match: *\r\n", ""),
        ],
    );
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(statuses(&answer), ["204", "201", "204", "204"]);
    assert!(answer.body.contains("HTTP/1.1 201 Created\r\nContent-ID: 7\r\n"), "{}", answer.body);
    assert!(answer.body.contains("\"RowKey\":\"b\""));
    assert_eq!(client.send("GET", &address("old"), &[], "").status, 404);
    assert!(client.send("GET", &address("c"), &[], "").body.contains("\"x\":1"));
}

#[tokio::test]
async fn a_failure_is_one_part_with_its_number_and_nothing_else_happens() {
    let (_server, mut client) = started().await;
    client.insert("things", ("p", "taken"), "");
    let missing = part("DELETE", "/things(PartitionKey='p',RowKey='none')", "If-Match: *\r\n", "");
    let elsewhere = part("POST", "/none", "", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    let other = part("POST", "/things", "", r#"{"PartitionKey":"q","RowKey":"r"}"#);
    let broken = part("POST", "/things", "", "{");
    let too_many: Vec<_> = (0..101).map(|i| insert(&i.to_string(), i)).collect();
    let cases: &[(&[String], &str, &str, &str)] = &[
        (&[insert("a", 1), insert("taken", 1)], "409", "EntityAlreadyExists", "\"1:The"),
        (&[insert("taken", 1)], "409", "EntityAlreadyExists", "\"The specified"),
        (&[insert("a", 1), insert("a", 2)], "400", "InvalidDuplicateRow", "\"1:The batch"),
        (&[insert("a", 1), insert("b", 1), missing], "404", "ResourceNotFound", "\"2:The"),
        (&[elsewhere], "404", "TableNotFound", "\"0:The table"),
        (&[insert("a", 1), other], "400", "CommandsInBatchActOnDifferentPartitions", "\"1:All"),
        (&[insert("a", 1), broken], "400", "InvalidInput", "\"1:An error"),
        (&too_many, "400", "InvalidInput", "\"99:The batch request operation exceeds"),
    ];
    for (parts, status, code, message) in cases {
        let answer = send(&mut client, parts);
        assert_eq!(answer.status, 202);
        assert_eq!(statuses(&answer), [*status], "{code}");
        assert_eq!(answer.code(), *code);
        assert!(answer.body.contains(message), "{message} {}", answer.body);
    }
    let all = client.send("GET", "/things()", &[], "").body;
    assert_eq!(all.matches("\"RowKey\"").count(), 1, "{all}");
}

#[tokio::test]
async fn a_query_may_be_alone_in_a_batch() {
    let (_server, mut client) = started().await;
    client.insert("things", ("p", "r"), "");
    let query = |row: &str| {
        format!(
            "--batch_b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             GET /{ACCOUNT}/things(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\n\r\n\r\n--batch_b--\r\n"
        )
    };
    let kind = ("content-type", "multipart/mixed; boundary=batch_b");
    let found = client.send("POST", "/$batch", &[kind], &query("r"));
    assert_eq!(statuses(&found), ["200"], "{found:?}");
    assert!(found.body.contains("\"RowKey\":\"r\""));
    let missing = client.send("POST", "/$batch", &[kind], &query("x"));
    assert_eq!(statuses(&missing), ["404"]);
    assert!(missing.body.contains("\"0:The specified resource"), "{}", missing.body);
}

/// A hundred rows always change together. A client that reads them meanwhile must not see old and
/// new rows in one page, however long the page takes.
#[tokio::test]
async fn no_page_shows_half_a_transaction() {
    let (server, mut client) = started().await;
    let replace = |value: usize| -> Vec<String> {
        (0..100)
            .map(|i| {
                let target = format!("/things(PartitionKey='p',RowKey='{i:03}')");
                part("PUT", &target, "", &format!("{{\"v\":{value}}}"))
            })
            .collect()
    };
    assert_eq!(statuses(&send(&mut client, &replace(0))).len(), 100);
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (mut client, done) = (Client::of(&server), Arc::clone(&done));
        thread::spawn(move || {
            let mut pages = 0;
            while !done.load(Ordering::Relaxed) {
                let accept = ("accept", "application/json;odata=nometadata");
                let body = client.send("GET", "/things()", &[accept], "").body;
                let mut values = body.split("\"v\":").skip(1).map(|v| v.split('}').next());
                let first = values.next();
                assert!(values.all(|value| Some(value) == first), "{body}");
                pages += 1;
            }
            pages
        })
    };
    for value in 1..40 {
        send(&mut client, &replace(value));
    }
    done.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 0);
}
