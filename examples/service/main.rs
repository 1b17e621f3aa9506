//! A web service over stores: tenants, users with unique e-mail addresses, orders in three lists, audit
//! rows, attachments, mails, a view of the revenue, conditional requests and bulk import.
//!
//! It starts on a free port, calls each of its own routes, and ends. It runs against the account of
//! `AZURE_STORAGE_CONNECTION_STRING`, or without one against the bundled server.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a program says what it does")]

mod drive;
mod model;
mod problem;
mod routes;

use std::env;
use std::sync::Arc;

use rowkey::{Result, StorageAccount, Table};
use rowkey_eventual::worker::{Attempt, Done};
use rowkey_eventual::{Tasks, Worker};
use rowkey_server::Server;
use rowkey_store::{Store, View};
use tokio::net::TcpListener;
use tokio::sync::watch;

use model::{Attachment, Audited, Mail, Order, Revenue, User};

/// What the routes use: a store a type, and the table of the view.
struct Service {
    users: Store<User>,
    orders: Store<Order>,
    files: Store<Attachment>,
    revenue: Table,
    mails: Tasks<Mail>,
}

impl Service {
    async fn open(account: &StorageAccount) -> Result<Self> {
        let (table, work) = (account.table("service"), account.queue("service-work"));
        let revenue = account.table("revenue");
        let mails = Tasks::new(account.queue("service-mails"));
        let by_day = View::new("revenue", &revenue, |order: &Order| {
            Some(Revenue::key(&order.tenant, order.placed.format("%Y-%m-%d").to_string()))
        });
        let by_day = by_day.count(Revenue::ORDERS).sum(Revenue::CENTS, |order| order.cents);
        let files = account.container("service-files");
        let service = Self {
            users: Store::builder(table.clone()).queue(work.clone()).build()?,
            orders: Store::builder(table.clone())
                .queue(work.clone())
                .with(Audited)
                .following(by_day)
                .following(mails.clone())
                .build()?,
            files: Store::builder(table).queue(work).blobs(files).build()?,
            revenue,
            mails,
        };
        service.orders.create_if_missing().await?;
        service.files.create_if_missing().await?;
        service.revenue.create_if_missing().await?;
        service.mails.create_if_missing().await?;
        Ok(service)
    }

    /// Does what requests left: rows elsewhere that do not agree yet, and mails.
    async fn work(&self, stop: watch::Receiver<bool>) -> Result<()> {
        let stopped = || {
            let mut stop = stop.clone();
            async move { drop(stop.wait_for(|stopped| *stopped).await) }
        };
        let users = self.users.clone();
        let mailer = Worker::new(self.mails.clone(), move |mail: Mail, _: Attempt| {
            let users = users.clone();
            async move {
                let Some(user) = users.get(User::key(&mail.tenant, mail.user)).await? else {
                    return Ok(Done::Applied);
                };
                println!("mail to {}: order {} is placed", user.entity.email, mail.order);
                Ok(Done::Applied)
            }
        });
        tokio::try_join!(
            self.users.run(stopped()),
            self.orders.run(stopped()),
            self.files.run(stopped()),
            async { mailer.run(stopped()).await }
        )?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let connection = env::var("AZURE_STORAGE_CONNECTION_STRING");
    let connection = connection.unwrap_or_else(|_| server.connection_string().to_owned());
    let service =
        Arc::new(Service::open(&StorageAccount::from_connection_string(&connection)?).await?);

    let (stop, stopped) = watch::channel(false);
    let worker = tokio::spawn({
        let (service, stopped) = (Arc::clone(&service), stopped.clone());
        async move { service.work(stopped).await }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    println!("listening on {address}");
    let mut until = stopped;
    let requests = axum::serve(listener, routes::router(service))
        .with_graceful_shutdown(async move { drop(until.wait_for(|stopped| *stopped).await) });
    let requests = tokio::spawn(requests.into_future());

    drive::all_routes(&address).await?;

    stop.send(true)?;
    requests.await??;
    worker.await??;
    Ok(())
}
