//! Jobs while the account of an index answers 503 for a long time: no entity is lost, and the index agrees when the
//! account is back.
//!
//! The clocks of these programs are advanced by each wait, of any length. Those of most other tests let waits of a job's
//! pace, which are up to 30 seconds, never end.

use std::pin::pin;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::{Either, select};
use futures_util::stream;
use rowkey::pace::Pace;
use rowkey::patterns::job::Checkpoint;
use rowkey::store::Store;
use rowkey::{Clock as _, ErrorKind, ManualClock, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Injected, Server};
use rowkey_tests::TestResult;

use super::faults::recover;
use super::{ARCHIVE, Accounts, CURRENT, Order, agreed, connect, found, key, order, start};

/// The accounts of a program whose waits take no time, and its clock.
fn waiting(server: &Server) -> Result<(Accounts, ManualClock), rowkey::Error> {
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let first = server.connection_string();
    let account = |name: &str| {
        let text = first.replace(CURRENT, name);
        StorageAccount::builder().connection_string(&text)?.clock(clock.clone()).build()
    };
    Ok((Accounts { current: account(CURRENT)?, archive: account(ARCHIVE)? }, clock))
}

/// The account of `by_size` is unavailable until this is dropped.
fn down(server: &Server) -> Injected {
    server.inject(Fault::any().resource("archived").reject(ErrorCode::SERVER_BUSY))
}

fn orders_of(tenant: &str, ids: std::ops::RangeInclusive<u32>, size: u32) -> Vec<Order> {
    ids.map(|id| {
        let number = Some(format!("{tenant}{id}"));
        Order { tenant: tenant.into(), size, number, ..order(id) }
    })
    .collect()
}

/// The account is back: workers do what is pending.
async fn back(server: &Server, down: Injected) -> TestResult {
    drop(down);
    server.clock().advance(Duration::from_secs(3601));
    recover(&connect(server)?).await
}

#[tokio::test]
async fn loads_rewrites_and_deletions_end_while_the_account_of_an_index_is_down() -> TestResult {
    let (server, _, orders) = start().await?;
    let load = |orders: &Store<Order>, all| orders.load(stream::iter::<Vec<Order>>(all));
    assert!(load(&orders, orders_of("contoso", 1..=20, 1)).run().await?.is_clean());
    assert!(load(&orders, orders_of("fabrikam", 1..=20, 1)).run().await?.is_clean());
    let is_down = down(&server);
    let before = found(&server.snapshot(), ARCHIVE, "archived");

    // Another program, which knows none of the copies.
    let (accounts, clock) = waiting(&server)?;
    let orders = accounts.store()?;
    let report = load(&orders, orders_of("contoso", 21..=40, 1)).run().await?;
    assert_eq!((report.total.right, report.is_clean()), (20, true), "{report:?}");
    let report = orders.load_over(stream::iter(orders_of("contoso", 1..=10, 7))).run().await?;
    assert_eq!((report.total.right, report.is_clean()), (10, true), "{report:?}");
    let report = orders.delete_where(Order::partition("fabrikam")).run().await?;
    assert_eq!((report.total.right, report.is_clean()), (20, true), "{report:?}");
    assert!(orders.rewrite(key(15)).await?);

    // What is in the account of the entities agrees; the other account is as before.
    let snapshot = server.snapshot();
    assert_eq!(found(&snapshot, CURRENT, "customers").len(), 40);
    assert_eq!(found(&snapshot, ARCHIVE, "archived"), before);
    let waited: Duration = clock.slept().iter().sum();
    assert!(waited < Duration::from_secs(600), "waits end: {waited:?}");
    server.clock().advance(Duration::from_secs(61));
    assert_eq!(connect(&server)?.store()?.work_once().await?.settled, 0, "it is still down");

    back(&server, is_down).await?;
    assert_eq!(agreed(&server.snapshot()), 40);
    Ok(())
}

/// A load is stopped at a request while the account is down, and resumes from its last checkpoint, still while it is
/// down.
#[tokio::test]
async fn a_load_that_is_killed_during_the_outage_resumes_from_its_checkpoint() -> TestResult {
    for request in [1, 9, 20, 40] {
        let (server, ..) = start().await?;
        let is_down = down(&server);
        let all = || {
            let tenants = ["contoso", "fabrikam", "adatum"];
            stream::iter(tenants.into_iter().flat_map(|tenant| orders_of(tenant, 1..=20, 3)))
        };
        let mut last = None::<Checkpoint>;
        let held = server.inject(Fault::any().resource("orders").nth(request).hold());
        {
            let (accounts, _) = waiting(&server)?;
            let orders = accounts.store()?;
            let job = orders.load(all()).concurrency(1);
            let job = job.progress(|progress| last = Some(progress.checkpoint.clone()));
            let (job, is_held) = (pin!(job.run()), pin!(held.wait_until_held()));
            let ended = select(job, is_held).await;
            assert!(matches!(ended, Either::Right(_)), "request {request} is one of the load");
        }
        held.discard();
        let orders = waiting(&server)?.0.store()?;
        let job = orders.load(all()).concurrency(1);
        let report = match last {
            Some(last) => job.resume(last).run().await?,
            None => job.run().await?,
        };
        assert_eq!((report.total.right, report.is_clean()), (60, true), "{request}: {report:?}");
        assert!(found(&server.snapshot(), ARCHIVE, "archived").is_empty());
        back(&server, is_down).await?;
        assert_eq!(agreed(&server.snapshot()), 60, "request {request}");
    }
    Ok(())
}

/// A repair has to read the index, so it waits for the account, until its deadline. Then it is resumed.
#[tokio::test]
async fn a_repair_waits_for_the_account_and_resumes_from_its_checkpoint() -> TestResult {
    let (server, _, orders) = start().await?;
    let all = orders_of("contoso", 1..=30, 2);
    assert!(orders.load(stream::iter(all)).run().await?.is_clean());
    let archived = connect(&server)?.archive.table("archived");
    for id in 1..=5 {
        let copy = format!("ada_contoso_order_{id:04}");
        let copy = rowkey::Key::<rowkey::DynamicEntity>::new("size_0000000002", &*copy);
        archived.delete(copy, rowkey::Match::Any).await?;
    }
    let is_down = down(&server);
    let (accounts, clock) = waiting(&server)?;
    let pace = Pace::background().until(clock.now() + TimeDelta::minutes(10));
    let stopped = accounts.store()?.repair().pace(pace).run().await.unwrap_err();
    // The last error of the service, or that a request which waited behind others was not sent.
    let kind = stopped.error.kind();
    let is_late = matches!(kind, ErrorKind::Throttled | ErrorKind::Unavailable);
    assert!(is_late, "{}", stopped.error);
    assert!(!stopped.checkpoint.is_finished());
    let text = stopped.error.to_string();
    assert!(text.contains("resume the job from its checkpoint"), "{text}");

    // It ends by itself if the account comes back before the deadline: after some of its requests.
    drop(is_down);
    let few = Fault::any().resource("archived").times(20).reject(ErrorCode::SERVER_BUSY);
    let few = server.inject(few);
    let orders = waiting(&server)?.0.store()?;
    let report = orders.repair().resume(*stopped.checkpoint).run().await?;
    assert_eq!(few.hits(), 20);
    assert_eq!(report.part("by_size").repaired, 5, "{report:?}");
    assert_eq!(report.total.failed, 0, "{report:?}");
    back(&server, few).await?;
    assert_eq!(agreed(&server.snapshot()), 30);
    assert!(connect(&server)?.store()?.verify().run().await?.is_clean());
    Ok(())
}
