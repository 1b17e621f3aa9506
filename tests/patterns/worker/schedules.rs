//! Seeded schedules: two workers with an inbox, a writer and a redrive, one request at a time in an order that
//! the seed chooses, with requests that fail and programs that end at any of them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use rowkey::store::Deciding;
use rowkey::worker::dead_letters::Selection;
use rowkey::worker::inbox::Inbox;
use rowkey::worker::{Attempt, Handler, Step, Task, Tasks, Worker};
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Injected, Server, StoredQueue};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep;
use serde::{Deserialize, Serialize};

use super::VISIBILITY;

/// How many tasks a schedule has, each with four bits of the balance.
const TASKS: u32 = 6;
/// How many requests are let through in a schedule.
const REQUESTS: u32 = 70;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "all", row = "balance")]
struct Balance {
    sum: i64,
}

/// Adds one to the count of a task.
#[derive(Serialize, Deserialize)]
struct Deposit {
    task: u32,
}

impl Task for Deposit {
    const KIND: &'static str = "deposit";
}

fn tasks(account: &StorageAccount) -> Tasks<Deposit> {
    Tasks::new(account.queue("deposits"))
}

/// Redrives all dead letters; how many.
async fn redrive(account: &StorageAccount) -> rowkey::Result<u32> {
    let summary = tasks(account).dead_letters().redrive(&Selection::all()).await?;
    Ok(u32::try_from(summary.done).unwrap_or(u32::MAX))
}

/// A worker whose effects happen once. Tasks of odd numbers fail until something is mended.
fn worker(
    account: &StorageAccount,
    mended: &Arc<AtomicBool>,
) -> Worker<Deposit, impl Handler<Deposit> + use<>> {
    let (balances, mended) = (Deciding::new(&account.table("balances")), Arc::clone(mended));
    let handler = move |Deposit { task }: Deposit, attempt: Attempt| {
        let (balances, mended) = (balances.clone(), Arc::clone(&mended));
        async move {
            if task % 2 == 1 && !mended.load(Ordering::Relaxed) {
                return Err(Error::refused(ErrorKind::Unexpected, "it is broken"));
            }
            let effect = async |row: &DynamicEntity| loop {
                let mut balance = balances.get(Balance::key()).await?.expect("it is there");
                balance.entity.sum += 1 << (4 * task);
                let transaction = balances.table().transaction().replace(&balance).insert(row);
                match transaction.submit().await {
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    submitted => return submitted.map(drop),
                }
            };
            Inbox::new(&balances).once(&Balance::key(), &attempt, effect).await
        }
    };
    Worker::new(tasks(account), handler)
        .max_attempts(2)
        .visibility(VISIBILITY)
        .retry_backoff(Duration::ZERO, Duration::ZERO)
}

type Program<'p> = Pin<Box<dyn Future<Output = ()> + 'p>>;

/// The totals over all schedules.
#[derive(Debug, Default)]
struct Seen {
    requests: u32,
    failed: u32,
    ended: u32,
    redriven: u32,
}

/// Each request that comes is held, or fails; the schedule lets the held ones through.
struct Gate<'s> {
    server: &'s Server,
    /// Not met yet, in the order in which they will be, and whether they hold.
    coming: Vec<(Injected, bool)>,
    held: Vec<Injected>,
}

impl Gate<'_> {
    fn prepare(&mut self, random: &mut Random, seen: &mut Seen) {
        let (met, coming): (Vec<_>, Vec<_>) =
            self.coming.drain(..).partition(|(fault, _)| fault.hits() > 0);
        self.coming = coming;
        for (fault, holds) in met {
            if holds {
                self.held.push(fault);
            } else {
                seen.failed += 1;
            }
        }
        while self.coming.len() < 8 {
            let next = Fault::any().nth(1);
            let (next, holds) = match random.below(24) {
                0 => (next.close_before_commit(), false),
                1 => (next.close_after_commit(), false),
                2 => (next.reject(ErrorCode::SERVER_BUSY), false),
                _ => (next.hold(), true),
            };
            self.coming.push((self.server.inject(next), holds));
        }
    }
}

