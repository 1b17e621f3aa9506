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

use rowkey::{StorageAccount, Table};
use rowkey_eventual::worker::{Attempt, Done};
use rowkey_eventual::{Tasks, Worker};
use rowkey_server::Server;
use rowkey_store::{Store, View};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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
    async fn open(account: &StorageAccount) -> rowkey::Result<Self> {
        let (table, work) = (account.table("service"), account.queue("service-work"));
        let revenue = account.table("revenue");
        let mails = Tasks::new(account.queue("service-mails"));
        let by_day = View::new("revenue", &revenue, |order: &Order| {
            Some(Revenue::key(&order.tenant, order.placed.format("%Y-%m-%d").to_string()))
        });
        let by_day = by_day.count(Revenue::ORDERS).sum(Revenue::CENTS, |order| order.cents);
        let orders = Store::builder(table.clone()).queue(work.clone()).with(Audited);
        let files = Store::builder(table.clone()).blobs(account.container("service-files"));
        let service = Self {
            users: Store::builder(table).queue(work.clone()).build()?,
            orders: orders.following(by_day).following(mails.clone()).build()?,
            files: files.queue(work).build()?,
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
    async fn work(&self, stop: &CancellationToken) -> rowkey::Result<()> {
        let mailer = Worker::new(self.mails.clone(), |mail: Mail, _: Attempt| async move {
            println!("mail to user {}: order {} is placed", mail.user, mail.order);
            Ok(Done::Applied)
        });
        tokio::try_join!(
            self.users.run(stop.cancelled()),
            self.orders.run(stop.cancelled()),
            self.files.run(stop.cancelled()),
            mailer.run(stop.cancelled()),
        )?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> drive::Result {
    let server = Server::start().await?;
    let connection = env::var("AZURE_STORAGE_CONNECTION_STRING");
    let connection = connection.unwrap_or_else(|_| server.connection_string().to_owned());
    let account = StorageAccount::from_connection_string(&connection)?;
    let service = Arc::new(Service::open(&account).await?);

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    println!("listening on {address}");
    let stop = CancellationToken::new();
    let requests = axum::serve(listener, routes::router(Arc::clone(&service)))
        .with_graceful_shutdown(stop.clone().cancelled_owned());
    let drive = async {
        let driven = drive::all_routes(&address).await;
        stop.cancel();
        driven
    };
    tokio::try_join!(
        async { Ok(requests.await?) },
        async { Ok(service.work(&stop).await?) },
        drive
    )?;
    Ok(())
}
