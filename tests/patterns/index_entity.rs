//! Index entities: entities and the lists that name them change together.

use std::collections::{BTreeMap, BTreeSet};

use rowkey::edm::Value;
use rowkey::{DynamicEntity, Entity, ErrorKind, Match, Outcome, StorageAccount, Table};
use rowkey_patterns::index_entity::IndexEntity;
use rowkey_server::{Fault, Operation, Pages, Server, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    /// In no list without one.
    last_name: Option<String>,
    salary: i32,
}

fn employee(id: u32, last_name: &str) -> Employee {
    let last_name = (!last_name.is_empty()).then(|| last_name.to_owned());
    Employee { department: "sales".into(), id, last_name, salary: 0 }
}

fn key(id: u32) -> rowkey::Key<Employee> {
    Employee::key("sales", id)
}

fn sales() -> rowkey::Partition<Employee> {
    Employee::partition("sales")
}

fn indexed(table: Table) -> IndexEntity<Employee, String> {
    IndexEntity::new(table, "last", |employee: &Employee| employee.last_name.clone())
}

async fn start() -> Result<(Server, IndexEntity<Employee, String>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("staff");
    table.create().await?;
    Ok((server, indexed(table)))
}

fn staff(account: &StorageAccount) -> IndexEntity<Employee, String> {
    indexed(account.table("staff"))
}

async fn ids(staff: &IndexEntity<Employee, String>, name: &str) -> rowkey::Result<Vec<u32>> {
    Ok(staff.find(sales(), name).await?.iter().map(|found| found.entity.id).collect())
}

/// The lists in a table, read by the rows alone, and those that its entities ask for.
fn lists(
    snapshot: &Snapshot,
) -> (BTreeMap<String, BTreeSet<String>>, BTreeMap<String, BTreeSet<String>>) {
    let (mut stored, mut wanted) = (BTreeMap::new(), BTreeMap::new());
    for entity in snapshot.table("staff").unwrap().entities() {
        let row = entity.row_key();
        if let Some(id) = row.strip_prefix("id_") {
            if entity.get("LastName").is_some() {
                let list: &mut BTreeSet<String> =
                    wanted.entry(text(entity.get("LastName").as_ref())).or_default();
                list.insert(id.to_owned());
            }
        } else {
            let name = row.strip_prefix("last_").unwrap().split('_').next().unwrap();
            let list: &mut BTreeSet<String> = stored.entry(name.to_owned()).or_default();
            for (_, value) in entity.properties().filter(|(name, _)| name.starts_with("Keys")) {
                for id in text(Some(&value)).split('/') {
                    assert!(list.insert(id.to_owned()), "{id} is listed twice");
                }
            }
        }
    }
    (stored, wanted)
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        other => panic!("no text: {other:?}"),
    }
}

fn assert_lists(snapshot: &Snapshot) {
    let (stored, wanted) = lists(snapshot);
    assert_eq!(stored, wanted, "what is listed, and what the entities ask for");
}

#[tokio::test]
async fn entities_are_found_by_their_value_whatever_became_of_it() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = indexed(table.clone());
    for (id, name) in [(3, "Jones"), (1, "Jones"), (2, "King"), (4, "")] {
        staff.insert(&employee(id, name)).await?;
    }
    assert_eq!(ids(&staff, "Jones").await?, [1, 3]);
    assert_eq!(staff.keys(sales(), "Jones").await?, [key(1), key(3)]);
    assert_eq!(ids(&staff, "Nobody").await?, [0; 0]);

    let moved = staff.update(key(1), |e| e.last_name = Some("King".into())).await?;
    assert_eq!(staff.table().get(key(1)).await?, Some(moved), "what is returned is what is stored");
    assert_eq!((ids(&staff, "Jones").await?, ids(&staff, "King").await?), (vec![3], vec![1, 2]));

    let paid = staff.update(key(1), |e| e.salary = 5).await?;
    assert_eq!(staff.table().get(key(1)).await?, Some(paid));
    staff.update(key(4), |e| e.last_name = Some("Jones".into())).await?;
    staff.update(key(3), |e| e.last_name = None).await?;
    assert_eq!(ids(&staff, "Jones").await?, [4]);

    assert!(staff.delete(key(4)).await?);
    assert!(!staff.delete(key(4)).await?);
    assert_eq!(ids(&staff, "Jones").await?, [0; 0]);
    assert_eq!(staff.find(Employee::partition("elsewhere"), "King").await?, []);
    Ok(())
}

