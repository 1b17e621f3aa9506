//! Ranges that are split while they are read: each row is seen once, for keys of every form, and after a resume from each
//! checkpoint.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rowkey_client::{
    Clock as _, DynamicEntity, ErrorKind, Filter, ManualClock, Operator, Page, StorageAccount,
    SystemClock, Table, Transaction,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};

use super::{Checkpoint, Job, Report, Verdict, Walk};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

const PLACES: usize = 6;
const PAGE: u32 = 10;

/// A server, and a table of rows with these PartitionKeys, each with as many rows as named.
async fn table(partitions: &[(String, usize)]) -> TestResult<(Server, Table)> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("things");
    table.create().await?;
    for (partition, rows) in partitions {
        let all: Vec<_> =
            (0..*rows).map(|row| DynamicEntity::new(partition, format!("{row:04}"))).collect();
        for hundred in all.chunks(100) {
            hundred.iter().fold(table.transaction(), Transaction::insert).submit().await?;
        }
    }
    Ok((server, table))
}

fn walk(table: &Table) -> Walk<DynamicEntity> {
    let walk = Walk::new(table, |table| table.scan::<DynamicEntity>().page_size(PAGE));
    walk.split_automatically()
}

/// Keys of several forms.
fn forms() -> Vec<(&'static str, Vec<(String, usize)>)> {
    let few = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), 30)).collect();
    vec![
        ("no rows", vec![]),
        ("one partition", vec![("only".to_owned(), 400)]),
        ("numbers behind a prefix", (0..40).map(|n| (format!("device-{n:05}"), 12)).collect()),
        ("a row each", (0..400).map(|n| (format!("{:08x}", n * 10_736_423_u32), 1)).collect()),
        (
            "most in the first",
            vec![("a".to_owned(), 300), ("b".to_owned(), 5), ("c".to_owned(), 5)],
        ),
        ("most in the last", vec![("a".to_owned(), 5), ("b".to_owned(), 5), ("c".to_owned(), 300)]),
        (
            "empty, prefixes, other scripts",
            few(&["", "a", "aa", "aaa", "b", "é", "日本", "日本語", "\u{ffee}", "😀", "😀a"]),
        ),
        // Probes ask for `#`, `/`, `?` and `\`, which no key has.
        (
            "before characters that are not allowed",
            few(&[
                "\"", "'", "''a", ".", "0", ">", "A", "[", "]", "a'b", "~", "\u{d7ff}", "\u{fffd}",
            ]),
        ),
        ("1 KiB", (0..20).map(|n| (format!("{}{n:02}", "x".repeat(510)), 30)).collect()),
    ]
}

#[tokio::test]
async fn each_row_is_seen_once() -> TestResult {
    for (form, partitions) in forms() {
        let (server, table) = table(&partitions).await?;
        let rows: usize = partitions.iter().map(|(_, rows)| rows).sum();
        let (seen, before) = (Mutex::new(Vec::new()), server.journal().len());
        let (mut ranges, last) = (0, AtomicU64::new(0));
        let step = |page: Page<DynamicEntity>| {
            last.fetch_add(page.continuation.is_none().into(), Ordering::Relaxed);
            let keys = page
                .entities
                .iter()
                .map(|row| (row.entity.partition_key.clone(), row.entity.row_key.clone()));
            let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            seen.extend(keys);
            let number = page.entities.len() as u64;
            async move { Ok(Report::of(Verdict::Right, number)) }
        };
        let job = Job::walk("see", walk(&table), step).concurrency(PLACES);
        let report = job.progress(|progress| ranges = progress.units.unwrap_or(0)).run().await?;
        assert_eq!(last.into_inner(), ranges, "{form}: pages without a continuation");
        let seen = seen.into_inner()?;
        assert_eq!((report.total.right, seen.len()), (rows as u64, rows), "{form}");
        assert_eq!(seen.iter().collect::<HashSet<_>>().len(), rows, "{form}");
        if partitions.len() > 20 {
            assert!(ranges >= PLACES as u64, "{form}: {ranges} ranges");
        }
        // Each range has a page that is not full, and one row behind its end.
        let pages = rows as u64 / u64::from(PAGE) + 2 * ranges;
        let most = pages + 3 * PLACES as u64 + pages / 4 + 1;
        let sent = (server.journal().len() - before) as u64;
        assert!(sent <= most, "{form}: {sent} requests, {most} at most, {ranges} ranges");
    }
    Ok(())
}

