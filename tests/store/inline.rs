//! Settling by conditional writes: writers that overtake each other between their commits and their rows
//! elsewhere.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join, select};
use rowkey::store::{Settled, Store};
use rowkey::{Key, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::{TestResult, sweep};

use super::rows::{Order, agreed, left, order, start, store};

fn key() -> Key<Order> {
    Order::key("contoso", 1)
}

/// Lets a minute pass, and a program receive what is left.
async fn receive(server: &Server, seconds: u64) -> TestResult {
    server.clock().advance(Duration::from_secs(seconds));
    let orders = store(&sweep::account(server)?)?;
    assert_eq!(orders.work_once().await?.failed, 0);
    orders.drain_backlog().await?;
    Ok(())
}

/// The writer of an insert is slow: its row elsewhere comes after the entity was deleted.
#[tokio::test]
async fn a_row_that_comes_after_its_entity_is_gone_is_removed() -> TestResult {
    for is_other in [false, true] {
        let (server, account) = start().await?;
        let orders = store(&account)?;
        let other = if is_other { store(&account)? } else { orders.clone() };
        let held = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
        let one = order(1);
        let delete = async {
            held.wait_until_held().await;
            let deleted = other.delete(key()).await;
            held.release();
            deleted
        };
        let (inserted, deleted) = join(orders.insert(&one), delete).await;
        inserted?;
        assert!(deleted?);
        // The deletion has left its op row, because the row may come.
        receive(&server, 61).await?;
        assert!(agreed(&server.snapshot(), true).is_empty());
        receive(&server, 2800).await?;
        assert_eq!(left(&server), Vec::<String>::new());
    }
    Ok(())
}

/// The writer that takes a value away is slow: its deletion comes after the value is back.
#[tokio::test]
async fn a_row_that_is_back_is_not_deleted() -> TestResult {
    for is_other in [false, true] {
        let (server, account) = start().await?;
        let orders = store(&account)?;
        let other = if is_other { store(&account)? } else { orders.clone() };
        orders.insert(&order(1)).await?;
        let courier =
            |name: &'static str| move |order: &mut Order| order.courier = Some(name.into());
        // The commit, the new row, the old row.
        let held = server.inject(Fault::on(Operation::Transaction).nth(3).hold());
        let back = async {
            held.wait_until_held().await;
            let updated = other.update(key(), courier("kim")).await;
            held.release();
            updated
        };
        let (away, back) = join(orders.update(key(), courier("lee")), back).await;
        away?;
        back?;
        agreed(&server.snapshot(), true);
        assert_eq!(left(&server), Vec::<String>::new());
    }
    Ok(())
}

/// As before, but the writer that takes the value back does not insert its row, because another row of it was refused
/// before: settling finds the row there.
#[tokio::test]
async fn a_row_that_is_back_is_not_deleted_if_another_row_was_refused() -> TestResult {
    let (server, account) = start().await?;
    let (one, two, three) = (store(&account)?, store(&account)?, store(&account)?);
    one.insert(&order(1)).await?;
    let size = |size| move |order: &mut Order| order.size = size;
    // The commit, the copy for the courier, the new size, the old one.
    let old = server.inject(Fault::on(Operation::Transaction).nth(4).hold());
    let mut away = pin!(one.update(key(), size(7)));
    select(away.as_mut(), pin!(old.wait_until_held())).await;
    // The commit, the copy for the courier.
    let copy = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    let mut other = pin!(three.update(key(), |order| order.cents += 1));
    select(other.as_mut(), pin!(copy.wait_until_held())).await;
    // It has looked at the copy for the courier.
    let commit = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let mut back = pin!(two.update(key(), size(1)));
    select(back.as_mut(), pin!(commit.wait_until_held())).await;
    copy.release();
    other.await?;
    commit.release();
    back.await?;
    old.release();
    away.await?;
    receive(&server, 61).await?;
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    receive(&server, 2800).await?;
    assert_eq!(left(&server), Vec::<String>::new());
    Ok(())
}

/// As before, but the writer that takes the value back does not trust the rows of other programs.
#[tokio::test]
async fn a_row_that_is_back_is_not_deleted_if_its_writer_reads_copies() -> TestResult {
    let (server, account) = start().await?;
    let one = store(&account)?;
    let two = Store::<Order>::builder(account.table("orders"));
    let two = two.queue(account.queue("orders")).reads_copies().build()?;
    one.insert(&order(1)).await?;
    let size = |size| move |order: &mut Order| order.size = size;
    let old = server.inject(Fault::on(Operation::Transaction).nth(4).hold());
    let mut away = pin!(one.update(key(), size(7)));
    select(away.as_mut(), pin!(old.wait_until_held())).await;
    two.update(key(), size(1)).await?;
    old.release();
    away.await?;
    receive(&server, 61).await?;
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    receive(&server, 2800).await?;
    assert_eq!(left(&server), Vec::<String>::new());
    Ok(())
}

/// A copy that another program deleted is missed, and no other write is in flight: nothing is left for a worker.
#[tokio::test]
async fn a_missing_row_is_written_again() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let row = Key::<rowkey::DynamicEntity>::new("courier_kim", "contoso_0000000001");
    orders.table().delete(row, rowkey::Match::Any).await?;
    for orders in [orders.clone(), store(&account)?] {
        orders.update(key(), |order| order.cents += 1).await?;
        agreed(&server.snapshot(), true);
        assert_eq!(left(&server), Vec::<String>::new());
    }
    Ok(())
}

