//! Transactions that read the entities that they change: `update`, `try_update`, `upsert` and `patch`.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::edm::Value;
use rowkey::store::{Settled, Store};
use rowkey::worker::outbox::Outbox as _;
use rowkey::worker::{Task, Tasks};
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Outcome, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, once, stopped_at_every_request, sweep};
use serde::{Deserialize, Serialize};

use super::rows::{Order, agreed, order, start, store};

/// An entity of another type in the partition of the orders.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "till-{id}")]
struct Till {
    tenant: String,
    id: u32,
    cents: i64,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    order: u32,
}

impl Task for Receipt {
    const KIND: &'static str = "receipt";
}

fn key(id: u32) -> Key<Order> {
    Order::key("contoso", id)
}

fn till() -> Key<Till> {
    Till::key("contoso", 1)
}

fn tills(account: &StorageAccount) -> rowkey::Result<Store<Till>> {
    Store::builder(account.table("orders")).queue(account.queue("orders")).build()
}

/// Orders with receipts.
fn with_receipts(account: &StorageAccount) -> rowkey::Result<Store<Order>> {
    let receipts = Tasks::<Receipt>::new(account.queue("receipts"));
    Store::builder(account.table("orders")).queue(account.queue("orders")).with(receipts).build()
}

/// A server with two orders and a till.
async fn begun() -> TestResult<(Server, StorageAccount)> {
    let (server, account) = start().await?;
    account.queue("receipts").create().await?;
    let (orders, tills) = (store(&account)?, tills(&account)?);
    orders.insert(&order(1)).await?;
    orders.insert(&order(2)).await?;
    tills.insert(&Till { tenant: "contoso".into(), id: 1, cents: 0 }).await?;
    Ok((server, account))
}

/// Moves a cent from the first order to the second, one into the till, and the first order to another courier;
/// with a row and a task.
async fn pay(account: &StorageAccount) -> rowkey::Result<rowkey::store::Submitted> {
    let (orders, tills) = (with_receipts(account)?, tills(account)?);
    let mut counted = 0;
    loop {
        // What a patch sets has to be read first.
        let read = tills.get(till()).await?.expect("the till is there");
        let counts = tills.patch(till()).set(Till::CENTS, read.entity.cents + 1);
        let mut row = DynamicEntity::new("contoso", format!("paid-{:03}", read.entity.cents));
        row.set("Order", 1);
        let paid = orders
            .transaction()
            .update(key(1), |order| {
                order.cents -= 1;
                order.courier = Some("lee".into());
            })
            .update(key(2), |order| order.cents += 1)
            .patch(counts.if_version(read.version))
            .row(&row)
            .task(&Receipt { order: 1 })
            .submit()
            .await;
        counted += 1;
        match paid {
            Err(error)
                if error.kind() == ErrorKind::Conflict
                    && error.outcome() != Outcome::Unknown
                    && counted < 5 => {}
            paid => return paid,
        }
    }
}

/// The cents of the orders, those of the till, and how many payments have a row.
fn state(snapshot: &Snapshot) -> ([i64; 2], i64, usize) {
    let rows = snapshot.table("orders").unwrap();
    let cents = |row_key: &str| {
        let row = rows
            .entities()
            .find(|row| row.partition_key() == "contoso" && row.row_key() == row_key)
            .unwrap();
        match row.get("cents") {
            Some(Value::Int64(cents)) => cents,
            other => panic!("{other:?}"),
        }
    };
    let paid = rows.entities().filter(|row| row.row_key().starts_with("paid-")).count();
    ([cents("order_0001"), cents("order_0002")], cents("till-0000000001"), paid)
}

/// Asserts that this many payments were made, each as a whole, and returns the number.
fn payments(snapshot: &Snapshot) -> i64 {
    let (orders, till, paid) = state(snapshot);
    assert_eq!(orders, [100 - till, 100 + till], "each payment is made as a whole");
    assert_eq!(i64::try_from(paid).unwrap(), till);
    till
}

async fn recover(account: &StorageAccount) -> TestResult {
    let (orders, tills) = (with_receipts(account)?, tills(account)?);
    for _ in 0..3 {
        orders.drain_backlog().await?;
        orders.work_once().await?;
        tills.work_once().await?;
    }
    Ok(())
}

/// How many receipts are in the queue.
async fn receipts(account: &StorageAccount) -> Result<usize, rowkey::Error> {
    Ok(account.queue("receipts").receive(32, Duration::from_secs(60)).await?.len())
}

