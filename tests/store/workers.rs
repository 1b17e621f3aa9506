//! What workers settle and remove, and what does not stop them.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::queue::Body;
use rowkey::store::{Change, Contribution, Declaration, Settled, Settling, Store};
use rowkey::{Clock, Entity, StorageAccount, async_trait};
use rowkey_emulator::{ErrorCode, Fault, Operation, Service};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{self, once};

use super::refusals::{Desk, desk};
use super::rows::{Order, agreed, left, order, start, store};

#[tokio::test]
async fn workers_complete_an_interrupted_transaction_of_two_types() -> TestResult {
    for committed in [true, false] {
        let (server, account) = start().await?;
        let orders = store(&account)?;
        let connect = |account: &StorageAccount| {
            Store::<Desk>::builder(account.table("orders")).queue(account.queue("orders")).build()
        };
        let desks = connect(&account)?;
        let (order, desk) = (order(1), desk(1));
        // The writer stops after its commit, or before.
        let held = if committed { Operation::GetEntity } else { Operation::Transaction };
        let held = server.inject(Fault::on(held).hold());
        {
            let submit = orders.transaction().insert(&order).with(&desks, &desk).submit();
            select(pin!(submit), pin!(held.wait_until_held())).await;
        }
        held.discard();
        for _ in 0..40 {
            server.clock().advance(Duration::from_secs(100));
            let account = sweep::account(&server)?;
            store(&account)?.work_once().await?;
            server.clock().advance(Duration::from_secs(100));
            let account = sweep::account(&server)?;
            connect(&account)?.work_once().await?;
        }
        assert_eq!(left(&server), Vec::<String>::new());
        let rows = server.snapshot().table("orders").unwrap().entities().count();
        assert_eq!(rows, if committed { 3 + 2 + 1 + 1 + 1 + 1 } else { 0 });
    }
    Ok(())
}

#[tokio::test]
async fn a_duplicate_announcement_leaves_no_void() -> TestResult {
    let (server, account) = start().await?;
    // The message of a settled write stays, and there is another one of it.
    let _kept = server.inject(Fault::service(Service::Queue).nth(2).reject(ErrorCode::SERVER_BUSY));
    store(&account)?.insert(&order(1)).await?;
    let texts: Vec<_> = left(&server);
    assert_eq!(texts.len(), 1, "{texts:?}");
    account.queue("orders").put(Body::text(&*texts[0])).ttl(None).send().await?;
    for _ in 0..50 {
        server.clock().advance(Duration::from_secs(61));
        store(&sweep::account(&server)?)?.work_once().await?;
    }
    assert_eq!(left(&server), Vec::<String>::new());
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    Ok(())
}

#[tokio::test]
async fn voids_do_not_accumulate() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    orders.update(Order::key("contoso", 1), |order| order.cents = 7).await?;
    for _ in 0..3 {
        assert!(
            orders.insert(&order(1)).await.unwrap_err().kind() == rowkey::ErrorKind::AlreadyExists
        );
    }
    for _ in 0..4 {
        server.clock().advance(Duration::from_secs(2800));
        let account = sweep::account(&server)?;
        store(&account)?.work_once().await?;
        store(&account)?.drain_backlog().await?;
    }
    assert_eq!(left(&server), Vec::<String>::new());
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_worker_releases_the_claim_of_a_rejected_write() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let fault = server.inject(Fault::on(Operation::DeleteEntity).reject(ErrorCode::SERVER_BUSY));
    let error =
        store(&once(&account))?.insert(&Order { desk: Some(1), ..order(2) }).await.unwrap_err();
    assert_eq!(error.details().index, Some("by_desk"));
    drop(fault);
    server.clock().advance(Duration::from_secs(61));
    store(&sweep::account(&server)?)?.work_once().await?;
    agreed(&server.snapshot(), true);
    Ok(())
}

