//! Parallel: what many queries find comes once each, in the order that was asked for, in bounded
//! memory, through failures, stops and resumptions.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{self, Either};
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use rowkey::patterns::parallel::{Checkpoint, Failure, Found, Parallel, key_ranges};
use rowkey::table::Stream;
use rowkey::{
    DynamicEntity, Entity, ErrorKind, Match, Outcome, Partition, Query, ScanPolicy, Table,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Pages, Server};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestError, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{state}", row = "{code:4}")]
struct Airport {
    state: String,
    code: u32,
    size: i64,
    name: String,
}

const STATES: [&str; 5] = ["WA", "AK", "TX", "CA", "OR"];

/// How an order is asked for.
type Ordered = fn(Parallel<Airport>) -> Parallel<Airport>;

/// The rows by the position of their query, for comparison.
type Rows = Vec<(usize, u32)>;

fn row(found: &Found<Airport>) -> (usize, u32) {
    (found.query, found.stored.entity.code)
}

async fn fill(table: &Table, state: &str, codes: impl IntoIterator<Item = u32>) -> TestResult {
    let mut rows = table.transaction();
    for code in codes {
        let (state, name) = (state.to_owned(), format!("{state} {code}"));
        rows = rows.insert(&Airport { state, code, size: code.into(), name });
    }
    if !rows.is_empty() {
        rows.submit().await?;
    }
    Ok(())
}

/// Five partitions; the query at place `n` finds the codes `n`, `n + 5`, `n + 10` and so on.
async fn filled(rows: u32) -> TestResult<(Server, Table)> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("airports");
    table.create().await?;
    for (state, first) in STATES.into_iter().zip(0..) {
        fill(&table, state, (0..rows).map(|row| first + 5 * row)).await?;
    }
    Ok((server, table))
}

fn queries(table: &Table) -> [Query<Airport>; 5] {
    STATES.map(|state| table.query(Airport::partition(state)))
}

fn in_pages(table: &Table, size: u32) -> [Query<Airport>; 5] {
    queries(table).map(|query| query.page_size(size))
}

#[tokio::test]
async fn results_are_complete_and_in_the_requested_order() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    for (state, first) in STATES.into_iter().zip(0..) {
        fill(&table, state, (0..7).map(|row| first + 5 * row)).await?;
    }
    let one_by_one: Rows = (0..5)
        .flat_map(|n| (0..7).map(move |row| (n, u32::try_from(n).unwrap() + 5 * row)))
        .collect();
    let queries = || in_pages(&table, 3);

    let given: Vec<_> = Parallel::new(queries()).in_given_order().stream().try_collect().await?;
    assert_eq!(given.iter().map(row).collect::<Rows>(), one_by_one);
    assert!(given.iter().all(|found| found.partition_key == STATES[found.query]));
    assert_eq!(given[8].row_key, "0006");

    let by_row: Vec<_> = Parallel::new(queries()).by_row_key().stream().try_collect().await?;
    let codes: Vec<_> = by_row.iter().map(|found| found.stored.entity.code).collect();
    assert_eq!(codes, (0..35).collect::<Vec<_>>());

    let by_key: Vec<_> = Parallel::new(queries()).by_key().stream().try_collect().await?;
    let states: Vec<_> = by_key.iter().map(|found| &*found.partition_key).step_by(7).collect();
    assert_eq!(states, ["AK", "CA", "OR", "TX", "WA"]);

    let any: BTreeSet<_> = Parallel::new(queries())
        .stream()
        .map_ok(|found| row(&found))
        .try_collect::<Rows>()
        .await?
        .into_iter()
        .collect();
    assert_eq!(any.into_iter().collect::<Rows>(), one_by_one);

    // Parts of partitions, with filters and selections of their own.
    let narrowed = STATES.map(|state| {
        let rows = Airport::partition(state).prefix("000");
        table.query(rows).filter(Airport::SIZE.ge(5_i64))
    });
    assert_eq!(Parallel::new(narrowed).stream().count().await, 5);
    let names = STATES
        .map(|state| table.query(Partition::<DynamicEntity>::new(state)).select(["name"]).take(1));
    let names: Vec<_> = Parallel::new(names).in_given_order().stream().try_collect().await?;
    assert_eq!(names.len(), 5);
    assert_eq!(names[0].stored.entity.iter().len(), 1, "the selection holds");
    Ok(())
}

