//! Copies of tables, and walks whose pages are gathered: nothing is lost or doubled if requests fail, and after a resume from
//! each checkpoint.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::TryStreamExt as _;
use rowkey_client::edm::{DateTime, Guid};
use rowkey_client::{
    ClientOptions, Clock as _, DynamicEntity, ErrorKind, ManualClock, Page, RetryOptions,
    ScanPolicy, StorageAccount, SystemClock, Table, Transaction,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};

use super::{Checkpoint, Copying, Job, Report, Verdict, Walk, Walking};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

const PLACES: usize = 4;

/// A server with a table of 28 partitions of 9 rows, one of 150, and one row with all types.
async fn server() -> TestResult<Server> {
    let server = Server::start().await?;
    let table = account(&server)?.table("things");
    table.create().await?;
    let sizes = (0..28).map(|n| (format!("k{n:02}"), 9)).chain([("large".to_owned(), 150)]);
    for (partition, rows) in sizes {
        let rows: Vec<_> = (0..rows).map(|row| numbered(&partition, row)).collect();
        for hundred in rows.chunks(100) {
            hundred.iter().fold(table.transaction(), Transaction::insert).submit().await?;
        }
    }
    let mut all = DynamicEntity::new("", "");
    all.set("Binary", vec![0_u8, 255]);
    all.set("Boolean", false);
    all.set("DateTime", "9999-12-31T23:59:59.9999999Z".parse::<DateTime>()?);
    all.set("Double", f64::NEG_INFINITY);
    all.set("Whole", 5.0);
    all.set("Guid", Guid::from_u128(7));
    all.set("Int32", i32::MIN);
    all.set("Int64", i64::MAX);
    all.set("String", "");
    table.insert(&all).await?;
    Ok(server)
}

fn numbered(partition: &str, row: i32) -> DynamicEntity {
    let mut entity = DynamicEntity::new(partition, format!("{row:04}"));
    entity.set("Number", row);
    entity
}

/// An account whose pauses end at once.
fn account(server: &Server) -> TestResult<StorageAccount> {
    let builder = StorageAccount::builder().connection_string(server.connection_string())?;
    Ok(builder.clock(ManualClock::auto_advancing(SystemClock.now())).build()?)
}

fn walk(table: &Table) -> Walk<DynamicEntity> {
    let walk = Walk::new(table, |table| table.scan::<DynamicEntity>().page_size(20));
    walk.split_automatically()
}

fn copy(account: &StorageAccount, to: &Table) -> Job<'static, Walking<DynamicEntity, Copying>> {
    Job::copy(walk(&account.table("things")), to).concurrency(PLACES)
}

/// All entities of a table.
async fn entities(table: &Table) -> TestResult<Vec<DynamicEntity>> {
    let all = table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow).stream();
    Ok(all.map_ok(|stored| stored.entity).try_collect().await?)
}

#[tokio::test]
async fn a_copy_has_all_entities_with_their_types() -> TestResult {
    let (source, destination) = (server().await?, Server::start().await?);
    let (from, to) = (account(&source)?, account(&destination)?.table("copies"));
    to.create().await?;
    let mut other = DynamicEntity::new("k00", "0003");
    other.set("Other", true);
    to.insert(&other).await?;
    to.insert(&DynamicEntity::new("only", "here")).await?;
    let before = destination.journal().len();
    let report = copy(&from, &to).run().await?;
    assert_eq!((report.total.right, report.is_clean()), (403, true));
    let mut expected = entities(&from.table("things")).await?;
    expected.push(DynamicEntity::new("only", "here"));
    assert_eq!(entities(&to).await?, expected);
    // 28 partitions, some on two pages; 150 rows on at most nine pages; the one with all types.
    let sent = destination.journal().len() - before;
    assert!(sent <= 70, "{sent} requests");
    Ok(())
}

