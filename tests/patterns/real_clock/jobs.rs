//! What runs to an end: loads, deletions, repairs, sweeps, reads of many, and writers that meet.

use std::time::Duration;

use futures_util::future::{join, join_all};
use futures_util::{TryStreamExt as _, stream};
use rowkey::pace::Pace;
use rowkey::patterns::job::{Job, Walk};
use rowkey::patterns::lookup::Lookup;
use rowkey::patterns::parallel::Parallel;
use rowkey::patterns::rollover::{Period, Rollover};
use rowkey::patterns::series::Series;
use rowkey::store::Store;
use rowkey::{Entity, Table};
use rowkey_emulator::Operation;
use rowkey_tests::TestResult;

use super::{requests_of, start};

/// The same seats, found by their guests.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{room}", row = "seat_{number:4}")]
#[entity(index(name = by_guest, row = "guest_{guest}"))]
struct Indexed {
    room: String,
    number: u32,
    guest: String,
    photo: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{room}", row = "seat_{number:4}")]
struct Seat {
    room: String,
    number: u32,
    guest: String,
}

fn seat(number: u32) -> Seat {
    let guest = format!("guest {number}");
    Seat { room: "blue".into(), number, guest }
}

async fn filled(table: Table) -> rowkey::Result<Table> {
    table.create().await?;
    let seats: Vec<_> = (0..30).map(seat).collect();
    Job::insert(&table, stream::iter(seats)).run().await?;
    Ok(table)
}

#[tokio::test]
async fn loads_reads_and_deletions_send_the_documented_number_of_requests() -> TestResult {
    let (server, account) = start().await?;
    let (table, sent) = requests_of(&server, filled(account.table("seats"))).await;
    let table = table?;
    assert_eq!(sent.len(), 2, "a table, and a transaction of thirty");

    let queries = (0..3).map(|from| {
        let (from, to) = (Seat::key("blue", from * 10), Seat::key("blue", from * 10 + 10));
        table.query(Seat::partition("blue").range(from..to))
    });
    let all = Parallel::new(queries.collect::<Vec<_>>()).by_key().stream();
    let (all, sent) = requests_of(&server, all.try_collect::<Vec<_>>()).await;
    assert_eq!((all.map_err(|failure| failure.error)?.len(), sent.len()), (30, 3));

    // Ten a page, two hundred a second, read and deleted: five waits of a twentieth of a second.
    let pages = Walk::new(&table, |table| table.query(Seat::partition("blue")).page_size(10));
    let delete = Job::delete(pages).pace(Pace::background().entities_per_second(200));
    let (deleted, sent) = requests_of(&server, delete.run()).await;
    assert_eq!(deleted?.total.right, 30);
    assert!(sent.len() <= 8, "{} requests for three pages", sent.len());
    Ok(())
}

#[tokio::test]
async fn a_repair_and_a_sweep_end_after_their_last_page() -> TestResult {
    let (server, account) = start().await?;
    let table = filled(account.table("seats")).await?;
    let seats = Store::<Indexed>::builder(table).build()?;
    let pace = Pace::background().requests_per_second(100);
    let (report, sent) = requests_of(&server, seats.repair().pace(pace.clone()).run()).await;
    assert_eq!(report?.part("by_guest").repaired, 30);
    // An entity and its copy are read; then the entity, what lies at the key of its copy, and it is
    // written; and the copy is read again.
    assert!(sent.len() <= 30 * 7 + 2, "{} requests for 30 copies", sent.len());
    let (report, sent) = requests_of(&server, seats.verify().pace(pace).run()).await;
    assert!(report?.is_clean());
    // A page, an entity with its copy, and a copy with its entity.
    assert!(sent.len() <= 1 + 4 * 30, "{} requests for 30 copies", sent.len());
    Ok(())
}

#[tokio::test]
async fn conflicting_writers_terminate() -> TestResult {
    let (server, account) = start().await?;
    let table = account.table("counts");
    table.create().await?;
    let counts = Series::<i64>::new(table, "n", 24)?;
    let writers = (0..4).map(async |_| {
        for _ in 0..3 {
            counts.increment(Seat::key("blue", 1), 0, 1).await?;
        }
        Ok::<(), rowkey::Error>(())
    });
    let (written, sent) = requests_of(&server, join_all(writers)).await;
    written.into_iter().collect::<Result<Vec<_>, _>>()?;
    // In each round one of four wins, so twelve successes are at most 48 rounds, of two requests each
    // and two more for the first value.
    assert!(sent.len() <= 48 * 2 + 4 * 2, "{} requests for 12 increments", sent.len());

    let seats = Store::<Indexed>::builder(account.table("seats")).build()?;
    seats.create_if_missing().await?;
    let (room, guest) = ("blue".into(), "guest 1".into());
    seats.insert(&Indexed { room, number: 1, guest, photo: None }).await?;
    let update = |text: &'static str| {
        seats.update(Indexed::key("blue", 1), move |seat| seat.guest = text.to_owned())
    };
    let ((one, two), sent) = requests_of(&server, join(update("ada"), update("bob"))).await;
    one?;
    two?;
    assert!(sent.len() <= 8, "{} requests for two updates", sent.len());
    Ok(())
}

#[tokio::test]
async fn a_lookup_reads_once_per_time_to_live() -> TestResult {
    let (server, account) = start().await?;
    let table = filled(account.table("seats")).await?;
    for (time_to_live, requests) in [(Duration::from_secs(3600), 1), (Duration::ZERO, 20)] {
        let lookup = Lookup::<Seat>::of_table(&table, time_to_live);
        let (read, sent) = requests_of(&server, async {
            for number in 0..20 {
                assert!(lookup.get(&Seat::key("blue", number)).await?.is_some());
            }
            Ok::<_, rowkey::Error>(())
        })
        .await;
        read?;
        assert_eq!(sent.len(), requests);
    }

    let log = Rollover::new(account.clone(), "log", Period::Hour);
    let now = account.clock().now();
    for hours in [1, 30, 31] {
        log.at(now - chrono::TimeDelta::hours(hours)).insert(&seat(1)).await?;
    }
    let (dropped, sent) = requests_of(&server, log.expire(Duration::from_secs(24 * 3600))).await;
    assert_eq!((dropped?.len(), sent.len()), (2, 3), "a listing, and a request per table");
    assert_eq!(server.journal().count(Operation::DeleteTable), 2);
    Ok(())
}
