//! A custom declaration and its sweep test: every request of a write fails in every way, and a minute later
//! all rows agree.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

mod declaration;

use std::error::Error;

use rowkey::store::Store;
use rowkey::{ClientOptions, Entity, ManualClock, StorageAccount, edm::Value};
use rowkey_emulator::{Server, Sweep, Swept};

use declaration::{Ledger, Purchase};

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:9}")]
struct Order {
    tenant: String,
    id: u32,
    customer: String,
    cents: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let orders = store(&server)?;
    orders.create_if_missing().await?;
    orders.insert(&order("ada")).await?;
    let swept = sweep(&server).await?;
    println!("{swept}: the total, the audit rows and the purchases agree each time");
    Ok(())
}

fn order(customer: &str) -> Order {
    Order { tenant: "contoso".into(), id: 1, customer: customer.into(), cents: 100 }
}

/// The store on a server. It reads from the secondary where allowed, and its waits take no time.
fn store(server: &Server) -> Result<Store<Order>, rowkey::Error> {
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::auto_advancing(server.clock().now().to_chrono()))
        .build()?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let account = account.with_options(options);
    let builder = Store::builder(account.table("orders")).queue(account.queue("orders"));
    builder.with(Ledger).build()
}

async fn sweep(server: &Server) -> Result<Swept, Box<dyn Error>> {
    let swept = Sweep::new(server).lagging_secondary().run(
        async |server| Ok(store(server)?),
        // The order moves from one customer to another, and its price rises.
        async |orders| {
            let change = |order: &mut Order| (order.customer, order.cents) = ("lee".into(), 250);
            orders.update(Order::key("contoso", 1), change).await.is_ok()
        },
        // A minute later.
        async |orders| {
            orders.drain_backlog().await?;
            orders.work_once().await?;
            Ok(())
        },
        async |server, orders, _| {
            let order = orders.get(Order::key("contoso", 1)).await?.ok_or("no order")?.entity;
            let rows = server.snapshot();
            let rows = rows.table("orders").ok_or("no table")?;
            let total = rows.entity("contoso", "total").and_then(|row| row.get("Cents"));
            assert_eq!(total, Some(Value::Int64(order.cents)));
            let audits =
                rows.partition("contoso").filter(|row| row.row_key().starts_with("audit_"));
            assert_eq!(audits.count(), if order.cents == 100 { 1 } else { 2 });
            for customer in ["ada", "lee"] {
                let key = Purchase::key(customer, "order_000000001");
                let found = orders.table().get(key).await?.map(|found| found.entity.cents);
                assert_eq!(found, (order.customer == customer).then_some(order.cents));
            }
            Ok(())
        },
    );
    Ok(swept.await?)
}
