//! Lookup: one reading for everybody, for as long as it may be used, and joins with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use rowkey::patterns::lookup::Lookup;
use rowkey::{
    ClientOptions, DynamicEntity, Entity, EntitySet, ErrorKind, Key, ManualClock, Match,
    ScanPolicy, StorageAccount, Table,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Pages, Server};
use rowkey_tests::sweep::{once, sweep, waiting};
use rowkey_tests::{Fixture, TestResult};

use rowkey_tests::random::{Random, seeds};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{country}", row = "{code}")]
struct State {
    country: String,
    code: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Airport {
    city: &'static str,
    state: &'static str,
}

const MINUTE: Duration = Duration::from_secs(60);

fn state(code: &str) -> State {
    State { country: "US".into(), code: code.into(), name: format!("The state {code}") }
}

fn key(code: &str) -> Key<State> {
    State::key("US", code)
}

/// A server, a clock, and a table of three states.
async fn standing() -> TestResult<(Server, ManualClock, Table)> {
    let server = Server::builder().manual_clock().start().await?;
    let (account, clock) = waiting(&server)?;
    let table = once(&account).table("states");
    table.create().await?;
    for code in ["OR", "TX", "WA"] {
        table.insert(&state(code)).await?;
    }
    Ok((server, clock, table))
}

fn queries(server: &Server) -> usize {
    server.journal().count(Operation::QueryEntities)
}

/// Another program writes a state without a name.
#[tokio::test]
async fn a_row_that_does_not_decode_is_an_error_of_its_own_key_alone() -> TestResult {
    let (server, _, table) = standing().await?;
    table.insert(&DynamicEntity::new("US", "TN")).await?;
    let lookup = Lookup::<State>::of_table(&table, MINUTE);
    let snapshot = lookup.refresh().await?;
    let failed: Vec<_> = snapshot.failed_rows().iter().map(|row| &*row.row_key).collect();
    assert_eq!((snapshot.len(), failed), (3, vec!["TN"]));
    assert!(snapshot.get(&key("TN")).is_none());
    assert_eq!(lookup.get(&key("TX")).await?.as_deref(), Some(&state("TX")));
    assert!(lookup.get(&key("NY")).await?.is_none());
    let error = lookup.get(&key("TN")).await.unwrap_err();
    assert_eq!((error.kind(), error.details().failed_rows.len()), (ErrorKind::Decode, 1));

    let items = stream::iter(["TX", "TN", "NY", "WA"].map(Ok));
    let joined: Vec<_> = lookup.join(items, |code| key(code)).collect().await;
    let found = joined.iter().map(|pair| pair.as_ref().map(|(_, state)| state.is_some()).ok());
    assert_eq!(found.collect::<Vec<_>>(), [Some(true), None, Some(false), Some(true)]);
    assert_eq!(queries(&server), 1);
    // It counts: what is kept in memory is bounded.
    let error = Lookup::<State>::of_table(&table, MINUTE).limit(3).refresh().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    Ok(())
}

#[tokio::test]
async fn a_table_or_a_part_of_it_is_served_from_memory() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    for code in ["OR", "TX", "WA"] {
        table.insert(&state(code)).await?;
    }
    let leeds = State { country: "UK".into(), code: "LDS".into(), name: "Leeds".into() };
    table.insert(&leeds).await?;
    let all = Lookup::of_table(&table, MINUTE);
    let american = Lookup::of_partition(&table, State::partition("US"), MINUTE);
    let some = Lookup::of_partition(&table, State::partition("US").prefix("T"), MINUTE);
    assert_eq!(all.get(&key("WA")).await?.as_deref(), Some(&state("WA")));
    assert_eq!(all.get(&State::key("UK", "LDS")).await?.as_deref(), Some(&leeds));
    assert_eq!(american.get(&key("WA")).await?.as_deref(), Some(&state("WA")));
    assert_eq!(american.get(&State::key("UK", "LDS")).await?, None);
    assert_eq!(american.get(&key("wa")).await?, None, "keys are compared with case");
    assert_eq!(some.get(&key("TX")).await?.as_deref(), Some(&state("TX")));
    assert_eq!(some.get(&key("WA")).await?, None);
    assert_eq!(all.get(&State::key("US", "\n")).await?, None, "no entity has such a key");

