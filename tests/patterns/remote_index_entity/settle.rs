//! Settling, looking up and repairing.

use rowkey::{DynamicEntity, ErrorKind, Match, Outcome};
use rowkey_eventual::repair::{Checkpoint, Report};
use rowkey_server::{Fault, Operation};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::sweep_every_way;
use rowkey_tests::{Fixture, TestResult};

use super::*;

#[tokio::test]
async fn entities_of_all_partitions_are_found_by_their_value() -> TestResult {
    let fixture = Fixture::new().await?;
    let staff = fixture.table().await?;
    let names = listed_in(staff.clone(), fixture.table().await?);
    for one in [employee(1, "Jones"), employee(2, "Jones"), employee(3, "King"), employee(4, "")] {
        put(&staff, &names, &one).await?;
    }
    assert_eq!(names.keys("Jones").await?, [key(2), key(1)]);
    assert_eq!(ids(&names, "Jones").await?, [1, 2].into());
    assert_eq!(ids(&names, "Nobody").await?, [].into());

    put(&staff, &names, &employee(1, "King")).await?;
    put(&staff, &names, &employee(3, "")).await?;
    assert_eq!((ids(&names, "Jones").await?, ids(&names, "King").await?), ([2].into(), [1].into()));
    // Not settled yet: nobody is found by a name that is not theirs.
    staff.upsert(&employee(2, "King")).await?;
    staff.delete(key(1), Match::Any).await?;
    assert_eq!((ids(&names, "Jones").await?, ids(&names, "King").await?), ([].into(), [].into()));
    assert_eq!(names.keys("Jones").await?.len(), 1);
    for (id, name) in [(2, "King"), (2, "Jones"), (1, "King")] {
        names.settle(key(id), name).await?;
    }
    assert_eq!((names.keys("Jones").await?, names.keys("King").await?), (vec![], vec![key(2)]));
    Ok(())
}

