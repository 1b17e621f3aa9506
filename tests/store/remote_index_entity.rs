//! Lists in partitions of their own: after each write, failure and simultaneous write a worker has made
//! each value's list name the entities of all partitions that have it.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use rowkey::edm::Value;
use rowkey::store::{Settled, Store};
use rowkey::{ClientOptions, DynamicEntity, Entity, ErrorKind, Key, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server, Snapshot};
use rowkey_tests::sweep::{self, stopped_at_every_request, sweep_every_way};
use rowkey_tests::{TestError, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{team}", row = "task_{id:4}")]
#[entity(list(name = by_tag, partition = "tags_{board}", value = "{tags}", max = 3))]
#[entity(list(name = by_owner, partition = "owners", value = "{owner:lower}", when = "Self::is_open"))]
struct Task {
    team: String,
    id: u32,
    board: u32,
    owner: Option<String>,
    closed: bool,
    #[entity(json)]
    tags: Vec<String>,
}

impl Task {
    fn is_open(&self) -> bool {
        !self.closed
    }
}

fn task(team: &str, id: u32, tags: &[&str]) -> Task {
    Task {
        team: team.into(),
        id,
        board: 1,
        owner: Some("Ada".into()),
        closed: false,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    }
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Task>> {
    Store::builder(account.table("tasks")).queue(account.queue("tasks")).build()
}

async fn start() -> TestResult<(Server, StorageAccount, Store<Task>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    let tasks = store(&account)?;
    tasks.create_if_missing().await?;
    Ok((server, account, tasks))
}

type Lists = BTreeMap<(String, String), BTreeSet<String>>;

/// All lists, after they were found to be those that the tasks have, no more and no less.
fn agreed(snapshot: &Snapshot) -> Lists {
    let (mut expected, mut stored) = (Lists::new(), Lists::new());
    for row in snapshot.table("tasks").unwrap().entities() {
        let text = |name: &str| match row.get(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let at = (row.partition_key().to_owned(), row.row_key().to_owned());
        if let Some(id) = row.row_key().strip_prefix("task_") {
            let tags: Vec<String> = serde_json::from_str(&text("tags").unwrap()).unwrap();
            let Some(Value::Int64(board)) = row.get("board") else { panic!("no board") };
            let partition = format!("tags_{board:010}");
            let mut lists: Vec<_> = tags
                .iter()
                .map(|tag| (partition.clone(), format!("list_task_by_tag_{tag}")))
                .collect();
            if let (Some(owner), Some(Value::Boolean(false))) = (text("owner"), row.get("closed")) {
                let row_key = format!("list_task_by_owner_{}", owner.to_lowercase());
                lists.push(("owners".to_owned(), row_key));
            }
            for list in lists {
                expected.entry(list).or_default().insert(format!("{}#{id}", at.0));
            }
        } else if row.row_key().starts_with("list_") {
            let keys = text("Keys").unwrap().split('/').map(str::to_owned).collect();
            stored.insert(at, keys);
        }
    }
    assert_eq!(stored, expected, "the lists are those that the tasks have");
    stored
}

async fn found(tasks: &Store<Task>, tag: &str) -> rowkey::Result<Vec<(String, u32)>> {
    let found = tasks.query(Task::by_tag(1_u32, tag)).all().await?;
    Ok(found.into_iter().map(|found| (found.entity.team, found.entity.id)).collect())
}

async fn recover(account: &StorageAccount) -> TestResult {
    let tasks = store(account)?;
    tasks.drain_backlog().await?;
    assert_eq!(tasks.work_once().await?.failed, 0);
    let report = tasks.verify().run().await?;
    assert!(report.is_clean(), "{report:?}");
    Ok(())
}

#[tokio::test]
async fn a_list_names_the_entities_of_all_partitions() -> TestResult {
    let (server, _, tasks) = start().await?;
    tasks.insert(&task("web", 1, &["a", "b", "a"])).await?;
    tasks.insert(&task("core", 2, &["b"])).await?;
    assert_eq!(agreed(&server.snapshot()).len(), 3);
    assert_eq!(found(&tasks, "b").await?, [("core".to_owned(), 2), ("web".to_owned(), 1)]);
    assert_eq!(tasks.list_keys(&Task::by_owner("ADA")).await?.len(), 2);
    tasks.update(Task::key("web", 1), |task| (task.board, task.closed) = (2, true)).await?;
    assert_eq!(agreed(&server.snapshot()).len(), 4);
    assert_eq!(found(&tasks, "b").await?, [("core".to_owned(), 2)]);
    assert!(tasks.delete(Task::key("core", 2)).await?);
    assert!(tasks.delete(Task::key("web", 1)).await?);
    assert_eq!(server.snapshot().table("tasks").unwrap().len(), 0, "an empty list goes");
    Ok(())
}

#[tokio::test]
async fn lists_agree_eventually_after_any_fault() -> TestResult {
    let (server, _, tasks) = start().await?;
    tasks.insert(&task("core", 1, &["a", "b"])).await?;
    let scenario = async |account: &StorageAccount| {
        let tasks = store(account)?;
        // Each is tried, even if the one before failed.
        let change = |task: &mut Task| task.tags = vec!["b".into(), "c".into()];
        let results = [
            tasks.insert(&task("web", 2, &["c"])).await.map(drop),
            tasks.update(Task::key("core", 1), change).await.map(drop),
            tasks.delete(Task::key("web", 2)).await.map(drop),
        ];
        results.into_iter().collect::<rowkey::Result<()>>()
    };
    let check = |snapshot: &Snapshot| drop(agreed(snapshot));
    sweep_every_way(&server, scenario, recover, check).await?;
    // The same with a secondary that lags behind.
    let lagging = |account: &StorageAccount| {
        let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
        account.with_options(options)
    };
    let _behind = server.hold_back_secondary();
    let scenario = async |account: &StorageAccount| scenario(&lagging(account)).await;
    let recovered = async |account: &StorageAccount| recover(&lagging(account)).await;
    stopped_at_every_request(&server, scenario, recovered, check).await?;
    Ok(())
}

#[tokio::test]
async fn simultaneous_writers_of_one_list_lose_no_entity() -> TestResult {
    let (server, _, tasks) = start().await?;
    let writers = (0..24).map(|id| {
        let tasks = tasks.clone();
        async move { tasks.insert(&task(&format!("team{}", id % 5), id, &["a"])).await }
    });
    for written in join_all(writers).await {
        written?;
    }
    for _ in 0..30 {
        server.clock().advance(std::time::Duration::from_secs(61));
        store(&sweep::account(&server)?)?.work_once().await?;
    }
    agreed(&server.snapshot());
    assert_eq!(found(&store(&sweep::account(&server)?)?, "a").await?.len(), 24);
    Ok(())
}

#[tokio::test]
async fn verify_reports_missing_and_orphaned_entries_and_repair_fixes_them() -> TestResult {
    let (server, account, tasks) = start().await?;
    tasks.insert(&task("core", 1, &["a"])).await?;
    tasks.insert(&task("web", 2, &["a"])).await?;
    // Another program writes past the store.
    let past = account.table("tasks");
    let head = Key::<DynamicEntity>::new("web", "task_0002");
    past.delete(head, rowkey::Match::Any).await?;
    let row = Key::<DynamicEntity>::new("owners", "list_task_by_owner_ada");
    past.delete(row, rowkey::Match::Any).await?;
    let report = tasks.verify().run().await?;
    assert_eq!(report.part("by_tag").orphaned, 1, "{report:?}");
    assert_eq!(report.part("by_owner").missing, 1, "{report:?}");
    tasks.repair().run().await?;
    agreed(&server.snapshot());
    assert!(tasks.verify().run().await?.is_clean());
    Ok(())
}

/// A stored list of `by_owner` with `count` tasks of a team.
fn list_of(count: i32) -> Result<DynamicEntity, std::str::Utf8Error> {
    let keys: Vec<_> = (0..count).map(|id| format!("team#{id:08}")).collect();
    let mut list = DynamicEntity::new("owners", "list_task_by_owner_ada");
    list.set("RowFormat", 1);
    list.set("IndexName", "by_owner");
    list.set("Count", count);
    for (at, part) in keys.join("/").as_bytes().chunks(32_768).enumerate() {
        let name = if at == 0 { "Keys".to_owned() } else { format!("Keys{}", at + 1) };
        list.set(name, std::str::from_utf8(part)?);
    }
    Ok(list)
}

/// 18,720 keys take 262,079 of the 262,144 UTF-16 units that 8 properties have; 16,384 keys fill 7.
#[tokio::test]
async fn a_full_list_elsewhere_rejects_the_write_before_the_commit() -> TestResult {
    let (server, account, tasks) = start().await?;
    let at = || Key::<DynamicEntity>::new("owners", "list_task_by_owner_ada");
    for count in [16_384, 18_720] {
        let full = list_of(count)?;
        account.table("tasks").upsert(&full).await?;
        let rows = || server.snapshot().table("tasks").unwrap().len();
        let before = rows();
        for refused in [
            tasks.insert(&task("core", 1, &["a"])).await.map(drop),
            tasks.transaction().insert(&task("core", 1, &[])).submit().await.map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
            assert_eq!(refused.details().index, Some("by_owner"));
            assert_eq!(refused.outcome(), rowkey::Outcome::NotSent);
        }
        assert_eq!(rows(), before, "nothing is written");
        assert_eq!(server.snapshot().queue("tasks").unwrap().messages().count(), 0);
        let stored = account.table("tasks").get(at()).await?.unwrap().entity;
        assert_eq!(stored, full);
    }
    // With room for it, it joins.
    account.table("tasks").upsert(&list_of(16_000)?).await?;
    assert_eq!(tasks.insert(&task("core", 1, &["a"])).await?.settled, Settled::Done);
    // An entity on a full list can be changed and deleted.
    tasks.update(Task::key("core", 1), |task| task.board = 7).await?;
    tasks.delete(Task::key("core", 1)).await?;
    Ok(())
}

/// Writers that found room at the same time may fill all of it.
#[tokio::test]
async fn writers_beyond_the_kept_room_are_listed_when_there_is_room() -> TestResult {
    let (server, account, tasks) = start().await?;
    let at = || Key::<DynamicEntity>::new("owners", "list_task_by_owner_ada");
    // The list is filled between the check and the commit.
    let held = server.inject(Fault::on(Operation::Transaction).times(1).hold());
    let long = task(&"x".repeat(500), 2, &[]);
    let fill = async {
        held.wait_until_held().await;
        account.table("tasks").upsert(&list_of(18_720)?).await?;
        held.release();
        Ok::<_, TestError>(())
    };
    let (written, filled) = futures_util::future::join(tasks.insert(&long), fill).await;
    filled?;
    assert_eq!(written?.settled, Settled::Pending);
    server.clock().advance(std::time::Duration::from_secs(61));
    assert_eq!(store(&sweep::account(&server)?)?.work_once().await?.failed, 1);
    let refused = tasks.list_keys(&Task::by_owner("ada")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.details().index), (ErrorKind::TooLarge, Some("by_owner")));
    // When there is room, it joins.
    account.table("tasks").delete(at(), rowkey::Match::Any).await?;
    server.clock().advance(std::time::Duration::from_secs(3601));
    assert_eq!(store(&sweep::account(&server)?)?.work_once().await?.failed, 0);
    agreed(&server.snapshot());
    let tasks = store(&sweep::account(&server)?)?;
    assert_eq!(tasks.list_keys(&Task::by_owner("ada")).await?.len(), 1);
    Ok(())
}

/// A row of another program at the key of a list refuses the write, and stays.
#[tokio::test]
async fn a_foreign_row_at_the_key_of_a_list_elsewhere_rejects_the_write() -> TestResult {
    let (server, account, tasks) = start().await?;
    let mut foreign = DynamicEntity::new("owners", "list_task_by_owner_ada");
    foreign.set("Furniture", "oak");
    account.table("tasks").insert(&foreign).await?;
    let refused = tasks.insert(&task("core", 1, &["a"])).await.unwrap_err();
    assert_eq!((refused.kind(), refused.details().index), (ErrorKind::Decode, Some("by_owner")));
    assert_eq!(server.snapshot().table("tasks").unwrap().len(), 1, "nothing else is written");
    Ok(())
}

#[tokio::test]
async fn too_many_values_are_rejected_before_sending() -> TestResult {
    let (server, account, tasks) = start().await?;
    let before = server.journal();
    let refused = tasks.insert(&task("core", 1, &["a", "b", "c", "d"])).await.unwrap_err();
    assert_eq!((refused.kind(), refused.details().index), (ErrorKind::TooLarge, Some("by_tag")));
    assert_eq!(server.journal().since(&before).len(), 0);
    let refused = Store::<Task>::builder(account.table("tasks")).build().unwrap_err();
    assert!(refused.to_string().contains("`by_tag`"), "{refused}");
    Ok(())
}
