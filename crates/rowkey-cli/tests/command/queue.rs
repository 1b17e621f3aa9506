//! `rowkey queue`.

use std::fs;

use rowkey_emulator::{ErrorCode, Fault, Operation};
use serde_json::{Value, json};

use crate::support::{Account, member};

/// A member of each line that is peeked.
fn peeked(account: &Account, name: &str) -> Vec<Value> {
    let lines = account.ok(["queue", "peek", "jobs"]);
    let objects = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    objects.map(|object| object[name].clone()).collect()
}

async fn with_jobs() -> Account {
    let account = Account::start().await;
    account.ok(["queue", "create", "jobs"]);
    account
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_created_listed_counted_and_deleted() {
    let account = Account::start().await;
    let created = account.ok(["queue", "create", "jobs"]);
    assert_eq!(created, "{\"queue\":\"jobs\",\"created\":true}\n");
    account.ok(["queue", "create", "mails"]);
    account.ok(["queue", "put", "jobs", "1"]);
    account.ok(["queue", "put", "jobs", "2", "--hidden-for", "1h"]);
    assert_eq!(account.ok(["queue", "list"]), "{\"queue\":\"jobs\"}\n{\"queue\":\"mails\"}\n");
    assert_eq!(account.ok(["queue", "list", "--prefix", "m"]), "{\"queue\":\"mails\"}\n");
    let csv = account.ok(["queue", "list", "--count", "--output", "csv"]);
    assert_eq!(csv, "queue,approximate_messages\njobs,2\nmails,0\n");

    let error = account.fails(4, ["queue", "create", "jobs"]);
    assert!(error.contains("it exists already") && error.contains("add --if-missing"), "{error}");
    let found = account.ok(["queue", "create", "jobs", "--if-missing"]);
    assert_eq!(found, "{\"queue\":\"jobs\",\"created\":false}\n");

    let deleted = account.ok(["queue", "delete", "jobs", "--yes"]);
    assert_eq!(deleted, "{\"queue\":\"jobs\",\"deleted\":true}\n");
    let error = account.fails(3, ["queue", "delete", "jobs", "--yes"]);
    assert!(error.contains("jobs") && error.contains("`rowkey queue list`"), "{error}");
    let absent = account.ok(["queue", "delete", "jobs", "--yes", "--if-exists"]);
    assert_eq!(absent, "{\"queue\":\"jobs\",\"deleted\":false}\n");
    account.fails(3, ["queue", "peek", "jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_shown_as_they_are_stored_and_decoded_if_they_are_base64() {
    let account = with_jobs().await;
    let json = "{\"order\":7}";
    let put = account.ok(["queue", "put", "jobs", json]);
    assert_eq!(member(&put, "queue"), "jobs");
    account.ok(["queue", "put", "jobs", "größe", "--base64"]);
    fs::write(account.path("bytes"), [0xFF, 0xFE, 0]).unwrap();
    account.ok(["queue", "put", "jobs", "@bytes", "--base64"]);
    assert_eq!(account.fed("two\nlines\n", ["queue", "put", "jobs", "-"]).code, 0);
    account.ok(["queue", "put", "jobs", "--", "-5"]);

    let texts = json!([json, "Z3LDtsOfZQ==", "//4A", "two\nlines\n", "-5"]);
    assert_eq!(Value::from(peeked(&account, "text")), texts);
    let decoded = json!([null, "größe", null, null, null]);
    assert_eq!(Value::from(peeked(&account, "decoded")), decoded);
    assert_eq!(peeked(&account, "id")[0], member(&put, "id"));
    // A look changes nothing.
    assert_eq!(Value::from(peeked(&account, "dequeue_count")), json!([0, 0, 0, 0, 0]));
    assert_eq!(account.ok(["queue", "peek", "jobs", "--limit", "2"]).lines().count(), 2);
    let table = account.ok(["queue", "peek", "jobs", "--output", "table"]);
    assert!(table.contains("two\\nlines\\n") && table.contains("größe"), "{table}");
    for limit in ["0", "33"] {
        account.fails(2, ["queue", "peek", "jobs", "--limit", limit]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_can_be_hidden_and_live_for_ever() {
    let account = with_jobs().await;
    let put = account.ok(["queue", "put", "jobs", "a", "--ttl", "never", "--hidden-for", "1h"]);
    let put: Value = serde_json::from_str(&put).unwrap();
    assert_eq!(put["expires"], Value::Null);
    assert_eq!(account.ok(["queue", "peek", "jobs"]), "");
    let put = account.ok(["queue", "put", "jobs", "b", "--ttl", "2d"]);
    assert!(!member(&put, "expires").is_empty());

    for wrong in [["--ttl", "2"], ["--ttl", "always"], ["--hidden-for", "10"]] {
        account.fails(2, ["queue", "put", "jobs", "c"].into_iter().chain(wrong));
    }
    let late = ["queue", "put", "jobs", "c", "--ttl", "1h", "--hidden-for", "1h"];
    let error = account.fails(2, late);
    assert!(error.contains("would expire"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_stored_is_refused_and_not_quoted() {
    let account = with_jobs().await;
    fs::write(account.path("bytes"), b"hidden \xFF").unwrap();
    let error = account.fails(2, ["queue", "put", "jobs", "@bytes"]);
    assert!(error.contains("bytes is not UTF-8; add --base64"), "{error}");
    let error = account.fails(2, ["queue", "put", "jobs", "hidden \u{1}"]);
    assert!(error.contains("base64") && !error.contains("hidden"), "{error}");
    fs::write(account.path("long"), "x".repeat(65_537)).unwrap();
    account.fails(2, ["queue", "put", "jobs", "@long"]);
    let error = account.fails(1, ["queue", "put", "jobs", "@absent"]);
    assert!(error.contains("absent cannot be read"), "{error}");
    assert_eq!(account.ok(["queue", "peek", "jobs"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_a_message_is_an_unknown_outcome() {
    let account = with_jobs().await;
    let lost = account.server.inject(Fault::on(Operation::PutMessage).close_after_commit());
    let error = account.fails(7, ["queue", "put", "jobs", "a", "--timeout", "5"]);
    assert!(error.contains("whether it was applied is unknown"), "{error}");
    drop(lost);
    let busy = Fault::on(Operation::PeekMessages).reject(ErrorCode::SERVER_BUSY);
    let _busy = account.server.inject(busy);
    account.fails(6, ["queue", "peek", "jobs", "--timeout", "1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_not_deleted_without_a_confirmation() {
    let account = with_jobs().await;
    account.ok(["queue", "put", "jobs", "a"]);
    account.ok(["queue", "put", "jobs", "b", "--hidden-for", "1h"]);
    for args in [["queue", "clear", "jobs"], ["queue", "delete", "jobs"]] {
        let error = account.fails(2, args);
        assert!(error.contains("queue jobs") && error.contains("add --yes"), "{error}");
    }
    assert_eq!(Value::from(peeked(&account, "text")), json!(["a"]));
    let cleared = account.ok(["queue", "clear", "jobs", "--yes"]);
    assert_eq!(cleared, "{\"queue\":\"jobs\",\"cleared\":true}\n");
    let counted = account.ok(["queue", "list", "--count"]);
    assert_eq!(counted, "{\"queue\":\"jobs\",\"approximate_messages\":0}\n");
    account.fails(3, ["queue", "clear", "absent", "--yes"]);
}