/// Writers of one entity in two programs, which stop anywhere.
#[tokio::test]
async fn programs_that_stop_anywhere_leave_rows_that_agree() -> TestResult {
    for nth in 1..=14 {
        let (server, account) = start().await?;
        let (one, two): (Store<Order>, _) = (store(&account)?, store(&account)?);
        one.insert(&order(1)).await?;
        let held = server.inject(Fault::any().nth(nth).hold());
        {
            let update = one.update(key(), |order| {
                order.courier = Some("lee".into());
                order.size = 7;
                order.number = Some("B".into());
            });
            select(pin!(update), pin!(held.wait_until_held())).await;
        }
        held.discard();
        two.update(key(), |order| {
            order.courier = Some("kim".into());
            order.size = 1;
            order.number = Some("A1".into());
        })
        .await?;
        receive(&server, 61).await?;
        receive(&server, 61).await?;
        assert_eq!(agreed(&server.snapshot(), true).len(), 1, "stopped at {nth}");
        receive(&server, 2800).await?;
        receive(&server, 2800).await?;
        assert_eq!(left(&server), Vec::<String>::new(), "stopped at {nth}");
    }
    Ok(())
}

/// A program ends while a write has left its op row and its message to another one in flight.
#[tokio::test]
async fn a_program_that_ends_leaves_its_clean_up_to_a_receiver() -> TestResult {
    let (server, account) = start().await?;
    {
        let orders = store(&account)?;
        let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
        let two = order(2);
        let mut slow = pin!(orders.insert(&two));
        select(slow.as_mut(), pin!(held.wait_until_held())).await;
        assert_eq!(orders.insert(&order(1)).await?.settled, Settled::Done);
        assert_eq!(left(&server).len(), 3, "an op row and two messages");
    }
    for seconds in [61, 61, 2800, 2800, 2800] {
        receive(&server, seconds).await?;
    }
    let orders = agreed(&server.snapshot(), true);
    assert!(orders.iter().any(|(key, _)| key == "order_0001"), "{orders:?}");
    assert_eq!(left(&server), Vec::<String>::new());
    Ok(())
}

/// Many writers of few entities in one program share their clean-up: nothing is left over.
#[tokio::test]
async fn writers_in_flight_leave_nothing_over() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    for round in 0..4 {
        let writers = (0..24_u32).map(|number| {
            let orders = orders.clone();
            async move {
                let mut order = order(number % 4);
                order.courier = Some(format!("courier-{}", (number + round) % 3));
                order.size = number % 2;
                match number % 5 {
                    0 => drop(orders.delete(Order::key("contoso", number % 4)).await?),
                    _ => drop(orders.upsert(&order).await?),
                }
                Ok::<_, rowkey::Error>(())
            }
        });
        for written in futures_util::future::join_all(writers).await {
            written?;
        }
        for seconds in [61, 61] {
            receive(&server, seconds).await?;
        }
        agreed(&server.snapshot(), true);
    }
    for seconds in [2800, 2800, 2800] {
        receive(&server, seconds).await?;
    }
    assert_eq!(left(&server), Vec::<String>::new());
    Ok(())
}

