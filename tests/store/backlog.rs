//! The queue fails from any request of a write on: the janitor drains the backlog.

use std::sync::Arc;
use std::time::Duration;

use rowkey::StorageAccount;
use rowkey::patterns::lease_lock::LeaseLock;
use rowkey::worker::janitor::{Chore, Janitor};
use rowkey_emulator::{ErrorCode, Fault, Service};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{self, once};
use tokio::sync::Notify;

use super::rows::{Order, agreed, left, order, start, store};

/// Runs the drain of a janitor once, and returns its count.
async fn drain(account: &StorageAccount) -> TestResult<u64> {
    account.container("locks").create_if_missing().await?;
    let lock = LeaseLock::new(account.container("locks").blob("janitor"));
    let ended = Arc::new(Notify::new());
    let observed = Arc::clone(&ended);
    let janitor = Janitor::new(lock)
        .chore(Chore::drain_backlog(&store(account)?).jitter(Duration::ZERO))
        .observe(move |_| observed.notify_one());
    janitor.run_until(ended.notified()).await?;
    let reports = janitor.reports().await?;
    let report = reports.last().ok_or("no report")?;
    assert!(report.is_done(), "{report:?}");
    Ok(report.counts.values().sum())
}

/// Three writes of an order, of which each takes a value, and the last one releases it.
async fn write(account: &StorageAccount) -> rowkey::Result<()> {
    let orders = store(account)?;
    orders.insert(&order(1)).await?;
    let change = |order: &mut Order| {
        order.number = Some("B1".into());
        order.courier = Some("lee".into());
    };
    orders.update(Order::key("contoso", 1), change).await?;
    orders.delete(Order::key("contoso", 1)).await.map(drop)
}

#[tokio::test]
async fn the_backlog_is_drained_if_the_queue_fails_at_any_request() -> TestResult {
    let mut drained = 0;
    for from in 1..=6 {
        // The three writes make 41 requests to the Table service.
        for stops_after in (1..=46).step_by(5).filter(|at| sweep::is_made(from * 3 + at)) {
            let (server, account) = start().await?;
            let down = Fault::service(Service::Queue).nth(from).times(1000);
            let down = server.inject(down.reject(ErrorCode::SERVER_BUSY));
            let account = once(&account);
            // The writer stops before its request of this number to the Table service.
            let held = server.inject(Fault::service(Service::Table).nth(stops_after).hold());
            tokio::select! {
                written = write(&account) => written?,
                () = held.wait_until_held() => {}
            }
            held.discard();
            drop(down);
            for _ in 0..4 {
                server.clock().advance(Duration::from_secs(2800));
                let account = sweep::account(&server)?;
                drained += drain(&account).await?;
                store(&account)?.work_once().await?;
            }
            assert_eq!(left(&server), Vec::<String>::new(), "{from}, {stops_after}");
            agreed(&server.snapshot(), true);
        }
    }
    assert!(sweep::is_brief() || drained > 3, "the queue took nearly all of it: {drained}");
    Ok(())
}
