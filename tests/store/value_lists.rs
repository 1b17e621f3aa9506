//! Lists: after each write, failure and simultaneous write, each value has the list of the
//! entities that have it.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use rowkey::edm::Value;
use rowkey::index::ListKey;
use rowkey::store::Store;
use rowkey::{ClientOptions, DynamicEntity, Entity, ErrorKind, Key, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, stopped_at_every_request, sweep_every_way};

/// A task with lists beside every other declaration.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{team}", row = "task_{id:4}")]
#[entity(list(name = by_tag, value = "{tags}", max = 4))]
#[entity(list(name = by_owner, value = "{owner:lower}"))]
#[entity(list(name = by_board, value = "{board}_{owner}", when = "Self::is_open"))]
#[entity(index(name = by_title, row = "title_{title}"))]
#[entity(index(name = by_room, partition = "room_{room}", row = "{team}_{id}"))]
#[entity(unique(name = by_number, value = "{number}"))]
struct Task {
    team: String,
    id: u32,
    title: String,
    owner: Option<String>,
    board: u32,
    room: u32,
    number: Option<String>,
    closed: bool,
    #[entity(json)]
    tags: Vec<String>,
}

impl Task {
    fn is_open(&self) -> bool {
        !self.closed
    }
}

fn task(id: u32, tags: &[&str]) -> Task {
    Task {
        team: "core".into(),
        id,
        title: format!("t{id}"),
        owner: Some("Ada".into()),
        board: 7,
        room: 3,
        number: Some(format!("N{id}")),
        closed: false,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    }
}

