//! Compares the final state with the data on the server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowkey::edm::Value as Property;
use rowkey::store::{Store, Worked};
use rowkey::worker::Step;
use rowkey::worker::inbox::Inbox;
use rowkey::{Clock as _, Entity, SystemClock};
use rowkey_emulator::{Server, Snapshot, StoredEntity, StoredQueue};
use serde_json::Value;

use crate::Result;
use crate::clock::{Advancing, SharedClock};
use crate::doer::Doer;
use crate::jobs::{
    Bad, Balance, Employee, Job, Photo, Places, Plan, Posting, Resident, STORES, Summary, city,
    image, salary,
};
use crate::processes::Reported;

/// How many tasks of a kind are delivered again after all is done.
const AGAIN: usize = 60;
/// After how many rounds nothing may be left of the writes.
const ROUNDS: u32 = 24;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Tasks that other workers must finish.
pub(crate) struct Found {
    writes: u64,
    claims: u64,
    images: u64,
    again: usize,
    poisoned: usize,
    poisoned_twice: usize,
}

/// The input of the verdict.
pub(crate) struct Case<'c> {
    pub(crate) server: &'c Server,
    pub(crate) places: Places,
    pub(crate) clock: SharedClock,
    pub(crate) plan: Plan,
    pub(crate) reported: &'c Reported,
}

/// Has the jobs run that look for what dead programs left, and compares everything.
pub(crate) async fn check(case: &Case<'_>, time: &mut Advancing) -> Result<Found> {
    let Case { server, places, plan, reported, .. } = case;
    let mut begun: BTreeSet<u64> = reported.begun.keys().copied().collect();
    let mut writes = 0;
    // Messages of writers that were killed appear after a minute, those that wait after another; op rows
    // that a late request may have to meet go after 45 minutes.
    for round in 0.. {
        time.advance(Duration::from_secs(if round % 4 == 0 { 23 } else { 2 } * 60))?;
        writes += settle(&places.orders).await?;
        writes += settle(&places.people).await?;
        writes += settle(&places.photos).await?;
        // Tasks of transactions whose writers were killed.
        begun.extend(work(case).await?.0);
        let left = left(&server.snapshot());
        if left.is_empty() {
            break;
        }
        assert!(round < ROUNDS, "left: {left:#?}");
    }
    // Ages of blobs are in whole seconds.
    SystemClock.sleep(Duration::from_secs(2)).await;
    let claims = places.tasks.sweep_claims(Duration::ZERO).await?;
    let swept = places.photos.sweep().run().await?;

    let unreadable = |number: &u64| matches!(plan.job(*number), Job::Bad { number } if Bad::of(number) == Bad::Unreadable);
    let lost: Vec<_> =
        reported.put.difference(&begun).filter(|number| !unreadable(number)).take(10).collect();
    assert!(lost.is_empty(), "put, and never begun: {lost:?}");

    let snapshot = server.snapshot();
    let (poisoned, poisoned_twice) = poison(&snapshot, plan, reported, &begun);
    transactions(&snapshot, plan, &begun);
    ledger(&snapshot, plan, &begun);
    staff(&snapshot, plan, &begun);
    people(&snapshot, places, plan, &begun).await?;
    photos(&snapshot, places, plan, &begun).await?;
    let again = again(case, &begun).await?;
    expire(case, time).await?;
    Ok(Found { writes, claims, images: swept.total.repaired, again, poisoned, poisoned_twice })
}

/// What stores have left: op rows, rows of the backlog and messages.
fn left(snapshot: &Snapshot) -> Vec<String> {
    let mut left = Vec::new();
    for name in STORES {
        for row in snapshot.table(name).unwrap().entities() {
            if row.row_key().starts_with("op_") || row.partition_key().starts_with("backlog_") {
                left.push(format!("{name}: {row:?}"));
            }
        }
        for queue in [format!("{name}-changes"), format!("{name}-changes-poison")] {
            left.extend(texts(snapshot, &queue).iter().map(|text| format!("{queue}: {text}")));
        }
    }
    left
}

