//! What ends a job early or fails in it, and what its report and its error then say.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::stream;
use rowkey::pace::Pace;
use rowkey::patterns::job::{Attempt, Batch, Job, Report, Verdict, Walk};
use rowkey::{
    Clock as _, Credential, DynamicEntity, Error, ErrorKind, Page, StorageAccount, Table,
    Transaction,
};
use rowkey_emulator::{ErrorCode, Fault, Operation};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;
use rowkey_tests::timeline::Timeline;

use super::{ALL, PARTITIONS, Rows, Told, count_all, empty, full, groups, load_all, rows};

/// The same rows, inserted: those that exist are refused.
struct Inserts(Rows);

impl Batch for Inserts {
    fn keys(&self) -> (&str, &str) {
        self.0.keys()
    }

    fn entities(&self) -> u64 {
        self.0.entities()
    }

    async fn store(&self, attempt: Attempt) -> rowkey::Result<Report> {
        let Rows { table, rows } = &self.0;
        match rows.iter().fold(table.transaction(), Transaction::insert).submit().await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt.after_unknown => {}
            result => drop(result?),
        }
        Ok(Report::of(Verdict::Right, self.entities()))
    }
}

#[tokio::test]
async fn a_group_that_fails_is_reported_with_its_keys_and_the_others_are_stored() -> TestResult {
    let server = empty().await?;
    let table = account(&server)?.table("readings");
    table.insert(&DynamicEntity::new("p2", "00")).await?;
    let inserts = || stream::iter(groups(&table).into_iter().map(Inserts));
    let report = Job::load("import", &table, inserts()).run().await?;
    let [problem] = &report.problems[..] else { panic!("one group fails: {report:?}") };
    assert_eq!((&*problem.partition_key, &*problem.row_key), ("p2", "00"));
    assert_eq!(problem.verdict, Verdict::Failed);
    assert!(problem.error.contains("exists already"), "{}", problem.error);
    assert_eq!((report.total.failed, report.total.right), (3, ALL - 3));
    assert!(!report.is_clean());
    assert_eq!(rows(&server.snapshot(), "readings"), ALL - 3 + 1);

    // All fail now; the first three are three more than none.
    let stopped = Job::load("import", &table, inserts()).concurrency(1).stop_after(0).run().await;
    let interrupted = stopped.unwrap_err();
    assert!(interrupted.error.to_string().contains("too many items failed"), "{interrupted}");
    assert_eq!(interrupted.checkpoint.report().total.failed, 3);
    Ok(())
}

#[tokio::test]
async fn a_repeated_insert_with_a_lost_response_is_resolved() -> TestResult {
    let server = empty().await?;
    let table = account(&server)?.table("readings");
    let lost = server.inject(Fault::on(Operation::Transaction).times(3).close_after_commit());
    let inserts = stream::iter(groups(&table).into_iter().map(Inserts));
    let report = Job::load("import", &table, inserts).concurrency(1).run().await?;
    assert_eq!((report.total.right, report.is_clean(), lost.hits()), (ALL, true, 3));
    Ok(())
}

#[tokio::test]
async fn a_rejected_credential_ends_a_load_which_can_resume() -> TestResult {
    let server = empty().await?;
    let good = account(&server)?;
    let bad = StorageAccount::builder()
        .name(good.name())
        .endpoint(rowkey::service::Service::Table, server.table_endpoint())?
        .credential(Credential::shared_key(good.name(), "c2VjcmV0LXdyb25nLWtleQ==")?)
        .build()?;
    let told = Told::default();
    let interrupted = load_all(&bad, &told).await.unwrap_err();
    assert_eq!(interrupted.error.kind(), ErrorKind::Auth);
    assert!(interrupted.error.to_string().starts_with("job import: "), "{interrupted}");
    assert_eq!(
        (interrupted.checkpoint.done(), interrupted.checkpoint.report().total.examined),
        (0, 0)
    );
    told.tell(&interrupted.checkpoint);
    assert_eq!(load_all(&good, &told).await?.total.right, ALL);
    assert_eq!(rows(&server.snapshot(), "readings"), ALL);
    Ok(())
}

#[tokio::test]
async fn a_job_fails_at_the_deadline_of_its_pace() -> TestResult {
    let server = full().await?;
    let timeline = Timeline::new(server.clock());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(timeline.clone())
        .build()?;
    let table = account.table("readings");
    let busy = server.inject(Fault::any().reject(ErrorCode::SERVER_BUSY));
    let hours = timeline.now() + Duration::from_secs(3 * 3600);
    let pace = Pace::background().until(hours);
    // Its own clock does not wait for requests, which may take a while of simulated time.
    let walk = Walk::new(&table, Table::scan::<DynamicEntity>);
    let interrupted = timeline.run(Job::count(walk).pace(pace).run()).await.unwrap_err();
    let message = interrupted.error.to_string();
    assert_eq!(
        (interrupted.error.kind(), interrupted.error.details().status),
        (ErrorKind::Throttled, Some(503))
    );
    assert!(message.contains("the deadline has passed; resume the job"), "{message}");
    assert!(timeline.elapsed() > Duration::from_secs(3 * 3600 - 60), "{:?}", timeline.elapsed());
    // Half a minute between attempts: hundreds, not thousands.
    assert!((300..500).contains(&busy.hits()), "{}", busy.hits());
    drop(busy);
    let checkpoint = *interrupted.checkpoint;
    let walk = Walk::new(&table, Table::scan::<DynamicEntity>);
    let report = timeline.run(Job::count(walk).resume(checkpoint).run()).await?;
    assert_eq!(report.total.examined, ALL);
    Ok(())
}