#[tokio::test]
async fn refused_and_lost_writes_lose_nothing() -> TestResult {
    let source = server().await?;
    let from = account(&source)?;
    let expected = entities(&from.table("things")).await?;
    for skipped in 0..36 {
        let destination = Server::start().await?;
        let to = account(&destination)?.table("copies");
        to.create().await?;
        let fault = Fault::any().nth(skipped + 1).times(3);
        let fault = match skipped % 3 {
            0 => fault.reject(ErrorCode::SERVER_BUSY),
            1 => fault.close_after_commit(),
            _ => fault.close_before_commit(),
        };
        let injected = destination.inject(fault);
        let report = copy(&from, &to).run().await?;
        drop(injected);
        assert_eq!((report.total.right, report.is_clean()), (403, true), "{skipped}");
        assert_eq!(entities(&to).await?, expected, "{skipped}");
    }
    Ok(())
}

#[tokio::test]
async fn a_copy_resumes_from_each_checkpoint_and_to_its_own_destination_alone() -> TestResult {
    let source = server().await?;
    let from = account(&source)?;
    let mut checkpoints: Vec<String> = Vec::new();
    let to = from.table("copies");
    to.create().await?;
    copy(&from, &to)
        .progress(|progress| checkpoints.push(progress.checkpoint.to_string()))
        .run()
        .await?;
    assert!(checkpoints.len() > 20);
    for text in &checkpoints {
        Job::delete(walk(&to)).run().await?;
        let checkpoint: Checkpoint = text.parse()?;
        let done = checkpoint.report().total.examined;
        let report = copy(&from, &to).resume(checkpoint).run().await?;
        assert_eq!(report.total.right, 403, "{text}");
        assert_eq!(entities(&to).await?.len() as u64, 403 - done, "{text}");
    }
    let other = from.table("others");
    let middle: Checkpoint = checkpoints[checkpoints.len() / 2].parse()?;
    let refused = copy(&from, &other).resume(middle).run().await.unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Invalid);
    assert!(refused.error.to_string().contains("another `to`"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn entities_that_the_destination_refuses_are_passed_on_and_the_others_are_copied()
-> TestResult {
    let (source, destination) = (server().await?, Server::start().await?);
    let (from, to) = (account(&source)?, account(&destination)?.table("copies"));
    to.create().await?;
    let refused = Fault::any().nth(5).reject(ErrorCode::REQUEST_BODY_TOO_LARGE);
    let _injected = destination.inject(refused);
    let rejected = Arc::new(Mutex::new(BTreeMap::new()));
    let all = Arc::clone(&rejected);
    let job = copy(&from, &to).rejected(move |rejected| {
        let keys = (rejected.entity.partition_key.clone(), rejected.entity.row_key.clone());
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(keys, (rejected.entity, rejected.error.to_string()));
    });
    let report = job.run().await?;
    let rejected = rejected.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(report.total.failed, rejected.len() as u64);
    assert!(!rejected.is_empty() && report.total.right + report.total.failed == 403);
    let mut copied = entities(&to).await?;
    copied.extend(rejected.into_values().map(|(entity, _)| entity));
    copied.sort_by(|one, other| {
        (&one.partition_key, &one.row_key).cmp(&(&other.partition_key, &other.row_key))
    });
    assert_eq!(copied, entities(&from.table("things")).await?);
    Ok(())
}

#[tokio::test]
async fn a_copy_ends_if_the_destination_does_not_exist() -> TestResult {
    let source = server().await?;
    let from = account(&source)?;
    let stopped = copy(&from, &from.table("missing")).run().await.unwrap_err();
    assert_eq!(stopped.error.kind(), ErrorKind::NotFound);
    assert_eq!(stopped.checkpoint.report().total.examined, 0);
    Ok(())
}

#[tokio::test]
async fn gathered_pages_have_each_row_once_after_a_resume_from_each_checkpoint() -> TestResult {
    let source = server().await?;
    let table = account(&source)?.table("things");
    let step = |page: Page<DynamicEntity>| async move {
        let mut report = Report::of(Verdict::Right, page.entities.len() as u64);
        for row in &page.entities {
            report.add_output(format!("{}/{}", row.entity.partition_key, row.entity.row_key));
        }
        let is_whole = page.entities.len() >= 50 || page.continuation.is_none();
        report.note(Some("small"), Verdict::Skipped, u64::from(!is_whole));
        Ok(report)
    };
    let job = || Job::walk("see", walk(&table).gather(50), step).concurrency(PLACES);
    let mut checkpoints: Vec<String> = Vec::new();
    let whole =
        job().progress(|progress| checkpoints.push(progress.checkpoint.to_string())).run().await?;
    let sorted = |report: &Report| {
        let mut outputs: Vec<_> = report.outputs().map(str::to_owned).collect();
        outputs.sort();
        outputs
    };
    let all = sorted(&whole);
    assert_eq!((all.len(), whole.total.skipped), (403, 0));
    for text in &checkpoints {
        let fault = Fault::on(Operation::QueryEntities).nth(3).reject(ErrorCode::INTERNAL_ERROR);
        let injected = source.inject(fault);
        let report = job().resume(text.parse()?).run().await?;
        drop(injected);
        assert_eq!(sorted(&report), all);
    }
    Ok(())
}

#[tokio::test]
async fn an_entity_is_rejected_once_if_its_transaction_is_stored_again() -> TestResult {
    let server = Server::start().await?;
    let account = account(&server)?;
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    let account = account.with_options(ClientOptions { retry, ..account.options().clone() });
    let to = account.table("copies");
    to.create().await?;
    to.insert(&numbered("p", 1)).await?;
    let rejected = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&rejected);
    let rows = (1..4).map(|row| DynamicEntity::new("p", format!("{row:04}")));
    let job = Job::insert(&to, futures_util::stream::iter(rows)).rejected(move |rejected| {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(rejected.entity.row_key);
    });
    // The first transaction is refused for one entity, and the one without it gets no response.
    let lost = server.inject(Fault::on(Operation::Transaction).nth(2).close_before_commit());
    let report = job.run().await?;
    assert_eq!((lost.hits(), report.total.right, report.total.failed), (1, 2, 1));
    let rejected = rejected.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(rejected, ["0001"]);
    Ok(())
}

#[tokio::test]
async fn an_entity_that_cannot_be_encoded_is_in_the_report_with_its_keys() -> TestResult {
    let server = Server::start().await?;
    let to = account(&server)?.table("copies");
    to.create().await?;
    let rows = futures_util::stream::iter([DynamicEntity::new("p", "2/3")]);
    let report = Job::upsert(&to, rows).run().await?;
    let keys = (&*report.problems[0].partition_key, &*report.problems[0].row_key);
    assert_eq!(keys, ("p", "2/3"));
    Ok(())
}

#[tokio::test]
async fn large_entities_and_many_partitions_on_a_page_are_copied() -> TestResult {
    let server = Server::start().await?;
    let account = account(&server)?;
    let (from, to) = (account.table("things"), account.table("copies"));
    from.create().await?;
    to.create().await?;
    // Ten of them are more than one transaction takes.
    let large = (0..10).map(|row| {
        let mut entity = numbered("large", row);
        (0..15).for_each(|part| drop(entity.set(format!("P{part}"), vec![7_u8; 64 * 1024])));
        entity
    });
    let many = (0..1_000).map(|number| numbered(&format!("p{number:04}"), number));
    let rows: Vec<_> = large.chain(many).collect();
    Job::upsert(&from, futures_util::stream::iter(rows.clone())).run().await?;
    let walk = Walk::new(&from, Table::scan::<DynamicEntity>).split_automatically();
    let report = Job::copy(walk, &to).run().await?;
    assert_eq!((report.total.right, report.is_clean()), (1_010, true));
    assert!(entities(&to).await? == rows);
    Ok(())
}
