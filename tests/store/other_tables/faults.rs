//! Every request of every write fails in every way, tables are missing, and the other account is unavailable.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::store::{Settled, Store};
use rowkey::{ErrorCode as Code, Outcome};
use rowkey_emulator::{ErrorCode, Fault, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{once, stopped_at_every_request_on, sweep_on};

use super::{Accounts, CURRENT, Order, agreed, connect, key, order, start};

/// The worker, a minute later.
pub(super) async fn recover(accounts: &Accounts) -> TestResult {
    let orders = accounts.store()?;
    for _ in 0..3 {
        orders.drain_backlog().await?;
        let worked = orders.work_once().await?;
        assert_eq!(worked.failed, 0, "{worked:?}");
    }
    Ok(())
}

/// The writes, each on a server with one order.
type Write = fn(Store<Order>) -> BoxFuture<'static, Result<(), rowkey::Error>>;

const WRITES: [(&str, Write); 4] = [
    ("insert", |orders| async move { orders.insert(&order(2)).await.map(drop) }.boxed()),
    ("update of all values", |orders| {
        let change = |order: &mut Order| {
            order.customer = "bob".into();
            (order.courier, order.size, order.tag) = (None, 7, Some("fragile".into()));
        };
        async move { orders.update(key(1), change).await.map(drop) }.boxed()
    }),
    ("upsert", |orders| {
        let other = Order { cents: 7, ..order(1) };
        async move { orders.upsert(&other).await.map(drop) }.boxed()
    }),
    ("delete", |orders| async move { orders.delete(key(1)).await.map(drop) }.boxed()),
];

#[tokio::test]
async fn rows_in_other_tables_agree_eventually_after_any_fault_or_crash() -> TestResult {
    let (server, _, orders) = start().await?;
    orders.insert(&order(1)).await?;
    for (name, write) in WRITES {
        eprintln!("{name}");
        let scenario = async |accounts: &Accounts| write(accounts.store()?).await;
        swept(&server, scenario, |snapshot| assert!(agreed(snapshot) <= 2)).await?;
    }
    Ok(())
}

/// Sweeps a scenario over all faults, with and without retries, and stops it at each request.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub(super) async fn swept<T: 'static>(
    server: &Server,
    scenario: impl AsyncFn(&Accounts) -> T,
    agree: impl Fn(&Snapshot),
) -> TestResult {
    let recovered = async |accounts: &Accounts, _: &_| recover(accounts).await;
    let check = |snapshot: &Snapshot, _: &_| agree(snapshot);
    sweep_on(server, connect, &scenario, recovered, check).await?;
    let without_retries = |server: &Server| {
        let Accounts { current, archive } = connect(server)?;
        Ok(Accounts { current: once(&current), archive: once(&archive) })
    };
    sweep_on(server, without_retries, &scenario, recovered, check).await?;
    stopped_at_every_request_on(server, connect, &scenario, recover, &agree).await?;
    Ok(())
}

/// The account of one index is down: writes of all kinds succeed, and a worker completes them.
#[tokio::test]
async fn writes_do_not_fail_while_another_account_is_unavailable() -> TestResult {
    let (server, accounts, orders) = start().await?;
    for id in 1..=2 {
        orders.insert(&order(id)).await?;
    }
    // Another program: it remembers none of the copies.
    let orders = accounts.store()?;
    let down = server.inject(Fault::any().resource("archived").reject(ErrorCode::SERVER_BUSY));
    let written = orders.insert(&order(3)).await?;
    assert_eq!(written.settled, Settled::Pending);
    let updated = orders.update(key(1), |order| order.size = 9).await?;
    assert_eq!(updated.entity.size, 9);
    assert!(orders.delete(key(2)).await?);
    // What is not in the archive agrees.
    assert!(orders.find(Order::by_customer("ada", "contoso", 3)).await?.is_some());
    assert!(orders.find(Order::by_customer("ada", "contoso", 2)).await?.is_none());
    server.clock().advance(Duration::from_secs(61));
    assert_eq!(accounts.store()?.work_once().await?.settled, 0, "it is down");

    drop(down);
    server.clock().advance(Duration::from_secs(3601));
    recover(&connect(&server)?).await?;
    assert_eq!(agreed(&server.snapshot()), 2);
    Ok(())
}