#[tokio::test]
async fn a_walk_of_several_queries_or_with_a_limit_has_the_rows_of_one_that_is_not_split()
-> TestResult {
    let (server, table) = table(&[]).await?;
    for partition in 0..40 {
        let rows = (0..20).map(|row| {
            let mut row = DynamicEntity::new(format!("k{partition:02}"), format!("{row:04}"));
            row.set("Color", row.row_key.clone());
            row
        });
        rows.fold(table.transaction(), |all, row| all.insert(&row)).submit().await?;
    }
    // More alternatives than one request may have.
    let walk = || {
        let colors = || (0..20).map(|n| is_color(&format!("{n:04}"))).reduce(Filter::or);
        Walk::new(&table, move |table| {
            let scan = table.scan::<DynamicEntity>().page_size(PAGE);
            colors().into_iter().fold(scan, rowkey_client::Query::filter)
        })
    };
    assert_eq!(Job::count(walk()).run().await?.total.right, 800);
    let split = Job::count(walk().split_automatically()).concurrency(PLACES).run().await?;
    assert_eq!(split.total.right, 800);
    let few = Walk::new(&table, |table| table.scan::<DynamicEntity>().page_size(PAGE).take(100));
    let limited = Job::count(few.split_automatically()).concurrency(PLACES).run().await?;
    assert_eq!(limited.total.right, 100, "the limit is that of the walk, not of each range");
    drop(server);
    Ok(())
}

fn is_color(color: &str) -> Filter {
    Filter::dynamic("Color", Operator::Equal, color)
}

#[tokio::test]
async fn a_deletion_is_split_as_its_walk_says() -> TestResult {
    let partitions: Vec<_> = (0..30).map(|n| (format!("k{n:02}"), 9)).collect();
    let (_server, table) = table(&partitions).await?;
    let mut ranges = 0;
    let job = Job::delete(walk(&table)).concurrency(PLACES);
    let report = job.progress(|progress| ranges = progress.units.unwrap_or(0)).run().await?;
    assert_eq!(report.total.right, 270);
    assert!(ranges > 3, "{ranges} ranges");
    assert_eq!(Job::count(walk(&table)).run().await?.total.right, 0);
    Ok(())
}

#[tokio::test]
async fn a_walk_resumes_from_each_checkpoint() -> TestResult {
    let partitions: Vec<_> = (0..30).map(|n| (format!("k{n:02}"), 9)).collect();
    let (_server, table) = table(&partitions).await?;
    let mut checkpoints: Vec<String> = Vec::new();
    let job = || Job::count(walk(&table)).concurrency(PLACES);
    job().progress(|progress| checkpoints.push(progress.checkpoint.to_string())).run().await?;
    let ranges = checkpoints.iter().map(|text| text.matches("\"from\"").count()).max();
    assert!(ranges > Some(3) && checkpoints.len() > 20);
    for text in &checkpoints {
        let checkpoint: Checkpoint = text.parse()?;
        let resumed = job().concurrency(2).resume(checkpoint).run().await?;
        assert_eq!(resumed.total.right, 270, "{text}");
    }
    // A walk that would leave out the ranges that were added.
    let unsplit = Walk::new(&table, |table| table.scan::<DynamicEntity>().page_size(PAGE));
    let middle: Checkpoint = checkpoints[checkpoints.len() / 2].parse()?;
    let refused = Job::count(unsplit).resume(middle).run().await;
    let Err(refused) = refused else { return Err("the checkpoint of a split walk".into()) };
    assert_eq!(refused.error.kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn refused_and_lost_requests_lose_no_rows() -> TestResult {
    let partitions: Vec<_> = (0..30).map(|n| (format!("k{n:02}"), 9)).collect();
    let (server, _) = table(&partitions).await?;
    for skipped in 0..40 {
        // Pauses end at once.
        let account = StorageAccount::builder()
            .connection_string(server.connection_string())?
            .clock(ManualClock::auto_advancing(SystemClock.now()))
            .build()?;
        let table = account.table("things");
        let fault = Fault::on(Operation::QueryEntities).nth(skipped + 1).times(2);
        let fault = if skipped % 2 == 0 {
            fault.reject(ErrorCode::SERVER_BUSY)
        } else {
            fault.close_after_commit()
        };
        let injected = server.inject(fault);
        let counted = Job::count(walk(&table)).concurrency(PLACES).run().await?;
        assert_eq!(counted.total.right, 270, "after {skipped} requests");
        drop(injected);
    }
    Ok(())
}