fn texts(snapshot: &Snapshot, queue: &str) -> Vec<String> {
    let queue = snapshot.queue(queue).into_iter().flat_map(StoredQueue::messages);
    queue.map(|message| message.text().to_owned()).collect()
}

fn rows(snapshot: &Snapshot, table: &str, head: &str) -> usize {
    let rows = snapshot.table(table).unwrap().entities();
    rows.filter(|row| row.row_key().starts_with(head)).count()
}

/// Does the work that writers left; how many writes it was.
async fn settle<E: Entity + Clone + Send + Sync + 'static>(store: &Store<E>) -> Result<u64> {
    let drained = store.drain_backlog().await?;
    let mut writes = drained.settled + drained.waiting;
    loop {
        let worked = store.work_once().await?;
        assert_eq!(worked.failed, 0);
        writes += worked.settled + worked.waiting;
        if worked == Worked::default() {
            return Ok(writes);
        }
    }
}

/// Does the tasks that are in the queue: which, and how each ended.
async fn work(case: &Case<'_>) -> Result<(BTreeSet<u64>, Vec<Step>)> {
    let all = Arc::<Mutex<BTreeSet<u64>>>::default();
    let told = Arc::clone(&all);
    let begun = Box::new(move |number| told.lock().unwrap().extend([number]));
    let (places, clock) = (case.places.clone(), case.clock.clone());
    let worker = Doer { places, clock, begun, is_clumsy: false }.worker();
    let mut steps = Vec::new();
    loop {
        match worker.step().await? {
            Step::Idle => break,
            step => steps.push(step),
        }
    }
    let begun = std::mem::take(&mut *all.lock().unwrap());
    Ok((begun, steps))
}

/// The dead letters are the bad ones and nothing else; the queue has nothing.
fn poison(
    snapshot: &Snapshot,
    plan: &Plan,
    reported: &Reported,
    begun: &BTreeSet<u64>,
) -> (usize, usize) {
    assert_eq!(texts(snapshot, "jobs"), [""; 0]);
    let letters = snapshot.table("deadletters").unwrap();
    let letters = letters.entities().filter(|row| row.row_key().starts_with("letter_"));
    let number = |row: StoredEntity<'_>| -> (u64, Bad) {
        let Some(rowkey::edm::Value::String(text)) = row.get("Message") else {
            panic!("a letter without its message")
        };
        let unreadable = text.strip_prefix("bad ").and_then(|number| number.parse().ok());
        let task = || serde_json::from_str::<Value>(&text).ok()?["task"]["Bad"]["number"].as_u64();
        let number = unreadable.or_else(task);
        let number = number.unwrap_or_else(|| panic!("this was not to be put aside: {text}"));
        (number, Bad::of(number))
    };
    let numbers: Vec<(u64, Bad)> = letters.map(number).collect();
    let found: BTreeSet<u64> = numbers.iter().map(|(number, _)| *number).collect();
    // A text that is no task has no id: put twice, it is two messages and two letters.
    let tasks = || numbers.iter().filter(|(_, bad)| *bad != Bad::Unreadable);
    let different: BTreeSet<u64> = tasks().map(|(number, _)| *number).collect();
    assert_eq!(different.len(), tasks().count(), "no task has two letters");
    let bad = |job| if let Job::Bad { number } = job { Some(number) } else { None };
    for number in plan.jobs().filter_map(bad) {
        // No handler sees one that is no task, so one that was given up may be there or not.
        let is_known = reported.put.contains(&number) || begun.contains(&number);
        let is_open = Bad::of(number) == Bad::Unreadable && !is_known;
        assert!(is_open || found.contains(&number) == is_known, "{number} is bad");
    }
    (found.len(), numbers.len() - found.len())
}

