//! Unique values in few partitions, of writes of several entities: values that change places, claims of writers that
//! stopped, and values that are no key.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use futures_util::stream;
use rowkey::store::Store;
use rowkey::{Entity, ErrorKind, Outcome, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

/// A seat that has its number, and a place on a shelf, while it is in use.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{hall}", row = "seat_{id:4}")]
#[entity(index(name = by_row, partition = "row_{row}", row = "{id:4}", when = "Self::is_used"))]
#[entity(index(name = by_place, partition = "places", row = "{row}"))]
#[entity(unique(name = by_number, value = "{number}", buckets = 3, when = "Self::is_used"))]
struct Seat {
    hall: String,
    id: u32,
    row: String,
    number: String,
    used: bool,
}

impl Seat {
    fn is_used(&self) -> bool {
        self.used
    }
}

fn seat(id: u32) -> Seat {
    let (row, number) = (format!("r{id}"), format!("n{id}"));
    Seat { hall: "a".into(), id, row, number, used: true }
}

fn seats(account: &StorageAccount) -> rowkey::Result<Store<Seat>> {
    Store::builder(account.table("seats")).queue(account.queue("seats")).build()
}

async fn start() -> TestResult<(Server, Store<Seat>)> {
    let server = Server::builder().manual_clock().start().await?;
    let seats = seats(&account(&server)?)?;
    seats.create_if_missing().await?;
    Ok((server, seats))
}

/// The number of rows, and of messages.
fn counted(server: &Server) -> (usize, usize) {
    let snapshot = server.snapshot();
    let messages = snapshot.queue("seats").unwrap().messages().count();
    (snapshot.table("seats").unwrap().len(), messages)
}

async fn is_right(server: &Server, count: usize) -> TestResult {
    let seats = seats(&account(server)?)?;
    let report = seats.verify().run().await?;
    assert!(report.is_clean() && report.total.drifted() == 0, "{report:?}");
    // The seat, its claim and two copies.
    assert_eq!(counted(server), (4 * count, 0));
    Ok(())
}

/// The values of two entities change places: refused for a unique value, as it is without buckets, and the keys of
/// copies do so.
#[tokio::test]
async fn values_that_change_places_are_refused_and_keys_of_copies_change_places() -> TestResult {
    let (server, seats) = start().await?;
    seats.load(stream::iter([seat(1), seat(2), seat(3)])).run().await?;
    let swap = seats.transaction().update(Seat::key("a", 3), |one| one.number = "n4".into());
    let swap = swap.update(Seat::key("a", 1), |one| one.number = "n2".into());
    let swap = swap.update(Seat::key("a", 2), |one| one.number = "n1".into());
    let error = swap.submit().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.details().index),
        (ErrorKind::AlreadyExists, Some("by_number"))
    );
    assert_ne!(error.outcome(), Outcome::Unknown);
    is_right(&server, 3).await?;

    // The value of an entity that goes in the same transaction.
    let (version, new) = (seats.get(Seat::key("a", 1)).await?.unwrap().version, seat(7));
    let new = Seat { number: "n1".into(), ..new };
    let moved = seats.transaction().delete_if(&Seat::key("a", 1), version).insert(&new);
    let error = moved.submit().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.details().index),
        (ErrorKind::AlreadyExists, Some("by_number"))
    );
    is_right(&server, 3).await?;

    // Copies are written after the commit.
    for _ in 0..2 {
        let swap = seats.transaction().update(Seat::key("a", 1), |one| {
            one.row = if one.row == "r1" { "r2".into() } else { "r1".into() };
        });
        let swap = swap.update(Seat::key("a", 2), |one| {
            one.row = if one.row == "r2" { "r1".into() } else { "r2".into() };
        });
        swap.submit().await?;
        is_right(&server, 3).await?;
        let first = seats.get(Seat::key("a", 1)).await?.unwrap().entity;
        let found = seats.find(Seat::by_place(&first.row)).await?.unwrap();
        assert_eq!(found.entity.id, 1);
    }
    Ok(())
}

