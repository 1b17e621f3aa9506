//! Two versions of a program write one table: the older declares what the newer dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use rowkey::edm::Value;
use rowkey::store::{Change, Contribution, Declaration, Settled, Settling, Stage, Store};
use rowkey::{
    Clock, DynamicEntity, Entity, ErrorKind, Key, ManualClock, StorageAccount, Table, async_trait,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot, StoredTable};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::{TestResult, sweep};

pub(super) mod old {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_owner, partition = "owner_{owner}", row = "{team}_{id:4}"))]
    #[entity(index(name = by_tag, partition = "tag_{tag}", row = "{team}_{id:4}"))]
    #[entity(unique(name = by_code, value = "{code}"))]
    #[entity(list(name = shelf, partition = "shelves", value = "{tag}"))]
    pub(crate) struct Task {
        pub(crate) team: String,
        pub(crate) id: u32,
        pub(crate) owner: String,
        pub(crate) tag: String,
        pub(crate) code: String,
    }
}

pub(super) mod new {
    use rowkey::Entity;

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{team}", row = "task_{id:4}")]
    #[entity(index(name = by_owner, partition = "owner_{owner}", row = "{team}_{id:4}"))]
    #[entity(index(name = by_label, partition = "label_{tag}", row = "{team}_{id:4}"))]
    pub(crate) struct Task {
        pub(crate) team: String,
        pub(crate) id: u32,
        pub(crate) owner: String,
        pub(crate) tag: String,
        pub(crate) code: String,
    }
}

/// What the newer program dropped. It has `by_label` in place of `by_tag`.
const DROPPED: [&str; 3] = ["by_tag", "by_code", "shelf"];

/// A server and a client whose clocks are moved together.
struct Setup {
    server: Server,
    clock: ManualClock,
    account: StorageAccount,
}

impl Setup {
    async fn start() -> TestResult<Self> {
        let server = Server::builder().manual_clock().start().await?;
        let (account, clock) = sweep::waiting(&server)?;
        account.table("tasks").create().await?;
        account.queue("tasks").create().await?;
        Ok(Self { server, clock, account })
    }

    fn pass(&self, seconds: u64) {
        self.server.clock().advance(Duration::from_secs(seconds));
        self.clock.advance(Duration::from_secs(seconds));
    }

    fn build<E>(&self) -> rowkey::Result<Store<E>>
    where
        E: Entity + Clone + Send + Sync + 'static,
    {
        let account = &self.account;
        Store::<E>::builder(account.table("tasks")).queue(account.queue("tasks")).build()
    }

    /// The op rows, the backlog rows and the messages.
    fn left(&self) -> (usize, usize, usize) {
        left(&self.server.snapshot())
    }
}

/// The older program commits a write and stops before it settles anything.
async fn stop_after_the_commit(server: &Server, old: &Store<old::Task>, id: u32) {
    let commits = server.inject(Fault::on(Operation::Transaction).times(1).hold());
    let task = old_task(id);
    let mut insert = pin!(old.insert(&task));
    select(insert.as_mut(), pin!(commits.wait_until_held())).await;
    let settles = server.inject(Fault::on(Operation::Transaction).hold());
    commits.release();
    select(insert, pin!(settles.wait_until_held())).await;
}

fn left(snapshot: &Snapshot) -> (usize, usize, usize) {
    let rows = || snapshot.table("tasks").into_iter().flat_map(StoredTable::entities);
    let ops =
        rows().filter(|row| row.partition_key() == "core" && row.row_key().starts_with("op_"));
    let backlog = rows().filter(|row| row.partition_key().starts_with("backlog_"));
    let messages = snapshot.queue("tasks").map_or(0, |queue| queue.messages().count());
    (ops.count(), backlog.count(), messages)
}

/// The op rows of committed writes. Others are voids, which a repair removes when they are old.
fn committed(snapshot: &Snapshot) -> usize {
    let rows = snapshot.table("tasks").into_iter().flat_map(StoredTable::entities);
    let ops = rows.filter(|row| row.row_key().starts_with("op_"));
    ops.filter(|row| row.get("Void").is_none()).count()
}