#[tokio::test]
async fn every_effect_happens_once_under_any_schedule() -> TestResult {
    let first = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&first)?;
    tasks(&account).create_if_missing().await?;
    account.table("balances").create().await?;
    account.table("balances").insert(&Balance { sum: 0 }).await?;
    let mut seen = Seen::default();
    for seed in seeds(40) {
        let _seed = Seed(seed);
        let server = first.fork().await?;
        schedule(&server, &mut Random(seed), &mut seen).await?;
    }
    eprintln!("{seen:?}");
    let Seen { requests, failed, ended, redriven } = seen;
    let is_much = [requests, failed, ended, redriven].iter().all(|count| *count > 10);
    assert!(is_much || sweep::is_brief(), "too little");
    Ok(())
}

#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn schedule(server: &Server, random: &mut Random, seen: &mut Seen) -> TestResult {
    let mended = Arc::new(AtomicBool::new(false));
    let mut gate = Gate { server, coming: Vec::new(), held: Vec::new() };
    let mut programs: Vec<Program<'_>> = Vec::new();
    let mut put = 0;
    for _ in 0..REQUESTS {
        while programs.len() < 4 {
            // Its clock stands still, as in a suspended process, while the server's clock advances.
            let account = sweep::account(server)?;
            let mended = Arc::clone(&mended);
            programs.push(match random.below(8) {
                0..4 => Box::pin(async move { drop(worker(&account, &mended).step().await) }),
                4 => Box::pin(async move { drop(redrive(&account).await) }),
                _ => {
                    let task = put % TASKS;
                    put += 1;
                    Box::pin(async move {
                        let key = task.to_string();
                        drop(tasks(&account).put_with_key(&key, &Deposit { task }).await);
                    })
                }
            });
        }
        // Until each program has a request that is held, or has ended.
        loop {
            gate.prepare(random, seen);
            poll_fn(|context| {
                programs.retain_mut(|program| program.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            if gate.held.len() >= programs.len() {
                break;
            }
            tokio::task::yield_now().await;
        }
        match random.below(16) {
            0 if !programs.is_empty() => {
                let program = random.below(u32::try_from(programs.len())?);
                drop(programs.swap_remove(usize::try_from(program)?));
                // Its request waits for a client that is gone.
                gate.held.clear();
                seen.ended += 1;
            }
            1 => server.clock().advance(VISIBILITY),
            2 => mended.store(random.one_in(2), Ordering::Relaxed),
            _ if !gate.held.is_empty() => {
                let held = random.below(u32::try_from(gate.held.len())?);
                let held = gate.held.swap_remove(usize::try_from(held)?);
                held.release();
                seen.requests += 1;
            }
            _ => {}
        }
    }
    drop(programs);
    drop(gate);
    settle(server, &mended, seen).await
}

/// Nothing is broken any more: every task that was put has its effect, once, and nothing is left.
async fn settle(server: &Server, mended: &Arc<AtomicBool>, seen: &mut Seen) -> TestResult {
    mended.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        server.clock().advance(Duration::from_secs(100));
        let account = sweep::account(server)?;
        let worker = worker(&account, mended);
        while worker.step().await? != Step::Idle {}
        seen.redriven += redrive(&account).await?;
        while worker.step().await? != Step::Idle {}
    }
    let account = sweep::account(server)?;
    for task in 0..TASKS {
        tasks(&account).put_with_key(&task.to_string(), &Deposit { task }).await?;
    }
    let worker = worker(&account, mended);
    while worker.step().await? != Step::Idle {}
    let sum = account.table("balances").get(Balance::key()).await?.ok_or("no balance")?.entity.sum;
    assert_eq!(format!("{sum:x}"), "1".repeat(usize::try_from(TASKS)?), "once each");
    let snapshot = server.snapshot();
    let left = snapshot.queue("deposits").into_iter().flat_map(StoredQueue::messages);
    assert_eq!(left.count(), 0);
    assert_eq!(tasks(&account).dead_letters().count(&Selection::all()).await?, 0);
    Ok(())
}
