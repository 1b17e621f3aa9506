//! The requests of single writes, as `docs/src/concepts/cost.md` shows them.

use std::pin::pin;

use futures_util::future::select;
use futures_util::stream;
use rowkey::store::Store;
use rowkey::{Entity, Key, Result, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

const PAGE: &str = include_str!("../../docs/src/concepts/cost.md");

/// A unique value, two indexes in the partition, one elsewhere, and a field in a blob.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "parcel_{id:4}")]
#[entity(index(name = by_state, row = "state_{state}", many))]
#[entity(index(name = by_courier, row = "courier_{courier}", many))]
#[entity(index(name = by_email, partition = "email_{email}", row = "{tenant}_{id}", copy(state)))]
#[entity(unique(name = by_number, value = "{number}"))]
struct Parcel {
    tenant: String,
    id: u32,
    state: String,
    courier: String,
    email: String,
    number: String,
    grams: i64,
    #[entity(blob)]
    scan: Option<Vec<u8>>,
}

/// The same with whole copies elsewhere.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "whole_{id:4}")]
#[entity(index(name = by_email, partition = "email_{email}", row = "whole_{tenant}_{id}"))]
struct Whole {
    tenant: String,
    id: u32,
    email: String,
    grams: i64,
}

/// Declarations in its own partition alone.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "local_{id:4}")]
#[entity(index(name = by_state, row = "state_{state}", many))]
#[entity(index(name = by_courier, row = "courier_{courier}", many))]
struct Local {
    tenant: String,
    id: u32,
    state: String,
    courier: String,
}

fn parcel(id: u32, scan: Option<Vec<u8>>) -> Parcel {
    Parcel {
        tenant: "contoso".into(),
        id,
        state: "new".into(),
        courier: "kim".into(),
        email: format!("{id}@contoso.com"),
        number: format!("P{id}"),
        grams: 500,
        scan,
    }
}

fn key(id: u32) -> Key<Parcel> {
    Parcel::key("contoso", id)
}

fn store<E: Entity + Clone + Send + Sync + 'static>(account: &StorageAccount) -> Result<Store<E>> {
    let store = Store::builder(account.table("parcels")).queue(account.queue("parcels"));
    store.blobs(account.container("parcels")).build()
}

async fn start() -> Result<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let account = account(&server)?;
    store::<Parcel>(&account)?.create_if_missing().await?;
    Ok((server, account))
}

/// Asserts that the page has this row of the table of single writes.
fn shows<T: ToString>(what: &str, counts: &[T]) {
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        (cells.get(1) == Some(&what)).then(|| cells[2..].join(" "))
    };
    let found =
        PAGE.lines().find_map(row).unwrap_or_else(|| panic!("the page has no row `{what}`"));
    let counts: Vec<_> = counts.iter().map(T::to_string).collect();
    // The last cell is empty.
    let mut shown: Vec<_> = found.split_whitespace().collect();
    shown.remove(0);
    assert_eq!(shown, counts, "{what}: the first number is that of the version before");
}