fn key(id: u32) -> Key<Task> {
    Task::key("core", id)
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Task>> {
    Store::builder(account.table("tasks")).queue(account.queue("tasks")).build()
}

async fn start() -> TestResult<(Server, Store<Task>)> {
    let server = Server::builder().manual_clock().start().await?;
    let tasks = store(&account(&server)?)?;
    tasks.create_if_missing().await?;
    Ok((server, tasks))
}

/// Each list with its keys.
type Lists = BTreeMap<String, BTreeSet<String>>;

/// All lists, after they were found to be those that the tasks have, no more and no less.
fn agreed(snapshot: &Snapshot) -> Lists {
    let (mut expected, mut stored) = (Lists::new(), Lists::new());
    for row in snapshot.table("tasks").unwrap().entities() {
        let text = |name: &str| match row.get(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        if let Some(listed) = row.row_key().strip_prefix("task_") {
            let tags: Vec<String> = serde_json::from_str(&text("tags").unwrap()).unwrap();
            let mut lists: Vec<_> =
                tags.iter().map(|tag| format!("list_task_by_tag_{tag}")).collect();
            if let Some(owner) = text("owner") {
                lists.push(format!("list_task_by_owner_{}", owner.to_lowercase()));
                if row.get("closed") == Some(Value::Boolean(false)) {
                    lists.push(format!("list_task_by_board_0000000007_{owner}"));
                }
            }
            for list in lists {
                expected.entry(list).or_default().insert(listed.to_owned());
            }
        } else if row.row_key().starts_with("list_") {
            assert_eq!(row.get("RowFormat"), Some(Value::Int32(1)));
            assert!(row.row_key().contains(&text("IndexName").unwrap()));
            let keys: Vec<String> = text("Keys").unwrap().split('/').map(str::to_owned).collect();
            assert_eq!(row.get("Count"), Some(Value::Int32(i32::try_from(keys.len()).unwrap())));
            stored.insert(row.row_key().to_owned(), keys.into_iter().collect());
        }
    }
    assert_eq!(stored, expected, "the lists are those that the tasks have");
    stored
}

async fn ids(tasks: &Store<Task>, address: ListKey<Task>) -> rowkey::Result<Vec<u32>> {
    let found = tasks.query(address).all().await?;
    Ok(found.into_iter().map(|found| found.entity.id).collect())
}

#[tokio::test]
async fn every_write_updates_the_lists() -> TestResult {
    let (server, tasks) = start().await?;
    // A value that an entity has twice is one.
    tasks.insert(&task(2, &["a", "b", "a"])).await?;
    tasks.insert(&task(1, &["b"])).await?;
    assert_eq!(agreed(&server.snapshot()).len(), 4);
    assert_eq!(ids(&tasks, Task::by_tag("core", "b")).await?, [1, 2]);
    assert_eq!(ids(&tasks, Task::by_tag("core", "a")).await?, [2]);
    assert_eq!(ids(&tasks, Task::by_owner("core", "ADA")).await?, [1, 2]);
    assert_eq!(ids(&tasks, Task::by_board("core", 7, "Ada")).await?, [1, 2]);
    assert_eq!(ids(&tasks, Task::by_tag("other", "b")).await?, Vec::<u32>::new());

    let found = tasks.update(key(2), |task| task.tags = vec!["c".into(), "b".into()]).await?;
    agreed(&server.snapshot());
    let closed = Task { closed: true, owner: Some("Bob".into()), ..found.entity };
    tasks.replace_if(&closed, &found.version).await?;
    agreed(&server.snapshot());
    assert_eq!(ids(&tasks, Task::by_board("core", 7, "Bob")).await?, Vec::<u32>::new());
    assert_eq!(ids(&tasks, Task::by_owner("core", "bob")).await?, [2]);
    tasks.upsert(&Task { owner: None, ..closed }).await?;
    tasks.upsert(&task(3, &[])).await?;
    agreed(&server.snapshot());
    for id in 1..4 {
        assert!(tasks.delete(key(id)).await?);
        agreed(&server.snapshot());
    }
    // The voids of operations whose claims were released stay for a while.
    let snapshot = server.snapshot();
    let rows = snapshot.table("tasks").unwrap().entities();
    let rows = rows.filter(|row| !row.row_key().starts_with("op_"));
    assert_eq!(rows.count(), 0, "a list goes with its last entity");
    Ok(())
}

#[tokio::test]
async fn tasks_of_one_transaction_share_one_list_edit() -> TestResult {
    let (server, tasks) = start().await?;
    let (one, two) = (task(1, &["a", "b"]), task(2, &["b", "c"]));
    let transaction = tasks.transaction().insert(&one).insert(&two);
    let plan = transaction.explain().await?;
    // The op row, two heads, two copies, three tags, an owner and a board.
    assert_eq!(plan.operations(), 1 + 2 + 2 + 3 + 1 + 1, "{plan}");
    let versions = transaction.submit().await?.versions;
    assert_eq!(ids(&tasks, Task::by_tag("core", "b")).await?, [1, 2]);

    // One leaves a list that the other joins.
    let [Some(first), Some(second)] = &versions[..] else { panic!("{versions:?}") };
    let (gone, here) =
        (Task { tags: vec!["b".into()], ..one }, Task { tags: vec!["a".into()], ..two });
    tasks
        .transaction()
        .replace_if(&gone, first.clone())
        .replace_if(&here, second.clone())
        .submit()
        .await?;
    agreed(&server.snapshot());
    assert_eq!(ids(&tasks, Task::by_tag("core", "a")).await?, [2]);
    Ok(())
}

/// A stored list of these keys, made as the format says.
fn list_of(value: &str, keys: &[String]) -> DynamicEntity {
    let mut row = DynamicEntity::new("core", format!("list_task_by_tag_{value}"));
    row.set("RowFormat", 1);
    row.set("IndexName", "by_tag");
    row.set("Count", i32::try_from(keys.len()).unwrap());
    let text: Vec<char> = keys.join("/").chars().collect();
    for (at, part) in text.chunks(32 * 1024).enumerate() {
        let name = if at == 0 { "Keys".to_owned() } else { format!("Keys{}", at + 1) };
        row.set(name, part.iter().collect::<String>());
    }
    row
}

#[tokio::test]
async fn a_full_list_rejects_the_write_and_is_named() -> TestResult {
    let (server, tasks) = start().await?;
    // 262,144 = 8 * 32,768 characters: 523 keys of 500 and what stands between them, and one of 121.
    let mut keys: Vec<_> = (0..523).map(|at| format!("x{at:0499}")).collect();
    keys.push("y".repeat(121));
    assert_eq!(keys.join("/").len(), 262_144);
    tasks.table().insert(&list_of("a", &keys)).await?;
    let before = server.snapshot().table("tasks").unwrap().entities().count();
    let error = tasks.insert(&task(1, &["b", "a"])).await.unwrap_err();
    assert_eq!((error.kind(), error.details().index), (ErrorKind::TooLarge, Some("by_tag")));
    assert!(error.to_string().contains("`by_tag` is full"), "{error}");
    assert_eq!(server.snapshot().table("tasks").unwrap().entities().count(), before);

    tasks.insert(&task(1, &["b"])).await?;
    let joins = tasks.update(key(1), |task| task.tags = vec!["a".into()]).await;
    assert_eq!(joins.unwrap_err().details().index, Some("by_tag"));
    assert_eq!(ids(&tasks, Task::by_tag("core", "b")).await?, [1], "nothing was written");

    // One key less, and there is room.
    keys.pop();
    tasks.table().upsert(&list_of("a", &keys)).await?;
    tasks.update(key(1), |task| task.tags = vec!["a".into()]).await?;
    assert_eq!(ids(&tasks, Task::by_tag("core", "a")).await?, [1]);
    Ok(())
}

#[tokio::test]
async fn an_entity_with_too_many_values_is_rejected() -> TestResult {
    let (server, tasks) = start().await?;
    let error = tasks.insert(&task(1, &["a", "b", "c", "d", "e"])).await.unwrap_err();
    assert_eq!((error.kind(), error.details().index), (ErrorKind::TooLarge, Some("by_tag")));
    assert!(error.to_string().contains("5 different values"), "{error}");
    tasks.insert(&task(1, &["a", "b", "c", "d", "a"])).await?;
    assert_eq!(agreed(&server.snapshot()).len(), 6);
    let error = tasks.insert(&task(2, &["secret\n"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("`by_tag`"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_damaged_list_is_neither_read_nor_written() -> TestResult {
    let (server, tasks) = start().await?;
    tasks.insert(&task(1, &["a"])).await?;
    let good = list_of("a", &["0001".into()]);
    let mut damaged = Vec::new();
    for change in ["RowFormat", "IndexName", "Count", "Keys"] {
        let mut row = good.clone();
        row.remove(change);
        damaged.push(row);
    }
    damaged.push({
        let mut row = good.clone();
        row.set("Count", 2);
        row
    });
    for row in damaged {
        tasks.table().upsert(&row).await?;
        let read = tasks.query(Task::by_tag("core", "a")).all().await.unwrap_err();
        assert_eq!(
            (read.kind(), read.details().index),
            (ErrorKind::Decode, Some("by_tag")),
            "{read}"
        );
        let write = tasks.insert(&task(2, &["a"])).await.unwrap_err();
        assert_eq!(
            (write.kind(), write.details().index),
            (ErrorKind::Decode, Some("by_tag")),
            "{write}"
        );
    }
    tasks.table().upsert(&good).await?;
    tasks.insert(&task(2, &["a"])).await?;
    agreed(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn stale_list_entries_are_skipped() -> TestResult {
    let (_server, tasks) = start().await?;
    for (id, tags) in [(1, &["a"][..]), (2, &["b"]), (3, &["a"])] {
        tasks.insert(&task(id, tags)).await?;
    }
    let keys = ["0001", "0002", "0003", "0004"].map(str::to_owned);
    tasks.table().upsert(&list_of("a", &keys)).await?;
    assert_eq!(ids(&tasks, Task::by_tag("core", "a")).await?, [1, 3]);
    let keys = tasks.list_keys(&Task::by_tag("core", "a")).await?;
    assert_eq!(keys, [1, 2, 3, 4].map(key));
    Ok(())
}

/// The writes, each on a server with two tasks.
type Write = fn(Store<Task>) -> BoxFuture<'static, Result<(), rowkey::Error>>;

const WRITES: [(&str, Write); 5] = [
    ("insert", |tasks| async move { tasks.insert(&task(3, &["a", "c"])).await.map(drop) }.boxed()),
    ("update of tags", |tasks| {
        let change = |task: &mut Task| task.tags = vec!["c".into(), "b".into()];
        async move { tasks.update(key(1), change).await.map(drop) }.boxed()
    }),
    ("update of an owner and a unique value", |tasks| {
        let change = |task: &mut Task| (task.owner, task.number) = (None, Some("M".into()));
        async move { tasks.update(key(1), change).await.map(drop) }.boxed()
    }),
    ("upsert", |tasks| async move { tasks.upsert(&task(1, &["d"])).await.map(drop) }.boxed()),
    ("delete", |tasks| async move { tasks.delete(key(2)).await.map(drop) }.boxed()),
];

async fn with_two() -> TestResult<Server> {
    let (server, tasks) = start().await?;
    tasks.insert(&task(1, &["a", "b"])).await?;
    tasks.insert(&task(2, &["b", "e"])).await?;
    Ok(server)
}

#[tokio::test]
async fn lists_agree_after_any_fault() -> TestResult {
    let server = with_two().await?;
    let recover = async |account: &StorageAccount| {
        let tasks = store(account)?;
        tasks.drain_backlog().await?;
        assert_eq!(tasks.work_once().await?.failed, 0);
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
async fn lists_agree_at_any_time() -> TestResult {
    let server = with_two().await?;
    let nothing = async |_: &StorageAccount| Ok(());
    for (name, write) in WRITES {
        eprintln!("{name}");
        let scenario = async |account: &StorageAccount| write(store(account)?).await;
        stopped_at_every_request(&server, scenario, nothing, |snapshot| drop(agreed(snapshot)))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn eight_writers_of_one_list_lose_no_entry() -> TestResult {
    let (server, tasks) = start().await?;
    let all: Vec<_> = (0..8).map(|id| task(id, &["a", "b"])).collect();
    for inserted in join_all(all.iter().map(|task| tasks.insert(task))).await {
        inserted?;
    }
    assert_eq!(agreed(&server.snapshot())["list_task_by_tag_a"].len(), 8);
    let turn = |id: u32| {
        let tasks = tasks.clone();
        async move {
            if id.is_multiple_of(2) {
                tasks.delete(key(id)).await.map(drop)
            } else {
                let change = move |task: &mut Task| task.tags = vec!["b".into(), format!("t{id}")];
                tasks.update(key(id), change).await.map(drop)
            }
        }
    };
    for turned in join_all((0..8).map(turn)).await {
        turned?;
    }
    let lists = agreed(&server.snapshot());
    assert_eq!(
        (lists["list_task_by_tag_b"].len(), lists.contains_key("list_task_by_tag_a")),
        (4, false)
    );
    Ok(())
}

/// Reads may go to the secondary, which has the initial state, and the primary is busy now and then.
#[tokio::test]
async fn a_lagging_secondary_does_not_change_a_list() -> TestResult {
    let (server, tasks) = start().await?;
    tasks.insert(&task(1, &["a"])).await?;
    tasks.insert(&task(2, &["a"])).await?;
    let account = account(&server)?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let tasks = store(&account.with_options(options))?;
    let _behind = server.hold_back_secondary();
    for round in 0..6_u64 {
        let fault = Fault::on(Operation::GetEntity).times(1 + round % 3);
        let injected = server.inject(fault.reject(ErrorCode::SERVER_BUSY));
        let id = u32::try_from(1 + round % 2)?;
        tasks.update(key(id), |task| task.tags = vec!["a".into(), format!("r{round}")]).await?;
        drop(injected);
        agreed(&server.snapshot());
    }
    let down =
        server.inject(Fault::on(Operation::GetEntity).times(2).reject(ErrorCode::SERVER_BUSY));
    tasks.insert(&task(3, &["a", "r5"])).await?;
    drop(down);
    assert_eq!(agreed(&server.snapshot())["list_task_by_tag_a"].len(), 3);
    Ok(())
}

/// A type that has lists alone.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{team}", row = "note_{id:4}")]
#[entity(list(name = by_word, value = "{words}", max = 8))]
struct Note {
    team: String,
    id: u32,
    #[entity(json)]
    words: Option<Vec<String>>,
    stars: i32,
}

#[tokio::test]
async fn lists_send_the_documented_requests() -> TestResult {
    let server = Server::start().await?;
    let account = account(&server)?;
    let notes = Store::<Note>::builder(account.table("notes")).build()?;
    notes.create_if_missing().await?;
    let mut before = server.journal();
    let mut cost = || {
        let requests = server.journal().since(&before).len();
        before = server.journal();
        requests
    };
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    let note = Note { team: "core".into(), id: 1, words: words(&["a", "b"]), stars: 0 };
    cost();
    notes.insert(&note).await?;
    assert_eq!(cost(), 3, "two lists and the transaction");
    notes.update(Note::key("core", 1), |note| note.stars = 5).await?;
    assert_eq!(cost(), 2, "the entity; its lists are not looked at");
    notes.update(Note::key("core", 1), |note| note.words = words(&["b", "c"])).await?;
    assert_eq!(cost(), 4, "the entity, the list that it leaves, the one that it joins");
    assert_eq!(notes.query(Note::by_word("core", "c")).all().await?.len(), 1);
    assert_eq!(cost(), 2, "the list and the entity");
    notes.update(Note::key("core", 1), |note| note.words = None).await?;
    assert!(notes.query(Note::by_word("core", "c")).all().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_repair_adds_missing_entries_and_removes_orphans() -> TestResult {
    let (server, tasks) = start().await?;
    for (id, tags) in [(1, &["a", "b"][..]), (2, &["b"]), (3, &["a"])] {
        tasks.insert(&task(id, tags)).await?;
    }
    assert!(tasks.verify().run().await?.is_clean());
    // Another program writes and deletes past the store.
    tasks.table().upsert(&list_of("a", &["0002".into(), "0003".into(), "0009".into()])).await?;
    tasks.table().upsert(&list_of("z", &["0001".into()])).await?;
    let gone = Key::<DynamicEntity>::new("core", "list_task_by_owner_ada");
    tasks.table().delete(gone, rowkey::Match::Any).await?;

    let found = tasks.verify().run().await?;
    let (tags, owners) = (&found.parts["by_tag"], &found.parts["by_owner"]);
    // Task 1 is not on the list of its tag; tasks 2 and 9 are, and task 1 on one that it has not.
    assert_eq!((tags.missing, tags.orphaned, tags.right), (1, 3, 2), "{found:?}");
    assert_eq!(owners.missing, 3, "{found:?}");

    let repaired = tasks.repair().run().await?;
    assert_eq!(repaired.parts["by_tag"].repaired, 4, "{repaired:?}");
    agreed(&server.snapshot());
    assert!(tasks.verify().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn a_load_fills_the_lists_and_a_deletion_empties_them() -> TestResult {
    let (server, tasks) = start().await?;
    let tags = [&["a", "b", "c"][..], &["b"], &["c", "d", "e", "f"]];
    let all: Vec<_> = (0..120).map(|id| task(id, tags[id as usize % 3])).collect();
    let report = tasks.load(futures_util::stream::iter(all)).run().await?;
    assert!(report.is_clean() && report.total.right == 120, "{report:?}");
    let lists = agreed(&server.snapshot());
    assert_eq!(
        (lists["list_task_by_tag_b"].len(), lists["list_task_by_owner_ada"].len()),
        (80, 120)
    );
    assert!(tasks.delete_where(Task::partition("core")).run().await?.is_clean());
    assert!(agreed(&server.snapshot()).is_empty());
    Ok(())
}

/// A type that has a list of one value alone.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{team}", row = "page_{id:4}")]
#[entity(list(name = by_author, value = "{author}"))]
struct Page {
    team: String,
    id: u32,
    author: String,
}

#[tokio::test]
async fn a_patch_updates_lists_of_a_type_without_other_declarations() -> TestResult {
    let server = Server::start().await?;
    let account = account(&server)?;
    let pages = Store::<Page>::builder(account.table("pages")).build()?;
    pages.create_if_missing().await?;
    pages.insert(&Page { team: "core".into(), id: 1, author: "ada".into() }).await?;
    pages.patch(Page::key("core", 1)).set(Page::AUTHOR, "kim").send().await?;
    assert_eq!(pages.query(Page::by_author("core", "kim")).all().await?.len(), 1);
    assert!(pages.list_keys(&Page::by_author("core", "ada")).await?.is_empty());
    Ok(())
}