/// An order is there if and only if its task was put.
fn transactions(snapshot: &Snapshot, plan: &Plan, begun: &BTreeSet<u64>) {
    let orders = snapshot.table("orders").unwrap().entities();
    let number = |row: StoredEntity<'_>| row.row_key().strip_prefix("order_")?.parse::<u64>().ok();
    let orders: BTreeSet<u64> = orders.filter_map(number).collect();
    for job in plan.jobs().filter(|job| Plan::is_in_transaction(job.number())) {
        let number = job.number();
        let (is_there, is_begun) = (orders.contains(&number), begun.contains(&number));
        assert_eq!(is_there, is_begun, "order {number} and its task");
    }
}

fn integer(row: StoredEntity<'_>, name: &str) -> i64 {
    match row.get(name) {
        Some(Property::Int64(value)) => value,
        other => panic!("{name} is {other:?}"),
    }
}

/// Every posting is there, and was counted once.
fn ledger(snapshot: &Snapshot, plan: &Plan, begun: &BTreeSet<u64>) {
    let mut postings = BTreeMap::new();
    let mut balances: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
    for job in plan.jobs().filter(|job| begun.contains(&job.number())) {
        if let Job::Post { account, number, amount } = job {
            postings.insert((account, number), amount);
            let (count, sum) = balances.entry(account).or_default();
            (*count, *sum) = (*count + 1, *sum + amount);
        }
    }
    let inbox = rows(snapshot, "ledger", "inbox_");
    let mut found = 0;
    for row in snapshot.table("ledger").unwrap().entities() {
        let account: u64 = row.partition_key().parse().unwrap();
        if let Some(number) = row.row_key().strip_prefix("posting_") {
            let number: u64 = number.parse().unwrap();
            let amount = integer(row, Posting::AMOUNT.name());
            assert_eq!(postings.get(&(account, number)), Some(&amount), "{account} {number}");
            found += 1;
        } else if row.row_key() == "balance" {
            let balance =
                (integer(row, Balance::POSTINGS.name()), integer(row, Balance::SUM.name()));
            assert_eq!(balances.remove(&account), Some(balance), "balance of {account}");
        }
    }
    assert_eq!((found, inbox), (postings.len(), postings.len()));
    assert!(balances.is_empty());
}

/// Whose task was put has left, and no other.
fn staff(snapshot: &Snapshot, plan: &Plan, begun: &BTreeSet<u64>) {
    let number =
        |row: StoredEntity<'_>| row.row_key().strip_prefix("employee_")?.parse::<u64>().ok();
    let all = |table| snapshot.table(table).unwrap().entities();
    let [current, archive] =
        ["current", "archive"].map(|table| all(table).filter_map(number).collect::<BTreeSet<_>>());
    for job in plan.jobs().filter(|job| matches!(job, Job::Leave { .. })) {
        let number = job.number();
        let has_left = begun.contains(&number);
        assert_eq!(archive.contains(&number), has_left, "{number} is in the archive");
        assert_eq!(current.contains(&number), !has_left, "{number} is here");
    }
}

/// The last version of each key of the tasks that were begun.
fn last(
    plan: &Plan,
    begun: &BTreeSet<u64>,
    key: impl Fn(&Job) -> Option<u64>,
) -> BTreeMap<u64, u64> {
    let mut wanted = BTreeMap::new();
    for &number in begun {
        if let Some(key) = key(&plan.job(number)) {
            let last: &mut u64 = wanted.entry(key).or_default();
            *last = (number + 1).max(*last);
        }
    }
    wanted
}

