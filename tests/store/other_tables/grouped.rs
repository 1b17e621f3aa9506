//! Transactions of several orders with rows in several tables: requests that fail, an account that is unavailable,
//! and other writers in between.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::store::{Settled, Store, Submitted};
use rowkey::{ErrorKind, Outcome};
use rowkey_emulator::{ErrorCode, Fault, Matching, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::is_made;

use super::faults::{recover, swept};
use super::{Accounts, Order, agreed, connect, key, order, start};

/// What becomes of requests.
type Way = fn(Matching) -> Fault;

/// Inserts an order, changes two, one of which changes places with the other, and deletes one.
async fn several(orders: &Store<Order>) -> rowkey::Result<Submitted> {
    let new = order(5);
    let read = orders.get(key(4)).await?.unwrap();
    orders
        .transaction()
        .insert(&new)
        .update(key(1), |order| (order.customer, order.size) = ("bob".into(), 7))
        .update(key(2), |order| (order.size, order.courier, order.tag) = (7, None, None))
        .delete_if(&key(4), read.version)
        .submit()
        .await
}

async fn with_orders() -> TestResult<(Server, Accounts, Store<Order>)> {
    let (server, accounts, orders) = start().await?;
    for id in 1..=4 {
        orders.insert(&order(id)).await?;
    }
    Ok((server, accounts, orders))
}

/// The worker, a minute and an hour later.
async fn recovered(server: &Server) -> TestResult {
    for seconds in [61, 3601] {
        server.clock().advance(Duration::from_secs(seconds));
        recover(&connect(server)?).await?;
    }
    Ok(())
}

#[tokio::test]
async fn rows_of_several_orders_in_other_tables_agree_after_any_fault_or_crash() -> TestResult {
    let (server, _, _) = with_orders().await?;
    let scenario = async |accounts: &Accounts| several(&accounts.store()?).await;
    swept(&server, scenario, |snapshot| assert_eq!(agreed(snapshot), 4)).await
}

/// The answer to each request is lost, before or after its effect, and another writer comes at once.
#[tokio::test]
async fn another_writer_after_a_lost_answer_leaves_all_tables_in_agreement() -> TestResult {
    let lost: [Option<Way>; 3] =
        [None, Some(Matching::close_before_commit), Some(Matching::close_after_commit)];
    let (server, accounts, _) = with_orders().await?;
    let before = server.journal();
    several(&accounts.store()?).await?;
    let requests = server.journal().since(&before).len() as u64;
    for (at, lost) in (0..).zip(lost) {
        for nth in (1..=requests).filter(|nth| is_made(nth + 3 * at)) {
            let (server, accounts, _) = with_orders().await?;
            let (one, other) = (accounts.store()?, connect(&server)?.store()?);
            let closed = lost.map(|lost| server.inject(lost(Fault::any().nth(nth))));
            let held = server.inject(Fault::any().nth(nth).hold());
            let rival = async {
                held.wait_until_held().await;
                drop(closed);
                let version = other.get(key(2)).await?.map(|read| read.version);
                let change = |order: &mut Order| (order.size, order.customer) = (9, "cid".into());
                let both = other.transaction().update(key(1), change);
                let both = match version {
                    Some(version) => both.delete_if(&key(2), version),
                    None => both,
                };
                let written = both.submit().await;
                held.release();
                written
            };
            let mut write = pin!(several(&one));
            if let Either::Right((written, _)) = select(&mut write, pin!(rival)).await {
                written?;
                if let Err(error) = write.await {
                    // The rival deleted one of its orders.
                    let kinds = [ErrorKind::NotFound, ErrorKind::Conflict, ErrorKind::Unavailable];
                    assert!(kinds.contains(&error.kind()), "request {nth}: {error}");
                }
            }
            recovered(&server).await?;
            eprintln!("{at}, request {nth}");
            agreed(&server.snapshot());
        }
    }
    Ok(())
}

#[tokio::test]
async fn transactions_do_not_fail_while_an_account_is_unavailable_in_any_way() -> TestResult {
    let ways: [Way; 3] = [
        |any| any.reject(ErrorCode::SERVER_BUSY),
        Matching::close_before_commit,
        Matching::close_after_commit,
    ];
    for (at, way) in ways.into_iter().enumerate() {
        let (server, accounts, _) = with_orders().await?;
        let down = server.inject(way(Fault::any().resource("archived")));
        let written = several(&accounts.store()?).await?;
        assert_eq!(written.settled, Settled::Pending, "{at}");
        drop(down);
        recovered(&server).await?;
        assert_eq!(agreed(&server.snapshot()), 4, "{at}");
    }
    Ok(())
}

/// The program may no longer use the account. What it would have to read is refused; what it need not is written.
#[tokio::test]
async fn a_transaction_that_reads_an_account_that_refuses_the_program_writes_nothing() -> TestResult
{
    let (server, accounts, _) = with_orders().await?;
    let refused = Fault::any().resource("archived").reject(ErrorCode::AUTHORIZATION_FAILURE);
    let refused = server.inject(refused);
    let before = server.snapshot();
    let error = several(&accounts.store()?).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert_ne!(error.outcome(), Outcome::Unknown);
    assert!(error.to_string().contains("by_size"), "{error}");
    let rows = |snapshot: &Snapshot| {
        let current = snapshot.account(super::CURRENT).unwrap();
        let messages = current.queue("orders").unwrap().messages().count();
        (current.table("orders").unwrap().len(), messages)
    };
    assert_eq!(rows(&server.snapshot()), rows(&before), "nothing is written");
    let orders = accounts.store()?;
    let (six, seven) = (order(6), order(7));
    let inserted = orders.transaction().insert(&six).insert(&seven).submit().await?;
    assert_eq!(inserted.settled, Settled::Pending);
    drop(refused);
    recovered(&server).await?;
    assert_eq!(agreed(&server.snapshot()), 6);
    Ok(())
}

/// A writer is about to insert its row in another account. A later writer, which would have to delete that row, could
/// not look for it, and its worker does not find it yet.
#[tokio::test]
async fn a_row_that_is_inserted_after_a_failed_look_does_not_stay() -> TestResult {
    for looks_again in [false, true] {
        let (server, accounts, _) = with_orders().await?;
        let slow = accounts.store()?;
        let held = server.inject(Fault::any().resource("archived").nth(2).hold());
        let change = |order: &mut Order| order.size = 5;
        let mut first = pin!(slow.update(key(1), change));
        let Either::Right(_) = select(&mut first, pin!(held.wait_until_held())).await else {
            panic!("it did not write to the archive")
        };
        let down = server.inject(Fault::any().resource("archived").reject(ErrorCode::SERVER_BUSY));
        let other = connect(&server)?.store()?;
        let written = other.transaction().update(key(1), |order| order.size = 9);
        let written = written.update(key(2), |order| order.size = 9).submit().await?;
        assert_eq!(written.settled, Settled::Pending);
        drop(down);
        if looks_again {
            server.clock().advance(Duration::from_secs(61));
            let worked = connect(&server)?.store()?.work_once().await?;
            assert_eq!(worked.failed, 0, "{worked:?}");
        }
        held.release();
        first.await?;
        recovered(&server).await?;
        assert_eq!(agreed(&server.snapshot()), 4, "{looks_again}");
    }
    Ok(())
}
