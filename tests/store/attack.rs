//! Everything at once: eight writers on few entities of a type with all declarations, every twelfth
//! response lost, callers dropped at random, the secondary held back and the queue down for a while. When
//! workers have run for an hour, all rows agree and nothing is left over.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, join_all, poll_fn, select};
use rowkey::edm::Value;
use rowkey::store::{Store, View};
use rowkey::{ClientOptions, Entity, Key, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Server, Service, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, is_brief};

use super::rows::Recounted;

/// Every declaration that there is.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "all", row = "thing_{id:2}")]
#[entity(index(name = by_desk, row = "desk_{desk}"))]
#[entity(index(name = by_color, row = "color_{color}", many))]
#[entity(index(name = by_courier, partition = "courier_{color}", row = "{id}"))]
#[entity(index(name = by_size, partition = "size_{desk}", row = "{id}", copy(cents)))]
#[entity(unique(name = by_number, value = "{number}"))]
#[entity(list(name = by_tag, value = "{color}"))]
#[entity(list(name = by_shelf, partition = "shelves", value = "{desk}"))]
struct Thing {
    id: u32,
    desk: Option<u32>,
    color: String,
    number: Option<u32>,
    cents: i64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "summary_{color}", row = "total")]
struct Total {
    color: String,
    things: i64,
    cents: i64,
}

const WRITERS: usize = 8;
const WRITES: u32 = 12;
const THINGS: u32 = 4;

fn store(account: &StorageAccount) -> rowkey::Result<Store<Thing>> {
    let table = account.table("things");
    let totals = View::new("totals", &table, |thing: &Thing| Some(Total::key(&thing.color)))
        .count(Total::THINGS)
        .sum(Total::CENTS, |thing| thing.cents);
    let builder = Store::builder(table).queue(account.queue("things"));
    builder.with(Recounted).with(totals).build()
}

fn thing(id: u32, random: &mut Random) -> Thing {
    Thing {
        id,
        desk: (!random.one_in(4)).then(|| random.below(THINGS)),
        color: random.pick(&["red", "blue"]).to_owned(),
        number: (!random.one_in(4)).then(|| random.below(THINGS)),
        cents: i64::from(random.below(100)),
    }
}

/// One write, whose result is ignored.
async fn write(things: &Store<Thing>, random: &mut Random) {
    let id = random.below(THINGS);
    let other = thing(id, random);
    let key = || Key::<Thing>::new("all", format!("thing_{id:02}"));
    let result = match random.below(7) {
        0 | 1 => things.insert(&other).await.map(drop),
        2 => things.upsert(&other).await.map(drop),
        3 | 4 => things.update(key(), |thing| thing.clone_from(&other)).await.map(drop),
        5 => match things.find(Thing::by_desk(random.below(THINGS))).await {
            Ok(Some(found)) => {
                let changed = Thing { id: found.entity.id, ..other };
                things.replace_if(&changed, &found.version).await.map(drop)
            }
            found => found.map(drop),
        },
        _ => things.delete(key()).await.map(drop),
    };
    // Values are taken, entities are there or are not, answers are lost: all of it is meant to be.
    drop(result);
}

/// Runs a future until it has been polled so often, and drops it then.
async fn for_some_polls(future: impl Future<Output = ()>, polls: u32) {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        left = left.saturating_sub(1);
        if left == 0 {
            return Poll::Ready(());
        }
        future.as_mut().poll(context)
    })
    .await;
}

async fn writer(things: Store<Thing>, mut random: Random) {
    let writes = if is_brief() { WRITES / 3 } else { WRITES };
    for _ in 0..writes {
        let polls = if random.one_in(4) { 2 + random.below(60) } else { u32::MAX };
        Box::pin(for_some_polls(write(&things, &mut random), polls)).await;
    }
}

/// Loses one response in twelve on average, before or after the request is executed; never ends.
async fn losses(server: &Server, mut random: Random) {
    loop {
        let request = Fault::any().nth(u64::from(1 + random.below(23)));
        let injected = server.inject(match random.below(3) {
            0 => request.close_before_commit(),
            1 => request.close_after_commit(),
            _ => request.reject(ErrorCode::SERVER_BUSY),
        });
        injected.wait_until_hit(1).await;
    }
}

#[tokio::test]
async fn one_hour_of_workers_repairs_and_cleans_up_everything() -> TestResult {
    for seed in seeds(1) {
        let _seed = Seed(seed);
        let mut random = Random(seed.wrapping_mul(0x9E37));
        let server = Server::builder().manual_clock().start().await?;
        store(&account(&server)?)?.create_if_missing().await?;
        {
            let _behind = server.hold_back_secondary();
            let service = Fault::service(Service::Queue).times(25);
            let _down = server.inject(service.reject(ErrorCode::SERVER_BUSY));
            let account = account(&server)?;
            let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
            let account = account.with_options(options);
            let writers = (0..WRITERS).map(|_| Ok(writer(store(&account)?, Random(random.next()))));
            let writers: Vec<_> = writers.collect::<rowkey::Result<_>>()?;
            let losses: Pin<Box<dyn Future<Output = ()>>> =
                Box::pin(losses(&server, Random(random.next())));
            let writers = pin!(join_all(writers));
            let ended = select(writers, losses).await;
            assert!(matches!(ended, Either::Left(_)));
        }
        for _ in 0..60 {
            server.clock().advance(Duration::from_secs(61));
            let things = store(&account(&server)?)?;
            let drained = things.drain_backlog().await?;
            assert_eq!(drained.failed, 0, "{drained:?}");
            let worked = things.work_once().await?;
            assert_eq!(worked.failed, 0, "{worked:?}");
        }
        let things = store(&account(&server)?)?;
        let report = things.verify().run().await?;
        assert!(report.is_clean(), "{report:?}");
        check(&server.snapshot());
    }
    Ok(())
}

/// Rows that no verification covers.
fn check(snapshot: &Snapshot) {
    Recounted::check(snapshot);
    let mut owners = BTreeMap::new();
    let mut totals = BTreeMap::<_, (i64, i64)>::new();
    let mut stored = BTreeMap::new();
    let number = |value: Option<Value>| match value {
        Some(Value::Int64(number)) => number,
        Some(Value::Int32(number)) => number.into(),
        _ => 0,
    };
    for row in snapshot.table("things").unwrap().entities() {
        let (partition, key) = (row.partition_key(), row.row_key());
        let left = key.starts_with("op_") || partition.starts_with("backlog_");
        assert!(!left, "{partition} {key} is left");
        if partition == "all" && key.starts_with("thing_") {
            if let Some(value) = row.get("number") {
                let other = owners.insert(number(Some(value)), key.to_owned());
                assert_eq!(other, None, "two things have one number");
            }
            let Some(Value::String(color)) = row.get("color") else { panic!("no color") };
            let (things, cents) = totals.entry(format!("summary_{color}")).or_default();
            (*things, *cents) = (*things + 1, *cents + number(row.get("cents")));
        } else if key == "total" && partition.starts_with("summary_") {
            let says = (number(row.get("things")), number(row.get("cents")));
            stored.insert(partition.to_owned(), says);
        }
    }
    stored.retain(|_, (things, _)| *things != 0);
    assert_eq!(stored, totals, "the view sums up");
    let messages = snapshot.queue("things").unwrap().messages().count();
    assert_eq!(messages, 0, "messages are left");
}