#[tokio::test]
async fn single_writes_cost_the_requests_that_the_page_shows() -> TestResult {
    let (server, account) = start().await?;
    let parcels = store::<Parcel>(&account)?;
    let other = store::<Parcel>(&account)?;
    let count = || server.journal().len();
    let since = |before: usize| server.journal().len() - before;

    // What the program has written it need not look at; another program looks.
    let mut counts = Vec::new();
    for (number, scan) in [(0, Some(vec![7; 100_000])), (10, None)] {
        for (id, writer) in [(number + 1, &parcels), (number + 2, &other)] {
            let before = count();
            parcels.insert(&parcel(id, scan.clone())).await?;
            counts.push(("insert", since(before)));

            let plan = writer.explain().update(key(id), |parcel| parcel.grams += 1).await?;
            // The blob is read, too.
            let blobs = usize::from(scan.is_some());
            assert_eq!((plan.reads(), plan.requests()), (1 + blobs, 1), "{plan}");
            let before = count();
            writer.update(key(id), |parcel| parcel.grams += 1).await?;
            counts.push(("grams", since(before)));

            let email = |parcel: &mut Parcel| parcel.email += ".uk";
            let plan = writer.explain().update(key(id), email).await?;
            let before = count();
            writer.update(key(id), email).await?;
            counts.push(("email", since(before)));
            assert_eq!(since(before), plan.reads() + plan.requests(), "{plan}");

            let number = |parcel: &mut Parcel| parcel.number += "a";
            let plan = writer.explain().update(key(id), number).await?;
            let before = count();
            writer.update(key(id), number).await?;
            counts.push(("number", since(before)));
            assert_eq!(since(before), plan.reads() + plan.requests(), "{plan}");

            // Another program has written nothing elsewhere.
            let new = store::<Parcel>(&account)?;
            let writer = if std::ptr::eq(writer, &raw const other) { &new } else { writer };
            let plan = writer.explain().delete(key(id)).await?;
            let before = count();
            assert!(writer.delete(key(id)).await?);
            counts.push(("delete", since(before)));
            assert_eq!(since(before), plan.reads() + plan.requests(), "{plan}");
        }
    }
    let of = |what: &str| -> Vec<usize> {
        let of = counts.iter().filter(|(other, _)| *other == what);
        of.map(|(_, count)| *count).collect()
    };
    // With a blob and without, by the program that wrote the rows elsewhere and by another one.
    assert_eq!(of("insert"), [7, 7, 6, 6]);
    // An update reads the blob, too.
    assert_eq!(of("grams"), [3, 3, 2, 2]);
    assert_eq!(of("email"), [8, 9, 7, 8]);
    assert_eq!(of("number"), [8, 9, 7, 8]);
    assert_eq!(of("delete"), [8, 10, 7, 9]);
    shows("insert", &[6]);
    shows("insert, with a blob", &[7]);
    shows("update of a property that no index has", &[2]);
    shows("update of the value of an index elsewhere", &[7]);
    shows("update of the unique value", &[7]);
    shows("delete", &[7]);
    shows("delete, with a blob", &[8]);
    shows("delete, by another program", &[9]);
    parcels.insert(&parcel(20, None)).await?;
    let new = store::<Parcel>(&account)?;
    assert!(new.find(Parcel::by_number("P20")).await?.is_some());
    let before = count();
    assert!(new.delete(key(20)).await?);
    shows("delete, by another program that found it by the unique value", &[since(before)]);

    let left = server.snapshot();
    assert_eq!(left.table("parcels").unwrap().entities().count(), 0, "nothing is left over");
    Ok(())
}

#[tokio::test]
async fn whole_copies_and_local_declarations_cost_what_the_page_shows() -> TestResult {
    let (server, account) = start().await?;
    let (wholes, locals) = (store::<Whole>(&account)?, store::<Local>(&account)?);
    let count = || server.journal().len();
    let tenant = || "contoso".to_owned();
    let whole = Whole { tenant: tenant(), id: 1, email: "ada".into(), grams: 1 };
    wholes.insert(&whole).await?;
    let before = count();
    wholes.update(Whole::key("contoso", 1), |whole| whole.grams += 1).await?;
    shows("update of a property that a whole copy elsewhere has", &[count() - before]);
    assert_eq!(count() - before, 6);

    let parcels = store::<Parcel>(&account)?;
    parcels.insert(&parcel(1, None)).await?;
    let before = count();
    assert!(parcels.find(Parcel::by_email("1@contoso.com", "contoso", 1_u32)).await?.is_some());
    shows("`find` through an index elsewhere", &[count() - before]);

    let (state, courier) = ("new".to_owned(), "kim".to_owned());
    let before = count();
    locals.insert(&Local { tenant: tenant(), id: 1, state, courier }).await?;
    shows("insert with declarations in the partition alone", &[count() - before]);
    Ok(())
}

