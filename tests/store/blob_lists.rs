//! Lists in blobs: after each write, failure and simultaneous write, each value has the blob of the
//! entities of all partitions that have it.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use rowkey::edm::Value;
use rowkey::patterns::job::Verdict;
use rowkey::store::Store;
use rowkey::{
    ClientOptions, DynamicEntity, Entity, ErrorKind, Key, Match, ScanPolicy, StorageAccount,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, sweep_every_way};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{department}", row = "id_{id:6}")]
#[entity(list(name = by_last_name, value = "{last_name}", blob))]
#[entity(list(name = by_skill, value = "{skills:lower}", max = 4, blob, when = "Self::is_here"))]
#[entity(index(name = by_room, row = "room_{room}", many))]
struct Employee {
    department: String,
    id: u32,
    last_name: Option<String>,
    room: u32,
    gone: bool,
    #[entity(json)]
    skills: Vec<String>,
}

impl Employee {
    fn is_here(&self) -> bool {
        !self.gone
    }
}

fn employee(id: u32, last_name: &str) -> Employee {
    Employee {
        department: if id.is_multiple_of(2) { "sales" } else { "research" }.to_owned(),
        id,
        last_name: Some(last_name.to_owned()),
        room: 7,
        gone: false,
        skills: vec!["Rust".to_owned()],
    }
}

