//! Every request of every write fails in every way, and everything agrees in the end.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::store::Store;
use rowkey::{Key, Outcome, StorageAccount};
use rowkey_emulator::{Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{once, stopped_at_every_request, sweep, sweep_every_way, sweep_sample};

use super::rows::{Order, agreed, order, start, store};

/// The worker, a minute later.
async fn recover(account: &StorageAccount) -> TestResult {
    let orders = store(account)?;
    for _ in 0..3 {
        orders.drain_backlog().await?;
        let worked = orders.work_once().await?;
        assert_eq!(worked.failed, 0, "{worked:?}");
    }
    Ok(())
}

/// The writes, each on a server with one order.
type Write = fn(Store<Order>) -> BoxFuture<'static, Result<(), rowkey::Error>>;

const KEY: fn() -> Key<Order> = || Order::key("contoso", 1);

const WRITES: [(&str, Write); 5] = [
    ("insert", |orders| async move { orders.insert(&order(2)).await.map(drop) }.boxed()),
    ("update of a unique value", |orders| {
        async move { orders.update(KEY(), |order| order.number = Some("B".into())).await.map(drop) }
            .boxed()
    }),
    ("update of indexes", |orders| {
        let change = |order: &mut Order| (order.courier, order.desk) = (Some("lee".into()), None);
        async move { orders.update(KEY(), change).await.map(drop) }.boxed()
    }),
    ("upsert", |orders| {
        let other = Order { number: Some("A2".into()), ..order(1) };
        async move { orders.upsert(&other).await.map(drop) }.boxed()
    }),
    ("delete", |orders| async move { orders.delete(KEY()).await.map(drop) }.boxed()),
];

/// A server with one order.
async fn with_one() -> TestResult<Server> {
    let (server, account) = start().await?;
    store(&account)?.insert(&order(1)).await?;
    Ok(server)
}

#[tokio::test]
async fn rows_agree_eventually_after_any_fault_or_crash() -> TestResult {
    let server = with_one().await?;
    for (name, write) in WRITES {
        eprintln!("{name}");
        let scenario = async |account: &StorageAccount| write(store(account)?).await;
        sweep_every_way(&server, scenario, recover, |snapshot| drop(agreed(snapshot, true)))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn rows_of_one_partition_agree_at_any_time() -> TestResult {
    let server = with_one().await?;
    let nothing = async |_: &StorageAccount| Ok(());
    for (name, write) in WRITES {
        eprintln!("{name}");
        let scenario = async |account: &StorageAccount| write(store(account)?).await;
        let check = |snapshot: &Snapshot| drop(agreed(snapshot, false));
        stopped_at_every_request(&server, scenario, nothing, check).await?;
    }
    Ok(())
}

/// One request without an answer is no reason for a result without one, but for an insert that may
/// land yet.
#[tokio::test]
async fn one_lost_answer_does_not_leave_the_result_unknown() -> TestResult {
    let server = with_one().await?;
    for (name, write) in WRITES {
        eprintln!("{name}");
        sweep_sample(
            &server,
            name,
            async |account| write(store(account)?).await,
            async |account, _| recover(account).await,
            |_, result| {
                let error = result.as_ref().err();
                let is_known = error.is_none_or(|error| error.outcome() != Outcome::Unknown);
                assert!(is_known, "{error:?}");
            },
        )
        .await?;
    }
    Ok(())
}

/// A client that repeats nothing of its own accord.
#[tokio::test]
async fn a_write_reports_committed_only_if_it_was_committed() -> TestResult {
    let (server, _) = start().await?;
    sweep(
        &server,
        async |account| store(&once(account))?.insert(&order(1)).await,
        async |account, _| recover(account).await,
        |snapshot, inserted| {
            let stored = agreed(snapshot, true);
            match inserted {
                Ok(_) => assert_eq!(stored.len(), 1),
                Err(error) if error.outcome() == Outcome::Unknown => {}
                Err(error) => assert_eq!(stored.len(), 0, "{error}"),
            }
        },
    )
    .await?;
    Ok(())
}
