//! Indexes and lists in other tables and accounts: the entity of these tests, and the invariants of its rows.
//!
//! - `faults`: every request fails in every way, tables are missing, an account is unavailable
//! - `grouped`: transactions of several entities
//! - `jobs`: verifying, repairing, cleaning, loading and deleting
//! - `older`: versions of the type
//! - `outage`: jobs while an account is unavailable for long
//! - `reads`: lookups, costs, and what a store is built with
//! - `versions`: programs that declare other tables

use std::collections::BTreeMap;

use rowkey::edm::Value;
use rowkey::store::Store;
use rowkey::{Entity, Key, StorageAccount};
use rowkey_emulator::{Server, Snapshot, StoredEntity};
use rowkey_tests::{TestResult, sweep};

mod faults;
mod grouped;
mod jobs;
mod older;
mod outage;
mod reads;
mod versions;

/// The account of the entities, and another one.
const CURRENT: &str = "current";
const ARCHIVE: &str = "archive";

/// An order with declarations in its table, in two other tables of its account, and in a table of another account.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_desk, row = "desk_{desk}"))]
#[entity(index(name = by_courier, partition = "courier_{courier}", row = "{tenant}_{id:4}"))]
#[entity(index(name = by_customer, table = "customers", partition = "{customer}", row = "{tenant}_{id:4}"))]
#[entity(index(name = by_size, table = "sizes", partition = "size_{size}", row = "{customer}", many, copy(size)))]
#[entity(list(name = by_tag, table = "tags", partition = "all", value = "{tag}"))]
#[entity(unique(name = by_number, value = "{number}"))]
struct Order {
    tenant: String,
    id: u32,
    desk: Option<u32>,
    courier: Option<String>,
    customer: String,
    size: u32,
    tag: Option<String>,
    number: Option<String>,
    cents: i64,
}

fn order(id: u32) -> Order {
    Order {
        tenant: "contoso".into(),
        id,
        desk: Some(id),
        courier: Some("kim".into()),
        customer: "ada".into(),
        size: id % 2,
        tag: Some("urgent".into()),
        number: Some(format!("A{id}")),
        cents: 100,
    }
}

fn key(id: u32) -> Key<Order> {
    Order::key("contoso", id)
}

/// What a program connects to.
struct Accounts {
    current: StorageAccount,
    archive: StorageAccount,
}

fn connect(server: &Server) -> Result<Accounts, rowkey::Error> {
    let current = sweep::account_named(server, CURRENT)?;
    Ok(Accounts { current, archive: sweep::account_named(server, ARCHIVE)? })
}

impl Accounts {
    /// The copies of `by_size` are in the archive, in a table of another name.
    fn store(&self) -> Result<Store<Order>, rowkey::Error> {
        Store::builder(self.current.table("orders"))
            .queue(self.current.queue("orders"))
            .index_table("by_size", self.archive.table("archived"))
            .build()
    }
}

async fn start() -> TestResult<(Server, Accounts, Store<Order>)> {
    let key = ["a2V5"];
    let server = Server::builder().account(CURRENT, key).account(ARCHIVE, key).manual_clock();
    let server = server.start().await?;
    let accounts = connect(&server)?;
    let orders = accounts.store()?;
    orders.create_if_missing().await?;
    Ok((server, accounts, orders))
}

fn text(row: &StoredEntity<'_>, name: &str) -> Option<String> {
    match row.get(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// A row as `TABLE PARTITION ROW`, the entity that it names, and the mark of a whole copy.
type Rows = BTreeMap<String, (String, String)>;

/// The rows of a table that name entities.
fn found(snapshot: &Snapshot, account: &str, table: &str) -> Rows {
    let snapshot = snapshot.account(account).unwrap();
    let mut rows = Rows::new();
    for row in snapshot.table(table).unwrap().entities() {
        let at = format!("{table} {} {}", row.partition_key(), row.row_key());
        let mark = text(&row, "EntityOp").unwrap_or_default();
        if let Some(keys) = text(&row, "Keys") {
            rows.insert(at, (keys, mark));
        } else if text(&row, "IndexName").is_some() {
            let owner = text(&row, "PrimaryRowKey").unwrap();
            rows.insert(at, (owner, mark));
        } else if table != "orders" {
            panic!("{at} is neither a copy nor a list");
        }
    }
    rows
}

/// Asserts that all rows agree with the orders, each in its table; returns the number of orders.
fn agreed(snapshot: &Snapshot) -> usize {
    let current = snapshot.account(CURRENT).unwrap();
    let mut expected = Rows::new();
    let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut orders, mut claims, mut claimed) = (0, 0, 0);
    for row in current.table("orders").unwrap().entities() {
        let (partition, key) = (row.partition_key(), row.row_key());
        claims += usize::from(key == "claim");
        if !key.starts_with("order_") {
            continue;
        }
        orders += 1;
        claimed += usize::from(row.get("number").is_some());
        let id = key.strip_prefix("order_").unwrap();
        let mark = text(&row, "EntityOp").unwrap();
        let mut copy = |at: String, mark: &str| {
            expected.insert(at, (key.to_owned(), mark.to_owned()));
        };
        if let Some(Value::Int64(desk)) = row.get("desk") {
            copy(format!("orders {partition} desk_{desk:010}"), &mark);
        }
        if let Some(courier) = text(&row, "courier") {
            copy(format!("orders courier_{courier} {partition}_{id}"), &mark);
        }
        let customer = text(&row, "customer").unwrap();
        copy(format!("customers {customer} {partition}_{id}"), &mark);
        let Some(Value::Int64(size)) = row.get("size") else { panic!("{:?}", row.get("size")) };
        copy(format!("archived size_{size:010} {customer}_{partition}_{key}"), "");
        if let Some(tag) = text(&row, "tag") {
            let entry = format!("{partition}#{id}");
            listed.entry(format!("tags all list_order_by_tag_{tag}")).or_default().push(entry);
        }
    }
    for (at, mut keys) in listed {
        keys.sort();
        expected.insert(at, (keys.join("/"), String::new()));
    }
    let mut rows = Rows::new();
    for table in ["orders", "customers", "tags"] {
        rows.extend(found(snapshot, CURRENT, table));
    }
    rows.extend(found(snapshot, ARCHIVE, "archived"));
    assert_eq!(rows, expected, "the rows are those that the orders have");
    assert_eq!(claims, claimed, "the claims are those of the orders");
    orders
}
