//! The sample of the inspector: it has rows of the whole key range, in a bounded number of requests.

use std::collections::BTreeSet;

use rowkey::patterns::inspect::{Sample, inspect, sample};
use rowkey::{DynamicEntity, StorageAccount, Table, Transaction};
use rowkey_emulator::{ErrorCode, Fault, Operation, Pages, Server};
use rowkey_tests::TestResult;

/// The PartitionKey and the RowKey.
pub(crate) type Keys = (String, String);

/// A table of these partitions, each with as many rows as named.
pub(crate) async fn table(partitions: &[(String, usize)]) -> TestResult<(Server, Table)> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("things");
    table.create().await?;
    for (partition, rows) in partitions {
        let all: Vec<_> =
            (0..*rows).map(|row| DynamicEntity::new(partition, format!("{row:06}"))).collect();
        for hundred in all.chunks(100) {
            hundred.iter().fold(table.transaction(), Transaction::insert).submit().await?;
        }
    }
    Ok((server, table))
}

#[tokio::test]
async fn a_table_whose_first_partitions_differ_from_later_ones_is_reported_as_it_is() -> TestResult
{
    let partitions: Vec<_> = (0..30).map(|n| (format!("a{n:02}"), 100)).collect();
    let (server, table) = table(&partitions).await?;
    for n in 0..20_u32 {
        let mut row = DynamicEntity::new(format!("z{n:02}"), format!("order_{n:06}"));
        row.set("Cents", i64::from(n));
        table.insert(&row).await?;
    }
    let before = server.journal();
    let found = inspect(&table, 500).await?;
    assert_eq!((found.rows, found.complete), (500, false));
    assert!(found.columns.contains_key("Cents"), "{found}");
    assert!(found.row_keys.contains_key("text_number:6"), "{found}");
    assert!(found.row_keys["number:6"] > 400, "{found}");
    let sent = server.journal().since(&before).count(Operation::QueryEntities);
    assert!(sent <= 64 + 64 + 1, "{sent} requests");
    Ok(())
}

/// All keys of a table of these partitions, in order.
pub(crate) fn keys(partitions: &[(String, usize)]) -> Vec<Keys> {
    let mut all: Vec<_> = partitions
        .iter()
        .flat_map(|(key, rows)| (0..*rows).map(|row| (key.clone(), format!("{row:06}"))))
        .collect();
    // The order of the service.
    let units = |key: &str| key.encode_utf16().collect::<Vec<_>>();
    all.sort_by_cached_key(|(partition, row)| (units(partition), units(row)));
    all
}

/// The rows of a sample, each once.
async fn read(sample: &mut Sample) -> TestResult<BTreeSet<Keys>> {
    let mut all = BTreeSet::new();
    while let Some(row) = sample.next().await? {
        let row = row.entity;
        assert!(all.insert((row.partition_key, row.row_key)), "a row twice");
    }
    Ok(all)
}

/// Tables of several forms, each of more than one page.
pub(crate) fn forms() -> Vec<(&'static str, Vec<(String, usize)>)> {
    let of = |keys: &[(&str, usize)]| {
        keys.iter().map(|(key, rows)| ((*key).to_owned(), *rows)).collect()
    };
    let many = |key: &dyn Fn(u32) -> String| (0..1_500).map(|n| (key(n), 1)).collect();
    let mut dense: Vec<_> = (0..1_480).map(|n| (format!("order-{n:05}"), 1)).collect();
    dense.extend(["a", "b", "z", "~settings"].map(|key| (key.to_owned(), 5)));
    vec![
        ("one partition", of(&[("only", 1_500)])),
        ("two partitions", of(&[("contoso.example.com", 800), ("fabrikam.example.com", 800)])),
        ("numbers behind a prefix", many(&|n| format!("device-{n:05}"))),
        ("hashes", many(&|n| format!("{:08x}", n.wrapping_mul(0x9e37_79b9)))),
        ("a dense prefix and rare ones", dense),
        ("a rare prefix first", of(&[("a", 2), ("b", 1_500)])),
        ("a rare prefix last", of(&[("a", 1_500), ("b", 2)])),
        (
            "days",
            many(&|n| format!("2026-{:02}-{:02}T{:02}", n / 672 + 1, n / 24 % 28 + 1, n % 24)),
        ),
        (
            "letters",
            many(&|n| {
                let letter = |place: u32| char::from(b'a' + u8::try_from(n / place % 26).unwrap());
                [letter(676), letter(26), letter(1)].iter().collect()
            }),
        ),
        (
            "other scripts",
            many(&|n| {
                let of = |base: u32| char::from_u32(base + n * 13 % 5_000).unwrap();
                format!("{}{n:04}", of([0x4e00, 0xac00, 0x2_0000][n as usize % 3]))
            }),
        ),
        ("long keys", (0..15).map(|n| (format!("{}{n:02}", "x".repeat(510)), 100)).collect()),
    ]
}

