//! Versions of a type with other tables: rows of the older version in a table that the newer one does not have are
//! never left behind.

use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, ErrorKind, Outcome, ScanPolicy, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_every_way};

/// The first version, with rows in its table and in two others.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{team}", row = "job_{id:4}")]
#[entity(index(name = by_owner, table = "owners", partition = "owner_{owner}", row = "{team}_{id:4}"))]
#[entity(index(name = by_host, partition = "host_{host}", row = "{team}_{id:4}"))]
#[entity(list(name = by_tag, table = "tags", partition = "tags", value = "{tag}"))]
struct First {
    team: String,
    id: u32,
    owner: String,
    host: String,
    tag: String,
}

fn first(id: u32) -> First {
    let [owner, host, tag] = ["ada", "h1", "new"].map(str::to_owned);
    First { team: "core".into(), id, owner, host, tag }
}

macro_rules! next {
    ($name:ident, $($declared:tt)*) => {
        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(store, version = 2, from = First, partition = "{team}", row = "job_{id:4}")]
        $(#[entity $declared])*
        struct $name {
            team: String,
            id: u32,
            owner: String,
            host: String,
            tag: String,
            done: bool,
        }

        impl From<First> for $name {
            fn from(First { team, id, owner, host, tag }: First) -> Self {
                Self { team, id, owner, host, tag, done: false }
            }
        }
    };
}

next!(
    Kept,
    (index(name = by_owner, table = "owners", partition = "owner_{owner}", row = "{team}_{id:4}"))(
        index(name = by_host, table = "hosts", partition = "host_{host}", row = "{team}_{id:4}")
    )(list(name = by_tag, table = "tags", partition = "tags", value = "{tag}"))
);
next!(
    WithoutIndex,
    (index(name = by_host, partition = "host_{host}", row = "{team}_{id:4}"))(list(
        name = by_tag,
        table = "tags",
        partition = "tags",
        value = "{tag}"
    ))
);
next!(
    InItsTable,
    (index(name = by_owner, partition = "owner_{owner}", row = "{team}_{id:4}"))(list(
        name = by_tag,
        table = "tags",
        partition = "tags",
        value = "{tag}"
    ))
);
next!(
    InAnother,
    (index(name = by_owner, table = "people", partition = "owner_{owner}", row = "{team}_{id:4}"))(
        list(name = by_tag, table = "tags", partition = "tags", value = "{tag}")
    )
);
next!(
    WithoutList,
    (index(name = by_owner, table = "owners", partition = "owner_{owner}", row = "{team}_{id:4}"))
);

fn build<E: Entity + Clone + Send + Sync + 'static>(
    account: &StorageAccount,
) -> rowkey::Result<Store<E>> {
    Store::<E>::builder(account.table("jobs")).queue(account.queue("jobs")).build()
}

async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    build::<First>(&account)?.create_if_missing().await?;
    build::<Kept>(&account)?.create_if_missing().await?;
    build::<InAnother>(&account)?.create_if_missing().await?;
    Ok((server, account))
}

/// The rows of the index and the list in each table.
async fn rows(account: &StorageAccount) -> rowkey::Result<[usize; 5]> {
    let mut counted = [0; 5];
    for (count, name) in counted.iter_mut().zip(["jobs", "owners", "hosts", "tags", "people"]) {
        let all = account.table(name).scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow);
        let all = all.all().await?;
        *count = all.iter().filter(|row| row.entity.get("IndexName").is_some()).count();
    }
    Ok(counted)
}