#[tokio::test]
async fn queries_may_come_from_a_stream() -> TestResult {
    let (server, table) = filled(2).await?;
    let of_state = {
        let table = table.clone();
        move |state: String| table.query(Airport::partition(state))
    };
    let states: Stream<String> = stream::iter(STATES.map(|state| Ok(state.to_owned()))).boxed();
    let found = Parallel::of_stream(states.map_ok(of_state)).in_given_order().stream();
    assert_eq!(found.count().await, 10);

    // When the list fails, everything does, and it says how much of the list there was.
    let missing = table.account().table("missing");
    let broken = missing.query(Airport::partition("x")).stream();
    let query = table.query(Airport::partition("WA"));
    let list = stream::once(async { Ok(query) })
        .chain(broken.map_ok(|_| unreachable!("there is no such table")));
    let mut found = Parallel::of_stream(list).keep_going().stream();
    let failure = loop {
        match found.next().await.ok_or("an error is due")? {
            Ok(_) => {}
            Err(failure) => break failure,
        }
    };
    assert_eq!((failure.query, failure.error.kind()), (1, ErrorKind::NotFound));
    assert!(found.next().await.is_none());
    drop(server);
    Ok(())
}

#[tokio::test]
async fn partition_ranges_cover_the_whole_table() -> TestResult {
    let (server, table) = filled(6).await?;
    for cuts in [&[][..], &["O"], &["AK", "CA", "CA\u{1}", "zz"], &["\u{10000}", "\u{E000}"]] {
        let parts = key_ranges::<Airport>(&table, cuts.iter().copied())?;
        assert_eq!(parts.len(), cuts.len() + 1);
        let found = Parallel::new(parts.into_iter().map(|part| part.page_size(4)));
        let found: Vec<_> = found.in_given_order().stream().try_collect().await?;
        let keys: Vec<_> =
            found.iter().map(|found| (&*found.partition_key, &*found.row_key)).collect();
        assert!(keys.is_sorted() && keys.len() == 30, "{cuts:?}");
    }
    let error = key_ranges::<Airport>(&table, ["b", "a"]).unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));

    // It is a scan, and stays one for the policy.
    let before = server.journal();
    let parts = key_ranges::<Airport>(&table, ["m"])?;
    let denied = parts.into_iter().map(|part| part.scan_policy(ScanPolicy::Deny));
    let failure = Parallel::new(denied).stream().try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(failure.error.kind(), ErrorKind::Invalid);
    assert!(server.journal().since(&before).is_empty());
    Ok(())
}

/// The memory bound, seen from the server: this number of pages is asked for and no more.
#[tokio::test]
async fn prefetching_is_bounded_by_the_buffer() -> TestResult {
    for in_flight in [1, 2, 3, 50] {
        let orders: [(Ordered, bool); 4] = [
            (in_any, false),
            (Parallel::in_given_order, false),
            (Parallel::by_row_key, true),
            (Parallel::by_key, true),
        ];
        for (order, merged) in orders {
            let (server, table) = filled(20).await?;
            let before = server.journal();
            let mut found = order(Parallel::new(in_pages(&table, 4)).in_flight(in_flight)).stream();
            found.next().await.ok_or("there are rows")??;
            let pages = server.journal().since(&before).len();
            let room = if merged { 5 } else { in_flight.min(5) };
            assert!(pages <= room, "{pages} pages where there is room for {room}");
            assert!(!merged || pages == 5, "a merge has to see the first of each");
        }
    }
    let (server, table) = filled(20).await?;
    // In the given order the next two wait with their first page, and ask for no second.
    let before = server.journal();
    let mut found = Parallel::new(in_pages(&table, 4)).in_given_order().in_flight(3).stream();
    for _ in 0..20 {
        assert_eq!(found.next().await.ok_or("there are rows")??.query, 0);
    }
    assert_eq!(server.journal().since(&before).len(), 5 + 2);
    Ok(())
}

#[tokio::test]
async fn concurrency_is_limited() -> TestResult {
    let (server, table) = filled(3).await?;
    for in_flight in [1, 2, 4] {
        for merged in [false, true] {
            let held = server.inject(Fault::on(Operation::QueryEntities).hold());
            let before = server.journal();
            let parallel = Parallel::new(in_pages(&table, 1)).in_flight(in_flight);
            let parallel = if merged { parallel.by_row_key() } else { parallel };
            let mut found = parallel.stream();
            {
                let arrived = held.wait_until_hit(in_flight as u64);
                let read = future::select(Box::pin(arrived), found.next()).await;
                assert!(matches!(read, Either::Left(_)), "nothing was answered");
            }
            // Any other request now is answered after all that was sent by then.
            table.get(Airport::key("WA", 0)).await?;
            assert!(found.next().now_or_never().is_none());
            assert_eq!(server.journal().since(&before).count(Operation::QueryEntities), in_flight);
            drop(held);
            assert_eq!(found.count().await, 15);
        }
    }
    Ok(())
}