/// A write that ends while others are in flight leaves its op row and its message to those.
#[tokio::test]
async fn writes_in_flight_share_their_clean_up() -> TestResult {
    const WRITES: u32 = 32;
    let (server, account) = start().await?;
    let parcels = store::<Parcel>(&account)?;
    // One write is in flight all the time.
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let slow = parcel(99, None);
    let mut slow = pin!(parcels.insert(&slow));
    select(slow.as_mut(), pin!(held.wait_until_held())).await;

    let each = |before: usize| {
        let tenths = (server.journal().len() - before) * 10;
        let each = (tenths + WRITES as usize / 2) / WRITES as usize;
        format!("{}.{}", each / 10, each % 10)
    };
    let before = server.journal().len();
    for id in 0..WRITES {
        parcels.insert(&parcel(id, None)).await?;
    }
    shows("insert, while others are in flight", &[each(before)]);
    let before = server.journal().len();
    for id in 0..WRITES {
        parcels.update(key(id), |parcel| parcel.email += ".uk").await?;
    }
    shows("update of an index elsewhere, while others are in flight", &[each(before)]);
    let before = server.journal().len();
    for id in 0..WRITES {
        assert!(parcels.delete(key(id)).await?);
    }
    shows("delete, while others are in flight", &[each(before)]);

    held.release();
    slow.await?;
    let left = server.snapshot();
    let rows = left.table("parcels").unwrap().entities();
    assert_eq!(rows.filter(|row| row.row_key().starts_with("op_")).count(), 0);
    assert_eq!(left.queue("parcels").unwrap().messages().count(), 0, "the last one cleans up");
    assert!(parcels.delete(key(99)).await?);
    Ok(())
}

/// A parcel whose claims are spread over four partitions.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "spread_{id:4}")]
#[entity(index(name = by_state, row = "state_{state}", many))]
#[entity(index(name = by_courier, row = "courier_{courier}", many))]
#[entity(index(name = by_email, partition = "email_{email}", row = "{tenant}_{id}", copy(state)))]
#[entity(unique(name = by_number, value = "{number}", buckets = 4))]
struct Spread {
    tenant: String,
    id: u32,
    state: String,
    courier: String,
    email: String,
    number: String,
    grams: i64,
    #[entity(blob)]
    scan: Option<Vec<u8>>,
}

fn spread(id: u32, scan: Option<Vec<u8>>) -> Spread {
    let Parcel { tenant, id, state, courier, email, number, grams, scan } = parcel(id, scan);
    Spread { tenant, id, state, courier, email, number, grams, scan }
}

/// The entities of a job: enough that the requests of its end do not count.
const MANY: u32 = 1000;

/// Loads entities of one partition and deletes them. Returns the requests of both for each entity.
async fn of_jobs<E>(entity: impl Fn(u32) -> E, all: rowkey::Partition<E>) -> TestResult<[f64; 2]>
where
    E: Entity + Clone + Send + Sync + 'static,
    rowkey::Partition<E>: Clone,
{
    let (server, account) = start().await?;
    let each = |before: usize| {
        let sent = u32::try_from(server.journal().len() - before).unwrap();
        f64::from(sent) / f64::from(MANY)
    };
    let before = server.journal().len();
    let entities = (0..MANY).map(entity).collect::<Vec<_>>();
    let report = store::<E>(&account)?.load(stream::iter(entities)).run().await?;
    assert!(report.is_clean() && report.total.right == u64::from(MANY), "{report:?}");
    let loaded = each(before);
    let before = server.journal().len();
    // Another program: it has written none of the rows elsewhere.
    let report = store::<E>(&account)?.delete_where(all).run().await?;
    assert!(report.is_clean() && report.total.right == u64::from(MANY), "{report:?}");
    let left = server.snapshot();
    assert_eq!(left.table("parcels").unwrap().entities().count(), 0, "nothing is left over");
    assert_eq!(left.queue("parcels").unwrap().messages().count(), 0);
    Ok([loaded, each(before)])
}