    let snapshot = american.snapshot().await?;
    let codes: Vec<_> = snapshot.iter().map(|state| state.code.as_str()).collect();
    assert_eq!(codes, ["OR", "TX", "WA"]);
    assert_eq!((snapshot.len(), snapshot.is_empty()), (3, false));
    if let Some(server) = &table.fixture.server {
        assert_eq!(queries(server), 3, "each was read once");
    }
    Ok(())
}

#[tokio::test]
async fn a_snapshot_is_used_until_its_time_to_live_ends() -> TestResult {
    let (server, clock, table) = standing().await?;
    let states = Lookup::of_partition(&table, State::partition("US"), MINUTE);
    assert!(states.get(&key("CA")).await?.is_none());
    table.insert(&state("CA")).await?;
    table.delete(key("TX"), Match::Any).await?;

    clock.advance(Duration::from_millis(59_999));
    assert!(states.get(&key("CA")).await?.is_none(), "not seen yet");
    assert!(states.get(&key("TX")).await?.is_some(), "still seen");
    assert_eq!(queries(&server), 1);
    clock.advance(Duration::from_millis(1));
    assert!(states.get(&key("CA")).await?.is_some());
    assert!(states.get(&key("TX")).await?.is_none());
    assert_eq!(queries(&server), 2);

    table.insert(&state("NV")).await?;
    let clone = states.clone();
    clone.refresh().await?;
    assert!(states.get(&key("NV")).await?.is_some(), "clones share what was read");
    assert_eq!(queries(&server), 3);
    Ok(())
}

#[tokio::test]
async fn concurrent_callers_share_one_load() -> TestResult {
    let (server, _, table) = standing().await?;
    let states = Lookup::of_table(&table, MINUTE);
    let washington = key("WA");
    let found = join_all((0..50).map(|_| states.get(&washington))).await;
    for found in found {
        assert_eq!(found?.as_deref(), Some(&state("WA")));
    }
    assert_eq!(queries(&server), 1);
    Ok(())
}

