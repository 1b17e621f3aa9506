//! Transactions in steps: every step happens in the end, if requests fail, workers stop or others interfere, and
//! no change made meanwhile is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rowkey::blob::Conditions;
use rowkey::store::Deciding;
use rowkey::worker::steps::{self, Steps};
use rowkey::worker::{Attempt, Done, Handler, Step, Task, Tasks, Worker};
use rowkey::{Container, Entity, Error, ErrorKind, Key, Outcome, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account_named, is_brief, once, stopped_at_every_request_on, sweep_on};
use serde::{Deserialize, Serialize};

/// Employees are in one account, the archive is in another.
const CURRENT: &str = "currentaccount";
const ARCHIVE: &str = "archiveaccount";

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    salary: i32,
}

fn employee(id: u32) -> Employee {
    Employee { department: "sales".into(), id, salary: 0 }
}

fn key(id: u32) -> Key<Employee> {
    Employee::key("sales", id)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ArchiveEmployee {
    id: u32,
}

impl Task for ArchiveEmployee {
    const KIND: &'static str = "archive-employee";
}

/// A folder of one run's own, which goes with it.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("rowkey-steps-{}-{n}", std::process::id()));
        std::fs::create_dir_all(folder.join("archive")).unwrap();
        Self(folder)
    }

    fn contract(&self, id: u32) -> PathBuf {
        self.0.join(format!("{id}.txt"))
    }

    fn archived_contract(&self, id: u32) -> PathBuf {
        self.0.join("archive").join(format!("{id}.txt"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The resources of a program: two accounts, and a folder on its disk.
#[derive(Clone)]
struct Office {
    account: StorageAccount,
    current: Deciding,
    archive: Deciding,
    photos: Container,
    archived_photos: Container,
    files: Arc<Folder>,
}

impl Office {
    fn open(server: &Server, files: Arc<Folder>) -> Result<Self, Error> {
        let account = account_named(server, CURRENT)?;
        let other = account_named(server, ARCHIVE)?;
        Ok(Self {
            current: Deciding::new(&account.table("current")),
            archive: Deciding::new(&other.table("archive")),
            photos: account.container("photos"),
            archived_photos: other.container("photos"),
            account,
            files,
        })
    }

    /// The same, repeating no request.
    fn once(&self) -> Self {
        let options = once(&self.account).options().clone();
        Self {
            account: once(&self.account),
            current: Deciding::new(&self.current.table().with_options(options.clone())),
            archive: Deciding::new(&self.archive.table().with_options(options.clone())),
            photos: self.photos.with_options(options.clone()),
            archived_photos: self.archived_photos.with_options(options),
            files: Arc::clone(&self.files),
        }
    }

    fn tasks(&self) -> Tasks<ArchiveEmployee> {
        Tasks::new(self.account.queue("leavers"))
    }

    fn worker(&self) -> Worker<ArchiveEmployee, impl Handler<ArchiveEmployee>> {
        let office = self.clone();
        Worker::new(self.tasks(), move |task: ArchiveEmployee, _: Attempt| {
            let office = office.clone();
            async move { office.leave(task.id).await }
        })
    }

    /// The handler: moves the employee, the photo and the contract to the archive.
    async fn leave(&self, id: u32) -> rowkey::Result<Done> {
        steps::run(&self.account, || self.plan(id)).await
    }

    async fn plan(&self, id: u32) -> rowkey::Result<Option<Steps>> {
        let (photo, archived) =
            (self.photos.blob(&id.to_string()), self.archived_photos.blob(&id.to_string()));
        // The targets first, so that a worker that is overtaken loses.
        let there = self.archive.get(key(id)).await?;
        let photo_there = match archived.properties().await? {
            Some(properties) => Conditions::from(&properties.etag),
            None => Conditions::missing(),
        };
        let Some(employee) = self.current.get(key(id)).await? else { return Ok(None) };
        let mut steps = Steps::new().write(&self.archive, there.as_ref(), employee.entity.clone());
        if let Some(content) = photo.get().await? {
            steps = steps
                .put_blob(archived.with_conditions(photo_there).put(content.bytes))
                .delete_blob(&photo, &content.properties.etag);
        }
        let steps = steps
            .move_file(self.files.contract(id), self.files.archived_contract(id))
            .delete(&self.current, &employee);
        Ok(Some(steps))
    }

    async fn work(&self) -> rowkey::Result<Step> {
        Box::pin(self.worker().step()).await
    }

    async fn create(&self) -> TestResult {
        self.current.table().create().await?;
        self.archive.table().create().await?;
        self.photos.create().await?;
        self.archived_photos.create().await?;
        self.tasks().create_if_missing().await?;
        Ok(())
    }

    async fn hire(&self, id: u32) -> TestResult {
        self.current.table().insert(&employee(id)).await?;
        self.photos.blob(&id.to_string()).put(photo(id)).send().await?;
        self.sign(id);
        Ok(())
    }

    /// The contract on the disk, which servers that are forked do not copy.
    fn sign(&self, id: u32) {
        std::fs::write(self.files.contract(id), contract(id)).unwrap();
    }
}

fn photo(id: u32) -> String {
    format!("photo of {id}")
}

fn contract(id: u32) -> String {
    format!("contract of {id}")
}

async fn start() -> TestResult<(Server, Office)> {
    let key = ["a2V5"];
    let server = Server::builder().account(CURRENT, key).account(ARCHIVE, key).manual_clock();
    let server = server.start().await?;
    let office = Office::open(&server, Arc::new(Folder::new()))?;
    office.create().await?;
    Ok((server, office))
}

/// Everything of the employee is in the archive, whole, and nothing is left elsewhere.
fn assert_archived(snapshot: &Snapshot, files: &Folder, id: u32, salary: i32) {
    let (current, archive) =
        (snapshot.account(CURRENT).unwrap(), snapshot.account(ARCHIVE).unwrap());
    let row = format!("id_{id:06}");
    assert!(current.table("current").unwrap().entity("sales", &row).is_none());
    let archived = archive.table("archive").unwrap();
    let archived = archived.entity("sales", &row).expect("archived");
    assert_eq!(archived.get("Salary"), Some(salary.into()), "no change is lost");
    assert_eq!(current.blob("photos", &id.to_string()), None);
    assert_eq!(archive.blob("photos", &id.to_string()), Some(photo(id).into_bytes()));
    assert!(!files.contract(id).exists());
    assert_eq!(read(&files.archived_contract(id)), contract(id));
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn is_empty(snapshot: &Snapshot, queue: &str) -> bool {
    let account = snapshot.account(CURRENT).unwrap();
    account.queue(queue).is_none_or(|queue| queue.messages().next().is_none())
}

#[tokio::test]
async fn a_worker_archives_across_accounts_blobs_and_files() -> TestResult {
    let (server, office) = start().await?;
    office.hire(7).await?;
    office.tasks().put(&ArchiveEmployee { id: 7 }).await?;
    office.tasks().put(&ArchiveEmployee { id: 7 }).await?;
    assert_eq!(office.work().await?, Step::Handled);
    assert_archived(&server.snapshot(), &office.files, 7, 0);
    assert_eq!(office.work().await?, Step::Suppressed, "the same task again");
    assert_eq!(office.work().await?, Step::Idle);
    assert_archived(&server.snapshot(), &office.files, 7, 0);
    Ok(())
}

#[tokio::test]
async fn each_step_sends_the_documented_requests() -> TestResult {
    let (server, office) = start().await?;
    office.current.table().insert(&employee(1)).await?;
    let move_row = async || {
        let there = office.archive.get(key(1)).await?;
        let Some(employee) = office.current.get(key(1)).await? else { return Ok(None) };
        let steps = Steps::new()
            .write(&office.archive, there.as_ref(), employee.entity.clone())
            .delete(&office.current, &employee);
        Ok(Some(steps))
    };
    let before = server.journal();
    assert_eq!(steps::run(&office.account, move_row).await?, Done::Applied);
    let journal = server.journal().since(&before);
    let count = |operation| journal.count(operation);
    assert_eq!(
        [Operation::GetEntity, Operation::InsertEntity, Operation::DeleteEntity].map(count),
        [2, 1, 1]
    );
    assert_eq!(journal.len(), 4);
    let before = server.journal();
    assert_eq!(steps::run(&office.account, move_row).await?, Done::AlreadyApplied);
    assert_eq!(server.journal().since(&before).len(), 2);
    Ok(())
}

#[tokio::test]
async fn the_move_completes_after_any_fault() -> TestResult {
    for repeats in [true, false] {
        let (server, office) = start().await?;
        office.hire(7).await?;
        office.tasks().put(&ArchiveEmployee { id: 7 }).await?;
        let files = Arc::clone(&office.files);
        let runs = sweep_on(
            &server,
            |server| {
                let office = Office::open(server, Arc::clone(&files))?;
                Ok(if repeats { office } else { office.once() })
            },
            async |office| {
                // Each run has a fork of the server, and the contract anew.
                let _ = std::fs::remove_file(office.files.archived_contract(7));
                office.sign(7);
                office.work().await
            },
            async |office, _| {
                // The message is visible again, unless it was deleted.
                while !matches!(office.work().await?, Step::Idle) {}
                Ok(())
            },
            |snapshot, _| {
                assert_archived(snapshot, &files, 7, 0);
                assert!(is_empty(snapshot, "leavers"), "the task is done");
                let dead = snapshot.table("deadletters").unwrap();
                assert_eq!(dead.entities().count(), 0);
            },
        )
        .await?;
        assert_eq!(runs.requests, 10);
        assert!(is_brief() || runs.failures == 40, "{runs}");
    }
    Ok(())
}

#[tokio::test]
async fn another_worker_completes_the_move_after_a_stop_at_any_request() -> TestResult {
    let (server, office) = start().await?;
    office.hire(7).await?;
    office.tasks().put(&ArchiveEmployee { id: 7 }).await?;
    let files = Arc::clone(&office.files);
    let runs = stopped_at_every_request_on(
        &server,
        |server| Office::open(server, Arc::clone(&files)),
        async |office| {
            let _ = std::fs::remove_file(office.files.archived_contract(7));
            office.sign(7);
            office.work().await
        },
        async |office| {
            while !matches!(office.work().await?, Step::Idle) {}
            Ok(())
        },
        |snapshot| {
            assert_archived(snapshot, &files, 7, 0);
            assert!(is_empty(snapshot, "leavers"), "the task is done");
        },
    )
    .await?;
    assert_eq!(runs.requests, 10);
    Ok(())
}

/// Does `meanwhile` while a request of `work` is held by the fault.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn while_held<T>(
    server: &Server,
    fault: Fault,
    work: impl Future<Output = T>,
    meanwhile: impl Future<Output = TestResult>,
) -> TestResult<T> {
    let held = server.inject(fault);
    let interfere = async {
        held.wait_until_held().await;
        meanwhile.await?;
        held.release();
        TestResult::Ok(())
    };
    let (done, interfered) = tokio::join!(work, interfere);
    interfered?;
    Ok(done)
}

#[tokio::test]
async fn a_concurrent_update_before_the_delete_is_not_lost() -> TestResult {
    for (operation, resource) in [
        (Operation::InsertEntity, "archive"),
        (Operation::PutBlob, "photos"),
        (Operation::DeleteBlob, "photos"),
        (Operation::DeleteEntity, "current"),
    ] {
        let (server, office) = start().await?;
        office.hire(7).await?;
        let raise = async {
            office.current.table().update(key(7), |employee| employee.salary = 100).await?;
            Ok(())
        };
        let fault = Fault::on(operation).resource(resource).nth(1).hold();
        assert_eq!(while_held(&server, fault, office.leave(7), raise).await??, Done::Applied);
        assert_archived(&server.snapshot(), &office.files, 7, 100);
        let deletions = server.journal().of(Operation::DeleteEntity).len();
        assert_eq!(deletions, 2, "the first one met a new ETag, at {operation:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_stale_worker_does_not_overwrite_a_newer_copy() -> TestResult {
    // One worker has read, and is about to write its copies; meanwhile another program updates, and
    // another worker does it all.
    for (operation, resource) in
        [(Operation::InsertEntity, "archive"), (Operation::PutBlob, "photos")]
    {
        let (server, office) = start().await?;
        office.hire(7).await?;
        let fast = async {
            office.current.table().update(key(7), |employee| employee.salary = 100).await?;
            assert_eq!(office.leave(7).await?, Done::Applied);
            Ok(())
        };
        let fault = Fault::on(operation).resource(resource).nth(1).hold();
        assert_eq!(while_held(&server, fault, office.leave(7), fast).await??, Done::Applied);
        assert_archived(&server.snapshot(), &office.files, 7, 100);
    }
    Ok(())
}

#[tokio::test]
async fn four_workers_process_one_task_once() -> TestResult {
    let (server, office) = start().await?;
    for id in 0..5 {
        office.hire(id).await?;
        let others = (0..4).map(|_| office.leave(id));
        let done = futures_util::future::try_join_all(others).await?;
        assert!(done.contains(&Done::Applied));
        assert_archived(&server.snapshot(), &office.files, id, 0);
    }
    Ok(())
}

#[tokio::test]
async fn an_error_names_the_failed_step() -> TestResult {
    let (server, office) = start().await?;
    office.hire(7).await?;
    std::fs::write(office.files.archived_contract(7), "of another owner")?;
    let error = office.leave(7).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(
        error.to_string(),
        "step 4 of 5 (move a file): MoveFile: the target is another file; \
         move it away, or choose another target"
    );
    let snapshot = server.snapshot().account(CURRENT).unwrap();
    assert!(snapshot.table("current").unwrap().entity("sales", "id_000007").is_some());

    // After the correction the steps continue.
    std::fs::remove_file(office.files.archived_contract(7))?;
    assert_eq!(office.leave(7).await?, Done::Applied);
    assert_archived(&server.snapshot(), &office.files, 7, 0);

    office.hire(8).await?;
    let busy = Fault::on(Operation::DeleteEntity).reject(ErrorCode::SERVER_BUSY);
    let _busy = server.inject(busy);
    let error = office.once().leave(8).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Throttled, Outcome::Rejected));
    let message = error.to_string();
    assert!(message.starts_with("step 5 of 5 (delete from current): DeleteEntity"), "{message}");
    Ok(())
}

#[tokio::test]
async fn steps_run_in_order_and_stop_at_the_first_failure() -> TestResult {
    let (_server, office) = start().await?;
    let log = Arc::new(Mutex::new(Vec::new()));
    let failures = AtomicU32::new(3);
    let plan = async || {
        let log = |name: &'static str| {
            let log = Arc::clone(&log);
            async move || {
                log.lock().unwrap().push(name);
                Ok(())
            }
        };
        let fails = failures.fetch_sub(1, Ordering::Relaxed);
        let steps =
            Steps::new().call("first", log("first")).call("second", async move || match fails {
                3 | 2 => Err(Error::refused(ErrorKind::Conflict, "it was changed")),
                1 => Err(Error::refused(ErrorKind::Unavailable, "no answer")),
                _ => Ok(()),
            });
        Ok(Some(steps.call("third", log("third"))))
    };
    let error = steps::run(&office.account, plan).await.unwrap_err();
    assert_eq!(error.to_string(), "step 2 of 3 (second): no answer; try again later");
    assert_eq!(*log.lock().unwrap(), ["first", "first", "first"], "a conflict begins anew");
    failures.store(0, Ordering::Relaxed);
    log.lock().unwrap().clear();
    assert_eq!(steps::run(&office.account, plan).await?, Done::Applied);
    assert_eq!(*log.lock().unwrap(), ["first", "third"]);
    assert!(format!("{:?}", plan().await?).contains("second"));
    Ok(())
}

#[tokio::test]
async fn the_number_of_rounds_is_limited() -> TestResult {
    let (server, office) = start().await?;
    office.hire(7).await?;
    let before = server.journal();
    let stale = office.current.get(key(7)).await?.unwrap();
    office.current.table().update(key(7), |employee| employee.salary = 1).await?;
    let error = steps::run(&office.account, async || {
        Ok(Some(Steps::new().delete(&office.current, &stale)))
    });
    let error = error.await.unwrap_err();
    assert!(error.kind() == ErrorKind::Conflict, "{error}");
    assert!(error.to_string().starts_with("step 1 of 1 (delete from current)"), "{error}");
    assert_eq!(server.journal().since(&before).count(Operation::DeleteEntity), 40);

    // Another round would not change the result of a permanent conflict.
    let before = server.journal();
    let nowhere = Deciding::new(&office.account.table("nowhere"));
    let error = steps::run(&office.account, async || {
        Ok(Some(Steps::new().upsert(nowhere.table(), employee(1))))
    });
    assert!(error.await.unwrap_err().kind() == ErrorKind::NotFound);
    let nowhere = office.account.container("nowhere").blob("photo");
    let error =
        steps::run(&office.account, async || Ok(Some(Steps::new().put_blob(nowhere.put("x")))));
    assert!(error.await.unwrap_err().kind() == ErrorKind::NotFound);
    assert_eq!(server.journal().since(&before).len(), 2);
    Ok(())
}

/// What happens in one run of the model test.
#[derive(Clone, Copy, Debug)]
enum Action {
    Fail,
    Leave,
    Overtake,
    Raise,
}

#[tokio::test]
async fn random_interference_loses_no_change() -> TestResult {
    let (first, _) = start().await?;
    let mut applied = 0;
    for seed in seeds(60) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let server = first.fork().await?;
        let office = Office::open(&server, Arc::new(Folder::new()))?;
        let mut salaries = BTreeMap::new();
        for id in 0..2 {
            office.hire(id).await?;
            salaries.insert(id, 0);
        }
        for round in 1..8 {
            let id = random.below(2);
            let actions = [Action::Fail, Action::Leave, Action::Overtake, Action::Raise];
            let action = random.pick(&actions);
            let nth = random.within(10) + 1;
            match action {
                Action::Leave => {
                    office.leave(id).await?;
                }
                Action::Fail => {
                    let fault = Fault::any().nth(nth);
                    let fault = match random.below(3) {
                        0 => fault.close_before_commit(),
                        1 => fault.close_after_commit(),
                        _ => fault.reject(ErrorCode::SERVER_BUSY),
                    };
                    let _fault = server.inject(fault);
                    // What became of it is found out by the end.
                    let _ = office.once().leave(id).await;
                }
                // A change at one of the requests of a worker, and perhaps another worker.
                Action::Overtake | Action::Raise => {
                    let held = server.inject(Fault::any().nth(nth).hold());
                    let meanwhile = async {
                        held.wait_until_held().await;
                        if matches!(office.current.get(key(id)).await, Ok(Some(_))) {
                            let raised =
                                office.current.table().update(key(id), |e| e.salary = round);
                            raised.await.unwrap();
                            salaries.insert(id, round);
                        }
                        if matches!(action, Action::Overtake) {
                            office.leave(id).await.unwrap();
                        }
                        held.release();
                        std::future::pending::<()>().await;
                    };
                    tokio::select! {
                        done = office.leave(id) => { done?; }
                        () = meanwhile => {}
                    }
                }
            }
        }
        for id in 0..2 {
            if office.leave(id).await? == Done::Applied {
                applied += 1;
            }
            assert_archived(&server.snapshot(), &office.files, id, salaries[&id]);
        }
    }
    assert!(is_brief() || applied > 0, "runs end with work to do, too");
    Ok(())
}

#[tokio::test]
async fn a_write_that_is_correct_in_any_order_is_an_upsert() -> TestResult {
    let (server, office) = start().await?;
    let plan = async || Ok(Some(Steps::new().upsert(office.archive.table(), employee(1))));
    for _ in 0..2 {
        assert_eq!(steps::run(&office.account, plan).await?, Done::Applied);
    }
    let archive = server.snapshot().account(ARCHIVE).unwrap();
    assert!(archive.table("archive").unwrap().entity("sales", "id_000001").is_some());
    Ok(())
}

/// A redelivered message and a lagging secondary do not change the archive.
#[tokio::test]
async fn an_archived_copy_equals_the_original() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = rowkey_tests::sweep::account(&server)?;
    let (current, archived) = (account.table("current"), account.table("archive"));
    current.create().await?;
    archived.create().await?;
    current.insert(&employee(7)).await?;
    let behind = server.hold_back_secondary();
    current.update(key(7), |employee| employee.salary = 995).await?;
    let options = rowkey::ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let lagging = account.with_options(options);
    let archive = async |account: &StorageAccount| {
        let current = Deciding::new(&account.table("current"));
        let archive = Deciding::new(&account.table("archive"));
        let plan = async || {
            let there = archive.get(key(7)).await?;
            let Some(stored) = current.get(key(7)).await? else { return Ok(None) };
            let steps = Steps::new().write(&archive, there.as_ref(), stored.entity.clone());
            Ok(Some(steps.delete(&current, &stored)))
        };
        steps::run(account, plan).await
    };
    archive(&account).await?;
    let busy = server.inject(
        Fault::on(Operation::GetEntity).resource("current").nth(1).reject(ErrorCode::SERVER_BUSY),
    );
    assert_eq!(archive(&lagging).await?, Done::AlreadyApplied);
    assert_eq!(busy.hits(), 1);
    drop(behind);
    assert_eq!(archived.get(key(7)).await?.unwrap().entity.salary, 995);
    Ok(())
}
