//! Jobs whose requests fail, that are dropped, killed and resumed: each item is done, and a count
//! is exact all the same.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use rowkey::patterns::job::{Interrupted, Report};
use rowkey::{ClientOptions, Result, ScanPolicy, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, once, stopped_at_every_request, sweep};

use super::{ALL, COPIED, Told, copy_all, count_all, empty, full, load_all, rows};

#[tokio::test]
async fn a_load_stores_every_row_if_any_request_fails() -> TestResult {
    let server = empty().await?;
    for repeating in [true, false] {
        let scenario = async |account: &StorageAccount| {
            let account = if repeating { account.clone() } else { once(account) };
            load_all(&account, &Told::default()).await
        };
        let runs = sweep(
            &server,
            scenario,
            async |_, _| Ok(()),
            |snapshot, result| {
                let report = result.as_ref().unwrap();
                assert_eq!(
                    (report.total.right, report.is_clean(), rows(snapshot, "readings")),
                    (ALL, true, ALL)
                );
            },
        );
        assert_eq!(runs.await?.requests, 10);
    }
    Ok(())
}

#[tokio::test]
async fn a_count_is_exact_if_any_request_fails() -> TestResult {
    let server = full().await?;
    let scenario = async |account: &StorageAccount| count_all(account, &Told::default()).await;
    let runs = sweep(
        &server,
        scenario,
        async |_, _| Ok(()),
        |_, result| {
            assert_eq!(result.as_ref().unwrap().total.examined, ALL);
        },
    );
    // 7, 14 and 14 rows in pages of two; the last page of a range is full and says that it is the last.
    assert_eq!(runs.await?.requests, 4 + 7 + 7);
    Ok(())
}

#[tokio::test]
async fn a_walk_visits_every_item_if_any_request_fails() -> TestResult {
    let server = full().await?;
    let scenario = async |account: &StorageAccount| copy_all(account, &Told::default()).await;
    let runs = sweep(
        &server,
        scenario,
        async |_, _| Ok(()),
        |snapshot, result| {
            let report = result.as_ref().unwrap();
            assert_eq!((report.total.repaired, report.is_clean()), (COPIED, true));
            assert_eq!(rows(snapshot, "copies"), COPIED);
        },
    );
    // 7 and 7 rows in pages of two, and a request for each row.
    assert_eq!(runs.await?.requests, 4 + 4 + COPIED);
    Ok(())
}

#[tokio::test]
async fn a_job_killed_at_any_request_resumes_from_its_last_checkpoint() -> TestResult {
    let told = Told::default();
    let scenario = async |account: &StorageAccount| {
        told.forget();
        load_all(account, &told).await.unwrap()
    };
    let recover = async |account: &StorageAccount| {
        assert_eq!(load_all(account, &told).await?.total.right, ALL);
        Ok(())
    };
    stopped_at_every_request(&empty().await?, scenario, recover, |snapshot| {
        assert_eq!(rows(snapshot, "readings"), ALL);
    })
    .await?;
    let scenario = async |account: &StorageAccount| {
        told.forget();
        count_all(account, &told).await.unwrap()
    };
    let recover = async |account: &StorageAccount| {
        assert_eq!(count_all(account, &told).await?.total.examined, ALL);
        Ok(())
    };
    stopped_at_every_request(&full().await?, scenario, recover, |_| {}).await?;
    let scenario = async |account: &StorageAccount| {
        told.forget();
        copy_all(account, &told).await.unwrap()
    };
    let recover = async |account: &StorageAccount| {
        assert_eq!(copy_all(account, &told).await?.total.repaired, COPIED);
        Ok(())
    };
    stopped_at_every_request(&full().await?, scenario, recover, |snapshot| {
        assert_eq!(rows(snapshot, "copies"), COPIED);
    })
    .await?;
    Ok(())
}

