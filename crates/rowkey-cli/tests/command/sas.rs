//! `rowkey sas`: what is made grants what it says and no more, and what is read is not shown.

use rowkey_emulator::Operation;
use serde_json::{Value, json};

use crate::support::{Account, Done, finish, member, program};

const SIGNATURE: &str = "c2lnbmF0dXJlIG9mIHRoZSB0ZXN0cw==";

/// A run whose account is that of a connection string with a signature.
fn with(account: &Account, connection: &str, args: &[&str]) -> Done {
    let mut command = program(&account.folder);
    finish(command.env("ROWKEY_CONNECTION_STRING", connection.trim()).args(args))
}

fn made(account: &Account, args: &[&str]) -> String {
    let last = ["--expires", "1h", "--as", "connection-string"];
    account.ok(["sas"].iter().chain(args).chain(&last))
}

fn entity(partition: &str, row: &str) -> String {
    json!({ "PartitionKey": partition, "RowKey": row }).to_string()
}

async fn filled() -> Account {
    let account = Account::with_orders().await;
    for (partition, row) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1")] {
        account.ok(["set", "orders", &entity(partition, row)]);
    }
    account
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_for_a_table_permits_its_letters_alone() {
    let account = filled().await;
    let reads = made(&account, &["table", "orders", "--permissions", "r"]);
    let got = with(&account, &reads, &["get", "orders", "a", "1"]);
    assert_eq!(got.code, 0, "{got:?}");
    assert_eq!(with(&account, &reads, &["set", "orders", &entity("a", "9")]).code, 5);
    let adds = made(&account, &["table", "orders", "--permissions", "ua"]);
    assert_eq!(with(&account, &adds, &["set", "orders", &entity("a", "9")]).code, 0);
    assert_eq!(with(&account, &adds, &["get", "orders", "a", "1"]).code, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_keys_has_both_ends() {
    let account = filled().await;
    for (flags, expected) in [
        (&["--partition", "b"][..], 2),
        (&["--from-partition", "b"], 3),
        (&["--to-partition", "a"], 2),
        (&["--from-partition", "a", "--to-partition", "b"], 4),
        (&["--from-partition", "a", "--from-row", "2", "--to-partition", "b", "--to-row", "1"], 2),
        (&["--from-partition", "a", "--from-row", "2", "--to-partition", "b"], 3),
        (&["--from-partition", "a", "--from-row", "2"], 4),
        (&["--from-partition", "a", "--to-partition", "b", "--to-row", "1"], 3),
        (&["--to-partition", "b", "--to-row", "1"], 3),
        (&["--partition", "a", "--from-row", "2"], 1),
        (&["--partition", "a", "--to-row", "1"], 1),
        (&["--partition", "it's & co"], 0),
    ] {
        let connection =
            made(&account, &[&["table", "orders", "--permissions", "r"], flags].concat());
        let done = with(&account, &connection, &["query", "orders", "--scan"]);
        assert_eq!((done.code, done.out.lines().count()), (0, expected), "{flags:?} {done:?}");
    }
    for wrong in [
        &["--from-row", "1"][..],
        &["--to-row", "1"],
        &["--partition", "a", "--from-partition", "a"],
        &["--partition", "a/b"],
    ] {
        let table = ["sas", "table", "orders", "--permissions", "r", "--expires", "1h"];
        account.fails(2, table.iter().chain(wrong));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_for_queues_blobs_and_accounts_are_accepted() {
    let account = filled().await;
    account.ok(["queue", "create", "jobs"]);
    let puts = made(&account, &["queue", "jobs", "--permissions", "a"]);
    assert_eq!(with(&account, &puts, &["queue", "put", "jobs", "x"]).code, 0);
    assert_eq!(with(&account, &puts, &["queue", "peek", "jobs"]).code, 5);

    let lists = ["account", "--services", "tq", "--resource-types", "c", "--permissions", "l"];
    let lists = made(&account, &lists);
    let tables = with(&account, &lists, &["tables"]);
    assert_eq!(tables.out, "{\"table\":\"orders\"}\n", "{tables:?}");
    assert_eq!(with(&account, &lists, &["get", "orders", "a", "1"]).code, 5);

    for (args, path) in [
        (&["container", "files", "--permissions", "rl"][..], "/files?"),
        (&["blob", "files", "a/b c.txt", "--permissions", "r"], "/files/a/b%20c.txt?"),
    ] {
        let last = ["--expires", "1h", "--as", "url"];
        let url = account.ok(["sas"].iter().chain(args).chain(&last));
        assert!(url.contains(path) && url.contains("&sig="), "{url}");
        let token =
            account.ok(["sas"].iter().chain(args).chain(&["--expires", "1h", "--as", "token"]));
        assert!(token.starts_with("sv="), "{token}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_made_signature_has_warnings_and_every_term() {
    let account = filled().await;
    let before = account.server.journal();
    let table = ["sas", "table", "orders", "--permissions", "r"];
    let expires = ["--expires", "2099-01-01T00:00:00Z", "--start", "2026-01-01T01:00:00+01:00"];
    let ip = ["--ip", "203.0.113.0-203.0.113.255", "--allow-http", "--json"];
    let line = account.ok(table.iter().chain(&expires).chain(&ip));
    let token = member(&line, "token");
    for part in [
        "se=2099-01-01T00%3A00%3A00Z",
        "st=2026-01-01T00%3A00%3A00Z",
        "sip=203.0.113.0-203.0.113.255",
    ] {
        assert!(token.contains(part), "{token}");
    }
    assert!(member(&line, "url").ends_with(&token));
    let warnings = serde_json::from_str::<Value>(&line).unwrap()["warnings"].to_string();
    assert!(warnings.contains("cannot be revoked") && warnings.contains("all keys"), "{warnings}");
    let shown = account.ok(table.iter().chain(&["--expires", "1h", "--output", "table"]));
    assert!(shown.contains("sig="), "{shown}");
    // A line for each, with the name before the first one.
    assert!(shown.contains("\nwarnings           it is valid over http"), "{shown}");
    assert!(shown.contains("\n                   it opens all keys"), "{shown}");
    let by_policy = account.ok(["sas", "table", "orders", "--policy", "readers", "--as", "token"]);
    assert!(by_policy.contains("si=readers") && !by_policy.contains("se="), "{by_policy}");
    // Nothing was sent.
    assert_eq!(account.server.journal().since(&before).count(Operation::QueryEntities), 0);

    for wrong in [
        &["--expires", "soon"][..],
        &["--expires", "1h", "--start", "1h"],
        &["--expires", "1h", "--ip", "office"],
        &["--expires", "1h", "--ip", "203.0.113.9-203.0.113.1"],
        &["--expires", "2026-01-01T00:00:00Z", "--start", "2026-01-02T00:00:00Z"],
        &[],
    ] {
        account.fails(2, table.iter().chain(wrong));
    }
    let error = account.fails(2, ["sas", "table", "orders", "--permissions", "rx"]);
    assert!(error.contains("`raud`"), "{error}");
    let error = account.fails(2, ["sas", "table", "orders", "--expires", "1h"]);
    assert!(error.contains("no permissions"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_the_key_cannot_sign() {
    let account = filled().await;
    let reads = made(&account, &["table", "orders", "--permissions", "r"]);
    let sign = ["sas", "table", "orders", "--permissions", "r", "--expires", "1h"];
    let done = with(&account, &reads, &sign);
    assert_eq!((done.code, &*done.out), (2, ""));
    assert!(done.err.contains("this connection has no account key"), "{done:?}");
    assert!(done.err.contains("use a connection string with AccountKey"), "{done:?}");
    assert!(done.err.contains("user_delegation_key"), "{done:?}");
    // What is wrong besides is said first where there is a key.
    let error = account.fails(2, ["sas", "table", "orders", "--permissions", "r"]);
    assert!(!error.contains("no account key"), "{error}");
    assert!(!done.err.contains("sig="), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_is_explained_and_not_shown() {
    let account = Account::start().await;
    let token = format!(
        "sv=2019-02-02&tn=orders&sp=ra&st=2020-01-01T00%3A00%3A00Z&se=2020-01-02T00%3A00%3A00Z&spr=https\
         &sip=203.0.113.7&spk=a&srk=1&epk=m&sig={}",
        SIGNATURE.replace('=', "%3D")
    );
    let expected = json!({
        "resource": "table", "table": "orders", "letters": "ra", "permits": "read, add", "valid": "expired",
        "starts": "2020-01-01T00:00:00Z", "expires": "2020-01-02T00:00:00Z", "ip": "203.0.113.7",
        "protocol": "https", "from_partition": "a", "from_row": "1", "to_partition": "m", "to_row": null,
        "policy": null, "signed_with": "account key", "version": "2019-02-02",
    });
    for input in [
        format!("{token}\n"),
        format!("https://shop.table.core.windows.net/orders?{token}"),
        format!("TableEndpoint=https://shop.table.core.windows.net;SharedAccessSignature={token}"),
    ] {
        let done = account.fed(&input, ["sas", "read"]);
        assert_eq!(done.code, 0, "{done:?}");
        let explained: Value = serde_json::from_str(&done.out).unwrap();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(explained[name], *value, "{name}");
        }
        assert!(explained["warnings"][0].as_str().unwrap().contains("expired"), "{explained}");
    }
    for form in ["table", "csv", "json-lines"] {
        let done = account.fed(&token, ["sas", "read", "--output", form]);
        assert!(done.out.contains("read, add"), "{done:?}");
        assert!(!done.out.contains(&SIGNATURE[..20]) && !done.out.contains("sig="), "{done:?}");
    }
    let mut from_env = program(&account.folder);
    from_env.env("TOKEN", &token).args(["sas", "read", "--from-env", "TOKEN"]);
    assert!(finish(&mut from_env).out.contains("\"table\":\"orders\""));

    for input in ["", SIGNATURE, "AccountName=shop;Key=x"] {
        let done = account.fed(input, ["sas", "read"]);
        assert_eq!((done.code, &*done.out), (2, ""), "{done:?}");
        assert!(done.err.contains("stdin: ") && !done.err.contains(&SIGNATURE[..20]), "{done:?}");
    }
    account.fails(2, ["sas", "read", "--from-env", "UNSET"]);
    let error = account.fails(2, ["sas", "read", &token]);
    assert!(error.contains("--from-env") && !error.contains(&SIGNATURE[..20]), "{error}");
}
