//! Item 11: a throttled bulk load gives rows up.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use futures_util::{FutureExt as _, stream};
use rowkey::{Clock, Entity, StorageAccount};
use rowkey_patterns::bulk::{BestEffort, Bulk, Report};
use rowkey_server::{Server, ServerClock, StoredTable, Targets};
use tokio::sync::oneshot;

/// What the documented targets, the rows and the transactions in flight are divided by, so that the test
/// takes a second.
const SCALE: u32 = 4;
const LOADERS: u32 = 8;
/// Entities of a loader.
const ROWS: u32 = 4000 / SCALE;
/// Transactions of a loader in flight; 8 is the default of `Bulk`.
const IN_FLIGHT: u64 = 8 / SCALE as u64;
/// Entities of a transaction.
const BATCH: u64 = 100;
const TRANSACTIONS: u64 = ROWS as u64 / BATCH;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{day}", row = "{loader:2}_{number:6}", rename_all = "PascalCase")]
struct Event {
    day: String,
    loader: u32,
    number: u32,
}

/// The server's clock, which stands while a transaction is on its way, and moves to the end of the
/// shortest wait when all that are in flight wait: requests take no time, and no test waits.
#[derive(Clone, Debug)]
struct Simulated(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: ServerClock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    in_flight: usize,
    sleepers: Vec<(DateTime<Utc>, oneshot::Sender<()>)>,
}

impl Simulated {
    fn new(clock: ServerClock, in_flight: usize) -> Self {
        let state = Mutex::new(State { in_flight, sleepers: Vec::new() });
        Self(Arc::new(Shared { clock, state }))
    }

    /// A loader has one transaction in flight less.
    fn leave(&self) {
        self.change(|state| state.in_flight -= 1);
    }

    /// Changes the state, and moves the clock if nothing but waiting is left.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.state.lock().unwrap();
        change(&mut state);
        if state.sleepers.len() < state.in_flight {
            return;
        }
        let Some(next) = state.sleepers.iter().map(|(until, _)| *until).min() else { return };
        self.0.clock.advance((next - self.now()).to_std().unwrap_or_default());
        let now = self.now();
        for (_, wake) in state.sleepers.extract_if(.., |(until, _)| *until <= now) {
            let _ = wake.send(());
        }
    }
}

impl Clock for Simulated {
    fn now(&self) -> DateTime<Utc> {
        self.0.clock.now().to_chrono()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let (wake, woken) = oneshot::channel();
        let until = self.now() + duration;
        self.change(|state| state.sleepers.push((until, wake)));
        woken.map(drop).boxed()
    }
}

/// Runs one loader.
async fn load(account: &StorageAccount, clock: Simulated, loader: u32) -> Report<Event> {
    let row = move |number| Event { day: "2026-11-22".into(), loader, number };
    Bulk::new(account.table("events"), BestEffort)
        .in_flight(usize::try_from(IN_FLIGHT).unwrap())
        .stop_after(u64::MAX)
        .on_progress(move |progress| {
            // As long as there are more, another one takes the place of each that is answered.
            if progress.transactions + IN_FLIGHT > TRANSACTIONS {
                clock.leave();
            }
        })
        .upsert(stream::iter((0..ROWS).map(row)))
        .await
}

/// Item 11: loaders that together are over the targets of a partition give up the rows of each
/// transaction that was refused four times, instead of slowing down.
#[tokio::test]
#[should_panic(expected = "rows that eight throttled loaders give up: ")]
async fn a_throttled_load_loses_no_row() {
    let targets = Targets { entities_per_partition: 2000 / SCALE, ..Targets::default() };
    let server = Server::builder().manual_clock().throttle(targets).start().await.unwrap();
    let in_flight = usize::try_from(u64::from(LOADERS) * IN_FLIGHT).unwrap();
    let clock = Simulated::new(server.clock().clone(), in_flight);
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())
        .unwrap()
        .clock(clock.clone())
        .build()
        .unwrap();
    account.table("events").create().await.unwrap();
    let loads = (0..LOADERS).map(|loader| load(&account, clock.clone(), loader).boxed_local());
    let reports = join_all(loads).await;
    let written: u64 = reports.iter().map(|report| report.progress.written).sum();
    let stored = server.snapshot().table("events").map_or(0, StoredTable::len);
    assert_eq!(u64::try_from(stored).unwrap(), written, "the reports are true");
    let lost = u64::from(LOADERS * ROWS) - written;
    assert!(lost == 0, "rows that eight throttled loaders give up: {lost}");
}
