//! Index entities elsewhere: lists name every entity with their value, once all changes are settled.

mod settle;
mod worker;

use std::collections::{BTreeMap, BTreeSet};

use rowkey::edm::Value;
use rowkey::{Entity, Key, StorageAccount, Table};
use rowkey_eventual::remote_index_entity::RemoteIndexEntity;
use rowkey_server::{Server, Snapshot};
use rowkey_tests::sweep::account;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    /// In no list without one.
    last_name: Option<String>,
}

type Names = RemoteIndexEntity<Employee, String>;

/// Odd ones in one partition, even ones in another.
fn employee(id: u32, last_name: &str) -> Employee {
    let last_name = (!last_name.is_empty()).then(|| last_name.to_owned());
    Employee { department: department(id).into(), id, last_name }
}

fn department(id: u32) -> &'static str {
    if id.is_multiple_of(2) { "hr" } else { "sales" }
}

fn key(id: u32) -> Key<Employee> {
    Employee::key(department(id), id)
}

fn listed_in(staff: Table, lists: Table) -> Names {
    RemoteIndexEntity::new("last", staff, lists, |employee: &Employee| employee.last_name.clone())
}

fn names(account: &StorageAccount) -> Names {
    listed_in(account.table("staff"), account.table("names"))
}

async fn start() -> Result<(Server, Table, Names), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    account.table("staff").create().await?;
    account.table("names").create().await?;
    Ok((server, account.table("staff"), names(&account)))
}

/// Stores an employee, whatever is there, and settles what that changes, as a worker would.
async fn put(staff: &Table, names: &Names, employee: &Employee) -> rowkey::Result<()> {
    let before = staff.get(Key::of(employee)).await?.and_then(|stored| stored.entity.last_name);
    staff.upsert(employee).await?;
    for name in employee.last_name.iter().chain(&before) {
        names.settle(Key::of(employee), &**name).await?;
    }
    Ok(())
}

async fn ids(names: &Names, name: &str) -> rowkey::Result<BTreeSet<u32>> {
    Ok(names.find(name).await?.iter().map(|found| found.entity.id).collect())
}

/// The lists by value, read by the rows alone, and those that the entities ask for.
type Lists = BTreeMap<String, BTreeSet<String>>;

fn lists(snapshot: &Snapshot) -> (Lists, Lists) {
    let (mut stored, mut wanted) = (Lists::new(), Lists::new());
    for entity in snapshot.table("staff").unwrap().entities() {
        let Some(Value::String(name)) = entity.get("LastName") else { continue };
        let listed = entity.row_key().strip_prefix("id_").unwrap();
        wanted.entry(name).or_default().insert(format!("{}#{listed}", entity.partition_key()));
    }
    for row in snapshot.table("names").unwrap().entities() {
        let name = row.partition_key().strip_prefix("last_").unwrap();
        let list = stored.entry(name.to_owned()).or_default();
        for (_, value) in row.properties().filter(|(name, _)| name.starts_with("Keys")) {
            let Value::String(keys) = value else { panic!("no text: {value:?}") };
            for key in keys.split('/') {
                assert!(list.insert(key.to_owned()), "{key} is listed twice");
            }
        }
    }
    (stored, wanted)
}

fn assert_lists(snapshot: &Snapshot) {
    let (stored, wanted) = lists(snapshot);
    assert_eq!(stored, wanted, "what is listed, and what the entities ask for");
}