fn old_task(id: u32) -> old::Task {
    let (team, owner, tag) = ("core".into(), "ada".into(), "a".into());
    old::Task { team, id, owner, tag, code: format!("c{id}") }
}

#[tokio::test]
async fn a_worker_hands_a_target_of_another_program_back_at_once() -> TestResult {
    let setup = Setup::start().await?;
    let (old, new) = (setup.build::<old::Task>()?, setup.build::<new::Task>()?);
    stop_after_the_commit(&setup.server, &old, 1).await;
    setup.pass(61);
    let before = setup.clock.now();
    let worked = new.work_once().await?;
    assert_eq!((worked.settled, worked.failed), (0, 0), "{worked:?}");
    assert_eq!(setup.clock.now(), before, "it does not wait for another program");
    assert!(new.find(new::Task::by_owner("ada", "core", 1_u32)).await?.is_some(), "its own part");

    old.work_once().await?;
    assert!(old.find(old::Task::by_tag("a", "core", 1_u32)).await?.is_some(), "the other part");
    setup.pass(3600);
    assert_eq!(old.work_once().await?.settled, 1);
    assert_eq!(setup.left(), (0, 0, 0));
    Ok(())
}

/// The queue is down, so that a backlog row takes the place of the message of one write.
#[tokio::test]
async fn clean_ends_pending_writes_of_a_declaration_that_is_gone() -> TestResult {
    let setup = Setup::start().await?;
    let old = setup.build::<old::Task>()?.open().await?;
    stop_after_the_commit(&setup.server, &old, 1).await;
    let down = setup.server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    stop_after_the_commit(&setup.server, &old, 2).await;
    drop(down);
    assert_eq!(setup.left(), (2, 1, 1));
    for name in DROPPED {
        old.retire(name).await?;
    }
    let new = setup.build::<new::Task>()?.open().await?;
    setup.pass(721);
    for name in DROPPED {
        assert_eq!(new.advance(name).await?, Stage::Gone);
    }
    setup.pass(721);
    for name in DROPPED {
        new.clean(name).await?.run().await?;
    }
    for _ in 0..8 {
        setup.pass(3601);
        new.work_once().await?;
        new.drain_backlog().await?;
    }
    assert_eq!(setup.left(), (0, 0, 0));
    assert!(new.repair().run().await?.is_clean());
    let snapshot = setup.server.snapshot();
    let rows = snapshot.table("tasks").ok_or("no table")?.len();
    assert_eq!(rows, 2 + 4 + 1, "two tasks, their copies, and the manifest");
    Ok(())
}

/// Programs of both versions write at random, meet faults, and stop at any request.
pub(super) async fn write_at_random(server: &Server, random: &mut Random) -> TestResult {
    for number in 0..40 {
        let id = 1 + random.below(5);
        let owner = random.pick(&["ada", "bob"]).to_owned();
        let tag = random.pick(&["a", "b", "c"]).to_owned();
        let (team, code) = ("core".to_owned(), format!("c{id}_{number}"));
        let nth = 1 + random.within(14);
        let fault = match random.below(5) {
            0 => Fault::any().nth(nth).reject(ErrorCode::SERVER_BUSY),
            1 => Fault::any().nth(nth).close_after_commit(),
            2 => Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY),
            3 => Fault::any().nth(nth).hold(),
            // Never met.
            _ => Fault::any().nth(1000).hold(),
        };
        let fault = server.inject(fault);
        let deletes = random.one_in(5);
        if random.one_in(2) {
            let old = build::<old::Task>(server)?;
            let task = old::Task { team, id, owner, tag, code };
            let write = async {
                let key = old::Task::key("core", id);
                let written = if deletes {
                    old.delete(key).await.map(drop)
                } else {
                    old.upsert(&task).await.map(drop)
                };
                drop(written);
            };
            select(pin!(write), pin!(fault.wait_until_held())).await;
        } else {
            let new = build::<new::Task>(server)?;
            let task = new::Task { team, id, owner, tag, code };
            let write = async {
                let key = new::Task::key("core", id);
                let written = if deletes {
                    new.delete(key).await.map(drop)
                } else {
                    new.upsert(&task).await.map(drop)
                };
                drop(written);
            };
            select(pin!(write), pin!(fault.wait_until_held())).await;
        }
        drop(fault);
        server.clock().advance(Duration::from_secs(random.within(90)));
        if random.one_in(4) {
            build::<new::Task>(server)?.work_once().await?;
        }
        if random.one_in(4) {
            build::<old::Task>(server)?.work_once().await?;
        }
    }
    Ok(())
}

