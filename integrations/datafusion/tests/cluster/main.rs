//! Plans as messages: they come back the same, read the same rows, and have no credential.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionContext;
use datafusion_proto::physical_plan::{AsExecutionPlan as _, DefaultPhysicalExtensionCodec};
use datafusion_proto::protobuf::PhysicalPlanNode;
use rowkey::edm::Guid;
use rowkey::{DynamicEntity, Entity, StorageAccount};
use rowkey_datafusion::cluster::{TableCodec, is_of_tables, link, prepare, resolve};
use rowkey_datafusion::{
    Accounts, Mismatch, SessionOptions, TableSource, WriteMode, of, session_of,
};
use rowkey_emulator::Server;

const SECRET: &str = "c2VjcmV0IGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIG1lc3NhZ2Vz";

/// The entities of a store, beside copies of an index.
#[derive(Entity)]
#[entity(partition = "{customer}", row = "order_{number:6}", kind = "Order")]
#[allow(dead_code)]
struct Order {
    customer: String,
    number: u32,
    cents: i64,
}

const QUERIES: [&str; 14] = [
    "SELECT * FROM orders",
    "SELECT COUNT(*) FROM orders",
    "SELECT cents + 1 AS more, RowKey FROM orders WHERE cents > 50 AND weight < 4.5",
    "SELECT RowKey FROM orders WHERE PartitionKey = 'it''s 1' AND RowKey IN ('order_000001', 'order_000003', 'ü')",
    "SELECT RowKey FROM orders WHERE PartitionKey >= 'it''s 2' AND PartitionKey < 'it''s 4' AND RowKey LIKE 'order_00000%'",
    "SELECT RowKey FROM orders WHERE PartitionKey > '\u{e000}' OR (PartitionKey = 'it''s 2' AND RowKey > 'order_000002')",
    "SELECT id, data FROM orders WHERE id = '00000000-0000-0000-0000-000000000002'",
    "SELECT RowKey FROM orders WHERE placed > TIMESTAMP '2020-01-01T00:00:00Z' OR flag",
    "SELECT RowKey FROM orders WHERE data = X'0102'",
    "SELECT RowKey FROM orders LIMIT 3",
    "SELECT RowKey, cents FROM of_type WHERE cents >= 0",
    "SELECT cents FROM with_nulls",
    "SELECT a.RowKey FROM orders a JOIN orders b ON a.RowKey = b.RowKey AND b.PartitionKey = 'it''s 1'",
    "SELECT PartitionKey, SUM(cents) FROM orders GROUP BY PartitionKey HAVING SUM(cents) > 3",
];

fn entities() -> Vec<DynamicEntity> {
    let rows = (0..5_u32).flat_map(|partition| (0..20_u32).map(move |row| (partition, row)));
    rows.map(|(partition, row)| {
        let mut entity = DynamicEntity::new(format!("it's {partition}"), format!("order_{row:06}"));
        entity.set("cents", i64::from(row) * 10);
        entity.set("weight", f64::from(row));
        entity.set("id", Guid::from_u128(u128::from(row)));
        entity.set("flag", row % 2 == 0);
        entity.set(
            "placed",
            rowkey::edm::DateTime::from_ticks(637_000_000_000_000_000 + i64::from(row)).unwrap(),
        );
        entity.set("data", vec![1_u8, u8::try_from(row).unwrap()]);
        entity.set("Kind", if row % 3 == 0 { "Order" } else { "Other" });
        entity
    })
    .collect()
}

struct Fixture {
    _server: Server,
    accounts: Accounts,
    session: SessionContext,
    codec: TableCodec,
}

impl Fixture {
    async fn start() -> Self {
        let server = Server::builder().account("shop", [SECRET]).start().await.unwrap();
        let account = StorageAccount::from_connection_string(server.connection_string()).unwrap();
        let orders = account.table("orders");
        orders.create().await.unwrap();
        for entity in entities() {
            orders.insert(&entity).await.unwrap();
        }
        account.table("copies").create().await.unwrap();
        let accounts = Accounts::of([account]).unwrap();
        let session = session_of(&accounts, SessionOptions::default().splits(4)).unwrap();
        let add = |name: &str, source: TableSource| {
            session.register_table(name, Arc::new(source)).unwrap();
        };
        add("of_type", TableSource::open(&orders).schema(of::<Order>()).await.unwrap());
        let nulls = TableSource::open(&orders)
            .mismatch(Mismatch::Null)
            .column("cents", rowkey::edm::Type::Guid);
        add("with_nulls", nulls.await.unwrap());
        let copies = accounts.default_account().unwrap().table("copies");
        let write = TableSource::open(&copies)
            .column("cents", rowkey::edm::Type::Int64)
            .write(WriteMode::Upsert);
        add("written", write.await.unwrap());
        let codec = TableCodec::new(Arc::new(DefaultPhysicalExtensionCodec {}));
        Self { _server: server, accounts, session, codec }
    }

    async fn plan(&self, query: &str) -> Arc<dyn ExecutionPlan> {
        self.session.sql(query).await.unwrap().create_physical_plan().await.unwrap()
    }

