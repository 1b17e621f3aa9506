//! Tables that statements create and drop.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{Result, exec_err};
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use rowkey::edm::Value;
use rowkey::{DynamicEntity, Key, StorageAccount};
use rowkey_datafusion::{
    Accounts, SessionOptions, WriteMode, refresh, run_if, session_of, sql, table_scans,
};
use rowkey_emulator::{Operation, Server};

struct Fixture {
    server: Server,
    account: StorageAccount,
    session: SessionContext,
}

impl Fixture {
    async fn start() -> Self {
        Self::with(SessionOptions::default()).await
    }

    async fn with(options: SessionOptions) -> Self {
        // The name of a table that was dropped is free at once.
        let server = Server::builder().reuse_names(true).start().await.unwrap();
        let account = StorageAccount::from_connection_string(server.connection_string()).unwrap();
        let session = session_of(&Accounts::of([account.clone()]).unwrap(), options).unwrap();
        Self { server, account, session }
    }

    async fn ask(&self, text: &str) -> Result<Vec<String>> {
        let rows = sql(&self.session, text).await?.collect().await?;
        let text = pretty_format_batches(&rows)?.to_string();
        let lines = text.lines().skip(3).filter(|line| line.starts_with('|'));
        let cells = |line: &str| {
            line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(" ")
        };
        Ok(lines.map(cells).collect())
    }

    async fn fails(&self, text: &str) -> String {
        self.ask(text).await.unwrap_err().to_string()
    }

    fn has(&self, table: &str) -> bool {
        self.server.snapshot().table(table).is_some()
    }
}

