//! An index in blobs: what is stored, what each call costs, long lists, drift found and mended, and that
//! no request's failure leaves an entity out of its list.

mod faults;
mod follower;
mod model;

use std::collections::BTreeSet;
use std::time::Duration;

use rowkey::{ClientOptions, Entity, ErrorKind, Match, StorageAccount};
use rowkey_large::BlobIndex;
use rowkey_large::blob_index::Report;
use rowkey_server::{Fault, Operation, Server, Snapshot};
use rowkey_tests::{Fixture, TestResult, unique_name};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{id:6}")]
pub(super) struct Employee {
    department: String,
    id: u32,
    last_name: Option<String>,
    salary: i32,
}

pub(super) fn employee(id: u32, last_name: &str) -> Employee {
    let last_name = Some(last_name.to_owned());
    Employee { department: "sales".into(), id, last_name, salary: 1 }
}

pub(super) fn key(id: u32) -> rowkey::Key<Employee> {
    Employee::key("sales", id)
}

pub(super) const GUARD: Duration = Duration::from_secs(40);

/// The index as an account sees it that waits for 10 seconds at most.
pub(super) fn staff(account: &StorageAccount) -> BlobIndex<Employee> {
    let timeout = Duration::from_secs(10);
    let account = account.with_options(ClientOptions { timeout, ..account.options().clone() });
    let (table, container) = (account.table("staff"), account.container("indexes"));
    BlobIndex::new(table, container, "last-name", |e: &Employee| e.last_name.clone()).guard(GUARD)
}

/// A server whose clock stands still, with the table and the container.
pub(super) async fn start() -> Result<(Server, BlobIndex<Employee>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let account = rowkey_tests::sweep::account(&server)?;
    account.table("staff").create().await?;
    account.container("indexes").create().await?;
    Ok((server, staff(&account)))
}

/// The blobs of the index, without the mark of verifications.
pub(super) fn blobs(snapshot: &Snapshot) -> Vec<String> {
    let names = snapshot.blobs("indexes").filter(|name| *name != "last-name.verify");
    names.map(str::to_owned).collect()
}

pub(super) async fn found(staff: &BlobIndex<Employee>, name: &str) -> rowkey::Result<Vec<u32>> {
    Ok(staff.find(name).await?.iter().map(|stored| stored.entity.id).collect())
}

async fn listed(staff: &BlobIndex<Employee>, name: &str) -> rowkey::Result<Vec<String>> {
    let keys = staff.keys(name).await?;
    Ok(keys.iter().map(|key| key.parts().unwrap().1.to_owned()).collect())
}

fn drift(report: &Report) -> [u64; 4] {
    [report.missing, report.stale, report.damaged, report.unused]
}