macro_rules! is_refused {
    ($type:ident, $declaration:expr, $table:expr) => {{
        let (server, account) = start().await?;
        build::<First>(&account)?.insert(&first(1)).await?;
        let jobs = build::<$type>(&account)?;
        let key = || $type::key("core", 1);
        let read = jobs.get(key()).await?.unwrap();
        let before = rows(&account).await?;
        let whole = $type { done: true, ..read.entity.clone() };
        for refused in [
            jobs.update(key(), |job| job.done = true).await.map(drop).unwrap_err(),
            jobs.upsert(&whole).await.map(drop).unwrap_err(),
            jobs.replace_if(&whole, &read.version).await.map(drop).unwrap_err(),
            jobs.patch(key()).set($type::DONE, true).send().await.map(drop).unwrap_err(),
            jobs.delete(key()).await.map(drop).unwrap_err(),
            jobs.transaction().update(key(), |job| job.done = true).submit().await.unwrap_err(),
        ] {
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
            assert_ne!(refused.outcome(), Outcome::Unknown, "{refused}");
            let text = refused.to_string();
            assert!(text.contains(concat!("`", $declaration, "`")), "{text}");
            assert!(text.contains($table) && text.contains("keep the declaration"), "{text}");
        }
        let report = jobs.migrate().run().await?;
        assert_eq!((report.total.failed, report.total.repaired), (1, 0), "{report:?}");
        jobs.repair().run().await?;
        assert_eq!(rows(&account).await?, before, "nothing is written or left behind");
        assert_eq!(server.snapshot().queue("jobs").unwrap().messages().count(), 0);
        assert!(build::<First>(&account)?.verify().run().await?.is_clean());
    }};
}

#[tokio::test]
async fn an_entity_whose_older_rows_are_in_a_table_without_a_declaration_is_not_written()
-> TestResult {
    is_refused!(WithoutIndex, "by_owner", "owners");
    is_refused!(InItsTable, "by_owner", "owners");
    is_refused!(InAnother, "by_owner", "owners");
    is_refused!(WithoutList, "by_tag", "");
    Ok(())
}

/// An index that stays in its table, and one that moves to another table with the new version.
#[tokio::test]
async fn the_rows_of_an_older_version_move_with_it() -> TestResult {
    let (server, account) = start().await?;
    let jobs = build::<Kept>(&account)?;
    for id in 1..=3 {
        build::<First>(&account)?.insert(&first(id)).await?;
    }
    assert_eq!(rows(&account).await?, [3, 3, 0, 1, 0]);
    let change = |job: &mut Kept| (job.owner, job.host) = ("bob".into(), "h2".into());
    jobs.update(Kept::key("core", 1), change).await?;
    assert_eq!(rows(&account).await?, [2, 3, 1, 1, 0]);
    assert!(jobs.find(Kept::by_owner("bob", "core", 1)).await?.is_some());
    assert!(jobs.find(Kept::by_host("h2", "core", 1)).await?.is_some());
    jobs.delete(Kept::key("core", 2)).await?;
    assert_eq!(rows(&account).await?, [1, 2, 1, 1, 0]);
    jobs.migrate().run().await?;
    assert_eq!(rows(&account).await?, [0, 2, 2, 1, 0]);
    let report = jobs.verify().run().await?;
    assert!(report.is_clean() && report.total.drifted() == 0, "{report:?}");
    assert_eq!(server.snapshot().queue("jobs").unwrap().messages().count(), 0);
    Ok(())
}

#[tokio::test]
async fn the_rows_of_an_older_version_move_with_it_after_any_fault() -> TestResult {
    let (server, account) = start().await?;
    build::<First>(&account)?.insert(&first(1)).await?;
    let change = |job: &mut Kept| (job.owner, job.host) = ("bob".into(), "h2".into());
    let scenario = async |account: &StorageAccount| {
        build::<Kept>(account)?.update(Kept::key("core", 1), change).await.map(drop)
    };
    let recover = async |account: &StorageAccount| {
        let jobs = build::<Kept>(account)?;
        for _ in 0..2 {
            jobs.drain_backlog().await?;
            assert_eq!(jobs.work_once().await?.failed, 0);
        }
        let is_old = account
            .table("jobs")
            .get(rowkey::Key::<DynamicEntity>::new("core", "job_0001"))
            .await?
            .unwrap()
            .entity
            .get("EntityVersion")
            .is_none();
        let expected = if is_old { [1, 1, 0, 1, 0] } else { [0, 1, 1, 1, 0] };
        assert_eq!(rows(account).await?, expected);
        assert!(jobs.verify().run().await?.is_clean());
        Ok(())
    };
    sweep_every_way(&server, scenario, recover, |_| {}).await
}