/// Polls a future at most this many times.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            // The next poll ends it, if there is none left.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Drops a job after each number of polls, resumes its checkpoint, and returns the number of drops.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn drop_everywhere(
    server: &Server,
    job: impl AsyncFn(&StorageAccount, &Told) -> Result<Report, Interrupted>,
    check: impl Fn(&Server, &Report),
) -> TestResult<usize> {
    for polls in 1.. {
        let server = server.fork().await?;
        let (account, told) = (account(&server)?, Told::default());
        let end = polled(job(&account, &told), polls).await;
        check(&server, &job(&account, &told).await?);
        if end.is_some() {
            return Ok(polls - 1);
        }
    }
    unreachable!("jobs end")
}

#[tokio::test]
async fn a_job_dropped_at_any_await_resumes_from_its_last_checkpoint() -> TestResult {
    let (server, filled) = (empty().await?, full().await?);
    let drops = drop_everywhere(&server, load_all, |server, report| {
        assert_eq!((report.total.right, rows(&server.snapshot(), "readings")), (ALL, ALL));
    });
    assert!(drops.await? >= 10, "each request is awaited");
    let drops = drop_everywhere(&filled, count_all, |_, report| {
        assert_eq!(report.total.examined, ALL);
    });
    assert!(drops.await? >= 18, "each request is awaited");
    let drops = drop_everywhere(&filled, copy_all, |server, report| {
        assert_eq!((report.total.repaired, rows(&server.snapshot(), "copies")), (COPIED, COPIED));
    });
    assert!(drops.await? >= 22, "each request is awaited");
    Ok(())
}

#[tokio::test]
async fn a_job_resumed_from_any_checkpoint_does_only_the_rest() -> TestResult {
    let server = full().await?;
    let told = Told::default();
    let all = count_all(&account(&server)?, &told).await?;
    let checkpoints = told.all();
    assert_eq!(checkpoints.len(), 18 + 1, "one for each page, and the end");
    for (done, checkpoint) in checkpoints.iter().enumerate() {
        let server = server.fork().await?;
        let told = Told::default();
        told.tell(&checkpoint.parse()?);
        assert_eq!(count_all(&account(&server)?, &told).await?, all);
        assert_eq!(server.journal().len(), 18_usize.saturating_sub(done + 1));
    }
    Ok(())
}

/// An account that would rather read the secondary than wait, and scan nothing.
fn hasty(server: &Server, account: &StorageAccount) -> Result<StorageAccount> {
    let options = ClientOptions {
        read_from_secondary: true,
        scan_policy: ScanPolicy::Deny,
        ..account.options().clone()
    };
    let clock = rowkey::ManualClock::auto_advancing(server.clock().now().to_chrono());
    StorageAccount::builder()
        .connection_string(server.connection_string())?
        .secondary_endpoint(
            rowkey::service::Service::Table,
            &format!("{}-secondary", server.table_endpoint()),
        )?
        .options(options)
        .clock(clock)
        .build()
}

#[tokio::test]
async fn a_job_reads_the_primary_and_ignores_the_scan_policy() -> TestResult {
    let server = empty().await?;
    let first = account(&server)?;
    let behind = server.hold_back_secondary();
    load_all(&first, &Told::default()).await?;
    let hasty = hasty(&server, &first)?;
    // The account itself reads what there was, and does not scan.
    let query = || hasty.table("readings").scan::<rowkey::DynamicEntity>();
    assert!(query().all().await.is_err());
    let injected = server.inject(Fault::any().nth(1).reject(ErrorCode::SERVER_BUSY));
    assert_eq!(query().scan_policy(ScanPolicy::Allow).all().await?.len(), 0);
    drop(injected);
    for request in 1..=18 {
        let fault = Fault::any().nth(request).reject(ErrorCode::SERVER_BUSY);
        let injected = server.inject(fault);
        let report = count_all(&hasty, &Told::default()).await?;
        assert_eq!((report.total.examined, injected.hits()), (ALL, 1), "request {request}");
    }
    drop(behind);
    Ok(())
}
