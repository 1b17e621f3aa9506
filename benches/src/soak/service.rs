//! A service on our client for some minutes, with everything that can go wrong, and its dashboard: what OpenTelemetry's
//! exporter for Prometheus writes each second is drawn as a page.
//!
//! The service takes orders with an index elsewhere, reads them, puts tasks and has a worker do them. In turn the account is
//! busy, connections break, the index cannot be written, the worker stops, and a job loads a table.

use std::cell::Cell;
use std::error::Error;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, future};

use futures_util::stream;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Encoder as _, Registry, TextEncoder};
use rowkey::pace::{Hedge, Pace};
use rowkey::patterns::job::Job;
use rowkey::store::Store;
use rowkey::worker::{Attempt, Done, Task, Tasks, Worker};
use rowkey::{ClientOptions, Entity, ErrorKind, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Service};
use rowkey_otel::Otel;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_local;
use tokio::time::{interval, sleep};

use crate::dashboard::exposition::{History, Select};
use crate::dashboard::page::{Figure, FigureUnit, Head, Mark, figure, page};
use crate::dashboard::panels::sections;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Customers who order, and those who only look.
const BUYERS: u32 = 4;
const READERS: u32 = 3;
/// Entities that the job loads.
const LOADED: u32 = 30_000;

/// What is wrong, from which share of the time to which.
const BUSY: (f64, f64) = (0.14, 0.26);
const BROKEN: (f64, f64) = (0.33, 0.43);
const REFUSED: (f64, f64) = (0.48, 0.56);
const AWAY: (f64, f64) = (0.62, 0.72);
const LOADING: (f64, f64) = (0.8, 1.0);

const MARKS: [((f64, f64), char, &str); 5] = [
    (BUSY, 'A', "the service refuses requests on tables: ServerBusy"),
    (BROKEN, 'B', "connections break before responses"),
    (REFUSED, 'C', "copies of the index cannot be written"),
    (AWAY, 'D', "the worker is stopped"),
    (LOADING, 'E', "a job loads 30,000 entities, another verifies the index"),
];

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{shop}", row = "order_{id:8}")]
#[entity(index(name = by_courier, partition = "courier_{courier}", row = "{id:8}", many))]
struct Order {
    shop: String,
    id: u32,
    courier: String,
    cents: i64,
    note: String,
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{shelf}", row = "{number:8}")]
struct Item {
    shelf: String,
    number: u32,
    name: String,
}

/// What the worker does for an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mail {
    order: u32,
}

impl Task for Mail {
    const KIND: &'static str = "mail";
}

/// What all parts of the service share.
#[derive(Clone)]
struct Shop {
    server: Rc<Server>,
    orders: Store<Order>,
    mails: Tasks<Mail>,
    /// How much of the time is over, from 0 to 1.
    share: Rc<Cell<f64>>,
}

/// Runs the service for some seconds, and writes the page and what was exported last.
pub async fn watch(seconds: u64, folder: &Path) -> Result {
    let registry = Registry::new();
    let exporter = opentelemetry_prometheus::exporter().with_registry(registry.clone()).build()?;
    let provider = SdkMeterProvider::builder().with_reader(exporter).build();
    let server = Rc::new(Server::start().await?);
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .telemetry(Arc::new(Otel::new(&provider)))
        .build()?
        .with_options(ClientOptions {
            pace: Some(Pace::foreground()),
            hedge: Some(Hedge::default()),
            ..ClientOptions::default()
        });
    let orders = Store::<Order>::builder(account.table("orders"))
        .queue(account.queue("settling"))
        .build()?;
    let mails = Tasks::<Mail>::new(account.queue("mails"));
    orders.create_if_missing().await?;
    mails.create_if_missing().await?;
    let shop = Shop { server, orders, mails, share: Rc::default() };

    let mut running = Vec::new();
    for number in 0..BUYERS {
        running.push(spawn_local(shop.clone().buy(number)));
    }
    for number in 0..READERS {
        running.push(spawn_local(shop.clone().look(number)));
    }
    running.push(spawn_local(shop.clone().work()));
    running.push(spawn_local(shop.clone().settle()));
    running.push(spawn_local(shop.clone().disturb()));
    running.push(spawn_local(shop.clone().load(account)));

    let (begun, mut history) = (Instant::now(), History::default());
    let total = Duration::from_secs(seconds);
    let (mut ticks, mut text) = (interval(Duration::from_secs(1)), String::new());
    while begun.elapsed() < total {
        ticks.tick().await;
        text = exported(&registry)?;
        let at = begun.elapsed().as_secs_f64();
        history.add(at, &text);
        shop.share.set(at / total.as_secs_f64());
    }
    for task in &running {
        task.abort();
    }

    let mark = |((from, to), letter, text): ((f64, f64), char, &'static str)| {
        let seconds = total.as_secs_f64();
        Mark { from: from * seconds, to: to * seconds, letter, text }
    };
    let head = Head {
        title: "rowkey: a service and its storage",
        note: "Orders with an index elsewhere, customers who read them, tasks for a worker. Numbers beside names are the highest values.",
        figures: &figures(&history),
        marks: &MARKS.map(mark),
    };
    fs::create_dir_all(folder)?;
    fs::write(folder.join("metrics.txt"), &text)?;
    fs::write(folder.join("dashboard.html"), page(&head, &sections(), &history))?;
    Ok(())
}

fn exported(registry: &Registry) -> Result<String> {
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    Ok(String::from_utf8(text)?)
}

