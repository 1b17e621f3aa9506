//! A receiver that runs: what wakes it, how much it settles at a time, what does not concern other
//! messages, and how it stops.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::Poll;

use futures_util::future::join;
use rowkey::store::{Change, Contribution, Declaration, Settled, Settling, Store};
use rowkey::{Clock, ManualClock, StorageAccount, async_trait};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::sweep::once;
use rowkey_tests::{TestError, TestResult};

use super::rows::{Order, agreed, left, order, start, store};

/// Completes when the condition holds, looking each time it is polled.
fn when(condition: impl Fn() -> bool + Send) -> impl Future<Output = ()> + Send {
    poll_fn(move |_| if condition() { Poll::Ready(()) } else { Poll::Pending })
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

/// An account whose time stands still, and that repeats no request.
fn standing(server: &Server) -> rowkey::Result<(StorageAccount, ManualClock)> {
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let text = server.connection_string();
    let account =
        StorageAccount::builder().connection_string(text)?.clock(clock.clone()).build()?;
    Ok((once(&account), clock))
}

/// How many orders have their row in the partition of the courier, which is written after the commit.
fn settled(server: &Server) -> usize {
    server.snapshot().table("orders").unwrap().partition("courier_kim").count()
}

/// Inserts orders whose settling fails at once.
async fn leave_pending(
    server: &Server,
    orders: &Store<Order>,
    ids: std::ops::Range<u32>,
) -> TestResult {
    let busy = server.inject(Fault::on(Operation::GetEntity).reject(ErrorCode::SERVER_BUSY));
    for id in ids {
        let second = Fault::on(Operation::Transaction).nth(2).reject(ErrorCode::SERVER_BUSY);
        let _row_elsewhere = server.inject(second);
        assert_eq!(orders.insert(&order(id)).await?.settled, Settled::Pending);
    }
    drop(busy);
    Ok(())
}

/// Time stands still, so nothing but the write can wake the receiver.
#[tokio::test]
async fn a_pending_write_is_settled_at_once_by_the_receiver_of_its_program() -> TestResult {
    for queue_is_down in [false, true] {
        let (server, _) = start().await?;
        let (account, clock) = standing(&server)?;
        let orders = store(&account)?;
        let is_settled = AtomicBool::new(false);
        let (ran, written) = join(orders.run(when(|| is_settled.load(Ordering::Relaxed))), async {
            until(|| !clock.slept().is_empty()).await;
            let refused = Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY);
            let down = queue_is_down.then(|| server.inject(refused));
            leave_pending(&server, &orders.clone(), 1..2).await?;
            drop(down);
            until(|| settled(&server) == 1).await;
            is_settled.store(true, Ordering::Relaxed);
            orders.insert(&order(2)).await?;
            Ok::<_, TestError>(())
        })
        .await;
        written?;
        ran?;
        assert_eq!(agreed(&server.snapshot(), true).len(), 2);
        assert_eq!(clock.now(), server.clock().now().to_chrono(), "no time has passed");
    }
    Ok(())
}

#[tokio::test]
async fn messages_are_settled_eight_at_a_time() -> TestResult {
    let (server, _) = start().await?;
    let (account, _) = standing(&server)?;
    let orders = store(&account)?;
    leave_pending(&server, &orders, 1..13).await?;
    let held = server.inject(Fault::on(Operation::GetEntity).times(8).hold());
    let (worked, ()) = join(orders.work_once(), async {
        held.wait_until_hit(8).await;
        assert_eq!(settled(&server), 0);
        held.release();
    })
    .await;
    assert_eq!((worked?.waiting, settled(&server)), (12, 12));
    assert_eq!(agreed(&server.snapshot(), true).len(), 12);
    Ok(())
}

#[tokio::test]
async fn shutdown_finishes_begun_messages() -> TestResult {
    let (server, _) = start().await?;
    let (account, _) = standing(&server)?;
    let orders = store(&account)?;
    leave_pending(&server, &orders, 1..4).await?;
    let held = server.inject(Fault::on(Operation::GetEntity).hold());
    let stop = AtomicBool::new(false);
    let (ran, ()) = join(orders.run(when(|| stop.load(Ordering::Relaxed))), async {
        held.wait_until_held().await;
        stop.store(true, Ordering::Relaxed);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        held.release();
    })
    .await;
    ran?;
    assert_eq!(settled(&server), 3);
    Ok(())
}

/// A defective declaration: the first one or two settlements panic.
struct PanicsOnce(Arc<AtomicU32>);

#[async_trait]
impl Declaration<Order> for PanicsOnce {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        true
    }

    fn settles_once(&self) -> bool {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) != 3, "a defect of the program");
        false
    }

    fn contribute(&self, _: Change<'_, Order>, plan: &mut Contribution<'_>) -> rowkey::Result<()> {
        plan.target("anything");
        Ok(())
    }

    async fn settle(&self, _: &Settling<Order>, _: &str) -> rowkey::Result<Settled> {
        Ok(Settled::Done)
    }
}

#[tokio::test]
async fn a_panic_affects_only_its_message() -> TestResult {
    let (server, _) = start().await?;
    let (account, _) = standing(&server)?;
    let calls = Arc::new(AtomicU32::new(100));
    let orders = Store::<Order>::builder(account.table("orders"))
        .queue(account.queue("orders"))
        .with(PanicsOnce(Arc::clone(&calls)))
        .build()?;
    leave_pending(&server, &orders, 1..7).await?;
    calls.store(0, Ordering::Relaxed);
    let worked = orders.work_once().await?;
    assert_eq!((worked.waiting, worked.failed), (5, 1));
    // The one that panicked appears again.
    assert_eq!(left(&server).len(), 12);
    let pass = std::time::Duration::from_secs(61);
    server.clock().advance(pass);
    let (account, _) = standing(&server)?;
    let orders = Store::<Order>::builder(account.table("orders"))
        .queue(account.queue("orders"))
        .with(PanicsOnce(Arc::new(AtomicU32::new(100))))
        .build()?;
    assert_eq!(orders.work_once().await?.waiting, 1);
    assert_eq!(agreed(&server.snapshot(), true).len(), 6);
    Ok(())
}