#[tokio::test]
async fn a_worker_resumes_when_the_queue_recovers() -> TestResult {
    let (server, _) = start().await?;
    let (account, _) = sweep::waiting(&server)?;
    let orders = store(&account)?;
    let down = server.inject(Fault::on(Operation::GetMessages).reject(ErrorCode::SERVER_BUSY));
    let run = orders.run(std::future::pending());
    let (run, hit) = (pin!(run), pin!(down.wait_until_hit(8)));
    let is_over = matches!(select(run, hit).await, Either::Left(_));
    assert!(!is_over, "the worker has ended");
    Ok(())
}

#[tokio::test]
async fn an_idle_worker_costs_under_ten_thousand_requests_a_day() -> TestResult {
    let (server, _) = start().await?;
    let (account, clock) = sweep::waiting(&server)?;
    let orders = store(&account)?;
    let before = server.journal().len();
    // A part of a day: requests of a clock that is 15 minutes ahead are refused.
    let part = Duration::from_secs(24 * 3600 / 120);
    let over = std::future::poll_fn(|_| {
        if clock.elapsed() >= part { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    });
    orders.run(over).await?;
    let sent = server.journal().len() - before;
    assert!(sent > 30 && sent < 10_000 / 120, "{sent} requests");
    Ok(())
}

/// The plan gives the maximum cost of each write.
#[tokio::test]
async fn a_transaction_costs_at_most_its_explained_plan() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let all: Vec<_> = (1..5).map(order).collect();
    let transaction = all.iter().fold(orders.transaction(), rowkey::store::Transaction::insert);
    let plan = transaction.explain().await?;
    let before = server.journal();
    transaction.submit().await?;
    let sent = server.journal().since(&before).len();
    assert!(sent <= plan.requests(), "{sent} requests: {plan}");
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "p", row = "seat_{id}")]
#[entity(unique(name = by_label, value = "{label}"))]
struct Seat {
    id: u32,
    label: String,
}

/// A transaction with more claims than a message holds.
#[tokio::test]
async fn a_transaction_with_many_long_values_is_written() -> TestResult {
    let (server, account) = start().await?;
    let seats =
        Store::<Seat>::builder(account.table("orders")).queue(account.queue("orders")).build()?;
    for label in ["x", "\u{4e9c}", "\""] {
        let all: Vec<_> =
            (0..90).map(|id| Seat { id, label: format!("{id:04}{}", label.repeat(130)) }).collect();
        let transaction = all.iter().fold(seats.transaction(), rowkey::store::Transaction::insert);
        assert_eq!(transaction.submit().await?.settled, Settled::Done);
        for seat in &all {
            assert!(seats.delete(Seat::key(seat.id)).await?);
        }
    }
    assert_eq!(server.snapshot().table("orders").unwrap().len(), 0);
    Ok(())
}

/// A declaration that panics when it settles.
struct Panics;

#[async_trait]
impl Declaration<Order> for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        true
    }

    fn contribute(&self, _: Change<'_, Order>, plan: &mut Contribution<'_>) -> rowkey::Result<()> {
        plan.target("anything");
        Ok(())
    }

    async fn settle(&self, _: &Settling<Order>, _: &str) -> rowkey::Result<Settled> {
        panic!("a defect of the program")
    }
}

#[tokio::test]
async fn a_panic_while_settling_does_not_end_a_worker() -> TestResult {
    let (server, account) = start().await?;
    let connect = |account: &StorageAccount| {
        Store::<Order>::builder(account.table("orders"))
            .queue(account.queue("orders"))
            .with(Panics)
            .build()
    };
    let orders = connect(&account)?;
    assert_eq!(orders.insert(&order(1)).await?.settled, Settled::Pending);
    server.clock().advance(Duration::from_secs(61));
    let worked = connect(&sweep::account(&server)?)?.work_once().await?;
    assert_eq!(worked.failed, 1);
    agreed(&server.snapshot(), true);
    Ok(())
}