/// The run in a few numbers.
fn figures(history: &History) -> Vec<Figure> {
    let (first, last) = history.span();
    let all = Select { by: None, having: None };
    let total = |name: &str, select| -> f64 {
        let lines = history.values(name, select, |sum, value| sum + value);
        lines.iter().filter_map(|line| line.points.last()).map(|(_, value)| value).sum()
    };
    let failed = Select { by: None, having: Some("error_type") };
    let operations = total("db_client_operation_duration_seconds_count", all);
    let requests = total("http_client_request_duration_seconds_count", all);
    let seconds = total("db_client_operation_duration_seconds_sum", all);
    vec![
        figure("operations on tables", operations, FigureUnit::Number),
        figure("requests", requests / (last - first).max(1.0), FigureUnit::PerSecond),
        figure("mean duration", seconds / operations.max(1.0), FigureUnit::Seconds),
        figure(
            "failed operations",
            total("db_client_operation_duration_seconds_count", failed),
            FigureUnit::Number,
        ),
        figure("throttled", total("rowkey_client_throttled_total", all), FigureUnit::Number),
        figure("repeated", total("rowkey_client_retries_total", all), FigureUnit::Number),
        figure("tasks done", total("rowkey_worker_ended_total", all), FigureUnit::Number),
    ]
}

impl Shop {
    fn is_in(&self, (from, to): (f64, f64)) -> bool {
        (from..to).contains(&self.share.get())
    }

    async fn buy(self, number: u32) {
        for at in 0.. {
            let order = Order {
                shop: format!("shop{}", at % 5),
                id: at * BUYERS + number,
                courier: format!("courier{}", at % 7),
                cents: i64::from(at) * 99,
                note: "at the back door, in the afternoon".repeat(at as usize % 12),
            };
            let key = Order::key(&*order.shop, order.id);
            // What fails is on the dashboard.
            let _ = self.orders.insert(&order).await;
            if at % 2 == 0 {
                let _ = self.mails.put(&Mail { order: order.id }).await;
            }
            let _ = self.orders.update(key.clone(), |order| order.cents += 1).await;
            if at % 3 == 0 {
                let other = format!("courier{}", (at + 1) % 7);
                let _ =
                    self.orders.update(key.clone(), |order| order.courier.clone_from(&other)).await;
            }
            if at % 9 == 0 {
                // Twice: the second one fails.
                let _ = self.orders.insert(&order).await;
                let _ = self.orders.delete(key).await;
            }
            sleep(Duration::from_millis(35 + u64::from(at % 4) * 15)).await;
        }
    }

    async fn look(self, number: u32) {
        for at in 0_u32.. {
            let courier = format!("courier{}", at % 7);
            let _ = self.orders.query(Order::by_courier_all(&courier)).page(20, None).await;
            for id in 0..6 {
                let _ = self.orders.get(Order::key(format!("shop{}", id % 5), at + id)).await;
            }
            let shop = Order::partition(format!("shop{}", (at + number) % 5));
            let _ = self.orders.query(shop).page(40, None).await;
            sleep(Duration::from_millis(25)).await;
        }
    }

    /// Does the tasks, but for a while in which the program is away.
    async fn work(self) {
        let worker = Worker::new(self.mails.clone(), |mail: Mail, _: Attempt| async move {
            sleep(Duration::from_millis(5 + u64::from(mail.order % 30))).await;
            match mail.order % 60 {
                7 => Ok(Done::Poison("there is no such address".into())),
                9 => Err(rowkey::Error::refused(ErrorKind::Unavailable, "the mail server is away")),
                _ => Ok(Done::Applied),
            }
        });
        loop {
            let away = async {
                while !self.is_in(AWAY) {
                    sleep(Duration::from_millis(200)).await;
                }
            };
            tokio::select! {
                _ = worker.run_until(future::pending()) => {}
                () = away => {
                    while self.is_in(AWAY) {
                        sleep(Duration::from_millis(200)).await;
                    }
                }
            }
        }
    }

    async fn settle(self) {
        let _ = self.orders.run(future::pending()).await;
    }

    async fn disturb(self) {
        loop {
            sleep(Duration::from_millis(150)).await;
            let fault = if self.is_in(BUSY) {
                Fault::service(Service::Table).times(60).reject(ErrorCode::SERVER_BUSY)
            } else if self.is_in(BROKEN) {
                Fault::any().times(2).close_after_commit()
            } else if self.is_in(REFUSED) {
                // Copies of the index.
                Fault::on(Operation::InsertEntity).times(200).reject(ErrorCode::SERVER_BUSY)
            } else {
                continue;
            };
            let injected = self.server.inject(fault);
            sleep(Duration::from_millis(400)).await;
            let _ = injected.hits();
        }
    }

    /// Loads a table and verifies the index in the last fifth of the time.
    async fn load(self, account: StorageAccount) {
        while self.share.get() < LOADING.0 {
            sleep(Duration::from_millis(200)).await;
        }
        let items = account.table("items");
        let _ = items.create_if_missing().await;
        let all = (0..LOADED).map(|number| Item {
            shelf: format!("shelf{}", number % 40),
            number,
            name: format!("item {number}"),
        });
        let slowly = Pace::background().requests_per_second(12);
        let loaded = Job::upsert(&items, stream::iter(all)).pace(slowly).run();
        // It reads each entity that a customer changes at the same time.
        let verified = self.orders.verify().pace(Pace::background().requests_per_second(400)).run();
        let _ = tokio::join!(loaded, verified);
    }
}
