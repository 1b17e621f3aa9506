//! The entity of these tests, and the invariants of its rows.

use std::collections::BTreeMap;

use rowkey::edm::Value;
use rowkey::store::{Change, Contribution, Declaration, Store};
use rowkey::{DynamicEntity, Entity, StorageAccount};
use rowkey_emulator::{Server, Snapshot, StoredEntity};
use rowkey_tests::TestResult;

/// An order with all declarations: a unique and a non-unique index in its partition, a full and a partial
/// index in another partition, and a unique value.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_desk, row = "desk_{desk}"))]
#[entity(index(name = by_customer, row = "customer_{customer}", many))]
#[entity(index(name = by_courier, partition = "courier_{courier}", row = "{tenant}_{id}"))]
#[entity(index(name = by_size, partition = "size_{size}", row = "{customer}", many, copy(size)))]
#[entity(unique(name = by_number, value = "{number}"))]
pub(crate) struct Order {
    pub(crate) tenant: String,
    pub(crate) id: u32,
    pub(crate) desk: Option<u32>,
    pub(crate) customer: String,
    pub(crate) courier: Option<String>,
    pub(crate) size: u32,
    pub(crate) number: Option<String>,
    pub(crate) cents: i64,
}

pub(crate) fn order(id: u32) -> Order {
    Order {
        tenant: "contoso".into(),
        id,
        desk: Some(id),
        customer: "ada".into(),
        courier: Some("kim".into()),
        size: id % 2,
        number: Some(format!("A{id}")),
        cents: 100,
    }
}

pub(crate) fn store(account: &StorageAccount) -> Result<Store<Order>, rowkey::Error> {
    Store::builder(account.table("orders")).queue(account.queue("orders")).build()
}

/// A server with the table and the queue.
pub(crate) async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = rowkey_tests::sweep::account(&server)?;
    store(&account)?.create_if_missing().await?;
    Ok((server, account))
}

/// Asserts that all rows of the orders agree, and returns the keys and marks of the orders. With `settled`,
/// includes remote rows, and asserts that no row is left over.
pub(crate) fn agreed(snapshot: &Snapshot, settled: bool) -> Vec<(String, i64)> {
    let mut expected = BTreeMap::new();
    let mut found = BTreeMap::new();
    let mut values = BTreeMap::new();
    let mut orders = Vec::new();
    let mut left = Vec::new();
    for row in snapshot.table("orders").unwrap().entities() {
        let text = |name: &str| match row.get(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (partition, key) = (row.partition_key().to_owned(), row.row_key().to_owned());
        let mark = text("EntityOp").unwrap_or_default();
        if let Some(index) = text("IndexName") {
            let owner = text("PrimaryRowKey").unwrap();
            assert!(found.insert((partition, key), (index, owner, mark)).is_none());
        } else if key.starts_with("order_") {
            let entity = read(&partition, &key, &row);
            if let Some(number) = &entity.number {
                let other = values.insert(number.clone(), key.clone());
                assert_eq!(other, None, "two orders have one number");
            }
            let mut copy = |partition: String, row: String, index: &str, mark: &str| {
                expected.insert((partition, row), (index.to_owned(), key.clone(), mark.to_owned()));
            };
            if let Some(desk) = entity.desk {
                copy(partition.clone(), format!("desk_{desk:010}"), "by_desk", &mark);
            }
            let customer = format!("customer_{}_{key}", entity.customer);
            copy(partition.clone(), customer, "by_customer", &mark);
            if settled {
                if let Some(courier) = &entity.courier {
                    let row = format!("{}_{:010}", entity.tenant, entity.id);
                    copy(format!("courier_{courier}"), row, "by_courier", &mark);
                }
                let row = format!("{}_{}_{key}", entity.customer, entity.tenant);
                copy(format!("size_{:010}", entity.size), row, "by_size", "");
            }
            orders.push((key, entity.cents));
        } else {
            left.push((partition, key, text("OwnerRow")));
        }
    }
    if !settled {
        found.retain(|(partition, _), _| partition == "contoso");
    }
    assert_eq!(found, expected, "the copies are those that the orders have");
    for (number, owner) in &values {
        let claim =
            (format!("unique_order_by_number_{number}"), "claim".to_owned(), Some(owner.clone()));
        assert!(left.contains(&claim), "{number} is not claimed for {owner}: {left:?}");
    }
    if settled {
        let claims = left.iter().filter(|(_, row, _)| row == "claim").count();
        assert_eq!(claims, values.len(), "claims are left over: {left:?}");
    }
    orders
}

fn read(partition: &str, key: &str, row: &StoredEntity<'_>) -> Order {
    let number = |name: &str| match row.get(name) {
        Some(Value::Int32(number)) => Some(i64::from(number)),
        Some(Value::Int64(number)) => Some(number),
        _ => None,
    };
    let text = |name: &str| match row.get(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let small = |name: &str| number(name).map(|number| u32::try_from(number).unwrap());
    Order {
        tenant: partition.to_owned(),
        id: key.strip_prefix("order_").unwrap().parse().unwrap(),
        desk: small("desk"),
        customer: text("customer").unwrap(),
        courier: text("courier"),
        size: small("size").unwrap(),
        number: text("number"),
        cents: number("cents").unwrap(),
    }
}

/// A count of the entities of a partition: a row that each write reads and edits.
pub(crate) struct Recounted;

impl<E> Declaration<E> for Recounted {
    fn name(&self) -> &'static str {
        "count"
    }

    fn operations(&self) -> usize {
        1
    }

    fn reads(&self, _: Change<'_, E>) -> Result<Vec<String>, rowkey::Error> {
        Ok(vec!["total".to_owned()])
    }

    fn contribute(
        &self,
        change: Change<'_, E>,
        plan: &mut Contribution<'_>,
    ) -> Result<(), rowkey::Error> {
        let by = i32::from(change.after.is_some()) - i32::from(change.before.is_some());
        plan.edit("total", |row| {
            let stored = row.as_ref().and_then(|row| row.get("Count"));
            let before = if let Some(Value::Int32(count)) = stored { *count } else { 0 };
            let mut total = DynamicEntity::new(change.partition_key(), "total");
            total.set("Count", before + by);
            *row = Some(total);
            Ok(())
        })
    }
}

impl Recounted {
    pub(crate) fn check(snapshot: &Snapshot) {
        let rows = snapshot.table("things").unwrap();
        let things = rows.partition("all").filter(|row| row.row_key().starts_with("thing_"));
        let total = rows.entity("all", "total").and_then(|row| row.get("Count"));
        assert_eq!(total, Some(Value::Int32(i32::try_from(things.count()).unwrap())));
    }
}

/// The op rows, the voids and the rows of the backlog that are stored, and the messages.
pub(crate) fn left(server: &Server) -> Vec<String> {
    let snapshot = server.snapshot();
    let rows = snapshot.table("orders").unwrap();
    let rows = rows.entities().filter(|row| {
        row.row_key().starts_with("op_") || row.partition_key().starts_with("backlog_")
    });
    let rows = rows.map(|row| format!("{} {}", row.partition_key(), row.row_key()));
    let messages = snapshot.queue("orders").unwrap();
    rows.chain(messages.messages().map(|message| message.text().to_owned())).collect()
}
