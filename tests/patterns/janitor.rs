//! The janitor: one of several programs runs what is due, another takes over wherever it stops, and no chore
//! concerns another one.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use rowkey::patterns::lease_lock::LeaseLock;
use rowkey::queue::Body;
use rowkey::worker::dead_letters::Selection;
use rowkey::worker::janitor::{Chore, Counts, Janitor, Leadership, Outcome, Report};
use rowkey::worker::{Done, Step, Task, Tasks, Worker};
use rowkey::{Entity, ErrorKind, StorageAccount, Table};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{self, once, stopped_at_every_request};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::programs::{Programs, spawn};

const TERM: Duration = Duration::from_secs(60);
/// By how much time is moved: the lease is renewed that often.
const STEP: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn janitor(account: &StorageAccount) -> Janitor {
    Janitor::new(LeaseLock::new(account.container("locks").blob("janitor")).term(TERM))
}

async fn start() -> TestResult<Server> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    account.container("locks").create().await?;
    account.table("work").create().await?;
    Ok(server)
}

/// The results of the chores of all programs.
#[derive(Default)]
struct Log {
    /// The largest token of a leader whose chores have begun.
    newest: AtomicU64,
    /// The chore, the program and the token of each run, in order.
    runs: Mutex<Vec<(String, usize, u64)>>,
    reports: Mutex<Vec<Report>>,
}

impl Log {
    fn count(&self, chore: &str) -> usize {
        self.runs.lock().unwrap().iter().filter(|(name, ..)| name == chore).count()
    }

    fn last(&self) -> (usize, u64) {
        self.runs.lock().unwrap().last().map(|(_, program, token)| (*program, *token)).unwrap()
    }

    fn outcomes(&self, chore: &str) -> Vec<Outcome> {
        let reports = self.reports.lock().unwrap();
        let of = reports.iter().filter(|report| report.chore == chore);
        of.map(|report| report.outcome.clone()).collect()
    }

    /// While a leader has the lease for certain, no later one has begun anything.
    fn check(&self, leadership: &Leadership) {
        let newest = self.newest.fetch_max(leadership.token(), Ordering::SeqCst);
        let is_held = !leadership.remaining().is_zero();
        assert!(!is_held || newest <= leadership.token(), "two leaders at the same time");
    }
}

/// Several programs, whose clocks are a minute apart.
struct World {
    programs: Programs,
    log: Arc<Log>,
}

impl World {
    async fn start() -> TestResult<Self> {
        Ok(Self { programs: Programs::new(start().await?), log: Arc::default() })
    }

    /// An account of a program whose date is a minute behind, right, or a minute ahead.
    fn account(&self, program: usize) -> rowkey::Result<StorageAccount> {
        self.programs.account(TimeDelta::minutes(i64::try_from(program % 3).unwrap() - 1))
    }

    /// A chore that writes a row for its token, unless a later leader has been there.
    fn chore(
        &self,
        name: &'static str,
        every: u64,
        account: &StorageAccount,
        program: usize,
    ) -> Chore {
        let (log, table) = (Arc::clone(&self.log), account.table("work"));
        let work = move |leadership: Leadership| {
            let (log, table) = (Arc::clone(&log), table.clone());
            async move {
                log.check(&leadership);
                let written = write(&table, name, leadership.token()).await?;
                log.check(&leadership);
                log.runs.lock().unwrap().push((name.to_owned(), program, leadership.token()));
                Ok::<_, rowkey::Error>(Counts::from([("written".to_owned(), u64::from(written))]))
            }
        };
        Chore::new(name, seconds(every), work).jitter(Duration::ZERO)
    }

    fn observed(&self, janitor: Janitor) -> Janitor {
        let log = Arc::clone(&self.log);
        janitor.observe(move |report| log.reports.lock().unwrap().push(report.clone()))
    }