    fn encoded(&self, plan: &Arc<dyn ExecutionPlan>) -> Vec<u8> {
        let message =
            PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), &self.codec).unwrap();
        let mut bytes = Vec::new();
        message.try_encode(&mut bytes).unwrap();
        bytes
    }

    fn decoded(&self, bytes: &[u8]) -> Arc<dyn ExecutionPlan> {
        let message = PhysicalPlanNode::try_decode(bytes).unwrap();
        message.try_into_physical_plan(&self.session.task_ctx(), &self.codec).unwrap()
    }

    async fn rows(&self, plan: Arc<dyn ExecutionPlan>) -> Vec<String> {
        let batches = collect(plan, self.session.task_ctx()).await.unwrap();
        let text = pretty_format_batches(&batches).unwrap().to_string();
        let mut rows: Vec<_> = text.lines().map(str::to_owned).collect();
        rows.sort();
        rows
    }
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(true).to_string()
}

/// A condition that a join tells while it runs is left out: it would be told to another process.
fn without_told(text: &str) -> String {
    let lines =
        text.lines().map(|line| line.split(", waits for").next().unwrap_or_default().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn plans_come_back_the_same_and_read_the_same_rows() {
    let fixture = Fixture::start().await;
    for query in QUERIES {
        let plan = fixture.plan(query).await;
        assert!(is_of_tables(&plan), "{query}");
        let bytes = fixture.encoded(&plan);
        let decoded = fixture.decoded(&bytes);
        assert_eq!(
            shown(&decoded),
            without_told(&shown(&plan)).trim_end().to_owned() + "\n",
            "{query}"
        );
        // What a scheduler does: it decodes and encodes.
        assert_eq!(fixture.encoded(&decoded), bytes, "{query}");
        let resolved = resolve(decoded, &fixture.accounts).unwrap();
        let expected = fixture.rows(plan).await;
        let found = fixture.rows(resolved).await;
        match query.contains("LIMIT") {
            // Any three rows are right.
            true => assert_eq!(found.len(), expected.len()),
            false => assert_eq!(found, expected, "{query}"),
        }
    }
}

/// What a join tells is written down in the scan, and goes with it.
#[tokio::test]
async fn a_join_that_prunes_comes_back_the_same() {
    let fixture = Fixture::start().await;
    let plan = fixture.plan(QUERIES[12]).await;
    let waits = |plan: &Arc<dyn ExecutionPlan>| shown(plan).matches("waits for 1 join").count();
    assert_eq!(waits(&plan), 1, "{}", shown(&plan));
    let prepared = prepare(Arc::clone(&plan)).unwrap();
    assert_eq!(waits(&prepared), 0);
    let bytes = fixture.encoded(&prepared);
    assert_eq!(fixture.encoded(&fixture.decoded(&bytes)), bytes);
    let decoded = resolve(fixture.decoded(&bytes), &fixture.accounts).unwrap();
    let linked = link(decoded, fixture.session.state().config_options()).unwrap();
    assert_eq!(shown(&linked), shown(&plan));
    assert_eq!(fixture.rows(linked).await, fixture.rows(plan).await);
}

#[tokio::test]
async fn writes_come_back_the_same() {
    let fixture = Fixture::start().await;
    for insert in [
        "INSERT INTO written (PartitionKey, RowKey, cents) SELECT PartitionKey, RowKey, cents FROM orders",
        "INSERT INTO orders (PartitionKey, RowKey, cents) SELECT 'copy of ' || PartitionKey, RowKey, cents FROM orders",
    ] {
        let plan = fixture.plan(insert).await;
        let bytes = fixture.encoded(&plan);
        let decoded = fixture.decoded(&bytes);
        assert_eq!(shown(&decoded), shown(&plan), "{insert}");
        assert_eq!(fixture.encoded(&decoded), bytes, "{insert}");
        let resolved = resolve(decoded, &fixture.accounts).unwrap();
        let count = fixture.rows(resolved).await;
        assert!(count.iter().any(|line| line.contains("| 100 ")), "{count:?}");
    }
    let sums = fixture.plan("SELECT COUNT(*), SUM(cents) FROM written").await;
    let sums = fixture.rows(sums).await;
    assert!(sums.iter().any(|line| line.contains("| 9500 ")), "{sums:?}");
}

#[tokio::test]
async fn no_message_has_a_credential() {
    let fixture = Fixture::start().await;
    let inserts =
        ["INSERT INTO written (PartitionKey, RowKey) SELECT PartitionKey, RowKey FROM orders"];
    for query in QUERIES.into_iter().chain(inserts) {
        let bytes = fixture.encoded(&fixture.plan(query).await);
        let decoded = fixture.decoded(&bytes);
        let has = |wanted: &str| bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes());
        assert!(has("shop") && !has(SECRET) && !has("AccountKey") && !has("http"), "{query}");
        let resolved = resolve(Arc::clone(&decoded), &fixture.accounts).unwrap();
        for text in [shown(&decoded), shown(&resolved), format!("{decoded:?} {resolved:?}")] {
            assert!(!text.contains(SECRET), "{query}");
        }
    }
}

#[tokio::test]
async fn a_plan_whose_account_is_unknown_is_not_executed() {
    let fixture = Fixture::start().await;
    let decoded = fixture.decoded(&fixture.encoded(&fixture.plan(QUERIES[0]).await));
    // An account without a credential at an address that does not exist.
    collect(Arc::clone(&decoded), fixture.session.task_ctx()).await.unwrap_err();
    let other =
        StorageAccount::from_connection_string("AccountName=other;AccountKey=b3RoZXI=").unwrap();
    let error = resolve(decoded, &Accounts::of([other]).unwrap()).unwrap_err().to_string();
    assert!(
        error.contains("the account shop is not known")
            && error.contains("ROWKEY_CONNECTION_STRING_SHOP"),
        "{error}"
    );
}