/// A program that starts now: its clock is that of the server.
pub(super) fn build<E>(server: &Server) -> rowkey::Result<Store<E>>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let (account, _) = sweep::waiting(server)?;
    Store::<E>::builder(account.table("tasks")).queue(account.queue("tasks")).build()
}

/// All rows except entities, as their keys and, for lists, their entries.
type Rows = BTreeSet<(String, String, String)>;

/// The rows that the entities demand, and those that there are.
pub(super) fn rows(snapshot: &Snapshot, of_old: bool, of_new: bool) -> (Rows, Rows) {
    let (mut wanted, mut found) = (Rows::new(), Rows::new());
    let mut shelves = BTreeMap::<String, Vec<String>>::new();
    for row in snapshot.table("tasks").unwrap().entities() {
        let text = |name: &str| match row.get(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let Some(id) = row.row_key().strip_prefix("task_") else {
            let (partition, key) = (row.partition_key().to_owned(), row.row_key().to_owned());
            found.insert((partition, key, text("Keys")));
            continue;
        };
        let (owner, tag, code) = (text("owner"), text("tag"), text("code"));
        let copy = |partition: String| (partition, format!("core_{id}"), String::new());
        wanted.insert(copy(format!("owner_{owner}")));
        if of_old {
            wanted.insert(copy(format!("tag_{tag}")));
            let claim = format!("unique_task_by_code_{code}");
            wanted.insert((claim, "claim".into(), String::new()));
            shelves.entry(tag.clone()).or_default().push(format!("core#{id}"));
        }
        if of_new {
            wanted.insert(copy(format!("label_{tag}")));
        }
    }
    for (tag, mut tasks) in shelves {
        tasks.sort();
        wanted.insert(("shelves".into(), format!("list_task_shelf_{tag}"), tasks.join("/")));
    }
    (wanted, found)
}

/// Repairs until a run finds everything right or repaired.
async fn repair<E: Entity + Clone + Send + Sync + 'static>(store: &Store<E>) -> TestResult {
    let mut report = store.repair().run().await?;
    for _ in 0..2 {
        if !report.is_clean() {
            report = store.repair().run().await?;
        }
    }
    assert!(report.is_clean(), "{report:?}");
    Ok(())
}

/// Runs workers of both programs until `is_done`. The newer program is first each time.
async fn work(server: &Server, is_done: impl Fn() -> bool) -> TestResult {
    for _ in 0..100 {
        if is_done() {
            return Ok(());
        }
        server.clock().advance(Duration::from_secs(301));
        build::<new::Task>(server)?.work_once().await?;
        build::<old::Task>(server)?.work_once().await?;
        build::<new::Task>(server)?.drain_backlog().await?;
        build::<old::Task>(server)?.drain_backlog().await?;
    }
    Err(format!("left after 8 hours: {:?}", left(&server.snapshot())).into())
}

