//! Verifying indexes, mending them, and building new ones while writers go on.

mod drift;
mod live;
mod runs;

use std::collections::BTreeMap;

use rowkey::{DynamicEntity, Entity, Match, StorageAccount, Table};
use rowkey_patterns::index_row::IndexRow;
use rowkey_patterns::verify::Verify;
use rowkey_server::{Server, Snapshot, StoredEntity};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

/// An entity with an index of each kind; `by_region` is kept in a table of its own.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(
    index(name = by_email, row = "email_{email:lower}"),
    index(name = by_last_name, row = "last_{last_name}", many),
    index(name = by_manager, row = "mgr_{manager:6}", many, copy(last_name)),
    index(name = by_city, partition = "city_{city}", row = "{department}_{id:6}"),
    index(name = by_region, partition = "region", row = "{city}", many)
)]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    email: String,
    manager: Option<u32>,
    city: String,
}

const POSITIONS: std::ops::Range<usize> = 0..5;
const REGIONS: usize = 4;

fn employee(department: &str, id: u32) -> Employee {
    Employee {
        department: department.into(),
        id,
        last_name: ["Jones", "King"][id as usize % 2].into(),
        email: format!("E{id}@contoso.com"),
        manager: (!id.is_multiple_of(3)).then_some(id % 3),
        city: ["Leeds", "York"][id as usize % 2].into(),
    }
}

fn key(id: u32) -> rowkey::Key<Employee> {
    Employee::key("sales", id)
}

async fn start() -> Result<(Server, StorageAccount), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    account.table("staff").create().await?;
    account.table("regions").create().await?;
    Ok((server, account))
}

/// The table of a copy.
fn table(account: &StorageAccount, position: usize) -> Table {
    account.table(if position == REGIONS { "regions" } else { "staff" })
}

fn copy(entity: &Employee, position: usize) -> IndexRow<'_, Employee> {
    IndexRow::of(entity, position).unwrap().unwrap()
}

/// Stores an entity and all its copies, one by one.
async fn store(account: &StorageAccount, entity: &Employee) -> TestResult {
    account.table("staff").upsert(entity).await?;
    for position in POSITIONS {
        if let Some(copy) = IndexRow::of(entity, position)? {
            table(account, position).upsert(&copy).await?;
        }
    }
    Ok(())
}

async fn drop_copy(account: &StorageAccount, entity: &Employee, position: usize) -> TestResult {
    let copy = copy(entity, position);
    table(account, position).delete(copy.key::<DynamicEntity>(), Match::Any).await?;
    Ok(())
}

fn verify(account: &StorageAccount) -> Verify<Employee> {
    Verify::new(account.table("staff")).index_table(["by_region"], account.table("regions"))
}

fn dynamic(stored: StoredEntity<'_>) -> DynamicEntity {
    let mut entity = DynamicEntity::new(stored.partition_key(), stored.row_key());
    for (name, value) in stored.properties() {
        entity.set(name, value);
    }
    entity
}

fn properties(row: &DynamicEntity) -> BTreeMap<&str, String> {
    row.iter().map(|(name, value)| (name, format!("{value:?}"))).collect()
}

/// How many rows of each index are missing, stale and left over, told from all rows at once.
fn drift(snapshot: &Snapshot) -> [(u64, u64, u64); 5] {
    let mut stored = BTreeMap::new();
    let mut wanted = BTreeMap::new();
    for table in ["staff", "regions"] {
        for row in snapshot.table(table).unwrap().entities().map(dynamic) {
            if row.get("PrimaryRowKey").is_some() {
                let keys = (row.partition_key.clone(), row.row_key.clone());
                assert_eq!(stored.insert((table, keys), row), None);
            } else if row.row_key.starts_with("id_") {
                let entity: Employee = row.read_as().unwrap();
                for position in POSITIONS {
                    if let Some(copy) = IndexRow::of(&entity, position).unwrap() {
                        let table = if position == REGIONS { "regions" } else { "staff" };
                        let row = DynamicEntity::of(&copy).unwrap();
                        let keys = (row.partition_key.clone(), row.row_key.clone());
                        wanted.insert((table, keys), (position, row));
                    }
                }
            }
        }
    }
    let mut counts = [(0, 0, 0); 5];
    for (place, (position, row)) in &wanted {
        match stored.get(place) {
            None => counts[*position].0 += 1,
            Some(stored) if properties(stored) != properties(row) => counts[*position].1 += 1,
            Some(_) => {}
        }
    }
    for (table, (partition_key, row_key)) in stored.keys() {
        if !wanted.contains_key(&(*table, (partition_key.clone(), row_key.clone()))) {
            let position = if *table == "regions" {
                REGIONS
            } else if partition_key.starts_with("city_") {
                3
            } else {
                ["email_", "last_", "mgr_"]
                    .iter()
                    .position(|head| row_key.starts_with(head))
                    .unwrap()
            };
            counts[position].2 += 1;
        }
    }
    counts
}

fn assert_in_step(snapshot: &Snapshot) {
    assert_eq!(drift(snapshot), [(0, 0, 0); 5], "missing, stale and orphan rows");
}

/// What a report says, in the order of [`drift`].
fn counted(report: &rowkey_patterns::verify::Report) -> Vec<(u64, u64, u64)> {
    report.indexes.iter().map(|index| (index.missing, index.stale, index.orphan)).collect()
}
