//! A web service over a store: parcels of tenants with a unique number, three lists, scans, a photo in a blob,
//! mails, a view of the deliveries, conditional requests and bulk import.
//!
//! It starts on a free port, calls each of its own routes, and ends. It runs against the account in
//! `AZURE_STORAGE_CONNECTION_STRING`, or without it against the bundled server.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a program says what it does")]

mod drive;
mod model;
mod provider;
mod routes;

use std::{env, error, result, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use model::{Deliveries, Mail, Parcel, Scan, State};
use provider::Provider;
use rowkey::store::{History, Store, View};
use rowkey::worker::{Attempt, Done, Handler, Tasks, Worker};
use rowkey::{Error, ErrorKind, Result, StorageAccount, Table};
use rowkey_emulator::Server;
use tokio::net::TcpListener;

/// What routes and handlers use. The handles are cheap to clone.
#[derive(Clone)]
struct Service {
    parcels: Store<Parcel>,
    deliveries: Table,
    mails: Tasks<Mail>,
    provider: Arc<Provider>,
}

impl Service {
    async fn open(account: &StorageAccount) -> Result<Self> {
        let mails = Tasks::new(account.queue("mails"));
        let deliveries = account.table("deliveries");
        let by_courier = View::new("deliveries", &deliveries, |parcel: &Parcel| {
            let courier = parcel.courier.as_ref().filter(|_| parcel.state == State::Delivered)?;
            Some(Deliveries::key(&parcel.tenant, courier))
        });
        let parcels = Store::builder(account.table("parcels"))
            .queue(account.queue("parcels"))
            .blobs(account.container("parcels"))
            .with(History::new("scans", Scan::of))
            .with(by_courier.count(Deliveries::PARCELS).sum(Deliveries::GRAMS, |p| p.grams))
            .with(mails.on_change(Mail::of))
            .build()?;
        parcels.create_if_missing().await?; // and the tables, the queues and the container
        Ok(Self { parcels, deliveries, mails, provider: Arc::default() })
    }
}

impl Handler<Mail> for Service {
    async fn handle(&self, mail: Mail, attempt: Attempt) -> Result<Done> {
        let found = self.parcels.get(Parcel::key(&mail.tenant, mail.parcel)).await?;
        let Some(parcel) = found else { return Ok(Done::Poison("no such parcel".into())) };
        let text = format!("parcel {} was delivered", parcel.entity.number);
        // The id is the same if a mail comes twice: for the provider, the idempotency key.
        self.provider.send(attempt.id(), &parcel.entity.email, &text).map_err(|error| {
            // An error of another crate becomes one of this crate. `Unavailable` is tried again and does not
            // count as an attempt, other kinds do: after five the mail is a dead letter.
            let kind = if error.is_busy() { ErrorKind::Unavailable } else { ErrorKind::Invalid };
            Error::refused(kind, "the mail was not sent").with_source(error)
        })?;
        Ok(Done::Applied)
    }
}

#[tokio::main]
async fn main() -> result::Result<(), Box<dyn error::Error>> {
    let server = Server::start().await?;
    let connection = env::var("AZURE_STORAGE_CONNECTION_STRING");
    let connection = connection.unwrap_or_else(|_| server.connection_string().to_owned());
    let account = StorageAccount::from_connection_string(&connection)?;
    let service = Service::open(&account).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);

    // This service ends when all its routes have been called, others end at a signal: `tokio::signal::ctrl_c`.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = stopped.map(drop).shared();
    let serve = axum::serve(listener, routes::router(service.clone()));
    let serve = serve.with_graceful_shutdown(shutdown.clone());
    // A failed mail is tried again after 2 seconds and more by default, and at once in this short program.
    let mailer = Worker::new(service.mails.clone(), service.clone())
        .retry_backoff(Duration::ZERO, Duration::ZERO)
        .idle_backoff(Duration::ZERO, Duration::ZERO);
    // Each of them finishes what it has begun. The first error ends all.
    tokio::try_join!(
        async { serve.await.map_err(Into::into) },
        async { service.parcels.run(shutdown.clone()).await.map_err(Into::into) },
        async { mailer.run_until(shutdown.clone()).await.map(drop).map_err(Into::into) },
        async { drive::all_routes(&address, &server, &service, stop).await },
    )?;
    Ok(())
}
