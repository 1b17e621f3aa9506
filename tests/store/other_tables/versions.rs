//! Programs of two versions that declare other tables for an index, or whose stores were given other tables.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, ErrorKind, ScanPolicy, StorageAccount, Table};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::{TestResult, sweep};

/// The rows are in the table of the entities.
mod first {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_owner, partition = "owner_{owner}", row = "{team}_{id:4}"))]
    #[entity(list(name = by_tag, partition = "tags", value = "{tag}"))]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) owner: String,
        pub(super) tag: String,
    }
}

/// They are in a table of their own.
mod second {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_owner, table = "owners", partition = "owner_{owner}", row = "{team}_{id:4}"))]
    #[entity(list(name = by_tag, table = "tags", partition = "tags", value = "{tag}"))]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) owner: String,
        pub(super) tag: String,
    }
}

/// They are in another one.
mod third {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_owner, table = "people", partition = "owner_{owner}", row = "{team}_{id:4}"))]
    #[entity(list(name = by_tag, table = "labels", partition = "tags", value = "{tag}"))]
    pub(super) struct Task {
        pub(super) team: String,
        pub(super) id: u32,
        pub(super) owner: String,
        pub(super) tag: String,
    }
}

fn build<E: Entity + Clone + Send + Sync + 'static>(
    account: &StorageAccount,
) -> rowkey::Result<Store<E>> {
    Store::<E>::builder(account.table("tasks")).queue(account.queue("tasks")).build()
}

async fn start() -> TestResult<Server> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    build::<first::Task>(&account)?.create_if_missing().await?;
    build::<second::Task>(&account)?.create_if_missing().await?;
    build::<third::Task>(&account)?.create_if_missing().await?;
    Ok(server)
}

/// Commits an insert of a program and ends the program before it settles anything.
async fn stop_after_the_commit<E: Entity + Clone + Send + Sync + 'static>(
    server: &Server,
    store: &Store<E>,
    task: &E,
) {
    let commits = server.inject(Fault::on(Operation::Transaction).times(1).hold());
    let mut insert = pin!(store.insert(task));
    select(insert.as_mut(), pin!(commits.wait_until_held())).await;
    let settles = server.inject(Fault::any().hold());
    commits.release();
    select(insert, pin!(settles.wait_until_held())).await;
    settles.discard();
}

/// The rows of a table that belong to the index and the list.
async fn rows(table: &Table) -> rowkey::Result<usize> {
    let rows = table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow).all().await?;
    Ok(rows.iter().filter(|row| row.entity.get("IndexName").is_some()).count())
}

async fn counted(server: &Server) -> TestResult<[usize; 5]> {
    let account = sweep::account(server)?;
    let mut counted = [0; 5];
    for (count, name) in counted.iter_mut().zip(["tasks", "owners", "tags", "people", "labels"]) {
        *count = rows(&account.table(name)).await?;
    }
    Ok(counted)
}

macro_rules! task {
    ($version:ident, $id:expr) => {
        $version::Task { team: "core".into(), id: $id, owner: "ada".into(), tag: "a".into() }
    };
}

/// Each version settles a write in its own tables, and hands it back to the other.
macro_rules! hands_back {
    ($writer:ident, $other:ident, $named:expr, $rows:expr) => {{
        let server = start().await?;
        let writer = build::<$writer::Task>(&sweep::account(&server)?)?;
        stop_after_the_commit(&server, &writer, &task!($writer, 1)).await;
        server.clock().advance(Duration::from_secs(61));
        let account = sweep::account(&server)?;
        let worked = build::<$other::Task>(&account)?.work_once().await?;
        assert_eq!((worked.settled, worked.failed, worked.waiting), (0, 0, 1), "{worked:?}");
        assert_eq!(worked.undeclared.into_keys().collect::<Vec<_>>(), $named);
        assert_eq!(counted(&server).await?, [0; 5], "no row is misplaced");

        build::<$writer::Task>(&account)?.work_once().await?;
        assert_eq!(counted(&server).await?, $rows, "no row is lost");
        server.clock().advance(Duration::from_secs(3600));
        let account = sweep::account(&server)?;
        assert_eq!(build::<$writer::Task>(&account)?.work_once().await?.settled, 1);
        let found = build::<$writer::Task>(&account)?;
        assert!(found.find($writer::Task::by_owner("ada", "core", 1)).await?.is_some());
    }};
}

#[tokio::test]
async fn a_worker_hands_back_a_write_whose_rows_are_in_a_table_that_it_does_not_declare()
-> TestResult {
    hands_back!(first, second, ["by_owner", "by_tag"], [2, 0, 0, 0, 0]);
    hands_back!(second, first, ["by_owner@owners", "by_tag@tags"], [0, 1, 1, 0, 0]);
    hands_back!(second, third, ["by_owner@owners", "by_tag@tags"], [0, 1, 1, 0, 0]);
    hands_back!(third, second, ["by_owner@people", "by_tag@labels"], [0, 0, 0, 1, 1]);
    Ok(())
}

