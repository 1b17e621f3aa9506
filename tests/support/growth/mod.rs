//! What patterns cost by the number of their elements: members of a list, groups of a view, rows, writes that wait,
//! dead letters.
//!
//! Each [`Subject`] prepares `n` elements on a server in this process and measures one piece of work: its requests, from
//! the server's journal, and its CPU time, of client and server together. A test counts requests at small sizes
//! (`tests/growth`); the benches measure both at large ones, and include this folder by its path, because
//! their workspace does not have this package.
//!
//! - this module: [`Subject`], [`Cost`], and all [`SUBJECTS`]
//! - `stores`: lists, indexes, views, wide entities, verify, the backlog
//! - `tasks`: dead letters

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use rowkey::{ClientOptions, Clock, ManualClock, RetryOptions, StorageAccount};
use rowkey_emulator::{JournalEntry, Server};

mod stores;
mod tasks;

/// An error of a measurement.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A piece of work that grows with the number of elements.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// What is measured, `list: n inserts of one value`.
    pub name: &'static str,
    /// The sizes that are measured, smallest first.
    pub sizes: &'static [usize],
    /// The most CPU time that is proportional: the exponent of `n`. 1 is linear.
    pub exponent: f64,
    /// Does the work.
    pub run: for<'a> fn(&'a Machine, usize) -> Running<'a>,
}

/// A measurement under way.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Cost, Error>> + Send + 'a>>;

/// What a piece of work costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Requests that the server received.
    pub requests: u64,
    /// CPU time of client and server.
    pub cpu: Duration,
}

/// A server, a client, and how to read the CPU time of this process.
#[derive(Debug)]
pub struct Machine {
    /// The server, whose clock stands still until `wait`.
    pub server: Server,
    clock: ManualClock,
    /// An account that does not retry.
    pub account: StorageAccount,
    cpu: fn() -> Duration,
}

/// Sizes at which the cost of an element shows.
const SIZES: &[usize] = &[100, 1_000, 10_000];
/// An entity has at most 98 rows.
const ROWS: &[usize] = &[4, 20, 98];

/// Everything that is measured.
pub const SUBJECTS: [Subject; 14] = [
    // Every insert reads and writes the whole list, so the bytes grow with the square of the members. A list ends at
    // 512 KiB; `many` indexes do not.
    Subject {
        name: "list: n inserts of one value",
        sizes: SIZES,
        exponent: 2.0,
        run: stores::list_inserts,
    },
    Subject {
        name: "list: its n keys are read",
        sizes: SIZES,
        exponent: 1.1,
        run: stores::list_keys,
    },
    Subject {
        name: "index, many: n inserts of one value",
        sizes: SIZES,
        exponent: 1.1,
        run: stores::index_inserts,
    },
    Subject {
        name: "index, many: its n entities are read",
        sizes: SIZES,
        exponent: 1.1,
        run: stores::index_read,
    },
    Subject {
        name: "view: n inserts, a group each",
        sizes: SIZES,
        exponent: 1.1,
        run: stores::view_groups,
    },
    Subject {
        name: "view: n inserts of one group",
        sizes: SIZES,
        exponent: 1.1,
        run: stores::view_of_one_group,
    },
    Subject {
        name: "view: the minimum leaves a group of n",
        sizes: SIZES,
        exponent: 1.1,
        run: stores::view_minimum,
    },
    Subject {
        name: "wide: an entity of n rows is inserted",
        sizes: ROWS,
        exponent: 1.1,
        run: stores::wide_insert,
    },
    Subject {
        name: "wide: an entity of n rows is read",
        sizes: ROWS,
        exponent: 1.1,
        run: stores::wide_get,
    },
    Subject {
        name: "wide: one property of n rows is changed",
        sizes: ROWS,
        exponent: 1.1,
        run: stores::wide_update,
    },
    Subject {
        name: "verify: n entities with a copy each",
        sizes: SIZES,
        exponent: 1.1,
        run: stores::verify,
    },
    Subject {
        name: "backlog: n writes are settled",
        sizes: SIZES,
        exponent: 1.1,
        run: stores::backlog,
    },
    Subject {
        name: "dead letters: n tasks fail",
        sizes: SIZES,
        exponent: 1.1,
        run: tasks::failing,
    },
    Subject {
        name: "dead letters: n are put back",
        sizes: SIZES,
        exponent: 1.1,
        run: tasks::redriven,
    },
];

/// A clock on which short waits take no time and long ones do not end: workers extend their hold on a message when a
/// part of it is over, and nothing here takes that long.
#[derive(Debug)]
struct Hurried(ManualClock);

impl Clock for Hurried {
    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        if duration < Duration::from_secs(5) {
            return self.0.sleep(duration);
        }
        Box::pin(std::future::pending())
    }
}

impl Subject {
    /// Prepares `elements` on a new server and measures the work. `cpu` returns the CPU time of this process.
    pub async fn measure(&self, elements: usize, cpu: fn() -> Duration) -> Result<Cost, Error> {
        let machine = Machine::start(cpu).await?;
        (self.run)(&machine, elements).await
    }
}

impl Machine {
    async fn start(cpu: fn() -> Duration) -> Result<Self, Error> {
        let server = Server::builder().manual_clock().start().await?;
        let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
        let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
        let account = StorageAccount::builder()
            .connection_string(server.connection_string())?
            .clock(Hurried(clock.clone()))
            .options(ClientOptions { retry, ..ClientOptions::default() })
            .build()?;
        Ok(Self { server, clock, account, cpu })
    }

    /// Advances both clocks.
    fn wait(&self, time: Duration) {
        self.server.clock().advance(time);
        self.clock.advance(time);
    }

    /// The cost of a piece of work.
    async fn cost(
        &self,
        work: impl Future<Output = Result<(), Error>> + Send,
    ) -> Result<Cost, Error> {
        let received = || self.server.journal().iter().last().map_or(0, JournalEntry::number);
        let (before, begun) = (received(), (self.cpu)());
        work.await?;
        let cpu = (self.cpu)().saturating_sub(begun);
        Ok(Cost { requests: received() - before, cpu })
    }
}

/// The exponent of `n` in a cost: the slope of the line through its logarithms by least squares. 1 is linear, 2 is
/// quadratic, 0 does not depend on `n`.
#[must_use]
pub fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs = points.iter().map(|(size, cost)| (size.ln(), cost.max(f64::MIN_POSITIVE).ln()));
    let logs: Vec<_> = logs.collect();
    #[expect(clippy::cast_precision_loss, reason = "a few points")]
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let covariance: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    covariance / variance
}