const ORDERS: &str = "CREATE TABLE orders AS SELECT 'p' || CAST(value % 7 AS TEXT) AS PartitionKey, \
                      lpad(CAST(value AS TEXT), 6, '0') AS RowKey, value AS number, value % 2 = 0 AS even, \
                      CAST(value AS DOUBLE) / 4 AS quarter FROM generate_series(0, 2999)";

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_created_with_the_rows_of_a_query() {
    let all = Fixture::start().await;
    assert_eq!(all.ask(ORDERS).await.unwrap(), ["3000"]);
    let sql =
        "SELECT count(*), sum(number), sum(quarter), count(CASE WHEN even THEN 1 END) FROM orders";
    assert_eq!(all.ask(sql).await.unwrap(), ["3000 4498500 1124625.0 1500"]);
    // Without the Timestamp of the rows that are read, which is of the service.
    assert_eq!(
        all.ask("CREATE TABLE copies AS SELECT * FROM orders WHERE even").await.unwrap(),
        ["1500"]
    );
    let sql = "SELECT count(*), sum(c.number) FROM copies c JOIN orders o ON c.PartitionKey = o.PartitionKey AND c.RowKey = o.RowKey";
    assert_eq!(all.ask(sql).await.unwrap(), ["1500 2248500"]);
    // Other names and an order of its own.
    let sql = "CREATE TABLE totals AS SELECT count(*) AS rows, PartitionKey, 'all' AS RowKey FROM orders GROUP BY PartitionKey";
    assert_eq!(all.ask(sql).await.unwrap(), ["7"]);
    assert_eq!(all.ask("SELECT sum(rows) FROM totals").await.unwrap(), ["3000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_written_as_it_is_read() {
    let all = Fixture::with(SessionOptions::default().write(WriteMode::Upsert)).await;
    all.ask(ORDERS).await.unwrap();
    let frame = sql(&all.session, "CREATE TABLE copies AS SELECT * FROM orders").await.unwrap();
    // The table is there, and the rows follow.
    assert!(all.server.snapshot().table("copies").unwrap().is_empty());
    let plan = frame.clone().create_physical_plan().await.unwrap();
    let plan = displayable(&*plan).indent(false).to_string();
    assert!(plan.contains("WriteExec: table=copies, mode=Upsert"), "{plan}");
    frame.collect().await.unwrap();
    assert_eq!(all.server.snapshot().table("copies").unwrap().len(), 3000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_created_if_its_rows_may_be_read() {
    let all = Fixture::start().await;
    all.ask(ORDERS).await.unwrap();
    let create = "CREATE TABLE copies AS SELECT * FROM orders";
    let plan = all.session.state().create_logical_plan(create).await.unwrap();
    let refused = run_if(&all.session, plan, &|plan| {
        if table_scans(plan).is_empty() { Ok(()) } else { exec_err!("it reads a whole table") }
    });
    assert!(refused.await.unwrap_err().to_string().contains("it reads a whole table"));
    assert!(!all.has("copies"));
    assert_eq!(all.ask(create).await.unwrap(), ["3000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_exists_is_an_error_or_left_as_it_is() {
    let all = Fixture::start().await;
    all.ask(ORDERS).await.unwrap();
    let error = all.fails(ORDERS).await;
    assert!(
        error.contains("orders: the table exists already; CREATE TABLE IF NOT EXISTS"),
        "{error}"
    );
    let again = ORDERS.replace("TABLE orders", "TABLE IF NOT EXISTS Orders").replace("'p'", "'q'");
    assert_eq!(all.ask(&again).await.unwrap(), ["0"]);
    assert_eq!(
        all.ask("CREATE TABLE IF NOT EXISTS orders (PartitionKey TEXT, RowKey TEXT)")
            .await
            .unwrap(),
        [""; 0]
    );
    let error = all.fails("CREATE TABLE orders (PartitionKey TEXT, RowKey TEXT)").await;
    assert!(
        error.contains("orders: the table exists already; CREATE TABLE IF NOT EXISTS"),
        "{error}"
    );
    let error = all.fails("CREATE OR REPLACE TABLE orders AS SELECT * FROM orders").await;
    assert!(error.contains("DROP TABLE orders first"), "{error}");
    assert_eq!(
        all.ask("SELECT count(*), min(PartitionKey) FROM orders").await.unwrap(),
        ["3000 p0"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_columns_of_an_empty_table_last_as_long_as_the_session() {
    let all = Fixture::start().await;
    let create = "CREATE TABLE parts (PartitionKey TEXT NOT NULL, RowKey VARCHAR, number INT, big BIGINT, real DOUBLE, open BOOLEAN, \
                  at TIMESTAMP, bytes BYTEA, note TEXT, PRIMARY KEY (PartitionKey, RowKey))";
    assert_eq!(all.ask(create).await.unwrap(), [""; 0]);
    assert!(all.has("parts"));
    assert_eq!(all.ask("SELECT count(*), sum(number) FROM parts").await.unwrap(), ["0 "]);
    let insert = "INSERT INTO parts (PartitionKey, RowKey, number, big, real, open, at, bytes) VALUES \
                  ('p', '1', 7, 9007199254740993, 0.5, true, TIMESTAMP '2026-11-28 05:14:00.1234567', X'00ff')";
    assert_eq!(all.ask(insert).await.unwrap(), ["1"]);
    let sql = "SELECT number, big, real, open, at, bytes, note FROM parts";
    assert_eq!(
        all.ask(sql).await.unwrap(),
        ["7 9007199254740993 0.5 true 2026-11-28T05:14:00.123456700Z 00ff "]
    );
    let stored = all
        .account
        .table("parts")
        .get(Key::<DynamicEntity>::new("p", "1"))
        .await
        .unwrap()
        .unwrap()
        .entity;
    assert_eq!(stored.get("number"), Some(&Value::Int32(7)));
    assert_eq!((stored.get("note"), stored.iter().count()), (None, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_grows_in_a_session_is_read_by_several_streams_and_keeps_the_places_of_its_columns()
 {
    let all = Fixture::start().await;
    all.ask("CREATE TABLE parts (PartitionKey TEXT, RowKey TEXT, size BIGINT, name TEXT)")
        .await
        .unwrap();
    let streams = async || {
        let frame = sql(&all.session, "SELECT count(*) FROM parts").await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let plan = displayable(plan.as_ref()).indent(false).to_string();
        plan.split_once("file_groups={").unwrap().1.split_once(" group").unwrap().0.to_owned()
    };
    assert_eq!(streams().await, "1");
    let fill = "INSERT INTO parts SELECT 'p' || CAST(value % 50 AS TEXT), lpad(CAST(value AS TEXT), 6, '0'), NULL, value, 'n' \
                FROM generate_series(0, 2999)";
    assert_eq!(all.ask(fill).await.unwrap(), ["3000"]);
    assert_eq!(streams().await, "8");
    // The columns of a sample are in the order of their names, those of the statement stay in theirs.
    let one = "INSERT INTO parts VALUES ('p', '1', NULL, 7, 'seven')";
    assert_eq!(all.ask(one).await.unwrap(), ["1"]);
    let sql = "SELECT size, name FROM parts WHERE PartitionKey = 'p'";
    assert_eq!(all.ask(sql).await.unwrap(), ["7 seven"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_table_is_refused_before_it_is_created() {
    let all = Fixture::start().await;
    for (query, expected) in [
        (
            "AS SELECT 1 AS number",
            "the table bad needs the columns PartitionKey and RowKey, and PartitionKey is not there",
        ),
        ("AS SELECT 'p' AS PartitionKey, 1 AS number", "RowKey is not there"),
        (
            "AS SELECT 'p' AS PartitionKey, 1 AS RowKey",
            "the column RowKey of the table bad has the type Int64, and keys are text",
        ),
        (
            "AS SELECT 'p' AS PartitionKey, 'r' AS RowKey, count(*) FROM generate_series(1, 3)",
            "has a name that no property can have",
        ),
        (
            "AS SELECT 'p' AS PartitionKey, 'r' AS RowKey, make_array(1, 2) AS list",
            "the column list of the table bad has the type List",
        ),
        (
            "AS SELECT 'p' AS PartitionKey, 'r' AS RowKey, CAST(1 AS DECIMAL(10, 2)) AS price",
            "which no property has; convert it",
        ),
        ("AS SELECT 'p' AS PartitionKey, absent AS RowKey", "absent"),
        ("(number INT)", "PartitionKey is not there"),
        (
            "(PartitionKey TEXT, RowKey TEXT, number INT DEFAULT 7)",
            "the column number of the table bad has a default value",
        ),
        (
            "(PartitionKey TEXT, RowKey TEXT, number INT, UNIQUE (number))",
            "another key than (PartitionKey, RowKey)",
        ),
        (
            "(PartitionKey TEXT, RowKey TEXT, PRIMARY KEY (RowKey))",
            "another key than (PartitionKey, RowKey)",
        ),
    ] {
        let error = all.fails(&format!("CREATE TABLE bad {query}")).await;
        assert!(error.contains(expected), "{query}: {error}");
        assert!(!all.has("bad"), "{query}");
    }
    let before = all.server.journal();
    let error =
        all.fails("CREATE TABLE \"no name\" AS SELECT 'p' AS PartitionKey, 'r' AS RowKey").await;
    assert!(error.contains("no name"), "{error}");
    assert_eq!(all.server.journal().since(&before).count(Operation::CreateTable), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_a_table_has_not_are_stored_as_those_that_it_has() {
    let all = Fixture::start().await;
    let create = "CREATE TABLE kinds AS SELECT 'p' AS PartitionKey, 'r' AS RowKey, arrow_cast(1, 'Int8') AS a, arrow_cast(2, 'UInt32') AS b, \
                  arrow_cast(3, 'UInt64') AS c, arrow_cast(0.25, 'Float32') AS d, DATE '2026-11-28' AS e, arrow_cast('x', 'Utf8View') AS f, \
                  arrow_cast('y', 'LargeUtf8') AS g, arrow_cast('z', 'Dictionary(Int32, Utf8)') AS h, NULL AS i, \
                  arrow_cast('2026-11-28T01:02:03', 'Timestamp(Second, None)') AS j, arrow_cast(X'01', 'BinaryView') AS k";
    assert_eq!(all.ask(create).await.unwrap(), ["1"]);
    let sql = "SELECT a, b, c, d, e, f, g, h, j, k FROM kinds";
    assert_eq!(
        all.ask(sql).await.unwrap(),
        ["1 2 3 0.25 2026-11-28T00:00:00Z x y z 2026-11-28T01:02:03Z 01"]
    );
    // A NULL is no property, and the session knows the column.
    assert_eq!(all.ask("SELECT i FROM kinds").await.unwrap(), [""]);
    refresh(&all.session);
    assert_eq!(all.ask("SELECT i FROM kinds").await.unwrap(), [""]);
    let create = "CREATE TABLE large AS SELECT 'p' AS PartitionKey, 'r' AS RowKey, arrow_cast('18446744073709551615', 'UInt64') AS c";
    let error = all.fails(create).await;
    assert!(error.contains("Int64"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_dropped_with_its_rows() {
    let all = Fixture::start().await;
    all.ask(ORDERS).await.unwrap();
    assert_eq!(all.ask("DROP TABLE orders").await.unwrap(), [""; 0]);
    assert!(!all.has("orders"));
    let error = all.fails("SELECT * FROM orders").await;
    assert!(error.contains("orders"), "{error}");
    let error = all.fails("DROP TABLE orders").await;
    assert!(error.contains("orders: the table does not exist; DROP TABLE IF EXISTS"), "{error}");
    assert_eq!(all.ask("DROP TABLE IF EXISTS orders").await.unwrap(), [""; 0]);
    // What the session knew of it is forgotten.
    all.ask("CREATE TABLE orders (PartitionKey TEXT, RowKey TEXT, cents BIGINT)").await.unwrap();
    all.ask("DROP TABLE orders").await.unwrap();
    assert_eq!(all.ask(ORDERS).await.unwrap(), ["3000"]);
    assert_eq!(all.ask("SELECT max(number) FROM orders").await.unwrap(), ["2999"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn views_are_those_of_the_engine() {
    let all = Fixture::start().await;
    all.ask(ORDERS).await.unwrap();
    all.ask("CREATE VIEW few AS SELECT * FROM orders WHERE number < 10").await.unwrap();
    let before = all.server.journal();
    assert!(all.fails("DROP TABLE few").await.contains("few"), "a view is no table");
    all.ask("DROP VIEW few").await.unwrap();
    assert_eq!(all.server.journal().since(&before).count(Operation::DeleteTable), 0);
    assert_eq!(all.ask("SELECT count(*) FROM orders").await.unwrap(), ["3000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_is_refused_that_would_exchange_columns_or_cut_values() {
    let all = Fixture::start().await;
    let table = |name: &str, set: &[(&str, Value)]| {
        let table = all.account.table(name);
        let mut row = DynamicEntity::new("a", "1");
        for (name, value) in set {
            row.set(*name, value.clone());
        }
        async move {
            table.create().await.unwrap();
            table.insert(&row).await.unwrap();
        }
    };
    let text = |text: &str| Value::String(text.to_owned());
    table("first", &[("name", text("N")), ("city", text("C")), ("n", Value::Int32(1))]).await;
    table("second", &[("n", Value::Int32(2)), ("city", text("C2")), ("name", text("N2"))]).await;
    table("third", &[("place", text("P")), ("name", text("N3")), ("n", Value::Int32(3))]).await;
    // Tables with the same properties have one order of columns.
    let copy = "INSERT INTO second SELECT PartitionKey, 'x' || RowKey AS RowKey, \"Timestamp\", city, n, name FROM first";
    assert_eq!(all.ask(copy).await.unwrap(), ["1"]);
    let whole = "SELECT city, name FROM second WHERE RowKey = 'x1'";
    assert_eq!(all.ask(whole).await.unwrap(), ["C N"]);
    let error = all.fails("INSERT INTO second SELECT * FROM third").await;
    assert!(
        error.contains("write the column n as city") && error.contains("name the columns"),
        "{error}"
    );
    let named = "INSERT INTO second (PartitionKey, RowKey, city) SELECT PartitionKey, 'y', place FROM third";
    assert_eq!(all.ask(named).await.unwrap(), ["1"]);
    for cut in [
        "INSERT INTO second (PartitionKey, RowKey, n) VALUES ('p', '1', 1.7)",
        "INSERT INTO second (PartitionKey, RowKey, n) SELECT 'p', '1', n / 2.0 FROM first",
        "INSERT INTO second (PartitionKey, RowKey, n) SELECT * FROM (VALUES ('p', '1', 1.7)) AS v",
        "INSERT INTO second (PartitionKey, RowKey, n) SELECT 'p', '1', 1 UNION ALL SELECT 'p', '2', 2.7",
        "INSERT INTO second (PartitionKey, RowKey, n) SELECT 'p', '1', CASE WHEN n > 1 THEN n ELSE 2.5 END FROM first",
    ] {
        let error = all.fails(cut).await;
        assert!(error.contains("would cut values of the type Float64 to Int32"), "{cut}: {error}");
    }
    // A Double has 53 bits for the number.
    let ratio = ("ratio", Value::Double(0.5));
    table("fourth", &[("long", Value::Int64(9_007_199_254_740_993)), ratio]).await;
    for rounded in [
        "INSERT INTO fourth (PartitionKey, RowKey, ratio) VALUES ('p', '1', 9007199254740993)",
        "INSERT INTO fourth (PartitionKey, RowKey, ratio) SELECT 'p', '1', long FROM fourth",
        "EXPLAIN ANALYZE INSERT INTO fourth (PartitionKey, RowKey, ratio) SELECT 'p', '1', long FROM fourth",
        "INSERT INTO fourth (PartitionKey, RowKey, ratio) SELECT 'p', '1', CAST(1 AS DECIMAL(20, 2))",
    ] {
        let error = all.fails(rounded).await;
        assert!(error.contains("would round values of the type"), "{rounded}: {error}");
    }
    for cut in [
        "INSERT INTO fourth (PartitionKey, RowKey, long) VALUES ('p', '1', CAST(1.5 AS DECIMAL(5, 2)))",
        "INSERT INTO fourth (PartitionKey, RowKey, long) SELECT 'p', '1', CAST(1.5 AS DECIMAL(5, 2))",
    ] {
        let error = all.fails(cut).await;
        assert!(error.contains("would cut values of the type Decimal128"), "{cut}: {error}");
    }
    table(
        "fifth",
        &[
            ("bytes", Value::Binary(vec![0])),
            ("at", Value::DateTime("2026-11-28T01:02:03Z".parse().unwrap())),
        ],
    )
    .await;
    for (other, expected) in [
        (
            "INSERT INTO fourth (PartitionKey, RowKey, ratio) SELECT 'p', 7, 0.5",
            "numbers of the type Int64 as RowKey",
        ),
        (
            "INSERT INTO fifth (PartitionKey, RowKey, bytes) SELECT 'p', '1', '00ff'",
            "the letters of a text",
        ),
        (
            "INSERT INTO fourth (PartitionKey, RowKey, long) SELECT 'p', '1', at FROM fifth",
            "would convert Timestamp",
        ),
        (
            "INSERT INTO fifth (PartitionKey, RowKey, at) SELECT 'p', '1', long FROM fourth",
            "would convert Int64",
        ),
    ] {
        let error = all.fails(other).await;
        assert!(error.contains(expected), "{other}: {error}");
    }
    for exact in [
        "INSERT INTO fifth (PartitionKey, RowKey, bytes) SELECT 'p', '2', decode('00ff', 'hex')",
        "INSERT INTO fifth (PartitionKey, RowKey, bytes, at) VALUES ('p', '3', X'00ff', '2026-11-28T01:02:03Z')",
        "INSERT INTO fourth (PartitionKey, RowKey, ratio) VALUES ('p', '2', 9007199254740992)",
        "INSERT INTO fourth (PartitionKey, RowKey, ratio) SELECT 'p', '3', CAST(long AS DOUBLE) FROM fourth WHERE RowKey = '1'",
        "INSERT INTO fourth (PartitionKey, RowKey, ratio) SELECT 'p', '4', n FROM first",
        "INSERT INTO fourth (PartitionKey, RowKey, ratio) SELECT 'p', '6', 0",
        "INSERT INTO fourth (PartitionKey, RowKey, ratio) SELECT 'p', '7', CASE WHEN n > 0 THEN 0.5 ELSE 0 END FROM first",
        "INSERT INTO fourth (PartitionKey, RowKey, long) SELECT 'p', '5', CAST(7 AS DECIMAL(5, 0))",
    ] {
        assert_eq!(all.ask(exact).await.unwrap(), ["1"], "{exact}");
    }
    let rounded = "INSERT INTO second (PartitionKey, RowKey, n) SELECT 'p', '1', CAST(round(n / 2.0) AS INT) FROM first";
    assert_eq!(all.ask(rounded).await.unwrap(), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_change_or_delete_entities_say_what_to_use() {
    let all = Fixture::start().await;
    all.ask(ORDERS).await.unwrap();
    for (statement, expected) in [
        ("UPDATE orders SET number = 1", "REPLACE INTO orders"),
        ("DELETE FROM orders WHERE number = 1", "`rowkey purge`"),
        ("TRUNCATE TABLE orders", "`rowkey purge orders --all`"),
    ] {
        let error = all.fails(statement).await;
        assert!(error.contains("is not supported") && error.contains(expected), "{error}");
    }
    assert_eq!(all.ask("SELECT count(*), max(number) FROM orders").await.unwrap(), ["3000 2999"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_would_do_nothing_are_refused() {
    let all = Fixture::start().await;
    all.ask(ORDERS).await.unwrap();
    for (statement, expected) in [
        ("CREATE INDEX few ON orders (number)", "CREATE INDEX is not supported"),
        ("CREATE DATABASE shop", "ROWKEY_CONNECTION_STRING_"),
        ("CREATE SCHEMA shop", "ROWKEY_CONNECTION_STRING_"),
        (
            "CREATE TABLE parts (PartitionKey TEXT, RowKey TEXT, a INT NOT NULL)",
            "column a of the table parts",
        ),
        (
            "PREPARE p (INT) AS INSERT INTO orders (PartitionKey, RowKey, number) VALUES ('p', 'r', $1)",
            "PREPARE",
        ),
    ] {
        let error = all.fails(statement).await;
        assert!(error.contains(expected), "{statement}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_property_that_the_sample_did_not_show_is_lost_in_no_copy() {
    let all = Fixture::start().await;
    all.ask(ORDERS).await.unwrap();
    let mut seldom = DynamicEntity::new("p3", "001501x");
    seldom.set("number", 1_i64);
    seldom.set("seldom", 7_i32);
    all.account.table("orders").insert(&seldom).await.unwrap();
    let key = || Key::<DynamicEntity>::new("p3", "001501x");
    let path = std::env::temp_dir().join(format!("rowkey-{}.parquet", std::process::id()));
    let copies = [
        "REPLACE INTO orders SELECT * FROM orders WHERE PartitionKey = 'p3'".to_owned(),
        "REPLACE INTO orders SELECT DISTINCT * FROM orders WHERE PartitionKey = 'p3'".to_owned(),
        "REPLACE INTO orders (SELECT * FROM orders UNION SELECT * FROM orders)".to_owned(),
        "REPLACE INTO orders SELECT DISTINCT ON (RowKey) * FROM orders ORDER BY RowKey".to_owned(),
        "CREATE TABLE copies AS SELECT * FROM orders".to_owned(),
        "INSERT INTO copies SELECT * FROM orders WHERE number < 5".to_owned(),
        format!("COPY (SELECT * FROM orders) TO '{}' STORED AS PARQUET", path.display()),
    ];
    for copy in &copies {
        let error = all.fails(copy).await;
        let expected = "has the property seldom (Edm.Int32), which is no column";
        assert!(error.contains(expected), "{copy}: {error}");
        assert!(
            error.contains(
                "CREATE TABLE IF NOT EXISTS orders (PartitionKey TEXT, RowKey TEXT, seldom INT)"
            ),
            "{error}"
        );
    }
    let stored = all.account.table("orders").get(key()).await.unwrap().unwrap().entity;
    assert_eq!(stored.get("seldom"), Some(&Value::Int32(7)));
    // What copies no rows reads what it needs.
    assert_eq!(
        all.ask("SELECT count(*), sum(number), max(quarter) FROM orders WHERE even")
            .await
            .unwrap()
            .len(),
        1
    );
    let sums = "CREATE TABLE sums AS SELECT PartitionKey, 'all' AS RowKey, sum(number) AS n, bool_and(even) AS e, sum(quarter) AS q \
                FROM orders GROUP BY PartitionKey";
    assert_eq!(all.ask(sums).await.unwrap(), ["7"]);
    // The advice.
    all.ask("CREATE TABLE IF NOT EXISTS orders (PartitionKey TEXT, RowKey TEXT, seldom INT)")
        .await
        .unwrap();
    assert_eq!(
        all.ask("SELECT seldom, number FROM orders WHERE RowKey = '001501x'").await.unwrap(),
        ["7 1"]
    );
    all.ask("DROP TABLE copies").await.unwrap();
    for copy in &copies {
        all.ask(copy).await.unwrap();
    }
    for table in ["orders", "copies"] {
        let stored = all.account.table(table).get(key()).await.unwrap().unwrap().entity;
        assert_eq!(stored.get("seldom"), Some(&Value::Int32(7)), "{table}");
    }
    std::fs::remove_file(&path).unwrap();
    let null =
        Fixture::with(SessionOptions::default().mismatch(rowkey_datafusion::Mismatch::Null)).await;
    null.ask(ORDERS).await.unwrap();
    null.account.table("orders").insert(&seldom).await.unwrap();
    assert_eq!(null.ask("CREATE TABLE copies AS SELECT * FROM orders").await.unwrap(), ["3001"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_that_does_not_fit_says_which_columns_there_are() {
    let all = Fixture::start().await;
    all.ask(ORDERS).await.unwrap();
    // As another program has created it.
    all.account.table("empty").create().await.unwrap();
    for insert in [
        "INSERT INTO empty SELECT * FROM orders",
        "INSERT INTO empty (PartitionKey, RowKey, number) VALUES ('p', 'r', 1)",
    ] {
        let error = all.fails(insert).await;
        assert!(error.contains("CREATE TABLE IF NOT EXISTS empty ("), "{insert}: {error}");
    }
    let error = all.fails("INSERT INTO orders VALUES ('p', 'r', 1)").await;
    assert!(error.contains("PartitionKey, RowKey, Timestamp, number, even, quarter"), "{error}");
    let error = all.fails("INSERT INTO orders SELECT 'p', 'r', 1").await;
    assert!(error.contains("PartitionKey, RowKey, Timestamp, number, even, quarter"), "{error}");
    let columns = "CREATE TABLE IF NOT EXISTS empty (PartitionKey TEXT, RowKey TEXT, number BIGINT, even BOOLEAN, quarter DOUBLE)";
    all.ask(columns).await.unwrap();
    assert_eq!(all.ask("INSERT INTO empty SELECT * FROM orders").await.unwrap(), ["3000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_times_that_a_column_would_round_fails() {
    let all = Fixture::start().await;
    let table = all.account.table("times");
    table.create().await.unwrap();
    for (row, at) in [("1", "9999-12-31T23:59:59Z"), ("2", "2026-11-28T01:02:03.1234567Z")] {
        let mut entity = DynamicEntity::new("p", row);
        entity.set("at", Value::DateTime(at.parse().unwrap()));
        table.insert(&entity).await.unwrap();
    }
    let error = all.fails("REPLACE INTO times SELECT * FROM times").await;
    assert!(
        error.contains("column at of the table times") && error.contains("Edm.DateTime"),
        "{error}"
    );
    let stored = table.get(Key::<DynamicEntity>::new("p", "2")).await.unwrap().unwrap().entity;
    assert_eq!(
        stored.get("at"),
        Some(&Value::DateTime("2026-11-28T01:02:03.1234567Z".parse().unwrap()))
    );
    assert_eq!(all.ask("SELECT count(at) FROM times").await.unwrap(), ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_engine_are_not_held_to_the_rules_of_an_account() {
    let all = Fixture::start().await;
    let folder = std::env::temp_dir().join(format!("rowkey-parts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let place = format!("{}/", folder.display());
    let create = format!(
        "CREATE EXTERNAL TABLE parts (a INT NOT NULL, b DOUBLE) STORED AS PARQUET LOCATION '{place}'"
    );
    all.ask(&create).await.unwrap();
    assert_eq!(
        all.ask("INSERT INTO parts SELECT CAST(7 AS BIGINT), CAST(9 AS BIGINT)").await.unwrap(),
        ["1"]
    );
    assert_eq!(all.ask("SELECT a, b FROM parts").await.unwrap(), ["7 9.0"]);
    let error = all.fails("INSERT INTO parts VALUES (NULL, 1)").await;
    assert!(!error.contains("PartitionKey"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
