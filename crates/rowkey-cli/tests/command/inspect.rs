//! `rowkey inspect` and `rowkey stats`.

use rowkey::{DynamicEntity, StorageAccount, Table, Transaction};
use rowkey_emulator::Operation;
use serde_json::{Value, json};

use crate::support::Account;

fn orders(account: &Account) -> Table {
    let storage = StorageAccount::from_connection_string(account.server.connection_string());
    storage.unwrap().table("orders")
}

/// Stores rows of one partition.
async fn fill(table: &Table, rows: impl IntoIterator<Item = DynamicEntity>) -> u64 {
    let rows: Vec<_> = rows.into_iter().collect();
    for hundred in rows.chunks(100) {
        let all = hundred.iter().fold(table.transaction(), Transaction::insert);
        all.submit().await.unwrap();
    }
    rows.iter().map(|row| row.size() as u64).sum()
}

fn order(partition: &str, number: u32) -> DynamicEntity {
    let mut row = DynamicEntity::new(partition, format!("{number:06}"));
    row.set("Cents", i64::from(number));
    row
}

/// Two partitions whose rows differ.
async fn small() -> Account {
    let account = Account::with_orders().await;
    let table = orders(&account);
    fill(&table, (0..3).map(|number| order("contoso", number))).await;
    let mut note = DynamicEntity::new("fabrikam", "000007");
    note.set("Note", "größe");
    fill(&table, [note]).await;
    account
}

/// 3,000 orders, and a few rows of another form behind them.
async fn large() -> (Account, u64) {
    let account = Account::with_orders().await;
    let table = orders(&account);
    let mut bytes = 0;
    for shop in 0..15 {
        bytes += fill(&table, (0..200).map(|n| order(&format!("shop-{shop:02}"), n))).await;
    }
    let settings = ["currency", "language"].map(|name| {
        let mut row = DynamicEntity::new("~settings", name);
        row.set("Value", "x");
        row
    });
    bytes += fill(&table, settings).await;
    (account, bytes)
}

fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_table_is_inspected_whole_by_one_request() {
    let account = small().await;
    let sent = account.server.count_requests(Operation::QueryEntities);
    let found = object(&account.ok(["inspect", "orders", "--name", "Order"]));
    sent.check(1);
    let declaration = found["declaration"].as_str().unwrap().to_owned();
    assert!(declaration.contains("pub struct Order {"), "{declaration}");
    assert!(declaration.contains("row = \"{row:6}\""), "{declaration}");
    assert!(declaration.contains("pub cents: Option<i64>"), "{declaration}");
    let expected = json!({
        "table": "orders",
        "rows": 4,
        "complete": true,
        "unreadable": 0,
        "partition_keys": { "text": 4 },
        "row_keys": { "number:6": 4 },
        "properties": [
            { "name": "Cents", "types": { "Edm.Int64": 3 }, "absent": 1, "max_bytes": 8 },
            { "name": "Note", "types": { "Edm.String": 1 }, "absent": 3, "max_bytes": 10 },
        ],
        "declaration": declaration,
    });
    assert_eq!(found, expected);
    assert_eq!(object(&account.ok(["inspect", "orders", "--name", "Order", "--all"])), expected);

    let shown = account.ok(["inspect", "orders", "--output", "table"]);
    assert!(shown.starts_with("all 4 rows of orders\n"), "{shown}");
    assert!(shown.contains("│ Cents ") && shown.contains("pub struct Row {"), "{shown}");
    assert!(!shown.contains("contoso") && !shown.contains("größe"), "no values: {shown}");
    let csv = account.ok(["inspect", "orders", "--output", "csv"]);
    assert!(csv.contains("\nNote,Edm.String 1,3,10\n"), "{csv}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_has_rows_of_the_end_of_the_table_and_says_that_it_is_one() {
    let (account, _) = large().await;
    let before = account.server.journal();
    let found = object(&account.ok(["inspect", "orders", "--sample", "400"]));
    assert_eq!((&found["rows"], &found["complete"]), (&json!(400), &json!(false)));
    assert_eq!(found["properties"][1]["name"], "Value", "{found}");
    let queries = account.server.journal().since(&before).count(Operation::QueryEntities);
    assert!(queries <= 130, "{queries}");
    let shown = account.ok(["inspect", "orders", "--sample", "400", "--output", "table"]);
    assert!(shown.starts_with("a sample of 400 rows of orders\n"), "{shown}");
    let shown = account.ok(["stats", "orders", "--sample", "400", "--output", "table"]);
    assert!(shown.starts_with("a sample of 400 rows of orders: "), "{shown}");

    let all = object(&account.ok(["inspect", "orders", "--all"]));
    assert_eq!((&all["rows"], &all["complete"]), (&json!(3_002), &json!(true)));
    assert_eq!(all["properties"][1]["types"], json!({ "Edm.String": 2 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_have_the_bytes_that_the_service_counts_and_the_largest_partitions() {
    let account = small().await;
    let order = order("contoso", 0).size();
    let note = (4 + 2 * 8 + 2 * 6) + (8 + 2 * 4 + 4 + 2 * 5);
    let expected = json!({
        "table": "orders",
        "rows": 4,
        "complete": true,
        "unreadable": 0,
        "bytes": 3 * order + note,
        "partitions": 2,
        "most_rows": [{ "partition_key": "contoso", "rows": 3, "bytes": 3 * order }],
        "most_bytes": [{ "partition_key": "contoso", "rows": 3, "bytes": 3 * order }],
        "properties": [
            { "name": "Cents", "types": { "Edm.Int64": 3 }, "bytes": 24 },
            { "name": "Note", "types": { "Edm.String": 1 }, "bytes": 14 },
        ],
    });
    for rows in [&[][..], &["--all"], &["--sample", "4"]] {
        let args = ["stats", "orders", "--top", "1"];
        assert_eq!(object(&account.ok(args.iter().chain(rows))), expected, "{rows:?}");
    }
    let csv = account.ok(["stats", "orders", "--output", "csv"]);
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines[0], "item,name,type,rows,bytes");
    assert_eq!(lines[1], format!("table,,,4,{}", 3 * order + note));
    assert_eq!(lines[3], format!("partition,fabrikam,,1,{note}"));
    assert_eq!(lines[5], "property,Note,Edm.String,1,");
    let shown = account.ok(["stats", "orders", "--output", "table"]);
    assert!(shown.contains("│ most rows in partition") && shown.contains("Edm.Int64 3"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_rows_of_a_large_table_are_counted_exactly_and_in_ranges() {
    let (account, bytes) = large().await;
    let table = orders(&account);
    let largest = fill(&table, (0..1_200).map(|number| order("m", number))).await;
    let before = account.server.journal();
    let found = object(&account.ok(["stats", "orders", "--all", "--top", "2"]));
    assert_eq!((&found["rows"], &found["partitions"]), (&json!(4_202), &json!(17)));
    assert_eq!((&found["bytes"], &found["complete"]), (&json!(bytes + largest), &json!(true)));
    let first = json!({ "partition_key": "m", "rows": 1_200, "bytes": largest });
    assert_eq!((&found["most_rows"][0], &found["most_bytes"][0]), (&first, &first));
    // Of partitions of one size, that whose key comes first.
    assert_eq!(found["most_rows"][1]["partition_key"], "shop-00");
    assert_eq!(found["most_rows"].as_array().map(Vec::len), Some(2));
    // One range would send five requests.
    let queries = account.server.journal().since(&before).count(Operation::QueryEntities);
    assert!((6..=5 + 24 + 16).contains(&queries), "{queries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_names_counts_and_tables_are_refused() {
    let account = Account::with_orders().await;
    for name in ["order", "Self", "7A", "A-B", ""] {
        let error = account.fails(2, ["inspect", "orders", "--name", name]);
        assert!(error.contains("not the name of a type"), "{error}");
    }
    for command in ["inspect", "stats"] {
        account.fails(2, [command, "orders", "--sample", "0"]);
        account.fails(2, [command, "orders", "--sample", "5", "--all"]);
        for rows in [&[][..], &["--all"]] {
            let error = account.fails(3, [command, "absent"].iter().chain(rows));
            assert!(error.contains("absent") && error.contains("`rowkey tables`"), "{error}");
        }
    }
    account.fails(2, ["stats", "orders", "--top", "0"]);
    let empty = object(&account.ok(["stats", "orders"]));
    assert_eq!((&empty["rows"], &empty["most_rows"]), (&json!(0), &json!([])));
}