/// An oracle of its own: it knows nothing of the store but the rows.
#[tokio::test]
async fn nothing_is_left_of_writes_of_two_versions_and_all_indexes_agree() -> TestResult {
    for seed in seeds(40) {
        let _seed = Seed(seed);
        let server = Setup::start().await?.server;
        write_at_random(&server, &mut Random(seed)).await?;
        work(&server, || left(&server.snapshot()) == (0, 0, 0)).await?;
        // What a program did not know while it wrote.
        repair(&build::<old::Task>(&server)?).await?;
        repair(&build::<new::Task>(&server)?).await?;
        // Entries of one list that are repaired at the same time compete for its row; workers write the losers.
        let is_settled = || {
            let (_, backlog, messages) = left(&server.snapshot());
            committed(&server.snapshot()) + backlog + messages == 0
        };
        work(&server, is_settled).await?;
        // A void that ended a young operation stays for 45 minutes; a later repair removes it.
        server.clock().advance(Duration::from_secs(3600));
        repair(&build::<new::Task>(&server)?).await?;
        let (wanted, found) = rows(&server.snapshot(), true, true);
        assert_eq!(found, wanted);
        assert_eq!(left(&server.snapshot()), (0, 0, 0));
    }
    Ok(())
}

/// Only the newer program is left, and there is no manifest.
#[tokio::test]
async fn repair_without_a_declaration_ends_what_an_older_program_left() -> TestResult {
    for seed in seeds(40) {
        let _seed = Seed(seed);
        let server = Setup::start().await?.server;
        write_at_random(&server, &mut Random(seed)).await?;
        // At least one write of the older program is left.
        stop_after_the_commit(&server, &build::<old::Task>(&server)?, 9).await;
        let mut named = BTreeSet::new();
        for _ in 0..30 {
            server.clock().advance(Duration::from_secs(301));
            let worked = build::<new::Task>(&server)?.work_once().await?;
            let drained = build::<new::Task>(&server)?.drain_backlog().await?;
            assert_eq!((worked.failed, drained.failed), (0, 0));
            named.extend(worked.undeclared.into_keys().chain(drained.undeclared.into_keys()));
        }
        assert!(named.contains("by_tag") && named.contains("shelf"), "{named:?}");
        let (ops, backlog, messages) = left(&server.snapshot());
        assert!(ops > 0 && backlog + messages > 0, "no program settles them");

        let new = build::<new::Task>(&server)?;
        let report = new.verify().run().await?;
        let errors: Vec<_> = report.problems.iter().map(|problem| &*problem.error).collect();
        assert!(errors.iter().any(|error| error.contains("`by_tag`")), "{errors:?}");
        let pending = committed(&server.snapshot());
        new.repair().run().await?;
        let kept = committed(&server.snapshot());
        assert_eq!(kept, pending, "a repair does not know that no program is left");

        for name in DROPPED {
            let report = new.repair_without(name)?.run().await?;
            assert!(report.total.failed + report.total.unreadable == 0, "{report:?}");
        }
        for _ in 0..30 {
            server.clock().advance(Duration::from_secs(301));
            build::<new::Task>(&server)?.work_once().await?;
            build::<new::Task>(&server)?.drain_backlog().await?;
        }
        assert!(build::<new::Task>(&server)?.repair().run().await?.is_clean());
        let (wanted, found) = rows(&server.snapshot(), false, true);
        assert_eq!(found, wanted);
        assert_eq!(left(&server.snapshot()), (0, 0, 0));
    }
    Ok(())
}

#[tokio::test]
async fn a_program_does_not_end_a_declaration_of_its_own() -> TestResult {
    let setup = Setup::start().await?;
    let refused = setup.build::<old::Task>()?.repair_without("by_tag").map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("`by_tag`"), "{refused}");
    Ok(())
}