fn key(id: u32) -> Key<Employee> {
    Key::of(&employee(id, ""))
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Employee>> {
    Store::builder(account.table("staff"))
        .queue(account.queue("staff"))
        .blobs(account.container("staff"))
        .build()
}

async fn start() -> TestResult<(Server, Store<Employee>)> {
    let server = Server::builder().manual_clock().start().await?;
    let staff = store(&account(&server)?)?;
    staff.create_if_missing().await?;
    Ok((server, staff))
}

/// Each list with its keys.
type Lists = BTreeMap<String, BTreeSet<String>>;

/// All lists, after they were found to be those that the employees have, no more and no less.
fn agreed(snapshot: &Snapshot) -> Lists {
    let (mut expected, mut stored) = (Lists::new(), Lists::new());
    for row in snapshot.table("staff").unwrap().entities() {
        if !row.row_key().starts_with("id_") {
            continue;
        }
        let mut lists = Vec::new();
        if let Some(Value::String(name)) = row.get("last_name") {
            lists.push(format!("list_id_by_last_name_{name}"));
        }
        if row.get("gone") == Some(Value::Boolean(false))
            && let Some(Value::String(skills)) = row.get("skills")
        {
            let skills: Vec<String> = serde_json::from_str(&skills).unwrap();
            let skills = skills.iter().map(|skill| skill.to_lowercase());
            lists.extend(skills.map(|skill| format!("list_id_by_skill_{skill}")));
        }
        for list in lists {
            let keys = format!("{}\t{}", row.partition_key(), row.row_key());
            expected.entry(list).or_default().insert(keys);
        }
    }
    for name in snapshot.blobs("staff") {
        let text = String::from_utf8(snapshot.blob("staff", name).unwrap()).unwrap();
        let (head, lines) = text.split_once('\n').unwrap();
        let head: serde_json::Value = serde_json::from_str(head).unwrap();
        let keys: BTreeSet<_> = lines.lines().map(str::to_owned).collect();
        assert_eq!((&head["v"], &head["count"]), (&1.into(), &keys.len().into()), "{name}");
        stored.insert(head["list"].as_str().unwrap().to_owned(), keys);
    }
    assert_eq!(stored, expected, "the lists are those that the employees have");
    stored
}

async fn named(staff: &Store<Employee>, name: &str) -> rowkey::Result<Vec<u32>> {
    let found = staff.query(Employee::by_last_name(name)).all().await?;
    Ok(found.into_iter().map(|found| found.entity.id).collect())
}

#[tokio::test]
async fn every_write_updates_the_lists_of_all_partitions() -> TestResult {
    let (server, staff) = start().await?;
    for id in 1..=4 {
        assert!(
            staff.insert(&employee(id, "O'Neil")).await?.settled == rowkey::store::Settled::Done
        );
    }
    // The stored format, which must stay as it is.
    assert_eq!(
        server.snapshot().blob("staff", "staff/list_id_by_last_name_O=27Neil").unwrap(),
        b"{\"v\":1,\"list\":\"list_id_by_last_name_O'Neil\",\"count\":4}\n\
          research\tid_000001\nresearch\tid_000003\nsales\tid_000002\nsales\tid_000004\n"
    );
    assert_eq!(named(&staff, "O'Neil").await?, [1, 3, 2, 4], "in the order of their keys");
    assert_eq!(named(&staff, "o'neil").await?, [0; 0]);
    let keys = staff.list_keys(&Employee::by_skill("RUST")).await?;
    assert_eq!(keys, [1, 3, 2, 4].map(key));

    let king = |employee: &mut Employee| employee.last_name = Some("King".into());
    let found = staff.update(key(3), king).await?;
    agreed(&server.snapshot());
    let other = Employee { skills: vec!["C".into(), "c".into()], ..found.entity };
    staff.replace_if(&other, &found.version).await?;
    assert_eq!(agreed(&server.snapshot())["list_id_by_skill_c"].len(), 1);
    staff.patch(key(1)).set(Employee::LAST_NAME, "King").set(Employee::ROOM, 8_u32).send().await?;
    assert_eq!(named(&staff, "King").await?, [1, 3]);
    staff.upsert(&Employee { last_name: None, gone: true, ..employee(2, "") }).await?;
    agreed(&server.snapshot());
    let (fifth, seventh) = (employee(5, "King"), employee(7, "Lee"));
    staff.transaction().insert(&fifth).insert(&seventh).submit().await?;
    assert_eq!(named(&staff, "King").await?, [1, 3, 5]);
    assert!(staff.verify().run().await?.is_clean());
    for id in 1..=7 {
        staff.delete(key(id)).await?;
        agreed(&server.snapshot());
    }
    assert_eq!(server.snapshot().blobs("staff").count(), 0, "a list goes with its last entity");
    Ok(())
}

#[tokio::test]
async fn values_of_any_type_have_separate_lists() -> TestResult {
    let (_server, staff) = start().await?;
    let long = "x".repeat(400);
    let values = ["", "a b", "..", "é", "=sha256=", "A", "a", &long, "日本"];
    for (id, value) in (0..).zip(values) {
        staff.insert(&employee(id, value)).await?;
    }
    for (id, value) in (0..).zip(values) {
        assert_eq!(named(&staff, value).await?, [id], "{value}");
    }
    assert!(staff.sweep().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn a_list_in_a_blob_sends_the_documented_requests() -> TestResult {
    let (server, staff) = start().await?;
    let mut before = server.journal();
    let mut cost = || {
        let requests = server.journal().since(&before).len();
        before = server.journal();
        requests
    };
    let jones = Employee { skills: Vec::new(), ..employee(1, "Jones") };
    cost();
    staff.insert(&jones).await?;
    // The message, the transaction, the list, the entity, the list, the entity, op row and message.
    assert_eq!(cost(), 8);
    staff.update(key(1), |employee| employee.room = 9).await?;
    assert_eq!(cost(), 2, "its lists are not looked at");
    staff.update(key(1), |employee| employee.last_name = Some("King".into())).await?;
    assert_eq!(cost(), 12, "two lists");
    assert_eq!(named(&staff, "King").await?, [1]);
    assert_eq!(cost(), 2, "the list and the entity");
    Ok(())
}

#[tokio::test]
async fn a_store_without_a_container_or_a_queue_is_rejected() -> TestResult {
    let (_server, staff) = start().await?;
    let account = staff.table().account();
    let table = || account.table("staff");
    let error = Store::<Employee>::builder(table()).queue(account.queue("staff")).build();
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("`by_last_name`"), "{error}");
    assert!(error.to_string().contains("StoreBuilder::blobs"), "{error}");
    let error = Store::<Employee>::builder(table()).blobs(account.container("staff")).build();
    assert!(error.unwrap_err().to_string().contains("StoreBuilder::queue"));
    Ok(())
}

#[tokio::test]
async fn a_write_is_settled_once_its_container_exists() -> TestResult {
    let (server, staff) = start().await?;
    staff.table().account().container("staff").delete().await?;
    let written = staff.insert(&employee(1, "Jones")).await?;
    assert_eq!(written.settled, rowkey::store::Settled::Pending);
    assert_eq!(staff.work_once().await?.failed, 1);
    assert_eq!(named(&staff, "Jones").await.unwrap_err().kind(), ErrorKind::NotFound);
    server.clock().advance(std::time::Duration::from_secs(61));
    staff.create_if_missing().await?;
    assert_eq!(staff.work_once().await?.failed, 0);
    agreed(&server.snapshot());
    Ok(())
}

/// The writes, each on a server with two employees.
type Write = fn(Store<Employee>) -> BoxFuture<'static, Result<(), rowkey::Error>>;

const WRITES: [(&str, Write); 4] = [
    ("insert", |staff| async move { staff.insert(&employee(3, "Jones")).await.map(drop) }.boxed()),
    ("update", |staff| {
        let change = |employee: &mut Employee| employee.last_name = Some("King".into());
        async move { staff.update(key(1), change).await.map(drop) }.boxed()
    }),
    ("upsert", |staff| {
        let other = Employee { skills: Vec::new(), ..employee(2, "Jones") };
        async move { staff.upsert(&other).await.map(drop) }.boxed()
    }),
    ("delete", |staff| async move { staff.delete(key(2)).await.map(drop) }.boxed()),
];

#[tokio::test]
async fn lists_agree_eventually_after_any_fault() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "Jones")).await?;
    staff.insert(&employee(2, "Lee")).await?;
    let recover = async |account: &StorageAccount| {
        let staff = store(account)?;
        staff.drain_backlog().await?;
        assert_eq!(staff.work_once().await?.failed, 0);
        Ok(())
    };
    for (name, write) in WRITES {
        eprintln!("{name}");
        let scenario = async |account: &StorageAccount| write(store(account)?).await;
        sweep_every_way(&server, scenario, recover, |snapshot| drop(agreed(snapshot))).await?;
    }
    Ok(())
}