/// Everyone is where they moved last; the index and the view say the same.
async fn people(
    snapshot: &Snapshot,
    places: &Places,
    plan: &Plan,
    begun: &BTreeSet<u64>,
) -> Result {
    let person = |job: &Job| if let Job::Move { person, .. } = job { Some(*person) } else { None };
    let wanted = last(plan, begun, person);
    let mut cities: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
    for (&person, &version) in &wanted {
        let found = places.people.get(Resident::key(person)).await?.ok_or("no such person")?;
        let (city, salary) = (city(person, version), salary(version));
        assert_eq!(found.entity, Resident { person, city, salary, version });
        let there = places.people.find(Resident::by_city(city, person)).await?;
        assert!(there.is_some(), "{person} is not in the index");
        let (people, sum) = cities.entry(city).or_default();
        (*people, *sum) = (*people + 1, *sum + i64::from(salary));
    }
    let entries = snapshot.table("people").unwrap().entities();
    let entries = entries.filter(|row| row.partition_key().starts_with("city_")).count();
    assert_eq!((rows(snapshot, "people", "person_"), entries), (wanted.len(), wanted.len()));
    for (&city, &(people, salary)) in &cities {
        let summary = places.account.table("cities").get(Summary::key(city)).await?;
        let summary = summary.map(|summary| summary.entity);
        assert_eq!(summary, Some(Summary { city, people, salary }));
    }
    let report = places.people.verify().run().await?;
    assert!(report.is_clean(), "{report:?}");
    Ok(())
}

/// Every album shows its newest photo; there is a blob for each, and no other.
async fn photos(
    snapshot: &Snapshot,
    places: &Places,
    plan: &Plan,
    begun: &BTreeSet<u64>,
) -> Result {
    let album = |job: &Job| if let Job::Photo { album, .. } = job { Some(*album) } else { None };
    let wanted = last(plan, begun, album);
    for (&album, &version) in &wanted {
        let found = places.photos.get(Photo::key(album)).await?.ok_or("no photo")?;
        assert_eq!(found.entity, Photo { album, version, image: image(album, version) });
    }
    assert_eq!(rows(snapshot, "photos", "photo"), wanted.len());
    let images = snapshot.blobs("images").filter(|name| name.starts_with("photos/"));
    assert_eq!(images.count(), wanted.len(), "no orphan");
    assert_eq!(snapshot.blobs("claims").count(), 0, "no claim of a task that is done");
    Ok(())
}

/// Tasks that were done are delivered again, also after an employee was hired again: none has an effect.
async fn again(case: &Case<'_>, begun: &BTreeSet<u64>) -> Result<usize> {
    let Case { server, places, plan, .. } = case;
    let jobs = || begun.iter().map(|number| plan.job(*number));
    let is_keyed = |job: &Job| !Plan::is_in_transaction(job.number());
    let posts = jobs().filter(|job| matches!(job, Job::Post { .. }) && is_keyed(job)).take(AGAIN);
    let leavers: Vec<_> =
        jobs().filter(|job| matches!(job, Job::Leave { .. })).take(AGAIN).collect();
    for job in &leavers {
        let hired = Employee { hired: 2, ..Employee::new(job.number()) };
        places.current.table().insert(&hired).await?;
    }
    let all: Vec<_> = posts.chain(leavers.iter().cloned()).collect();
    for job in &all {
        places.put(job).await?;
    }
    let (_, steps) = work(case).await?;
    assert_eq!(steps, vec![Step::Suppressed; all.len()]);
    let snapshot = server.snapshot();
    ledger(&snapshot, plan, begun);
    for job in &leavers {
        let Employee { department, number, .. } = Employee::new(job.number());
        let row = places.current.get(Employee::key(department, number)).await?;
        assert_eq!(row.map(|row| row.entity.hired), Some(2), "{number} was hired again");
    }
    Ok(all.len())
}

/// A month later the inbox forgets.
async fn expire(case: &Case<'_>, time: &mut Advancing) -> Result {
    time.advance(DAY * 31)?;
    for table in [&case.places.ledger, &case.places.current] {
        Inbox::new(table).expire().await.map_err(|interrupted| interrupted.error)?;
    }
    let snapshot = case.server.snapshot();
    let left = ["ledger", "current"].map(|table| rows(&snapshot, table, "inbox_"));
    assert_eq!(left, [0, 0]);
    Ok(())
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, claims, images, again, poisoned, poisoned_twice } = self;
        write!(
            f,
            "left by the dead and found: {writes} writes, {claims} claims, {images} images; \
             {poisoned} poisoned as meant, {poisoned_twice} of them twice; {again} delivered again, no effect"
        )
    }
}