/// The message is visible, and is not received again at once.
#[tokio::test]
async fn a_worker_waits_after_it_handed_a_message_back() -> TestResult {
    let server = Setup::start().await?.server;
    stop_after_the_commit(&server, &build::<old::Task>(&server)?, 1).await;
    server.clock().advance(Duration::from_secs(61));
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let new = Store::<new::Task>::builder(account.table("tasks"))
        .queue(account.queue("tasks"))
        .build()?;
    let begun = server.journal();
    let waits = std::future::poll_fn(|_| {
        if clock.slept().is_empty() { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    });
    new.run(waits).await?;
    let received = server.journal().since(&begun).count(Operation::GetMessages);
    assert_eq!(received, 1, "the idle wait comes first");
    assert_eq!(left(&server.snapshot()), (1, 0, 1));
    Ok(())
}

/// A declaration that only the older program gives its store, with rows in a table of its own.
struct Mirror(Table);

#[async_trait]
impl Declaration<new::Task> for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        true
    }

    fn contribute(
        &self,
        change: Change<'_, new::Task>,
        plan: &mut Contribution<'_>,
    ) -> rowkey::Result<()> {
        plan.target(change.row_key());
        Ok(())
    }

    async fn settle(
        &self,
        settling: &Settling<new::Task>,
        address: &str,
    ) -> rowkey::Result<Settled> {
        let key = || Key::<DynamicEntity>::new("mirror", address);
        let target = self.0.get(key()).await?;
        match (settling.entity().await?, target) {
            (Some(_), None) => {
                let mut row = DynamicEntity::new("mirror", address);
                row.set("Of", "mirror");
                settling.wrote(self.0.insert(&row).await)
            }
            (None, Some(row)) => settling.wrote(self.0.delete(key(), row.etag).await),
            _ => Ok(Settled::Done),
        }
    }

    fn target_of(&self, row: &DynamicEntity) -> Option<(Key<new::Task>, String)> {
        let is_own = row.get("Of") == Some(&"mirror".into());
        is_own.then(|| (Key::new("core", &*row.row_key), row.row_key.clone()))
    }
}

fn mirrored(server: &Server) -> rowkey::Result<Store<new::Task>> {
    let (account, _) = sweep::waiting(server)?;
    let mirror = Mirror(account.table("mirror"));
    Store::builder(account.table("tasks")).queue(account.queue("tasks")).with(mirror).build()
}

/// The other program does not know the declaration, nor its table.
#[tokio::test]
async fn what_a_declaration_of_a_program_left_ends_like_that_of_a_type() -> TestResult {
    let setup = Setup::start().await?;
    let Setup { server, account, .. } = &setup;
    account.table("mirror").create().await?;
    let task = |id: u32| {
        let (team, owner, tag) = ("core".into(), "ada".into(), "a".into());
        new::Task { team, id, owner, tag, code: format!("c{id}") }
    };
    mirrored(server)?.insert(&task(1)).await?;
    let busy = server
        .inject(Fault::on(Operation::GetEntity).resource("mirror").reject(ErrorCode::SERVER_BUSY));
    mirrored(server)?.insert(&task(2)).await?;
    drop(busy);
    server.clock().advance(Duration::from_secs(61));
    let worked = build::<new::Task>(server)?.work_once().await?;
    assert_eq!(worked.undeclared.into_iter().collect::<Vec<_>>(), [("mirror".to_owned(), 1)]);
    assert_eq!(left(&server.snapshot()), (1, 0, 1));

    let new = build::<new::Task>(server)?;
    let mirror = account.table("mirror");
    let foreign = DynamicEntity::new("mirror", "task_0003");
    mirror.insert(&foreign).await?;
    let report = new.clean_in(Mirror(mirror.clone()), &mirror).await?.run().await?;
    assert_eq!((report.part("mirror").orphaned, report.part("mirror").repaired), (1, 1));
    assert_eq!(mirror.scan::<DynamicEntity>().all().await?.len(), 1, "the row of another program");
    assert!(mirrored(server)?.clean_in(Mirror(mirror.clone()), &mirror).await.is_err());

    new.repair_without("mirror")?.run().await?;
    server.clock().advance(Duration::from_secs(3600));
    build::<new::Task>(server)?.work_once().await?;
    assert_eq!(left(&server.snapshot()), (0, 0, 0));
    Ok(())
}
