//! Key ranges: each row is in exactly one of them, they are even where keys are, and their sample is bounded.

use std::collections::BTreeSet;

use rowkey::patterns::ranges::{KeyRange, between, split};
use rowkey::table::Keyed;
use rowkey::{ClientOptions, DecodeError, Entity, Projection, ScanPolicy, StorageAccount, Table};
use rowkey_emulator::{Operation, Pages, Server};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};

use crate::inspect::sample::{Keys, forms, keys, table};

/// Characters of keys: the first and the last of their kinds, and those whose order in UTF-16 is not that of UTF-8.
const CHARACTERS: [char; 14] = [
    ' ',
    '!',
    '\'',
    '0',
    '9',
    'A',
    'z',
    '~',
    '\u{a0}',
    '\u{d7ff}',
    '\u{e000}',
    '\u{fffd}',
    '\u{10000}',
    '\u{10fffd}',
];

fn odd_key(random: &mut Random) -> String {
    let length = random.below(4);
    (0..length).map(|_| random.pick(&CHARACTERS)).collect()
}

/// Odd keys, each once and with one row, the empty one among them.
fn odd_partitions(random: &mut Random, count: usize) -> Vec<(String, usize)> {
    let mut keys = BTreeSet::from([String::new()]);
    while keys.len() < count {
        keys.insert(odd_key(random));
    }
    keys.into_iter().map(|key| (key, 1)).collect()
}

/// The order of the service.
fn units(key: &str) -> Vec<u16> {
    key.encode_utf16().collect()
}

fn has(range: &KeyRange, key: &str) -> bool {
    range.from.as_deref().is_none_or(|from| units(from) <= units(key))
        && range.to.as_deref().is_none_or(|to| units(key) < units(to))
}

/// Checks that the ranges cover all keys and do not overlap.
fn check(ranges: &[KeyRange], parts: usize) {
    assert!((1..=parts.max(1)).contains(&ranges.len()), "{} for {parts}", ranges.len());
    assert!(ranges[0].from.is_none() && ranges[ranges.len() - 1].to.is_none());
    for two in ranges.windows(2) {
        assert!(two[0].to.is_some() && two[0].to == two[1].from, "{two:?}");
        assert_ne!(two[0].to.as_deref(), Some(""));
    }
    let cuts: Vec<_> = ranges.iter().filter_map(|range| range.to.as_deref().map(units)).collect();
    assert!(cuts.is_sorted_by(|one, next| one < next), "they ascend");
}

/// No properties.
struct Nothing;

impl Projection for Nothing {
    const COLUMNS: Option<&'static [&'static str]> = Some(&[]);

    fn decode(_: &rowkey::entity::RowReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

async fn rows(range: &KeyRange, table: &Table) -> TestResult<Vec<Keys>> {
    let rows = range.query::<Keyed<Nothing>>(table).all().await?;
    Ok(rows.into_iter().map(|row| (row.entity.partition_key, row.entity.row_key)).collect())
}

#[tokio::test]
async fn each_row_of_a_table_is_in_one_range() -> TestResult {
    let mut tables = forms();
    tables.push(("nothing", Vec::new()));
    tables.push(("one row", vec![(String::new(), 1)]));
    tables.push(("few rows", odd_partitions(&mut Random(1), 40)));
    tables.push(("odd keys", odd_partitions(&mut Random(2), 1_200)));
    tables.push(("an empty key with many rows", vec![(String::new(), 1_200), ("a".to_owned(), 5)]));
    for (form, partitions) in tables {
        let (server, table) = table(&partitions).await?;
        let all = keys(&partitions);
        for parts in [2, 5, 8, 40] {
            let before = server.journal();
            let ranges = split(&table, parts).await?;
            let sent = server.journal().since(&before).count(Operation::QueryEntities);
            let most = if all.len() <= 1_000 { 1 } else { (1 + 2 * parts).clamp(9, 64) };
            assert!(sent <= most, "{form}, {parts} parts: {sent} requests");
            check(&ranges, parts);
            let mut found = Vec::new();
            for range in &ranges {
                found.extend(rows(range, &table).await?);
            }
            // Each once, and in order.
            assert_eq!(found, all, "{form}, {parts} parts");
            if partitions.len() > 1 {
                assert!(ranges.len() > 1, "{form}, {parts} parts: one range");
            }
        }
    }
    Ok(())
}

#[test]
fn ranges_of_any_keys_divide_all_keys() {
    for seed in seeds(300) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let given: Vec<_> = (0..random.below(60)).map(|_| odd_key(&mut random)).collect();
        let parts = random.below(12) as usize;
        let ranges = between(given.clone(), parts);
        check(&ranges, parts);
        let different: BTreeSet<_> = given.iter().collect();
        assert!(ranges.len() <= different.len().max(1));
        if parts > 1 && different.len() > 1 {
            assert!(ranges.len() > 1);
        }
        for range in &ranges {
            assert!(different.is_empty() || different.iter().any(|key| has(range, key)));
        }
        let others = (0..40).map(|_| odd_key(&mut random));
        for key in given.iter().cloned().chain(others) {
            assert_eq!(ranges.iter().filter(|range| has(range, &key)).count(), 1, "{key:?}");
        }
    }
}

