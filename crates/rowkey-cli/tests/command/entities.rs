//! `rowkey get`, `set`, `patch` and `delete`.

use std::fs;

use crate::support::{Account, member};

const ORDER: &str =
    r#"{"PartitionKey":"contoso","RowKey":"7","Cents":{"Edm.Int64":"995"},"Note":"new"}"#;
const GET: [&str; 4] = ["get", "orders", "contoso", "7"];

/// An entity with a value of each type, at its limits where it has some.
const TYPES: &str = concat!(
    r#"{"PartitionKey":"types","RowKey":"1","Binary":{"Edm.Binary":"AP8="},"Boolean":true,"#,
    r#""Date":{"Edm.DateTime":"1601-01-01T00:00:00Z"},"Double":{"Edm.Double":"NaN"},"#,
    r#""Guid":{"Edm.Guid":"c9da6455-213d-42c9-9a79-3e9149a57833"},"Int32":-2147483648,"#,
    r#""Int64":{"Edm.Int64":"9223372036854775807"},"String":""}"#
);

/// A line without its Timestamp.
fn timeless(line: &str) -> String {
    let (before, rest) = line.split_once("\"Timestamp\":\"").unwrap();
    format!("{before}{}", rest.split_once("\",").unwrap().1)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_is_set_read_changed_and_deleted() {
    let account = Account::with_orders().await;
    let set = account.ok(["set", "orders", ORDER]);
    assert_eq!(member(&set, "table"), "orders");
    assert!(member(&set, "etag").starts_with("W/"), "{set}");
    assert_eq!(timeless(&account.ok(GET)), format!("{ORDER}\n"));

    account.ok(["patch", "orders", r#"{"PartitionKey":"contoso","RowKey":"7","Note":"paid"}"#]);
    assert_eq!(timeless(&account.ok(GET)), format!("{}\n", ORDER.replace("new", "paid")));
    // A replaced entity has the new properties alone.
    account.ok(["set", "orders", r#"{"PartitionKey":"contoso","RowKey":"7","A":1}"#]);
    let replaced = "{\"PartitionKey\":\"contoso\",\"RowKey\":\"7\",\"A\":1}\n";
    assert_eq!(timeless(&account.ok(GET)), replaced);

    let deleted = account.ok(["delete", "orders", "contoso", "7", "--yes"]);
    assert_eq!(deleted, "{\"table\":\"orders\",\"deleted\":true}\n");
    account.fails(3, GET);
    account.fails(3, ["delete", "orders", "contoso", "7", "--yes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_types_come_back_exactly_from_an_argument_a_file_and_stdin() {
    let account = Account::with_orders().await;
    let get = ["get", "orders", "types", "1"];
    account.ok(["set", "orders", TYPES]);
    assert_eq!(timeless(&account.ok(get)), format!("{TYPES}\n"));

    fs::write(account.path("types.json"), TYPES.replace(",\"", ",\n  \"")).unwrap();
    account.ok(["set", "orders", "@types.json", "--if-match", "*"]);
    assert_eq!(timeless(&account.ok(get)), format!("{TYPES}\n"));

    // The output of one table is the input of another one.
    account.ok(["tables", "create", "archive"]);
    let line = account.ok(get);
    assert_eq!(account.fed(&line, ["set", "archive", "-", "--insert"]).code, 0);
    let copied = account.ok(["get", "archive", "types", "1"]);
    assert_eq!(timeless(&copied), format!("{TYPES}\n"));

    let csv = account.ok(["get", "orders", "types", "1", "--output", "csv"]);
    assert!(
        csv.contains(",Int64,Int64@type,") && csv.contains(",9223372036854775807,Int64,"),
        "{csv}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_keys_are_written_read_and_deleted() {
    let account = Account::with_orders().await;
    for (partition, row) in [
        ("", ""),
        ("it's", "\"quoted\""),
        ("größe €", "日本語 🦀"),
        ("a b&c=d", "100%+$@:,~"),
        ("-p", "--row"),
    ] {
        let entity = serde_json::json!({ "PartitionKey": partition, "RowKey": row, "A": 1 });
        account.ok(["set", "orders", &entity.to_string()]);
        let line = account.ok(["get", "orders", "--json", "--", partition, row]);
        assert_eq!((&*member(&line, "PartitionKey"), &*member(&line, "RowKey")), (partition, row));
        assert_eq!(account.ok(["query", "orders", &format!("--partition={partition}")]), line);
        account.ok(["delete", "orders", "--yes", "--", partition, row]);
        account.fails(3, ["get", "orders", "--", partition, row]);
    }
    // The service has no such keys.
    for key in ["a/b", "a\\b", "a#b", "a?b", "a\nb"] {
        let error = account.fails(2, ["get", "orders", "p", key]);
        assert!(error.contains("keys must not contain") && !error.contains(key), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_form_shows_types_the_etag_and_no_control_characters() {
    let account = Account::with_orders().await;
    account.ok(["set", "orders", r#"{"PartitionKey":"p","RowKey":"r","A":"x\u001b[31my","B":""}"#]);
    let shown = account.ok(["get", "orders", "p", "r", "--output", "table"]);
    for expected in ["ETag", "W/\"datetime", "x\\u{1b}[31my", "Edm.String", "\"\""] {
        assert!(shown.contains(expected), "{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etag_guards_set_patch_and_delete() {
    let account = Account::with_orders().await;
    account.ok(["set", "orders", ORDER]);
    let stored = account.ok(["get", "orders", "contoso", "7", "--etag"]);
    let etag = member(&stored, "etag");
    assert!(stored.starts_with(&format!("{{\"entity\":{ORDER},\"etag\":")), "{stored}");
    account.fails(2, ["get", "orders", "contoso", "7", "--etag", "--output", "csv"]);

    account.ok(["set", "orders", ORDER, "--if-match", &etag]);
    for stale in [
        &["set", "orders", ORDER][..],
        &["patch", "orders", ORDER],
        &["delete", "orders", "contoso", "7"],
    ] {
        let error = account.fails(4, stale.iter().copied().chain(["--if-match", &etag]));
        assert!(error.contains("changed since it was read"), "{error}");
    }
    // The current ETag needs no confirmation.
    let etag = member(&account.ok(["get", "orders", "contoso", "7", "--etag"]), "etag");
    account.ok(["delete", "orders", "contoso", "7", "--if-match", &etag]);
    account.fails(3, ["set", "orders", ORDER, "--if-match", "*"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn insert_fails_if_there_is_one_and_patch_if_there_is_none() {
    let account = Account::with_orders().await;
    account.fails(3, ["patch", "orders", ORDER]);
    account.ok(["patch", "orders", ORDER, "--upsert"]);
    let error = account.fails(4, ["set", "orders", ORDER, "--insert"]);
    assert!(error.contains("InsertEntity on orders: it exists already"), "{error}");
    assert!(error.contains("leave --insert out"), "{error}");
    account.fails(2, ["set", "orders", ORDER, "--insert", "--if-match", "*"]);
    account.fails(2, ["patch", "orders", ORDER, "--upsert", "--if-match", "*"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_is_not_deleted_without_an_etag_or_a_confirmation() {
    let account = Account::with_orders().await;
    account.ok(["set", "orders", ORDER]);
    for more in [&[][..], &["--if-match", "*"]] {
        let error = account.fails(2, ["delete", "orders", "contoso", "7"].iter().chain(more));
        assert!(error.contains("add --yes, or --if-match ETAG"), "{error}");
    }
    account.ok(GET);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_entities_stop_at_the_first_failure_and_say_how_many_were_written() {
    let account = Account::with_orders().await;
    let line = |row: &str| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}\n");
    account.ok(["set", "orders", &line("2")]);
    let input = [line("1"), line("2"), line("3")].concat();
    let done = account.fed(&input, ["set", "orders", "-", "--insert"]);
    assert_eq!((done.code, done.out.lines().count()), (4, 1), "{done:?}");
    assert!(done.err.contains("entity 2 of 3, after 1 were written: InsertEntity"), "{done:?}");

    // One that is no entity is found before anything is written.
    let done = account.fed(&(line("8") + "{\"RowKey\":\"9\"}"), ["set", "orders", "-"]);
    assert_eq!((done.code, &*done.out), (2, ""));
    assert!(done.err.contains("entity 2: PartitionKey"), "{done:?}");
    account.fails(3, ["get", "orders", "p", "8"]);

    let error = account.fails(2, ["set", "orders", &input, "--if-match", "W/\"x\""]);
    assert!(error.contains("the input has 3"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_is_no_entity_is_wrong_usage_and_is_not_quoted() {
    let account = Account::with_orders().await;
    for input in ["", "{", "hidden", r#"{"PartitionKey":"hidden","RowKey":7}"#, "[\"hidden\"]"] {
        let error = account.fails(2, ["set", "orders", input]);
        assert!(error.contains("entity") && !error.contains("hidden"), "{error}");
    }
    let error = account.fails(1, ["set", "orders", "@absent.json"]);
    assert!(error.contains("absent.json cannot be read"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_in_messages_only_with_show_keys() {
    let account = Account::with_orders().await;
    let entity = r#"{"PartitionKey":"hidden","RowKey":"row9"}"#;
    for args in [
        &["get", "orders", "hidden", "row9"][..],
        &["delete", "orders", "hidden", "row9", "--yes"],
        &["patch", "orders", entity],
    ] {
        let error = account.fails(3, args);
        assert!(!error.contains("hidden") && !error.contains("row9"), "{error}");
        let error = account.fails(3, args.iter().copied().chain(["--show-keys"]));
        assert!(error.contains("(PartitionKey \"hidden\", RowKey \"row9\")"), "{error}");
    }
    assert!(!account.ok(["set", "orders", entity]).contains("hidden"));
    let set = account.ok(["set", "orders", entity, "--show-keys"]);
    assert_eq!((&*member(&set, "partition_key"), &*member(&set, "row_key")), ("hidden", "row9"));
    let deleted = account.ok(["delete", "orders", "hidden", "row9", "--yes", "--show-keys"]);
    assert_eq!(member(&deleted, "row_key"), "row9");
}