#[tokio::test]
async fn jobs_cost_the_requests_that_the_page_shows() -> TestResult {
    let scan = || Some(vec![7; 100]);
    let local = |id| {
        let (state, courier) = ("new".to_owned(), "kim".to_owned());
        Local { tenant: "contoso".into(), id, state, courier }
    };
    let costs = [
        ("declarations in the partition alone", of_jobs(local, Local::partition("contoso")).await?),
        ("all of them", of_jobs(|id| parcel(id, None), Parcel::partition("contoso")).await?),
        ("with a blob", of_jobs(|id| parcel(id, scan()), Parcel::partition("contoso")).await?),
        ("`buckets = 4`", of_jobs(|id| spread(id, None), Spread::partition("contoso")).await?),
        (
            "`buckets = 4`, with a blob",
            of_jobs(|id| spread(id, scan()), Spread::partition("contoso")).await?,
        ),
    ];
    for (of, [loaded, deleted]) in costs {
        let shown = |cost: f64| {
            if cost < 0.1 { format!("{cost:.2}") } else { format!("{cost:.1}") }
        };
        shows(&format!("`load`, {of}"), &[shown(loaded)]);
        shows(&format!("`delete_where`, {of}"), &[shown(deleted)]);
    }
    Ok(())
}

/// The entities of a repair: as many as the journal holds the requests of.
const DAMAGED: u32 = 330;

/// Loads entities of one partition and deletes the rows that `is_lost` chooses, as a program without the store does.
/// Returns the requests of the repair for each entity.
async fn of_repair<E: Entity + Clone + Send + Sync + 'static>(
    entity: impl Fn(u32) -> E + Sync,
    is_lost: impl Fn(&str) -> bool + Sync,
) -> TestResult<f64> {
    let (server, account) = start().await?;
    let entities = (0..DAMAGED).map(entity).collect::<Vec<_>>();
    store::<E>(&account)?.load(stream::iter(entities)).run().await?;
    let whole = server.snapshot();
    let rows = whole.table("parcels").unwrap().len();
    let table = account.table("parcels");
    for row in whole.table("parcels").unwrap().entities().filter(|row| is_lost(row.row_key())) {
        let key = Key::<rowkey::DynamicEntity>::new(row.partition_key(), row.row_key());
        table.delete(key, rowkey::Match::Any).await?;
    }
    let is_whole = !is_lost("spread_0001") && !is_lost("local_0001");
    let before = server.journal().len();
    // Another program.
    let report = store::<E>(&account)?.repair().run().await?;
    assert!(report.is_clean(), "{report:?}");
    let sent = u32::try_from(server.journal().len() - before)?;
    let after = server.snapshot();
    let after = after.table("parcels").unwrap();
    let voids = after.entities().filter(|row| row.row_key().starts_with("op_")).count();
    assert_eq!(after.len() - voids, if is_whole { rows } else { 0 });
    assert!(store::<E>(&account)?.verify().run().await?.is_clean());
    Ok(f64::from(sent) / f64::from(DAMAGED))
}

#[tokio::test]
async fn repairs_cost_the_requests_that_the_page_shows() -> TestResult {
    let local = |id| {
        let (state, courier) = ("new".to_owned(), "kim".to_owned());
        Local { tenant: "contoso".into(), id, state, courier }
    };
    let is_head = |row: &str| row.starts_with("spread_") || row.starts_with("local_");
    let shown = |cost: f64| format!("{cost:.1}");
    let costs = [
        ("a copy in the partition", of_repair(local, |row| row.starts_with("state_")).await?),
        (
            "`buckets = 4`, a claim",
            of_repair(|id| spread(id, None), |row| row.starts_with("claim_")).await?,
        ),
        (
            "`buckets = 4`, all rows but the entity",
            of_repair(|id| spread(id, None), |row| !is_head(row)).await?,
        ),
        ("`buckets = 4`, the entity", of_repair(|id| spread(id, None), is_head).await?),
    ];
    eprintln!("{costs:?}");
    for (of, cost) in costs {
        shows(&format!("`repair`, lost: {of}"), &[shown(cost)]);
    }
    Ok(())
}