/// A list in a table that is unavailable cannot be checked for room before the commit.
#[tokio::test]
async fn writes_do_not_fail_while_the_table_of_a_list_is_unavailable() -> TestResult {
    let (server, accounts, orders) = start().await?;
    let down = server.inject(Fault::any().resource("tags").reject(ErrorCode::SERVER_BUSY));
    assert_eq!(orders.insert(&order(1)).await?.settled, Settled::Pending);
    drop(down);
    server.clock().advance(Duration::from_secs(61));
    recover(&accounts).await?;
    assert_eq!(agreed(&server.snapshot()), 1);
    Ok(())
}

/// A store whose tables were not created.
async fn without_tables() -> TestResult<(Server, Accounts, Store<Order>)> {
    let (server, accounts, orders) = start().await?;
    orders.insert(&order(1)).await?;
    accounts.archive.table("archived").delete_table().await?;
    Ok((server, accounts, orders))
}

fn is_of_by_size(error: &rowkey::Error) {
    assert_eq!(error.code(), Some(&Code::TABLE_NOT_FOUND), "{error}");
    assert_eq!(error.details().index, Some("by_size"), "{error}");
    let text = error.to_string();
    assert!(text.contains("by_size") && text.contains(" on archived"), "{text}");
    assert!(text.contains("`Store::create_if_missing`"), "{text}");
}

#[tokio::test]
async fn a_write_that_reads_a_missing_table_is_refused_before_its_commit() -> TestResult {
    let (server, accounts, _) = without_tables().await?;
    // Another program, which must read the copy.
    let orders = accounts.store()?;
    let before = server.snapshot();
    let error = orders.update(key(1), |order| order.size = 9).await.unwrap_err();
    is_of_by_size(&error);
    assert_ne!(error.outcome(), Outcome::Unknown);
    is_of_by_size(&orders.delete(key(1)).await.unwrap_err());
    let rows =
        |snapshot: &Snapshot| snapshot.account(CURRENT).unwrap().table("orders").unwrap().len();
    assert_eq!(rows(&server.snapshot()), rows(&before), "nothing is written");
    Ok(())
}

#[tokio::test]
async fn a_write_that_does_not_read_a_missing_table_is_settled_when_the_table_is_there()
-> TestResult {
    let (server, accounts, orders) = without_tables().await?;
    assert_eq!(orders.insert(&order(2)).await?.settled, Settled::Pending);
    server.clock().advance(Duration::from_secs(61));
    let worked = accounts.store()?.work_once().await?;
    assert_eq!((worked.settled, worked.failed), (0, 1), "it is reported");
    is_of_by_size(&orders.count(Order::by_size(0, "ada")).await.unwrap_err());
    is_of_by_size(&orders.query(Order::by_size(0, "ada")).all().await.unwrap_err());
    let report = orders.verify().run().await?;
    assert_eq!(report.total.failed, 2, "{report:?}");
    let problem = &report.problems.first().ok_or("no problem")?.error;
    assert!(problem.contains("by_size") && problem.contains(" on archived"), "{problem}");

    server.clock().advance(Duration::from_secs(3601));
    let accounts = connect(&server)?;
    accounts.store()?.create_if_missing().await?;
    recover(&accounts).await?;
    let repaired = accounts.store()?.repair().run().await?;
    assert_eq!(repaired.part("by_size").repaired, 1, "the copy of the order before: {repaired:?}");
    assert_eq!(agreed(&server.snapshot()), 2);
    Ok(())
}
