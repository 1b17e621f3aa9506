//! Several writers, a secondary that lags, and a queue that is down.

use std::time::Duration;

use futures_util::future::join_all;
use rowkey::ClientOptions;
use rowkey::store::{Settled, Transaction};
use rowkey_emulator::{ErrorCode, Fault, Operation, Service};
use rowkey_tests::{TestResult, sweep};

use super::rows::{Order, agreed, order, start, store};

#[tokio::test]
async fn eight_writers_of_one_unique_value_leave_one_owner() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let all: Vec<_> = (0..8).map(|id| Order { number: Some("X".into()), ..order(id) }).collect();
    let written = join_all(all.iter().map(|order| orders.insert(order))).await;
    assert_eq!(written.iter().filter(|written| written.is_ok()).count(), 1);
    for error in written.into_iter().filter_map(Result::err) {
        assert_eq!(error.details().index, Some("by_number"), "{error}");
    }
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    Ok(())
}

#[tokio::test]
async fn eight_writers_of_one_entity_lose_no_change() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&Order { cents: 0, ..order(1) }).await?;
    let add = |at: usize| {
        let orders = orders.clone();
        async move {
            let change = |order: &mut Order| {
                order.cents += 1;
                order.courier = Some(format!("courier-{at}"));
                order.number = Some(format!("N{at}"));
            };
            orders.update(Order::key("contoso", 1), change).await
        }
    };
    for updated in join_all((0..8).map(add)).await {
        updated?;
    }
    for _ in 0..4 {
        server.clock().advance(Duration::from_secs(61));
        orders.work_once().await?;
    }
    assert_eq!(agreed(&server.snapshot(), true), [("order_0001".into(), 8)]);
    Ok(())
}

/// Reads may go to the secondary, which has the initial state, and the primary is busy now and then.
#[tokio::test]
async fn a_lagging_secondary_never_causes_a_write() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let account = account.with_options(options);
    let orders = store(&account)?;
    let _behind = server.hold_back_secondary();
    for round in 0..6 {
        let fault = Fault::on(Operation::GetEntity).times(1 + round % 2);
        let injected = server.inject(fault.reject(ErrorCode::SERVER_BUSY));
        let change = |order: &mut Order| {
            order.cents += 1;
            order.courier = Some(format!("courier-{round}"));
            order.number = Some(format!("N{round}"));
        };
        orders.update(Order::key("contoso", 1), change).await?;
        drop(injected);
        agreed(&server.snapshot(), true);
    }
    let taken = Order { number: Some("N5".into()), ..order(2) };
    let injected =
        server.inject(Fault::on(Operation::GetEntity).times(1).reject(ErrorCode::SERVER_BUSY));
    assert_eq!(orders.insert(&taken).await.unwrap_err().details().index, Some("by_number"));
    drop(injected);
    assert_eq!(agreed(&server.snapshot(), true), [("order_0001".into(), 106)]);
    Ok(())
}

#[tokio::test]
async fn the_backlog_stores_messages_while_the_queue_is_unavailable() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let down = server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    for id in 1..4 {
        assert_eq!(orders.insert(&order(id)).await?.settled, Settled::Done);
    }
    assert_eq!(down.hits(), 1, "the queue is left alone after it failed");
    assert_eq!(agreed(&server.snapshot(), true).len(), 3);

    // A writer that stops after its commit leaves a row of the backlog.
    let held = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    {
        let four = order(4);
        let insert = orders.insert(&four);
        futures_util::future::select(
            std::pin::pin!(insert),
            std::pin::pin!(held.wait_until_held()),
        )
        .await;
    }
    held.discard();
    let found = orders.find(Order::by_courier("kim", "contoso", 4_u32)).await?;
    assert_eq!(found, None, "it is not settled yet");
    server.clock().advance(Duration::from_secs(61));
    let orders = store(&sweep::account(&server)?)?;
    orders.drain_backlog().await?;
    agreed(&server.snapshot(), true);
    assert!(orders.find(Order::by_courier("kim", "contoso", 4_u32)).await?.is_some());
    Ok(())
}

/// Item 12: writes go on within a second while the queue refuses everything, a transaction of several
/// entities as well.
#[tokio::test]
async fn a_write_does_not_wait_for_the_queue() -> TestResult {
    let (server, _) = start().await?;
    let _down = server.inject(Fault::service(Service::Queue).reject(ErrorCode::SERVER_BUSY));
    let all: Vec<_> = (1..=4).map(order).collect();
    for several in [false, true] {
        let (account, clock) = sweep::waiting(&server)?;
        let orders = store(&account)?;
        if several {
            let transaction = all[1..].iter().fold(orders.transaction(), Transaction::insert);
            assert_eq!(transaction.submit().await?.settled, Settled::Done);
        } else {
            assert_eq!(orders.insert(&all[0]).await?.settled, Settled::Done);
        }
        let waited: Duration = clock.slept().iter().sum();
        assert!(waited <= Duration::from_secs(1), "it waits for the queue: {waited:?}");
    }
    assert_eq!(agreed(&server.snapshot(), true).len(), 4);
    Ok(())
}