#[tokio::test]
async fn entities_that_begin_and_end_to_have_their_values_share_requests() -> TestResult {
    let (server, seats) = start().await?;
    seats.load(stream::iter((1..=6).map(seat))).run().await?;
    let use_it = |used| move |one: &mut Seat| one.used = used;
    let mut all = seats.transaction();
    for id in 1..=6 {
        all = all.update(Seat::key("a", id), use_it(false));
    }
    all.submit().await?;
    // The seat and its place.
    assert_eq!(counted(&server), (12, 0));
    // Another seat uses one of the numbers; the others begin to use theirs.
    seats.insert(&Seat { number: "n3".into(), ..seat(9) }).await?;
    let mut all = seats.transaction();
    for id in 1..=6 {
        all = all.update(Seat::key("a", id), use_it(true));
    }
    let error = all.submit().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.details().index),
        (ErrorKind::AlreadyExists, Some("by_number"))
    );
    assert_eq!(error.details().operation_index, Some(2));
    assert_eq!(counted(&server), (16, 0));
    seats.delete(Seat::key("a", 9)).await?;
    let mut all = seats.transaction();
    for id in 1..=6 {
        all = all.update(Seat::key("a", id), use_it(true));
    }
    all.submit().await?;
    is_right(&server, 6).await
}

/// Values that make no key, in the middle of a transaction: nothing is written.
#[tokio::test]
async fn a_value_that_is_too_long_for_its_claim_is_refused_before_anything_is_written() -> TestResult
{
    let (server, seats) = start().await?;
    let with = |number: String| [seat(1), Seat { number, ..seat(2) }, seat(3)];
    let lengths = [512 - "claim_".len(), 513 - "claim_".len(), 600, 100_000];
    for length in lengths {
        let all = with("n".repeat(length));
        let insert = seats.transaction().insert(&all[0]).insert(&all[1]).insert(&all[2]);
        let inserted = insert.submit().await;
        if length == lengths[0] {
            inserted?;
            assert_eq!(seats.find(Seat::by_number(&all[1].number)).await?.unwrap().entity.id, 2);
            is_right(&server, 3).await?;
            seats.delete_where(Seat::partition("a")).run().await?;
        } else {
            let error = inserted.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge), "{error}");
            assert_eq!(error.outcome(), Outcome::NotSent, "{length}: {error}");
        }
        assert_eq!(counted(&server), (0, 0), "{length}");
    }
    // Characters that no key can have, and quotation marks of filters.
    let all = with("o'neil/\\#?%\u{1F600}~'".to_owned());
    let insert = seats.transaction().insert(&all[0]).insert(&all[1]).insert(&all[2]);
    insert.submit().await?;
    let odd = &all[1].number;
    assert_eq!(seats.find(Seat::by_number(odd)).await?.unwrap().entity.id, 2);
    is_right(&server, 3).await?;
    let report = seats.delete_where(Seat::partition("a")).run().await?;
    assert_eq!(report.total.right, 3);
    assert_eq!(counted(&server), (0, 0));
    Ok(())
}

/// A writer stopped after its commit: its entity has one of the values, or has given it up.
#[tokio::test]
async fn a_group_meets_the_claim_of_a_writer_that_stopped_after_its_commit() -> TestResult {
    for gives_up in [false, true] {
        let (server, seats) = start().await?;
        let other = self::seats(&account(&server)?)?;
        let rival = Seat { hall: "b".into(), number: "n3".into(), row: "r9".into(), ..seat(9) };
        if gives_up {
            other.insert(&rival).await?;
        }
        // The commit is the first transaction.
        let commit = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
        let write = async {
            if gives_up {
                other.delete(Seat::key("b", 9)).await.map(drop)
            } else {
                other.insert(&rival).await.map(drop)
            }
        };
        {
            let mut write = pin!(write);
            select(write.as_mut(), pin!(commit.wait_until_held())).await;
            let later = server.inject(Fault::any().nth(1).hold());
            commit.release();
            select(write, pin!(later.wait_until_held())).await;
            later.discard();
        }
        let report = seats.load(stream::iter((1..=6).map(seat))).run().await?;
        let expected = if gives_up { (6, 0) } else { (5, 1) };
        assert_eq!((report.total.right, report.total.failed), expected, "{report:?}");
        for seconds in [61, 3601] {
            server.clock().advance(Duration::from_secs(seconds));
            let seats = self::seats(&account(&server)?)?;
            seats.drain_backlog().await?;
            assert_eq!(seats.work_once().await?.failed, 0);
        }
        is_right(&server, 6).await?;
    }
    Ok(())
}