#[tokio::test]
async fn each_entity_costs_a_read_and_all_of_them_one_transaction() -> TestResult {
    let (server, account) = begun().await?;
    let (orders, tills) = (store(&account)?, tills(&account)?);
    let mut before = server.journal();
    let mut cost = |operation: Option<Operation>| {
        let now = server.journal();
        let since = now.clone().since(&before);
        before = now;
        operation.map_or_else(|| since.len(), |operation| since.count(operation))
    };
    // Without declarations elsewhere.
    cost(None);
    let two = |cents| tills.transaction().update(till(), move |till| till.cents += cents);
    let plan = two(1).explain().await?;
    assert_eq!((plan.reads(), plan.requests()), (1, 1), "{plan}");
    assert_eq!(cost(None), 1, "explaining reads");
    let other = Till { tenant: "contoso".into(), id: 2, cents: 0 };
    two(1).upsert(&other).submit().await?;
    assert_eq!(cost(None), 3, "two reads and the transaction");
    let sets = || tills.patch(till()).set(Till::CENTS, 7);
    let submitted = tills
        .transaction()
        .update(Till::key("contoso", 2), |till| till.cents = 5)
        .patch(sets())
        .submit()
        .await?;
    assert_eq!(cost(None), 3);
    let [Some(second), Some(first)] = &submitted.versions[..] else { panic!("{submitted:?}") };
    assert_eq!(tills.get(till()).await?.unwrap().version, *first);
    tills.delete_if(Till::key("contoso", 2), second).await?;
    // With an index elsewhere and two more in the partition: the message, the transaction and the deletions of the
    // op row and of the message are needed once.
    let moves =
        |courier: &'static str| move |order: &mut Order| order.courier = Some(courier.into());
    let prices = |cents| move |order: &mut Order| order.cents = cents;
    cost(None);
    orders.update(key(1), moves("lee")).await?;
    orders.update(key(2), prices(5)).await?;
    let apart = cost(None);
    let both = || orders.transaction().update(key(1), moves("kim")).update(key(2), prices(6));
    let plan = both().explain().await?;
    assert_eq!(plan.reads(), 2, "{plan}");
    cost(None);
    assert_eq!(both().submit().await?.settled, Settled::Done);
    assert!(cost(None) <= apart - 4);
    agreed(&server.snapshot(), false);
    Ok(())
}

#[tokio::test]
async fn a_change_that_refuses_writes_nothing_and_returns_its_error() -> TestResult {
    #[derive(Debug, PartialEq)]
    enum Refusal {
        TooLittle { missing: i64 },
        Closed,
    }
    let (server, account) = begun().await?;
    let orders = store(&account)?;
    let before = server.journal();
    let pay = |cents: i64| {
        let from = move |order: &mut Order| {
            order.cents -= cents;
            if order.cents < 0 { Err(Refusal::TooLittle { missing: -order.cents }) } else { Ok(()) }
        };
        let to = move |order: &mut Order| {
            order.cents += cents;
            if order.customer == "closed" { Err(Refusal::Closed) } else { Ok(()) }
        };
        orders.transaction().try_update(key(1), from).try_update(key(2), to)
    };
    assert_eq!(pay(130).submit().await?, Err(Refusal::TooLittle { missing: 30 }));
    let since = server.journal().since(&before);
    assert_eq!((since.len(), since.count(Operation::GetEntity)), (1, 1), "nothing but a read");
    let error = pay(130).explain().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    pay(30).submit().await?.unwrap();
    assert_eq!(state(&server.snapshot()).0, [70, 130]);
    orders.update(key(2), |order| order.customer = "closed".into()).await?;
    assert_eq!(pay(30).submit().await?, Err(Refusal::Closed));
    assert_eq!(state(&server.snapshot()).0, [70, 130]);
    // Errors of the store are errors of the call.
    let missing = orders.transaction().try_update(key(9), |_| Err(Refusal::Closed)).submit().await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_written_names_its_operation() -> TestResult {
    let (server, account) = begun().await?;
    let (orders, tills) = (store(&account)?, tills(&account)?);
    let stored = server.snapshot();
    let ok = |order: &mut Order| order.cents = 1;
    let read = orders.get(key(1)).await?.unwrap().version;
    orders.rewrite(key(1)).await?;
    let elsewhere = Store::<Till>::builder(account.table("other")).build()?;
    let (one, outside) = (order(1), Order { tenant: "fabrikam".into(), ..order(3) });
    let new = || orders.transaction().update(key(2), ok);
    let cases = [
        ("missing", new().update(key(9), ok), ErrorKind::NotFound),
        ("its key changes", new().update(key(1), |order| order.id = 8), ErrorKind::Invalid),
        ("outside", new().upsert(&outside), ErrorKind::Invalid),
        (
            "outdated",
            new().patch(orders.patch(key(1)).set(Order::CENTS, 1).if_version(&read)),
            ErrorKind::Conflict,
        ),
        (
            "a missing patch",
            new().patch(tills.patch(Till::key("contoso", 9)).set(Till::CENTS, 1)),
            ErrorKind::NotFound,
        ),
        (
            "another table",
            new().patch(elsewhere.patch(till()).set(Till::CENTS, 1)),
            ErrorKind::Invalid,
        ),
        ("exists", new().insert(&one), ErrorKind::AlreadyExists),
        ("twice", new().update(key(2), ok), ErrorKind::Invalid),
    ];
    let before = server.journal();
    for (name, transaction, kind) in cases {
        let error = transaction.submit().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.details().operation_index),
            (kind, Some(1)),
            "{name}: {error}"
        );
    }
    let since = server.journal().since(&before);
    assert_eq!(since.count(Operation::Transaction), 0, "reads, and the claim of a value, tell");
    assert_eq!(state(&server.snapshot()), state(&stored));
    Ok(())
}