#[tokio::test]
async fn eight_writers_of_one_list_lose_no_entry() -> TestResult {
    let (server, staff) = start().await?;
    let all: Vec<_> = (0..8).map(|id| employee(id, "Jones")).collect();
    for inserted in join_all(all.iter().map(|one| staff.insert(one))).await {
        inserted?;
    }
    let turn = |id: u32| {
        let staff = staff.clone();
        let king = |employee: &mut Employee| employee.last_name = Some("King".into());
        async move { staff.update(key(id), king).await }
    };
    for turned in join_all((0..4).map(turn)).await {
        turned?;
    }
    // What lost a race was left to the worker.
    for _ in 0..10 {
        server.clock().advance(std::time::Duration::from_secs(61));
        assert_eq!(staff.work_once().await?.failed, 0);
    }
    let lists = agreed(&server.snapshot());
    assert_eq!(
        (lists["list_id_by_last_name_Jones"].len(), lists["list_id_by_last_name_King"].len()),
        (4, 4)
    );
    Ok(())
}

/// Reads may go to the secondary, which has the initial state, and the primary is busy now and then.
#[tokio::test]
async fn a_lagging_secondary_does_not_change_a_list() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "Jones")).await?;
    staff.insert(&employee(2, "Jones")).await?;
    let account = account(&server)?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let staff = store(&account.with_options(options))?;
    let _behind = server.hold_back_secondary();
    for round in 0..6_u64 {
        let id = u32::try_from(1 + round % 2)?;
        let operation = [Operation::GetEntity, Operation::GetBlob][usize::try_from(round % 2)?];
        let fault = Fault::on(operation).times(1 + round % 3);
        let injected = server.inject(fault.reject(ErrorCode::SERVER_BUSY));
        staff.update(key(id), |one| one.last_name = Some(format!("r{round}"))).await?;
        drop(injected);
        agreed(&server.snapshot());
    }
    Ok(())
}

#[tokio::test]
async fn repair_adds_missing_entries_and_the_sweep_removes_orphans() -> TestResult {
    let (server, staff) = start().await?;
    for id in 1..=4 {
        staff.insert(&employee(id, "Jones")).await?;
    }
    // Another program deletes and writes past the store.
    let row =
        |id: u32| Key::<DynamicEntity>::new(key(id).parts().unwrap().0, format!("id_{id:06}"));
    staff.table().delete(row(1), Match::Any).await?;
    let mut second = staff.table().get(row(2)).await?.unwrap().entity;
    second.set("last_name", "King");
    staff.table().upsert(&second).await?;
    assert_eq!(named(&staff, "Jones").await?, [3, 4], "lookups pass over them");

    let found = staff.verify().run().await?;
    assert_eq!(found.parts["by_last_name"].missing, 1, "{found:?}");
    assert!(staff.repair().run().await?.parts["by_last_name"].repaired == 1);
    assert_eq!(named(&staff, "King").await?, [2]);
    let swept = staff.sweep().run().await?;
    let names = &swept.parts["by_last_name"];
    assert_eq!((names.orphaned, names.repaired, names.right), (2, 2, 3), "{swept:?}");
    assert_eq!(swept.parts["by_skill"].repaired, 1);
    agreed(&server.snapshot());
    assert!(staff.sweep().run().await?.is_clean() && staff.verify().run().await?.is_clean());
    Ok(())
}

