//! A janitor in two programs: one is elected and runs the chores that are due. When it dies in the middle of
//! a chore, the other one takes over with the shared schedule.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rowkey::patterns::lease_lock::LeaseLock;
use rowkey::store::Store;
use rowkey::worker::janitor::{Chore, Counts, Janitor, Leadership};
use rowkey::{Entity, ManualClock, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use tokio::sync::Notify;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:6}")]
#[entity(unique(name = by_number, value = "{number}"))]
#[entity(index(name = by_courier, partition = "courier_{courier}", row = "{tenant}_{id}"))]
struct Order {
    tenant: String,
    id: u32,
    number: String,
    courier: String,
}

/// The janitor of a program that may lead: the chores of the library, and a custom one.
fn janitor(account: &StorageAccount, orders: &Store<Order>, report: Chore) -> Janitor {
    let lock = LeaseLock::new(account.container("locks").blob("janitor"));
    Janitor::new(lock.term(Duration::from_secs(60)))
        .chore(Chore::drain_backlog(orders).jitter(Duration::ZERO))
        .chore(Chore::repair(orders).first_after(Duration::from_secs(24 * 3600)))
        .chore(report.jitter(Duration::ZERO))
        .observe(|run| println!("{}: {:?} {:?}", run.chore, run.outcome, run.counts))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The clocks are advanced manually, so that the example waits for nothing.
    let server = Server::builder().manual_clock().start().await?;
    let connect = || {
        let clock = ManualClock::new(server.clock().now().to_chrono());
        let text = server.connection_string();
        StorageAccount::builder().connection_string(text)?.clock(clock).build()
    };
    let account = connect()?;
    let store = |account: &StorageAccount| {
        Store::<Order>::builder(account.table("orders")).queue(account.queue("orders")).build()
    };
    let orders = store(&account)?;
    orders.create_if_missing().await?;
    account.container("locks").create().await?;

    // The queue is unavailable while an order is written, and the writer stops before settling it: a backlog
    // row remains.
    let down = server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::INTERNAL_ERROR));
    let stops = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    let order =
        Order { tenant: "contoso".into(), id: 1, number: "A-1".into(), courier: "kim".into() };
    tokio::select! {
        _ = orders.insert(&order) => return Err("the writer was to stop".into()),
        () = stops.wait_until_held() => {}
    }
    drop((down, stops));
    server.clock().advance(Duration::from_secs(61));

    // The first program leads, and dies in the middle of its report.
    let begun = Arc::new(Notify::new());
    let dies = Arc::clone(&begun);
    let report = Chore::new("report", Duration::from_secs(3600), move |leadership: Leadership| {
        println!("a report under token {}", leadership.token());
        dies.notify_one();
        pending::<rowkey::Result<Counts>>()
    });
    let account = connect()?;
    let first = janitor(&account, &store(&account)?, report);
    tokio::select! {
        ended = first.run_until(pending()) => ended?,
        () = begun.notified() => println!("the first program dies"),
    }

    // Its lease ends with its term. The second program takes over, and starts the report again.
    server.clock().advance(Duration::from_secs(121));
    let written = Arc::new(Notify::new());
    let done = Arc::clone(&written);
    let report = Chore::new("report", Duration::from_secs(3600), move |leadership: Leadership| {
        let done = Arc::clone(&done);
        async move {
            println!("a report under token {}", leadership.token());
            done.notify_one();
            Ok::<_, rowkey::Error>(Counts::from([("pages".to_owned(), 3)]))
        }
    });
    let account = connect()?;
    let orders = store(&account)?;
    let second = janitor(&account, &orders, report);
    second.run_until(written.notified()).await?;

    let runs = second.reports().await?;
    let report = runs.iter().find(|run| run.chore == "report").ok_or("no report")?;
    assert!(report.is_done() && report.leader == 2 && report.counts["pages"] == 3);
    // The interrupted write is settled: the order is found by its courier.
    let found = orders.find(Order::by_courier("kim", "contoso", 1)).await?.ok_or("not settled")?;
    assert_eq!(found.entity, order);
    Ok(())
}