#[tokio::test]
async fn after_forty_rounds_the_last_conflict_is_returned() -> TestResult {
    let (server, account) = begun().await?;
    let tills = tills(&account)?;
    let lost = server.inject(
        Fault::on(Operation::Transaction).reject(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED),
    );
    let runs = AtomicUsize::new(0);
    let other = Till { tenant: "contoso".into(), id: 2, cents: 0 };
    let counted = |till: &mut Till| {
        till.cents += i64::try_from(runs.fetch_add(1, Ordering::Relaxed)).unwrap();
    };
    let error =
        tills.transaction().update(till(), counted).upsert(&other).submit().await.unwrap_err();
    assert_eq!((error.kind(), lost.hits()), (ErrorKind::Conflict, 40), "{error}");
    assert_eq!(runs.load(Ordering::Relaxed), 40);
    // A condition of the caller is no reason to try again.
    let version = tills.get(till()).await?.unwrap().version;
    let changed = Till { tenant: "contoso".into(), id: 1, cents: 3 };
    let guarded = tills.transaction().replace_if(&changed, version).insert(&other).submit().await;
    assert_eq!((guarded.unwrap_err().kind(), lost.hits()), (ErrorKind::Conflict, 41));
    Ok(())
}

/// Another writer between any two requests: all changes run again on what it wrote, and none is lost.
#[tokio::test]
async fn a_writer_between_any_two_requests_comes_first_and_nothing_is_lost() -> TestResult {
    let mut again = 0;
    for nth in 1.. {
        let (server, account) = begun().await?;
        let (orders, tills) = (store(&account)?, tills(&account)?);
        let held = server.inject(Fault::any().nth(nth).hold());
        let before = server.journal();
        let mut paying = pin!(pay(&account));
        let rival = async {
            held.wait_until_held().await;
            let both = orders.transaction().update(key(1), |order| order.cents -= 10);
            let rival = both.update(key(2), |order| order.cents += 10).submit().await;
            let counted = tills.update(till(), |till| till.cents += 10).await;
            held.release();
            rival.and(counted)
        };
        let paid = match select(&mut paying, pin!(rival)).await {
            Either::Left(_) => break,
            Either::Right((rival, _)) => {
                rival?;
                paying.await
            }
        };
        paid.unwrap();
        let (orders, till, rows) = state(&server.snapshot());
        assert_eq!((orders, till, rows), ([89, 111], 11, 1), "request {nth}");
        again += usize::from(server.journal().since(&before).count(Operation::Transaction) > 5);
        server.clock().advance(Duration::from_secs(60));
        let later = self::account(&server)?;
        recover(&later).await?;
        assert_eq!(receipts(&later).await?, 1, "request {nth}");
        assert_eq!(
            later
                .table("orders")
                .get(Order::key("contoso", 1))
                .await?
                .unwrap()
                .entity
                .courier
                .as_deref(),
            Some("lee")
        );
    }
    assert!(again > 0, "the writer never came first");
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_applies_nothing_twice() -> TestResult {
    let (server, _) = begun().await?;
    for repeats in [true, false] {
        let runs = sweep(
            &server,
            async |account| pay(&if repeats { account.clone() } else { once(account) }).await,
            async |account, paid| {
                recover(account).await?;
                let found = receipts(account).await?;
                match paid {
                    // A message that is sent again has the same id.
                    Ok(_) => assert!(found > 0),
                    Err(error) if error.outcome() == Outcome::Unknown => {}
                    Err(_) => assert_eq!(found, 0),
                }
                Ok(())
            },
            |snapshot, paid| {
                let made = payments(snapshot);
                match paid {
                    Ok(_) => assert_eq!(made, 1),
                    Err(error) if error.outcome() == Outcome::Unknown => {
                        assert!(!repeats && [0, 1].contains(&made), "{error}");
                    }
                    Err(error) => assert_eq!(made, 0, "{error}"),
                }
            },
        )
        .await?;
        assert!(runs.failures > 0);
    }
    stopped_at_every_request(&server, pay, recover, |snapshot| {
        assert!([0, 1].contains(&payments(snapshot)));
    })
    .await?;
    Ok(())
}