#[tokio::test]
async fn a_sample_has_rows_of_each_tenth_of_the_table() -> TestResult {
    for (form, partitions) in forms() {
        let (server, table) = table(&partitions).await?;
        let all = keys(&partitions);
        let before = server.journal();
        let mut sample = sample(&table, 320);
        let found = read(&mut sample).await.map_err(|error| format!("{form}: {error}"))?;
        let sent = server.journal().since(&before).count(Operation::QueryEntities);
        assert_eq!((found.len(), sample.is_complete()), (320, false), "{form}");
        let tenths = all.chunks(all.len().div_ceil(10));
        let counts: Vec<_> =
            tenths.map(|tenth| tenth.iter().filter(|key| found.contains(*key)).count()).collect();
        assert!(counts.iter().all(|count| (3..=140).contains(count)), "{form}: {counts:?}");
        assert!(sent <= 100, "{form}: {sent} requests");
        // Each prefix that few keys have.
        for (key, rows) in partitions.iter().filter(|(_, rows)| (2..=5).contains(rows)) {
            let of_it = found.iter().filter(|(partition, _)| partition == key).count();
            assert!(of_it > 0 || key == "b" && *rows == 5, "{form}: no row of {key}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn fewer_places_take_fewer_requests_and_are_spread_as_well() -> TestResult {
    let hundred = |key: &dyn Fn(u32) -> String| (0..100).map(|n| (key(n), 200)).collect::<Vec<_>>();
    let forms = [
        ("numbers", hundred(&|n| format!("{n:02}"))),
        ("numbers behind a prefix", hundred(&|n| format!("customer-{n:04}"))),
        ("hashes", hundred(&|n| format!("{:08x}", n.wrapping_mul(0x9e37_79b9)))),
        ("days", hundred(&|n| format!("2026-{:02}-{:02}", n / 28 + 1, n % 28 + 1))),
    ];
    for (form, partitions) in forms {
        let (server, table) = table(&partitions).await?;
        let all = keys(&partitions);
        for (places, most) in [(8, 24), (1, 3), (2, 8), (0, 3), (33, 200)] {
            let before = server.journal();
            let mut sample = sample(&table, 200).places(places);
            assert_eq!(sample.requests(), 0);
            let found = read(&mut sample).await?;
            let sent = server.journal().since(&before).count(Operation::QueryEntities);
            assert_eq!((found.len(), sample.requests()), (200, sent as u64), "{form}, {places}");
            assert!(sent <= most, "{form}, {places} places: {sent} requests");
            if places >= 8 {
                let last = all.binary_search(found.last().ok_or("has rows")?);
                assert!(last.is_ok_and(|at| at >= 15_000), "{form}, {places} places: {last:?}");
                let quarters = all.chunks(5_000);
                let has_some = |quarter: &[Keys]| quarter.iter().any(|key| found.contains(key));
                let counts = quarters.filter(|quarter| has_some(quarter)).count();
                assert!(counts >= 3, "{form}, {places} places: rows of {counts} quarters");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn rows_at_the_end_of_large_partitions_are_in_the_sample() -> TestResult {
    let partitions: Vec<_> = (0..40).map(|n| (format!("shop-{n:02}"), 100)).collect();
    let (_server, table) = table(&partitions).await?;
    let found = read(&mut sample(&table, 640)).await?;
    assert!(found.iter().any(|(_, row)| &**row > "000080"), "{found:?}");
    Ok(())
}

#[tokio::test]
async fn a_table_that_is_not_larger_than_the_sample_is_read_whole() -> TestResult {
    let (server, table) = table(&[]).await?;
    let mut none = sample(&table, 10);
    assert!(!none.is_complete(), "nothing was read");
    assert!(none.next().await?.is_none() && none.is_complete());
    let mut row = DynamicEntity::new("p", "r");
    row.set("A", 1_i32);
    table.insert(&row).await?;
    let before = server.journal();
    assert!(inspect(&table, 1).await?.complete);
    assert_eq!(server.journal().since(&before).count(Operation::QueryEntities), 1);
    let mut nothing = sample(&table, 0);
    assert!(nothing.next().await?.is_none() && !nothing.is_complete());

    for (form, partitions) in forms() {
        let (_server, table) = self::table(&partitions).await?;
        let all: BTreeSet<_> = keys(&partitions).into_iter().collect();
        for rows in [all.len() - 1, all.len(), all.len() + 1, 1_000_000] {
            let mut sample = sample(&table, rows as u64);
            let found = read(&mut sample).await?;
            assert_eq!(found.len(), all.len().min(rows), "{form}, {rows}");
            assert_eq!(sample.is_complete(), rows >= all.len(), "{form}, {rows}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn short_and_empty_pages_change_neither_the_rows_nor_whether_they_are_all() -> TestResult {
    for (seed, (form, partitions)) in (1..).zip(forms()) {
        let (server, table) = table(&partitions).await?;
        let all: BTreeSet<_> = keys(&partitions).into_iter().collect();
        let _chaos = server.chaos(Pages::seeded(seed));
        for rows in [200, all.len(), 2_000] {
            let mut sample = sample(&table, rows as u64);
            let found = read(&mut sample).await?;
            assert_eq!(found.len(), all.len().min(rows), "{form}");
            assert_eq!(sample.is_complete(), rows >= all.len(), "{form}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_read_that_failed_is_repeated_by_the_next_call() -> TestResult {
    let partitions: Vec<_> = (0..150).map(|n| (format!("k{n:03}"), 10)).collect();
    let (server, table) = table(&partitions).await?;
    for failed in (1..60).step_by(4) {
        let fault = Fault::on(Operation::QueryEntities).nth(failed).times(1);
        let _injected = server.inject(fault.reject(ErrorCode::AUTHENTICATION_FAILED));
        let (mut sample, mut found, mut errors) = (sample(&table, 2_000), BTreeSet::new(), 0);
        loop {
            match sample.next().await {
                Ok(Some(row)) => {
                    assert!(found.insert((row.entity.partition_key, row.entity.row_key)));
                }
                Ok(None) => break,
                Err(_) => errors += 1,
            }
        }
        assert!(errors <= 1 && (errors == 1 || failed > 40), "{errors} errors");
        assert_eq!((found.len(), sample.is_complete()), (1_500, true), "{failed}");
    }
    Ok(())
}

#[tokio::test]
async fn rows_without_an_order_are_read_page_after_page() -> TestResult {
    let partitions: Vec<_> = (0..30).map(|n| (format!("k{n:02}"), 50)).collect();
    let (server, table) = table(&partitions).await?;
    let cosmos = StorageAccount::builder().connection_string(server.connection_string())?.cosmos();
    let table = cosmos.build()?.table(table.name());
    let before = server.journal();
    let mut some = sample(&table, 1_200);
    let found = read(&mut some).await?;
    assert_eq!((found.len(), some.is_complete()), (1_200, false));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), keys(&partitions)[..1_200]);
    assert!(server.journal().since(&before).count(Operation::QueryEntities) <= 3);
    let mut all = sample(&table, 1_500);
    assert_eq!((read(&mut all).await?.len(), all.is_complete()), (1_500, true));
    Ok(())
}