    /// Waits until the schedule says of as many runs as there were.
    async fn stored(&self) -> TestResult {
        let janitor = janitor(&sweep::account(&self.programs.server)?);
        let runs = self.log.runs.lock().unwrap().len();
        while janitor.reports().await?.len() < runs {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Steps until the condition holds; how many it took.
    async fn until(&self, condition: impl Fn(&Log) -> bool) -> usize {
        self.programs.rest().await;
        for step in 0..400 {
            if condition(&self.log) {
                return step;
            }
            self.programs.step(STEP).await;
        }
        panic!("it does not happen: {:?}", self.log.reports.lock().unwrap());
    }
}

/// The row that a chore writes.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "work", row = "{name}")]
struct Row {
    name: String,
    fence: u64,
}

/// The protected row: it stores the largest token so far, and rejects smaller ones.
async fn write(table: &Table, name: &str, token: u64) -> rowkey::Result<bool> {
    let Some(stored) = table.get(Row::key(name)).await? else {
        return table.insert_once(&Row { name: name.into(), fence: token }).await.map(|_| true);
    };
    if stored.entity.fence > token {
        return Ok(false);
    }
    match table.replace(&stored.map(|row| row.fence = token)).await {
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
        written => written.map(|_| true),
    }
}

#[tokio::test]
async fn one_of_three_janitors_runs_due_chores_and_another_takes_over() -> TestResult {
    let world = World::start().await?;
    let mut programs = Vec::new();
    for program in 0..3 {
        let account = world.account(program)?;
        let janitor = world.observed(janitor(&account));
        let janitor = janitor
            .chore(world.chore("often", 100, &account, program))
            .chore(world.chore("daily", 86_400, &account, program))
            .chore(world.chore("late", 86_400, &account, program).first_after(seconds(1000)));
        programs.push(Some(spawn(async move { janitor.run_until(pending()).await })));
    }
    let before = world.until(|log| log.count("daily") == 1).await;
    let steps = world.until(|log| log.count("late") == 1).await;
    // On a busy machine a few steps pass before it is seen that the first chore ran.
    let is_due = before + steps >= 50 && steps <= 52;
    assert!(is_due, "after 1000 seconds, not {before} and {steps} steps");
    assert_eq!(world.log.count("daily"), 1);
    let often = world.log.count("often");
    assert!((10..=12).contains(&often), "every 100 seconds, not {often} times");
    let mut killed = Vec::new();
    for token in 1..=2 {
        let (leader, of) = world.log.last();
        assert_eq!(of, token);
        killed.push(leader);
        world.stored().await?;
        let task = programs[leader].take().unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let before = world.log.count("often");
        let steps = world.until(|log| log.count("often") > before).await;
        assert!(steps <= 7, "a term and a minute later, not {steps} steps");
    }
    let (last, token) = world.log.last();
    assert!(token == 3 && !killed.contains(&last), "{killed:?}, {last}");
    // Neither a new leader nor a new program starts chores that are not due.
    world.stored().await?;
    programs[last].take().unwrap().abort();
    let account = world.account(1)?;
    let anew = world.observed(janitor(&account)).chore(world.chore("often", 100, &account, 3));
    let anew = anew
        .chore(world.chore("daily", 86_400, &account, 3))
        .chore(world.chore("late", 86_400, &account, 3).first_after(seconds(1000)));
    let task = spawn(async move { anew.run_until(pending()).await });
    let before = world.log.count("often");
    world.until(|log| log.count("often") > before).await;
    world.until(|log| log.count("often") > before + 3).await;
    assert_eq!((world.log.count("daily"), world.log.count("late")), (1, 1));
    world.stored().await?;
    task.abort();
    let reports = janitor(&account).reports().await?;
    assert!(reports.iter().all(|report| report.is_done() && report.counts["written"] == 1));
    assert_eq!(reports.len(), world.log.count("often") + 2);
    // Of the service's time, though no program but one has the right date.
    let often: Vec<_> = reports.iter().filter(|report| report.chore == "often").collect();
    for (one, next) in often.iter().zip(&often[1..]) {
        assert!(next.began - one.began >= TimeDelta::seconds(100), "{one:?} {next:?}");
        assert!(next.leader >= one.leader);
    }
    Ok(())
}

#[tokio::test]
async fn a_failed_chore_does_not_stop_other_chores() -> TestResult {
    let world = World::start().await?;
    let account = world.account(1)?;
    let fails = |_: Leadership| async { Err::<Counts, _>("the mail server is down") };
    let panics = |leadership: Leadership| async move {
        assert!(leadership.token() > 7, "a defect of the program");
        Ok::<_, rowkey::Error>(Counts::new())
    };
    let hangs = |_: Leadership| pending::<rowkey::Result<Counts>>();
    let never = |name: &str| Chore::new(name, DAY, hangs).jitter(Duration::ZERO);
    let janitor = world
        .observed(janitor(&account))
        .chore(Chore::new("fails", seconds(600), fails).jitter(Duration::ZERO))
        .chore(Chore::new("panics", DAY, panics).jitter(Duration::ZERO))
        .chore(never("hangs").time_limit(seconds(100)))
        .chore(world.chore("good", 100, &account, 0))
        .observe({
            let log = Arc::clone(&world.log);
            move |report| {
                log.reports.lock().unwrap().push(report.clone());
                assert_ne!(report.chore, "panics", "a defect of the observer");
            }
        });
    let task = spawn(async move { janitor.run_until(pending()).await });
    world.until(|log| log.count("good") == 1).await;
    world.until(|log| log.count("good") == 15).await;
    // After 0, 1, 3, 7, 15 and 25 minutes.
    let failed = world.log.outcomes("fails");
    assert!(failed.len() >= 4 && failed.len() <= 5, "{failed:?}");
    assert!(failed.iter().all(|it| *it == Outcome::Failed("the mail server is down".into())));
    let panicked = world.log.outcomes("panics");
    assert!(panicked.len() >= 3, "{panicked:?}");
    assert!(
        matches!(&panicked[0], Outcome::Panicked(text) if text.contains("a defect of the program"))
    );
    let overrun = world.log.outcomes("hangs");
    assert!(overrun.len() >= 3 && overrun.iter().all(|it| *it == Outcome::Overrun), "{overrun:?}");
    let reports = world.log.reports.lock().unwrap().clone();
    let took = reports.iter().find(|report| report.chore == "hangs").unwrap().took;
    assert!((seconds(100)..=seconds(140)).contains(&took), "{took:?}");
    task.abort();
    Ok(())
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_lost_lease_drops_the_chore_and_another_leader_starts_it() -> TestResult {
    let world = World::start().await?;
    let (begun, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut programs = Vec::new();
    for program in 0..2 {
        let account = world.account(program)?;
        let (begun, dropped) = (Arc::clone(&begun), Arc::clone(&dropped));
        let long = Chore::new("long", DAY, move |leadership: Leadership| {
            let dropped = Dropped(Arc::clone(&dropped));
            begun.fetch_add(1, Ordering::SeqCst);
            async move {
                let _dropped = dropped;
                if leadership.token() == 1 {
                    leadership.over().await;
                    assert!(leadership.is_over());
                    pending::<()>().await;
                }
                Ok::<_, rowkey::Error>(Counts::new())
            }
        });
        let janitor = world.observed(janitor(&account)).chore(long.jitter(Duration::ZERO));
        programs.push(spawn(async move { janitor.run_until(pending()).await }));
    }
    world.until(|_| begun.load(Ordering::SeqCst) == 1).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    let operator = world.account(1)?;
    operator.container("locks").blob("janitor").break_lease(Duration::ZERO).await?;
    world.until(|log| log.outcomes("long") == [Outcome::Lost, Outcome::Done]).await;
    assert_eq!((begun.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst)), (2, 2));
    let reports = janitor(&operator).reports().await?;
    let leaders: Vec<_> = reports.iter().map(|report| report.leader).collect();
    assert_eq!(leaders, [2], "what was lost is not stored");
    for task in programs {
        task.abort();
    }
    Ok(())
}

#[tokio::test]
async fn shutdown_ends_chores_and_releases_the_lease() -> TestResult {
    let world = World::start().await?;
    let account = world.account(1)?;
    let told = Arc::new(AtomicBool::new(false));
    let of_chore = Arc::clone(&told);
    let polite = Chore::new("polite", DAY, move |leadership: Leadership| {
        let told = Arc::clone(&of_chore);
        async move {
            leadership.over().await;
            told.store(true, Ordering::SeqCst);
            Ok::<_, rowkey::Error>(Counts::new())
        }
    });
    let begun = Arc::new(AtomicUsize::new(0));
    let endless = |begun: &Arc<AtomicUsize>| {
        let begun = Arc::clone(begun);
        let work = move |_: Leadership| {
            begun.fetch_add(1, Ordering::SeqCst);
            pending::<rowkey::Result<Counts>>()
        };
        Chore::new("endless", DAY, work).jitter(Duration::ZERO)
    };
    let stop = Arc::new(Notify::new());
    let first = world
        .observed(janitor(&account))
        .chore(polite.jitter(Duration::ZERO))
        .chore(endless(&begun));
    let stopped = Arc::clone(&stop);
    let task = spawn(async move { first.run_until(stopped.notified()).await });
    world.until(|_| begun.load(Ordering::SeqCst) == 1).await;
    stop.notify_one();
    world.until(|log| log.outcomes("endless") == [Outcome::Interrupted]).await;
    task.await??;
    assert!(told.load(Ordering::SeqCst));
    assert_eq!(world.log.outcomes("polite"), [Outcome::Done]);
    // Without a step: the lease was released, and the run was cancelled.
    let second = janitor(&account).chore(endless(&begun));
    let task = spawn(async move { second.run_until(pending()).await });
    while begun.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    task.abort();
    Ok(())
}

#[tokio::test]
async fn an_idle_janitor_sends_few_requests() -> TestResult {
    let world = World::start().await?;
    for program in 0..2 {
        let janitor = janitor(&world.account(program)?);
        drop(spawn(async move { janitor.run_until(pending()).await }));
    }
    // The schedule is saved once, with what chores there are.
    while world.programs.server.journal().count(Operation::GetBlob) < 1 {
        world.programs.rest().await;
    }
    let before = world.programs.server.journal().len();
    for _ in 0..72 {
        world.programs.step(STEP).await;
    }
    // A sixtieth of a day.
    let sent = world.programs.server.journal().len() - before;
    assert!((72..=(4320 + 1440) / 60 + 2).contains(&sent), "{sent} requests");
    Ok(())
}

#[tokio::test]
async fn invalid_chores_are_rejected() -> TestResult {
    let server = start().await?;
    let account = sweep::account(&server)?;
    let nothing = |_: Leadership| async { Ok::<_, rowkey::Error>(Counts::new()) };
    let one = || Chore::new("one", DAY, nothing);
    let sent = server.journal().len();
    let twice = janitor(&account).chore(one()).chore(one()).run_until(pending()).await;
    let twice = twice.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Invalid);
    assert!(twice.to_string().contains("two chores have the name `one`"), "{twice}");
    assert_eq!(server.journal().len(), sent);
    let blob = account.container("locks").blob("janitor");
    for (content, says) in [("secret", "not a schedule"), (r#"{"v":2}"#, "a newer program")] {
        blob.put(content).send().await?;
        let refused = janitor(&account).chore(one()).run_until(pending()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Decode);
        assert!(refused.to_string().contains(says), "{refused}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
        assert!(blob.acquire_lease(TERM).await?.is_some(), "the lock was released");
        blob.break_lease(Duration::ZERO).await?;
    }
    account.container("locks").delete().await?;
    let missing = janitor(&account).chore(one()).run_until(pending()).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    Ok(())
}

/// Runs a janitor with a daily chore until it has ended; or with a probe besides, which is always due, until
/// that has ended.
async fn run(account: &StorageAccount, until: &'static str) -> rowkey::Result<()> {
    let chore = |name: &'static str, every| {
        let table = account.table("work");
        let work = move |leadership: Leadership| {
            let table = table.clone();
            async move { write(&table, name, leadership.token()).await.map(|_| Counts::new()) }
        };
        Chore::new(name, every, work).jitter(Duration::ZERO)
    };
    let ended = Arc::new(Notify::new());
    let observed = Arc::clone(&ended);
    let janitor = janitor(account).chore(chore("daily", DAY));
    let janitor = match until {
        "probe" => janitor.chore(chore("probe", seconds(1))),
        _ => janitor,
    };
    let janitor = janitor.observe(move |report| {
        if report.chore == until && report.is_done() {
            observed.notify_one();
        }
    });
    janitor.run_until(ended.notified()).await
}

/// How often chores are known to have ended well, by name.
fn ran(snapshot: &Snapshot) -> BTreeMap<String, usize> {
    let text = snapshot.blob("locks", "janitor").unwrap_or_default();
    let schedule: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let mut ran = BTreeMap::new();
    for run in schedule["runs"].as_array().unwrap() {
        if run["outcome"] == "done" {
            *ran.entry(run["chore"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    ran
}

#[tokio::test]
async fn every_due_chore_runs_if_the_leader_is_killed_at_any_request() -> TestResult {
    let server = start().await?;
    let check = |snapshot: &Snapshot| {
        let table = snapshot.table("work").unwrap();
        assert!(table.entity("work", "daily").is_some() && table.entity("work", "probe").is_some());
        assert!(ran(snapshot)["daily"] >= 1);
    };
    // The lease of the killed program expires a minute later.
    let recover = async |account: &StorageAccount| Ok(run(account, "probe").await?);
    let runs = stopped_at_every_request(
        &server,
        async |account| run(account, "daily").await,
        recover,
        check,
    )
    .await?;
    assert!(runs.requests >= 10, "{runs}");
    Ok(())
}

/// Without the client's repetitions, so that each request of the janitor and of its chores fails once.
#[tokio::test]
async fn a_failed_request_delays_chores_and_stops_none() -> TestResult {
    for request in 1..=12 {
        let any = || Fault::any().nth(request);
        let faults = [
            any().reject(ErrorCode::SERVER_BUSY),
            any().reject(ErrorCode::INTERNAL_ERROR),
            any().close_before_commit(),
            any().close_after_commit(),
        ];
        for (way, fault) in (0..).zip(faults) {
            if !sweep::is_made(request + way) {
                continue;
            }
            let world = World::start().await?;
            let account = once(&world.account(1)?);
            let janitor = world.observed(janitor(&account));
            let janitor = janitor
                .chore(world.chore("often", 100, &account, 0))
                .chore(world.chore("daily", 86_400, &account, 0));
            let fault = world.programs.server.inject(fault);
            let task = spawn(async move { janitor.run_until(pending()).await });
            world.until(|log| log.count("often") >= 3 && log.count("daily") >= 1).await;
            assert_eq!(fault.hits(), 1, "{request}");
            assert!(!task.is_finished());
            task.abort();
        }
    }
    Ok(())
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Print {
    page: u32,
}

impl Task for Print {
    const KIND: &'static str = "print";
}

/// Runs one chore once, and returns its counts.
async fn counted(account: &StorageAccount, chore: Chore) -> rowkey::Result<Counts> {
    let (ended, counts) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Counts::new())));
    let (observed, told) = (Arc::clone(&ended), Arc::clone(&counts));
    let blob = account.container("locks").blob(&chore.name().replace(' ', "-"));
    let janitor = Janitor::new(LeaseLock::new(blob).term(TERM)).chore(chore.jitter(Duration::ZERO));
    let janitor = janitor.observe(move |report| {
        assert!(report.is_done(), "{report:?}");
        told.lock().unwrap().clone_from(&report.counts);
        observed.notify_one();
    });
    janitor.run_until(ended.notified()).await?;
    let counts = counts.lock().unwrap().clone();
    Ok(counts)
}

#[tokio::test]
async fn chores_collect_redrive_and_expire_dead_letters() -> TestResult {
    let server = start().await?;
    let account = sweep::account(&server)?;
    let prints = Tasks::<Print>::new(account.queue("prints"));
    prints.create_if_missing().await?;
    let foreign = account.queue("prints-poison");
    foreign.create_if_missing().await?;
    foreign.put(Body::text(r#"{"kind":"print","task":{"page":1}}"#)).send().await?;
    let letters = prints.dead_letters();
    let one =
        |what: &[&str]| -> Counts { what.iter().map(|what| ((*what).to_owned(), 1)).collect() };

    assert_eq!(counted(&account, Chore::collect(&letters)).await?, one(&["matched", "done"]));
    // Once, and not again when it fails again.
    let once = || Chore::redrive(&letters, Selection::all().redriven_less_than(1));
    let worker = Worker::new(prints.clone(), |_: Print, _: rowkey::worker::Attempt| async {
        Ok(Done::Poison("the printer is on fire".to_owned()))
    });
    for redriven in [one(&["matched", "done"]), Counts::new()] {
        assert_eq!(counted(&account, once().every(seconds(1))).await?, redriven);
        let expected = if redriven.is_empty() { Step::Idle } else { Step::Poisoned };
        assert_eq!(worker.step().await?, expected);
        server.clock().advance(seconds(60));
    }
    let expire = |age| Chore::expire_letters(&letters, age).every(seconds(1));
    assert_eq!(counted(&account, expire(DAY)).await?, Counts::new());
    server.clock().advance(DAY * 2);
    let account = sweep::account(&server)?;
    let letters = Tasks::<Print>::new(account.queue("prints")).dead_letters();
    let expire = Chore::expire_letters(&letters, DAY);
    let counts = counted(&account, expire).await?;
    assert_eq!(counts.get("done"), Some(&1), "{counts:?}");
    assert_eq!(letters.count(&Selection::all()).await?, 0);
    Ok(())
}
