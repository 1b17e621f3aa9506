//! `rowkey query` and `rowkey count`.

use std::fs;
use std::time::Duration;

use futures_util::stream;
use rowkey::patterns::job::Job;
use rowkey::{DynamicEntity, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::{Account, member};

/// A table with two partitions of three entities.
async fn filled() -> Account {
    let account = Account::with_orders().await;
    let keys = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3)];
    let lines: Vec<_> = keys
        .map(|(partition, row)| {
            format!(
                "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"N\":{row},\"Note\":\"n{row}\"}}"
            )
        })
        .into();
    let lines = lines.join("\n");
    assert_eq!(account.fed(&lines, ["set", "orders", "-"]).code, 0);
    account
}

/// The keys of the entities in lines of JSON.
fn keys(lines: &str) -> Vec<String> {
    lines.lines().map(|line| member(line, "PartitionKey") + &member(line, "RowKey")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_a_filter_and_a_limit_narrow_the_result() {
    let account = filled().await;
    let query = |args: &[&str]| keys(&account.ok(["query", "orders"].iter().chain(args)));
    assert_eq!(query(&["--partition", "a"]), ["a1", "a2", "a3"]);
    assert_eq!(query(&["--partition", "a", "N gt 1"]), ["a2", "a3"]);
    assert_eq!(query(&["PartitionKey eq 'b' and RowKey ge '2'"]), ["b2", "b3"]);
    assert_eq!(query(&["--partition", "b", "--limit", "2"]), ["b1", "b2"]);
    assert_eq!(query(&["N eq 2", "--scan"]), ["a2", "b2"]);
    assert_eq!(query(&["--scan"]).len(), 6);
    assert_eq!(query(&["--partition", "absent"]), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_has_the_keys_and_the_named_properties() {
    let account = filled().await;
    let line =
        account.ok(["query", "orders", "--partition=a", "N eq 1", "--select", "Note,Absent"]);
    assert!(line.ends_with(",\"Note\":\"n1\"}\n") && !line.contains("\"N\":"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn entities_are_written_as_csv_and_as_a_table() {
    let account = filled().await;
    let csv = account.ok(["query", "orders", "--partition", "a", "--output", "csv"]);
    assert!(
        csv.starts_with("PartitionKey,RowKey,Timestamp,N,N@type,Note,Note@type\r\na,1,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 4);
    let table = account.ok(["query", "orders", "--partition", "a", "--output", "table"]);
    assert!(table.contains("│ PartitionKey ┆ RowKey ┆ Timestamp"), "{table}");
    assert!(table.contains(" ┆ 3 ┆ n3   │"), "{table}");
    let none = account.ok(["query", "orders", "--partition", "x", "--output", "table"]);
    assert_eq!(none, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_scan_needs_a_flag_and_sends_nothing_without_it() {
    let account = filled().await;
    let sent = account.server.count_requests(Operation::QueryEntities);
    for filter in [&[][..], &["N eq 2"], &["PartitionKey eq 'a' or PartitionKey eq 'b'"]] {
        let error = account.fails(2, ["query", "orders"].iter().chain(filter));
        assert!(error.contains("query on orders"), "{error}");
        assert!(error.contains("add --partition KEY, or allow it by --scan"), "{error}");
    }
    sent.check(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_the_request_and_its_cost_and_sends_nothing() {
    let account = filled().await;
    let sent = account.server.count_requests(Operation::QueryEntities);
    let query = ["query", "orders", "PartitionKey eq 'a' and N gt 1", "--select", "N", "--explain"];
    let line = account.ok(query);
    assert_eq!(member(&line, "cost"), "partition scan");
    assert_eq!(member(&line, "method"), "GET");
    assert_eq!(member(&line, "filter"), "PartitionKey eq 'a' and N gt 1");
    assert!(member(&line, "url").contains("/orders()?"), "{line}");
    let shown = account.ok(query.iter().copied().chain(["--output", "table"]));
    assert!(shown.starts_with("partition scan\nGET http"), "{shown}");
    assert!(shown.contains("for each page of up to 1,000 entities"), "{shown}");
    let csv = account.ok(query.iter().copied().chain(["--output", "csv"]));
    assert!(csv.starts_with("cost,class,method,url,filter,headers\n"), "{csv}");
    // A scan is explained without --scan.
    let scan = account.ok(["query", "orders", "N gt 1", "--explain"]);
    assert_eq!(member(&scan, "cost"), "table scan");
    sent.check(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_filters_and_limits_are_wrong_usage() {
    let account = filled().await;
    let error = account.fails(2, ["query", "orders", "N greater 5", "--scan"]);
    assert!(error.contains("the filter for orders"), "{error}");
    account.fails(2, ["query", "orders", "--scan", "--limit", "0"]);
    let error = account.fails(3, ["query", "absent", "--scan"]);
    assert!(error.contains("on absent") && error.contains("`rowkey tables create`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn entities_are_counted_in_a_table_and_in_a_partition() {
    let account = filled().await;
    assert_eq!(account.ok(["count", "orders"]), "{\"table\":\"orders\",\"entities\":6}\n");
    let part = account.ok(["count", "orders", "--partition", "b", "--output", "csv"]);
    assert_eq!(part, "table,entities\norders,3\n");
    let none = account.ok(["count", "orders", "--partition", "it's", "--json"]);
    assert_eq!(none, "{\"table\":\"orders\",\"entities\":0}\n");
    account.fails(3, ["count", "absent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_several_pages_is_counted_in_ranges() {
    let account = Account::with_orders().await;
    let table = StorageAccount::from_connection_string(account.server.connection_string());
    let table = table.unwrap().table("orders");
    for partition in 0..32 {
        let rows =
            (0..100).map(|row| DynamicEntity::new(format!("shop-{partition:02}"), row.to_string()));
        let all = rows.fold(table.transaction(), |all, row| all.insert(&row));
        all.submit().await.unwrap();
    }
    let before = account.server.journal();
    assert_eq!(account.ok(["count", "orders"]), "{\"table\":\"orders\",\"entities\":3200}\n");
    // One range would send four requests.
    let queries = account.server.journal().since(&before).count(Operation::QueryEntities);
    assert!((5..=4 + 24 + 16).contains(&queries), "{queries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_ends_when_no_page_comes_and_not_when_all_of_them_take_long() {
    let account = Account::with_orders().await;
    let storage = StorageAccount::from_connection_string(account.server.connection_string());
    let orders = storage.unwrap().table("orders");
    let rows = (0..2_500).map(|row| DynamicEntity::new("p", format!("{row:04}")));
    Job::upsert(&orders, stream::iter(rows)).run().await.unwrap();

    // Three pages take longer than --timeout allows for one.
    let slow = Fault::on(Operation::QueryEntities).delay(Duration::from_millis(600));
    let slow = account.server.inject(slow);
    let counted = account.ok(["count", "orders", "--timeout", "1"]);
    assert_eq!(counted, "{\"table\":\"orders\",\"entities\":2500}\n");
    drop(slow);

    let busy = Fault::on(Operation::QueryEntities).reject(ErrorCode::SERVER_BUSY);
    let _busy = account.server.inject(busy);
    let error = account.fails(6, ["count", "orders", "--timeout", "1"]);
    assert!(error.contains("on orders: the service is throttling"), "{error}");
    assert!(error.contains("; try again later, or allow more time by --timeout"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prices_of_a_file_price_a_page_and_a_count() {
    let account = filled().await;
    let prices = r#"{"currency":"USD","per_10_000":{"table_read":"5","table_scan":"0.00036"}}"#;
    fs::write(account.path("prices.json"), prices).unwrap();
    fs::write(account.path("free.json"), r#"{"currency":"USD"}"#).unwrap();
    fs::write(account.path("wrong.json"), r#"{"currency":"USD","per_10_000":{"scan":1}}"#).unwrap();
    let explain = ["query", "orders", "N gt 1", "--explain"];
    let with = |args: &[&str], file: &str| -> Vec<String> {
        args.iter().copied().chain(["--prices", file]).map(str::to_owned).collect()
    };
    let before = account.server.journal();
    let line = account.ok(with(&explain, "prices.json"));
    assert_eq!((&*member(&line, "price"), &*member(&line, "currency")), ("0.000000036", "USD"));
    assert!(!account.ok(explain).contains("price"));
    let table = account.ok(with(&[&explain[..], &["--output", "table"]].concat(), "prices.json"));
    assert!(table.contains("\nprice: 0.000000036 USD for each page"), "{table}");
    for command in [&explain[..], &["count", "orders"]] {
        let error = account.fails(2, with(command, "free.json"));
        assert!(error.contains("`per_10_000` in free.json"), "{error}");
        let error = account.fails(2, with(command, "wrong.json"));
        assert!(error.contains("wrong.json is no table of prices"), "{error}");
        account.fails(1, with(command, "absent.json"));
    }
    account.fails(2, with(&["query", "orders", "--scan"], "prices.json"));
    assert_eq!(account.server.journal().since(&before).count(Operation::QueryEntities), 0);

    let counted = account.ok(with(&["count", "orders"], "prices.json"));
    assert_eq!(
        counted,
        "{\"table\":\"orders\",\"entities\":6,\"requests\":1,\"price\":\"0.000000036\",\"currency\":\"USD\"}\n"
    );
}