/// Item 9 of issue 13: a policy that stops some jobs that read a whole table, and not others.
#[tokio::test]
async fn jobs_ignore_the_scan_policy() -> TestResult {
    let (_server, staff) = start().await?;
    staff.insert(&employee(1, "Jones")).await?;
    let account = staff.table().account();
    let scan_policy = ScanPolicy::Deny;
    let staff =
        store(&account.with_options(ClientOptions { scan_policy, ..account.options().clone() }))?;
    for job in [staff.verify().run().await?, staff.repair().run().await?] {
        assert!(job.is_clean());
    }
    assert!(staff.sweep().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn a_damaged_list_is_neither_read_nor_written() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "Jones")).await?;
    let account = staff.table().account();
    let blob = account.container("staff").blob("staff/list_id_by_last_name_Jones");
    let good = blob.get().await?.unwrap().bytes;
    blob.put(good.slice(..good.len() - 1)).send().await?;
    let error = named(&staff, "Jones").await.unwrap_err();
    assert_eq!((error.kind(), error.details().index), (ErrorKind::Decode, Some("by_last_name")));
    assert!(error.to_string().contains("Store::repair"), "{error}");
    let pending = staff.insert(&employee(2, "Jones")).await?.settled;
    assert_eq!(pending, rowkey::store::Settled::Pending);
    assert_eq!(blob.get().await?.unwrap().bytes, good.slice(..good.len() - 1));
    let swept = staff.sweep().run().await?;
    assert_eq!(swept.parts["by_last_name"].unreadable, 1, "{swept:?}");
    assert_eq!(swept.problems[0].verdict, Verdict::Unreadable);

    // The action that the error advises.
    blob.delete().await?;
    staff.repair().run().await?;
    // What lost a race was left to the worker.
    server.clock().advance(std::time::Duration::from_secs(61));
    assert_eq!(staff.work_once().await?.failed, 0);
    agreed(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_load_fills_the_lists_and_a_deletion_empties_them() -> TestResult {
    let (server, staff) = start().await?;
    let all: Vec<_> = (0..60).map(|id| employee(id, ["Jones", "King"][id as usize % 2])).collect();
    let report = staff.load(futures_util::stream::iter(all)).run().await?;
    assert!(report.is_clean() && report.total.right == 60, "{report:?}");
    // Two transactions of one list meet.
    server.clock().advance(std::time::Duration::from_secs(61));
    staff.work_once().await?;
    assert_eq!(agreed(&server.snapshot())["list_id_by_skill_rust"].len(), 60);
    for department in ["sales", "research"] {
        let deletion = staff.delete_where(Employee::partition(department)).run().await?;
        assert!(deletion.is_clean());
    }
    assert!(agreed(&server.snapshot()).is_empty());
    Ok(())
}

#[tokio::test]
async fn lookups_agree_with_a_model_after_any_fault() -> TestResult {
    for seed in seeds(10) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let (server, _) = start().await?;
        let mut model: BTreeMap<u32, String> = BTreeMap::new();
        for _ in 0..40 {
            let staff = store(&account(&server)?)?;
            let id = random.below(12);
            let name = random.pick(&["Jones", "King"]);
            let injected = random.one_in(3).then(|| {
                let requests = Fault::any().nth(u64::from(random.below(9)) + 1);
                server.inject(match random.below(4) {
                    0 => requests.close_before_commit(),
                    1 => requests.close_after_commit(),
                    2 => requests.reject(ErrorCode::SERVER_BUSY),
                    _ => requests.reject(ErrorCode::INTERNAL_ERROR),
                })
            });
            if random.one_in(3) {
                staff.delete(key(id)).await?;
                model.remove(&id);
            } else {
                staff.upsert(&employee(id, name)).await?;
                model.insert(id, (*name).to_owned());
            }
            drop(injected);
            server.clock().advance(std::time::Duration::from_secs(61));
            assert_eq!(store(&account(&server)?)?.work_once().await?.failed, 0);
            let lists = agreed(&server.snapshot());
            for name in ["Jones", "King"] {
                let expected = model.values().filter(|own| *own == name).count();
                let found = lists.get(&format!("list_id_by_last_name_{name}"));
                assert_eq!(found.map_or(0, BTreeSet::len), expected);
            }
        }
    }
    Ok(())
}