#[tokio::test]
async fn a_retryable_error_repeats_a_step_and_another_ends_the_job() -> TestResult {
    let server = full().await?;
    let account = account(&server)?;
    let walk = || Walk::new(&account.table("readings"), Table::scan::<DynamicEntity>);
    let calls = AtomicU32::new(0);
    let step = |kind, times| {
        let calls = &calls;
        move |page: Page<DynamicEntity>| async move {
            if calls.fetch_add(1, Ordering::Relaxed) < times {
                return Err(Error::refused(kind, "not now"));
            }
            Ok(Report::of(Verdict::Right, page.entities.len() as u64))
        }
    };
    let report = Job::walk("verify", walk(), step(ErrorKind::Unavailable, 3)).run().await?;
    assert_eq!((report.total.examined, calls.load(Ordering::Relaxed)), (ALL, 4));
    let interrupted =
        Job::walk("verify", walk(), step(ErrorKind::Invalid, 9)).run().await.unwrap_err();
    assert_eq!((interrupted.error.kind(), calls.load(Ordering::Relaxed)), (ErrorKind::Invalid, 5));
    Ok(())
}

#[tokio::test]
async fn a_checkpoint_of_another_job_is_rejected_before_sending() -> TestResult {
    let server = full().await?;
    let account = account(&server)?;
    let told = Told::default();
    count_all(&account, &told).await?;
    let sent = server.journal().len();
    let interrupted = load_all(&account, &told).await.unwrap_err();
    assert_eq!(interrupted.error.kind(), ErrorKind::Invalid);
    assert!(interrupted.error.to_string().contains("job `count`"), "{interrupted}");
    let other = Walk::keys(&account.table("others"));
    let refused = Job::count(other).resume(told.last().unwrap()).run().await.unwrap_err();
    assert!(refused.to_string().contains("belongs to the table readings"), "{refused}");
    let rows = Walk::keys(&account.table("readings")).split_rows(["01"]);
    let refused = Job::count(rows).resume(told.last().unwrap()).run().await.unwrap_err();
    assert!(refused.to_string().contains("another `split_by`"), "{refused}");
    assert_eq!(server.journal().len(), sent);
    Ok(())
}

#[tokio::test]
async fn resuming_a_load_with_a_shorter_stream_is_an_error() -> TestResult {
    let server = empty().await?;
    let account = account(&server)?;
    let table = account.table("readings");
    let interrupted = {
        let _missing = server.inject(Fault::any().nth(4).reject(ErrorCode::AUTHENTICATION_FAILED));
        load_all(&account, &Told::default()).await.unwrap_err()
    };
    assert_eq!(interrupted.checkpoint.done(), 3);
    let few = stream::iter(groups(&table).into_iter().take(2));
    let resumed = Job::load("import", &table, few).resume(*interrupted.checkpoint).run().await;
    let error = resumed.unwrap_err();
    assert!(error.to_string().contains("the stream lacks"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_partition_is_walked_in_ranges_within_the_maximum_rates() -> TestResult {
    let server = full().await?;
    let account = account(&server)?;
    let walk = Walk::new(&account.table("readings"), |table| {
        table.query(rowkey::Partition::<DynamicEntity>::new("p1"))
    });
    let begun = account.clock().now();
    let pace = Pace::background().requests_per_second(2);
    let job =
        Job::count(walk.split_rows(["05", "02", "04", "02"])).concurrency(1).pace(pace.clone());
    assert_eq!(job.run().await?.total.examined, ALL / PARTITIONS as u64);
    assert_eq!(pace.requests().sent, 4, "one for each range");
    assert_eq!((account.clock().now() - begun).num_milliseconds(), 1500);
    Ok(())
}

/// A job can be run by another task of a runtime with threads.
#[expect(dead_code, reason = "it only has to compile")]
fn jobs_can_be_sent(account: &StorageAccount, told: &'static Told) -> impl Send {
    (count_all_owned(account.clone(), told), load_all_owned(account.clone(), told))
}

async fn count_all_owned(account: StorageAccount, told: &'static Told) {
    let _ = count_all(&account, told).await;
}

async fn load_all_owned(account: StorageAccount, told: &'static Told) {
    let _ = load_all(&account, told).await;
}
