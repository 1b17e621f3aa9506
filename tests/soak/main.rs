//! The soak: four workers and a producer, tasks of every sort over a thousand keys, and everything
//! that goes wrong at random. In the end each task has had its effect exactly once.
//!
//! `cargo test -p rowkey-tests --test soak` does a small one. The figures in the book are of
//!
//! ```text
//! ROWKEY_SOAK=200000 cargo test --release -p rowkey-tests --test soak
//! ```

#![expect(clippy::print_stdout, reason = "the figures are what it is for")]
#![expect(clippy::unwrap_used, reason = "a soak that cannot go on fails")]

mod chaos;
mod jobs;
mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use futures_util::stream::{self, StreamExt as _};
use rowkey::{ClientOptions, Clock, RetryOptions, StorageAccount, SystemClock};
use rowkey_eventual::worker::Counts;
use rowkey_server::Server;
use rowkey_tests::TestResult;
use tokio::task::JoinHandle;

use crate::chaos::{Chaos, Gate};
use crate::jobs::{Doer, Job, Places, Plan};

/// How long a message stays hidden when its worker dies.
const VISIBILITY: Duration = Duration::from_secs(5);
const WORKERS: usize = 4;

fn main() -> TestResult {
    let tasks = std::env::var("ROWKEY_SOAK").ok().and_then(|tasks| tasks.parse().ok());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(soak(tasks.unwrap_or(2_000)))
}

async fn soak(tasks: u64) -> TestResult {
    let server = Server::builder().journal(false).start().await?;
    let places = Places::new(account(&server)?)?;
    places.create().await?;
    let plan = Arc::new(Plan::new(tasks));
    let start = SystemClock.now();

    let mut crew = Crew::new(&server)?;
    let chaos = Chaos::new(&server);
    let produced = Arc::new(AtomicBool::new(false));
    let producer = produce(places.clone(), Arc::clone(&plan), &chaos);
    let end = async {
        crew.run(&places, &produced, &chaos).await.unwrap();
    };
    let ((), ()) = join(
        async {
            producer.await;
            produced.store(true, Ordering::Relaxed);
        },
        end,
    )
    .await;
    let worked = SystemClock.now() - start;

    let counts = crew.counts();
    let found = verdict::check(&server, &places, &plan).await?;
    let took = SystemClock.now() - start;
    println!("soak: {tasks} tasks over {} keys, {WORKERS} workers", plan.keys);
    println!("  {} s, {} s with the verification", worked.num_seconds(), took.num_seconds());
    println!("  {chaos}");
    println!("  jobs: {}", shown(&counts));
    println!("  {found}");
    Ok(())
}

fn shown(counts: &Counts) -> String {
    let Counts { handled, suppressed, retried, poisoned, lost, unsettled, .. } = counts;
    format!(
        "{handled} handled, {suppressed} suppressed, {retried} retried, {poisoned} poisoned, {lost} \
         lost, {unsettled} unsettled"
    )
}

/// An account of a process of its own.
fn account(server: &Server) -> rowkey::Result<StorageAccount> {
    let millis = Duration::from_millis;
    let retry =
        RetryOptions { base_delay: millis(10), max_delay: millis(200), ..RetryOptions::default() };
    let options =
        ClientOptions { timeout: Duration::from_secs(10), retry, ..ClientOptions::default() };
    StorageAccount::builder()
        .connection_string(server.connection_string())?
        .options(options)
        .build()
}