/// The store of one program was given a table in another account.
#[tokio::test]
async fn a_worker_hands_back_a_write_whose_rows_are_in_another_account() -> TestResult {
    let key = ["a2V5"];
    let server = Server::builder().account("current", key).account("archive", key).manual_clock();
    let server = server.start().await?;
    let stores = || {
        let current = sweep::account_named(&server, "current")?;
        let archive = sweep::account_named(&server, "archive")?;
        let builder = || Store::<second::Task>::builder(current.table("tasks"));
        let builder = || builder().queue(current.queue("tasks"));
        let far = builder().index_table("by_owner", archive.table("owners")).build()?;
        Ok::<_, rowkey::Error>((builder().build()?, far))
    };
    let (near, far) = stores()?;
    near.create_if_missing().await?;
    far.create_if_missing().await?;
    stop_after_the_commit(&server, &far, &task!(second, 1)).await;
    server.clock().advance(Duration::from_secs(61));
    let (near, far) = stores()?;
    let worked = near.work_once().await?;
    assert_eq!(worked.undeclared.into_keys().collect::<Vec<_>>(), ["by_owner@owners@archive"]);
    assert_eq!(rows(near.index_table("by_owner").ok_or("none")?).await?, 0);
    far.work_once().await?;
    assert_eq!(rows(far.index_table("by_owner").ok_or("none")?).await?, 1);
    Ok(())
}

/// Both versions run at the same time: neither removes the rows of the other.
#[tokio::test]
async fn repairs_of_one_version_leave_the_rows_of_the_other() -> TestResult {
    let server = start().await?;
    let account = sweep::account(&server)?;
    let (old, new) = (build::<first::Task>(&account)?, build::<second::Task>(&account)?);
    old.insert(&task!(first, 1)).await?;
    new.insert(&task!(second, 2)).await?;
    let report = new.repair().run().await?;
    assert_eq!((report.part("by_owner").missing, report.total.orphaned), (1, 0), "{report:?}");
    assert_eq!(counted(&server).await?, [2, 2, 1, 0, 0]);
    let report = old.repair().run().await?;
    assert_eq!((report.part("by_owner").missing, report.total.orphaned), (1, 0), "{report:?}");
    assert_eq!(counted(&server).await?, [3, 2, 1, 0, 0]);
    assert!(new.verify().run().await?.is_clean() && old.verify().run().await?.is_clean());
    Ok(())
}

/// The index moves: repair writes its rows in the new table, and the rows in the old one are cleaned up.
#[tokio::test]
async fn an_index_moves_to_another_table_and_back() -> TestResult {
    let server = start().await?;
    let account = sweep::account(&server)?;
    let (old, new) = (build::<first::Task>(&account)?, build::<second::Task>(&account)?);
    for id in 1..=3 {
        old.insert(&task!(first, id)).await?;
    }
    stop_after_the_commit(&server, &old, &task!(first, 4)).await;
    // There is no old program any more. Entities of one list are repaired in parallel, and a worker adds the rest.
    new.repair().run().await?;
    new.work_once().await?;
    assert!(new.verify().run().await?.is_clean());
    for name in ["by_owner", "by_tag"] {
        let report = new.repair_without(name)?.run().await?;
        assert!(report.part(name).repaired > 0, "{report:?}");
        let refused = old.repair_without(name).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    assert_eq!(counted(&server).await?, [0, 4, 1, 0, 0]);
    for _ in 0..3 {
        server.clock().advance(Duration::from_secs(3601));
        build::<second::Task>(&sweep::account(&server)?)?.work_once().await?;
    }
    let snapshot = server.snapshot();
    assert_eq!(snapshot.queue("tasks").ok_or("none")?.messages().count(), 0, "no write waits");

    // And on to a third table.
    let account = sweep::account(&server)?;
    let last = build::<third::Task>(&account)?;
    let new = build::<second::Task>(&account)?;
    stop_after_the_commit(&server, &new, &task!(second, 5)).await;
    last.repair().run().await?;
    last.work_once().await?;
    assert!(last.verify().run().await?.is_clean());
    for (name, table) in [("by_owner", "owners"), ("by_tag", "tags")] {
        let refused = last.clean_rows_in(name, last.index_table(name).ok_or("none")?).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
        last.clean_rows_in(name, &account.table(table)).await?.run().await?;
        last.repair_without(&format!("{name}@{table}"))?.run().await?;
        assert!(last.repair_without(&format!("{name}@nothere")).is_ok());
    }
    assert_eq!(counted(&server).await?, [0, 0, 0, 5, 1]);
    for _ in 0..3 {
        server.clock().advance(Duration::from_secs(3601));
        let account = sweep::account(&server)?;
        assert_eq!(build::<third::Task>(&account)?.work_once().await?.failed, 0);
    }
    let snapshot = server.snapshot();
    assert_eq!(snapshot.queue("tasks").ok_or("none")?.messages().count(), 0, "no write waits");
    let last = build::<third::Task>(&sweep::account(&server)?)?;
    assert!(last.verify().run().await?.is_clean());
    Ok(())
}

/// A manifest distinguishes the declarations.
#[tokio::test]
async fn an_opened_store_refuses_a_program_with_another_table() -> TestResult {
    let server = start().await?;
    let account = sweep::account(&server)?;
    build::<second::Task>(&account)?.open().await?;
    for refused in [
        build::<first::Task>(&account)?.open().await.map(drop),
        build::<third::Task>(&account)?.open().await.map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains("another template"), "{refused}");
    }
    Ok(())
}
