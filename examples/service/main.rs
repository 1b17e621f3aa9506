//! A web service over stores: tenants, users with unique e-mail addresses, orders in three lists, audit rows,
//! attachments, mails, a view of the revenue, conditional requests and bulk import.
//!
//! It starts on a free port, calls each of its own routes, and ends. It runs against the account in
//! `AZURE_STORAGE_CONNECTION_STRING`, or without it against the bundled server.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a program says what it does")]

mod drive;
mod mailer;
mod model;
mod problem;
mod routes;

use std::{env, future::pending, sync::Arc, time::Duration};

use mailer::{Mailer, Provider};
use model::{Audited, Mail, Order, Revenue, User};
use rowkey::{Container, Result, StorageAccount, Table};
use rowkey_emulator::Server;
use rowkey_store::{Store, View};
use rowkey_worker::Tasks;
use rowkey_worker::worker::Worker;
use tokio::net::TcpListener;

const ZERO: Duration = Duration::ZERO;

/// The state of the routes: a store for each type, and the other resources.
struct Service {
    users: Store<User>,
    orders: Store<Order>,
    revenue: Table,
    files: Container,
    mails: Tasks<Mail>,
}

impl Service {
    async fn open(account: &StorageAccount) -> Result<Self> {
        let (table, queue) = (account.table("service"), account.queue("service"));
        let (revenue, files) = (account.table("revenue"), account.container("files"));
        let mails = Tasks::new(account.queue("mails"));
        let by_day = View::new("revenue", &revenue, |order: &Order| {
            Some(Revenue::key(&order.tenant, order.placed.format("%Y-%m-%d").to_string()))
        });
        let users = Store::builder(table.clone()).queue(queue.clone()).build()?;
        let orders = Store::builder(table)
            .queue(queue)
            .with(Audited)
            .following(by_day.count(Revenue::ORDERS).sum(Revenue::CENTS, |order| order.cents))
            .following(mails.clone())
            .build()?;
        tokio::try_join!(revenue.create_if_missing(), files.create_if_missing())?;
        tokio::try_join!(mails.create_if_missing(), orders.create_if_missing())?;
        Ok(Self { users, orders, revenue, files, mails })
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let connection = env::var("AZURE_STORAGE_CONNECTION_STRING");
    let connection = connection.unwrap_or_else(|_| server.connection_string().to_owned());
    let account = StorageAccount::from_connection_string(&connection)?;
    let service = Arc::new(Service::open(&account).await?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    println!("listening on {address}");
    let provider = Arc::new(Provider::default());
    let mailer = Mailer { service: Arc::clone(&service), provider: Arc::clone(&provider) };
    // A failed mail is tried again after 2 seconds and more by default, and at once in this short program.
    let mailer = Worker::new(service.mails.clone(), mailer).retry_backoff(ZERO, ZERO);
    // This service ends when all its routes have been called, others end at a signal. All of it may be
    // stopped at any moment: the workers of the next program complete begun writes.
    tokio::select! {
        served = axum::serve(listener, routes::router(Arc::clone(&service))) => served?,
        worked = service.users.run(pending()) => worked?,
        worked = service.orders.run(pending()) => worked?,
        mailed = mailer.run_until(pending()) => drop(mailed?),
        driven = drive::all_routes(&address, &server, &provider) => driven?,
    }
    Ok(())
}