#[tokio::test]
async fn concurrent_callers_share_one_failure_and_the_next_caller_retries() -> TestResult {
    let (server, _, table) = standing().await?;
    let states = Lookup::of_table(&table, MINUTE);
    let fault = server.inject(Fault::on(Operation::QueryEntities).reject(ErrorCode::SERVER_BUSY));
    let washington = key("WA");
    let found = join_all((0..50).map(|_| states.get(&washington))).await;
    for error in found {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Throttled);
        assert!(!error.to_string().contains("WA"), "{error}");
    }
    assert_eq!(fault.hits(), 1);
    drop(fault);
    assert!(states.get(&key("WA")).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_cancelled_load_is_continued_by_another_caller() -> TestResult {
    let (server, _, table) = standing().await?;
    let states = Lookup::of_table(&table, MINUTE);
    let washington = key("WA");
    let mut first = Box::pin(states.get(&washington));
    assert!((&mut first).now_or_never().is_none(), "the answer takes its time");
    let second = states.get(&washington);
    drop(first);
    assert!(second.await?.is_some());
    assert!(queries(&server) >= 1);
    Ok(())
}

#[tokio::test]
async fn an_outage_is_an_error_unless_stale_data_is_allowed() -> TestResult {
    let (server, clock, table) = standing().await?;
    let strict = Lookup::of_table(&table, MINUTE);
    let lenient = Lookup::of_table(&table, MINUTE).stale_if_error(10 * MINUTE);
    assert!(strict.get(&key("WA")).await?.is_some());
    assert!(lenient.get(&key("WA")).await?.is_some());
    let fault = server.inject(Fault::on(Operation::QueryEntities).reject(ErrorCode::SERVER_BUSY));
    clock.advance(MINUTE);
    assert_eq!(strict.get(&key("WA")).await.unwrap_err().kind(), ErrorKind::Throttled);
    assert_eq!(fault.hits(), 1);
    assert!(lenient.get(&key("WA")).await?.is_some(), "a minute old");
    assert_eq!(fault.hits(), 2);
    // Not every caller waits for another refusal.
    clock.advance(Duration::from_millis(5_999));
    assert!(lenient.get(&key("WA")).await?.is_some());
    assert_eq!(fault.hits(), 2);
    clock.advance(Duration::from_millis(1));
    assert!(lenient.get(&key("WA")).await?.is_some());
    assert_eq!(fault.hits(), 3);
    // A call that requires a new load fails; others still get the old data.
    assert_eq!(lenient.refresh().await.map(drop).unwrap_err().kind(), ErrorKind::Throttled);
    assert_eq!(fault.hits(), 4);
    assert!(lenient.get(&key("WA")).await?.is_some());
    assert_eq!(fault.hits(), 4);
    // Until it is too old.
    clock.advance(10 * MINUTE);
    assert_eq!(lenient.get(&key("WA")).await.unwrap_err().kind(), ErrorKind::Throttled);
    drop(fault);
    table.delete(key("WA"), Match::Any).await?;
    assert!(lenient.get(&key("WA")).await?.is_none(), "mended");
    Ok(())
}

#[tokio::test]
async fn a_permanent_error_is_returned_even_if_stale_data_is_allowed() -> TestResult {
    let (server, clock, table) = standing().await?;
    let states = Lookup::of_table(&table, MINUTE).stale_if_error(10 * MINUTE).limit(3);
    assert_eq!(states.snapshot().await?.len(), 3, "as many as there may be");
    table.insert(&state("CA")).await?;
    clock.advance(MINUTE);
    let error = states.get(&key("WA")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let what = "Lookup on states: more than 3 entities would be kept in memory; query the table";
    assert!(error.to_string().starts_with(what), "{error}");
    table.delete(key("CA"), Match::Any).await?;
    assert!(states.get(&key("WA")).await?.is_some());

    table.delete_table().await?;
    clock.advance(MINUTE);
    assert_eq!(states.get(&key("WA")).await.unwrap_err().kind(), ErrorKind::NotFound);
    drop(server);
    Ok(())
}

#[tokio::test]
async fn a_lookup_may_scan_despite_the_scan_policy() -> TestResult {
    let (_server, _, table) = standing().await?;
    let options =
        ClientOptions { scan_policy: ScanPolicy::Deny, ..table.account().options().clone() };
    let table = table.with_options(options);
    assert!(table.scan::<State>().all().await.is_err());
    assert!(Lookup::of_table(&table, MINUTE).get(&key("WA")).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_join_pairs_each_item_with_its_entity_or_with_none() -> TestResult {
    let (server, clock, table) = standing().await?;
    let states = Lookup::of_table(&table, MINUTE);
    let airports = [
        Airport { city: "Seattle", state: "WA" },
        Airport { city: "Bangkok", state: "NA" },
        Airport { city: "Portland", state: "OR" },
        Airport { city: "Spokane", state: "WA" },
    ];
    let items = stream::iter(airports.clone().map(Ok));
    let mut joined = states.join(items, |airport| key(airport.state));
    let first = joined.try_next().await?.unwrap();
    assert_eq!((first.0.city, first.1.as_deref()), ("Seattle", Some(&state("WA"))));
    // All pairs are of one time, however long the items take.
    table.delete(key("OR"), Match::Any).await?;
    clock.advance(2 * MINUTE);
    let rest: Vec<_> = joined.try_collect().await?;
    let names: Vec<_> = rest.iter().map(|(_, state)| state.as_ref().map(|s| &*s.code)).collect();
    assert_eq!(names, [None, Some("OR"), Some("WA")]);
    assert_eq!(queries(&server), 1);

    // Items of a query, and errors in them.
    let items = table.query(State::partition("US")).stream();
    let pairs: Vec<_> = states.join(items, |stored| key(&stored.entity.code)).try_collect().await?;
    assert!(pairs.iter().all(|(left, right)| right.as_deref() == Some(&left.entity)));
    let missing = table.account().table("missing").query(State::partition("US")).stream();
    let mut joined = states.join(missing, |stored| key(&stored.entity.code));
    assert_eq!(joined.next().await.unwrap().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(joined.next().await.is_none());
    let nowhere = Lookup::<State>::of_table(&table.account().table("missing"), MINUTE);
    let items = stream::iter(airports.map(Ok));
    let mut joined = nowhere.join(items, |airport| key(airport.state));
    assert_eq!(joined.next().await.unwrap().unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn a_lookup_supports_entity_sets() -> TestResult {
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(partition = "rates", row = "vat_{country}")]
    struct Vat {
        country: String,
        percent: i32,
    }
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(partition = "rates", row = "postage_{country}")]
    struct Postage {
        country: String,
        cents: i64,
    }
    #[derive(Clone, Debug, PartialEq, EntitySet)]
    enum Rate {
        Postage(Postage),
        Vat(Vat),
    }
    let table = Fixture::new().await?.table_with_server().await?;
    let vat = Vat { country: "DE".into(), percent: 19 };
    let postage = Postage { country: "DE".into(), cents: 95 };
    table.transaction().insert(&vat).insert(&postage).submit().await?;
    let rates = Lookup::of_partition(&table, Vat::partition().whole::<Rate>(), MINUTE);
    assert_eq!(rates.get(&Vat::key("DE").cast()).await?.as_deref(), Some(&Rate::Vat(vat)));
    let found = rates.get(&Postage::key("DE").cast()).await?;
    assert_eq!(found.as_deref(), Some(&Rate::Postage(postage)));
    Ok(())
}

#[tokio::test]
async fn a_load_of_several_pages_is_complete_or_an_error_if_any_request_fails() -> TestResult {
    let (server, _, table) = standing().await?;
    for n in 0..20 {
        table.insert(&state(&format!("x{n:02}"))).await?;
    }
    let chaos = Pages { cut: true, ..Pages::seeded(7) };
    let scenario = async |account: &StorageAccount| {
        Lookup::<State>::of_table(&account.table("states"), MINUTE)
            .snapshot()
            .await
            .map(|s| s.len())
    };
    let read = async |account: &StorageAccount, result: &rowkey::Result<usize>| {
        assert!(result.as_ref().is_ok_and(|n| *n == 23) || result.is_err(), "{result:?}");
        assert_eq!(scenario(account).await?, 23);
        Ok(())
    };
    let unchanged = |snapshot: &rowkey_emulator::Snapshot, _: &rowkey::Result<usize>| {
        assert_eq!(snapshot.table("states").unwrap().len(), 23);
    };
    let _chaos = server.chaos(chaos);
    let runs = sweep(&server, scenario, read, unchanged).await?;
    eprintln!("{runs}");
    sweep(
        &server,
        async |account: &StorageAccount| scenario(&once(account)).await,
        read,
        unchanged,
    )
    .await?;
    Ok(())
}

/// The expected result: the table at the time of the last load.
#[tokio::test]
async fn results_come_from_the_last_successful_load() -> TestResult {
    for seed in seeds(60) {
        let context = format!("with seed {seed}");
        let mut random = Random(seed);
        let (server, clock, table) = standing().await?;
        let stale = [0, 3][usize::try_from(random.within(2))?];
        let states = Lookup::of_table(&table, MINUTE).stale_if_error(stale * MINUTE);
        let names = ["CA", "NV", "OR", "TX", "WA"];
        let mut stored: BTreeMap<&str, State> =
            ["OR", "TX", "WA"].into_iter().map(|code| (code, state(code))).collect();
        // The loaded entities, the time of the load, and the time of the next attempt.
        let mut last: Option<(BTreeMap<&str, State>, u64, u64)> = None;
        let mut now = 0;
        for _ in 0..40 {
            let code = names[usize::try_from(random.within(5))?];
            match random.within(5) {
                0 => {
                    table.upsert(&state(code)).await?;
                    stored.insert(code, state(code));
                }
                1 => {
                    table.delete_if_exists(key(code), Match::Any).await?;
                    stored.remove(code);
                }
                2 => {
                    let seconds = 1 + random.within(50);
                    clock.advance(Duration::from_secs(seconds));
                    now += seconds;
                }
                _ => {
                    let down = random.one_in(3);
                    let fault = Fault::on(Operation::QueryEntities).reject(ErrorCode::SERVER_BUSY);
                    let fault = down.then(|| server.inject(fault));
                    let found = states.get(&key(code)).await;
                    let asks = last.as_ref().is_none_or(|(_, _, until)| now >= *until);
                    if let Some(fault) = &fault {
                        assert_eq!(fault.hits() == 1, asks, "{context}");
                    }
                    let end = |read: u64| read + 60 + 60 * u64::from(stale);
                    match &mut last {
                        Some((_, read, until)) if asks && down && now < end(*read) => {
                            *until = (now + 6).min(end(*read));
                        }
                        _ if asks && down => {
                            assert!(found.is_err(), "{context}");
                            continue;
                        }
                        _ if asks => last = Some((stored.clone(), now, now + 60)),
                        _ => {}
                    }
                    let expected = last.as_ref().and_then(|(rows, ..)| rows.get(code));
                    assert_eq!(found?.as_deref(), expected, "{context}");
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn debug_output_contains_no_cached_data() -> TestResult {
    let (_server, _, table) = standing().await?;
    let states = Lookup::<State>::of_table(&table, MINUTE);
    let snapshot: Arc<_> = states.snapshot().await?;
    let shown = format!("{states:?} {snapshot:?}");
    assert!(!shown.contains("WA") && shown.contains("states"), "{shown}");
    Ok(())
}