/// A value that goes, comes back and goes with its entity: the row of the second write comes last, after the
/// first has deleted the row that the third had looked at.
#[tokio::test]
async fn a_row_that_comes_back_after_its_entity_is_gone_is_removed() -> TestResult {
    let (server, account) = start().await?;
    let programs = [store(&account)?, store(&account)?, store(&account)?];
    programs[0].insert(&order(1)).await?;
    let courier = |name: &'static str| move |order: &mut Order| order.courier = Some(name.into());
    // The commit, the new row, the old row.
    let deletes_old = server.inject(Fault::on(Operation::Transaction).nth(3).hold());
    let mut away = pin!(programs[0].update(key(), courier("lee")));
    select(away.as_mut(), pin!(deletes_old.wait_until_held())).await;
    let inserts = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    let mut back = pin!(programs[1].update(key(), courier("kim")));
    select(back.as_mut(), pin!(inserts.wait_until_held())).await;
    let deletes = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    let mut delete = pin!(programs[2].delete(key()));
    select(delete.as_mut(), pin!(deletes.wait_until_held())).await;

    deletes_old.release();
    away.await?;
    deletes.release();
    assert!(delete.await?);
    inserts.release();
    back.await?;
    for seconds in [61, 61, 2800, 2800] {
        receive(&server, seconds).await?;
    }
    assert!(agreed(&server.snapshot(), true).is_empty());
    assert_eq!(left(&server), Vec::<String>::new());
    Ok(())
}

/// Eight writes of a program are in flight, of which each request fails in each way, or the program stops at it.
#[tokio::test]
async fn writes_in_flight_agree_in_the_end_whatever_fails() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    for number in 0..4 {
        orders.insert(&order(number)).await?;
    }
    let writes = async |account: &StorageAccount| {
        let orders = store(account)?;
        let writes = (0..8_u32).map(|number| {
            let orders = orders.clone();
            async move {
                let key = Order::key("contoso", number);
                match number {
                    0 => orders.delete(key).await.map(drop),
                    1 => orders
                        .update(key, |order| order.courier = Some("lee".into()))
                        .await
                        .map(drop),
                    2 => {
                        orders.update(key, |order| order.number = Some("B".into())).await.map(drop)
                    }
                    3 => orders.upsert(&Order { size: 7, ..order(3) }).await.map(drop),
                    _ => orders.insert(&order(number)).await.map(drop),
                }
            }
        });
        futures_util::future::join_all(writes).await.into_iter().collect::<rowkey::Result<()>>()
    };
    let recover = async |account: &StorageAccount| -> TestResult {
        let orders = store(account)?;
        for _ in 0..3 {
            orders.drain_backlog().await?;
            assert_eq!(orders.work_once().await?.failed, 0);
        }
        Ok(())
    };
    sweep::sweep_every_way(&server, writes, recover, |snapshot| drop(agreed(snapshot, true))).await
}

/// A free message is used again, and the answer to its update is lost: it names the write, and another message does.
#[tokio::test]
async fn a_message_whose_reuse_was_not_answered_does_no_harm() -> TestResult {
    for fault in ["lost", "refused", "received"] {
        let (server, account) = start().await?;
        let orders = store(&account)?;
        // One write is in flight all the time.
        let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
        let long = order(99);
        let mut long = pin!(orders.insert(&long));
        select(long.as_mut(), pin!(held.wait_until_held())).await;
        for number in 0..16 {
            orders.insert(&order(number)).await?;
        }
        let update = Fault::on(Operation::UpdateMessage);
        let failing = match fault {
            "lost" => Some(server.inject(update.nth(1).close_after_commit())),
            "refused" => Some(server.inject(update.nth(1).reject(ErrorCode::SERVER_BUSY))),
            _ => {
                // A worker has all messages.
                server.clock().advance(Duration::from_secs(61));
                let queue = account.queue("orders");
                while !queue.receive(32, Duration::from_secs(60)).await?.is_empty() {}
                None
            }
        };
        for number in 20..24 {
            orders.insert(&order(number)).await?;
        }
        orders.delete(Order::key("contoso", 3)).await?;
        drop(failing);
        held.release();
        long.await?;
        for seconds in [61, 61, 61] {
            receive(&server, seconds).await?;
        }
        assert_eq!(agreed(&server.snapshot(), true).len(), 20, "{fault}");
        for seconds in [2800, 2800, 2800] {
            receive(&server, seconds).await?;
        }
        assert_eq!(left(&server), Vec::<String>::new(), "{fault}");
    }
    Ok(())
}