#[tokio::test]
async fn each_page_costs_one_request_and_take_sends_no_more() -> TestResult {
    let (server, table) = filled(7).await?;
    let cost = async |parallel: Parallel<Airport>| {
        let before = server.journal();
        let found = parallel.stream().count().await;
        let sent = server.journal().since(&before);
        assert_eq!(sent.len(), sent.count(Operation::QueryEntities));
        (found, sent.len())
    };
    assert_eq!(cost(Parallel::new(queries(&table))).await, (35, 5));
    assert_eq!(cost(Parallel::new(in_pages(&table, 3)).by_row_key()).await, (35, 15));
    assert_eq!(cost(Parallel::new([])).await, (0, 0));
    assert_eq!(cost(Parallel::new(queries(&table)).take(0)).await, (0, 0));
    let first = Parallel::new(queries(&table)).in_given_order().in_flight(1);
    assert_eq!(cost(first.take(5)).await, (5, 1), "the other queries are not begun");
    // Of each query no more is asked for than is to be taken of all.
    let some = Parallel::new(in_pages(&table, 2)).in_given_order().in_flight(1).take(3);
    let before = table.query(Airport::partition("WA")).page_size(2).take(3).explain()?;
    assert!(before.requests[0].url.contains("top=2"));
    assert_eq!(cost(some).await, (3, 2));
    Ok(())
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_remaining_requests() -> TestResult {
    let (server, tables) = in_tables(3).await?;
    for merged in [false, true] {
        let _held = server.inject(Fault::any().resource("tab1").hold());
        let queries = tables.clone().map(|table| table.query(Airport::partition("WA")));
        let taken = if merged { 0 } else { 4 };
        let parallel = Parallel::new(queries).take(taken);
        let mut found = if merged { parallel.by_key() } else { parallel }.stream();
        for _ in 0..taken {
            assert_ne!(found.next().await.ok_or("two tables answer")??.query, 1);
        }
        assert!(found.next().await.is_none(), "while a request is held");
        assert!(found.checkpoint().is_finished());
    }
    // Dropping the stream is as good.
    let held = server.inject(Fault::any().resource("tab1").hold());
    let queries = tables.map(|table| table.query(Airport::partition("WA")));
    let mut found = Parallel::new(queries).by_row_key().stream();
    {
        let arrived = held.wait_until_held();
        assert!(matches!(future::select(Box::pin(arrived), found.next()).await, Either::Left(_)));
    }
    drop(found);
    Ok(())
}

/// Five tables with the same partition, so that a fault can be of one query.
async fn in_tables(rows: u32) -> TestResult<(Server, [Table; 5])> {
    let server = Server::builder().manual_clock().start().await?;
    let account = once(&account(&server)?);
    let tables = ["tab0", "tab1", "tab2", "tab3", "tab4"].map(|name| account.table(name));
    for (table, first) in tables.iter().zip(0..) {
        table.create().await?;
        fill(table, "WA", (0..rows).map(|row| first + 5 * row)).await?;
    }
    Ok((server, tables))
}

#[tokio::test]
async fn an_error_names_its_query_and_ends_all_or_only_that_query() -> TestResult {
    let (server, tables) = in_tables(3).await?;
    let queries = || tables.clone().map(|table| table.query(Airport::partition("WA")).page_size(2));
    for order in [in_any, Parallel::in_given_order, Parallel::by_key, Parallel::by_row_key] {
        // The second page of the fourth query.
        let fault = Fault::any().resource("tab3").nth(2).reject(ErrorCode::SERVER_BUSY);
        let lost = server.inject(fault);
        let mut found = order(Parallel::new(queries())).stream();
        let mut before = 0;
        let failure: Failure = loop {
            match found.next().await.ok_or("an error is due")? {
                Ok(_) => before += 1,
                Err(failure) => break failure,
            }
        };
        assert_eq!((failure.query, failure.error.kind()), (3, ErrorKind::Throttled));
        assert!(failure.to_string().starts_with("query 3: QueryEntities on tab3: "), "{failure}");
        assert!(!format!("{failure} {failure:?}").contains("WA"), "it quotes no keys");
        assert!(found.next().await.is_none(), "it ends the stream");
        let checkpoint = found.checkpoint();
        assert!(!checkpoint.is_finished() && checkpoint.open().any(|query| query == 3));
        let rest = order(Parallel::new(queries())).resume(checkpoint).stream();
        assert_eq!(rest.try_collect::<Vec<_>>().await?.len(), 15 - before);
        drop(lost);

        let fault = Fault::any().resource("tab3").nth(2).reject(ErrorCode::SERVER_BUSY);
        let lost = server.inject(fault);
        let mut found = order(Parallel::new(queries())).keep_going().stream();
        let (mut rows, mut failed) = (Vec::new(), Vec::new());
        while let Some(next) = found.next().await {
            match next {
                Ok(found) => rows.push(row(&found)),
                Err(failure) => failed.push(failure.query),
            }
        }
        assert_eq!((rows.len(), &*failed), (14, &[3][..]), "the third row of one is missing");
        let checkpoint = found.checkpoint();
        assert_eq!(checkpoint.open().collect::<Vec<_>>(), [3]);
        assert!(!checkpoint.is_finished(), "a run that resumes tries it again");
        let mut rest = order(Parallel::new(queries())).resume(checkpoint).stream();
        let last = rest.try_next().await?.ok_or("a row is missing")?;
        assert_eq!(row(&last), (3, 13));
        assert!(rest.next().await.is_none() && rest.checkpoint().is_finished());
        assert_eq!(lost.hits(), 1);
    }
    Ok(())
}

/// One row of three partitions does not decode.
#[tokio::test]
async fn a_row_that_does_not_decode_ends_no_query() -> TestResult {
    let (_server, table) = filled(4).await?;
    for state in ["WA", "TX", "OR"] {
        let mut row = DynamicEntity::new(state, "0007_");
        row.set("size", "secret");
        table.upsert(&row).await?;
    }
    for order in [in_any, Parallel::in_given_order, Parallel::by_key, Parallel::by_row_key] {
        for size in [1, 2, 1000] {
            let mut found = order(Parallel::new(in_pages(&table, size))).stream();
            let (mut rows, mut failed) = (Rows::new(), Vec::new());
            while let Some(next) = found.next().await {
                match next {
                    Ok(found) => rows.push(row(&found)),
                    Err(failure) => {
                        assert_eq!(failure.error.kind(), ErrorKind::Decode, "{failure}");
                        let said = format!("{failure} {failure:?}");
                        assert!(!said.contains("0007_") && !said.contains("secret"), "{said}");
                        failed.push(failure.query);
                    }
                }
            }
            failed.sort_unstable();
            assert_eq!((rows.len(), &*failed), (20, &[0, 2, 4][..]), "pages of {size}");
            assert!(found.checkpoint().is_finished());
        }
    }
    Ok(())
}

fn in_any(parallel: Parallel<Airport>) -> Parallel<Airport> {
    parallel
}

#[tokio::test]
async fn an_invalid_query_is_rejected_before_sending() -> TestResult {
    let (server, table) = filled(3).await?;
    let before = server.journal();
    let queries = ["a\tb", "WA"].map(|state| table.query(Airport::partition(state)));
    let failure = Parallel::new(queries).stream().try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!((failure.query, failure.error.outcome()), (0, Outcome::NotSent));
    assert!(server.journal().since(&before).len() <= 1, "the other one was begun with it");

    // Only sorted queries can be merged.
    let parts = key_ranges::<Airport>(&table, ["M"])?;
    let found = Parallel::new(parts).by_row_key().keep_going().stream();
    let failures = found.filter_map(|found| async { found.err() }).collect::<Vec<_>>().await;
    let failures: Vec<_> = failures.iter().map(|it| (it.query, it.error.kind())).collect();
    assert_eq!(failures, [(0, ErrorKind::Invalid), (1, ErrorKind::Invalid)]);
    let list =
        table.query(Airport::partition("WA")).filter(Airport::SIZE.exact().one_of(0..30_i64));
    let unsorted = list.page_size(1);
    assert_eq!(Parallel::new([unsorted]).by_row_key().stream().count().await, 3);
    Ok(())
}

#[tokio::test]
async fn a_checkpoint_of_other_queries_is_rejected_before_sending() -> TestResult {
    let (server, table) = filled(3).await?;
    let checkpoint = async |queries: Vec<Query<Airport>>, rows| {
        let mut found = Parallel::new(queries).in_given_order().in_flight(1).stream();
        for _ in 0..rows {
            found.next().await.ok_or("there are rows")??;
        }
        Ok::<_, TestError>(found.checkpoint())
    };
    let after_two = checkpoint(queries(&table).into(), 8).await?;
    assert_eq!(after_two.open().collect::<Vec<_>>(), [2]);
    let before = server.journal();
    let mut swapped = queries(&table);
    swapped.swap(0, 1);
    let filtered = queries(&table).map(|query| query.filter(Airport::SIZE.ge(1_i64)));
    let few = queries(&table).into_iter().take(2).collect();
    for other in [Vec::from(swapped), Vec::from(filtered), few] {
        let mut found = Parallel::new(other).resume(after_two.clone()).stream();
        let failure = found.try_next().await.unwrap_err();
        assert_eq!(failure.error.kind(), ErrorKind::Invalid, "{failure}");
        assert_eq!(found.checkpoint(), after_two, "nothing is lost");
        assert!(found.next().await.is_none());
    }
    assert!(server.journal().since(&before).is_empty());

    // Another size of pages is no other query, and neither is a list that has grown.
    let longer = in_pages(&table, 1).into_iter().chain(queries(&table));
    let rest = Parallel::new(longer.collect::<Vec<_>>()).resume(after_two).stream();
    assert_eq!(rest.try_collect::<Vec<_>>().await?.len(), 7 + 15);
    let all = checkpoint(queries(&table).into(), 15).await?;
    let mut none = Parallel::new(queries(&table)).resume(all).stream();
    assert!(none.next().await.is_none() && none.checkpoint().is_finished());
    Ok(())
}

/// A long list is asked for in parts, each of which begins with the first keys again.
#[tokio::test]
async fn a_split_query_resumes_in_the_correct_part() -> TestResult {
    let (server, _) = filled(0).await?;
    let table = account(&server)?.table("airports");
    for code in 0..20 {
        let size = 19 - i64::from(code);
        table.insert(&Airport { state: "WA".into(), code, size, name: String::new() }).await?;
    }
    let query = |table: &Table, page_size| {
        let rows = table.query(Airport::partition("WA"));
        [rows.filter(Airport::SIZE.exact().one_of(0..20_i64)).page_size(page_size)]
    };
    let codes: Vec<_> = Parallel::new(query(&table, 1000)).stream().try_collect().await?;
    let codes: Vec<_> = codes.iter().map(|found| found.stored.entity.code).collect();
    assert!(!codes.is_sorted(), "there are parts: {codes:?}");
    let first_part = codes.iter().position(|code| *code == 0).ok_or("it is there")?;
    for page_sizes in [(5, 1), (1, 5), (5, 5)] {
        for stop_after in 1..codes.len() {
            let server = server.fork().await?;
            let table = account(&server)?.table("airports");
            let mut found = Parallel::new(query(&table, page_sizes.0)).stream();
            for code in &codes[..stop_after] {
                assert_eq!(found.next().await.ok_or("it is there")??.stored.entity.code, *code);
            }
            // The rest of the first part goes away.
            let gone = first_part.max(stop_after);
            for code in &codes[stop_after..gone] {
                table.delete(Airport::key("WA", *code), Match::Any).await?;
            }
            let rest = Parallel::new(query(&table, page_sizes.1)).resume(found.checkpoint());
            let rest: Vec<_> = rest.stream().try_collect().await?;
            let rest: Vec<_> = rest.iter().map(|found| found.stored.entity.code).collect();
            assert_eq!(rest, codes[gone..], "stopped after {stop_after}, {page_sizes:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_reader_resumes_at_its_position_after_any_fault() -> TestResult {
    let (server, _) = filled(5).await?;
    let one_by_one: Rows =
        (0..5_u32).flat_map(|n| (0..5).map(move |row| (n as usize, n + 5 * row))).collect();
    let mut by_row = one_by_one.clone();
    by_row.sort_by_key(|(_, code)| *code);
    let orders: [(Ordered, Option<&Rows>); 3] = [
        (in_any, None),
        (Parallel::in_given_order, Some(&one_by_one)),
        (Parallel::by_row_key, Some(&by_row)),
    ];
    for (order, expected) in orders {
        let read = async |table: Table, mut rows: Rows, from: Checkpoint| {
            let parallel = Parallel::new(in_pages(&table, 2)).in_flight(3).resume(from);
            let mut found = order(parallel).stream();
            while let Some(Ok(next)) = found.next().await {
                rows.push(row(&next));
            }
            (rows, found.checkpoint().to_string())
        };
        let runs = sweep(
            &server,
            async |account| {
                read(once(account).table("airports"), Rows::new(), Checkpoint::default()).await
            },
            async |account, (rows, checkpoint)| {
                let from: Checkpoint = checkpoint.parse()?;
                let (mut rows, last) = read(account.table("airports"), rows.clone(), from).await;
                assert!(last.parse::<Checkpoint>()?.is_finished());
                if expected.is_none() {
                    rows.sort_unstable();
                }
                assert_eq!(&rows, expected.unwrap_or(&one_by_one), "each once");
                Ok(())
            },
            |_, _| {},
        )
        .await?;
        assert_eq!(runs.requests, 15, "three pages of each");
    }
    Ok(())
}

/// Random tables, read in every order in pages that end anywhere, by readers that stop anywhere, meet
/// errors, take as many as they are told, and go on in another process while rows that they had go away.
#[tokio::test]
async fn parallel_queries_agree_with_a_model() -> TestResult {
    let (server, tables) = in_tables(0).await?;
    for seed in seeds(120) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let state = format!("s{seed}");
        let mut model: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
        for (query, table) in (0..).zip(&tables) {
            let codes: BTreeSet<u32> = (0..random.below(20)).map(|_| random.below(60)).collect();
            fill(table, &state, codes.iter().copied()).await?;
            model.insert(query, codes);
        }
        let mut all: Rows = model
            .iter()
            .flat_map(|(query, codes)| codes.iter().map(|code| (*query, *code)))
            .collect();
        let order = random.below(4);
        let keeps_going = random.one_in(2);
        let fails = random.one_in(2);
        let take = random.one_in(3).then(|| random.below(40));
        let _chaos = random.one_in(2).then(|| server.chaos(Pages::seeded(seed)));

        let (mut rows, mut checkpoint) = (Rows::new(), Checkpoint::default());
        let mut runs = 0;
        while !checkpoint.is_finished() {
            runs += 1;
            assert!(runs < 200, "it comes to an end");
            let _fault = (fails && random.one_in(2)).then(|| {
                let table = tables[random.below(5) as usize].name();
                let nth = random.within(3) + 1;
                let queries = Fault::on(Operation::QueryEntities).resource(table);
                server.inject(queries.nth(nth).close_after_commit())
            });
            let queries = tables.clone().map(|table| {
                let size = random.below(5) + 1;
                table.query(Airport::partition(&state)).page_size(size)
            });
            let mut parallel = Parallel::new(queries)
                .in_flight(random.below(6) as usize)
                .resume(checkpoint.to_string().parse()?);
            parallel = match order {
                0 => parallel,
                1 => parallel.in_given_order(),
                2 => parallel.by_key(),
                _ => parallel.by_row_key(),
            };
            if let Some(take) = take {
                parallel = parallel.take(take.into());
            }
            if keeps_going {
                parallel = parallel.keep_going();
            }
            let mut found = parallel.stream();
            for _ in 0..=random.below(30) {
                match found.next().await {
                    Some(Ok(next)) => rows.push(row(&next)),
                    Some(Err(failure)) => {
                        assert_eq!(failure.error.kind(), ErrorKind::Unavailable, "{failure}");
                    }
                    None => break,
                }
            }
            checkpoint = found.checkpoint();
            if !rows.is_empty() && random.one_in(2) {
                let (query, code) = random.pick(&rows);
                let key = Airport::key(&state, code);
                tables[query].delete_if_exists(key, Match::Any).await?;
            }
        }
        let wanted = all.len().min(take.map_or(usize::MAX, |take| take as usize));
        assert_eq!(rows.len(), wanted);
        if order > 1 {
            all.sort_by_key(|(query, code)| (*code, *query));
        }
        // Which come first is known in an order that no failure was passed over in.
        if order > 0 && !(fails && keeps_going) {
            assert_eq!(rows, all[..wanted]);
        } else {
            let distinct: BTreeSet<_> = rows.iter().copied().collect();
            assert_eq!(distinct.len(), rows.len(), "none comes twice");
            assert!(rows.iter().all(|row| all.contains(row)));
        }
    }
    Ok(())
}