#[tokio::test]
async fn rows_are_these() -> TestResult {
    let (server, staff, names) = start().await?;
    for one in [employee(223, "Jones"), employee(152, "Jones"), employee(7, "O_Neil/King")] {
        put(&staff, &names, &one).await?;
    }
    let snapshot = server.snapshot();
    let rows = snapshot
        .table("names")
        .unwrap()
        .entities()
        .map(|row| (row.partition_key(), row.row_key(), row.properties().collect::<Vec<_>>()));
    let row = |count: i32, keys: &str| vec![("Count", count.into()), ("Keys0", keys.into())];
    let expected = [
        ("last_Jones", "list_0000", row(2, "hr#000152/sales#000223")),
        ("last_O_Neil.~King", "list_0000", row(1, "sales#000007")),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    Ok(())
}

#[tokio::test]
async fn what_settling_and_looking_up_cost() -> TestResult {
    let (server, staff, names) = start().await?;
    for id in 1..=2 {
        staff.insert(&employee(id, "Jones")).await?;
    }
    let mut before = server.journal();
    let mut cost = || {
        let journal = server.journal().since(&before);
        before = server.journal();
        let operations = [Operation::GetEntity, Operation::QueryEntities, Operation::Transaction];
        let counts = operations.map(|operation| journal.clone().count(operation));
        assert_eq!(counts.iter().sum::<usize>(), journal.len(), "and nothing else");
        counts
    };
    names.settle(key(1), "Jones").await?;
    assert_eq!(cost(), [2, 1, 1], "the first of a list: looked at again");
    names.settle(key(2), "Jones").await?;
    assert_eq!(cost(), [1, 1, 1], "one more");
    names.settle(key(2), "Jones").await?;
    assert_eq!(cost(), [1, 1, 1], "again: the list is touched");
    names.settle(key(2), "King").await?;
    assert_eq!(cost(), [1, 1, 0], "nothing to take away");
    names.find("Jones").await?;
    assert_eq!(cost(), [2, 1, 0]);
    names.keys("Jones").await?;
    assert_eq!(cost(), [0, 1, 0]);
    Ok(())
}

#[tokio::test]
async fn a_list_ends_with_an_error_that_names_the_blob() -> TestResult {
    let (server, staff, names) = start().await?;
    // Two full rows of keys of nobody: 2520 of 12 characters and a separator make a property.
    let keys: Vec<_> = (0..2 * 8 * 2520).map(|id| format!("sales#{id:06}")).collect();
    for (number, keys) in keys.chunks(8 * 2520).enumerate() {
        let mut row = DynamicEntity::new("last_Jones", format!("list_{number:04}"));
        if number == 0 {
            row.set("Count", 2 * 8 * 2520);
        }
        for (at, keys) in keys.chunks(2520).enumerate() {
            row.set(format!("Keys{at}"), keys.join("/"));
        }
        names.table().insert(&row).await?;
    }
    staff.insert(&employee(100_000, "Jones")).await?;
    let full = names.clone().max_rows(2);
    let error = full.settle(key(100_000), "Jones").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert_eq!(
        error.to_string(),
        "RemoteIndexEntity on names: the list of the value has 40320 keys and is full: rows: 2, \
         properties of each: 8, of 64 KiB; allow more rows, or list keys that are so many in blobs: \
         `list(.., blob)` of a store"
    );
    let rows = || server.snapshot().table("names").unwrap().len();
    assert_eq!(rows(), 2);
    names.settle(key(100_000), "Jones").await?;
    assert_eq!(rows(), 3, "one more was allowed");
    Ok(())
}

/// What a worker does that decided by an older state and writes late, after another one has settled
/// the newer state, and is then heard of no more.
#[tokio::test]
async fn a_worker_that_comes_late_hides_no_entity() -> TestResult {
    let states = [
        ["Jones", "King", "Jones"],
        ["Jones", "", "Jones"],
        ["", "Jones", "King"],
        ["Jones", "King", ""],
        ["King", "Jones", "King"],
        ["King", "", "Jones"],
        ["Jones", "Jones", "Jones"],
    ];
    for others in [true, false] {
        for [first, seen, last] in states {
            let (server, staff, names) = start().await?;
            if others {
                put(&staff, &names, &employee(2, "Jones")).await?;
            }
            put(&staff, &names, &employee(1, first)).await?;
            staff.upsert(&employee(1, seen)).await?;
            let write = Fault::on(Operation::Transaction).resource("names").nth(1);
            let late = server.inject(write.hold());
            tokio::select! {
                // Its program ends while the write is on its way.
                () = late.wait_until_held() => {}
                settled = names.settle(key(1), "Jones") => {
                    settled?;
                    // There was nothing to write.
                    late.release();
                }
            }
            staff.upsert(&employee(1, last)).await?;
            for name in [last, "Jones", "King"].into_iter().filter(|name| !name.is_empty()) {
                names.settle(key(1), name).await?;
            }
            drop(late);
            staff.get(key(1)).await?;
            for name in ["Jones", "King"] {
                let wanted = last == name;
                let found = ids(&names, name).await?.contains(&1);
                assert_eq!(found, wanted, "{first} {seen} {last}: {name}");
            }
            if others {
                assert_lists(&server.snapshot());
            }
            names.repair().run().await?;
            assert_lists(&server.snapshot());
        }
    }
    Ok(())
}

async fn changes(account: &StorageAccount) -> rowkey::Result<()> {
    let (staff, names) = (account.table("staff"), names(account));
    put(&staff, &names, &employee(1, "Jones")).await?;
    put(&staff, &names, &employee(1, "King")).await?;
    put(&staff, &names, &employee(2, "King")).await?;
    staff.delete(key(3), Match::Any).await?;
    names.settle(key(3), "Jones").await
}

/// What the workers do that are told of it again.
async fn settle_all(account: &StorageAccount) -> TestResult {
    let names = names(account);
    for (id, name) in [(1, "Jones"), (1, "King"), (2, "King"), (3, "Jones")] {
        names.settle(key(id), name).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_sweep_leaves_every_list_right() -> TestResult {
    let (server, staff, names) = start().await?;
    put(&staff, &names, &employee(3, "Jones")).await?;
    sweep_every_way(&server, changes, settle_all, assert_lists).await
}

#[tokio::test]
async fn the_model_and_the_lists_agree_however_messages_come() -> TestResult {
    let (server, staff, names) = start().await?;
    let known = ["Jones", "King", "O_Neil", ""];
    for seed in seeds(100) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        // Which lists are still to be settled for whom: messages, some of them twice.
        let mut messages = Vec::new();
        for _ in 0..5 {
            let id = random.below(4);
            let before = staff.get(key(id)).await?.and_then(|stored| stored.entity.last_name);
            let mut after = None;
            if random.one_in(4) {
                staff.delete_if_exists(key(id), Match::Any).await?;
            } else {
                let employee = employee(id, random.pick(&known));
                staff.upsert(&employee).await?;
                after = employee.last_name;
            }
            for name in before.into_iter().chain(after) {
                for _ in 0..=random.below(2) {
                    messages.push((id, name.clone()));
                }
            }
        }
        while !messages.is_empty() {
            let at = random.below(u32::try_from(messages.len())?) as usize;
            // Two workers at once.
            let (id, name) = messages.swap_remove(at);
            let (other, elsewhere) = messages.pop().unwrap_or_else(|| (id, name.clone()));
            let settle = names.settle(key(id), name);
            let both = futures_util::future::join(settle, names.settle(key(other), elsewhere));
            let (one, two) = both.await;
            one.and(two)?;
        }
        assert_lists(&server.snapshot());
    }
    Ok(())
}

#[tokio::test]
async fn lists_are_built_for_entities_that_were_there_before() -> TestResult {
    let (server, staff, names) = start().await?;
    for id in 0..1200 {
        staff.insert(&employee(id, ["Jones", "King", ""][id as usize % 3])).await?;
    }
    let report = names.check().run().await?.clone();
    assert_eq!(report, Report { entities: 1200, missing: 800, ..Report::default() });
    let before = server.journal();
    let report = names.repair().run().await?.clone();
    assert_eq!((report.missing, report.mended, report.is_in_step()), (800, 800, true));
    let writes = server.journal().since(&before).count(Operation::Transaction);
    assert_eq!(writes, 2 + 2, "one a list, and page of entities");
    assert_lists(&server.snapshot());

    let before = server.journal();
    let report = names.check().run().await?.clone();
    assert_eq!(report, Report { entities: 1200, claims: 800, ..Report::default() });
    let journal = server.journal().since(&before);
    assert_eq!(journal.clone().count(Operation::GetEntity), 800 + 800);
    let pages = 2 + 1;
    assert_eq!(journal.count(Operation::QueryEntities), pages + 2 * 2 + 2, "one a list, and page");
    Ok(())
}

#[tokio::test]
async fn every_kind_of_drift_is_found_and_mended() -> TestResult {
    let (server, staff, names) = start().await?;
    for id in 1..=6 {
        put(&staff, &names, &employee(id, "Jones")).await?;
    }
    // Written past the lists: a change, a death, a birth.
    staff.upsert(&employee(1, "King")).await?;
    staff.delete(key(2), Match::Any).await?;
    staff.insert(&employee(7, "King")).await?;
    // What is no employee, and what is of no list.
    let mut unfit = DynamicEntity::new("sales", "id_000009");
    unfit.set("LastName", 9);
    staff.insert(&unfit).await?;
    names.table().insert(&DynamicEntity::new("first_Ada", "list_0000")).await?;

    let expected =
        Report { entities: 7, unfit: 1, claims: 6, missing: 2, orphan: 2, unsound: 0, mended: 0 };
    assert_eq!(*names.check().run().await?, expected);
    // In steps, each in another process.
    let mut stored: Option<String> = None;
    loop {
        let mut run = names.repair().page_size(3);
        if let Some(stored) = &stored {
            run = run.resume(serde_json::from_str::<Checkpoint>(stored)?)?;
        }
        if !run.step().await? {
            assert_eq!((run.report().missing, run.report().orphan), (2, 2));
            assert_eq!(run.report().mended, 4);
            break;
        }
        stored = Some(serde_json::to_string(run.checkpoint())?);
    }
    staff.delete(unfit.key(), Match::Any).await?;
    let other = DynamicEntity::new("first_Ada", "list_0000");
    names.table().delete(other.key(), Match::Any).await?;
    assert_lists(&server.snapshot());
    assert!(names.check().run().await?.is_in_step());
    Ok(())
}
