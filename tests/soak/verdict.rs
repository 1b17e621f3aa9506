//! What has to be in the end, compared with what the server holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use rowkey::{Clock as _, Entity, ManualClock, StorageAccount, SystemClock};
use rowkey_server::{Server, StoredQueue};
use rowkey_store::{Store, Worked};
use serde_json::Value;

use crate::jobs::{
    Balance, Job, Photo, Places, Plan, Posting, Resident, Summary, city, image, salary,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What was left to those who look for it.
pub(crate) struct Found {
    writes: u64,
    claims: u64,
    images: u64,
    poisoned: usize,
    poisoned_twice: usize,
}

/// Has the jobs run that look for what dead programs left, and compares everything.
pub(crate) async fn check(server: &Server, places: &Places, plan: &Plan) -> Result<Found> {
    // Messages of writers that were killed appear after a minute, and those that wait again after another.
    let mut writes = 0;
    for _ in 0..3 {
        server.clock().advance(Duration::from_secs(65));
        writes += settle(&places.people).await?;
        writes += settle(&places.photos).await?;
    }
    // Ages of blobs are told in whole seconds.
    SystemClock.sleep(Duration::from_secs(3)).await;
    let claims = places.tasks.sweep_claims(Duration::ZERO).await?;
    // Blobs are left alone as long as a write that names them may land.
    server.clock().advance(Duration::from_secs(46 * 60));
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let later =
        StorageAccount::builder().connection_string(server.connection_string())?.clock(clock);
    let later = Places::new(later.build()?)?;
    // So are op rows that a late request may have to meet.
    writes += settle(&later.people).await?;
    writes += settle(&later.photos).await?;
    let swept = later.photos.sweep().run().await?;
    let (poisoned, poisoned_twice) = poison(server, plan);
    ledger(server, plan);
    people(server, &later, plan).await?;
    photos(server, &later, plan).await?;
    Ok(Found { writes, claims, images: swept.total.repaired, poisoned, poisoned_twice })
}

/// The poison queue has the bad ones and nothing else; the queues have nothing.
fn poison(server: &Server, plan: &Plan) -> (usize, usize) {
    let snapshot = server.snapshot();
    let messages = |name| -> Vec<String> {
        let queue = snapshot.queue(name).into_iter().flat_map(StoredQueue::messages);
        queue.map(|message| message.text().to_owned()).collect()
    };
    assert_eq!(messages("jobs"), [""; 0]);
    let texts = messages("jobs-poison");
    let number = |text: &String| {
        let text: Value = serde_json::from_str(text).unwrap();
        let unreadable = text["text"].as_str().and_then(|text| text.strip_prefix("bad "));
        let unreadable = unreadable.and_then(|number| number.parse().ok());
        unreadable.or_else(|| text["task"]["Bad"]["number"].as_u64()).unwrap_or_else(|| {
            panic!("this was not to be poisoned: {text}");
        })
    };
    let found: BTreeSet<u64> = texts.iter().map(number).collect();
    let bad = |job| if let Job::Bad { number } = job { Some(number) } else { None };
    let wanted: BTreeSet<u64> = plan.jobs().filter_map(bad).collect();
    assert_eq!(found, wanted);
    (found.len(), texts.len() - found.len())
}

/// Every posting is there, and was counted once.
fn ledger(server: &Server, plan: &Plan) {
    let mut postings = BTreeMap::new();
    let mut balances: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
    for job in plan.jobs() {
        if let Job::Post { account, number, amount } = job {
            postings.insert((account, number), amount);
            let (count, sum) = balances.entry(account).or_default();
            (*count, *sum) = (*count + 1, *sum + amount);
        }
    }
    let snapshot = server.snapshot();
    let integer = |row: rowkey_server::StoredEntity<'_>, name| match row.get(name) {
        Some(rowkey::edm::Value::Int64(value)) => value,
        other => panic!("{name} is {other:?}"),
    };
    let mut found = 0;
    for row in snapshot.table("ledger").unwrap().entities() {
        let account: u64 = row.partition_key().parse().unwrap();
        if let Some(number) = row.row_key().strip_prefix("posting_") {
            let number: u64 = number.parse().unwrap();
            let amount = integer(row, Posting::AMOUNT.name());
            assert_eq!(postings.get(&(account, number)), Some(&amount), "{account} {number}");
            found += 1;
        } else {
            let balance =
                (integer(row, Balance::POSTINGS.name()), integer(row, Balance::SUM.name()));
            assert_eq!(balances.remove(&account), Some(balance), "balance of {account}");
        }
    }
    assert_eq!(found, postings.len());
    assert!(balances.is_empty());
}

/// Everybody is where they moved last; the index and the view say the same.
async fn people(server: &Server, places: &Places, plan: &Plan) -> Result<()> {
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for job in plan.jobs() {
        if let Job::Move { person, version } = job {
            let last = wanted.entry(person).or_default();
            *last = version.max(*last);
        }
    }
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
    let snapshot = server.snapshot();
    let rows = |is: fn(&str, &str) -> bool| {
        let rows = snapshot.table("people").unwrap().entities();
        rows.filter(|row| is(row.partition_key(), row.row_key())).count()
    };
    assert_eq!(rows(|_, row_key| row_key.starts_with("person_")), wanted.len());
    assert_eq!(rows(|partition_key, _| partition_key.starts_with("city_")), wanted.len());
    for (&city, &(people, salary)) in &cities {
        let summary =
            places.account.table("cities").get(Summary::key(city)).await?.ok_or("no city")?;
        assert_eq!(summary.entity, Summary { city, people, salary });
    }
    let report = places.people.verify().run().await?;
    assert!(report.is_clean(), "{report:?}");
    Ok(())
}

/// Does the work that writers left; how many writes it was.
async fn settle<E: Entity + Clone + Send + Sync + 'static>(store: &Store<E>) -> Result<u64> {
    let mut writes = 0;
    let mut worked = store.drain_backlog().await?;
    while worked != Worked::default() {
        assert_eq!(worked.failed, 0);
        writes += worked.settled + worked.waiting;
        worked = store.work_once().await?;
    }
    Ok(writes)
}

/// Every album shows its newest photo; there is a blob for each, and no other.
async fn photos(server: &Server, places: &Places, plan: &Plan) -> Result<()> {
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for job in plan.jobs() {
        if let Job::Photo { album, version, .. } = job {
            let last = wanted.entry(album).or_default();
            *last = version.max(*last);
        }
    }
    for (&album, &version) in &wanted {
        let found = places.photos.get(Photo::key(album)).await?.ok_or("no photo")?;
        assert_eq!(found.entity, Photo { album, version, image: image(album, version) });
    }
    let snapshot = server.snapshot();
    let rows = snapshot.table("photos").unwrap().entities();
    assert_eq!(rows.filter(|row| row.row_key() == "photo").count(), wanted.len());
    let images = snapshot.blobs("images").filter(|name| name.starts_with("photos/"));
    assert_eq!(images.count(), wanted.len(), "no orphan");
    assert_eq!(snapshot.blobs("claims").count(), 0, "no claim of a task that is done");
    Ok(())
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, claims, images, poisoned, poisoned_twice } = self;
        write!(
            f,
            "left by the dead and found: {writes} writes, {claims} claims, {images} images; \
             {poisoned} poisoned as meant, {poisoned_twice} of them twice"
        )
    }
}