/// Puts every task, some of them twice, until somebody says that it was put.
async fn produce(places: Places, plan: Arc<Plan>, chaos: &Chaos<'_>) {
    stream::iter(0..plan.tasks)
        .for_each_concurrent(24, |number| {
            let (places, plan) = (places.clone(), Arc::clone(&plan));
            async move {
                let times = if number % 50 == 7 { 2 } else { 1 };
                for _ in 0..times {
                    while places.put(&plan.job(number)).await.is_err() {
                        chaos.count_put_again();
                        SystemClock.sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        })
        .await;
}

/// The workers, and what all of them have done that ever were.
struct Crew<'s> {
    server: &'s Server,
    members: Vec<Member>,
    jobs: Vec<Arc<rowkey_eventual::worker::Worker<Job, Doer>>>,
    stop: tokio::sync::watch::Sender<bool>,
}

struct Member {
    gate: Arc<Gate>,
    task: JoinHandle<()>,
}

impl<'s> Crew<'s> {
    fn new(server: &'s Server) -> Result<Self, rowkey::Error> {
        let stop = tokio::sync::watch::Sender::new(false);
        let mut crew = Self { server, members: Vec::new(), jobs: Vec::new(), stop };
        for _ in 0..WORKERS {
            let member = crew.hire()?;
            crew.members.push(member);
        }
        Ok(crew)
    }

    /// Begins a worker, as a program of its own would be: with its own connections.
    fn hire(&mut self) -> rowkey::Result<Member> {
        let places = Places::new(account(self.server)?)?;
        let (quick, slow) = (Duration::from_millis(20), Duration::from_millis(250));
        let (second, seconds) = (Duration::from_secs(1), Duration::from_secs(4));
        let jobs = rowkey_eventual::worker::Worker::new(places.tasks.clone(), Doer(places.clone()))
            .max_attempts(10)
            .visibility(VISIBILITY)
            .concurrency(16)
            .idle_backoff(quick, slow)
            .retry_backoff(second, seconds);
        let (jobs, people) = (Arc::new(jobs), places.people);
        self.jobs.push(Arc::clone(&jobs));
        let (mut one, mut other) = (self.stop.subscribe(), self.stop.subscribe());
        let gate = Arc::new(Gate::default());
        let work = async move {
            let jobs = jobs.run_until(async move { drop(one.wait_for(|stop| *stop).await) });
            let people = people.run(async move { drop(other.wait_for(|stop| *stop).await) });
            let (jobs, people) = join(jobs, people).await;
            jobs.unwrap();
            people.unwrap();
        };
        #[expect(clippy::disallowed_methods, reason = "a process of its own, that can be killed")]
        let task = tokio::spawn(gate.clone().around(work));
        Ok(Member { gate, task })
    }

    /// Kills workers and suspends them at random until there is nothing to do.
    async fn run(
        &mut self,
        places: &Places,
        produced: &AtomicBool,
        chaos: &Chaos<'_>,
    ) -> TestResult {
        let mut empty = 0;
        for tick in 0_u64.. {
            SystemClock.sleep(Duration::from_millis(10)).await;
            if empty == 0 {
                chaos.inject();
                if let Some(victim) = chaos.kills() {
                    let next = self.hire()?;
                    let victim = &mut self.members[victim % WORKERS];
                    victim.task.abort();
                    *victim = next;
                }
                if let Some((victim, pause)) = chaos.suspends() {
                    self.members[victim % WORKERS].gate.close_for(pause);
                }
            } else {
                chaos.end();
            }
            if tick % 20 == 0 && produced.load(Ordering::Relaxed) {
                let left = places.tasks.queue().approximate_count().await.unwrap_or(1);
                empty = if left == 0 || empty > 0 { empty + 1 } else { 0 };
                if left == 0 && empty > 2 {
                    break;
                }
            }
        }
        self.stop.send_replace(true);
        for member in self.members.drain(..) {
            member.task.await?;
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.jobs.iter().map(|worker| worker.counts()).fold(Counts::default(), sum)
    }
}

fn sum(mut all: Counts, one: Counts) -> Counts {
    all.handled += one.handled;
    all.suppressed += one.suppressed;
    all.retried += one.retried;
    all.poisoned += one.poisoned;
    all.lost += one.lost;
    all.unsettled += one.unsettled;
    all
}
