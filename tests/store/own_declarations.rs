//! Declarations of a program: one that counts the orders of each customer in the partition, histories, and the
//! resources that declarations need.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use futures_util::stream;
use rowkey::edm::Value;
use rowkey::store::{Change, Contribution, Declaration, History, RemoteCopies, Store, View};
use rowkey::worker::{Task, Tasks};
use rowkey::{DynamicEntity, Entity, Error, Result, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::sweep_every_way;
use serde::{Deserialize, Serialize};

use super::rows::{Order, order, start};

struct Count;

impl Declaration<Order> for Count {
    fn name(&self) -> &'static str {
        "orders of a customer"
    }

    fn operations(&self) -> usize {
        2
    }

    fn reads(&self, change: Change<'_, Order>) -> Result<Vec<String>> {
        let of = |order: &Order| format!("count_{}", order.customer);
        Ok([change.before, change.after].into_iter().flatten().map(of).collect())
    }

    fn contribute(&self, change: Change<'_, Order>, plan: &mut Contribution<'_>) -> Result<()> {
        for (order, by) in [(change.before, -1), (change.after, 1)] {
            let Some(order) = order else { continue };
            let row_key = format!("count_{}", order.customer);
            plan.edit(&row_key, |row| {
                let stored = row.as_ref().and_then(|row| row.get("Count"));
                let before = if let Some(Value::Int32(count)) = stored { *count } else { 0 };
                *row = (before + by > 0).then(|| {
                    let mut row = DynamicEntity::new(&*order.tenant, &*row_key);
                    row.set("Count", before + by);
                    row
                });
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn counts(snapshot: &rowkey_emulator::Snapshot) -> (usize, i32) {
    let rows = snapshot.table("orders").unwrap();
    let heads = rows.entities().filter(|row| row.row_key().starts_with("order_")).count();
    let count = rows.entities().find(|row| row.row_key() == "count_ada");
    let count = count.and_then(|row| row.get("Count"));
    (heads, if let Some(Value::Int32(count)) = count { count } else { 0 })
}

#[tokio::test]
async fn read_and_edited_rows_stay_consistent_after_any_fault() -> TestResult {
    let (server, _) = start().await?;
    let connect = |account: &StorageAccount| {
        Store::<Order>::builder(account.table("orders"))
            .queue(account.queue("orders"))
            .with(Count)
            .build()
    };
    sweep_every_way(
        &server,
        async |account| {
            let orders = connect(account)?;
            orders.insert(&order(1)).await?;
            let (two, three) = (order(2), order(3));
            orders.transaction().insert(&two).insert(&three).submit().await?;
            orders.update(Order::key("contoso", 2), |order| order.customer = "bob".into()).await?;
            orders.delete(Order::key("contoso", 1)).await.map(drop)
        },
        async |_| Ok(()),
        |snapshot| {
            let rows = snapshot.table("orders").unwrap();
            let of_ada = rows.entities().filter(|row| row.row_key().starts_with("customer_ada_"));
            assert_eq!(i32::try_from(of_ada.count()).unwrap(), counts(snapshot).1);
        },
    )
    .await
}

#[tokio::test]
async fn concurrent_edits_of_one_row_are_all_applied() -> TestResult {
    let (server, account) = start().await?;
    let orders = Store::<Order>::builder(account.table("orders"))
        .queue(account.queue("orders"))
        .with(Count)
        .build()?;
    let all: Vec<_> = (0..12).map(order).collect();
    let inserts = all.iter().map(|order| orders.insert(order));
    for inserted in futures_util::future::join_all(inserts).await {
        inserted?;
    }
    assert_eq!(counts(&server.snapshot()), (12, 12));
    Ok(())
}

/// The number of cents that an order had.
#[derive(Debug, Entity)]
#[entity(partition = "{tenant}", row = "event_{order:4}_{at}_{operation}")]
struct Event {
    tenant: String,
    order: u32,
    at: DateTime<Utc>,
    operation: String,
    cents: i64,
}

fn event(change: Change<'_, Order>) -> Option<Event> {
    let is_new = |after: &&Order| change.before.is_none_or(|before| before.cents != after.cents);
    let Order { tenant, id, cents, .. } = change.after.filter(is_new)?.clone();
    let (at, operation) = (change.op().created(), change.op().mark().to_owned());
    Some(Event { tenant, order: id, at, operation, cents })
}

fn with_history(account: &StorageAccount) -> Result<Store<Order>> {
    Store::<Order>::builder(account.table("orders"))
        .queue(account.queue("orders"))
        .with(History::new("events", event))
        .build()
}

/// The history of an order has each state that it had, once.
#[tokio::test]
async fn each_change_has_one_row_in_the_history_after_any_fault() -> TestResult {
    let (server, _) = start().await?;
    sweep_every_way(
        &server,
        async |account| {
            let orders = with_history(account)?;
            orders.insert(&order(1)).await?;
            orders.update(Order::key("contoso", 1), |order| order.cents = 200).await?;
            orders.update(Order::key("contoso", 1), |order| order.desk = None).await?;
            let all = (2..5).map(order).collect::<Vec<_>>();
            orders.load(stream::iter(all)).run().await.map(drop).map_err(Error::from)
        },
        async |account| {
            let orders = with_history(account)?;
            orders.drain_backlog().await?;
            orders.work_once().await?;
            // Neither a repair nor a rewrite is a change.
            orders.repair().run().await?;
            orders.rewrite(Order::key("contoso", 1)).await.map(drop)?;
            Ok(())
        },
        |snapshot| {
            let rows = snapshot.table("orders").unwrap();
            let (mut states, mut events) = (BTreeSet::new(), BTreeSet::new());
            let mut count = 0;
            for row in rows.entities() {
                let Some(Value::Int64(cents)) = row.get("cents") else { continue };
                match row.row_key().split('_').collect::<Vec<_>>()[..] {
                    ["order", id] => drop(states.insert((id.to_owned(), cents))),
                    ["event", id, ..] => {
                        count += 1;
                        events.insert((id.to_owned(), cents));
                    }
                    _ => {}
                }
            }
            if states.contains(&("0001".to_owned(), 200)) {
                states.insert(("0001".to_owned(), 100));
            }
            assert_eq!((states, count), (events.clone(), events.len()));
        },
    )
    .await
}

/// Each kind of write adds its row, in the transaction of the entity; rows of a history are rows of others to jobs.
#[tokio::test]
async fn each_kind_of_write_has_a_row_in_the_history() -> TestResult {
    let (server, account) = start().await?;
    let every = |change: Change<'_, Order>| {
        let Order { tenant, id, cents, .. } = change.after.or(change.before)?.clone();
        let (at, operation) = (change.op().created(), change.op().mark().to_owned());
        let is_same = change.before == change.after;
        (!is_same).then_some(Event { tenant, order: id, at, operation, cents })
    };
    let orders = Store::<Order>::builder(account.table("orders"))
        .queue(account.queue("orders"))
        .with(History::new("events", every))
        .build()?;
    let events = || {
        let snapshot = server.snapshot();
        let rows = snapshot.table("orders").unwrap();
        rows.entities().filter(|row| row.row_key().starts_with("event_")).count()
    };
    let key = || Order::key("contoso", 1);
    orders.insert(&order(1)).await?;
    assert_eq!(events(), 1, "insert");
    orders.upsert(&Order { cents: 1, ..order(1) }).await?;
    assert_eq!(events(), 2, "upsert");
    orders.patch(key()).set(Order::CENTS, 2_i64).send().await?;
    assert_eq!(events(), 3, "patch");
    let version = orders.get(key()).await?.ok_or("none")?.version;
    orders.replace_if(&Order { cents: 3, ..order(1) }, &version).await?;
    assert_eq!(events(), 4, "replace_if");
    let version = orders.get(key()).await?.ok_or("none")?.version;
    let changed = Order { cents: 4, ..order(1) };
    orders.transaction().replace_if(&changed, version).insert(&order(2)).submit().await?;
    assert_eq!(events(), 6, "transaction");
    orders.load_over(stream::iter([order(1), order(3)])).run().await?;
    assert_eq!(events(), 8, "load_over");
    assert!(orders.verify().run().await?.is_clean());
    orders.repair().run().await?;
    orders.rewrite(key()).await?;
    assert_eq!(events(), 8, "repair and rewrite");
    orders.delete(key()).await?;
    assert_eq!(events(), 9, "delete");
    assert_eq!(orders.delete_where(Order::partition("contoso")).run().await?.total.right, 2);
    assert_eq!(events(), 11, "delete_where");
    // More entities than a transaction has room for, with their rows.
    let report = orders.load(stream::iter((10..60).map(order))).run().await?;
    assert_eq!((report.total.right, report.total.failed), (50, 0));
    assert_eq!(events(), 61, "load");
    assert!(orders.verify().run().await?.is_clean());
    Ok(())
}

/// A row of another program with the key of a row of the history refuses the write, and nothing is left of it.
#[tokio::test]
async fn a_row_at_the_key_of_a_history_refuses_the_write() -> TestResult {
    let (server, account) = start().await?;
    let fixed = |change: Change<'_, Order>| {
        let Order { tenant, id, cents, .. } = change.after?.clone();
        Some(Event { tenant, order: id, at: DateTime::UNIX_EPOCH, operation: "x".into(), cents })
    };
    let orders = Store::<Order>::builder(account.table("orders"))
        .queue(account.queue("orders"))
        .with(History::new("events", fixed))
        .build()?;
    orders.insert(&order(1)).await?;
    let stored = orders.get(Order::key("contoso", 1)).await?.ok_or("none")?.entity;
    let update = orders.update(Order::key("contoso", 1), |order| order.number = Some("B".into()));
    assert_eq!(update.await.unwrap_err().kind(), rowkey::ErrorKind::AlreadyExists);
    let upsert = orders.upsert(&Order { cents: 9, ..order(1) }).await;
    assert_eq!(upsert.unwrap_err().kind(), rowkey::ErrorKind::AlreadyExists);
    assert_eq!(orders.get(Order::key("contoso", 1)).await?.ok_or("none")?.entity, stored);
    orders.drain_backlog().await?;
    orders.work_once().await?;
    assert!(orders.verify().run().await?.is_clean());
    let snapshot = server.snapshot();
    let left =
        snapshot.table("orders").unwrap().entities().filter(|row| row.row_key().starts_with("op_"));
    assert_eq!(left.count(), 0);
    Ok(())
}

/// One call creates what the store and its declarations write to; what exists stays.
#[tokio::test]
async fn a_store_creates_what_its_declarations_write_to() -> TestResult {
    #[derive(Entity)]
    #[entity(partition = "{customer}", row = "total")]
    struct Total {
        customer: String,
        orders: i64,
    }

    #[derive(Clone, PartialEq, Entity)]
    #[entity(partition = "{customer}", row = "latest")]
    struct Latest {
        customer: String,
        cents: Option<i64>,
    }

    #[derive(Serialize, Deserialize)]
    struct Mail(u32);
    impl Task for Mail {
        const KIND: &'static str = "mail";
    }

    #[derive(Serialize, Deserialize)]
    struct Bill(u32);
    impl Task for Bill {
        const KIND: &'static str = "bill";
    }

    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let totals = View::new("totals", &account.table("totals"), |order: &Order| {
        Some(Total::key(&order.customer))
    });
    let latest = RemoteCopies::new(
        "latest",
        &account.table("latest"),
        |order: &Order| [Latest::key(&order.customer)],
        |order| order.cents,
        |latest: &mut Latest, cents| latest.cents = cents.copied(),
    );
    let bills = Tasks::<Bill>::new(account.queue("bills")).claims(account.container("bills"));
    let orders = Store::<Order>::builder(account.table("orders"))
        .queue(account.queue("orders"))
        .with(totals.count(Total::ORDERS))
        .with(latest)
        .with(Tasks::<Mail>::new(account.queue("mails")))
        .with(bills.on_change(|change| change.after.map(|order: &Order| Bill(order.id))))
        .build()?;
    for _ in 0..2 {
        orders.create_if_missing().await?;
        let tables = account.tables().all().await?;
        assert_eq!(tables, ["deadletters", "latest", "orders", "totals"]);
        let queues = account.queues().all().await?.into_iter().map(|queue| queue.name);
        assert_eq!(queues.collect::<Vec<_>>(), ["bills", "mails", "orders"]);
        let containers = account.containers().all().await?.into_iter().map(|one| one.name);
        assert_eq!(containers.collect::<Vec<_>>(), ["bills"]);
    }
    orders.insert(&order(1)).await?;
    assert_eq!(bills.queue().peek(32).await?.len(), 1);
    Ok(())
}

/// The page about declarations shows the program, which has fewer than 80 lines.
#[test]
fn the_documented_example_has_fewer_than_80_lines() {
    let example = include_str!("../../examples/declaration/declaration.rs");
    let page = include_str!("../../docs/src/concepts/declarations.md");
    let is_shown = |line: &&str| !line.starts_with("//!") && !line.starts_with("use crate::");
    let shown: Vec<_> = example.lines().filter(is_shown).filter(|line| !line.is_empty()).collect();
    let (_, block) = page.split_once("```rust\n").unwrap();
    let (block, _) = block.split_once("\n```").unwrap();
    let block: Vec<_> =
        block.lines().filter(|line| !line.starts_with("# ") && !line.is_empty()).collect();
    // The page also declares the type of the entities, which the example has in its `main.rs`.
    let mut lines = block.iter();
    let missing = shown.iter().find(|line| !lines.any(|one| one == *line));
    assert_eq!(missing, None, "the page has the lines of the example in their order");
    assert_eq!(block.len() - shown.len(), 8, "the page has {} lines", block.len());
    assert!(example.lines().count() < 80, "{} lines", example.lines().count());
}
