//! Releases of unique values: the program remembers the claims that it made, and other programs write them in the
//! meantime.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, select};
use rowkey::store::Store;
use rowkey::{ErrorKind, Key, Result, StorageAccount};
use rowkey_emulator::{Fault, Journal, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{self, sweep_every_way};

use super::rows::{Order, agreed, left, order, start, store};

fn key() -> Key<Order> {
    Order::key("contoso", 1)
}

fn number(number: &'static str) -> impl Fn(&mut Order) + Clone {
    move |order| order.number = Some(number.into())
}

/// A worker of a new program, until no request that was sent can take effect any more.
async fn receive_all(server: &Server) -> TestResult {
    for seconds in [61, 61, 2800, 2800] {
        server.clock().advance(Duration::from_secs(seconds));
        let orders = store(&sweep::account(server)?)?;
        assert_eq!(orders.work_once().await?.failed, 0);
        orders.drain_backlog().await?;
    }
    Ok(())
}

/// Asserts how many of these orders there are, that all rows agree, and that nothing is left.
async fn ends_with(server: &Server, orders: usize, what: &str) -> TestResult {
    receive_all(server).await?;
    assert_eq!(agreed(&server.snapshot(), true).len(), orders, "{what}");
    assert_eq!(left(server), Vec::<String>::new(), "{what}");
    Ok(())
}

/// How many entities were read, and deleted outside of transactions.
fn sent(server: &Server, before: &Journal) -> (usize, usize) {
    let since = server.journal().since(before);
    (since.count(Operation::GetEntity), since.count(Operation::DeleteEntity))
}

#[tokio::test]
async fn a_claim_that_the_program_made_is_released_without_reading_it() -> TestResult {
    let (server, account) = start().await?;
    let (orders, other) = (store(&account)?, store(&account)?);
    for id in 1..=5 {
        orders.insert(&order(id)).await?;
    }
    let at = |id| Order::key("contoso", id);

    // The entity alone is read: the program wrote both rows elsewhere, and made the claim.
    let before = server.journal();
    assert!(orders.delete(at(1)).await?);
    assert_eq!(sent(&server, &before), (1, 2));
    // Another program changes the entity and keeps the value.
    other.update(at(2), |order| order.cents += 1).await?;
    let before = server.journal();
    assert!(orders.delete(at(2)).await?);
    assert_eq!(
        sent(&server, &before),
        (2, 2),
        "the whole copy is read that the other program wrote"
    );
    // A value that is changed is given up as well, and the new one is remembered.
    let before = server.journal();
    orders.update(at(3), number("B")).await?;
    assert_eq!(sent(&server, &before), (1, 2));
    let before = server.journal();
    assert!(orders.delete(at(3)).await?);
    assert_eq!(sent(&server, &before), (1, 2));
    // A program that has just begun remembers nothing: it reads the two rows elsewhere and the claim.
    let before = server.journal();
    assert!(store(&account)?.delete(at(4)).await?);
    assert_eq!(sent(&server, &before), (4, 2));
    // If it finds the entity by the value, it has read the claim.
    let new = store(&account)?;
    let before = server.journal();
    assert!(new.find(Order::by_number("A5")).await?.is_some());
    assert_eq!(sent(&server, &before), (2, 0));
    let before = server.journal();
    assert!(new.delete(at(5)).await?);
    assert_eq!(sent(&server, &before), (3, 2));

    assert!(agreed(&server.snapshot(), true).is_empty());
    assert_eq!(left(&server), Vec::<String>::new());
    Ok(())
}

/// What another program does with an order that the first one has inserted.
type Meanwhile = fn(Store<Order>) -> BoxFuture<'static, Result<()>>;

const MEANWHILE: [(&str, Meanwhile); 3] = [
    ("it is deleted and inserted again", |orders| {
        async move {
            orders.delete(key()).await?;
            orders.insert(&order(1)).await.map(drop)
        }
        .boxed()
    }),
    ("it has another value, and this one again", |orders| {
        async move {
            orders.update(key(), number("B")).await?;
            orders.update(key(), number("A1")).await.map(drop)
        }
        .boxed()
    }),
    ("another order has the value", |orders| {
        async move {
            orders.update(key(), number("B")).await?;
            orders.insert(&Order { number: Some("A1".into()), ..order(2) }).await.map(drop)
        }
        .boxed()
    }),
];

/// The claim that the program remembers is older than the one that is stored.
#[tokio::test]
async fn an_outdated_memory_releases_the_claim_that_is_there() -> TestResult {
    for (name, meanwhile) in MEANWHILE {
        for (changes, finds) in [(false, false), (true, false), (true, true)] {
            let (server, account) = start().await?;
            let mut orders = store(&account)?;
            orders.insert(&order(1)).await?;
            if finds {
                // Another program, which has only read the claim.
                orders = store(&account)?;
                assert!(orders.find(Order::by_number("A1")).await?.is_some());
            }
            meanwhile(store(&account)?).await?;
            if changes {
                // The head is no longer the one that the stored claim was made for.
                orders.update(key(), |order| order.cents += 1).await?;
            }
            let others = agreed(&server.snapshot(), true).len() - 1;
            assert!(orders.delete(key()).await?);
            assert_eq!(agreed(&server.snapshot(), true).len(), others, "{name}");
            ends_with(&server, others, name).await?;
            // The value is free, unless another order has it.
            if others == 0 {
                store(&sweep::account(&server)?)?.insert(&order(1)).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_outdated_memory_does_no_harm_after_any_fault_or_crash() -> TestResult {
    let (server, _) = start().await?;
    for (name, meanwhile) in MEANWHILE {
        eprintln!("{name}");
        let scenario = async |account: &StorageAccount| {
            let orders = store(account)?;
            orders.insert(&order(1)).await?;
            meanwhile(store(account)?).await?;
            orders.update(key(), |order| order.cents += 1).await?;
            orders.delete(key()).await
        };
        let recover = async |account: &StorageAccount| {
            let orders = store(account)?;
            for _ in 0..3 {
                orders.drain_backlog().await?;
                assert_eq!(orders.work_once().await?.failed, 0);
            }
            Ok(())
        };
        sweep_every_way(&server, scenario, recover, |snapshot| drop(agreed(snapshot, true)))
            .await?;
    }
    Ok(())
}

/// A server with an order whose claim names an operation that ended without a commit: another program took the claim
/// over for the same entity, and its commit was refused. Returns the program that made the first claim.
async fn with_a_claim_of_a_refused_write() -> Result<(Server, Store<Order>)> {
    let (server, account) = start().await.unwrap();
    let (one, two) = (store(&account)?, store(&account)?);
    one.insert(&Order { number: None, ..order(1) }).await?;
    // It has read the entity and puts its message.
    let held = server.inject(Fault::on(Operation::PutMessage).nth(1).hold());
    {
        let mut slow = pin!(two.update(key(), number("A1")));
        select(slow.as_mut(), pin!(held.wait_until_held())).await;
        one.update(key(), number("A1")).await?;
        held.release();
        slow.await?;
    }
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    Ok((server, one))
}

#[tokio::test]
async fn a_claim_that_a_refused_write_took_over_is_released() -> TestResult {
    let (server, one) = with_a_claim_of_a_refused_write().await?;
    assert!(one.delete(key()).await?);
    assert!(agreed(&server.snapshot(), true).is_empty());
    ends_with(&server, 0, "deleted").await
}

/// The program stops at each request of the deletion, and a worker finds the claim.
#[tokio::test]
async fn a_worker_releases_a_claim_that_its_writer_remembered_wrongly() -> TestResult {
    let mut committed = 0;
    for nth in 1..=18 {
        let (server, one) = with_a_claim_of_a_refused_write().await?;
        let held = server.inject(Fault::any().nth(nth).hold());
        select(pin!(one.delete(key())), pin!(held.wait_until_held())).await;
        held.discard();
        receive_all(&server).await?;
        let orders = agreed(&server.snapshot(), true).len();
        committed += 1 - orders;
        assert_eq!(left(&server), Vec::<String>::new(), "stopped at {nth}");
    }
    assert!(committed > 10, "{committed} were committed");
    Ok(())
}

/// An entity comes back while the program that deleted it has not released its value yet.
#[tokio::test]
async fn an_entity_that_comes_back_keeps_its_value() -> TestResult {
    for is_slow in [false, true] {
        let (server, account) = start().await?;
        let (one, two) = (store(&account)?, store(&account)?);
        one.insert(&order(1)).await?;
        let released = server.inject(Fault::on(Operation::DeleteEntity).nth(1).hold());
        let mut delete = pin!(one.delete(key()));
        select(delete.as_mut(), pin!(released.wait_until_held())).await;

        let again = order(1);
        let mut insert = pin!(two.insert(&again));
        if is_slow {
            // It has taken the claim over and is not committed.
            let commit = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
            select(insert.as_mut(), pin!(commit.wait_until_held())).await;
            released.release();
            assert!(delete.await?);
            commit.release();
            insert.await?;
        } else {
            insert.await?;
            released.release();
            assert!(delete.await?);
        }
        assert_eq!(agreed(&server.snapshot(), true).len(), 1, "slow: {is_slow}");
        let taken = two.insert(&Order { id: 2, desk: None, ..order(1) }).await.unwrap_err();
        assert_eq!(taken.details().index, Some("by_number"));
        ends_with(&server, 1, "inserted again").await?;
    }
    Ok(())
}

/// Many are deleted at once by the program that made their claims, and one of the claims is not the one it remembers.
#[tokio::test]
async fn a_job_releases_what_the_program_remembers() -> TestResult {
    let (server, account) = start().await?;
    let (orders, other) = (store(&account)?, store(&account)?);
    for id in 1..=9 {
        orders.insert(&order(id)).await?;
    }
    other.update(key(), number("B")).await?;
    other.update(key(), number("A1")).await?;
    let before = server.journal();
    let report = orders.delete_where(Order::partition("contoso")).run().await?;
    assert!(report.is_clean() && report.total.right == 9, "{report:?}");
    // The whole copy elsewhere that the other program wrote; the claim that it made, and the head afterwards.
    assert_eq!(sent(&server, &before).0, 3);
    ends_with(&server, 0, "all are deleted").await
}

/// Two programs insert one entity. The second one has seen the claim and no entity, and the first one commits before
/// the second one decides it. If the second one took the claim over and the entity were deleted then, its insert would
/// be committed without a claim.
#[tokio::test]
async fn an_insert_does_not_take_over_the_claim_of_an_entity_that_is_there_by_now() -> TestResult {
    let (server, account) = start().await?;
    let (one, two) = (store(&account)?, store(&account)?);
    let same = order(1);
    let first = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let mut insert = pin!(one.insert(&same));
    select(insert.as_mut(), pin!(first.wait_until_held())).await;
    // The claim, the entity, the op row of the first one.
    let decision = server.inject(Fault::on(Operation::GetEntity).nth(3).hold());
    let mut late = pin!(two.insert(&same));
    select(late.as_mut(), pin!(decision.wait_until_held())).await;
    first.release();
    insert.await?;

    let commit = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    decision.release();
    let refused = match select(late.as_mut(), pin!(commit.wait_until_held())).await {
        Either::Left((refused, _)) => refused,
        Either::Right(_) => {
            assert!(store(&account)?.delete(key()).await?);
            commit.release();
            late.await
        }
    };
    let orders = agreed(&server.snapshot(), true).len();
    assert_eq!((refused.unwrap_err().kind(), orders), (ErrorKind::AlreadyExists, 1));
    ends_with(&server, 1, "inserted once").await
}
