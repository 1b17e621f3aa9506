//! A program that names one crate: the prelude has what it needs.

#![cfg(feature = "worker")]

use rowkey::prelude::*;
use rowkey::worker::{Task, Tasks};
use rowkey_emulator::Server;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:6}")]
#[entity(index(name = by_number, partition = "number_{number}", row = "order_{number}"))]
struct Order {
    tenant: String,
    id: u32,
    number: String,
}

#[derive(Deserialize, Serialize)]
struct Mail {
    to: String,
}

impl Task for Mail {
    const KIND: &'static str = "mail";
}

#[tokio::test]
async fn the_prelude_has_what_a_service_needs() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let mails = Tasks::<Mail>::new(account.queue("mails"));
    let orders = Store::<Order>::builder(account.table("orders"))
        .queue(account.queue("orders"))
        .with(mails)
        .build()?;
    // Creates the queues, too.
    orders.create_if_missing().await?;

    let order = Order { tenant: "contoso".into(), id: 1, number: "n1".into() };
    orders.transaction().insert(&order).task(&Mail { to: "ada".into() }).submit().await?;

    let found = orders.find(Order::by_number("n1")).await?;
    assert_eq!(found.map(|found| found.entity), Some(order));
    Ok(())
}