#[tokio::test]
async fn keys_are_listed_under_their_value_and_lists_without_keys_are_gone() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let container = table.fixture.account.container(&unique_name());
    container.create().await?;
    let by_name = |e: &Employee| e.last_name.clone();
    let staff = BlobIndex::new(table.clone(), container.clone(), "last-name", by_name);
    for id in [7, 1, 3] {
        staff.insert(&employee(id, "O'Neil")).await?;
    }
    staff.insert(&Employee { department: "research".into(), ..employee(2, "O'Neil") }).await?;
    staff.insert(&Employee { last_name: None, ..employee(4, "") }).await?;
    let error = staff.insert(&employee(7, "King")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);

    // The stored format, which must stay as it is.
    let names: Vec<_> = container.blobs().all().await?.into_iter().map(|blob| blob.name).collect();
    assert_eq!(names, ["last-name/O=27Neil"]);
    let blob = container.blob("last-name/O=27Neil").get().await?.unwrap();
    assert_eq!(
        blob.bytes,
        "{\"format\":\"rowkey-index/1\",\"value\":\"O'Neil\",\"holds\":\"keys\",\"count\":4}\n\
         research\t000002\nsales\t000001\nsales\t000003\nsales\t000007\n"
    );
    assert_eq!(found(&staff, "O'Neil").await?, [2, 1, 3, 7], "in the order of their keys");
    assert_eq!(found(&staff, "o'neil").await?, [0; 0]);

    let change = |e: &mut Employee| e.last_name = Some("King".into());
    let stored = staff.update(key(3), change).await?;
    assert_eq!(table.get(key(3)).await?.unwrap(), stored);
    staff.update(key(1), |e| e.salary = 5).await?;
    staff.update(key(7), |e| e.last_name = None).await?;
    assert!(staff.delete(key(1)).await? && !staff.delete(key(1)).await?);
    assert_eq!(found(&staff, "O'Neil").await?, [2]);
    assert_eq!(found(&staff, "King").await?, [3]);
    assert!(staff.delete(Employee::key("research", 2)).await?);
    let names: Vec<_> = container.blobs().all().await?.into_iter().map(|blob| blob.name).collect();
    assert_eq!(names, ["last-name/King"]);
    let error = staff.update(key(1), |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = staff.update(key(3), |e| e.id = 9).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let misnamed = BlobIndex::new(table.clone(), container, "last/name", by_name);
    assert_eq!(misnamed.keys("King").await.unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn each_call_costs_what_it_says() -> TestResult {
    let (server, staff) = start().await?;
    let mut before = 0;
    let mut cost = || {
        let now = server.journal().len();
        now - std::mem::replace(&mut before, now)
    };
    cost();
    staff.insert(&employee(1, "Jones")).await?;
    assert_eq!(cost(), 4);
    staff.insert(&employee(2, "Jones")).await?;
    assert_eq!(cost(), 4);
    staff.update(key(1), |e| e.salary = 2).await?;
    assert_eq!(cost(), 2);
    staff.update(key(1), |e| e.last_name = Some("King".into())).await?;
    assert_eq!(cost(), 9);
    staff.find("Jones").await?;
    assert_eq!(cost(), 2);
    staff.keys("Jones").await?;
    assert_eq!(cost(), 1);
    staff.settle(key(2), "Jones").await?;
    assert_eq!(cost(), 2);
    staff.delete(key(2)).await?;
    assert_eq!(cost(), 6);

    let staff = staff.chunk_keys(2);
    for id in 10..13 {
        staff.insert(&employee(id, "Long")).await?;
    }
    cost();
    staff.insert(&employee(20, "Long")).await?;
    assert_eq!(cost(), 6 + 5, "the last chunk is divided");
    staff.update(key(10), |e| e.salary = 2).await?;
    assert_eq!(cost(), 2);
    staff.insert(&employee(9, "Long")).await?;
    assert_eq!(cost(), 6);
    Ok(())
}

#[tokio::test]
async fn a_long_list_is_divided_and_a_change_touches_one_part() -> TestResult {
    let (server, staff) = start().await?;
    let staff = staff.chunk_keys(8);
    for id in 0..100 {
        // In no order.
        staff.table().insert(&employee(id * 37 % 100, "Jones")).await?;
        assert!(staff.index(key(id * 37 % 100)).await?);
    }
    let ids: Vec<_> = (0..100).map(|id| format!("{id:06}")).collect();
    assert_eq!(listed(&staff, "Jones").await?, ids);
    assert_eq!(found(&staff, "Jones").await?, (0..100).collect::<Vec<_>>());
    let chunks = blobs(&server.snapshot()).len() - 1;
    assert!((13..=25).contains(&chunks), "{chunks}");
    for blob in blobs(&server.snapshot()) {
        let content = server.snapshot().blob("indexes", &blob).unwrap();
        let lines = content.split(|byte| *byte == b'\n').count() - 1;
        assert!(lines <= 9 || blob == "last-name/Jones", "{blob}");
    }
    assert_eq!(drift(&staff.verify().await?), [0; 4]);

    let before = server.journal();
    assert!(!staff.index(key(50)).await?, "it is listed");
    staff.insert(&employee(100, "Jones")).await?;
    let since = server.journal().since(&before);
    assert!(since.count(Operation::PutBlob) <= 4 && since.count(Operation::GetBlob) <= 8);

    for id in 0..=100 {
        assert!(staff.delete(key(id * 61 % 101)).await?);
    }
    assert_eq!(blobs(&server.snapshot()), [""; 0], "no list, no chunk");
    Ok(())
}

#[tokio::test]
async fn values_of_any_kind_have_lists_of_their_own() -> TestResult {
    let (server, staff) = start().await?;
    let long = "x".repeat(3000);
    let values = ["", "a/b", "..", "é\n\t", "=sha256=", "A", "a", &long, "日本"];
    for (id, value) in (0..).zip(values) {
        staff.insert(&employee(id, value)).await?;
    }
    assert_eq!(blobs(&server.snapshot()).len(), values.len());
    for (id, value) in (0..).zip(values) {
        assert_eq!(found(&staff, value).await?, [id]);
    }
    assert!(staff.verify().await?.is_sound());
    // A blob under the name of another value is not taken for its list.
    let a = server.snapshot().blob("indexes", "last-name/a").unwrap();
    let container = staff.table().account().container("indexes");
    container.blob("last-name/A").put(a).send().await?;
    let error = staff.find("A").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert_eq!(
        error.to_string(),
        "BlobIndex on staff: a blob of the index holds the list of another value; something else \
         wrote to it: repair the index"
    );
    Ok(())
}

#[tokio::test]
async fn what_others_did_is_found_and_mended() -> TestResult {
    let (server, staff) = start().await?;
    let staff = staff.chunk_keys(3);
    for id in 0..12 {
        staff.insert(&employee(id, if id < 8 { "Jones" } else { "King" })).await?;
    }
    let sound = staff.verify().await?;
    assert!(sound.is_sound());
    assert_eq!((sound.entities, sound.lists, sound.listed), (12, 2, 12));

    let table = staff.table();
    table.insert(&employee(20, "Smith")).await?;
    table.upsert(&employee(1, "King")).await?;
    table.delete(key(9), Match::Any).await?;
    assert_eq!(found(&staff, "Jones").await?, [0, 2, 3, 4, 5, 6, 7], "stale keys are passed over");
    let report = staff.verify().await?;
    assert_eq!(drift(&report), [2, 2, 0, 0]);
    assert_eq!(staff.verify().await?, report, "nothing was changed");
    assert_eq!(drift(&staff.repair().await?), [2, 2, 0, 0]);
    assert!(staff.verify().await?.is_sound());
    assert_eq!(found(&staff, "King").await?, [1, 8, 10, 11]);

    // A list that was overwritten, a chunk that was deleted, and one that nobody leads to.
    let container = table.account().container("indexes");
    container.blob("last-name/Smith").put("by hand").send().await?;
    let snapshot = server.snapshot();
    let chunk =
        blobs(&snapshot).into_iter().find(|name| name.starts_with("last-name/Jones/")).unwrap();
    container.blob(&chunk).delete().await?;
    let orphan = "last-name/Jones/00000000000000000000000000000000";
    let page =
        "{\"format\":\"rowkey-index/1\",\"value\":\"Jones\",\"holds\":\"keys\",\"count\":0}\n";
    container.blob(orphan).put(page).send().await?;
    assert_eq!(staff.find("Jones").await.unwrap_err().kind(), ErrorKind::Decode);
    let report = staff.verify().await?;
    assert_eq!(drift(&report), [8, 0, 2, 0], "the chunks are young");
    server.clock().advance(GUARD + Duration::from_secs(2));
    let report = staff.repair().await?;
    assert_eq!((report.missing, report.damaged), (8, 2));
    let report = staff.repair().await?;
    assert_eq!(drift(&report)[..3], [0; 3]);
    assert!(staff.verify().await?.is_sound());
    assert!(server.snapshot().blob("indexes", orphan).is_none());
    assert_eq!(found(&staff, "Jones").await?, [0, 2, 3, 4, 5, 6, 7]);
    Ok(())
}

#[tokio::test]
async fn an_index_is_built_of_what_a_table_holds() -> TestResult {
    let (_server, staff) = start().await?;
    for id in 0..40 {
        let name = ["Jones", "King", "Smith"][id as usize % 3];
        staff.table().insert(&employee(id, name)).await?;
    }
    let report = staff.repair().await?;
    assert_eq!((report.entities, report.missing), (40, 40));
    assert!(staff.verify().await?.is_sound());
    assert_eq!(found(&staff, "King").await?, (0..40).filter(|id| id % 3 == 1).collect::<Vec<_>>());
    Ok(())
}

/// Somebody who settles an insert before its row is there takes the key off; the writer sees it.
#[tokio::test]
async fn a_writer_whose_key_was_taken_off_in_between_lists_it_again() -> TestResult {
    let (server, staff) = start().await?;
    let held = server.inject(Fault::on(Operation::InsertEntity).nth(1).hold());
    let one = employee(1, "Jones");
    let (inserted, ()) = futures_util::future::join(staff.insert(&one), async {
        held.wait_until_held().await;
        assert!(Box::pin(staff.settle(key(1), "Jones")).await.unwrap());
        assert!(staff.keys("Jones").await.unwrap().is_empty());
        held.release();
    })
    .await;
    inserted?;
    assert_eq!(found(&staff, "Jones").await?, [1]);
    Ok(())
}

/// Somebody who takes a key off looks once more: the entity may have come back to the value.
#[tokio::test]
async fn who_takes_a_key_off_looks_at_the_entity_again() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "Jones")).await?;
    staff.table().upsert(&employee(1, "King")).await?;
    let held = server.inject(Fault::on(Operation::DeleteBlob).nth(1).hold());
    let settling = Box::pin(staff.settle(key(1), "Jones"));
    let (settled, ()) = futures_util::future::join(settling, async {
        held.wait_until_held().await;
        // The key is listed still, so nothing is written to the list here.
        staff.update(key(1), |e| e.last_name = Some("Jones".into())).await.unwrap();
        held.release();
    })
    .await;
    assert!(settled?);
    assert_eq!(found(&staff, "Jones").await?, [1]);
    assert!(staff.verify().await?.is_sound());
    Ok(())
}

#[tokio::test]
async fn writers_of_one_list_at_once_lose_nothing() -> TestResult {
    let (server, staff) = start().await?;
    let staff = staff.chunk_keys(4);
    for round in 0..4 {
        let inserts = (0..6).map(|writer| {
            let staff = &staff;
            async move {
                for n in 0..5 {
                    staff.insert(&employee(round * 100 + n * 10 + writer, "Jones")).await.unwrap();
                }
            }
        });
        futures_util::future::join_all(inserts).await;
        let ids: BTreeSet<_> = found(&staff, "Jones").await?.into_iter().collect();
        assert_eq!(ids.len(), 30);
        let all: Vec<_> = ids.into_iter().collect();
        let deletes = all.chunks(5).map(|ids| {
            let staff = &staff;
            async move {
                for id in ids {
                    assert!(staff.delete(key(*id)).await.unwrap());
                }
            }
        });
        futures_util::future::join_all(deletes).await;
        server.clock().advance(GUARD * 2);
        staff.repair().await?;
        assert_eq!(blobs(&server.snapshot()), [""; 0]);
    }
    Ok(())
}