#[tokio::test]
async fn ranges_are_even_where_keys_are() -> TestResult {
    let hundred = |key: &dyn Fn(u32) -> String| (0..100).map(|n| (key(n), 200)).collect::<Vec<_>>();
    let mut worst = Vec::new();
    for (form, partitions) in [
        ("numbers", hundred(&|n| format!("{n}"))),
        ("numbers of a fixed width", hundred(&|n| format!("customer-{n:03}"))),
        ("numbers with zeros in front", hundred(&|n| format!("tenant:{n:08}:eu"))),
        ("hashes", hundred(&|n| format!("{:08x}", n.wrapping_mul(0x9e37_79b9)))),
        ("days", hundred(&|n| format!("2026-{:02}-{:02}", n / 28 + 1, n % 28 + 1))),
    ] {
        let (server, table) = table(&partitions).await?;
        for parts in [4, 8, 16] {
            let before = server.journal();
            let ranges = split(&table, parts).await?;
            let sent = server.journal().since(&before).count(Operation::QueryEntities);
            let mut sizes = Vec::new();
            for range in &ranges {
                sizes.push(rows(range, &table).await?.len());
            }
            assert!(sent <= 2 * parts + 1, "{form}, {parts} parts: {sent} requests");
            assert_eq!(sizes.iter().sum::<usize>(), 20_000);
            let largest = sizes.iter().max().copied().unwrap_or_default();
            if ranges.len() <= parts / 2 || largest > 2 * 20_000 / parts {
                worst.push(format!("{form}, {parts} parts: {sizes:?}"));
            }
        }
    }
    assert!(worst.is_empty(), "{worst:#?}");
    Ok(())
}

#[tokio::test]
async fn short_and_empty_pages_and_a_scan_policy_change_no_promise() -> TestResult {
    let partitions = odd_partitions(&mut Random(3), 1_100);
    let (server, table) = table(&partitions).await?;
    let options = ClientOptions { scan_policy: ScanPolicy::Deny, ..ClientOptions::default() };
    let table = table.with_options(options);
    for seed in 0..10 {
        let _chaos = server.chaos(Pages::seeded(seed));
        let ranges = split(&table, 6).await?;
        check(&ranges, 6);
        let mut found = Vec::new();
        for range in &ranges {
            found.extend(rows(range, &table).await?);
        }
        assert_eq!(found, keys(&partitions));
    }
    Ok(())
}

#[derive(Entity)]
#[entity(partition = "{name}", row = "_")]
struct User {
    name: String,
}

#[tokio::test]
async fn one_part_and_tables_without_an_order_take_no_request() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let users = account.table("users");
    let error = split(&users, 2).await.unwrap_err();
    assert!(error.to_string().contains("users"), "{error}");
    users.create().await?;
    for name in ["ada", "grace", "zoe"] {
        users.insert(&User { name: name.to_owned() }).await?;
    }
    let before = server.journal();
    assert_eq!(split(&users, 1).await?, [KeyRange::all()]);
    assert_eq!(split(&users, 0).await?, [KeyRange::all()]);
    let cosmos = StorageAccount::builder().connection_string(server.connection_string())?.cosmos();
    assert_eq!(split(&cosmos.build()?.table("users"), 8).await?, [KeyRange::all()]);
    assert_eq!(server.journal().since(&before).count(Operation::QueryEntities), 0);

    let ranges = split(&users, 2).await?;
    let mut names = Vec::new();
    for range in &ranges {
        let explained = range.explain(&users)?;
        assert_eq!(explained.requests.len(), 1);
        let users = range.within(users.scan::<User>()).all().await?;
        names.push(users.into_iter().map(|user| user.entity.name).collect::<Vec<_>>());
    }
    assert_eq!(names, [vec!["ada", "grace"], vec!["zoe"]]);
    Ok(())
}