#[tokio::test]
async fn rows_are_these() -> TestResult {
    let (server, staff) = start().await?;
    for (id, name) in [(223, "Jones"), (152, "Jones"), (7, "O_Neil/King")] {
        staff.insert(&employee(id, name)).await?;
    }
    let snapshot = server.snapshot();
    let table = snapshot.table("staff").unwrap();
    let rows: Vec<_> = table
        .partition("sales")
        .filter(|row| !row.row_key().starts_with("id_"))
        .map(|row| (row.row_key().to_owned(), row.properties().collect::<Vec<_>>()))
        .collect();
    let expected = [
        (
            "last_Jones_0000".to_owned(),
            vec![("Count", Value::from(2)), ("Keys0", Value::from("000152/000223"))],
        ),
        (
            "last_O^~Neil.~King_0000".to_owned(),
            vec![("Count", Value::from(1)), ("Keys0", Value::from("000007"))],
        ),
    ];
    assert_eq!(rows, expected);
    staff.delete(key(7)).await?;
    let row = "last_O^~Neil.~King_0000";
    assert!(server.snapshot().table("staff").unwrap().entity("sales", row).is_none());
    Ok(())
}

#[tokio::test]
async fn what_each_operation_costs() -> TestResult {
    let (server, staff) = start().await?;
    let mut before = server.journal();
    let mut cost = || {
        let journal = server.journal().since(&before);
        before = server.journal();
        [
            Operation::GetEntity,
            Operation::QueryEntities,
            Operation::Transaction,
            Operation::UpdateEntity,
        ]
        .map(|operation| journal.count(operation))
    };
    staff.insert(&employee(1, "Jones")).await?;
    assert_eq!(cost(), [0, 1, 1, 0], "insert");
    staff.update(key(1), |e| e.salary = 1).await?;
    assert_eq!(cost(), [1, 0, 0, 1], "update of something else");
    staff.update(key(1), |e| e.last_name = Some("King".into())).await?;
    assert_eq!(cost(), [1, 2, 1, 0], "update of the value");
    staff.insert(&employee(2, "King")).await?;
    cost();
    staff.find(sales(), "King").await?;
    assert_eq!(cost(), [2, 1, 0, 0], "find");
    staff.keys(sales(), "King").await?;
    assert_eq!(cost(), [0, 1, 0, 0], "keys");
    staff.delete(key(1)).await?;
    assert_eq!(cost(), [1, 1, 1, 0], "delete");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_written() -> TestResult {
    #[derive(Clone, Debug, Entity)]
    #[entity(partition = "{department}", row = "{id:6}")]
    struct Headless {
        department: String,
        id: u32,
    }
    let (server, staff) = start().await?;
    let table = staff.table().clone();
    let headless = IndexEntity::new(table.clone(), "last", |e: &Headless| Some(e.id));
    let error = headless.insert(&Headless { department: "sales".into(), id: 1 }).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("needs a literal"), "{error}");
    for name in ["", "a_b", "a/b", "id"] {
        let staff = IndexEntity::new(table.clone(), name, |e: &Employee| e.last_name.clone());
        let error = staff.insert(&employee(1, "Jones")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
    }

    staff.insert(&employee(1, "Jones")).await?;
    let error = staff.insert(&employee(1, "King")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let error = staff.update(key(1), |e| e.id = 2).await.unwrap_err();
    assert!(error.to_string().contains("keys cannot change"), "{error}");
    let error = staff.update(key(9), |_| ()).await.unwrap_err();
    assert!(error.is_not_found());
    let error = staff.delete(rowkey::Key::new("sales", "last_Jones_0000")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "a list is no employee");
    let missing = indexed(table.account().table("missing"));
    let error = missing.delete(key(1)).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_lists(&server.snapshot());
    Ok(())
}

/// A list whose first row is full, written as the documented rows are: keys of nobody.
async fn fill(table: &Table) -> TestResult {
    let ids: Vec<_> = (500_000..500_000 + 8 * 4681).map(|id: u32| id.to_string()).collect();
    let mut row = DynamicEntity::new("sales", "last_Jones_0000");
    row.set("Count", i32::try_from(ids.len())?);
    for (at, ids) in ids.chunks(4681).enumerate() {
        row.set(format!("Keys{at}"), ids.join("/"));
    }
    table.insert(&row).await?;
    Ok(())
}

#[tokio::test]
async fn a_list_spills_over_rows_and_ends_with_an_error_that_names_the_blob() -> TestResult {
    let (server, staff) = start().await?;
    fill(staff.table()).await?;
    let error = staff.clone().max_rows(1).insert(&employee(1, "Jones")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert!(error.to_string().contains("37448 keys"), "{error}");
    assert!(error.to_string().contains("in blobs: `list(.., blob)` of a store"), "{error}");
    assert!(staff.table().get(key(1)).await?.is_none());

    staff.insert(&employee(1, "Jones")).await?;
    staff.insert(&employee(2, "Jones")).await?;
    let row = |row: &str| {
        let snapshot = server.snapshot();
        let row = snapshot.table("staff").unwrap().entity("sales", row)?;
        Some(row.properties().map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>())
    };
    assert_eq!(row("last_Jones_0001"), Some(vec![("Keys0".into(), "000001/000002".into())]));
    let head = row("last_Jones_0000").unwrap();
    assert_eq!((head.len(), &head[0].1), (9, &Value::from(37450)), "the first row keeps its keys");
    assert_eq!(staff.keys(sales(), "Jones").await?.len(), 37450);

    staff.delete(key(1)).await?;
    staff.delete(key(2)).await?;
    assert_eq!(row("last_Jones_0001"), None, "a row without keys goes");
    // Room in the first row is used before another row is begun.
    let mut list = list_row(&staff, 0).await?;
    list.set("Keys7", text(list.get("Keys7")).split_off(7));
    list.set("Count", 8 * 4681 - 1);
    staff.table().upsert(&list).await?;
    staff.insert(&employee(3, "Jones")).await?;
    assert_eq!(row("last_Jones_0001"), None);
    Ok(())
}

#[tokio::test]
async fn a_list_of_several_rows_is_read_as_it_was_at_one_time() -> TestResult {
    let (server, staff) = start().await?;
    // Twenty rows of a key each, as they may be written; in the other state the keys of the first
    // and the last have changed places.
    let rows = |number: u32, key: u32| {
        let mut row = DynamicEntity::new("sales", format!("last_Jones_{number:04}"));
        if number == 0 {
            row.set("Count", 20);
        }
        row.set("Keys0", format!("{key:06}"));
        row
    };
    let all = (0..20).fold(staff.table().transaction(), |all, n| all.insert(&rows(n, n)));
    all.submit().await?;
    let states = [[rows(0, 0), rows(19, 19)], [rows(0, 19), rows(19, 0)]];

    // A few rows a page, and a writer before one of the pages.
    let _chaos = server.chaos(Pages { seed: 1, cut: true, empty: true, partition_only: false });
    let mut read_again = 0;
    for run in 1..=20 {
        let [head, last] = &states[usize::try_from(run % 2)?];
        let before = server.journal();
        let held = server.inject(Fault::on(Operation::QueryEntities).nth(1 + run % 5).hold());
        let writes = async {
            held.wait_until_held().await;
            staff.table().transaction().upsert(head).upsert(last).submit().await?;
            held.release();
            std::future::pending::<rowkey::Result<()>>().await
        };
        tokio::select! {
            keys = staff.keys(sales(), "Jones") => {
                let keys = keys?;
                let keys: BTreeSet<_> = keys.iter().map(|key| key.parts().unwrap()).collect();
                assert_eq!(keys.len(), 20, "each key once, in run {run}");
            }
            written = writes => written?,
        }
        // Row 0 is read once more to know that rows of several pages belong together.
        let checks = server.journal().since(&before).count(Operation::GetEntity);
        read_again += usize::from(checks > 1);
    }
    assert!(read_again > 0, "no read was disturbed");
    Ok(())
}

async fn list_row(
    staff: &IndexEntity<Employee, String>,
    number: u32,
) -> rowkey::Result<DynamicEntity> {
    let key = rowkey::Key::new("sales", format!("last_Jones_{number:04}"));
    Ok(staff.table().get::<DynamicEntity>(key).await?.unwrap().entity)
}

#[tokio::test]
async fn an_entity_that_is_gone_or_has_another_value_is_not_found() -> TestResult {
    let (_server, staff) = start().await?;
    for id in 1..=3 {
        staff.insert(&employee(id, "Jones")).await?;
    }
    // Between the reading of the list and that of the entities this is what anybody may do.
    staff.table().delete(key(1), Match::Any).await?;
    staff.table().replace((&employee(2, "King"), Match::Any)).await?;
    assert_eq!(ids(&staff, "Jones").await?, [3]);
    assert_eq!(staff.keys(sales(), "Jones").await?.len(), 3);
    Ok(())
}

#[tokio::test]
async fn what_was_stored_without_the_lists_is_listed_afterwards() -> TestResult {
    let (server, staff) = start().await?;
    for id in 1..=3 {
        staff.table().insert(&employee(id, "Jones")).await?;
    }
    staff.table().insert(&employee(4, "")).await?;
    // Writers go on: what they touch is listed, or taken off where it never was.
    staff.update(key(2), |e| e.last_name = Some("King".into())).await?;
    staff.delete(key(3)).await?;
    for (id, added) in [(1, true), (2, false), (3, false), (4, false), (1, false)] {
        assert_eq!(staff.index(key(id)).await?, added, "{id}");
    }
    assert_lists(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn who_loses_the_list_reads_it_again() -> TestResult {
    let (server, staff) = start().await?;
    for first in [true, false] {
        let id = if first { 1 } else { 3 };
        let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
        let before = server.journal();
        let meanwhile = async {
            held.wait_until_held().await;
            staff.insert(&employee(id, "Jones")).await?;
            held.release();
            Ok::<_, rowkey::Error>(())
        };
        let ours = employee(id + 1, "Jones");
        let (held, other) = tokio::join!(staff.insert(&ours), meanwhile);
        held?;
        other?;
        assert_eq!(server.journal().since(&before).count(Operation::Transaction), 3);
    }
    assert_eq!(ids(&staff, "Jones").await?, [1, 2, 3, 4]);
    Ok(())
}

#[tokio::test]
async fn who_loses_the_entity_decides_again() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "Jones")).await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let meanwhile = async {
        held.wait_until_held().await;
        staff.update(key(1), |e| e.last_name = Some("King".into())).await?;
        held.release();
        Ok::<_, rowkey::Error>(())
    };
    let (deleted, other) = tokio::join!(staff.delete(key(1)), meanwhile);
    other?;
    assert!(deleted?);
    assert_lists(&server.snapshot());
    assert_eq!(ids(&staff, "King").await?, [0; 0]);
    Ok(())
}

#[tokio::test]
async fn eight_writers_of_one_list_lose_nothing() -> TestResult {
    let fixture = Fixture::new().await?;
    let staff = indexed(fixture.table().await?);
    let work = (0..8).map(async |writer| {
        for n in 0..5 {
            let id = writer * 10 + n;
            staff.insert(&employee(id, "Jones")).await?;
            match n {
                1 => drop(staff.delete(key(id)).await?),
                2 => drop(staff.update(key(id), |e| e.last_name = Some("King".into())).await?),
                _ => {}
            }
        }
        Ok::<_, rowkey::Error>(())
    });
    futures_util::future::try_join_all(work).await?;
    let of = |kept: &[u32]| -> Vec<u32> {
        (0..8).flat_map(|writer| kept.iter().map(move |n| writer * 10 + n)).collect()
    };
    assert_eq!(ids(&staff, "Jones").await?, of(&[0, 3, 4]));
    assert_eq!(ids(&staff, "King").await?, of(&[2]));
    Ok(())
}

#[tokio::test]
async fn the_sweep_leaves_entities_and_lists_in_step() -> TestResult {
    let (server, prepared) = start().await?;
    prepared.insert(&employee(1, "Jones")).await?;
    prepared.insert(&employee(2, "Jones")).await?;
    let scenario = async |account: &StorageAccount| {
        let staff = staff(account);
        staff.insert(&employee(3, "Jones")).await?;
        staff.update(key(1), |e| e.last_name = Some("King".into())).await?;
        staff.update(key(2), |e| e.salary = 7).await?;
        staff.delete(key(2)).await
    };
    let check = |snapshot: &Snapshot, result: &rowkey::Result<bool>| {
        assert_lists(snapshot);
        if let Ok(deleted) = result {
            assert!(deleted);
            let kings = lists(snapshot).0.remove("King").unwrap();
            assert_eq!(kings, BTreeSet::from(["000001".to_owned()]));
        } else if let Err(error) = result {
            assert_eq!(error.outcome(), Outcome::Unknown, "the rest is repeated: {error}");
        }
    };
    let runs = sweep(&server, scenario, async |_, _| Ok(()), check).await?;
    assert_eq!(runs.requests, 2 + 4 + 2 + 3);

    let unrepeated = async |account: &StorageAccount| scenario(&once(account)).await;
    let check = |snapshot: &Snapshot, _: &rowkey::Result<bool>| assert_lists(snapshot);
    sweep(&server, unrepeated, async |_, _| Ok(()), check).await?;
    Ok(())
}

#[tokio::test]
async fn the_model_and_the_table_agree_after_any_operations() -> TestResult {
    let (server, staff) = start().await?;
    let names = ["Jones", "King", "O_Neil", ""];
    for seed in seeds(100) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let department = format!("d{seed}");
        let key = |id| Employee::key(&*department, id);
        let mut model: BTreeMap<u32, &str> = BTreeMap::new();
        for _ in 0..12 {
            let (id, name) = (random.below(5), random.pick(&names));
            let entity = Employee { department: department.clone(), ..employee(id, name) };
            match random.below(5) {
                0 | 1 => match staff.insert(&entity).await {
                    Ok(_) => assert_eq!(model.insert(id, name), None),
                    Err(error) => {
                        assert!(error.is_already_exists() && model.contains_key(&id), "{error}");
                    }
                },
                2 | 3 => match staff.update(key(id), |e| *e = entity.clone()).await {
                    Ok(_) => assert!(model.insert(id, name).is_some()),
                    Err(error) => assert!(error.is_not_found() && !model.contains_key(&id)),
                },
                _ => assert_eq!(staff.delete(key(id)).await?, model.remove(&id).is_some()),
            }
        }
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let found = staff.keys(Employee::partition(&*department), name).await?;
            let expected: Vec<_> =
                model.iter().filter(|(_, value)| **value == name).map(|(id, _)| key(*id)).collect();
            assert_eq!(found, expected, "{name}");
        }
        let left = server.snapshot();
        let left = left.table("staff").unwrap().partition(&department).count();
        let lists: BTreeSet<_> = model.values().filter(|name| !name.is_empty()).collect();
        assert_eq!(left, model.len() + lists.len(), "no list without keys is left behind");
    }
    Ok(())
}
